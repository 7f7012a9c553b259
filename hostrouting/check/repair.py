"""The smallest repair: the fewest routes in table main that send everything that escapes out as expected.

Theory of operation. A route of ours to a prefix takes the packets of each range in it whose present route in table main
is shorter or is missing; a range that an earlier rule decides does not notice it. So for each range there is a shortest
length with which a route takes it, and one recursion over the tree of prefixes finds the fewest routes, from the widest
prefix down. A prefix without an escape needs nothing. A prefix can be repaired by one route if that route takes all of
its escapes, diverts nothing that is fine, and no other program's route has its key. Any other prefix is halved.

Then the proof: the routes are put into the tables, and everything is judged again. What was to be repaired has to be
fine, and nothing else may be worse. What no route can repair is named, with one of five reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.check.expected import defaults_of
from hostrouting.check.judge import ESCAPE, FINE, Judge, Part, ranges_of
from hostrouting.config.settings import StaticRoute
from hostrouting.errors import ConfigError
from hostrouting.fib.engine import Decision, Fib
from hostrouting.model.prefix import Prefix, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, OURS, TABLE_MAIN, Route
from hostrouting.routes.uplink import Uplink

MOST = 512
"""More routes than this are not proposed: no operator would read them."""

Reason: TypeAlias = Literal["earlier-rule", "host-route", "no-gateway", "reserved", "too-many"]


class Unsafe(NamedTuple):
    """A range that no route can repair."""

    first: int
    last: int
    reason: Reason
    cause: str = ""
    """What comes before table main, or what a route would need, such as `an IPv4 default route on eth0`."""


class Repair(NamedTuple):
    """The routes that repair what can be repaired, what cannot be, and what the repair costs."""

    routes: tuple[StaticRoute, ...] = ()
    resolved: tuple[Route, ...] = ()
    """The same routes with device and gateway, as they are added on this host."""
    unsafe: tuple[Unsafe, ...] = ()
    diverted: tuple[tuple[str, Prefix], ...] = ()
    """Networks of other devices of which a part would be reached by the uplink instead: device and network."""
    lacks: tuple[str, ...] = ()
    """What the default route has and a static route cannot have: an mtu, or another source than Linux chooses."""


class _Span(NamedTuple):
    """A range of addresses, and what a route of ours would do to it."""

    part: Part
    length: int
    """The shortest length with which a route of ours takes the range; longer than an address if none does."""
    obstacle: str = ""
    """What comes before table main, so that no route in it helps."""

    @property
    def is_escape(self) -> bool:
        """Whether it is to be repaired."""
        return self.part.opinion.grade == ESCAPE


def propose_repair(judge: Judge, blocks: Sequence[Prefix], parts: Iterable[Part]) -> Repair:
    """The repair for everything that escapes in these disjoint blocks, of which these are all parts."""
    spans = list(_spans(judge, parts))
    if not any(span.is_escape for span in spans):
        return Repair()
    uplink = Uplink(judge.fib.snapshot, judge.fib.family)
    dev, way = _way_out(judge, uplink)
    if isinstance(way, str):
        return Repair(unsafe=_none(spans, "no-gateway", way))
    cover = _Cover(judge, spans, way)
    prefixes = [prefix for block in blocks for prefix in cover.prefixes(block)]
    if len(prefixes) > MOST:
        return Repair(unsafe=_none(spans, "too-many"))
    try:
        repair = _proven(judge, uplink, dev, prefixes, spans)
    except ConfigError:  # Linux takes nearly any letter in the name of a device
        return Repair(unsafe=_none(spans, "no-gateway", f"a device whose name a configuration can have, not {dev!r}"))
    return repair._replace(lacks=tuple(_lacking(judge, way)))


def _none(spans: Iterable[_Span], reason: Reason, cause: str = "") -> tuple[Unsafe, ...]:
    """Everything that escapes, for one reason."""
    ranges = ranges_of((span.part for span in spans), lambda part: part.opinion.grade == ESCAPE or None)
    return tuple(Unsafe(first, last, reason, cause) for _, first, last in ranges)


def _way_out(judge: Judge, uplink: Uplink) -> tuple[str | None, Route | str]:
    """The device that the repair's routes name, and a route with their next hops; or what such a route needs.

    The device is left open where the default route fills it in rightly: it differs from host to host. A tunnel has to
    be named in the configuration to be one of them.
    """
    uplinks, every = judge.uplinks, Prefix(judge.fib.family, 0, 0)
    devs = [dev for dev in sorted(uplinks.devs) if dev in judge.named or not judge.is_tunnel(dev)]
    if not devs or (uplinks.doubtful and not judge.named):
        return None, "routeOverlap.expectedDevs to name the device"
    open_first: list[str | None] = [*devs] if judge.named else [None, *devs]
    ways = [(dev, uplink.route_to(every, dev=dev)) for dev in open_first]
    good = (way for way in ways if isinstance(way[1], Route) and uplinks.devs.issuperset(way[1].devs))
    return next(good, ways[-1])


def _spans(judge: Judge, parts: Iterable[Part]) -> Iterator[_Span]:
    fib = judge.fib
    table = fib.tables.get(TABLE_MAIN)
    for part in parts:
        length, obstacle = 0, _obstacle(fib, part)
        if obstacle:
            length = fib.width + 1
        elif table is not None and (best := table.best(part.first)) is not None:
            # Also a throw, or a route that the rule suppresses, comes before a route of ours that is not more specific.
            length = best.prefix.length + (0 if best.metric > DEFAULT_METRIC[fib.family] else 1)
        yield _Span(part, length, obstacle)


def _obstacle(fib: Fib, part: Part) -> str:
    """What decides before table main is looked up for these packets; empty if nothing does."""
    decision = part.decision
    if part.opinion.name == "own-range":
        return f"[{decision.route}] makes them this host's own"
    for step in fib.steps():
        if step.is_for_plain(part.first):
            if step.rule.action == "to_table" and step.rule.table == TABLE_MAIN:
                return ""
            if step.rule == decision.rule:
                return f"[rule {step.rule}] comes before table main"
    return "no rule looks up table main"


class _Cover:
    """Finds the fewest prefixes."""

    def __init__(self, judge: Judge, spans: Sequence[_Span], way: Route) -> None:
        """Use these ranges, and the next hops of this route."""
        self._fib, self._way = judge.fib, way
        self._known: dict[tuple[Prefix, int], tuple[int, tuple[Prefix, ...]]] = {}
        self._open = [span for span in spans if span.is_escape and span.length <= self._fib.width]
        others = [span for span in spans if not span.is_escape and span.part.opinion.name != "own"]
        self._kept = [span for span in others if not self._goes_the_same_way(span.part)]
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
        self, block: Prefix, taken: int, escapes: Sequence[_Span], kept: Sequence[_Span]
    ) -> tuple[int, tuple[Prefix, ...]]:
        """How many addresses of this block stay lost, and the fewest prefixes for all others.

        A route of the length `taken` to a wider prefix is there already.
        """
        if (block, taken) not in self._known:
            inside = [span for span in _inside(block, escapes) if span.length > taken]
            self._known[block, taken] = self._covered(block, taken, inside, _inside(block, kept))
        return self._known[block, taken]

    def _covered(
        self, block: Prefix, taken: int, escapes: Sequence[_Span], kept: Sequence[_Span]
    ) -> tuple[int, tuple[Prefix, ...]]:
        """The same, of ranges in this block."""
        if not escapes:
            return 0, ()
        is_no_destination = is_reserved(block.family, block.first, block.last)
        can_be = (
            block.length > 0
            and not is_no_destination
            and block not in self._taken
            and not any(span.length <= block.length for span in kept)
        )
        takes = [span for span in escapes if span.length <= block.length] if can_be else []
        if len(takes) == len(escapes):
            return 0, (block,)
        if block.length == self._fib.width or is_no_destination:
            return 1, ()
        ways = []
        for route, length in [((), taken), *([((block,), block.length)] if takes else [])]:
            (lost, first), (more_lost, second) = (self._fewest(half, length, escapes, kept) for half in block.halves())
            ways.append((lost + more_lost, (*route, *first, *second)))
        return min(ways, key=lambda way: (way[0], len(way[1])))

    def _goes_the_same_way(self, part: Part) -> bool:
        """Whether a route of ours changes nothing for this range."""
        route = part.decision.route
        return part.grade == FINE and route is not None and {*route.legs} == {*self._way.legs}


def _inside(block: Prefix, spans: Sequence[_Span]) -> list[_Span]:
    return [span for span in spans if span.part.first <= block.last and block.first <= span.part.last]


def _proven(
    judge: Judge, uplink: Uplink, dev: str | None, prefixes: Sequence[Prefix], spans: Sequence[_Span]
) -> Repair:
    """The repair, with what stays lost; without the routes that would make anything worse."""
    ways = (uplink.route_to(prefix, dev=dev) for prefix in prefixes)
    resolved = tuple(route for route in ways if isinstance(route, Route))
    after = judge.with_routes(resolved)
    now = [(span, part) for span in spans for part in after.parts(span.part.first, span.part.last)]
    harmed = [span for span, part in now if part.grade > span.part.grade]
    if harmed and prefixes:
        return _proven(judge, uplink, dev, [prefix for prefix in prefixes if not _inside(prefix, harmed)], spans)
    reasons: dict[int, tuple[Reason, str]] = {}
    for span, part in now:
        if span.is_escape and part.grade > FINE:
            is_no_destination = is_reserved(judge.fib.family, part.first, part.last)
            reason: Reason = "reserved" if is_no_destination else "host-route"
            reasons[part.first] = ("earlier-rule", span.obstacle) if span.obstacle else (reason, "")
    ranges = ranges_of((part for _, part in now), lambda part: reasons.get(part.first))
    unsafe = tuple(Unsafe(first, last, *why) for why, first, last in ranges)
    routes = tuple(StaticRoute(str(prefix), dev=dev) for prefix in prefixes)
    return Repair(routes, resolved, unsafe, tuple(_diverted(judge, resolved, spans)))


def _lacking(judge: Judge, way: Route) -> Iterator[str]:
    hops = {(leg.dev, leg.gateway) for leg in way.legs}
    defaults = (default.route for default in defaults_of(judge.fib))
    default = next((route for route in defaults if hops <= {(leg.dev, leg.gateway) for leg in route.legs}), way)
    if default.mtu is not None:
        yield f"mtu {default.mtu}"
    if default.prefsrc is not None and judge.sources_of(Decision("unicast", way)) != (default.prefsrc,):
        yield f"src {default.prefsrc}"


def _diverted(judge: Judge, routes: Sequence[Route], spans: Sequence[_Span]) -> Iterator[tuple[str, Prefix]]:
    """The networks of other devices of which the repair takes a part."""
    devs = {dev for span in spans if span.is_escape for dev in span.part.decision.devs}
    addresses = (address for address in judge.fib.snapshot.addresses if address.dev in devs)
    for dev, network in dict.fromkeys((address.dev, address.network) for address in addresses):
        if network.length < judge.fib.width and any(
            route.prefix in network or network in route.prefix for route in routes
        ):
            yield dev, network
