"""How to get from the present routes of a host to the configured ones, step by step.

All functions here go from values to values: a printed plan is the dry run, and `apply` carries out
its steps (`steps` says what they are).

Routes are compared key by key: table, prefix and metric. Of the present routes with the key of a
wanted route, those of ours (protocol 213) that lead elsewhere are deleted. Linux uses the first of
the routes that are left. If that leads where the wanted route would, it is right, whoever added it.
If it leads elsewhere, that is a conflict, and no step changes it. If no route is left, the wanted
route is added. A route that does not write the wanted source leads elsewhere, too: answers to it
may be lost.

A route of ours works if Linux uses it, and it has the device and gateway that are configured. While
the wanted route cannot be completed, a route of ours that works stays; if there is none, the wanted
route waits. The gate and the guard may not move routes (`may_move`). For them, a route of ours that
works also stays if another default route has become the best one: packets do not move to a VPN or
to a new card. It follows if one of its gateways is in no default route any more, because that
router may be gone, but only to devices that it has; if its default route gets more next hops beside
all of its own, because routers come back one by one; and if only the source differs. A finding
says what a route that stays will do after a reboot.
"""

from collections.abc import Iterable, Sequence
from functools import cache

from hostrouting.config.settings import HostRoutingConfig, StaticRoute
from hostrouting.finding import Remedy, with_severity
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import (
    OURS,
    NextHop,
    Route,
    RouteKey,
    entries_of_route,
)
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.steps import RoutePlan, RouteStep
from hostrouting.routes.uplink import Need, Uplink


def reply_routes(config: HostRoutingConfig) -> tuple[StaticRoute, ...]:
    """The route by which replies to probes leave this host, if the configuration wants one
    (`ensureRoute`). It leads to the global address from which probes seem to come, and has no
    gateway. Callers leave it out if a configured static route has the same key.
    """
    rewrite = config.probe_rewrite
    if not (rewrite.enabled and rewrite.ensure_route):
        return ()
    [dev] = rewrite.interfaces  # the configuration has only one with `ensureRoute`
    return (StaticRoute(Prefix.of(rewrite.global_address).to_network(), dev=dev),)


def plan_static_routes(
    config: HostRoutingConfig, snapshot: Snapshot, *, may_move: bool = True
) -> RoutePlan:
    """Plan the steps from the host as it is (`snapshot`) to the routes that the configuration
    wants. Other routes of ours are deleted.

    Without `may_move`, a static route of ours that works stays, although a new one would lead
    elsewhere: packets do not move because a VPN or a new card has come. The route for replies to
    probes names its device, so `may_move` does not matter to it.
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
            plan = _plan_route(replies[key], present, uplink, on_link=True)
            # What stands against this route is only a warning: no run fails because of it.
            obstacles = with_severity("warning", plan.findings())
            if obstacles:
                plan = RoutePlan(reply_findings=obstacles)
            plans.append(plan)
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
    """Plan one configured route, `static`. `present` are the routes on the host that have its key
    now. With `on_link`, the route needs no gateway, because its destination is on the link.

    A route of ours that works stays in two cases. Then the plan also says what will be there after
    a reboot.

    - The wanted route still needs something before it can be added.
    - `may_move` is false, and the wanted route leads elsewhere. But if only the routers have
      changed (`_follows_its_routers`), the wanted route replaces the working one.
    """
    key = static.key
    wanted = uplink.route_to(
        key.prefix, dev=static.dev, gateway=static.gateway, metric=key.metric, on_link=on_link
    )
    working = _working_route(static, present, uplink)
    if isinstance(wanted, Need):
        if working is None:
            return RoutePlan(waiting=((wanted, static),))
        # A `Need` also holds the phrase for what a route that stays will do after a reboot.
        after_reboot = Need(f"wait for {wanted}", wanted.remedy)
    elif working is None or may_move or _follows_its_routers(working, wanted, uplink.defaults):
        return RoutePlan(steps_for_key(wanted, present))
    else:
        remedy = (
            f"to keep it {working.way}, write dev and gateway into the route, and the dev into "
            "routeOverlap.expectedDevs; or, if the other way is right, apply the configuration "
            "as it is"
        )
        after_reboot = Need(f"lead {wanted.way}", Remedy(remedy))
    return RoutePlan(steps_for_key(working, present), staying=((after_reboot, static),))


def _working_route(static: StaticRoute, present: Sequence[Route], uplink: Uplink) -> Route | None:
    """Find the route of ours that already does what `static` asks, so that it can stay; None if
    there is none. `present` are the routes with the key of `static`. Linux uses one of them, and
    only this one can be the working route.

    It works if all its next hops have the configured device and gateway. Each next hop that is not
    dead must also have a link and reach its gateway; Linux does not use dead ones.
    """
    used = min(present, key=_order_of_use, default=None)
    # Linux passes over a route that has expired, or has only dead next hops. A route without next
    # hops has a nexthop object that the kernel does not describe: it may not be as configured.
    if used is None or used.protocol != OURS or used.is_passed_over or not used.next_hops:
        return None
    # In IPv4, the whole route. In IPv6, only its first next hop, as a route: the others may be
    # another program's.
    entry = entries_of_route(used)[0]
    for hop in entry.next_hops:
        if static.dev not in {None, hop.dev} or static.gateway not in {None, hop.gateway}:
            return None
        if not hop.dead and (hop.linkdown or not uplink.reaches(hop)):
            return None
    return entry


def _follows_its_routers(working: Route, wanted: Route, defaults: Iterable[Route]) -> bool:
    """Whether the wanted route only follows a change of routers, so that it may replace the working
    one even without `may_move`. Either it has all next hops of the working one, and perhaps more:
    routers that were down come back one by one. Or a gateway of the working route is in no default
    route any more, so its router may be gone, and the wanted route leads through no further device.
    """
    hops = _hops_alive(working)
    if hops <= _hops_alive(wanted):
        return True
    lost = hops.difference(*map(_hops_alive, defaults))
    return any(hop.gateway for hop in lost) and set(working.devs).issuperset(wanted.devs)


def present_by_key(snapshot: Snapshot, keys: Iterable[RouteKey]) -> dict[RouteKey, list[Route]]:
    """Group the present routes by key: those with one of `keys`, and all of ours. The routes of one
    key stay in the kernel's order.
    """
    present: dict[RouteKey, list[Route]] = {key: [] for key in keys}
    for route in snapshot.routes:
        if route.protocol == OURS or route.key in present:
            present.setdefault(route.key, []).append(route)
    return present


def steps_for_key(wanted: Route | None, present: Sequence[Route]) -> tuple[RouteStep, ...]:
    """Return the steps for one key, after which Linux uses the wanted route, or one that leads the
    same way. `present` are the routes that have the key now. Ours are deleted if they lead
    elsewhere, or if no route is wanted. If Linux uses another program's route that leads elsewhere,
    this is a conflict, and the only step.
    """
    stale: list[Route] = []
    staying: list[Route] = []  # the first is the route that Linux will use
    for route in sorted(present, key=_order_of_use):
        if route.protocol != OURS:
            staying.append(route)
            continue
        for entry in entries_of_route(route):  # in IPv6, each next hop is an entry
            if wanted is not None and _leads_as(wanted, entry):
                staying.append(entry)
            # Delete the entry, unless the request could hit an earlier entry that stays. Then this
            # entry stays, too, and does no harm, because Linux uses the earlier one.
            elif not any(deletion_could_hit(entry, before) for before in staying):
                stale.append(entry)
    # Delete the last route first: a rollback begins with the last deletion and adds each route
    # behind the others, so the routes get their old order back.
    stale.reverse()
    # But a request to delete a route of ours could hit another route of ours: one with fewer next
    # hops or, if the request has no source, one with a source. So delete routes with fewer next
    # hops first and, of equals, those with a source. Otherwise the sort keeps the order.
    stale.sort(key=lambda route: (len(route.next_hops), route.prefsrc is None))
    reason = "not configured" if wanted is None else "leads elsewhere"
    deletions = tuple(RouteStep("delete", route, reason) for route in stale)
    if wanted is None:
        return deletions
    if not staying:
        return (*deletions, RouteStep("add", wanted, "missing"))
    used = staying[0]
    if _leads_as(wanted, used):
        # A source that is not wanted is left out: it need not be there after `apply`.
        kept = used._replace(prefsrc=wanted.prefsrc)
        return (RouteStep("keep", kept, "exists"), *deletions)
    reason = f"a route that is not hostrouting's has the same destination and metric: [{used}]"
    return (RouteStep("conflict", wanted, reason),)


def deletion_could_hit(deleted: Route, other: Route) -> bool:
    """Whether a request to delete `deleted`, a route of ours, could make Linux delete `other`
    instead. Both have the same key, and `other` comes first.

    Linux compares the protocol, a source that the request has, and, place by place, the next hops.
    If the request has more next hops than a route, Linux ignores the rest, so it also deletes a
    route with only the first ones. Sources are not compared here: `steps_for_key` deletes routes in
    an order for which they do not matter.
    """
    if other.protocol != OURS:
        return False
    next_hops = [hop[:2] for hop in deleted.next_hops]  # device and gateway
    of_other = [hop[:2] for hop in other.next_hops]
    return of_other == next_hops[: len(of_other)]


def _order_of_use(route: Route) -> tuple[bool, int, int]:
    """The sort key of the routes with one RouteKey: Linux uses the first. A route that has expired,
    or has only dead next hops, comes last. In IPv6, the preference of the router counts.
    """
    return (route.is_passed_over, *route.rank)


def _leads_as(wanted: Route, route: Route) -> bool:
    """Whether this route sends packets where the wanted route would, so that it will do as well. A
    dead next hop beside others does not count, because Linux does not use it. If no source is
    wanted, any will do.
    """
    if route.expired or wanted.prefsrc not in {None, route.prefsrc}:
        return False
    return (
        route.type == wanted.type
        and route.unread == wanted.unread  # the encapsulations
        and _hops_alive(route) == _hops_alive(wanted)
    )


def _hops_alive(route: Route) -> set[NextHop]:
    """The device and the gateway of each next hop that is not dead; of each, if all are dead."""
    alive = [hop for hop in route.next_hops if not hop.dead] or route.next_hops
    return {NextHop(hop.dev, hop.gateway) for hop in alive}
