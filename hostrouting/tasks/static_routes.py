"""ConfigureStaticRoutes: the static routes of the configuration, now and at every boot."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import phases
from hostrouting.errors import NotReady
from hostrouting.host.effects import Effects
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.awaiting import await_result
from hostrouting.routes.apply import Applied, apply_plan
from hostrouting.routes.plan import RoutePlan, plan_static_routes
from hostrouting.tasks.install import SectionTask
from hostrouting.tasks.results import Plan

if TYPE_CHECKING:
    from hostrouting.finding import Finding
    from hostrouting.kernel.base import RouteBackend


class ConfigureStaticRoutes(SectionTask):
    """Set the static routes of the configuration, now and at every boot, before any gated unit
    starts.

    A route without a gateway or a device uses those of the default route, for which the task waits.
    Either all routes are set or none. If another program has a route with the same destination and
    metric, RouteConflict is raised, and the route is not changed. Routes of hostrouting (protocol
    213) that are not configured any more are deleted.
    """

    name = "configure-static-routes"
    section: ClassVar[str] = "static_routes"
    step: ClassVar[str] = HostLayout.routes_step
    nothing: ClassVar[str] = "no static routes are configured, and none are installed"

    def planned(self) -> Plan:
        if self.host.backend is None:
            return Plan()
        with self.host.backend() as backend:
            routes = plan_static_routes(self.config, backend.snapshot())
        return Plan(routes=routes, findings=tuple(routes.findings()))

    def carry_out(self, ctx: phases.Context) -> Effects | phases.Skip:
        if self.host.backend is None:
            return Effects()
        until, applied = ctx.clock.now() + self.wait, None
        with self.host.backend() as backend:
            while applied is None:
                left = max(0.0, until - ctx.clock.now())
                plan = self._await_plan(ctx, backend, wait=left)
                is_done = not (plan.changes or plan.conflicts)
                applied = Applied(plan) if is_done else self._apply(ctx, backend)
        for finding in (*applied.plan.left_out, *applied.plan.stays):
            ctx.log.warning("%s", finding, extra={"finding": finding.name})
        if applied.plan == RoutePlan():
            return phases.Skip(self.nothing)
        return Effects(applied.changes)

    def _await_plan(self, ctx: phases.Context, backend: RouteBackend, *, wait: float) -> RoutePlan:
        waits: list[Finding] = []

        def attempt() -> tuple[RoutePlan | None, str]:
            plan = plan_static_routes(self.config, backend.snapshot())
            waits[:] = (
                lack._replace(severity="error")
                for lack in plan.findings()
                if lack.name == "route-waits"
            )
            return (
                (None, "; ".join(finding.sentence for finding in waits))
                if plan.pending
                else (plan, "")
            )

        try:
            return await_result(ctx, backend, attempt, wait=wait)
        except NotReady as error:
            raise NotReady(str(error), findings=waits) from error

    def _apply(self, ctx: phases.Context, backend: RouteBackend) -> Applied | None:
        """Apply the plan of this moment; None if something is missing again.

        Under the lock, the plan is made anew: others may have changed routes while this run waited
        for the lock.
        """
        # Ctrl-C must not interrupt the transaction; ctx.check sees the cancellation, and the
        # changes are taken back.
        with self.changing(ctx) as config, ctx.shielded():
            snapshot = backend.snapshot()
            plan = plan_static_routes(config, snapshot)
            return (
                None
                if plan.pending
                else apply_plan(plan, backend, before=snapshot, check=ctx.check)
            )
