"""Makes the static routes right, once. Whoever calls it has the lock of the host meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hostrouting.routes.apply import Applied, apply_plan
from hostrouting.routes.plan import plan_static_routes, reply_routes

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.kernel.base import RouteBackend, RouteRequest


def keep_routes(
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    may_move: bool = False,
    check: Callable[[], object] = lambda: None,
    done: list[RouteRequest] | None = None,
) -> Applied:
    """Bring the routes of the host to those of the configuration, all or none. If one has to wait,
    nothing is changed, and the plan says for what. Routes of ours that work are moved only if this
    `may_move` them. Raises what `apply_plan` raises, which has the other options.
    """
    configured = (*config.static_routes.routes, *reply_routes(config))
    before = backend.snapshot(near=[route.key.prefix for route in configured])
    plan = plan_static_routes(config, before, may_move=may_move)
    plan.require_no_conflict()
    if plan.waiting:
        return Applied(plan)
    return apply_plan(plan, backend, before=before, check=check, done=done)
