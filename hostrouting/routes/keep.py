"""Makes the static routes right, once. Whoever calls it has the lock of the host meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from hostrouting.errors import ApplyError, NotReady
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import plan_static_routes, reply_routes
from hostrouting.routes.steps import RoutePlan

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.kernel.base import RouteBackend, RouteRequest

Purpose: TypeAlias = Literal["upkeep", "apply", "undo"]
"""What it is for: to keep right what is there; to bring there what somebody has just configured,
which also moves routes of ours that work; or to take that back.
"""


def keep_routes(
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    done: list[RouteRequest],
    purpose: Purpose = "upkeep",
    check: Callable[[], object] = lambda: None,
) -> RoutePlan:
    """Bring the routes of the host to those of the configuration, all or none; return the plan. An
    undo deletes those that are not configured in any case. `done` gets the changes that are in
    effect. Raises NotReady if a route has to wait, and what `apply_plan` raises, which has the
    other options.

    The route for replies to probes comes last, and holds nothing back: if Linux refuses it, as
    where IPv6 is disabled on its device, the plan has that as a warning.
    """
    configured = {route.key for route in config.static_routes.routes}
    replies = {route.key for route in reply_routes(config)} - configured
    wanted = configured | replies
    before = backend.snapshot(near=[key.prefix for key in wanted])
    plan = plan_static_routes(config, before, may_move=purpose != "upkeep")
    unconfigured = tuple(step for step in plan.steps if step.route.key not in wanted)
    if unconfigured:
        # A rollback has to know what else has the key of a route that only goes.
        before = backend.snapshot(near=[step.route.prefix for step in plan.steps])
    steps = plan.steps
    if plan.conflicts or plan.waiting:
        steps = unconfigured if purpose == "undo" else ()

    of_replies = RoutePlan(tuple(step for step in steps if step.route.key in replies))
    others = tuple(step for step in steps if step.route.key not in replies)
    apply_plan(RoutePlan(others), backend, before=before, done=done, check=check)
    try:
        apply_plan(of_replies, backend, before=before, done=done)
    except ApplyError as error:
        plan = plan.with_reply_warnings(error.findings)
    plan.require_no_conflict()
    if plan.waiting:
        raise NotReady("; ".join(map(str, plan.route_waits)), findings=plan.failed_waits)
    return plan
