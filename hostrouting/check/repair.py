"""The smallest repair: the fewest routes in table main that send everything that escapes out as
expected.

Theory of operation. A new route to a prefix takes the addresses in it whose present route in table
main is shorter or is missing. It does not change an address that an earlier rule decides. So each
address has a shortest length with which a route takes it (`shortest_length`). All addresses that a
new route takes have the same present route: the longest around its prefix. So new routes for
different present ones never compete for an address, and a wider one for the same takes all that
those inside would. Therefore one walk from the widest prefix down finds the fewest routes (`Walk`):

- A prefix without an escape needs nothing.
- A prefix gets a route if that takes an escape, diverts nothing that is fine, and no other
  program's route has its key. What that route does not take is left to longer prefixes inside.
- Any other prefix is halved.

Packets that belong elsewhere than at the uplink (`hiding`) count as fine: a route would divert
them.

Then the proof: the routes are put into the tables, and everything is judged again. What was to be
repaired has to be fine, and nothing else may be worse. What no route can repair is named, with one
of six reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.devices import devs_of
from hostrouting.check.hiding import Uncovered, find_hidden
from hostrouting.check.judge import Judge, has_only_tunnel_or_dummy
from hostrouting.check.parts import find_parts, ranges_of
from hostrouting.check.results import Cost, Grade, Part, Repair, Unrepairable
from hostrouting.config.settings import StaticRoute
from hostrouting.errors import ConfigError
from hostrouting.model.prefix import Prefix, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, OURS, TABLE_MAIN, Route
from hostrouting.routes.uplink import Need, Uplink, is_tap, is_tunnel
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.fib.engine import AppliedRule, Fib

_MOST = 512
"""More routes than this are not proposed: no operator would read them."""


class Why(NamedTuple):
    """Why no route repairs an address; the fields are those of `Unrepairable`."""

    reason: str
    cause: str
    catching: tuple[Route, ...] = ()


def propose_repair(judge: Judge, blocks: Sequence[Prefix], parts: Sequence[Part]) -> Repair:
    """The repair for everything that escapes in these disjoint blocks.

    `parts` are all parts of the blocks, in order.
    """
    escapes = [part for part in parts if part.opinion.grade is Grade.ESCAPE]
    if not escapes:
        return Repair()
    uncovered = find_hidden(judge, escapes)
    to_delete = _to_delete(judge.fib, escapes, uncovered)
    way_out = find_way_out(judge)
    if isinstance(way_out.route, Need):
        return _without_routes(parts, to_delete, "no-gateway", f"a repair needs {way_out.route}")
    walk = Walk(judge.fib, parts, way_out.route, uncovered)
    prefixes = list(islice(walk.prefixes(blocks), _MOST + 1))
    if len(prefixes) > _MOST:
        return _without_routes(parts, to_delete, "too-many", "it would take too many routes")
    routes = tuple(way_out.route._replace(prefix=prefix) for prefix in prefixes)
    return prove(judge, Repair(routes, way_out.dev), blocks, parts, to_delete)


def _to_delete(fib: Fib, escapes: Iterable[Part], uncovered: Uncovered) -> dict[int, Why]:
    """By first address: what is repaired by a deletion, and not by a route.

    Where no route of ours would decide at all, that is the reason which counts.
    """
    reasons: dict[int, Why] = {}
    for part in escapes:
        hidden = uncovered.hidden.get(part.first)
        if hidden is not None and shortest_length(fib, part) is not None:
            reasons[part.first] = Why("below-a-cni", hidden.cause, hidden.catching)
    return reasons


def _without_routes(
    parts: Iterable[Part], to_delete: dict[int, Why], reason: str, cause: str
) -> Repair:
    """A repair by deletions alone, because there is no other, for this reason."""

    def why(part: Part) -> Why | None:
        if part.opinion.grade is not Grade.ESCAPE:
            return None
        return to_delete.get(part.first, Why(reason, cause))

    return Repair(unrepairable=_unrepairable(ranges_of(parts, why)))


def _unrepairable(ranges: Iterable[tuple[Why, int, int]]) -> tuple[Unrepairable, ...]:
    return tuple(Unrepairable(first, last, *why) for why, first, last in ranges)


# Where the routes lead.


class WayOut(NamedTuple):
    """The way of all routes of a repair."""

    dev: str | None
    """The device that the routes name in a configuration.

    None where the default route fills it in rightly: it differs from host to host.
    """
    route: Route | Need
    """A route with the next hops, or what such a route needs."""


def find_way_out(judge: Judge) -> WayOut:
    """How packets leave as expected. A tunnel has to be named in the configuration."""
    uplinks = judge.uplinks
    devs = [dev for dev in sorted(uplinks.devs) if _may_lead_out(judge, dev)]
    if not devs or uplinks.doubtful:
        return WayOut(None, Need(_device_to_name(judge)))
    every = Prefix(judge.fib.family, 0, 0)
    uplink = Uplink(judge.fib.snapshot, judge.fib.family)
    way = uplink.route_to(every)
    if isinstance(way, Route) and uplinks.devs.issuperset([*way.devs, *_first_default_devs(judge)]):
        return WayOut(None, way)
    ways = [WayOut(dev, uplink.route_to(every, dev=dev)) for dev in devs]
    complete = [way for way in ways if isinstance(way.route, Route)]
    best = complete[0] if complete else ways[-1]
    if not _is_configurable(best.dev, every):
        lacking = f"a device whose name a configuration can have, not {best.dev!r}"
        return WayOut(best.dev, Need(lacking))
    return best


def _may_lead_out(judge: Judge, dev: str) -> bool:
    """Whether a repair may lead through this expected device; a tap not in doubt is the uplink."""
    link = judge.devices.links.get(dev)
    return dev in judge.configured_devs or not is_tunnel(link) or is_tap(link)


def _device_to_name(judge: Judge) -> str:
    uplinks = judge.uplinks
    candidates = sorted(uplinks.devs | uplinks.doubtful)
    if has_only_tunnel_or_dummy(judge):
        candidates.append("the network card that is meant")
    names = spoken(candidates, last="or")
    return f"its device to be named: write {names} into routeOverlap.expectedDevs first"


def _first_default_devs(judge: Judge) -> frozenset[str]:
    """The devices of the default route; of equal ones, the first may be another after a boot."""
    defaults = judge.uplinks.defaults
    if not defaults:
        return frozenset()
    return devs_of(judge.fib.equal_cost_routes(defaults[0]))


def _is_configurable(dev: str | None, every: Prefix) -> bool:
    """Whether a configuration can have the name: Linux takes nearly any letter."""
    try:
        StaticRoute(every.halves()[0].to_network(), dev=dev)
    except ConfigError:
        return False
    return True


# Which prefixes get a route.


def shortest_length(fib: Fib, part: Part) -> int | None:
    """The shortest prefix length at which a route of ours would decide for these addresses.

    None if table main cannot: an earlier rule decides, or the addresses are this host's own.
    """
    if part.opinion.name == "own-range":
        return None
    for applied in fib.applied_rules():
        is_main = applied.table is not None and applied.rule.table == TABLE_MAIN
        if is_main and applied.selects_plain(part.first):
            return _longer_than_in_main(fib, applied, part.first)
        if applied.rule is part.decision.rule:
            return None
    return None


def _longer_than_in_main(fib: Fib, applied: AppliedRule, address: int) -> int:
    """The length at which a route comes before the present one of table main.

    A throw, or a route that the rule suppresses, also comes before a route that is not longer.
    """
    length = 0
    best = applied.table.best(address) if applied.table is not None else None
    if best is not None:
        length = best.prefix.length
        if best.metric <= DEFAULT_METRIC[fib.family]:
            length += 1
    if applied.rule.suppress_prefixlength is None:
        return length
    return max(length, applied.rule.suppress_prefixlength + 1)


class Span(NamedTuple):
    """A part that a new route would change."""

    first: int
    last: int
    length: int
    """The shortest prefix length with which a new route takes it."""
    is_lost: bool
    """Whether it is to be taken; all else is diverted by a route that takes it."""


class Walk:
    """The walk from the widest prefix down, for routes with the same next hops."""

    def __init__(self, fib: Fib, parts: Iterable[Part], way: Route, uncovered: Uncovered) -> None:
        """Note what is to be taken, what is not to be diverted, and which keys others have."""
        self._width = fib.width
        self._spans = list(_spans(fib, parts, way, uncovered))
        self._firsts = [span.first for span in self._spans]
        self._lasts = [span.last for span in self._spans]
        self._held: set[Prefix] = set()
        """The prefixes of other programs' routes with the keys that ours would have."""
        for route in fib.routes:
            is_same_key = route.table == TABLE_MAIN and route.metric == way.metric and not route.tos
            if is_same_key and route.protocol != OURS:
                self._held.add(route.prefix)

    def prefixes(self, blocks: Iterable[Prefix]) -> Iterator[Prefix]:
        """The fewest prefixes in these blocks whose routes repair as much as can be repaired."""
        for block in blocks:
            yield from self._widest(block, -1)

    def _widest(self, block: Prefix, above: int) -> Iterator[Prefix]:
        """The prefixes in this block; `above` is the length of the longest one around it."""
        inside = self._spans_in(block)
        lost = [span.length for span in inside if span.is_lost and span.length > above]
        if not lost or is_reserved(block):
            return
        if min(lost) <= block.length and self._may_have_a_route(block, inside):
            yield block
            above = block.length
        if block.length < self._width:
            for half in block.halves():
                yield from self._widest(half, above)

    def _spans_in(self, block: Prefix) -> list[Span]:
        begin = bisect_left(self._lasts, block.first)
        end = bisect_right(self._firsts, block.last)
        return self._spans[begin:end]

    def _may_have_a_route(self, block: Prefix, inside: Iterable[Span]) -> bool:
        """Whether the key is free, and a route diverts nothing; /0 is not a static route."""
        if block.length == 0 or block in self._held:
            return False
        return all(span.is_lost or span.length > block.length for span in inside)


def _spans(fib: Fib, parts: Iterable[Part], way: Route, uncovered: Uncovered) -> Iterator[Span]:
    """The parts that a route with these next hops would change, now or once hidden routes count."""
    for part in parts:
        if part.is_own or _is_right_already(part, way):
            continue
        lengths = [shortest_length(fib, part)]
        hidden = uncovered.hidden.get(part.first)
        if hidden is not None:
            lengths.append(shortest_length(uncovered.fib, hidden.part))
        possible = [length for length in lengths if length is not None and length <= fib.width]
        if possible:
            is_lost = part.opinion.grade is Grade.ESCAPE and hidden is None
            yield Span(part.first, part.last, min(possible), is_lost)


def _is_right_already(part: Part, way: Route) -> bool:
    """Whether packets leave by the same next hops as by the new route, and all of them rightly."""
    route = part.decision.route
    if part.grade is not Grade.FINE or route is None:
        return False
    return set(route.next_hops) == set(way.next_hops)


# The proof.


class Proof(NamedTuple):
    """A part with the new routes, and the part that these addresses belong to without them."""

    new: Part
    old: Part


def prove(
    judge: Judge,
    repair: Repair,
    blocks: Iterable[Prefix],
    parts: Sequence[Part],
    to_delete: dict[int, Why],
) -> Repair:
    """The repair, with what stays lost; without any route if the routes make anything worse."""
    proofs = list(_judge_again(judge, repair, blocks, parts))
    if any(proof.new.grade > proof.old.grade for proof in proofs):
        cause = "with these routes, other packets would be worse off"
        unchanged = [Proof(part, part) for part in parts]
        reasons = _reasons(judge.fib, unchanged, repair.resolved, to_delete, cause)
        return Repair(unrepairable=_lost_ranges(unchanged, reasons))
    cause = "with these routes, some packets there would still be in doubt"
    reasons = _reasons(judge.fib, proofs, repair.resolved, to_delete, cause)
    costs = tuple(find_costs(judge, repair, proofs))
    return repair._replace(unrepairable=_lost_ranges(proofs, reasons), costs=costs)


def _lost_ranges(proofs: Iterable[Proof], reasons: dict[int, Why]) -> tuple[Unrepairable, ...]:
    parts = [proof.new for proof in proofs]
    return _unrepairable(ranges_of(parts, lambda part: reasons.get(part.first)))


def _reasons(
    fib: Fib,
    proofs: Iterable[Proof],
    proposed: Iterable[Route],
    to_delete: dict[int, Why],
    cause: str,
) -> dict[int, Why]:
    """By first address: why an escape stays, although these routes were proposed."""
    reasons: dict[int, Why] = {}
    for new, old in proofs:
        if old.opinion.grade is not Grade.ESCAPE or new.grade is Grade.FINE:
            continue
        why = to_delete.get(old.first)
        if why is None:
            why = _why_lost(fib, old, new.first, proposed)
        if why is None:
            why = Why("not-proven", cause)
        reasons[new.first] = why
    return reasons


def _judge_again(
    judge: Judge, repair: Repair, blocks: Iterable[Prefix], parts: Sequence[Part]
) -> Iterator[Proof]:
    after = Judge(judge.fib.with_routes(repair.resolved), judge.config)
    firsts = [part.first for part in parts]
    for block in blocks:
        for new in find_parts(after, block.first, block.last):
            # More routes cut the blocks into more parts, never into fewer.
            yield Proof(new, parts[bisect_right(firsts, new.first) - 1])


def _why_lost(fib: Fib, part: Part, address: int, proposed: Iterable[Route]) -> Why | None:
    """Why no route was proposed for an address of this part; None if one was, and is not enough."""
    length = shortest_length(fib, part)
    if length is None:
        return Why("earlier-rule", _what_decides_before_main(part))
    for route in proposed:
        prefix = route.prefix
        if prefix.length >= length and prefix.first <= address <= prefix.last:
            return None
    if is_reserved(Prefix.around(fib.family, address, fib.width)):
        return Why("host-route", "the range is reserved")
    holder = "another route"
    if part.decision.route is not None and part.decision.route.prefix.length == fib.width:
        holder = f"[{part.decision.route}]"
    return Why("host-route", f"{holder} is as specific as a route can be")


def _what_decides_before_main(part: Part) -> str:
    if part.opinion.name == "own-range":
        return f"[{part.decision.route}] makes the range this host's own"
    if part.decision.rule is None:
        return "no rule looks up table main"
    return f"[rule {part.decision.rule}] comes before table main"


def find_costs(judge: Judge, repair: Repair, proofs: Iterable[Proof]) -> Iterator[Cost]:
    """The networks of other devices that the repair takes addresses from."""
    taken: list[Part] = []
    """The addresses that a new route decides, as they were."""
    for new, old in proofs:
        if new.decision.route in repair.resolved and old.opinion.grade is Grade.ESCAPE:
            taken.append(old._replace(first=new.first, last=new.last))
    devs: set[str] = set()
    for part in taken:
        devs.update(part.decision.devs)
    for dev, network in judge.devices.networks_of(devs):
        # A network of a single address has no neighbours to lose.
        if network.length < judge.fib.width and _is_taken(taken, dev, network):
            yield Cost(dev, network, is_connected=True)
    yield from dict.fromkeys(_costs_of_vpns(judge, taken))


def _is_taken(taken: Iterable[Part], dev: str, network: Prefix) -> bool:
    """Whether packets to addresses of the network left by the device before."""
    for part in taken:
        is_inside = part.first <= network.last and network.first <= part.last
        if is_inside and dev in part.decision.devs:
            return True
    return False


def _costs_of_vpns(judge: Judge, taken: Iterable[Part]) -> Iterator[Cost]:
    """The networks to which a tunnel has a route; a default route, or half of one, names none."""
    for part in taken:
        route = part.decision.route
        if route is None or route.prefix.length < 2:
            continue
        for dev in part.opinion.devs:
            if not is_tunnel(judge.devices.links.get(dev)):
                continue
            if not judge.devices.is_connected(dev, route):
                yield Cost(dev, route.prefix, is_connected=False)
