"""ConfigureStaticRoutes: the static routes of the configuration, now and at every boot."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import phases
from hostrouting.check.examine import await_plan, read
from hostrouting.errors import ApplyError
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import RoutePlan, plan_routes
from hostrouting.routes.uplink import wanted_routes
from hostrouting.tasks.install import SectionTask
from hostrouting.tasks.results import Plan, RoutesResult

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot


class ConfigureStaticRoutes(SectionTask):
    """Set the static routes of the configuration, now and at every boot, before any gated unit starts.

    What a route leaves open is taken from the default route, for which the task waits. All routes are set or none. A
    route of another program with the same destination and metric is a RouteConflict and stays as it is. Routes of ours
    (protocol 213) that are not configured any more are deleted.
    """

    name: ClassVar[str] = "configure-static-routes"
    section: ClassVar[str] = "static_routes"
    nothing: ClassVar[str] = "no static routes are configured, and none are installed"

    def planned(self) -> Plan:
        """See SectionTask."""
        if self.host.backend is None:
            return Plan()
        with self.host.backend() as backend:
            routes = self._plan(read(backend)[0])
        return Plan(routes=routes, findings=tuple(routes.findings(wait=self.wait)))

    def carry_out(self, ctx: phases.Context) -> RoutesResult | phases.Skip:
        """See SectionTask."""
        host = self.host
        if host.backend is None:
            return RoutesResult()
        with host.backend() as backend:
            plan, snapshot = await_plan(ctx, backend, self._plan, wait=self.wait)
            if not plan.changes and not plan.conflicts:
                return RoutesResult(plan=plan) if plan.steps else phases.Skip(self.nothing)
            # Ctrl-C must not interrupt the transaction; ctx.check sees the cancellation, and it is taken back.
            with host.locked(ctx), ctx.shielded():
                try:
                    applied = apply_plan(plan, backend, before=snapshot, check=ctx.check)
                except ApplyError as error:
                    if error.__cause__ or not error.refused:
                        raise
                    # The kernel refused nothing: another program changed our routes, perhaps only once.
                    snapshot, _ = read(backend)
                    applied = apply_plan(self._plan(snapshot), backend, before=snapshot, check=ctx.check)
        for finding in applied.plan.foreseen:
            ctx.log.warning("%s", finding)
        return RoutesResult(applied.changes, plan=applied.plan)

    def _plan(self, snapshot: Snapshot) -> RoutePlan:
        """The plan; optional routes that cannot be set now are left out."""
        wishes = wanted_routes(self.config)
        plan = plan_routes(wishes, snapshot)
        late = {pending.desired.key for pending in plan.pending if pending.desired.is_optional}
        return plan_routes([wish for wish in wishes if wish.key not in late], snapshot) if late else plan
