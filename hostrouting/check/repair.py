"""The smallest repair: the fewest routes in table main that send everything that escapes out as
expected.

Theory of operation. A new route to a prefix takes the addresses in it whose present route in table
main is shorter or is missing. It does not change an address that an earlier rule decides. So each
address has a shortest length with which a route takes it. All addresses that a new route takes have
the same present route: the longest around its prefix. So new routes for different present ones
never compete for an address, and a wider one for the same takes all that those inside would.
Therefore one walk from the widest prefix down finds the fewest routes. A prefix without an escape
needs nothing. A prefix gets a route if that takes an escape, diverts nothing that is fine, and no
other program's route has its key. What that route does not take is left to longer prefixes inside.
Any other prefix is halved.

Some packets belong elsewhere than at the uplink: those to pods behind a CNI's device, when a stale
blackhole or another bridge catches them. A route by the uplink would only lose them in another way.
So what catches them is taken out of the tables first, to see where they would go. Such a range
counts as one that is fine, and has to be repaired by a deletion.

Then the proof: the routes are put into the tables, and everything is judged again. What was to be
repaired has to be fine, and nothing else may be worse. What no route can repair is named, with one
of six reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hostrouting.check.judge import ESCAPE, FINE, Judge, Opinion, Part, ranges_of
from hostrouting.config.settings import StaticRoute
from hostrouting.errors import ConfigError
from hostrouting.model.prefix import Prefix, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, OURS, TABLE_MAIN, Route
from hostrouting.routes.uplink import Uplink, is_tap, is_tunnel
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.snapshot import Link

_MOST = 512
"""More routes than this are not proposed: no operator would read them."""


class Unsafe(NamedTuple):
    """A range that no route can repair."""

    first: int
    last: int
    reason: str
    """One of below-a-cni, earlier-rule, host-route, no-gateway, too-many and not-proven."""
    cause: str
    """The same in words that follow a colon, with the route or the rule."""
    catching: tuple[Route, ...] = ()
    """The routes to delete instead, in the order in which they decide."""


class Repair(NamedTuple):
    """The routes that repair what can be repaired, and what cannot be."""

    resolved: tuple[Route, ...] = ()
    """The routes with device and gateway, as they are added on this host."""
    dev: str | None = None
    """The device that they name in a configuration."""
    unsafe: tuple[Unsafe, ...] = ()

    @property
    def routes(self) -> tuple[StaticRoute, ...]:
        """The same routes, as a configuration has them."""
        return tuple(
            StaticRoute(route.prefix.to_network(), dev=self.dev) for route in self.resolved
        )


class Caught(NamedTuple):
    """An escaping part that would be fine elsewhere than at the uplink, if what catches it were
    gone.
    """

    part: Part
    """The part as it would be then."""
    catching: tuple[Route, ...]
    """The routes that have to go, in the order in which they decide."""

    @property
    def cause(self) -> str:
        """Why no route by the uplink is right, in words that follow a colon."""
        hidden = self.part.decision.route
        return f"[{self.catching[0]}] hides [{hidden}], which these packets would take without it"


class Bare(NamedTuple):
    """The host without all that catches packets."""

    fib: Fib
    caught: dict[int, Caught]
    """By their first address: the parts that belong elsewhere than at the uplink."""


def propose_repair(judge: Judge, blocks: Sequence[Prefix], parts: Sequence[Part]) -> Repair:
    """The repair for everything that escapes in these disjoint blocks, of which these are all
    parts, in order.
    """
    escapes = [part for part in parts if part.opinion.grade == ESCAPE]
    if not escapes:
        return Repair()
    bare = _without_what_catches(judge, escapes)
    below: dict[int, _Why] = {}
    for part in escapes:
        caught = bare.caught.get(part.first)
        if caught is not None and _length(judge.fib, part) is not None:
            below[part.first] = ("below-a-cni", caught.cause, caught.catching)

    def no_repair(reason: str, cause: str) -> Repair:
        reasons: dict[int, _Why] = dict.fromkeys(
            (part.first for part in escapes), (reason, cause, ())
        )
        return Repair(unsafe=_unsafe(parts, reasons | below))

    dev, way = _way_out(judge, Uplink(judge.fib.snapshot, judge.fib.family))
    if isinstance(way, str):
        return no_repair("no-gateway", f"a repair needs {way}")
    prefixes = [*islice(_cover(judge.fib, blocks, parts, way, bare), _MOST + 1)]
    if len(prefixes) > _MOST:
        return no_repair("too-many", "it would take too many routes")
    routes = tuple(way._replace(prefix=prefix) for prefix in prefixes)
    return _proven(judge, Repair(routes, dev), blocks, parts, below)


_Why: TypeAlias = "tuple[str, str, tuple[Route, ...]]"
"""The reason, the cause and the routes to delete of an Unsafe."""


def _unsafe(parts: Iterable[Part], reasons: dict[int, _Why]) -> tuple[Unsafe, ...]:
    ranges = ranges_of(parts, lambda part: reasons.get(part.first))
    return tuple(Unsafe(first, last, *reason) for reason, first, last in ranges)


def _without_what_catches(judge: Judge, escapes: Iterable[Part]) -> Bare:
    """Take the routes of these escapes out of the tables, then those that catch the packets next.

    An escape is judged by its route alone: a route by which some packets escape is right for no
    others, so all such routes can go at once. What is expected stays what the whole host expects.
    """
    fib = judge.fib
    decisions = {part.first: part.decision for part in escapes}
    catching: dict[int, list[Route]] = {first: [] for first in decisions}
    while True:
        gone: dict[int, Route] = {}
        for first, decision in decisions.items():
            route = decision.route
            if route is not None and judge.opinion(decision).grade == ESCAPE:
                catching[first].append(route)
                gone[id(route)] = route
        if not gone:
            break
        fib = fib.without_routes(gone.values())
        decisions = {first: fib.ends(first)[0] for first in decisions}
    caught: dict[int, Caught] = {}
    for part in escapes:
        decision = decisions[part.first]
        opinion = judge.opinion(decision)
        if catching[part.first] and _is_elsewhere(opinion):
            then = part._replace(decision=decision, opinion=opinion)
            caught[part.first] = Caught(then, tuple(catching[part.first]))
    return Bare(fib, caught)


def _is_elsewhere(opinion: Opinion) -> bool:
    """Whether packets are fine, or may be, without leaving by an expected device."""
    if opinion.grade == FINE:
        return opinion.name not in {"expected", "own"}
    return opinion.name == "two-cnis"


def _way_out(judge: Judge, uplink: Uplink) -> tuple[str | None, Route | str]:
    """The device that the repair's routes name, and a route with their next hops; or what such a
    route needs.

    The device is left open where the default route fills it in rightly: it differs from host to
    host. A tunnel has to be named in the configuration to be one of them.
    """
    uplinks, every = judge.uplinks, Prefix(judge.fib.family, 0, 0)
    devs = [
        dev
        for dev in sorted(uplinks.devs)
        if dev in judge.named or _leads_out_of(judge.links.get(dev))
    ]
    if not devs or uplinks.doubtful:
        candidates = sorted(uplinks.devs | uplinks.doubtful)
        if judge.lacks_card:
            candidates.append("the network card that is meant")
        names = spoken(candidates, last="or")
        return None, f"its device to be named: write {names} into routeOverlap.expectedDevs first"
    way = uplink.route_to(every)
    # Of equal default routes, the first may be another one after the next boot.
    defaults = (route for first in uplinks.defaults[:1] for route in judge.fib.equals(first))
    if isinstance(way, Route) and uplinks.devs >= {
        *way.devs,
        *(dev for route in defaults for dev in route.devs),
    }:
        return None, way
    ways = [(dev, uplink.route_to(every, dev=dev)) for dev in devs]
    dev, way = next((way for way in ways if isinstance(way[1], Route)), ways[-1])
    try:
        StaticRoute(every.halves()[0].to_network(), dev=dev)
    except ConfigError:  # Linux takes nearly any letter in the name of a device
        return dev, f"a device whose name a configuration can have, not {dev!r}"
    return dev, way


def _leads_out_of(link: Link | None) -> bool:
    """Whether a route by this expected device leads out; a tap not in doubt is the uplink."""
    return not is_tunnel(link) or is_tap(link)


def _length(fib: Fib, part: Part) -> int | None:
    """The smallest prefix length at which our route would decide for these addresses; None if table
    main cannot.
    """
    for step in fib.steps() if part.opinion.name != "own-range" else ():
        if (
            step.table is not None
            and step.rule.table == TABLE_MAIN
            and step.is_for_plain(part.first)
        ):
            best = step.table.best(part.first)
            # Also a throw, or a route that the rule suppresses, comes before a route of ours that
            # is not longer.
            length = best.prefix.length + (best.metric <= DEFAULT_METRIC[fib.family]) if best else 0
            limit = step.rule.suppress_prefixlength
            return length if limit is None else max(length, limit + 1)
        if step.rule is part.decision.rule:
            break
    return None


class Span(NamedTuple):
    """A part that a new route would change."""

    part: Part
    length: int
    """The shortest prefix length with which a new route takes it."""
    is_lost: bool
    """Whether it is to be taken; all else is diverted by a route that takes it."""


def _cover(
    fib: Fib, blocks: Iterable[Prefix], parts: Iterable[Part], way: Route, bare: Bare
) -> Iterator[Prefix]:
    """The fewest prefixes in these blocks whose routes, with the next hops of this one, repair as
    much as can be.
    """
    metric = DEFAULT_METRIC[fib.family]
    main = [
        route
        for route in fib.routes
        if route.table == TABLE_MAIN and route.metric == metric and not route.tos
    ]
    taken = {route.prefix for route in main if route.protocol != OURS}
    spans = [*_spans(fib, parts, way, bare)]
    firsts = [span.part.first for span in spans]
    lasts = [span.part.last for span in spans]

    def widest(block: Prefix, above: int) -> Iterator[Prefix]:
        """The prefixes in this block; `above` is the length of the longest one around it."""
        inside = spans[bisect_left(lasts, block.first) : bisect_right(firsts, block.last)]
        lost = [span.length for span in inside if span.is_lost and span.length > above]
        if not lost or is_reserved(block):
            return
        diverts = any(span.length <= block.length and not span.is_lost for span in inside)
        # /0 is not a static route.
        if min(lost) <= block.length and block.length and not diverts and block not in taken:
            yield block
            above = block.length
        for half in block.halves() if block.length < fib.width else ():
            yield from widest(half, above)

    for block in blocks:
        yield from widest(block, -1)


def _spans(fib: Fib, parts: Iterable[Part], way: Route, bare: Bare) -> Iterator[Span]:
    """The parts that a route with these next hops would change, now or on the bare host."""
    next_hops = {*way.next_hops}
    for part in parts:
        route, is_fine = part.decision.route, part.grade == FINE
        if part.opinion.name == "own" or (
            is_fine and route is not None and {*route.next_hops} == next_hops
        ):
            continue
        lengths = [_length(fib, part)]
        caught = bare.caught.get(part.first)
        if caught is not None:
            lengths.append(_length(bare.fib, caught.part))
        length = min((length for length in lengths if length is not None), default=None)
        if length is not None and length <= fib.width:
            yield Span(part, length, is_lost=part.opinion.grade == ESCAPE and caught is None)


def _proven(
    judge: Judge,
    repair: Repair,
    blocks: Iterable[Prefix],
    parts: Sequence[Part],
    below: dict[int, _Why],
) -> Repair:
    """The repair, with what stays lost; without any route if they would make anything worse.

    What is `below` a CNI, by its first address, is not to be repaired.
    """
    after, firsts = (
        Judge(judge.fib.with_routes(repair.resolved), judge.check),
        [part.first for part in parts],
    )
    now: Sequence[Part] = [
        part for block in blocks for part in after.parts(block.first, block.last)
    ]
    before: Sequence[Part] = [
        parts[bisect_right(firsts, part.first) - 1] for part in now
    ]  # more routes, more parts
    is_worse = any(part.grade > old.grade for part, old in zip(now, before, strict=True))
    rest = (
        "other packets would be worse off"
        if is_worse
        else "some packets there would still be in doubt"
    )
    if is_worse:
        now = before = parts
    reasons: dict[int, _Why] = {}
    for part, old in zip(now, before, strict=True):
        if old.opinion.grade != ESCAPE or part.grade == FINE:
            continue
        why = below.get(old.first)
        if why is None:
            cause = f"with these routes, {rest}"
            why = _reason(judge.fib, old, part.first, repair.resolved, cause)
        reasons[part.first] = why
    return (Repair() if is_worse else repair)._replace(unsafe=_unsafe(now, reasons))


def _reason(fib: Fib, part: Part, address: int, proposed: Iterable[Route], why: str) -> _Why:
    """Why an address of this part stays lost, although these routes were proposed; and the cause,
    or `why`.
    """
    length, route, rule = _length(fib, part), part.decision.route, part.decision.rule
    if length is not None:
        around = (way.prefix for way in proposed if way.prefix.first <= address <= way.prefix.last)
        if any(prefix.length >= length for prefix in around):
            return "not-proven", why, ()
        if is_reserved(Prefix.around(fib.family, address, fib.width)):
            return "host-route", "the range is reserved", ()
        holder = (
            f"[{route}]"
            if route is not None and route.prefix.length == fib.width
            else "another route"
        )
        return "host-route", f"{holder} is as specific as a route can be", ()
    if part.opinion.name == "own-range":
        return "earlier-rule", f"[{route}] makes the range this host's own", ()
    if rule is None:
        return "earlier-rule", "no rule looks up table main", ()
    return "earlier-rule", f"[rule {rule}] comes before table main", ()
