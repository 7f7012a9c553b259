"""How to get from the present routes of a host to the configured ones, step by step.

All functions here go from values to values: a printed plan is the dry run, and `apply` carries out
its steps (`steps` says what they are).

Routes are compared key by key: table, prefix and metric. Of the present routes with the key of a
wanted one, those of ours (protocol 213) that lead elsewhere go. Then Linux uses the first that is
left: if it leads where the wanted one would, it is right, whoever added it; if it leads elsewhere,
that is a conflict, and no step changes it. If none is left, the wanted one is added. A wanted route
that cannot be completed is waiting; or, if one of ours is there by the device and gateway that are
named, that one is staying, and a finding says that it would wait after a reboot.
"""

from collections.abc import Iterable, Sequence

from hostrouting.config.settings import HostRoutingConfig, StaticRoute
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import OURS, PREFERENCES, Route, RouteKey, protocol_name
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.steps import Incomplete, RoutePlan, Step
from hostrouting.routes.uplink import Uplink


def reply_routes(config: HostRoutingConfig) -> tuple[StaticRoute, ...]:
    """The route for replies to probes, whose destination is on the link, if a configuration wants
    it.

    A configured route with its key takes its place.
    """
    rewrite = config.probe_rewrite
    if not (rewrite.enabled and rewrite.ensure_route):
        return ()
    [dev] = rewrite.interfaces  # the configuration has only one with `ensureRoute`
    reply = StaticRoute(Prefix.of(rewrite.global_address).to_network(), dev=dev)
    if any(route.key == reply.key for route in config.static_routes.routes):
        return ()
    return (reply,)


def plan_static_routes(config: HostRoutingConfig, snapshot: Snapshot) -> RoutePlan:
    """Plan how to get from the snapshot to the routes of a configuration; our other routes are
    deleted.
    """
    wanted = {route.key: route for route in config.static_routes.routes}
    replies = {route.key: route for route in reply_routes(config)}
    keys = [*wanted, *replies]
    uplink_of: dict[int, Uplink] = {}
    for family in {key.prefix.family for key in keys}:
        uplink_of[family] = Uplink(snapshot, family, config.route_overlap.expected_devs)

    plans: list[RoutePlan] = []
    for key, present in present_by_key(snapshot, keys).items():
        family = key.prefix.family
        if key in wanted:
            plans.append(_plan_route(wanted[key], present, uplink_of[family]))
        elif key in replies:
            plan = _plan_route(replies[key], present, uplink_of[family], on_link=True)
            plans.append(plan.of_replies())
        else:
            plans.append(RoutePlan(tuple(steps_for_key(None, present))))
    return RoutePlan.joined(plans)


def _plan_route(
    static: StaticRoute, present: Sequence[Route], uplink: Uplink, *, on_link: bool = False
) -> RoutePlan:
    """The plan for one configured route, from the routes that have its key now; `on_link` as in
    `Uplink.route_to`.
    """
    key = static.key
    route = uplink.route_to(
        key.prefix, dev=static.dev, gateway=static.gateway, metric=key.metric, on_link=on_link
    )
    if isinstance(route, Route):
        return RoutePlan(tuple(steps_for_key(route, present)))
    incomplete = (Incomplete(static, missing=route),)
    for there in present:
        if _may_stay(there, static):
            return RoutePlan(
                (Step("keep", there, f"exists, and stays; a new one would need {route}"),),
                staying=incomplete,
            )
    return RoutePlan(waiting=incomplete)


def _may_stay(present: Route, static: StaticRoute) -> bool:
    """Whether this is a route of ours by the device and gateway that are named."""
    if present.protocol != OURS or present.is_passed_over or not present.next_hops:
        return False
    hop = present.next_hops[0]
    return static.dev in {None, hop.dev} and static.gateway in {None, hop.gateway}


def present_by_key(snapshot: Snapshot, keys: Iterable[RouteKey]) -> dict[RouteKey, list[Route]]:
    """The present routes with these keys, and our other routes, as the kernel lists them."""
    present: dict[RouteKey, list[Route]] = {key: [] for key in keys}
    for route in snapshot.routes:
        if route.protocol == OURS or route.key in present:
            present.setdefault(route.key, []).append(route)
    return present


def steps_for_key(wanted: Route | None, present: Sequence[Route]) -> list[Step]:
    """The steps for one key, from the wanted route (None: delete ours) and the routes that have the
    key now. A conflict is the only step.
    """
    stale: list[Route] = []
    left: list[Route] = []
    for route in sorted(present, key=_order_of_use):
        leads_alike = wanted is not None and _way(route) == _way(wanted)
        if route.protocol != OURS or leads_alike:
            left.append(route)
        else:
            stale.append(route)
    # The last one first: so an undo adds them again in their order.
    deletions = [Step("delete", route, "not configured") for route in reversed(stale)]
    if wanted is None:
        return deletions
    if not left:
        return [*deletions, Step("add", wanted, "missing")]
    used = left[0]
    if _way(used) == _way(wanted):
        owner = "" if used.protocol == OURS else f" (proto {protocol_name(used.protocol)})"
        return [Step("keep", used, f"exists{owner}"), *deletions]
    reason = f"a route that is not hostrouting's has the same destination and metric: [{used}]"
    return [Step("conflict", wanted, reason, used)]


def _order_of_use(route: Route) -> tuple[bool, int]:
    """Linux uses the route with the lowest: one that is not passed over, and in IPv6 the one whose
    router has the highest preference.
    """
    return (route.is_passed_over, -PREFERENCES.index(route.preference))


def _way(route: Route) -> tuple[object, ...]:
    """What decides where packets go by a route of this key."""
    hops = [(hop.dev, hop.gateway) for hop in route.next_hops]
    return (route.type, hops, route.unread, bool(route.expired))
