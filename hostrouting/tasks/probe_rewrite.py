"""RewriteProbeSource: load-balancer probes over IPv6 reach the pods; see `boot.probe_table`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import phases
from hostrouting.boot.probe_table import PROBE_DELETION, TABLE, probe_comments, render_probe_table
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy
from hostrouting.host.effects import Effects, Operation
from hostrouting.host.layout import HostLayout
from hostrouting.install.obstacles import find_probe_obstacles
from hostrouting.install.plan import Plan
from hostrouting.install.task import SectionTask, own_constructor
from hostrouting.tasks.static_routes import ConfigureStaticRoutes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostrouting.config.settings import ProbeRewriteConfig
    from hostrouting.install.wanted import Wanted
    from hostrouting.kernel.nftables import Nftables
    from hostrouting.model.snapshot import Snapshot

_TITLE = f"nftables table ip6 {TABLE}"
_STAYS = Finding(
    "probe-rewrite",
    "warning",
    f"{_TITLE} stays until the next boot: the program nft is not installed",
    "nft",
    Remedy("to delete it now, install the package nftables"),
)


@own_constructor
class RewriteProbeSource(SectionTask):
    """Load the table that rewrites the source of probes, now, at every boot and before any gated
    unit starts.

    The table is stateless and loaded in one transaction; other tables are not touched. The route
    for the replies is one of the static routes, which this task also sets. A unit never waits for
    probes: if the table cannot be loaded at boot, this is logged as a warning.
    """

    name = "rewrite-probe-source"
    section: ClassVar[str] = "probe_rewrite"
    step: ClassVar[str] = HostLayout.probe_step
    reason_to_skip: ClassVar[str] = (
        "the rewrite of probes is not enabled, and its table is not loaded"
    )
    needed: ClassVar[tuple[type[SectionTask], ...]] = (ConfigureStaticRoutes,)

    def planned(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan:
        is_wanted = wanted.config.probe_rewrite.enabled
        was_wanted = wanted.former is not None and wanted.former.probe_rewrite.enabled
        if not self.host.has_program("nft"):
            # If the table is wanted, `find_requirements` says it.
            if was_wanted and not is_wanted:
                return Plan(findings=(_STAYS,))
            return Plan()
        try:
            operations = tuple(_find_operations(self.host.nftables, wanted.config.probe_rewrite))
        except HostError:
            if is_wanted or was_wanted:
                raise
            # This process may not list it, or Linux has no nftables: nobody asked for a table.
            return Plan()
        if not is_wanted:
            return Plan(operations=operations)
        obstacles = tuple(find_probe_obstacles(wanted.config, read_snapshot()))
        return Plan(operations=operations, findings=obstacles)

    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        if self.host.backend is None:
            return self._unchanged(wanted)
        with self.host.backend() as backend:
            plan = self.planned(wanted, backend.snapshot)
        for finding in plan.findings:
            ctx.log.log(finding.level, "%s", finding)
        if not plan.operations:
            return self._unchanged(wanted)
        table = PROBE_DELETION
        if wanted.config.probe_rewrite.enabled:
            table = render_probe_table(wanted.config.probe_rewrite)
        with self.changing(ctx, wanted):  # fails if another run has replaced this section
            self.host.nftables.load(table)
        return Effects(operations=plan.operations)

    def _unchanged(self, wanted: Wanted) -> phases.Skip:
        """The result where there is nothing to do."""
        if not wanted.config.probe_rewrite.enabled:
            return phases.Skip(self.reason_to_skip)
        if self.host.backend is None:
            return phases.Skip("an image has no table; it is loaded when it boots")
        return phases.Skip("the table is as it should be")


def _find_operations(nftables: Nftables, settings: ProbeRewriteConfig) -> Iterator[Operation]:
    """What has to be done about the table; nothing if it is as it should be."""
    listing = nftables.listing(TABLE)
    if not settings.enabled:
        if listing is not None:
            yield Operation("delete", _TITLE, "it is no longer wanted")
    elif listing is None:
        yield Operation("create", _TITLE, "it was missing")
    elif not _is_in_force(listing, settings):
        yield Operation("replace", _TITLE, "it differed from this configuration")


def _is_in_force(listing: str, settings: ProbeRewriteConfig) -> bool:
    """Whether the listed table has the rules of these settings. A dormant table does nothing."""
    if "flags dormant" in listing:
        return False
    return all(comment in listing for comment in probe_comments(settings))
