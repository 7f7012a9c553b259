"""Makes the static routes right, once: the part `static_routes` of a pass. The caller holds the
lock of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from hostrouting.errors import ApplyError, NotReady
from hostrouting.finding import with_severity
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import plan_static_routes, reply_routes
from hostrouting.routes.steps import RoutePlan

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.kernel.base import RouteBackend, RouteRequest

Purpose: TypeAlias = Literal["upkeep", "apply", "undo"]
"""What a pass is for. "upkeep" keeps a host as it is configured, and does not move a route of ours
that works. "apply" brings what somebody has just configured, and moves such a route, too. "undo"
takes that back.
"""


def keep_routes(
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    done: list[RouteRequest],
    purpose: Purpose = "upkeep",
    raise_if_cancelled: Callable[[], object] = lambda: None,
) -> RoutePlan:
    """Give the host the routes of the configuration; return the plan. "upkeep" never moves a route
    of ours that works, even if the default route, from which it took its device and gateway, now
    leads elsewhere.

    If a route conflicts or has to wait, an error is raised, but `purpose` decides what is done
    before. "apply" changes nothing. "upkeep" sets the other configured routes, because routes
    through one device are needed even while another device is down; it does not delete unconfigured
    routes. "undo" only deletes unconfigured routes, because the undone run may have added them.

    The route for replies to probes comes last, once no other route conflicts or waits, and nothing
    fails because of it. If Linux refuses it, for example because IPv6 is disabled on its device,
    the returned plan has a warning.

    Raises NotReady if a route has to wait, and what `apply_plan` raises. `done` and
    `raise_if_cancelled` are those of `apply_plan`.
    """
    configured = {route.key for route in config.static_routes.routes}
    replies = {route.key for route in reply_routes(config)} - configured
    wanted = configured | replies
    # Most routes that overlap none of the prefixes `near` are not read, which saves time.
    before = backend.snapshot(near=[key.prefix for key in wanted])
    plan = plan_static_routes(config, before, may_move=purpose != "upkeep")
    unconfigured = tuple(step for step in plan.steps if step.route.key not in wanted)
    if unconfigured:
        # A rollback has to know which other routes have the keys of the routes to delete. The first
        # snapshot may lack those, so read the host again near all steps.
        before = backend.snapshot(near=[step.route.prefix for step in plan.steps])
    # The steps to carry out: all of the plan, or what the purpose still allows.
    steps = plan.steps
    if plan.conflicts or plan.waiting:
        left_out = (*plan.conflicts, *unconfigured)
        possible = tuple(step for step in plan.steps if step not in left_out)
        steps = {"apply": (), "upkeep": possible, "undo": unconfigured}[purpose]

    reply_plan = RoutePlan(tuple(step for step in steps if step.route.key in replies))
    other_steps = tuple(step for step in steps if step not in reply_plan.steps)
    apply_plan(
        RoutePlan(other_steps),
        backend,
        before=before,
        done=done,
        raise_if_cancelled=raise_if_cancelled,
    )
    # Only now, because some routes are changed in spite of a conflict. The route for replies is
    # never among the conflicts or those that wait: then the plan has a finding instead of it.
    plan.require_no_conflict()
    if plan.waiting:
        # The run does not wait any longer, so these are errors now.
        waits = with_severity("error", plan.wait_warnings)
        raise NotReady("; ".join(map(str, waits)), findings=waits)
    try:
        # This is one request or two, so a cancellation need not end it halfway.
        apply_plan(reply_plan, backend, before=before, done=done)
    except ApplyError as error:
        plan = plan._replace(reply_findings=with_severity("warning", error.findings))
    return plan
