"""How to get from the present routes of a host to the configured ones, step by step.

All functions here go from values to values: a printed plan is the dry run, and `apply` carries out
its steps (`steps` says what they are).

Routes are compared key by key: table, prefix and metric. Of the present routes with the key of a
wanted one, those of ours (protocol 213) that lead elsewhere go. Then Linux uses the first that is
left: if it leads where the wanted one would, it is right, whoever added it; if it leads elsewhere,
that is a conflict, and no step changes it. If none is left, the wanted one is added.

Ours works if Linux uses it, and it has the device and gateway that are configured. While the wanted
route cannot be completed, ours that works stays; without one, the wanted route waits. Whoever may
not move routes also leaves ours where it is if another default route is the best one now: no VPN
and no new card takes packets along. On the same devices, ours follows to another router if it has
a gateway that no default route has any more: that router may be gone. Of routes that stay, a
finding says what will be after a reboot.
"""

from collections.abc import Iterable, Sequence
from functools import cache

from hostrouting.config.settings import HostRoutingConfig, StaticRoute
from hostrouting.finding import Remedy
from hostrouting.host.layout import HostLayout
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import (
    OURS,
    NextHop,
    Route,
    RouteKey,
    as_stored,
    protocol_name,
)
from hostrouting.model.snapshot import Snapshot
from hostrouting.release import call
from hostrouting.routes.steps import RoutePlan, RouteStep
from hostrouting.routes.uplink import Need, Uplink

TO_MOVE = Remedy("to have that now", call(f"apply --config {HostLayout.config_path}"))


def reply_routes(config: HostRoutingConfig) -> tuple[StaticRoute, ...]:
    """The route for replies to probes, whose destination is on the link, if a configuration wants
    it. A configured route with its key takes its place.
    """
    rewrite = config.probe_rewrite
    if not (rewrite.enabled and rewrite.ensure_route):
        return ()
    [dev] = rewrite.interfaces  # the configuration has only one with `ensureRoute`
    return (StaticRoute(Prefix.of(rewrite.global_address).to_network(), dev=dev),)


def plan_static_routes(
    config: HostRoutingConfig, snapshot: Snapshot, *, may_move: bool = True
) -> RoutePlan:
    """Plan how to get from the snapshot to the routes of a configuration; our other routes are
    deleted. Unless the plan may move routes, those of ours that work stay where they are.
    """
    wanted = {route.key: route for route in config.static_routes.routes}
    replies = {route.key: route for route in reply_routes(config)}
    expected = config.route_overlap.expected_devs
    uplink_of = cache(lambda family: Uplink(snapshot, family, expected))

    plans: list[RoutePlan] = []
    for key, present in present_by_key(snapshot, [*wanted, *replies]).items():
        uplink = uplink_of(key.prefix.family)
        if key in wanted:
            plans.append(_plan_route(wanted[key], present, uplink, may_move=may_move))
        elif key in replies:
            plans.append(_plan_route(replies[key], present, uplink, on_link=True).of_replies())
        else:
            plans.append(RoutePlan(steps_for_key(None, present)))
    return RoutePlan.joined(plans)


def _plan_route(
    static: StaticRoute,
    present: Sequence[Route],
    uplink: Uplink,
    *,
    may_move: bool = True,
    on_link: bool = False,
) -> RoutePlan:
    """The plan for one configured route, from the routes that have its key now; `on_link` as in
    `Uplink.route_to`.
    """
    key = static.key
    wanted = uplink.route_to(
        key.prefix, dev=static.dev, gateway=static.gateway, metric=key.metric, on_link=on_link
    )
    working = _working_route(static, present, uplink)
    if isinstance(wanted, Need):
        if working is None:
            return RoutePlan(waiting=((wanted, static),))
        later = Need(f"wait for {wanted}", wanted.remedy)
    elif (
        working is None
        or may_move
        or _way(working) == _way(wanted)
        or _has_lost_its_router(working, wanted, uplink.defaults_for(static.dev))
    ):
        return RoutePlan(steps_for_key(wanted, present))
    else:
        later = Need(f"lead {wanted.way}", TO_MOVE)
    return RoutePlan(steps_for_key(working, present), staying=((later, static),))


def _working_route(static: StaticRoute, present: Sequence[Route], uplink: Uplink) -> Route | None:
    """The route that Linux uses of those with its key, if it is ours, has the device and gateway
    that are configured, and can still reach its gateway.
    """
    used = min(present, key=_order_of_use, default=None)
    if used is None or used.protocol != OURS or used.is_passed_over or not used.next_hops:
        return None
    entry = as_stored(used)[0]
    for hop in entry.next_hops:
        if static.dev not in {None, hop.dev} or static.gateway not in {None, hop.gateway}:
            return None
        if hop.linkdown or not uplink.reaches(hop):
            return None
    return entry


def _has_lost_its_router(working: Route, wanted: Route, defaults: Iterable[Route]) -> bool:
    """Whether a gateway of ours is one that none of these default routes has any more, and the
    wanted route leads by the same devices.
    """
    lost = _hops_alive(working).difference(*map(_hops_alive, defaults))
    return any(hop.gateway for hop in lost) and {*wanted.devs} == {*working.devs}


def present_by_key(snapshot: Snapshot, keys: Iterable[RouteKey]) -> dict[RouteKey, list[Route]]:
    """The present routes with these keys, and our other routes, as the kernel lists them."""
    present: dict[RouteKey, list[Route]] = {key: [] for key in keys}
    for route in snapshot.routes:
        if route.protocol == OURS or route.key in present:
            present.setdefault(route.key, []).append(route)
    return present


def steps_for_key(wanted: Route | None, present: Sequence[Route]) -> tuple[RouteStep, ...]:
    """The steps for one key, from the wanted route (None: delete ours) and the routes that have the
    key now. A conflict is the only step.
    """
    stale: list[Route] = []
    left: list[Route] = []
    for route in sorted(present, key=_order_of_use):
        if route.protocol != OURS:
            left.append(route)
            continue
        for entry in as_stored(route):
            if wanted is not None and _way(entry) == _way(wanted):
                left.append(entry)
            elif not any(deletion_could_take(entry, before) for before in left):
                stale.append(entry)
    # The last one first, so an undo adds them again in their order; but those with fewer next hops
    # before others, which a request to delete these could take.
    stale.reverse()
    stale.sort(key=lambda route: len(route.next_hops))
    reason = "not configured" if wanted is None else "leads elsewhere"
    deletions = tuple(RouteStep("delete", route, reason) for route in stale)
    if wanted is None:
        return deletions
    if not left:
        return (*deletions, RouteStep("add", wanted, "missing"))
    used = left[0]
    if _way(used) == _way(wanted):
        owner = "" if used.protocol == OURS else f" (proto {protocol_name(used.protocol)})"
        return (RouteStep("keep", used, f"exists{owner}"), *deletions)
    reason = f"a route that is not hostrouting's has the same destination and metric: [{used}]"
    return (RouteStep("conflict", wanted, reason, used),)


def deletion_could_take(deleted: Route, other: Route) -> bool:
    """Whether a request to delete the first route, which is ours, would take the other one with its
    key, if Linux lists that before it: if it is ours, too, and has only the first next hops.
    """
    if other.protocol != OURS:
        return False
    next_hops = [(hop.dev, hop.gateway) for hop in deleted.next_hops]
    of_other = [(hop.dev, hop.gateway) for hop in other.next_hops]
    return of_other == next_hops[: len(of_other)]


def _order_of_use(route: Route) -> tuple[bool, int, int]:
    """Linux uses the route with the lowest: one that is not passed over, and in IPv6 the one whose
    router has the highest preference.
    """
    return (route.is_passed_over, *route.rank)


def _way(route: Route) -> tuple[object, ...]:
    """What decides where packets go by a route of this key. A dead next hop among others does not:
    a default route that another program keeps right has lost it.
    """
    return (route.type, _hops_alive(route), route.unread, bool(route.expired))


def _hops_alive(route: Route) -> set[NextHop]:
    """The device and the gateway of each next hop that is not dead; of all, if all are."""
    alive = [hop for hop in route.next_hops if not hop.dead] or route.next_hops
    return {NextHop(hop.dev, hop.gateway) for hop in alive}
