"""The plan: the ordered steps from the present routes of a host to the wanted ones, each with its reason.

Here: keep, add, replace, delete, conflict, and why; the plan for the static routes of a configuration; and the command
that deletes a route that a script has left behind. All are functions from values to values: a printed plan is the dry
run. Not here: carrying out the steps (`apply`), and completing a wanted route (`uplink`).

No step changes a route that is not ours. If such a route holds the key of a wanted one, the step is a conflict, and its
reason names routes that take precedence without touching it. If it looks as if an earlier script had added it, the step
also has the command that deletes it: with every attribute that the kernel compares, so that it cannot delete another
route. An administrator who knows where the route came from has to run it.

In IPv6, Linux lists next hops of several programs as one route with the protocol of the first (`kernel.requests`). So a
plan cannot tell which next hops are ours. If a route has the key of a wanted one, whatever its protocol, the missing
next hops are added, and for each that is not wanted Linux is `asked` to delete it, with our protocol. A next hop that
Linux does not delete is another program's, and stays beside ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import compress, filterfalse
from operator import eq
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, overload

import attrs

from hostrouting.arguments import listed, require
from hostrouting.errors import RouteConflict
from hostrouting.fib.engine import Fib
from hostrouting.fib.table import BITS, pack
from hostrouting.finding import Finding
from hostrouting.model.prefix import IPV4, IPV6, Prefix, width_of
from hostrouting.model.route import (
    OURS,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    NextHop,
    Route,
    protocol_name,
    table_name,
)
from hostrouting.model.route_table import Column, RouteEdits, RouteTable, shape_of
from hostrouting.routes.connected import connected_routes, foresee
from hostrouting.routes.uplink import DesiredRoute, Pending, Uplink, bare_leg, hides, is_held, wanted_routes, way_round

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.snapshot import Snapshot

Action: TypeAlias = Literal["keep", "add", "replace", "delete", "conflict"]

# Conflicts first, because they prevent the rest; then additions before deletions (make before break).
_ORDER: tuple[Action, ...] = ("conflict", "keep", "add", "replace", "delete")
_SIGNS: dict[Action, str] = {"keep": " ", "add": "+", "replace": "~", "delete": "-", "conflict": "!"}


class Step(NamedTuple):
    """One step. For `replace` and `conflict`, `held` is the present route with the key of `route`."""

    action: Action
    route: Route
    reason: str
    held: Route | None = None
    remedy: str = ""
    """How to resolve a conflict."""
    asked: Route | None = None
    """The next hops of an IPv6 route that are deleted if they are ours: Linux does not list their protocols."""
    is_first: bool = False
    """Whether the route that replaces another has to come before another program's route with its key."""

    @property
    def why(self) -> str:
        """The reason, the remedy, and what happens to the next hops in `asked`."""
        return "; ".join(part for part in (self.reason, self.remedy, self.asks) if part)

    @property
    def asks(self) -> str:
        """A sentence about the next hops that Linux is asked to delete."""
        return "; ".join(
            f"the next hop {way} is not wanted: Linux deletes it if its protocol, which Linux does not list, is ours"
            for way in (() if self.asked is None else self.asked.ways)
        )

    def __str__(self) -> str:
        sign = _SIGNS[self.action]
        before = f"- {self.held}\n" if self.action == "replace" else ""
        sign = "+" if self.action == "replace" else sign
        return f"{before}{sign} {self.route}    # {self.action}: {self.why}"


class Steps(Sequence[Step]):
    """The steps in order. It behaves like a tuple, but creates the `keep` steps on first access.

    Why: if ten thousand routes are already right, their steps are rarely read.
    """

    def __init__(self, others: tuple[Step, ...], routes: RouteTable, kept: Sequence[int], reason: str) -> None:
        """Use the other steps, the positions of the kept routes in `routes`, and the reason for keeping them."""
        self.others, self._routes, self._kept, self._reason = others, routes, kept, reason

    @cached_property
    def _all(self) -> tuple[Step, ...]:
        return in_order((*(Step("keep", self._routes[place], self._reason) for place in self._kept), *self.others))

    def __len__(self) -> int:
        return len(self.others) + len(self._kept)

    @overload
    def __getitem__(self, place: int) -> Step: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Step, ...]: ...

    def __getitem__(self, place: int | slice) -> Step | tuple[Step, ...]:
        return self._all[place]

    def __iter__(self) -> Iterator[Step]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return self._all == tuple(other) if isinstance(other, tuple | Steps) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return repr(self._all)

    def __reduce__(self) -> tuple[type, tuple[tuple[Step, ...]]]:
        """Copy and pickle as a plain tuple of steps."""
        return tuple, (self._all,)


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps in the order in which they must be done."""
    return tuple(sorted(steps, key=_place))


def _place(step: Step) -> tuple[object, ...]:
    """The sort key of a step: routes without a gateway are added first and deleted last."""
    route, prefix = step.route, step.route.prefix
    through = any(leg.gateway for leg in route.legs)
    late = not through if step.action == "delete" else through
    return (_ORDER.index(step.action), late, prefix.family, prefix.network, prefix.length, route.table, route.metric)


class RoutePlan(NamedTuple):
    """The steps in their order, and the routes that cannot be planned yet."""

    steps: Sequence[Step] = ()
    pending: tuple[Pending, ...] = ()
    foreseen: tuple[Finding, ...] = ()
    """The present or planned routes that will not last, and optional routes that are left out."""

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change the kernel."""
        return tuple(step for step in self._busy if step.action in {"add", "replace", "delete"})

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """The steps for routes that cannot be added because a route that is not ours holds their key."""
        return tuple(step for step in self._busy if step.action == "conflict")

    def require_possible(self) -> None:
        """Raise RouteConflict if a route that is not ours holds the key of a wanted one."""
        if self.conflicts:
            raise RouteConflict(self._conflict_findings())

    def _conflict_findings(self) -> Iterator[Finding]:
        for step in self.conflicts:
            prefix = str(step.route.prefix)
            # A lifetime changes with each look.
            held = None if step.held is None else str(attrs.evolve(step.held, expires=None))
            facts = {"held": held, "metric": step.route.metric}
            told = f"{prefix} cannot be installed: {step.reason}"
            yield Finding("route-conflict", "error", told, prefix, step.remedy, facts)

    @property
    def asking(self) -> tuple[Step, ...]:
        """The steps for IPv6 routes of several owners: Linux is asked to delete what is ours."""
        return tuple(step for step in self._busy if step.asked is not None)

    @property
    def beside(self) -> tuple[Finding, ...]:
        """A finding for each route with next hops of other programs beside the wanted ones."""
        kept = (step for step in self.asking if step.action == "keep")
        return tuple(beside_finding(step.route.prefix, step.asks) for step in kept)

    def findings(self, *, wait: float | None = None) -> Iterator[Finding]:
        """What keeps the wanted routes from being installed, now or after the next boot.

        `wait` is how long the task would wait for what is missing; None if that is not known.
        """
        yield from self._conflict_findings()
        lacking: dict[str, list[DesiredRoute]] = {}
        for pending in self.pending:
            lacking.setdefault(pending.missing, []).append(pending.desired)
        for missing, wanted in lacking.items():
            need = f"{wanted[0]} needs" if len(wanted) == 1 else f"{len(wanted):,} routes, such as {wanted[0]}, need"
            then = f"; apply would wait up to {wait:g} s for it, then fail" if wait else ""
            then = "; apply would fail at once" if wait == 0 else then
            yield Finding(
                "route-waits",
                "error" if wait == 0 else "warning",
                f"{need} {missing}{then}",
                str(wanted[0].destination),
                "add it, or correct the configuration",
                can_retry=True,
            )
        yield from self.foreseen
        yield from self.beside

    @property
    def kept(self) -> int:
        """The number of routes that already exist as wanted."""
        return len(self.steps) - len(self._busy) + sum(step.action == "keep" for step in self._busy)

    @property
    def _busy(self) -> Sequence[Step]:
        """The steps that exist as objects: all but those that keep a route."""
        return self.steps.others if isinstance(self.steps, Steps) else self.steps

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The host after the plan was carried out; conflicts and pending routes change nothing.

        Raises ValueError if the kernel would refuse a step: the route must be the only one of its key, but the key is
        held.
        """
        changes = self.changes
        edits = RouteEdits(snapshot.routes, about=[step.held or step.route for step in changes])
        for step in changes:
            if step.action == "replace" and step.held is not None:
                edits.change(step.held, step.route)
            elif step.action == "delete":
                # If an identical route was just added before it, that one stays.
                edits.change(step.route, None, last=True)
            elif step.held is not None:
                edits.change(step.held, _merged(step.held, step.route))
            elif edits.holders(step.route):
                raise ValueError(f"another route has the same destination and metric as {step.route}")
            else:
                edits.put(step.route)
        return attrs.evolve(snapshot, routes=edits.table())

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps] + [f"? {pending}" for pending in self.pending]
        return "\n".join(lines) or "no routes are wanted, and none of our routes exist"


# The static routes of a configuration.


def plan_static_routes(config: HostRoutingConfig, snapshot: Snapshot) -> RoutePlan:
    """The plan that leads from this snapshot to the routes of a configuration."""
    return plan_routes(wanted_routes(config), snapshot)


# Planning.

_THERE = "it already exists"
_TWIN = "ours, but not needed: another program's route with the same destination and metric is already as wanted"
_SHARED = "another program has installed the first next hop"
_BEHIND = "ours, but not used: the wanted route has the same destination and metric and comes before it in the table"


def plan_routes(
    desired: Iterable[DesiredRoute], snapshot: Snapshot, *, installed: Collection[DesiredRoute] = ()
) -> RoutePlan:
    """Plan how to get from the snapshot to the desired routes; our other routes are deleted.

    An optional route that cannot be installed now is left out, with a finding in `foreseen`. Where a route was
    `installed` before, an IPv6 route can have next hops of ours although its protocol is another program's. Raises
    ValueError for two different desired routes with one destination and metric.
    """
    wishes = listed(desired, "plan_routes")
    for wish in {type(wish): wish for wish in wishes}.values():  # one of each type
        require(wish, DesiredRoute, "plan_routes", 'write DesiredRoute("10.0.0.0/8")')
    routes, fib = snapshot.routes, Fib(snapshot)
    uplink = Uplink(fib)
    kept, rest = _as_wanted(wishes, routes, uplink)
    resolved = [uplink.resolve(wish) for wish in _distinct(rest)]
    pending = tuple(route for route in resolved if isinstance(route, Pending))
    # An existing route for a pending wish stays until the wish can be resolved.
    settled = {route.desired.key if isinstance(route, Pending) else route.key for route in resolved}
    steps = [step for route in resolved if isinstance(route, Route) for step in _steps(route, fib)]
    there = routes.places(lambda outline: outline.protocol == OURS)
    ours_there = map(routes.__getitem__, filterfalse(kept.__contains__, there))
    before = {wish.key for wish in installed}
    joined = (
        route
        for wish in installed
        for route in fib.routes(wish.destination)
        if route.key in before and is_shared(route)
    )
    unwanted = (route for route in (*ours_there, *joined) if route.key not in settled)
    steps += _removals(unwanted, fib)
    refused = {step.route.key for step in steps if step.action == "conflict"} | {
        unresolved.desired.key for unresolved in pending
    }
    foreseen = tuple(foresee(wishes, fib, uplink, refused=refused))
    if optional := {wish.key for wish in wishes if wish.is_optional}:
        foreseen += tuple(_left_out(steps, pending, optional))
        steps = [step for step in steps if not (step.action == "conflict" and step.route.key in optional)]
        pending = tuple(unresolved for unresolved in pending if not unresolved.desired.is_optional)
    others = in_order(steps)
    return RoutePlan(Steps(others, routes, tuple(kept), _THERE) if kept else others, pending, foreseen)


def _left_out(steps: Iterable[Step], pending: Iterable[Pending], optional: Collection[object]) -> Iterator[Finding]:
    """A warning for each optional route that cannot be installed now."""
    for step in steps:
        if step.action == "conflict" and step.route.key in optional:
            prefix = str(step.route.prefix)
            yield Finding("route-conflict", "warning", f"{prefix} is left out: {step.reason}", prefix, step.remedy)
    for unresolved in pending:
        if (desired := unresolved.desired).is_optional:
            sentence = f"{desired} is left out, because it needs {unresolved.missing}"
            yield Finding("route-waits", "warning", sentence, str(desired.destination), can_retry=True)


def plan_exactly(wanted: Collection[Route], snapshot: Snapshot, *, about: Collection[Prefix]) -> RoutePlan:
    """Plan exactly these routes; our other routes to the prefixes `about` are deleted."""
    fib, keys = Fib(snapshot), {route.key for route in wanted}
    steps = [step for route in wanted for step in _steps(route, fib)]
    there = (snapshot.routes[place] for place in snapshot.routes.leading_to(set(about)))
    steps += _removals((route for route in there if route.key not in keys), fib)
    return RoutePlan(in_order(steps))


def _removals(unwanted: Iterable[Route], fib: Fib) -> Iterator[Step]:
    """The steps that delete our routes that are no longer wanted, key by key."""
    keys = {route.key: (route.table, route.prefix) for route in unwanted}
    for table, prefix in dict.fromkeys(keys.values()):
        holders: dict[object, list[Route]] = {}
        for route in fib.routes(prefix, table=table):
            holders.setdefault(route.key, []).append(route)
        for key, routes in holders.items():
            if key in keys:
                gone = [at for at, route in enumerate(routes) if route.protocol == OURS]
                yield from _deletions(routes, gone, "ours, and no longer wanted")
                rest = (route for at, route in enumerate(routes) if at not in gone and is_shared(route))
                yield from (Step("keep", route, _SHARED, asked=_bare(route)) for route in rest)


def _as_wanted(
    desired: Collection[DesiredRoute], routes: RouteTable, uplink: Uplink
) -> tuple[dict[int, DesiredRoute], list[DesiredRoute]]:
    """The wishes that our present routes meet, by the position of the route; and the other wishes.

    The existing route has to be the only one with its prefix. The wanted shape is computed once for each combination
    of device, gateway and metric, so no Route object is created for a kept route.
    """
    alone: dict[int, dict[int, int]] = {IPV4: {}, IPV6: {}}
    alone |= {column.family: _alone(column) for column in routes.columns if column.table == TABLE_MAIN}
    ours = (number for number, outline in enumerate(routes.outlines) if outline[1:3] == (TABLE_MAIN, OURS))
    numbers = {shape_of(routes.shapes[number]): number for number in ours}
    there = routes.shape_numbers
    meant: dict[tuple[object, ...], int | None] = {}
    kept: dict[int, DesiredRoute] = {}
    rest: list[DesiredRoute] = []
    number, place_of, before, family, dev, metric = None, alone[IPV4].get, object(), 0, None, 0
    for wish in desired:
        if wish.is_on_link:
            rest.append(wish)
            continue
        destination, gateway = wish.destination, wish.gateway
        # Addresses are slow to hash, and neighbours often have the same one.
        is_same = (gateway is before or gateway == before) and destination.family == family
        if not (is_same and wish.dev == dev and wish.metric == metric):
            before, family, dev, metric = gateway, destination.family, wish.dev, wish.metric
            way = (family, dev, metric, None if gateway is None else int(gateway), type(gateway))
            if way not in meant:
                wanted = uplink.resolve(wish)
                meant[way] = numbers.get(shape_of(wanted)) if isinstance(wanted, Route) else None
            number, place_of = meant[way], alone[family].get
        place = place_of(destination.network << BITS | destination.length)
        if place is None or there[place] != number:
            rest.append(wish)
        else:
            kept[place] = wish
    if len(kept) + len(rest) < len(desired):
        _distinct(desired)
    if kept:
        for wish in rest:
            destination = wish.destination
            place = alone[destination.family].get(destination.network << BITS | destination.length, -1)
            _distinct((wish, kept.get(place, wish)))
    return kept, rest


def _alone(column: Column) -> dict[int, int]:
    """The positions of routes whose prefix no other route has, by the packed prefix."""
    packed = pack(column.networks, column.lengths)
    found = dict(zip(packed, column.positions, strict=True))
    if len(found) < len(packed):
        packed.sort()
        for several in set(compress(packed, map(eq, packed, packed[1:]))):
            del found[several]
    return found


def _distinct(desired: Iterable[DesiredRoute]) -> list[DesiredRoute]:
    """Each wish once, in an order that does not depend on the order of the input."""
    found: dict[tuple[object, ...], DesiredRoute] = {}
    for wish in desired:
        other = found.setdefault(wish.key, wish)
        if other is not wish and other != wish:
            raise ValueError(f"two different routes are wanted for one destination and metric: {other}; {wish}")
    return sorted(found.values(), key=_where)


def _where(wish: DesiredRoute) -> tuple[int, ...]:
    destination = wish.destination
    return (destination.family, destination.network, destination.length, wish.metric)


def _steps(wanted: Route, fib: Fib) -> Iterator[Step]:
    """The steps for one wanted route, whose key these routes hold; the kernel uses the first of them."""
    near = fib.routes(wanted.prefix)
    if len(near) == 1 and near[0] == wanted:
        yield Step("keep", near[0], _why_kept(near[0]))
        return
    shadow = _shadow(wanted, near, fib)
    holders = [route for route in near if route.key == wanted.key]
    joined = next((route for route in holders if _joins(wanted, route)), None)
    if joined is not None and all(route.protocol == OURS for route in holders[: holders.index(joined)]):
        yield _beside(wanted, joined, shadow)
        rest = [at for at, route in enumerate(holders) if route.protocol == OURS and route is not joined]
        yield from _deletions(holders, rest, _TWIN)
        return
    stale = [at for at, route in enumerate(holders) if route.protocol == OURS and not _says(route, wanted)]
    standing = [route for at, route in enumerate(holders) if at not in stale]
    if standing and _says(standing[0], wanted):
        yield Step("keep", standing[0], _why_kept(standing[0]) + shadow)
        yield from _deletions(holders, stale, _TWIN)
    elif stale and not stale[0] and (not standing or wanted.prefix.family == IPV4):
        # In IPv6 the new route is added after the others, so another program's route would come before it.
        is_first = any(route.protocol != OURS for route in holders)
        yield Step("replace", wanted, "ours, but different", holders[0], is_first=is_first)
        # Also delete one that is as wanted but behind another program's route: the kernel has no duplicates.
        behind = [at for at, route in enumerate(holders) if at and route.protocol == OURS]
        yield from _deletions(holders, behind, _BEHIND)
    elif standing:
        holder = standing[0]
        remedies = [_way_round(holder.prefix, fib)]
        remedies += [_remedy(holder, fib.snapshot)] if is_left_behind(holder, wanted) else []
        reason = f"another route has the same destination and metric: [{holder}], which is not ours"
        yield Step("conflict", wanted, reason, holder, remedy="; ".join(remedies))
    else:
        yield Step("add", wanted, f"it does not exist{shadow}")


def _shadow(wanted: Route, near: Iterable[Route], fib: Fib) -> str:
    """The end of a reason: which route to the same destination is used instead; empty if none is."""
    for route in near:
        if hides(route) and route.protocol != OURS and wanted.source is None:
            remedy = _way_round(wanted.prefix, fib)
            return f"; it is not used while [{route}] exists, which is only for some sources; {remedy}"
        if not route.tos and route.source == wanted.source and route.metric < wanted.metric:
            return f"; it is not used while [{route}] exists, which has a lower metric"
    return ""


def _deletions(holders: list[Route], gone: list[int], reason: str) -> Iterator[Step]:
    """The steps that delete routes of one key: from the front up to one that stays, then from the back.

    So each can be put back where it was.
    """
    ahead = sum(at == place for place, at in enumerate(gone))
    yield from (Step("delete", holders[at], reason) for at in (*gone[:ahead], *reversed(gone[ahead:])))


def _says(route: Route, wanted: Route) -> bool:
    """Whether a route is exactly as wanted, whatever its protocol and the state of its next hops."""
    return attrs.evolve(_bare(route), protocol=wanted.protocol) == wanted


def is_shared(route: Route) -> bool:
    """Whether the route has several entries in the kernel's table, each with its own protocol."""
    return len(route.legs) > 1 and can_join(route)


def can_join(route: Route) -> bool:
    """Whether Linux makes one route of this one and others of its key that can join too."""
    family, legs = route.prefix.family, route.legs
    return family == IPV6 and route.nexthop_id is None and bool(legs) and all(leg.gateway for leg in legs)


def _joins(wanted: Route, route: Route) -> bool:
    """Whether the wanted route differs from this one only in next hops and protocols."""
    alike = attrs.evolve(route, legs=wanted.legs, protocol=wanted.protocol)
    return can_join(wanted) and can_join(route) and alike == wanted


def _bare(route: Route) -> Route:
    return attrs.evolve(route, legs=tuple(map(bare_leg, route.legs)))


def hop_of(leg: NextHop) -> tuple[object, ...]:
    """What distinguishes the IPv6 next hops of a key."""
    return (leg.dev, leg.gateway)


def _beside(wanted: Route, route: Route, shadow: str) -> Step:
    """The step for an IPv6 route whose key is held by next hops of several owners."""
    legs = {hop_of(leg): leg for leg in _bare(route).legs}
    coming = {hop_of(leg): leg for leg in wanted.legs}
    beside = tuple(leg for hop, leg in legs.items() if hop not in coming)
    asked = attrs.evolve(_bare(route), legs=beside) if beside and (len(legs) > 1 or route.protocol != OURS) else None
    if all(legs.get(hop) == leg for hop, leg in coming.items()):
        return Step("keep", route, _why_kept(route) + shadow, asked=asked)
    if route.protocol == OURS:
        return Step("replace", wanted, "ours, but different", route, asked=asked)
    return Step("add", wanted, f"it becomes a next hop beside those of [{route}]{shadow}", route, asked=asked)


def _merged(held: Route, wanted: Route) -> Route:
    """The route that Linux makes of these two."""
    there = {hop_of(leg) for leg in held.legs}
    return attrs.evolve(held, legs=(*held.legs, *(leg for leg in wanted.legs if hop_of(leg) not in there)))


def next_hop_stays(route: Route) -> str:
    """A sentence about a single next hop that Linux did not delete for us; the boot script says the same."""
    (way,) = route.ways
    return (
        f"the next hop {way} is not configured and was not deleted, so Linux still sends some packets to it; if no"
        f" other program needs it, delete it with: ip -6 route del {route.prefix} {way} metric {route.metric}"
    )


def _why_kept(route: Route) -> str:
    if route.protocol == OURS:
        return _THERE
    return f"it already exists (proto {protocol_name(route.protocol)}) and stays as it is"


def _way_round(prefix: Prefix, fib: Fib) -> str:
    """A sentence: which routes win although the holder of the key stays."""
    found = way_round(prefix, lambda candidate, metric: is_held(candidate, metric, fib))
    if len(found) == 1:
        [(_, metric)] = found
        return f"instead, configure one with metric {metric}, which takes precedence"
    if prefix.length == width_of(prefix.family):
        return "delete it first: no prefix can be longer, and no metric lower"
    left, right = prefix.halves()
    if found:
        return f"instead, configure {left} and {right}, which take precedence"
    return f"instead, configure longer prefixes that no other route has ({left} and {right} are not both free)"


def _remedy(holder: Route, snapshot: Snapshot) -> str:
    """A sentence: how to delete a route that a script left, and whether the kernel then adds its own."""
    command = deletion_command(holder)
    told = f"if an earlier script left it there, delete it with: {command}"
    comes = next((address for address, route in connected_routes(snapshot).items() if route.key == holder.key), None)
    if comes is None:
        return told
    why = f"because {comes.dev} has the address {comes.ip}/{comes.length}"
    return f"{told}; but then the kernel can add its own route to {holder.prefix}, {why}"


# Routes that a script has left behind.

_BY_HAND = frozenset({3, 4})  # boot, which is the default of `ip route`, and static
_SCOPES = {SCOPE_UNIVERSE: "global", SCOPE_LINK: "link"}


def is_left_behind(standing: Route, wanted: Route) -> bool:
    """Whether a route looks as if an earlier script, such as the Go original's, had added it for the wanted route.

    True if it was added with `ip route` (proto boot or static), and has a gateway and only devices of the wanted route.
    """
    return (
        standing.protocol in _BY_HAND
        and standing.type == "unicast"
        and any(leg.gateway is not None for leg in standing.legs)
        and set(standing.devs) <= set(wanted.devs)
    )


def beside_finding(prefix: Prefix, told: str) -> Finding:
    """A finding that a route has next hops of other programs beside the wanted ones; `told` is its sentence."""
    return Finding("route-beside", "warning", f"{prefix}: {told}", str(prefix))


def deletion_command(route: Route) -> str:
    """The shell command that deletes this IPv4 route, the first with its destination and metric, and no other.

    It gives every attribute, because the kernel does not compare those that a request leaves out.
    """
    legs = tuple(map(bare_leg, route.legs))
    words = ["ip route del", *([] if route.type == "unicast" else [route.type])]
    words.append("default" if route.prefix.length == 0 else str(route.prefix))
    words += [str(legs[0])] if len(legs) == 1 and route.nexthop_id is None else []
    words += [f"tos {route.tos:#04x}"] if route.tos else []
    words.append(f"table {table_name(route.table)}")
    # Every iproute2 knows the names of these two protocols.
    words.append(f"proto {protocol_name(route.protocol) if route.protocol in _BY_HAND else route.protocol}")
    words.append(f"scope {_SCOPES.get(route.scope, route.scope)}")
    words += [f"src {route.prefsrc}"] if route.prefsrc is not None else []
    words.append(f"metric {route.metric}")
    words += [f"{name} {value}" for name in ("mtu", "advmss") if (value := getattr(route, name)) is not None]
    if route.nexthop_id is not None:
        words.append(f"nhid {route.nexthop_id}")
    elif len(legs) > 1:
        words += [f"nexthop {leg} weight {leg.weight}" for leg in legs]
    return " ".join(words)
