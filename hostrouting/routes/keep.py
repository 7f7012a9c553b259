"""Makes the static routes right, once. Whoever calls it has the lock of the host meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import plan_static_routes, reply_routes

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.kernel.base import RouteBackend, RouteRequest
    from hostrouting.routes.steps import RoutePlan


def keep_routes(
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    done: list[RouteRequest],
    may_move: bool = False,
    check: Callable[[], object] = lambda: None,
) -> RoutePlan:
    """Bring the routes of the host to those of the configuration, all or none; return the plan. If
    a route has to wait, nothing is changed. Routes of ours that work are moved only if this
    `may_move` them. Raises what `apply_plan` raises, which has the other options.
    """
    configured = (*config.static_routes.routes, *reply_routes(config))
    before = backend.snapshot(near=[route.key.prefix for route in configured])
    plan = plan_static_routes(config, before, may_move=may_move)
    plan.require_no_conflict()
    if not plan.waiting:
        apply_plan(plan, backend, before=before, done=done, check=check)
    return plan
