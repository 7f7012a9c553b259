"""Makes the static routes right, once. Whoever calls it has the lock of the host meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.routes.apply import Applied, apply_plan
from hostrouting.routes.plan import plan_static_routes, reply_routes

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.kernel.base import RouteBackend


def keep_routes(backend: RouteBackend, config: HostRoutingConfig, **options: Any) -> Applied:
    """Bring the routes of the host to those of the configuration, all or none. If one has to wait,
    nothing is changed, and the plan says for what. Raises what `apply_plan` raises, which has the
    options.
    """
    configured = (*config.static_routes.routes, *reply_routes(config))
    before = backend.snapshot(near=[route.key.prefix for route in configured])
    plan = plan_static_routes(config, before)
    plan.require_no_conflict()
    if plan.waiting:
        return Applied(plan)
    return apply_plan(plan, backend, before=before, **options)
