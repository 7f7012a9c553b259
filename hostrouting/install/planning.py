"""What a run would do on a host, and whether it must fail before its first change.

`plan` is the value that comes out. Nothing is changed here.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import attrs

from hostrouting.boot.enforced import read_enforced
from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.errors import ConfigError, Fault, RequirementError
from hostrouting.finding import Finding, Remedy
from hostrouting.install.difference import find_file_changes, find_systemd_changes
from hostrouting.install.host_check import take_snapshot
from hostrouting.install.installed import read_installed
from hostrouting.install.losses import find_losses
from hostrouting.install.obstacles import find_ungated
from hostrouting.install.plan import ALLOWED_BY, LET_THEM_GO, Plan
from hostrouting.install.requirements import find_requirements
from hostrouting.install.session_risk import find_session_at_risk
from hostrouting.install.undo import before_of
from hostrouting.model.prefix import Prefix
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hostrouting.config.settings import Network
    from hostrouting.host.host import Host
    from hostrouting.install.task import SectionTask
    from hostrouting.install.wanted import Wanted
    from hostrouting.model.snapshot import Snapshot

_LATER = ("removal", "route-not-configured", "route-conflict")
"""The errors of a plan that `require_possible` raises after the others, or not at all."""


def make_plan(
    host: Host,
    wanted: Wanted,
    parts: Sequence[SectionTask],
    *,
    allow_removal: bool,
    with_check: bool = False,
) -> Plan:
    """What would change, and what stands against it. Raises the error of a config.json that cannot
    be read, unless its protection may be removed.

    A dry run has the check of the host afterwards, too. A run does this check itself, after its
    changes: before them, it only looks for routes that it must not delete.
    """
    read_snapshot = cache(partial(take_snapshot, host))
    plan = _find_changes(host, wanted, parts, read_snapshot)
    if not allow_removal:
        plan = plan.with_losses(_find_all_losses(host, wanted))
    must_keep_routes = plan.deletes_routes and not allow_removal
    if not with_check and not must_keep_routes:
        return plan
    checked = plan.with_check(wanted.config, read_snapshot())
    if not allow_removal:
        checked = checked.with_lost_routes_as_errors(is_installed=wanted.is_installed)
        undecided = _find_undecided_routes(wanted, plan)
        checked = attrs.evolve(checked, findings=(*checked.findings, *undecided))
    if with_check:
        return checked
    lost = [finding for finding in checked.errors if finding.name == "route-not-configured"]
    return attrs.evolve(plan, findings=(*plan.findings, *lost))


def _find_changes(
    host: Host,
    wanted: Wanted,
    parts: Sequence[SectionTask],
    read_snapshot: Callable[[], Snapshot],
) -> Plan:
    """What would change in the files, in systemd and in the kernel, and what the host lacks for
    it.
    """
    config = wanted.config
    files = find_file_changes(host, config)
    plan = Plan(
        files,
        tuple(find_systemd_changes(host.running_manager, config, wanted.former, files)),
        findings=(*find_requirements(host, config, files), *find_ungated(config, host)),
    )
    for part in parts:
        plan = plan.with_part(part.planned(wanted, read_snapshot))
    if not plan.routes.changes:
        return plan
    prefixes = [step.route.prefix for step in plan.routes.changes]
    snapshot = read_snapshot()
    risks = find_session_at_risk(
        host, prefixes, snapshot, after=partial(plan.routes.apply_to, snapshot)
    )
    return attrs.evolve(plan, findings=(*plan.findings, *risks))


def _find_all_losses(host: Host, wanted: Wanted) -> tuple[Fault, ...]:
    """What this configuration takes away: of the installed configuration, and of what the scripts
    do, because config.json may have been edited since.
    """
    installed = wanted.former
    if installed is None:
        installed = read_installed(host)  # raises why, or the file can be read again
    losses = [*find_losses(installed, wanted.config)]
    if gated_on_disk(host.files):  # else nothing runs the gate
        losses += find_losses(read_enforced(host.files), wanted.config)
    return tuple(dict.fromkeys(losses))


def _find_undecided_routes(wanted: Wanted, plan: Plan) -> Iterator[Finding]:
    """The routes that somebody has typed and that the run would delete after a wait, in STRICT.
    What escapes without them cannot be said before: the devices may be unknown until then.
    """
    settings = wanted.config.route_overlap
    if settings.mode == "WARN" or not plan.routes.waiting:
        return
    routes = before_of(wanted, plan).typed
    typed = [str(route.prefix) for route in routes if _overlaps(route.prefix, settings.cidrs)]
    if not typed:
        return
    sentence = (
        f"{spoken(typed)} would lose a route that is not in the configuration, and whether "
        "addresses escape without it cannot be said while another route waits"
    )
    remedy = Remedy("run this again when no route waits", otherwise=LET_THEM_GO)
    facts = {"unconfigured": typed, "ranges": [], "routes": []}
    yield Finding(
        "route-not-configured", "error", sentence, spoken(typed), remedy, facts, can_retry=True
    )


def _overlaps(prefix: Prefix, cidrs: Iterable[Network]) -> bool:
    """Whether the prefix has an address in one of these CIDRs."""
    return any(prefix.overlaps(Prefix.of(cidr)) for cidr in cidrs)


def require_possible(host: Host, wanted: Wanted, plan: Plan) -> None:
    """Raise the error of a run that must fail before its first change: for what the host lacks, for
    protection or routes that would be lost, for a new conflict of routes, and for missing rights,
    in this order.

    A conflict is no reason on a new host, or if the installed configuration has it already: the
    gate then holds units back until it is solved. Nor is an escape: that is what the gate is for.
    """
    lacking = [finding for finding in plan.errors if finding.name not in _LATER]
    if lacking:
        raise RequirementError(findings=lacking)
    if plan.losses:
        headline = f"this would remove protection (to allow it: {ALLOWED_BY}):"
        raise ConfigError(plan.losses, headline=headline)
    lost = [finding for finding in plan.errors if finding.name == "route-not-configured"]
    if lost:
        raise RequirementError(findings=lost)
    conflicts = plan.routes.conflicts
    new = [step for step in conflicts if step.route.key not in wanted.former_keys]
    if new and not wanted.is_on_new_host:
        plan.routes.require_possible()
    if host.backend is not None and plan.changes_kernel:
        host.rights().require_network()
