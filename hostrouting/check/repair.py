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
from collections.abc import Iterable, Iterator, Sequence
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
    reasons_to_delete = _below_a_cni(judge.fib, escapes, uncovered)
    way_out = find_way_out(judge)
    if isinstance(way_out, Need):
        named = tuple((dev, _repair_through(dev, judge, blocks)) for dev in way_out.devs)
        why = _needing(way_out)
        return _without_routes(judge.fib, parts, reasons_to_delete, why)._replace(named=named)
    walk = Walk(judge.fib, parts, way_out.route, uncovered)
    prefixes = list(islice(walk.prefixes(blocks), _MOST + 1))
    if len(prefixes) > _MOST:
        cause = (
            f"it would take more than {_MOST} routes; check smaller networks one by one, or remove "
            "what adds the routes there"
        )
        why = Why("too-many", cause)
        return _without_routes(judge.fib, parts, reasons_to_delete, why)
    routes: list[Route] = []
    for prefix in prefixes:
        route = way_out.route_to(prefix)
        if isinstance(route, Need):
            return _without_routes(judge.fib, parts, reasons_to_delete, _needing(route))
        routes.append(route)
    return prove(judge, Repair(tuple(routes), way_out.dev), blocks, parts, reasons_to_delete)


def _repair_through(dev: str, judge: Judge, blocks: Sequence[Prefix]) -> Repair:
    """The repair if the configuration names this device."""
    named = Judge(judge.fib, judge.config._replace(expected_devs=(dev,)))
    parts: list[Part] = []
    for block in blocks:
        parts += find_parts(named, block.first, block.last)
    return propose_repair(named, blocks, parts)


def _needing(need: Need) -> Why:
    return Why("no-gateway", cause=f"a repair needs {need}", devs=need.devs)


def _below_a_cni(fib: Fib, escapes: Iterable[Part], uncovered: Uncovered) -> dict[int, Why]:
    """By first address: that a deletion repairs the part, and which one.

    What a rule for another table decides before is left out: `obstacle_to` gives the reason.
    """
    reasons: dict[int, Why] = {}
    for part in escapes:
        hidden = uncovered.hidden.get(part.first)
        if hidden is None:
            continue
        if hidden.catching[0].table == TABLE_MAIN or _may_use_main(fib, part.first, part.decision):
            reasons[part.first] = Why("below-a-cni", cause=hidden.cause, catching=hidden.catching)
    return reasons


def _without_routes(
    fib: Fib, parts: Iterable[Part], reasons_to_delete: dict[int, Why], fallback: Why
) -> Repair:
    """A repair by deletions alone. `fallback` is the reason where no address has its own."""
    unchanged = [Proof(part, part) for part in parts]
    return Repair(unrepairable=_lost_ranges(fib, unchanged, (), reasons_to_delete, fallback))


def not_repaired(fib: Fib, escape: Escape, proposed: Iterable[Route]) -> Iterator[Unrepairable]:
    """What these routes do not take of an escape, if its packets are not plain, with the reason."""
    prefixes: list[Prefix] = []
    why = obstacle_to(fib, escape.first, escape.decision, escape.packet)
    if why is None:
        shortest = shortest_length(fib, escape.first)
        prefixes += [route.prefix for route in proposed if route.prefix.length >= shortest]
        why = Why("not-proven", cause="routes are proposed only where plain packets escape")
    cause = f"for {phrase_of(escape.packet)}, {why.cause}"
    for first, last in pieces(escape.first, escape.last, borders_of(prefixes)):
        if not any(prefix.first <= first <= prefix.last for prefix in prefixes):
            yield Unrepairable(first, last, Why(why.reason, cause))


# Which prefixes get a route.


def obstacle_to(fib: Fib, address: int, decision: Decision, packet: Packet = PLAIN) -> Why | None:
    """Why no route of ours would decide for packets to this address, which have this decision now;
    None if one would.
    """
    if not _may_use_main(fib, address, decision, packet):
        return Why("earlier-rule", cause=_what_decides_before_main(decision))
    present = fib.tables[TABLE_MAIN].best(address)
    if present is not None and shortest_length(fib, address) > fib.width:
        return _host_route(present)
    return None


def shortest_length(fib: Fib, address: int) -> int:
    """The shortest prefix length at which table main would use a route of ours for this address; of
    33 or 129 bits if there is none.

    Of two routes to one prefix, ours is used only if the other one has a higher metric, or if it is
    replaced, because it is ours, too. A throw is used before a wider route, as any other.
    """
    present = fib.tables[TABLE_MAIN].best(address)
    if present is None:
        return 0
    metric = DEFAULT_METRIC[fib.family]
    is_replaced = present.protocol == OURS and present.metric == metric
    if present.metric > metric or is_replaced:
        return present.prefix.length
    return present.prefix.length + 1


def _may_use_main(fib: Fib, address: int, decision: Decision, packet: Packet = PLAIN) -> bool:
    """Whether a rule would use a new route of table main for this packet to this address.

    It would not if a rule before that decides now by another table, or refuses. A rule for table
    main would: the new route comes before the present one. Rules for table main that suppress more
    than default routes are not counted on, because the length of a route decides if they use it.
    """
    if decision.kind == "local":
        return False
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
    if decision.kind == "local":
        return f"[{decision.route}] makes the range this host's own"
    rule = decision.rule
    if rule is None:
        return "no rule uses every route of table main"
    if rule.table == TABLE_MAIN:
        return f"[rule {rule}] does not use every route of table main"
    return f"[rule {rule}] comes before table main"


def _host_route(route: Route) -> Why:
    return Why("host-route", cause=f"[{route}] is as specific as a route can be")


def _holders(fib: Fib) -> dict[Prefix, Route]:
    """By prefix: the routes of other programs with the keys that ours would have. If a route of
    ours has the key, the new one replaces it.
    """
    holders: dict[Prefix, Route] = {}
    for route in fib.routes:
        has_metric = route.table == TABLE_MAIN and route.metric == DEFAULT_METRIC[fib.family]
        is_for_all = not route.tos and route.source is None
        if has_metric and is_for_all and route.protocol != OURS:
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
        lengths: list[int] = []
        if obstacle_to(fib, part.first, part.decision) is None:
            lengths.append(shortest_length(fib, part.first))
        hidden = uncovered.hidden.get(part.first)
        if hidden is not None:
            bare = uncovered.without_catching
            if obstacle_to(bare, part.first, hidden.part.decision) is None:
                lengths.append(shortest_length(bare, part.first))
        if lengths:
            is_wanted = part.plain_grade is Grade.ESCAPE and hidden is None
            yield Span(part.first, part.last, min(lengths), is_wanted)


def _leaves_like(part: Part, way: Route) -> bool:
    """Whether all packets of a part are fine, and plain ones leave by these next hops already: for
    example those to a network that a rule before a VPN's excludes from it.
    """
    route = part.decision.route
    if part.worst_grade is not Grade.FINE or route is None:
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
    reasons_to_delete: dict[int, Why],
) -> Repair:
    """The repair, with what stays lost; without any route if the routes make anything worse."""
    proofs = list(_judge_again(judge, repair, blocks, parts))
    if any(_is_worse(proof) for proof in proofs):
        why = Why("not-proven", cause="with these routes, other packets would be worse off")
        return _without_routes(judge.fib, parts, reasons_to_delete, why)
    lost = _lost_ranges(judge.fib, proofs, repair.resolved, reasons_to_delete)
    costs = tuple(dict.fromkeys(find_costs(judge, repair.resolved, proofs)))
    return repair._replace(unrepairable=lost, costs=costs)


def _is_worse(proof: Proof) -> bool:
    """Whether plain packets, or the worst off of all packets, are worse off than before."""
    if proof.new.plain_grade > proof.old.plain_grade:
        return True
    return proof.new.worst_grade > proof.old.worst_grade


def _lost_ranges(
    fib: Fib,
    proofs: Iterable[Proof],
    proposed: Sequence[Route],
    reasons_to_delete: dict[int, Why],
    fallback: Why | None = None,
) -> tuple[Unrepairable, ...]:
    """What escapes and is not fine with these routes, with the reason that says most: a deletion
    repairs it; no route can take it; none was proposed; or one was, and the proof says more.
    """
    holders = _holders(fib)
    reasons: dict[int, Why] = {}
    news: list[Part] = []
    for proof in proofs:
        new, old = proof
        news.append(new)
        if old.plain_grade is Grade.ESCAPE and new.worst_grade is not Grade.FINE:
            why = reasons_to_delete.get(old.first)
            reasons[new.first] = why or _why_lost(fib, proof, proposed, holders, fallback)
    ranges = ranges_of(news, lambda part: reasons.get(part.first))
    return tuple(Unrepairable(first, last, why) for why, first, last in ranges)


def _why_lost(
    fib: Fib,
    proof: Proof,
    proposed: Iterable[Route],
    holders: dict[Prefix, Route],
    fallback: Why | None,
) -> Why:
    """Why a part that escapes is not fine with these routes, if no deletion repairs it."""
    new, old = proof
    obstacle = obstacle_to(fib, old.first, old.decision)
    if obstacle is not None:
        return obstacle
    shortest = shortest_length(fib, old.first)
    for route in proposed:
        is_around = route.prefix.first <= new.first <= route.prefix.last
        if is_around and route.prefix.length >= shortest:
            return _why_not_fine(new)
    single = Prefix.around(fib.family, new.first, fib.width)
    if is_reserved(single):
        return Why("host-route", cause="the range is reserved")
    if single in holders:
        return _host_route(holders[single])
    return fallback or _why_not_fine(new)


def _judge_again(
    judge: Judge, repair: Repair, blocks: Iterable[Prefix], parts: Sequence[Part]
) -> Iterator[Proof]:
    after = Judge(judge.fib.with_routes(repair.resolved), judge.config)
    firsts = [part.first for part in parts]
    for block in blocks:
        for new in find_parts(after, block.first, block.last):
            # More routes only add borders, and `find_parts` joins no ranges: so each new part lies
            # in one old part.
            yield Proof(new, parts[bisect_right(firsts, new.first) - 1])


def _why_not_fine(part: Part) -> Why:
    """What the proof has found out about a part that a new route takes."""
    if part.plain_grade is Grade.ESCAPE:
        return Why("not-proven", cause="with these routes, packets there would still escape")
    return Why("not-proven", cause="with these routes, some packets there would still be in doubt")


def find_costs(judge: Judge, proposed: Sequence[Route], proofs: Iterable[Proof]) -> Iterator[Cost]:
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
    for new, old in proofs:
        if new.decision.route in proposed and old.plain_grade is Grade.ESCAPE:
            taken.append(old._replace(first=new.first, last=new.last))
            devs.update(old.decision.devs)
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
    """The networks to which a tunnel has a route; a default route, or half of one, names none."""
    for part in taken:
        route = part.decision.route
        if route is None or route.prefix.length < 2:
            continue
        for dev in part.opinion.devs:
            if not is_tunnel(judge.devices.links.get(dev)):
                continue
            if not judge.devices.is_connected(dev, route):
                yield Cost(dev, route.prefix)
