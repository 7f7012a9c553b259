"""Desired routes and a snapshot: the ordered steps from what is to what is wanted.

Here: keep, add, replace, delete, conflict, and why. Not here: carrying them out. A step never names a route to
change that is not ours; printing a plan is the dry run.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from hostrouting.connected import connected_routes
from hostrouting.door import listed, require
from hostrouting.fib import Fib
from hostrouting.foresight import Foreseen, foresee
from hostrouting.leftover import deletion_command, is_left_behind
from hostrouting.model import (
    DEFAULT_METRIC,
    IPV4,
    IPV6,
    OURS,
    TABLE_MAIN,
    Column,
    Prefix,
    Route,
    RouteEdits,
    RouteTable,
    Snapshot,
    protocol_name,
    shape_of,
    width_of,
)
from hostrouting.steps import Action, Place, Step, Steps, in_order
from hostrouting.uplink import DesiredRoute, Pending, Uplink, bare_leg
from hostrouting.way_round import is_held, way_round

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Action", "Foreseen", "Place", "RoutePlan", "Step", "plan_exactly", "plan_routes"]

_THERE = "it is there"
_TWIN = "ours, but someone else's identical destination and metric already says what is wanted"
_BEHIND = "ours, and behind the route of the same destination and metric that is wanted"


@attrs.frozen
class RoutePlan:
    """The steps in the order in which they are to be taken, and what is not ready to be planned yet."""

    steps: Sequence[Step] = ()
    pending: tuple[Pending, ...] = ()
    foreseen: tuple[Foreseen, ...] = ()
    """Of the routes that are had, or will be, those that do not last."""

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change the kernel."""
        return tuple(step for step in self._busy if step.action in {"add", "replace", "delete"})

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """The routes that cannot be had, for somebody else holds their key."""
        return tuple(step for step in self._busy if step.action == "conflict")

    @property
    def kept(self) -> int:
        """How many routes are there as they are wanted."""
        return len(self.steps) - len(self._busy) + sum(step.action == "keep" for step in self._busy)

    @property
    def _busy(self) -> Sequence[Step]:
        """The steps that are made already, among them all that do not keep a route."""
        return self.steps.others if isinstance(self.steps, Steps) else self.steps

    def inverse(self) -> "Self":
        """The steps that take the host from where this plan leads back to where it began.

        Afterwards each key has the routes that it had; a route of ours that stood before others' stands there again.
        The order of those behind the first may be another: the kernel cannot put a route between two others.
        """
        return type(self)(tuple(map(_undo, reversed(self.changes))))

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The host after the plan was carried out; conflicts and what is pending change nothing.

        ValueError where the kernel would refuse a step: a route is to be the only one of a key that has one.
        """
        changes = self.changes
        edits = RouteEdits(snapshot.routes, about=[step.held or step.route for step in changes])
        for step in changes:
            if step.action == "replace" and step.held is not None:
                edits.change(step.held, step.route)
            elif step.action == "delete":
                # Where a twin of it has just come before it, that one stays.
                edits.change(step.route, None, last=True)
            elif step.place == "only" and edits.holders(step.route):
                raise ValueError(f"another route holds the key of {step.route}")
            else:
                edits.put(step.route, first=step.place == "first")
        return attrs.evolve(snapshot, routes=edits.table())

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps] + [f"? {pending}" for pending in self.pending]
        return "\n".join(lines) or "nothing is wanted, and nothing of ours is there"


def plan_routes(
    desired: Iterable[DesiredRoute], snapshot: Snapshot, *, protocol: int = OURS, former: Collection[int] = ()
) -> RoutePlan:
    """How to get from the snapshot to the desired routes, and to no other route that carries `protocol`.

    Routes that carry a `former` number are ours too: they are replaced where they are wanted, and go otherwise. Two
    wishes for one destination and metric that are not the same are refused with ValueError.
    """
    wishes = listed(desired, "plan_routes")
    if strangers := [wish for wish in wishes if not isinstance(wish, DesiredRoute)]:
        require(strangers[0], DesiredRoute, "plan_routes", 'write DesiredRoute("10.0.0.0/8")')
    routes, fib = snapshot.routes, Fib(snapshot)
    ours = frozenset({protocol, *former})
    uplink = Uplink(fib, protocol=protocol, former=former)
    kept, rest = _as_wanted(wishes, routes, uplink)
    resolved = [uplink.resolve(wish) for wish in _distinct(rest)]
    pending = tuple(it for it in resolved if isinstance(it, Pending))
    # What is there for a wish that waits stays until it is known what is wanted.
    settled = {it.desired.key if isinstance(it, Pending) else it.key for it in resolved}
    steps = [step for it in resolved if isinstance(it, Route) for step in _steps(it, fib, ours)]
    ours_there = (routes[place] for place in sorted(set(routes.places(lambda it: it.protocol in ours)) - kept.keys()))
    steps += _removals((route for route in ours_there if route.key not in settled), fib, ours)
    steps = [_renumbered(step, former) for step in steps] if former else steps
    others = in_order(steps)
    refused = {step.route.key for step in others if step.action == "conflict"} | {it.desired.key for it in pending}
    foreseen = tuple(foresee(wishes, fib, uplink, ours=ours, refused=refused))
    return RoutePlan(Steps(others, routes, tuple(kept), _THERE) if kept else others, pending, foreseen)


def plan_exactly(
    wanted: Collection[Route], snapshot: Snapshot, *, ours: Collection[int], about: Collection[Prefix]
) -> RoutePlan:
    """How to get to these routes, which leave nothing open, and to no other route of ours to the prefixes `about`.

    `ours` are the route protocol numbers that mark a route as ours; the first is that of the wanted routes.
    """
    fib, keys = Fib(snapshot), {route.key for route in wanted}
    steps = [step for route in wanted for step in _steps(route, fib, ours)]
    there = (snapshot.routes[place] for place in snapshot.routes.leading_to(set(about)))
    steps += _removals((it for it in there if it.protocol in ours and it.key not in keys), fib, ours)
    return RoutePlan(in_order(steps))


def _removals(unwanted: Iterable[Route], fib: Fib, ours: Collection[int]) -> Iterator[Step]:
    """The deletion of what is ours and no longer wanted, key by key."""
    keys = {route.key: (route.table, route.prefix) for route in unwanted}
    for table, prefix in dict.fromkeys(keys.values()):
        holders: dict[object, list[Route]] = {}
        for route in fib.routes(prefix, table=table):
            holders.setdefault(route.key, []).append(route)
        for key, its in holders.items():
            if key in keys:
                gone = [at for at, route in enumerate(its) if route.protocol in ours]
                yield from _deletions(its, gone, "ours, and no longer wanted")


def _as_wanted(
    desired: Iterable[DesiredRoute], routes: RouteTable, uplink: Uplink
) -> tuple[dict[int, DesiredRoute], list[DesiredRoute]]:
    """The wishes for which the right route of ours is there, alone with its prefix, by its place; and all the others.

    The shape that is meant is told once for each way that a wish leaves; so no Route is made of what is kept.
    """
    alone: dict[int, dict[tuple[int, int], int]] = {IPV4: {}, IPV6: {}}
    alone |= {it.family: _alone(it) for it in routes.columns if it.table == TABLE_MAIN}
    numbers = {shape_of(shape): number for number, shape in enumerate(routes.shapes)}
    there = routes.shape_numbers
    meant: dict[tuple[object, ...], int] = {}
    kept: dict[int, DesiredRoute] = {}
    rest: list[DesiredRoute] = []
    for wish in desired:
        destination, gateway = wish.destination, wish.gateway
        # Addresses are slow to hash.
        way = (destination.family, wish.dev, wish.metric, None if gateway is None else int(gateway), type(gateway))
        number = meant.get(way)
        if number is None:
            wanted = uplink.resolve(wish)
            number = meant[way] = numbers.get(shape_of(wanted), -1) if isinstance(wanted, Route) else -1
        place = alone[destination.family].get((destination.network, destination.length))
        if place is None or there[place] != number:
            rest.append(wish)
        elif (other := kept.setdefault(place, wish)) is not wish:
            _distinct((other, wish))
    if kept:
        for wish in rest:
            place = alone[wish.destination.family].get((wish.destination.network, wish.destination.length), -1)
            _distinct((wish, kept.get(place, wish)))
    return kept, rest


def _alone(column: Column) -> dict[tuple[int, int], int]:
    """Where the routes stand that share their prefix with no other one."""
    found = dict(zip(zip(column.networks, column.lengths, strict=True), column.positions, strict=True))
    if len(found) < len(column.positions):
        for prefix, count in Counter(zip(column.networks, column.lengths, strict=True)).items():
            if count > 1:
                del found[prefix]
    return found


def _distinct(desired: Iterable[DesiredRoute]) -> list[DesiredRoute]:
    """Each wish once, in an order that does not depend on how they were given."""
    found: dict[tuple[object, ...], DesiredRoute] = {}
    for wish in desired:
        other = found.setdefault(wish.key, wish)
        if other is not wish and other != wish:
            raise ValueError(f"two different routes are wanted for one destination and metric: {other}; {wish}")
    return sorted(found.values(), key=_where)


def _where(wish: DesiredRoute) -> tuple[int, ...]:
    destination = wish.destination
    return (destination.family, destination.network, destination.length, wish.metric)


def _steps(wanted: Route, fib: Fib, ours: Collection[int]) -> Iterator[Step]:
    """What to do about one route that is wanted, given those that hold its key; the kernel takes the first."""
    near = fib.routes(wanted.prefix)
    if len(near) == 1 and near[0] == wanted:
        yield Step("keep", near[0], _why_kept(near[0], ours))
        return
    before = next((route for route in near if not route.tos and route.metric < wanted.metric), None)
    shadow = "" if before is None else f"; it stands behind [{before}], whose metric is lower"
    holders = [route for route in near if route.key == wanted.key]
    stale = [at for at, route in enumerate(holders) if route.protocol in ours and not _says(route, wanted, ours)]
    standing = [route for at, route in enumerate(holders) if at not in stale]
    if standing and _says(standing[0], wanted, ours):
        yield Step("keep", standing[0], _why_kept(standing[0], ours) + shadow)
        yield from _deletions(holders, stale, _TWIN)
    elif stale and not stale[0] and (not standing or wanted.prefix.family == IPV4):
        # In IPv6 the kernel replaces the first one that has a gateway if the new one has, or has none like it. That may
        # be another's.
        alone = all(route.protocol in ours for route in holders)
        place: Place = "only" if alone else "first"
        yield Step("replace", wanted, "ours, and it says something else", holders[0], place)
        # Also one that says what is wanted, but stands behind another's: it cannot be there twice.
        behind = [at for at, route in enumerate(holders) if at and route.protocol in ours]
        yield from _deletions(holders, behind, _BEHIND)
    elif standing:
        holder = standing[0]
        remedy = _remedy(holder, fib.snapshot) if is_left_behind(holder, wanted) else ""
        yield Step("conflict", wanted, _way_out(holder, fib, ours), holder, remedy=remedy)
    else:
        yield Step("add", wanted, f"it is not there{shadow}")


def _deletions(holders: list[Route], gone: list[int], reason: str) -> Iterator[Step]:
    """The deletion of some of the routes of one key, such that what undoes them one by one restores their order."""
    staying = next(at for at in range(len(holders) + 1) if at not in gone)
    for at in gone:
        if at < staying:
            yield Step("delete", holders[at], reason, place="first")
    for at in reversed(gone):
        if at > staying:
            yield Step("delete", holders[at], reason, place="last")


def _says(route: Route, wanted: Route, ours: Collection[int]) -> bool:
    """Whether a route says exactly what is wanted, whoever it belongs to and whatever state its legs are in.

    One of ours by a former number does not: it is to carry the number of today.
    """
    if route.protocol != wanted.protocol and route.protocol in ours:
        return False
    return attrs.evolve(route, legs=tuple(map(bare_leg, route.legs)), protocol=wanted.protocol) == wanted


def _renumbered(step: Step, former: Collection[int]) -> Step:
    """The step; where it is about a route of a former number, for that reason."""
    standing = step.held or step.route
    if step.action not in {"replace", "delete"} or standing.protocol not in former:
        return step
    reason = f"ours, by the route protocol number {standing.protocol} of an earlier configuration"
    return attrs.evolve(step, reason=reason)


def _why_kept(route: Route, ours: Collection[int]) -> str:
    if route.protocol in ours:
        return _THERE
    return f"it is there, from {protocol_name(route.protocol)}, and stays theirs"


def _way_out(holder: Route, fib: Fib, ours: Collection[int]) -> str:
    """Who holds the key, and what wins without touching them."""
    prefix = holder.prefix
    found = way_round(prefix, holder.metric, lambda it: is_held(it, fib, ours))
    return f"its key is held by [{holder}], which is not ours: {_said(prefix, found)}"


def _said(prefix: Prefix, found: tuple[Prefix, ...]) -> str:
    if found == (prefix,):
        return f"in its place write one with metric {DEFAULT_METRIC[prefix.family]}, which wins without touching it"
    if prefix.length == width_of(prefix.family):
        return "it has to go first: no longer prefix is there to win, and no better metric"
    left, right = prefix.halves()
    if found:
        return f"in its place write {left} and {right}, which win without touching it"
    return f"in its place write longer prefixes, where they are free ({left} and {right} are not both)"


def _remedy(holder: Route, snapshot: Snapshot) -> str:
    """What can be done about a route that a script has left; alone it is not enough where the kernel's belongs."""
    told = f"where an earlier script left it there, delete it with: {deletion_command(holder)}"
    comes = next((address for address, route in connected_routes(snapshot).items() if route.key == holder.key), None)
    if comes is None:
        return told
    why = f"for {comes.dev} has the address {comes.ip}/{comes.length}"
    return f"{told}; but then the kernel's own route to {holder.prefix} belongs there, {why}"


def _undo(step: Step) -> Step:
    if step.action == "replace" and step.held is not None:
        return Step("replace", step.held, "as it was before", step.route, step.place)
    return Step("delete" if step.action == "add" else "add", step.route, "as it was before", place=step.place)
