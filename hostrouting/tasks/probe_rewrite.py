"""RewriteProbeSource: load-balancer probes over IPv6 reach the pods; see `probe.table`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import phases
from hostrouting.errors import HostError
from hostrouting.host.effects import Effects, Operation
from hostrouting.install.plan import Plan
from hostrouting.install.task import SectionTask
from hostrouting.probe.load import Difference, find_difference, load_table
from hostrouting.probe.obstacles import find_probe_obstacles
from hostrouting.probe.table import TABLE
from hostrouting.tasks.static_routes import ConfigureStaticRoutes

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.install.wanted import Wanted
    from hostrouting.model.snapshot import Snapshot

_TITLE = f"nftables table ip6 {TABLE}"
_OPERATIONS: dict[Difference, Operation] = {
    "missing": Operation("create", _TITLE, "it was missing"),
    "different": Operation("replace", _TITLE, "it differed from this configuration"),
    "unwanted": Operation("delete", _TITLE, "it is no longer wanted"),
}
"""By what is wrong with the table: what is done about it."""


class RewriteProbeSource(SectionTask):
    """Load the table that rewrites the source of probes, now, at every boot and before any gated
    unit starts.

    The table is stateless and loaded in one transaction; other tables are not touched. The route
    for the replies is one of the static routes, which this task also sets. A unit never waits for
    probes: if the table cannot be loaded at boot, this is logged as a warning.
    """

    name = "rewrite-probe-source"
    section: ClassVar[str] = "probe_rewrite"
    reason_to_skip: ClassVar[str] = (
        "the rewrite of probes is not enabled, and its table is not loaded"
    )
    needed: ClassVar[tuple[type[SectionTask], ...]] = (ConfigureStaticRoutes,)

    def planned(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan:
        operations: tuple[Operation, ...] = ()
        difference = self._find_difference(wanted)
        if difference:
            operations = (_OPERATIONS[difference],)
        obstacles = tuple(find_probe_obstacles(wanted.config, read_snapshot()))
        return Plan(operations=operations, obstacles=obstacles)

    def _find_difference(self, wanted: Wanted) -> Difference:
        """What is wrong with the table now."""
        try:
            return find_difference(self.host.nftables, wanted.config.probe_rewrite)
        except HostError:
            # Where nobody has asked for a table, nft need not be there, and Linux need not have it.
            if any(each and each.probe_rewrite.enabled for each in (wanted.config, wanted.former)):
                raise
            return ""

    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        if not self.host.is_image and self._find_difference(wanted):
            # This fails if another run has replaced this section.
            with self.changing(ctx, wanted) as config:
                difference = load_table(self.host.nftables, config.probe_rewrite)
            if difference:
                return Effects(operations=(_OPERATIONS[difference],))
        if not wanted.config.probe_rewrite.enabled:
            return phases.Skip(self.reason_to_skip)
        if self.host.is_image:
            return phases.Skip("an image has no table; it is loaded when it boots")
        return phases.Skip("the table is as it should be")
