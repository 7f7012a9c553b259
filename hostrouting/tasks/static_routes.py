"""ConfigureStaticRoutes: the static routes of the configuration, now and at every boot."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import phases
from hostrouting.errors import NotReady, RouteConflict
from hostrouting.host.effects import Effects, having_changed
from hostrouting.host.layout import HostLayout
from hostrouting.install.plan import Plan
from hostrouting.install.task import SectionTask, own_constructor
from hostrouting.kernel.awaiting import await_result
from hostrouting.routes.apply import Applied, apply_plan
from hostrouting.routes.plan import plan_static_routes
from hostrouting.routes.steps import RoutePlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.install.wanted import Wanted
    from hostrouting.kernel.base import RouteBackend, RouteRequest
    from hostrouting.model.snapshot import Snapshot


@own_constructor
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
    reason_to_skip: ClassVar[str] = "no static routes are configured, and none are installed"

    def planned(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan:
        routes = plan_static_routes(wanted.config, read_snapshot())
        return Plan(routes=routes, findings=routes.findings())

    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        if self.host.backend is None:
            return phases.Skip("an image has no routes; they are set when it boots")
        with self.host.backend() as backend:
            try:
                applied = self._await_and_apply(ctx, backend, wanted)
            except (RouteConflict, NotReady):
                if not wanted.is_undo:
                    raise
                deleted = self._delete_unconfigured(ctx, backend, wanted)
                with having_changed(deleted.changes):  # the error has them, too
                    raise
        for finding in applied.plan.warnings:
            ctx.log.warning("%s", finding, extra={"finding": finding.name})
        if applied.plan == RoutePlan():
            return phases.Skip(self.reason_to_skip)
        if not applied.changes:
            return phases.Skip("the routes are as they should be")
        return Effects(applied.changes)

    def _await_and_apply(
        self, ctx: phases.Context, backend: RouteBackend, wanted: Wanted
    ) -> Applied:
        """Wait until every route can be planned, then apply the plan; wait again if something has
        gone in between.

        Other sections say something about the routes, too, and another run may have replaced them:
        what is installed counts.
        """
        until = ctx.clock.now() + self.wait
        while True:
            left = max(0.0, until - ctx.clock.now())
            plan = _await_plan(ctx, backend, self.require_installed(wanted), wait=left)
            if not plan.changes:
                return Applied(plan)
            applied = self._apply(ctx, backend, wanted)
            if applied is not None:
                return applied

    def _apply(self, ctx: phases.Context, backend: RouteBackend, wanted: Wanted) -> Applied | None:
        """Apply the plan of this moment; None if something is missing again.

        Under the lock, the plan is made anew: others may have changed routes while this run waited
        for the lock.
        """
        with self.changing(ctx, wanted) as config:
            snapshot = backend.snapshot()
            plan = plan_static_routes(config, snapshot)
            if plan.waiting:
                return None
            return _apply_plan(ctx, backend, plan, snapshot)

    def _delete_unconfigured(
        self, ctx: phases.Context, backend: RouteBackend, wanted: Wanted
    ) -> Applied:
        """Delete the routes that are not configured, though no other change is possible: an undo
        leaves none of what it takes back.
        """
        with self.changing(ctx, wanted) as config:
            snapshot = backend.snapshot()
            plan = plan_static_routes(config, snapshot).deletions
            return _apply_plan(ctx, backend, plan, snapshot)


def _apply_plan(
    ctx: phases.Context, backend: RouteBackend, plan: RoutePlan, before: Snapshot
) -> Applied:
    """Carry out the plan; an error has what was changed all the same.

    If the run is cancelled meanwhile, `ctx.check` raises that, and the changes are taken back.
    """
    done: list[RouteRequest] = []
    with having_changed(done):
        return apply_plan(plan, backend, before=before, check=ctx.check, done=done)


def _await_plan(
    ctx: phases.Context, backend: RouteBackend, config: HostRoutingConfig, *, wait: float
) -> RoutePlan:
    """The plan, once nothing is missing for it; NotReady says what was missing at the end.

    Raises RouteConflict at once: no wait would end a conflict.
    """
    last_plan = RoutePlan()

    def attempt() -> tuple[RoutePlan | None, str]:
        nonlocal last_plan
        last_plan = plan_static_routes(config, backend.snapshot())
        last_plan.require_possible()
        if last_plan.waiting:
            return None, "; ".join(map(str, last_plan.route_waits))
        return last_plan, ""

    try:
        return await_result(ctx, backend, attempt, wait=wait)
    except NotReady as error:
        missing = [finding._replace(severity="error") for finding in last_plan.route_waits]
        raise NotReady(str(error), findings=missing) from error
