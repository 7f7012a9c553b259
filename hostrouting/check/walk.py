"""The fewest prefixes whose routes repair a host.

Theory of operation. Say that 10.0.0.0/8 has to leave by eth0, but [10.0.0.0/8 dev ib0] decides for
it. Inside, [10.9.0.0/24 dev cni0] decides for the pods of this node, which is right. Of the routes
to one address, Linux uses the longest. So to take an address from ib0, a new route needs at least 9
bits, and to take one from cni0, at least 25: each address has a shortest length with which a new
route takes it (`shortest_length`). The two routes 10.0.0.0/9 and 10.128.0.0/9 take everything that
escapes, and nothing from cni0. They are the repair. Rules matter, too: no new route takes an
address if a rule for another table decides before, and only a longer one if the rule for table main
suppresses wide routes.

One walk over the expected CIDRs, from the widest prefix down, finds the fewest routes (`Walk`):

- A prefix without an escape needs nothing.
- A prefix gets a route if that takes an escape and diverts nothing that is fine, and if no other
  program's route has its key. What that route does not take is left to longer prefixes inside.
- Any other prefix is halved.

No other choice needs fewer routes, unless rules suppress more for some addresses than for others:

- A new route takes packets from one present route: from the longest one around it, or from the one
  to the same prefix, if that has a worse metric. Present routes with a longer prefix keep theirs.
- So a route that takes from one present route never saves a route that takes from another.
- Of two that take from the same route, the wider takes all that the longer one inside it would.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from hostrouting.check.hiding import HiddenParts
from hostrouting.check.results import Grade, Part
from hostrouting.fib.engine import FROM_HOST, Fib, PacketKind
from hostrouting.model.prefix import Prefix, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, OURS, TABLE_MAIN, Route


def shortest_length(fib: Fib, address: int, packet: PacketKind = FROM_HOST) -> int | None:
    """The shortest prefix length with which a new route decides for these packets to this address;
    None if no rule for table main is known to use such a route, or another rule decides before.

    It is longer than any prefix (33, or 129) beside a route that is as specific as a route can be.
    """
    shortest = _shortest_by_rules(fib, address, packet)
    if shortest is None:  # if no rule looks up table main, `tables` does not have it
        return None
    present = fib.tables[TABLE_MAIN].best(address)
    if present is None:
        return shortest
    # Long enough for the rule, which may suppress the present route, and for the table.
    return max(shortest, _shortest_beside(present))


def _shortest_by_rules(fib: Fib, address: int, packet: PacketKind) -> int | None:
    """The shortest prefix length that some rule for table main does not suppress for these packets
    to this address; None if there is no such rule, or another rule decides before.

    Rules after the one that decides now count, too. Linux suppresses no route that refuses packets;
    so a rule that decides by such a route now may suppress the new one, and a later rule uses it.
    What a rule with `suppress_ifgroup` does with a new route is not known.
    """
    lengths: list[int] = []
    for applied in fib.rules_for(address, packet):
        if not applied.selects_plain(address):  # but only packets with a mark, for example
            continue
        if applied.rule.table == TABLE_MAIN:
            if applied.rule.suppress_ifgroup is not None:
                break
            shortest = 0
            if applied.rule.suppress_prefixlength is not None:
                shortest = applied.rule.suppress_prefixlength + 1
            if shortest <= fib.width:
                lengths.append(shortest)
        elif applied.decision_for(address) is not None:
            break
    return min(lengths, default=None)


def _shortest_beside(present: Route) -> int:
    """The shortest prefix length with which Linux uses a new route instead of this one.

    Of two routes to one prefix, ours is used only if the other one has a higher metric, or if it is
    replaced, because it is ours, too. A throw counts as any other route does.
    """
    metric = DEFAULT_METRIC[present.prefix.family]
    is_replaced = present.protocol == OURS and present.metric == metric
    if present.metric > metric or is_replaced:
        return present.prefix.length
    return present.prefix.length + 1


def holders_of_keys(fib: Fib) -> dict[Prefix, Route]:
    """By prefix: the route of another program that has the key of a new route of ours, with the
    default metric. If a route of ours has the key, the new one replaces it.
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

    def __init__(
        self, fib: Fib, parts: Iterable[Part], default_route: Route, hidden: HiddenParts
    ) -> None:
        """Note what is to be taken, what is not to be diverted, and which keys others have. The
        parts are in order. The new routes have the next hops of this default route.
        """
        self._width = fib.width
        self._spans = list(_spans(fib, parts, default_route, hidden))
        self._held = holders_of_keys(fib).keys()

    def prefixes(self, blocks: Iterable[Prefix]) -> Iterator[Prefix]:
        """The fewest prefixes in these blocks whose routes repair as much as can be repaired."""
        for block in blocks:
            yield from self._prefixes_in(block, -1)

    def _prefixes_in(self, prefix: Prefix, covered_length: int) -> Iterator[Prefix]:
        """The prefixes in this one that get a route.

        `covered_length` is the length of the longest around it that gets one; -1 if none does. That
        one has taken the spans for which it is long enough: below 10.0.0.0/9, those that ib0 had,
        but not one that needs 12 bits.
        """
        spans = self._spans_in(prefix)
        wanted = [span.shortest for span in spans if span.is_wanted]
        untaken = [length for length in wanted if length > covered_length]
        if not untaken or is_reserved(prefix):  # no configuration can have a reserved prefix
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


def _spans(
    fib: Fib, parts: Iterable[Part], default_route: Route, hidden: HiddenParts
) -> Iterator[Span]:
    """The parts that a new route would change. A hidden part (`hiding`) is fine once the routes
    that hide it are gone: no new route may take it, now or then.
    """
    for part in parts:
        if part.is_own or _leaves_like(part, default_route):
            continue
        is_hidden = part.first in hidden.reasons
        fib_for_part = hidden.fib_without if is_hidden else fib
        # No prefix of a route or rule begins or ends inside a part: one address stands for all.
        shortest = shortest_length(fib_for_part, part.first)
        # A part that no route takes needs no care.
        if shortest is not None and shortest <= fib.width:
            is_wanted = part.plain_grade is Grade.ESCAPE and not is_hidden
            yield Span(part.first, part.last, shortest, is_wanted)


def _leaves_like(part: Part, default_route: Route) -> bool:
    """Whether a new route would change nothing: all packets of a part are fine, and plain ones
    leave by the same next hops already. For example, a rule excludes a network from a VPN.
    """
    route = part.decision.route
    if part.worst_grade is not Grade.FINE or route is None:
        return False
    return set(route.next_hops) == set(default_route.next_hops)
