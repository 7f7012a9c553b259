"""The smallest repair: the fewest routes in table main that send everything that escapes out as expected.

Theory of operation. A route of ours to a prefix takes the packets of each range in it whose present route in table main
is shorter or is missing; a range that an earlier rule decides does not notice it. So for each range there is a shortest
length with which a route takes it, and one recursion over the tree of prefixes finds the fewest routes, from the widest
prefix down. A prefix without an escape needs nothing. A prefix can be repaired by one route if that route takes all of
its escapes, diverts nothing that is fine, and no other program's route has its key. Any other prefix is halved.

Then the proof: the routes are put into the tables, and everything is judged again. What was to be repaired has to be
fine, and nothing else may be worse. What no route can repair is named, with one of four reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import attrs

from hostrouting.check.judge import ESCAPE, FINE, Judge
from hostrouting.fib.engine import Decision, conditions_of, is_plain
from hostrouting.model.prefix import Prefix, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, OURS, TABLE_MAIN, Route
from hostrouting.routes.uplink import DesiredRoute, Pending, Uplink, all_defaults

if TYPE_CHECKING:
    from hostrouting.model.rule import Rule

MOST = 512
"""More routes than this are not proposed: no operator would read them."""

Reason: TypeAlias = Literal["earlier-rule", "host-route", "no-gateway", "too-many"]
_EARLIER_RULE: Reason = "earlier-rule"
_HOST_ROUTE: Reason = "host-route"


class Unsafe(NamedTuple):
    """A range that no route can repair."""

    first: int
    last: int
    decision: Decision
    reason: Reason
    missing: str = ""
    """What a route would need, such as `an IPv4 default route on eth0`."""


@attrs.frozen
class Repair:
    """The routes that repair what can be repaired, what cannot be, and what the repair costs."""

    routes: tuple[DesiredRoute, ...] = ()
    resolved: tuple[Route, ...] = ()
    """The same routes with device and gateway, as they are added on this host."""
    unsafe: tuple[Unsafe, ...] = ()
    diverted: tuple[tuple[str, Prefix], ...] = ()
    """Networks of other devices of which a part would be reached by the uplink instead: device and network."""
    lacks: tuple[str, ...] = ()
    """What the default route has and a static route cannot have: an mtu, or another source than Linux chooses."""


class _Range(NamedTuple):
    """A range of addresses with one decision, and what a route of ours would do to it."""

    first: int
    last: int
    decision: Decision
    grade: int
    is_escape: bool
    length: int
    """The shortest length with which a route of ours takes the range; longer than an address if none does."""
    reason: Reason
    """Why, in that case."""

    def unsafe(self, reason: Reason | None = None, missing: str = "") -> Unsafe:
        """The range as one that cannot be repaired."""
        return Unsafe(self.first, self.last, self.decision, reason or self.reason, missing)


def propose_repair(judge: Judge, cidrs: Iterable[Prefix]) -> Repair:
    """The repair for everything that escapes in these CIDRs."""
    blocks = disjoint(cidrs)
    ranges = [part for block in blocks for part in _ranges(judge, block)]
    escaping = [part for part in ranges if part.is_escape]
    if not escaping:
        return Repair()
    dev, way = _way_out(judge)
    if isinstance(way, Pending):
        return Repair(unsafe=tuple(part.unsafe("no-gateway", way.missing) for part in escaping))
    cover = _Cover(judge, ranges, way)
    prefixes = [prefix for block in blocks for prefix in cover.prefixes(block)]
    if len(prefixes) > MOST:
        return Repair(unsafe=tuple(part.unsafe("too-many") for part in escaping))
    return attrs.evolve(_proven(judge, dev, prefixes, ranges), lacks=tuple(_lacking(judge, way)))


def disjoint(cidrs: Iterable[Prefix]) -> list[Prefix]:
    """The CIDRs of which none lies in another one."""
    blocks: list[Prefix] = []
    for cidr in sorted(cidrs):
        if not blocks or cidr not in blocks[-1]:
            blocks.append(cidr)
    return blocks


def _way_out(judge: Judge) -> tuple[str | None, Route | Pending]:
    """The device that the repair's routes name, and a route with their next hops; or what such a route needs.

    The device is left open where the default route fills it in rightly: it differs from host to host. A tunnel has to
    be named in the configuration to be one of them.
    """
    uplinks, every = judge.uplinks, Prefix(judge.fib.family, 0, 0)
    devs = [dev for dev in sorted(uplinks.devs) if dev in judge.named or not judge.is_tunnel(dev)]
    if not devs or (uplinks.doubtful and not judge.named):
        return None, Pending(DesiredRoute(every), "routeOverlap.expectedDevs to name the device")
    open_first: list[str | None] = [*devs] if judge.named else [None, *devs]
    uplink = Uplink(judge.fib.snapshot, judge.fib.family)
    ways = [(dev, uplink.resolve(DesiredRoute(every, dev=dev))) for dev in open_first]
    good = (way for way in ways if isinstance(way[1], Route) and uplinks.devs.issuperset(way[1].devs))
    return next(good, ways[-1])


def _ranges(judge: Judge, block: Prefix) -> Iterator[_Range]:
    fib = judge.fib
    # For plain packets, table main is first looked up here; a route of ours is used from here on.
    at_main = next((place for place, rule in enumerate(fib.rules) if _looks_up_main(rule)), len(fib.rules))
    table = fib.tables.get(TABLE_MAIN)
    for cell in fib.cells(block):
        decision, opinion = cell.decision, judge.opinion(cell.decision)
        is_escape = opinion.grade == ESCAPE
        length, reason = 0, _HOST_ROUTE
        is_before = at_main == len(fib.rules) or decision.rule in fib.rules[:at_main]
        if is_before or opinion.name == "own-range":
            length, reason = fib.width + 1, _EARLIER_RULE
        elif table is not None and (best := table.best(cell.first)) is not None:
            # Also a throw, or a route that the rule suppresses, comes before a route of ours that is not more specific.
            length = best.prefix.length + (0 if best.metric > DEFAULT_METRIC[fib.family] else 1)
        yield _Range(cell.first, cell.last, decision, judge.grade(cell), is_escape, length, reason)


def _looks_up_main(rule: Rule) -> bool:
    conditions = conditions_of(rule)
    is_for_plain = not conditions or is_plain(rule, conditions) is not rule.invert
    return rule.action == "to_table" and rule.table == TABLE_MAIN and rule.dst is None and is_for_plain


class _Cover:
    """Finds the fewest prefixes."""

    def __init__(self, judge: Judge, ranges: Sequence[_Range], way: Route) -> None:
        """Use these ranges, and the next hops of this route."""
        self._fib, self._way = judge.fib, way
        self._known: dict[tuple[Prefix, int], tuple[int, tuple[Prefix, ...]]] = {}
        self._open = [part for part in ranges if part.is_escape and part.length <= self._fib.width]
        self._kept = [part for part in ranges if not part.is_escape and not self._goes_the_same_way(part)]
        metric = DEFAULT_METRIC[self._fib.family]
        self._taken = {
            route.prefix
            for route in self._fib.routes
            if route.table == TABLE_MAIN and route.metric == metric and route.protocol != OURS and not route.tos
        }

    def prefixes(self, block: Prefix) -> tuple[Prefix, ...]:
        """The fewest prefixes in this block that repair as much of it as can be."""
        return self._fewest(block, -1, self._open, self._kept)[1]

    def _fewest(
        self, block: Prefix, taken: int, escapes: Sequence[_Range], kept: Sequence[_Range]
    ) -> tuple[int, tuple[Prefix, ...]]:
        """How many addresses of this block stay lost, and the fewest prefixes for all others.

        A route of the length `taken` to a wider prefix is there already.
        """
        if (block, taken) not in self._known:
            inside = [part for part in _inside(block, escapes) if part.length > taken]
            self._known[block, taken] = self._covered(block, taken, inside, _inside(block, kept))
        return self._known[block, taken]

    def _covered(
        self, block: Prefix, taken: int, escapes: Sequence[_Range], kept: Sequence[_Range]
    ) -> tuple[int, tuple[Prefix, ...]]:
        """The same, of ranges in this block."""
        if not escapes:
            return 0, ()
        is_no_destination = is_reserved(block.family, block.first, block.last)
        can_be = (
            not is_no_destination and block not in self._taken and not any(part.length <= block.length for part in kept)
        )
        takes = [part for part in escapes if part.length <= block.length] if can_be else []
        if len(takes) == len(escapes):
            return 0, (block,)
        if block.length == self._fib.width or is_no_destination:
            return 1, ()
        ways = []
        for route, length in [((), taken), *([((block,), block.length)] if takes else [])]:
            (lost, first), (more_lost, second) = (self._fewest(half, length, escapes, kept) for half in block.halves())
            ways.append((lost + more_lost, (*route, *first, *second)))
        return min(ways, key=lambda way: (way[0], len(way[1])))

    def _goes_the_same_way(self, part: _Range) -> bool:
        """Whether a route of ours changes nothing for this range."""
        route = part.decision.route
        return part.grade == FINE and route is not None and {*route.legs} == {*self._way.legs}


def _inside(block: Prefix, ranges: Sequence[_Range]) -> list[_Range]:
    return [part for part in ranges if part.first <= block.last and block.first <= part.last]


def _proven(judge: Judge, dev: str | None, prefixes: Sequence[Prefix], ranges: Sequence[_Range]) -> Repair:
    """The repair, with what stays lost; without the routes that would make anything worse."""
    wishes = tuple(DesiredRoute(prefix, dev=dev) for prefix in prefixes)
    uplink = Uplink(judge.fib.snapshot, judge.fib.family)
    resolved = tuple(route for wish in wishes if isinstance(route := uplink.resolve(wish), Route))
    after = judge.with_routes(resolved)
    unsafe: list[Unsafe] = []
    harmed: list[_Range] = []
    for part in ranges:
        for cell in after.fib.cells_between(part.first, part.last):
            grade = after.grade(cell)
            if grade > part.grade:
                harmed.append(part)
            elif part.is_escape and grade > FINE:
                unsafe.append(Unsafe(cell.first, cell.last, cell.decision, part.reason))
    if harmed and prefixes:
        return _proven(judge, dev, [prefix for prefix in prefixes if not _inside(prefix, harmed)], ranges)
    return Repair(wishes, resolved, tuple(unsafe), tuple(_diverted(judge, prefixes, ranges)))


def _lacking(judge: Judge, way: Route) -> Iterator[str]:
    hops = {(leg.dev, leg.gateway) for leg in way.legs}
    defaults = (default.route for default in all_defaults(judge.fib))
    default = next((route for route in defaults if hops <= {(leg.dev, leg.gateway) for leg in route.legs}), way)
    if default.mtu is not None:
        yield f"mtu {default.mtu}"
    if default.prefsrc is not None and judge.sources_of(Decision("unicast", way)) != (default.prefsrc,):
        yield f"src {default.prefsrc}"


def _diverted(judge: Judge, prefixes: Sequence[Prefix], ranges: Sequence[_Range]) -> Iterator[tuple[str, Prefix]]:
    """The networks of other devices of which the repair takes a part."""
    devs = {dev for part in ranges if part.is_escape for dev in part.decision.devs}
    networks = dict.fromkeys(
        (address.dev, address.network)
        for address in judge.fib.snapshot.addresses
        if address.ip.version == judge.fib.family and address.dev in devs and address.network.length < judge.fib.width
    )
    for dev, network in networks:
        if any(prefix in network or network in prefix for prefix in prefixes):
            yield dev, network
