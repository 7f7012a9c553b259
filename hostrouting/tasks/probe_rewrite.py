"""RewriteProbeSource: load-balancer probes over IPv6 reach the pods; see `boot.probe_table`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import phases
from hostrouting.boot.probe_table import PROBE_DELETION, TABLE, probe_comments, render_probe_table
from hostrouting.errors import HostError
from hostrouting.finding import Finding
from hostrouting.host.effects import Effects, Operation, having_changed
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.install import SectionTask
from hostrouting.tasks.obstacles import find_probe_obstacles
from hostrouting.tasks.results import Plan
from hostrouting.tasks.static_routes import ConfigureStaticRoutes

_TITLE = f"nftables table ip6 {TABLE}"


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
    nothing: ClassVar[str] = "the rewrite of probes is not enabled, and its table is not loaded"
    needed: ClassVar[tuple[type[SectionTask], ...]] = (ConfigureStaticRoutes,)

    def planned(self) -> Plan:
        is_wanted, was_wanted = self.config.probe_rewrite.enabled, self.former.probe_rewrite.enabled
        if self.host.backend is None:
            return Plan()
        if not self.host.has_program("nft"):  # if the table is wanted, `find_requirements` says it
            sentence, remedy = (
                f"{_TITLE} stays until the next boot",
                "to delete it now, install the package nftables",
            )
            left = Finding(
                "probe-rewrite",
                "warning",
                f"{sentence}: the program nft is not installed",
                "nft",
                remedy,
            )
            return Plan(findings=(left,) if was_wanted and not is_wanted else ())
        try:
            operations = tuple(self._operations(self.host.nftables.listing(TABLE)))
        except HostError:
            if is_wanted or was_wanted:
                raise
            # This process may not list it, or Linux has no nftables: nobody asked for a table.
            return Plan()
        if not is_wanted:
            return Plan(operations=operations)
        with self.host.backend() as backend:
            return Plan(
                operations=operations,
                findings=tuple(find_probe_obstacles(self.config, backend.snapshot())),
            )

    def carry_out(self, ctx: phases.Context) -> Effects | phases.Skip:
        plan, is_wanted = self.planned(), self.config.probe_rewrite.enabled
        for finding in plan.findings:
            ctx.log.log(finding.level, "%s", finding)
        if not plan.operations:
            return Effects() if is_wanted else phases.Skip(self.nothing)
        nftables = self.host.nftables
        with self.changing(ctx):
            nftables.load(
                render_probe_table(self.config.probe_rewrite) if is_wanted else PROBE_DELETION
            )
            with having_changed(operations=plan.operations):
                if any(self._operations(nftables.listing(TABLE))):
                    sentence = f"{_TITLE} is not as it was loaded: another program is changing it"
                    raise HostError(sentence, what="nft", kind="not-in-force")
        return Effects(operations=plan.operations)

    def _operations(self, listing: str | None) -> Iterator[Operation]:
        """What has to be done; the listing is None if there is no table."""
        config = self.config.probe_rewrite
        if not config.enabled:
            if listing is not None:
                yield Operation("delete", _TITLE, "it is no longer wanted")
        elif listing is None:
            yield Operation("create", _TITLE, "it is missing")
        elif "flags dormant" in listing or any(
            comment not in listing for comment in probe_comments(config)
        ):
            yield Operation("replace", _TITLE, "it differs from this configuration")
