"""The smallest repair: the fewest routes in table main that send everything that escapes out as
expected.

Theory of operation. Say that 10.0.0.0/8 has to leave by eth0, but [10.0.0.0/8 dev ib0] decides for
it. Inside, [10.9.0.0/24 dev cni0] decides for the pods of this node, which is right. Of the routes
to one address, Linux uses the longest. So to take an address from ib0, a new route needs at least 9
bits, and to take one from cni0, at least 25: each address has a shortest length with which a new
route takes it (`shortest_length`). The two routes 10.0.0.0/9 and 10.128.0.0/9 take everything that
escapes, and nothing from cni0. They are the repair. Rules matter, too: no new route takes an
address if a rule for another table decides before.

One walk over the expected CIDRs, from the widest prefix down, finds the fewest routes (`Walk`):

- A prefix without an escape needs nothing.
- A prefix gets a route if that takes an escape, leads nothing that is fine another way, and no
  other program's route has its key. What that route does not take is left to longer prefixes
  inside.
- Any other prefix is halved.

No other choice needs fewer routes. A new route takes addresses from one present route of table
main only, the longest one around its prefix. So a route that takes from one present route never
saves a route that takes from another; and of two that take from the same one, the wider takes all
that the longer one inside it would.

Some escapes must not be led to the uplink: packets to pods that a route hides from a CNI's device,
or from an allowed one (`hiding`). A new route would divert them, now or once the hiding route is
gone, so the walk treats them like what is fine. A deletion repairs them (`below-a-cni`).

Then the proof: the routes are put into the tables, and everything is judged again. What a route
does not make fine is named, with a reason (`Unrepairable`), and so is what no route can repair. If
anything is worse than before, no route is proposed at all.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from hostrouting.check.hiding import Uncovered, find_hidden
from hostrouting.check.judge import Judge
from hostrouting.check.parts import find_parts, ranges_of
from hostrouting.check.results import (
    Cost,
    Escape,
    Grade,
    Part,
    Repair,
    Unrepairable,
    Why,
    phrase_of,
)
from hostrouting.check.way_out import attributes_lost, find_way_out
from hostrouting.fib.engine import PLAIN, Decision, Fib, Packet, pieces
from hostrouting.model.prefix import Prefix, borders_of, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, OURS, TABLE_MAIN, Route
from hostrouting.routes.uplink import Need, is_tunnel

_MOST = 512
"""More routes than this are not proposed: no operator would read them."""


def propose_repair(judge: Judge, blocks: Sequence[Prefix], parts: Sequence[Part]) -> Repair:
    """The repair for everything that escapes in these blocks: the outermost of the expected
    CIDRs. `parts` are all parts of the blocks, in order.
    """
    escapes = [part for part in parts if part.plain_grade is Grade.ESCAPE]
    if not escapes:
        return Repair()
    uncovered = find_hidden(judge, escapes)
    everywhere = Prefix(judge.fib.family, 0, 0)
    way_out = find_way_out(judge)
    if isinstance(way_out, Need):
        named = tuple((dev, _repair_through(dev, judge, blocks)) for dev in way_out.devs)
        unmade = {everywhere: _needing(way_out)}
        return _without_routes(judge.fib, parts, uncovered, unmade)._replace(named=named)
    walk = Walk(judge.fib, parts, way_out.route, uncovered)
    prefixes = list(islice(walk.prefixes(blocks), _MOST + 1))
    if len(prefixes) > _MOST:
        cause = (
            f"it would take more than {_MOST} routes; check smaller networks one by one, or remove "
            "what adds the routes there"
        )
        unmade = {everywhere: Why("too-many", cause)}
        return _without_routes(judge.fib, parts, uncovered, unmade)
    routes: list[Route] = []
    unmade = {}
    for prefix in prefixes:
        route = way_out.route_to(prefix)
        if isinstance(route, Need):
            unmade[prefix] = _needing(route)
        else:
            routes.append(route)
    repair = Repair(tuple(routes), way_out.dev)
    return prove(judge, repair, blocks, parts, uncovered, unmade=unmade)


def _repair_through(dev: str, judge: Judge, blocks: Sequence[Prefix]) -> Repair:
    """The repair if the configuration names this device."""
    named = Judge(judge.fib, judge.config._replace(expected_devs=(dev,)))
    parts: list[Part] = []
    for block in blocks:
        parts += find_parts(named, block.first, block.last)
    return propose_repair(named, blocks, parts)


def _needing(need: Need) -> Why:
    return Why("no-gateway", cause=f"a repair needs {need}", devs=need.devs)


def _without_routes(
    fib: Fib, parts: Iterable[Part], uncovered: Uncovered, unmade: Mapping[Prefix, Why]
) -> Repair:
    """A repair by deletions alone."""
    unchanged = [BeforeAfter(part, part) for part in parts]
    return Repair(unrepairable=_find_unrepairable(fib, unchanged, (), uncovered, unmade))


def not_repaired(fib: Fib, escape: Escape, proposed: Iterable[Route]) -> Iterator[Unrepairable]:
    """What these routes do not take of an escape, if its packets are not plain, with the reason."""
    prefixes: list[Prefix] = []
    shortest = shortest_length(fib, escape.first, escape.decision, escape.packet)
    if isinstance(shortest, Why):
        why = shortest
    else:
        prefixes += [route.prefix for route in proposed if route.prefix.length >= shortest]
        why = Why("not-proven", cause="routes are proposed only where plain packets escape")
    cause = f"for {phrase_of(escape.packet)}, {why.cause}"
    for first, last in pieces(escape.first, escape.last, borders_of(prefixes)):
        if not any(prefix.first <= first <= prefix.last for prefix in prefixes):
            yield Unrepairable(first, last, Why(why.reason, cause))


# Which prefixes get a route.


def shortest_length(
    fib: Fib, address: int, decision: Decision, packet: Packet = PLAIN
) -> int | Why:
    """The shortest prefix length with which a new route decides for packets to this address, which
    have this decision now; or why none does.

    Of two routes to one prefix, ours is used only if the other one has a higher metric, or if it is
    replaced, because it is ours, too. A throw is used before a wider route, as any other.
    """
    if not _reaches_main(fib, address, packet):
        return Why("earlier-rule", cause=_what_decides_before_main(decision))
    present = fib.tables[TABLE_MAIN].best(address)
    if present is None:
        return 0
    metric = DEFAULT_METRIC[fib.family]
    is_replaced = present.protocol == OURS and present.metric == metric
    if present.metric > metric or is_replaced:
        return present.prefix.length
    if present.prefix.length == fib.width:
        return _host_route(present)
    return present.prefix.length + 1


def _reaches_main(fib: Fib, address: int, packet: Packet = PLAIN) -> bool:
    """Whether a rule would use a new route of table main for this packet to this address.

    It would not if a rule before that decides now by another table, or refuses. A rule for table
    main would: the new route comes before the present one. Rules for table main that suppress more
    than default routes are not counted on, because the length of a route decides if they use it.
    """
    for applied in fib.applied_rules(packet):
        if not applied.selects_plain(address):
            continue
        if applied.table is None or applied.rule.table != TABLE_MAIN:
            if applied.decision_for(address) is not None:
                return False
        elif applied.rule.suppress_prefixlength in {None, 0}:
            return True
    return False


def _what_decides_before_main(decision: Decision) -> str:
    rule = decision.rule
    if rule is None:
        return "no rule uses every route of table main"
    if rule.table == TABLE_MAIN:
        return f"[rule {rule}] does not use every route of table main"
    if decision.kind == "local":
        return f"[{decision.route}] makes the range this host's own"
    return f"[rule {rule}] comes before table main"


def _host_route(route: Route) -> Why:
    return Why("host-route", cause=f"[{route}] is as specific as a route can be")


def _holders(fib: Fib) -> dict[Prefix, Route]:
    """By prefix: the routes of other programs with the keys that ours would have. If a route of
    ours has the key, the new one replaces it.
    """
    holders: dict[Prefix, Route] = {}
    metric = DEFAULT_METRIC[fib.family]
    for route in fib.routes:
        if route.table != TABLE_MAIN or route.metric != metric or route.protocol == OURS:
            continue
        if not route.tos and route.source is None:
            holders[route.prefix] = route
    return holders


class Span(NamedTuple):
    """A part that a new route would change."""

    first: int
    last: int
    shortest: int
    """The shortest prefix length with which a new route takes it."""
    is_wanted: bool
    """Whether a new route is to take it; anything else would be diverted."""


class Walk:
    """The walk from the widest prefix down, for routes with the same next hops."""

    def __init__(self, fib: Fib, parts: Iterable[Part], way: Route, uncovered: Uncovered) -> None:
        """Note what is to be taken, what is not to be diverted, and which keys others have."""
        self._width = fib.width
        self._spans = list(_spans(fib, parts, way, uncovered))
        self._held = _holders(fib).keys()

    def prefixes(self, blocks: Iterable[Prefix]) -> Iterator[Prefix]:
        """The fewest prefixes in these blocks whose routes repair as much as can be repaired."""
        for block in blocks:
            yield from self._prefixes_in(block, -1)

    def _prefixes_in(self, prefix: Prefix, covered_length: int) -> Iterator[Prefix]:
        """The prefixes in this one that get a route.

        `covered_length` is the length of the longest around it that gets one; -1 if none does. That
        one has taken each span for which it is long enough: 10.0.0.0/9, for example, what needs at
        most 9 bits, and a span that needs 25 is left.
        """
        spans = self._spans_in(prefix)
        lengths = [span.shortest for span in spans if span.is_wanted]
        untaken = [length for length in lengths if length > covered_length]
        if not untaken or is_reserved(prefix):
            return
        if min(untaken) <= prefix.length and self._may_have_a_route(prefix, spans):
            yield prefix
            covered_length = prefix.length
        if prefix.length < self._width:
            for half in prefix.halves():
                yield from self._prefixes_in(half, covered_length)

    def _spans_in(self, prefix: Prefix) -> list[Span]:
        begin = bisect_left(self._spans, prefix.first, key=attrgetter("last"))
        end = bisect_right(self._spans, prefix.last, key=attrgetter("first"))
        return self._spans[begin:end]

    def _may_have_a_route(self, prefix: Prefix, spans: Iterable[Span]) -> bool:
        """Whether the key is free, and a route diverts nothing; /0 is not a static route."""
        if prefix.length == 0 or prefix in self._held:
            return False
        return all(span.is_wanted or span.shortest > prefix.length for span in spans)


def _spans(fib: Fib, parts: Iterable[Part], way: Route, uncovered: Uncovered) -> Iterator[Span]:
    """The parts that a route with these next hops would change, now or once nothing is hidden."""
    for part in parts:
        if part.is_own or _leaves_like(part, way):
            continue
        lengths = [shortest_length(fib, part.first, part.decision)]
        hidden = uncovered.hidden.get(part.first)
        if hidden is not None:
            bare = uncovered.without_catching
            lengths.append(shortest_length(bare, part.first, hidden.part.decision))
        known = [length for length in lengths if isinstance(length, int)]
        if known:
            is_wanted = part.plain_grade is Grade.ESCAPE and hidden is None
            yield Span(part.first, part.last, min(known), is_wanted)


def _leaves_like(part: Part, way: Route) -> bool:
    """Whether all packets of a part are fine, and plain ones leave by these next hops already: for
    example those to a network that a rule before a VPN's excludes from it.
    """
    route = part.decision.route
    if part.worst_grade is not Grade.FINE or route is None:
        return False
    return set(route.next_hops) == set(way.next_hops)


# The proof.


class BeforeAfter(NamedTuple):
    """The part that addresses belong to without the new routes, and with them."""

    before: Part
    after: Part


def prove(
    judge: Judge,
    repair: Repair,
    blocks: Iterable[Prefix],
    parts: Sequence[Part],
    uncovered: Uncovered,
    *,
    unmade: Mapping[Prefix, Why],
) -> Repair:
    """The repair, with what it does not repair; without any route if the routes make anything
    worse. `unmade` are the prefixes of the routes that it lacks, each with the reason.
    """
    changes = list(_judge_again(judge, repair, blocks, parts))
    if any(_is_worse(change) for change in changes):
        why = Why("not-proven", cause="with these routes, other packets would be worse off")
        unmade = {Prefix(judge.fib.family, 0, 0): why}
        return _without_routes(judge.fib, parts, uncovered, unmade)
    unrepairable = _find_unrepairable(judge.fib, changes, repair.resolved, uncovered, unmade)
    costs = tuple(dict.fromkeys(find_costs(judge, repair.resolved, changes)))
    return repair._replace(unrepairable=unrepairable, costs=costs)


def _is_worse(change: BeforeAfter) -> bool:
    """Whether plain packets, or the worst off of all packets, are worse off than before."""
    if change.after.plain_grade > change.before.plain_grade:
        return True
    return change.after.worst_grade > change.before.worst_grade


def _find_unrepairable(
    fib: Fib,
    changes: Iterable[BeforeAfter],
    proposed: Sequence[Route],
    uncovered: Uncovered,
    unmade: Mapping[Prefix, Why],
) -> tuple[Unrepairable, ...]:
    """What escapes and is not fine with these routes, with the reason that says most: a deletion
    repairs it; no route can take it; none was proposed; or one was, and the proof says more.
    """
    holders = _holders(fib)
    reasons: dict[int, Why] = {}
    parts: list[Part] = []
    for change in changes:
        before, after = change
        parts.append(after)
        if before.plain_grade is Grade.ESCAPE and after.worst_grade is not Grade.FINE:
            why = _why_to_delete(fib, before, uncovered)
            reasons[after.first] = why or _why_no_route(fib, change, proposed, holders, unmade)
    ranges = ranges_of(parts, lambda part: reasons.get(part.first))
    return tuple(Unrepairable(first, last, why) for why, first, last in ranges)


def _why_to_delete(fib: Fib, part: Part, uncovered: Uncovered) -> Why | None:
    """That a deletion repairs the part, and which one.

    What a rule for another table decides before is left out: `shortest_length` gives the reason. If
    table main decides now, no rule does so before, whatever the rule for table main suppresses.
    """
    hidden = uncovered.hidden.get(part.first)
    if hidden is None:
        return None
    if hidden.catching[0].table != TABLE_MAIN and not _reaches_main(fib, part.first):
        return None
    return Why("below-a-cni", cause=hidden.cause, catching=hidden.catching)


def _why_no_route(
    fib: Fib,
    change: BeforeAfter,
    proposed: Iterable[Route],
    holders: Mapping[Prefix, Route],
    unmade: Mapping[Prefix, Why],
) -> Why:
    """Why a part that escapes is not fine with these routes, if no deletion repairs it."""
    before, after = change
    shortest = shortest_length(fib, before.first, before.decision)
    if isinstance(shortest, Why):
        return shortest
    for route in proposed:
        is_around = route.prefix.first <= after.first <= route.prefix.last
        if is_around and route.prefix.length >= shortest:
            return _why_not_fine(after)
    single = Prefix.around(fib.family, after.first, fib.width)
    if is_reserved(single):
        return Why("host-route", cause="the range is reserved")
    if single in holders:
        return _host_route(holders[single])
    for prefix, why in unmade.items():
        if single in prefix:
            return why
    return _why_not_fine(after)


def _judge_again(
    judge: Judge, repair: Repair, blocks: Iterable[Prefix], parts: Sequence[Part]
) -> Iterator[BeforeAfter]:
    after = Judge(judge.fib.with_routes(repair.resolved), judge.config)
    firsts = [part.first for part in parts]
    for block in blocks:
        for part in find_parts(after, block.first, block.last):
            # More routes only add borders, and `find_parts` joins no ranges: so each new part lies
            # in one old part.
            yield BeforeAfter(parts[bisect_right(firsts, part.first) - 1], part)


def _why_not_fine(part: Part) -> Why:
    """What the proof has found out about a part that a new route takes."""
    if part.plain_grade is Grade.ESCAPE:
        return Why("not-proven", cause="with these routes, packets there would still escape")
    return Why("not-proven", cause="with these routes, some packets there would still be in doubt")


def find_costs(
    judge: Judge, proposed: Sequence[Route], changes: Iterable[BeforeAfter]
) -> Iterator[Cost]:
    """What the default route has and these routes lack; and the networks of other devices that they
    take addresses from, some of them twice.
    """
    if not proposed:
        return
    [dev, *_] = proposed[0].devs  # all have the same next hops
    lost = attributes_lost(judge, proposed[0])
    if lost:
        yield Cost(dev, Prefix(judge.fib.family, 0, 0), lost)
    # The parts that a new route takes, as they were judged before.
    taken: list[Part] = []
    devs: set[str] = set()
    for before, after in changes:
        if after.decision.route in proposed and before.plain_grade is Grade.ESCAPE:
            taken.append(before._replace(first=after.first, last=after.last))
            devs.update(before.decision.devs)
    for address in judge.devices.addresses:
        # A network of a single address has no neighbours to lose.
        if address.dev not in devs or address.length == judge.fib.width:
            continue
        if _is_taken(taken, address.dev, address.network):
            yield Cost(address.dev, address.network)
    yield from _costs_of_vpns(judge, taken)


def _is_taken(taken: Iterable[Part], dev: str, network: Prefix) -> bool:
    """Whether packets to addresses of the network left by the device before."""
    for part in taken:
        is_inside = part.first <= network.last and network.first <= part.last
        if is_inside and dev in part.decision.devs:
            return True
    return False


def _costs_of_vpns(judge: Judge, taken: Iterable[Part]) -> Iterator[Cost]:
    """The networks to which a tunnel has a route; a default route leads to all."""
    for part in taken:
        route = part.decision.route
        if route is None:
            continue
        for dev in part.opinion.devs:
            if not is_tunnel(judge.devices.links.get(dev)):
                continue
            if not judge.devices.is_connected(dev, route):
                yield Cost(dev, route.prefix)
