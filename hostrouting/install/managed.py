"""What hostrouting has installed on a host, as far as advice depends on it.

Where hostrouting is installed, the gate and the guard delete every route of ours that the installed
configuration does not have. So a repair has to be part of the configuration there, and `apply` must
not refuse that configuration.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.check.proposal import find_by_hand, propose_configuration
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError, HostRoutingError, is_denied
from hostrouting.finding import Finding, Remedy
from hostrouting.gate.unit_states import is_masked_unit
from hostrouting.host.layout import HostLayout
from hostrouting.install.installed import read_installed
from hostrouting.install.losses import find_losses, outside
from hostrouting.install.typed_commands import GUARD_IS_MASKED, TO_KEEP
from hostrouting.text import spoken
from hostrouting.upkeep.passes import configured_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.check.results import CheckReport
    from hostrouting.errors import Fault
    from hostrouting.host.host import Host
    from hostrouting.model.snapshot import Snapshot


_Reading: TypeAlias = Literal["done", "denied", "failed"]
"""Whether this process could read the installed configuration. If that was denied, root can perhaps
read it. If it failed, the configuration is broken, and that of a repair replaces it.
"""


class Managed(NamedTuple):
    """A host on which hostrouting is installed, and what a repair has to take care of there."""

    reading: _Reading
    is_repaired_by_apply: bool = False
    """Whether the installed configuration is that of the repair, so `apply` of it is all that is
    lacking.
    """
    losses: tuple[Fault, ...] = ()
    """What protects the host now, and is not in the configuration of the repair."""
    unconfigured: tuple[Finding, ...] = ()
    """The routes that are only on the host, and without which addresses escape."""
    is_guard_masked: bool = False
    """Whether `apply` of the repair would fail because it cannot start the guard."""

    @property
    def needs_consent(self) -> bool:
        """Whether `apply` would refuse the repair, unless the removal is allowed."""
        return bool(self.losses) or self.reading == "failed"

    def findings(
        self, config: HostRoutingConfig, now: CheckReport, pipeline: str
    ) -> Iterator[Finding]:
        """What hinders the repair that is typed with this pipeline; and which routes the host has
        now and will not keep, which only the installed configuration says.
        """
        if self.is_guard_masked:
            yield GUARD_IS_MASKED
        if self.reading != "done":
            return
        yield from find_by_hand(config, now=now, pipeline=pipeline)
        for finding in self.unconfigured:
            yield finding._replace(remedy=Remedy(TO_KEEP, pipeline))


def find_managed(host: Host, config: HostRoutingConfig, snapshot: Snapshot) -> Managed | None:
    """What is installed here, for a repair of this configuration; None if nothing is."""
    is_guard_masked = config.guard.enabled and _is_guard_masked(host)
    try:
        installed = read_installed(host)
    except HostRoutingError as error:
        reading: _Reading = "denied" if is_denied(error) else "failed"
        return Managed(reading, is_guard_masked=is_guard_masked)
    if installed == HostRoutingConfig():
        return None
    deleter = _deleter(config, installed)
    proposal = propose_configuration(config, snapshot, deleter=deleter)
    return Managed(
        "done",
        is_repaired_by_apply=proposal.config == installed,
        losses=tuple(find_losses(installed, proposal.config)),
        unconfigured=proposal.unconfigured,
        is_guard_masked=is_guard_masked,
    )


def _deleter(config: HostRoutingConfig, installed: HostRoutingConfig) -> str:
    """What deletes the routes of ours that this configuration does not have, and the verb. Of
    several occasions, the first one comes first.
    """
    if config.static_routes != installed.static_routes:
        # The gate and the guard only know the installed routes: they delete others.
        return "apply would delete"
    occasions: list[str] = []
    if "routes" in configured_parts(installed):
        if installed.guard.enabled:
            occasions.append("pass of the guard")
        occasions.append("start of a gated unit")
    if not _refuses_escapes(installed, config):
        occasions.append("apply")
    occasions.append("boot")
    return f"the next {spoken(occasions, last='or')} deletes"


def _refuses_escapes(installed: HostRoutingConfig, config: HostRoutingConfig) -> bool:
    """Whether `apply` of the installed configuration refuses to delete the routes without which
    addresses of this one would escape: in STRICT, and only for its own CIDRs.
    """
    section = installed.route_overlap
    return section.is_strict and not outside(section.cidrs, config.route_overlap.cidrs)


def _is_guard_masked(host: Host) -> bool:
    """Whether systemd refuses to start the guard; false if it does not answer."""
    manager = host.running_manager
    if manager is None:
        return False
    with suppress(HostError):
        return is_masked_unit(manager, HostLayout.guard_unit)
    return False
