"""ConfigureStaticRoutes: the static routes of the configuration, now and at every boot."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import phases
from hostrouting.errors import NotReady, RouteConflict
from hostrouting.host.effects import Effects, recorded_in_errors
from hostrouting.install.plan import Plan
from hostrouting.install.task import SectionTask
from hostrouting.kernel.awaiting import await_result
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.keep import keep_routes
from hostrouting.routes.plan import plan_static_routes
from hostrouting.routes.steps import RoutePlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.install.wanted import Wanted
    from hostrouting.kernel.base import RouteBackend, RouteRequest
    from hostrouting.model.snapshot import Snapshot


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
    reason_to_skip: ClassVar[str] = "no static routes are configured, and none are installed"

    def planned(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan:
        return Plan(routes=plan_static_routes(wanted.config, read_snapshot()))

    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        if self.host.is_image:
            return phases.Skip("an image has no routes; they are set when it boots")
        done: list[RouteRequest] = []
        with self.host.open_kernel() as backend, recorded_in_errors(done):
            try:
                plan = self._await_and_apply(ctx, backend, wanted, done)
            except (RouteConflict, NotReady):
                if wanted.is_undo:
                    self._delete_unconfigured(ctx, backend, wanted, done)
                raise
        for finding in plan.warnings:
            ctx.log.warning("%s", finding, extra={"finding": finding.name})
        if done or plan.warnings:
            return Effects(tuple(done), warnings=plan.warnings)
        if plan == RoutePlan():
            return phases.Skip(self.reason_to_skip)
        return phases.Skip("the routes are as they should be")

    def _await_and_apply(
        self, ctx: phases.Context, backend: RouteBackend, wanted: Wanted, done: list[RouteRequest]
    ) -> RoutePlan:
        """Make the routes right, once nothing is missing for that; NotReady says what was missing
        at the end. Raises RouteConflict at once: no wait would end a conflict. If the run is
        cancelled before the last change, the changes are taken back.

        Other sections say something about the routes, too, and another run may have replaced them:
        what is installed counts.
        """
        plan = RoutePlan()

        def attempt() -> tuple[RoutePlan | None, str]:
            nonlocal plan
            plan = plan_static_routes(self.require_installed(wanted), backend.snapshot())
            plan.require_no_conflict()
            if plan.changes and not plan.waiting:
                with self.changing(ctx, wanted) as config:
                    plan = keep_routes(backend, config, done=done, may_move=True, check=ctx.check)
            if plan.waiting:
                return None, "; ".join(map(str, plan.route_waits))
            return plan, ""

        try:
            return await_result(ctx, backend, attempt, wait=self.wait)
        except NotReady as error:
            if error.kind:  # another run is busy
                raise
            raise NotReady(str(error), findings=plan.failed_waits) from error

    def _delete_unconfigured(
        self, ctx: phases.Context, backend: RouteBackend, wanted: Wanted, done: list[RouteRequest]
    ) -> None:
        """Delete the routes that are not configured, though no other change is possible: an undo
        leaves none of what it takes back.
        """
        with self.changing(ctx, wanted) as config:
            snapshot = backend.snapshot()
            plan = plan_static_routes(config, snapshot).deletions
            apply_plan(plan, backend, before=snapshot, done=done)
