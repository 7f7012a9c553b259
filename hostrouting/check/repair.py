"""The smallest repair: the fewest routes in table main that send everything that escapes out as expected.

Theory of operation. A new route to a prefix takes the addresses in it whose present route in table main is shorter or
is missing. It does not change an address that an earlier rule decides. So each address has a shortest length with which
a route takes it. All addresses that a new route takes have the same present route: the longest around its prefix. So
new routes for different present ones never compete for an address, and a wider one for the same takes all that those
inside would. Therefore one walk from the widest prefix down finds the fewest routes. A prefix without an escape needs
nothing. A prefix gets a route if that takes an escape, diverts nothing that is fine, and no other program's route has
its key. What that route does not take is left to longer prefixes inside. Any other prefix is halved.

Then the proof: the routes are put into the tables, and everything is judged again. What was to be repaired has to be
fine, and nothing else may be worse. What no route can repair is named, with one of five reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.judge import ESCAPE, FINE, Judge, Part, ranges_of
from hostrouting.config.settings import StaticRoute
from hostrouting.errors import ConfigError
from hostrouting.model.prefix import Prefix, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, OURS, TABLE_MAIN, Route
from hostrouting.routes.uplink import Uplink, is_tunnel
from hostrouting.text import spoken

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
    cause: str
    """The same in words that follow a colon, with the route or the rule."""


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
        return tuple(StaticRoute(route.prefix.to_network(), dev=self.dev) for route in self.resolved)


def propose_repair(judge: Judge, blocks: Sequence[Prefix], parts: Sequence[Part]) -> Repair:
    """The repair for everything that escapes in these disjoint blocks, of which these are all parts, in order."""
    escapes = [part.first for part in parts if part.opinion.grade == ESCAPE]
    if not escapes:
        return Repair()
    dev, way = _way_out(judge, Uplink(judge.fib.snapshot, judge.fib.family))
    if isinstance(way, str):
        return Repair(unsafe=_unsafe(parts, dict.fromkeys(escapes, ("no-gateway", f"a repair needs {way}"))))
    prefixes = [*islice(_cover(judge.fib, blocks, parts, way), _MOST + 1)]
    if len(prefixes) > _MOST:
        return Repair(unsafe=_unsafe(parts, dict.fromkeys(escapes, ("too-many", "it would take too many routes"))))
    return _proven(judge, Repair(tuple(way._replace(prefix=prefix) for prefix in prefixes), dev), blocks, parts)


def _unsafe(parts: Iterable[Part], reasons: dict[int, tuple[str, str]]) -> tuple[Unsafe, ...]:
    ranges = ranges_of(parts, lambda part: reasons.get(part.first))
    return tuple(Unsafe(first, last, *reason) for reason, first, last in ranges)


def _way_out(judge: Judge, uplink: Uplink) -> tuple[str | None, Route | str]:
    """The device that the repair's routes name, and a route with their next hops; or what such a route needs.

    The device is left open where the default route fills it in rightly: it differs from host to host. A tunnel has to
    be named in the configuration to be one of them.
    """
    uplinks, every = judge.uplinks, Prefix(judge.fib.family, 0, 0)
    devs = [dev for dev in sorted(uplinks.devs) if dev in judge.named or not is_tunnel(judge.links.get(dev))]
    if not devs or uplinks.doubtful:
        names = spoken(sorted(uplinks.devs | uplinks.doubtful), last="or")
        return None, f"its device to be named: write {names} into routeOverlap.expectedDevs first"
    way = uplink.route_to(every)
    # Of equal default routes, the first may be another one after the next boot.
    defaults = (route for first in uplinks.defaults[:1] for route in judge.fib.equals(first))
    if isinstance(way, Route) and uplinks.devs >= {*way.devs, *(dev for route in defaults for dev in route.devs)}:
        return None, way
    ways = [(dev, uplink.route_to(every, dev=dev)) for dev in devs]
    dev, way = next((way for way in ways if isinstance(way[1], Route)), ways[-1])
    try:
        StaticRoute(every.halves()[0].to_network(), dev=dev)
    except ConfigError:  # Linux takes nearly any letter in the name of a device
        way = f"a device whose name a configuration can have, not {dev!r}"
    return dev, way


def _length(fib: Fib, part: Part) -> int | None:
    """The smallest prefix length at which our route would decide for these addresses; None if table main cannot."""
    for step in fib.steps() if part.opinion.name != "own-range" else ():
        if step.table is not None and step.rule.table == TABLE_MAIN and step.is_for_plain(part.first):
            best = step.table.best(part.first)
            # Also a throw, or a route that the rule suppresses, comes before a route of ours that is not longer.
            length = best.prefix.length + (best.metric <= DEFAULT_METRIC[fib.family]) if best else 0
            limit = step.rule.suppress_prefixlength
            return length if limit is None else max(length, limit + 1)
        if step.rule is part.decision.rule:
            break
    return None


def _cover(fib: Fib, blocks: Iterable[Prefix], parts: Iterable[Part], way: Route) -> Iterator[Prefix]:
    """The fewest prefixes in these blocks whose routes, with the next hops of this one, repair as much as can be."""
    metric = DEFAULT_METRIC[fib.family]
    main = [route for route in fib.routes if route.table == TABLE_MAIN and route.metric == metric and not route.tos]
    taken = {route.prefix for route in main if route.protocol != OURS}
    spans = [*_spans(fib, parts, way)]
    firsts, lasts = [part.first for part, _ in spans], [part.last for part, _ in spans]

    def widest(block: Prefix, above: int) -> Iterator[Prefix]:
        """The prefixes in this block; `above` is the length of the longest one around it."""
        inside = spans[bisect_left(lasts, block.first) : bisect_right(firsts, block.last)]
        lost = [length for part, length in inside if part.opinion.grade == ESCAPE and length > above]
        if not lost or is_reserved(block):
            return
        diverts = any(length <= block.length and part.opinion.grade != ESCAPE for part, length in inside)
        # /0 is not a static route.
        if min(lost) <= block.length and block.length and not diverts and block not in taken:
            yield block
            above = block.length
        for half in block.halves() if block.length < fib.width else ():
            yield from widest(half, above)

    for block in blocks:
        yield from widest(block, -1)


def _spans(fib: Fib, parts: Iterable[Part], way: Route) -> Iterator[tuple[Part, int]]:
    """The parts that a route with these next hops would change, and the shortest length with which it takes them."""
    next_hops = {*way.next_hops}
    for part in parts:
        route, is_fine = part.decision.route, part.grade == FINE
        if part.opinion.name == "own" or (is_fine and route is not None and {*route.next_hops} == next_hops):
            continue
        if (length := _length(fib, part)) is not None and length <= fib.width:
            yield part, length


def _proven(judge: Judge, repair: Repair, blocks: Iterable[Prefix], parts: Sequence[Part]) -> Repair:
    """The repair, with what stays lost; without any route if they would make anything worse."""
    after, firsts = Judge(judge.fib.with_routes(repair.resolved), judge.check), [part.first for part in parts]
    now: Sequence[Part] = [part for block in blocks for part in after.parts(block.first, block.last)]
    before: Sequence[Part] = [parts[bisect_right(firsts, part.first) - 1] for part in now]  # more routes, more parts
    is_worse = any(part.grade > old.grade for part, old in zip(now, before, strict=True))
    rest = "other packets would be worse off" if is_worse else "some packets there would still be in doubt"
    if is_worse:
        now = before = parts
    reasons = {
        part.first: _reason(judge.fib, old, part.first, repair.resolved, f"with these routes, {rest}")
        for part, old in zip(now, before, strict=True)
        if old.opinion.grade == ESCAPE and part.grade > FINE
    }
    return (Repair() if is_worse else repair)._replace(unsafe=_unsafe(now, reasons))


def _reason(fib: Fib, part: Part, address: int, proposed: Iterable[Route], why: str) -> tuple[str, str]:
    """Why an address of this part stays lost, although these routes were proposed; and the cause, or `why`."""
    length, route, rule = _length(fib, part), part.decision.route, part.decision.rule
    if length is not None:
        around = (way.prefix for way in proposed if way.prefix.first <= address <= way.prefix.last)
        if any(prefix.length >= length for prefix in around):
            return "not-proven", why
        if is_reserved(Prefix.around(fib.family, address, fib.width)):
            return "host-route", "the range is reserved"
        holder = f"[{route}]" if route is not None and route.prefix.length == fib.width else "another route"
        return "host-route", f"{holder} is as specific as a route can be"
    if part.opinion.name == "own-range":
        return "earlier-rule", f"[{route}] makes the range this host's own"
    return "earlier-rule", f"[rule {rule}] comes before table main" if rule else "no rule looks up table main"
