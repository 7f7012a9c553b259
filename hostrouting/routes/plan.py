"""How to get from the present routes of a host to the configured ones, step by step.

All functions here go from values to values: a printed plan is the dry run, and `apply` carries out
its steps (`steps` says what they are).

Routes are compared key by key: table, prefix and metric. A present route with the key of a wanted
one is as wanted, whoever added it; or it is stale and goes, if it is ours (protocol 213); or it is
another program's, a rival, which no step changes. If Linux uses a rival, that is a conflict: a step
that names the rivals. What changes nothing about where packets go is not compared
(`_compared_form`). A wanted route that cannot be completed is waiting; or, if one of ours is there
and usable (`uplink`), that one is staying, and a finding says that it would wait after a reboot.

In IPv6, each next hop of a route is an entry of its own with its own protocol. But Linux lists
those with gateways as one route, with the protocol of the first. So the plan has a step for each
entry, and takes all entries for ours if the first is. If another program has added one of them and
it is not wanted, the plan cannot be applied, which `apply` finds out.
"""

from collections.abc import Container, Iterable, Sequence

from hostrouting.config.settings import HostRoutingConfig, StaticRoute
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import (
    OURS,
    PREFERENCES,
    TABLE_MAIN,
    Route,
    RouteKey,
    as_listed,
    as_stored,
    bare,
    protocol_name,
)
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.steps import Incomplete, RoutePlan, Step, conflict_with
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
            plans.append(RoutePlan(tuple(steps_for_key((), present))))

    plan = RoutePlan.joined(plans)
    if not plan.conflicts:
        return plan
    taken = _taken_prefixes(keys, snapshot)
    steps = [_with_free_halves(step, taken) for step in plan.steps]
    return plan._replace(steps=tuple(steps))


def _taken_prefixes(wanted_keys: Iterable[RouteKey], snapshot: Snapshot) -> set[Prefix]:
    """The prefixes of the wanted routes, and of those that other programs have in table main."""
    taken = {key.prefix for key in wanted_keys}
    for route in snapshot.routes:
        if route.table == TABLE_MAIN and route.protocol != OURS:
            taken.add(route.prefix)
    return taken


def _with_free_halves(step: Step, taken: Container[Prefix]) -> Step:
    """The step; a conflict also says whether both halves of its prefix could be configured."""
    prefix = step.route.prefix
    if not step.rivals or prefix.is_single:
        return step
    left, right = prefix.halves()
    if left in taken or right in taken:
        return step
    return step._replace(free_halves=(left, right))


def _plan_route(
    static: StaticRoute, present: Sequence[Route], uplink: Uplink, *, on_link: bool = False
) -> RoutePlan:
    """The plan for one configured route, from the routes that have its key now; `on_link` as in
    `Uplink.route_to`.
    """
    key = static.key
    route_or_need = uplink.route_to(
        key.prefix, dev=static.dev, gateway=static.gateway, metric=key.metric, on_link=on_link
    )
    if isinstance(route_or_need, Route):
        return RoutePlan(tuple(steps_for_key(as_stored(route_or_need), present)))

    need = route_or_need
    incomplete = (Incomplete(static, missing=need),)
    stays = _route_that_stays(static, present, uplink)
    if stays is None:
        return RoutePlan(waiting=incomplete)
    why_kept = f"exists, and stays; a new one would need {need}"
    return RoutePlan(tuple(steps_for_key(as_stored(stays), present, why_kept)), staying=incomplete)


def present_by_key(snapshot: Snapshot, keys: Iterable[RouteKey]) -> dict[RouteKey, list[Route]]:
    """The present routes with these keys, and our other routes, as the kernel lists them."""
    present: dict[RouteKey, list[Route]] = {key: [] for key in keys}
    for route in snapshot.routes:
        if route.protocol == OURS or route.key in present:
            present.setdefault(route.key, []).append(route)
    return present


def _route_that_stays(
    static: StaticRoute, present: Sequence[Route], uplink: Uplink
) -> Route | None:
    """The route that Linux uses for this key, if that is one of ours and right although the
    configured one cannot be completed.
    """
    if not present:
        return None
    used = _in_order_of_use(present)[0]
    if used.protocol != OURS or used.is_passed_over:
        return None
    if not uplink.can_stay(used, dev=static.dev, gateway=static.gateway):
        return None
    return bare(used)


def steps_for_key(
    wanted: Sequence[Route], present: Sequence[Route], why_kept: str = "exists"
) -> list[Step]:
    """The steps for one key, from the entries of the wanted route (none: delete ours) and the
    routes that have the key now. A conflict is the only step. `why_kept` is the reason for those of
    ours that are kept.

    For example, if a route by the gateway A is wanted, and these are there, in this order:

    - B of ours: add A, delete B;
    - B of ours, A of another program: keep A, delete B;
    - B of ours, C of another program: a conflict, because without B, Linux would use C before A;
    - A of ours, C of another program: keep A.
    """
    wanted_by_form = {_compared_form(entry): entry for entry in wanted}
    entries: list[tuple[Route, Route]] = []
    """The form of each entry, and the entry."""
    for route in present:
        entries += [(_compared_form(entry), entry) for entry in map(bare, as_stored(route))]
    stale = _stale_entries(wanted_by_form, entries)
    if wanted:
        conflict = _conflict(wanted, present, stale)
        if conflict is not None:
            return [conflict]

    # Of several with the same form, the first counts, whoever added it; a dict keeps the last.
    present_by_form = dict(reversed(entries))
    steps: list[Step] = []
    for form, entry in wanted_by_form.items():
        if form in present_by_form:
            steps.append(_step_to_keep(present_by_form[form], why_kept))
        else:
            steps.append(Step("add", entry, "missing"))
    steps += [Step("delete", entry, "not configured") for entry in stale]
    return steps


def _step_to_keep(entry: Route, why_ours: str) -> Step:
    """The step for an entry that is there, ours or another program's, and as wanted."""
    if entry.protocol == OURS:
        return Step("keep", entry, why_ours)
    owner = protocol_name(entry.protocol)
    return Step("keep", entry, f"exists (proto {owner}), and is not changed")


def _stale_entries(
    wanted_forms: Container[Route], entries: Iterable[tuple[Route, Route]]
) -> list[Route]:
    """Our entries that are not wanted, of these entries with their forms, in the order in which
    they are deleted: the last one first. So the first one is in use until the end, and is the first
    again if `apply` rolls back.

    A request to delete an entry could take another one before it (`deletion_could_take`). So those
    with fewer next hops go first. An entry whose deletion could take a wanted one is left alone: it
    comes after that, so Linux does not use it.
    """
    kept: list[Route] = []
    stale: list[Route] = []
    for form, entry in entries:
        if entry.protocol != OURS:
            continue
        if form in wanted_forms:
            kept.append(entry)
        elif not any(deletion_could_take(entry, before) for before in kept):
            stale.append(entry)
    stale.reverse()
    stale.sort(key=lambda entry: len(entry.next_hops))
    return stale


def deletion_could_take(deleted: Route, other: Route) -> bool:
    """Whether a request to delete the first route could take the other one of ours with its key, if
    that comes before it: if the deleted one begins with all its next hops. In IPv4, a request has a
    list of next hops, even of a single one, because without a list Linux would compare only the
    first (`kernel.netlink.routes`). In IPv6, a route cannot even have one next hop twice.

    Not judged: several of ours with one key that differ by what hostrouting gives no route, such as
    an mtu or a nexthop object. If a request takes the wrong one of these, `apply` reads that back.
    """
    next_hops = [(hop.dev, hop.gateway) for hop in other.next_hops]
    first_ones = [(hop.dev, hop.gateway) for hop in deleted.next_hops[: len(next_hops)]]
    return next_hops == first_ones


def _conflict(
    wanted: Sequence[Route], present: Sequence[Route], stale: Sequence[Route]
) -> Step | None:
    """The conflict, if Linux would use a route of another program that is not as wanted."""
    in_order = [bare(route) for route in _in_order_of_use(present)]
    rivals = [route for route in in_order if route.protocol != OURS]
    if not rivals:
        return None
    deleted = set(stale)
    remaining = [route for route in in_order if not deleted.issuperset(as_stored(route))]
    used = remaining[0]  # there is one, because no rival is deleted
    wanted_route = as_listed(wanted)[0]
    if used.protocol == OURS or _compared_form(used) == _compared_form(wanted_route):
        return None
    return conflict_with(rivals, wanted_route)


def has_ours(present: Iterable[Route], entry: Route) -> bool:
    """Whether this entry of ours is there, in routes that have its key. In IPv6, Linux may list it
    with another program's.
    """
    form = _compared_form(entry)
    for route in present:
        may_be_ours = route.protocol == OURS or route.prefix.family != IPV4
        if may_be_ours and form in map(_compared_form, as_stored(route)):
            return True
    return False


def _in_order_of_use(present: Iterable[Route]) -> list[Route]:
    """The routes of one key, the one that Linux uses first: one that is not passed over, and in
    IPv6 the one whose router has the highest preference.
    """

    def order(route: Route) -> tuple[bool, int]:
        return (route.is_passed_over, -PREFERENCES.index(route.preference))

    return sorted(present, key=order)


def _compared_form(route: Route) -> Route:
    """The route without what changes nothing about where packets go: whose it is, `onlink`, how
    long it will last, its router's preference, and in IPv6 the weights, because there each next hop
    is an entry of its own. Routes with one form lead packets the same way.

    `onlink` only says that Linux did not check the gateway when the route was added. A preference
    only says which route of a key Linux uses (`_in_order_of_use`).
    """
    next_hops = [hop._replace(onlink=False) for hop in bare(route).next_hops]
    if route.prefix.family != IPV4:
        next_hops = [hop._replace(weight=1) for hop in next_hops]
    return route._replace(
        next_hops=tuple(next_hops),
        protocol=OURS,
        preference="medium",
        expired=route.expired or None,  # a lifetime that is not over changes nothing
    )
