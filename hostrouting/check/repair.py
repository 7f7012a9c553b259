"""The smallest repair: the fewest routes in table main that send everything that escapes out as expected.

Theory of operation. A new route to a prefix takes the packets of each range in it whose present route in table main is
shorter or is missing. It does not change a range that an earlier rule decides. So each range has a shortest length with
which a route takes it. One recursion over the tree of prefixes, from the widest prefix down, finds the fewest routes. A
prefix without an escape needs nothing. A prefix can have a route if that takes an escape, diverts nothing that is fine,
and no other program's route has its key. What that route does not take is left to longer prefixes inside. Any other
prefix is halved.

Then the proof: the routes are put into the tables, and everything is judged again. What was to be repaired has to be
fine, and nothing else may be worse. What no route can repair is named, with one of five reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.expected import is_tunnel
from hostrouting.check.judge import ESCAPE, FINE, Judge, Part, ranges_of
from hostrouting.config.settings import StaticRoute
from hostrouting.errors import ConfigError
from hostrouting.model.prefix import Prefix, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, OURS, TABLE_MAIN, Route
from hostrouting.routes.uplink import Uplink

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib

_MOST = 512
"""More routes than this are not proposed: no operator would read them."""


class Unsafe(NamedTuple):
    """A range that no route can repair."""

    first: int
    last: int
    reason: str
    """One of earlier-rule, host-route, no-gateway, too-many and not-proven."""
    cause: str = ""
    """What comes before table main, or what a route would need, such as `an IPv4 default route on eth0`."""


class Repair(NamedTuple):
    """The routes that repair what can be repaired, and what cannot be."""

    routes: tuple[StaticRoute, ...] = ()
    resolved: tuple[Route, ...] = ()
    """The same routes with device and gateway, as they are added on this host."""
    unsafe: tuple[Unsafe, ...] = ()


class _Span(NamedTuple):
    """A part, and the shortest length with which a route of ours takes it; longer than an address if none does."""

    part: Part
    length: int
    obstacle: str
    """What comes before table main, so that no route in it helps."""

    @property
    def is_escape(self) -> bool:
        """Whether it is to be repaired."""
        return self.part.opinion.grade == ESCAPE


def propose_repair(judge: Judge, blocks: Sequence[Prefix], parts: Iterable[Part]) -> Repair:
    """The repair for everything that escapes in these disjoint blocks, of which these are all parts, in order."""
    spans = [_span(judge.fib, piece) for part in parts for piece in _cut(judge.fib, part)]
    if not any(span.is_escape for span in spans):
        return Repair()
    uplink = Uplink(judge.fib.snapshot, judge.fib.family)
    dev, way = _way_out(judge, uplink)
    if isinstance(way, str):
        return Repair(unsafe=_none(spans, "no-gateway", way))
    prefixes = _cover(judge.fib, blocks, spans, way)
    if len(prefixes) > _MOST:
        return Repair(unsafe=_none(spans, "too-many"))
    try:
        return _proven(judge, uplink, dev, prefixes, spans)
    except ConfigError:  # Linux takes nearly any letter in the name of a device
        return Repair(unsafe=_none(spans, "no-gateway", f"a device whose name a configuration can have, not {dev!r}"))


def _none(spans: Iterable[_Span], reason: str, cause: str = "") -> tuple[Unsafe, ...]:
    """Everything that escapes, for one reason."""
    ranges = ranges_of((span.part for span in spans), lambda part: part.opinion.grade == ESCAPE)
    return tuple(Unsafe(first, last, reason, cause) for _, first, last in ranges)


def _way_out(judge: Judge, uplink: Uplink) -> tuple[str | None, Route | str]:
    """The device that the repair's routes name, and a route with their next hops; or what such a route needs.

    The device is left open where the default route fills it in rightly: it differs from host to host. A tunnel has to
    be named in the configuration to be one of them.
    """
    uplinks, every = judge.uplinks, Prefix(judge.fib.family, 0, 0)
    devs = [dev for dev in sorted(uplinks.devs) if dev in judge.named or not is_tunnel(judge.links.get(dev))]
    if not devs or uplinks.doubtful:
        return None, "routeOverlap.expectedDevs to name the device"
    way = uplink.route_to(every)
    if isinstance(way, Route) and uplinks.devs.issuperset(way.devs):
        return None, way
    ways = [(dev, uplink.route_to(every, dev=dev)) for dev in devs]
    return next((way for way in ways if isinstance(way[1], Route)), ways[-1])


def _cut(fib: Fib, part: Part) -> Iterator[Part]:
    """The part; where table main does not decide, in pieces with one route of it, which may be passed over."""
    route, borders = part.decision.route, fib.borders
    is_whole = route is not None and route.table == TABLE_MAIN
    inside = [] if is_whole else borders[bisect_right(borders, part.first) : bisect_right(borders, part.last)]
    for first, behind in zip([part.first, *inside], [*inside, part.last + 1], strict=True):
        yield part._replace(first=first, last=behind - 1)


def _span(fib: Fib, part: Part) -> _Span:
    obstacle = "no rule looks up table main"
    if part.opinion.name == "own-range":
        return _Span(part, fib.width + 1, f"[{part.decision.route}] makes them this host's own")
    for step in fib.steps():
        if step.table is not None and step.rule.table == TABLE_MAIN and step.is_for_plain(part.first):
            best = step.table.best(part.first)
            # Also a throw, or a route that the rule suppresses, comes before a route of ours that is not longer.
            return _Span(part, best.prefix.length + (best.metric <= DEFAULT_METRIC[fib.family]) if best else 0, "")
        if step.rule == part.decision.rule:
            obstacle = f"[rule {step.rule}] comes before table main"
            break
    return _Span(part, fib.width + 1, obstacle)


def _cover(fib: Fib, blocks: Iterable[Prefix], spans: Iterable[_Span], way: Route) -> list[Prefix]:
    """The fewest prefixes in these blocks whose routes, with the next hops of this one, repair as much as can be."""
    metric = DEFAULT_METRIC[fib.family]
    main = [route for route in fib.routes if route.table == TABLE_MAIN and route.metric == metric and not route.tos]
    taken = {route.prefix for route in main if route.protocol != OURS}
    relevant = [span for span in spans if span.length <= fib.width and not _is_indifferent(span.part, way)]
    firsts, lasts = [span.part.first for span in relevant], [span.part.last for span in relevant]

    @cache
    def fewest(block: Prefix, above: int) -> tuple[int, tuple[Prefix, ...]]:
        """How many addresses of the block stay lost, and its prefixes; `above` is the length of a route around it."""
        inside = relevant[bisect_left(lasts, block.first) : bisect_right(firsts, block.last)]
        lost = [span for span in inside if span.is_escape and span.length > above]
        if not lost:
            return 0, ()
        is_no_destination = is_reserved(block)
        diverts = any(span.length <= block.length and not span.is_escape for span in inside)
        is_possible = block.length and not (diverts or is_no_destination or block in taken)  # /0 is no static route
        takes = [span for span in lost if span.length <= block.length] if is_possible else []
        if len(takes) == len(lost):
            return 0, (block,)
        if block.length == fib.width or is_no_destination:
            return 1, ()
        ways = []
        for route, length in [((), above), *([((block,), block.length)] if takes else [])]:
            (count, first), (more, second) = (fewest(half, length) for half in block.halves())
            ways.append((count + more, (*route, *first, *second)))
        return min(ways, key=lambda way: (way[0], len(way[1])))

    return [prefix for block in blocks for prefix in fewest(block, -1)[1]]


def _is_indifferent(part: Part, way: Route) -> bool:
    """Whether a route with these next hops changes nothing for these addresses."""
    route = part.decision.route
    is_same = part.grade == FINE and route is not None and {*route.next_hops} == {*way.next_hops}
    return is_same or part.opinion.name == "own"


def _proven(
    judge: Judge, uplink: Uplink, dev: str | None, prefixes: Sequence[Prefix], spans: Sequence[_Span]
) -> Repair:
    """The repair, with what stays lost; without any route if they would make anything worse."""
    ways = (uplink.route_to(prefix, dev=dev) for prefix in prefixes)
    resolved = tuple(route for route in ways if isinstance(route, Route))
    routes = tuple(StaticRoute(prefix.to_network(), dev=dev) for prefix in prefixes)
    after = judge.with_routes(resolved)
    now = [(span, part) for span in spans for part in after.parts(span.part.first, span.part.last)]
    if any(part.grade > span.part.grade for span, part in now):
        routes, resolved, now = (), (), [(span, span.part) for span in spans]

    def reason_of(span: _Span, part: Part) -> tuple[str, str]:
        takes = any(prefix.first <= part.first <= prefix.last and prefix.length >= span.length for prefix in prefixes)
        return ("earlier-rule" if span.obstacle else "not-proven" if takes else "host-route"), span.obstacle

    lost = {part.first: reason_of(span, part) for span, part in now if span.is_escape and part.grade > FINE}
    ranges = ranges_of((part for _, part in now), lambda part: lost.get(part.first))
    unsafe = tuple(Unsafe(first, last, *why) for why, first, last in ranges)
    return Repair(routes, resolved, unsafe)
