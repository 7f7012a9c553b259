"""Makes the static routes right, once: whoever sets routes for hostrouting does it here, and has
the lock of the host meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hostrouting.routes.apply import Applied, apply_plan
from hostrouting.routes.plan import plan_static_routes

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.kernel.base import RouteBackend, RouteRequest
    from hostrouting.model.snapshot import Snapshot


def keep_routes(
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    check: Callable[[], object] = lambda: None,
    done: list[RouteRequest] | None = None,
    require: Callable[[Snapshot, Snapshot], object] = lambda _now, _afterwards: None,
) -> Applied:
    """Bring the routes of the host to those of the configuration, all or none. If one has to wait,
    nothing is changed, and the plan says for what. `check` and `done` are as in `apply_plan`, and
    so is what it raises. `require` can raise, too, immediately before a change: it gets the host as
    it is now and as it would be.
    """
    before = backend.snapshot()
    plan = plan_static_routes(config, before)
    plan.require_no_conflict()
    if plan.waiting:
        return Applied(plan)
    if plan.changes:
        require(before, plan.apply_to(before))
    return apply_plan(plan, backend, before=before, check=check, done=done)
