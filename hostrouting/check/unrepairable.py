"""Why no route repairs a range that escapes, or why the routes of a repair do not make it fine.

The reasons, in the order in which they are asked: a deletion repairs it; a rule decides before
table main; a present route is as specific as a route can be; a route takes it, and the proof says
more; the range is reserved; a route was not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.parts import ranges_of
from hostrouting.check.results import Escape, Grade, Part, Unrepairable, Why, phrase_of
from hostrouting.check.walk import holders_of_keys, shortest_by_rules, shortest_length
from hostrouting.fib.engine import FROM_HOST, Decision, Fib, PacketKind, pieces
from hostrouting.model.prefix import RESERVED, Prefix, borders_of, is_reserved
from hostrouting.model.route import TABLE_MAIN, Route

if TYPE_CHECKING:
    from hostrouting.check.hiding import HiddenParts


class BeforeAfter(NamedTuple):
    """The part that addresses belong to without the new routes, and with them."""

    before: Part
    after: Part


class Reasons(NamedTuple):
    """What the reasons on one host depend on."""

    fib: Fib
    """The tables without the new routes."""
    blocks: Sequence[Prefix]
    """What the routes lie in."""
    hidden: HiddenParts
    proposed: Sequence[Route]
    unmade: Mapping[Prefix, Why]
    """The prefixes of the routes that the repair lacks, each with the reason."""

    def find_unrepairable(self, changes: Iterable[BeforeAfter]) -> tuple[Unrepairable, ...]:
        """What escapes and is not fine with the routes."""
        cut_at = [block for block in RESERVED if block.family == self.fib.family]
        borders = borders_of([*cut_at, *self.unmade])
        reasons: dict[int, Why] = {}
        parts: list[Part] = []
        for before, after in changes:
            if before.plain_grade is not Grade.ESCAPE or after.worst_grade is Grade.FINE:
                parts.append(after)
                continue
            for first, last in pieces(after.first, after.last, borders):
                piece = after._replace(first=first, last=last)
                parts.append(piece)
                reasons[first] = self._why(before, piece)
        ranges = ranges_of(parts, lambda part: reasons.get(part.first))
        return tuple(Unrepairable(first, last, why) for why, first, last in ranges)

    def _why(self, before: Part, after: Part) -> Why:
        """Why no route makes the part fine."""
        fib = self.fib
        # A deletion does not help if a rule for another table decides before table main.
        if before.first in self.hidden.reasons and shortest_by_rules(fib, before.first) is not None:
            return self.hidden.reasons[before.first]
        shortest = shortest_length(fib, before.first)
        if shortest is None:
            return _why_no_length(fib, before.first, before.decision)
        single = Prefix.around(fib.family, after.first, fib.width)
        for route in self.proposed:
            if single in route.prefix and route.prefix.length >= shortest:
                return _why_not_fine(after)
        [block] = (block for block in self.blocks if single in block)
        widest = Prefix.around(fib.family, after.first, max(shortest, block.length))
        if not is_reserved(widest):
            for prefix, why in self.unmade.items():
                if single in prefix:
                    return why
            holders = holders_of_keys(fib)
            if single in holders:
                return _host_route(holders[single])
        # Any other address could have a route of its own.
        return Why("host-route", cause="the range is reserved")


def not_repaired(fib: Fib, escape: Escape, proposed: Iterable[Route]) -> Iterator[Unrepairable]:
    """What these routes do not take of an escape, if its packets are not plain, with the reason."""
    prefixes: list[Prefix] = []
    shortest = shortest_length(fib, escape.first, escape.packet)
    if shortest is None:
        why = _why_no_length(fib, escape.first, escape.decision, escape.packet)
    else:
        prefixes += [route.prefix for route in proposed if route.prefix.length >= shortest]
        why = Why("not-proven", cause="routes are proposed only where plain packets escape")
    cause = f"for {phrase_of(escape.packet)}, {why.cause}"
    for first, last in pieces(escape.first, escape.last, borders_of(prefixes)):
        if not any(prefix.first <= first <= prefix.last for prefix in prefixes):
            yield Unrepairable(first, last, Why(why.reason, cause))


def _why_no_length(
    fib: Fib, address: int, decision: Decision, packet: PacketKind = FROM_HOST
) -> Why:
    """Why no new route, however long, decides for packets that have this decision now."""
    present = fib.tables[TABLE_MAIN].best(address)
    if present is None or shortest_by_rules(fib, address, packet) is None:
        return Why("earlier-rule", cause=_what_decides_before_main(decision))
    return _host_route(present)


def _what_decides_before_main(decision: Decision) -> str:
    rule = decision.rule
    if rule is None or rule.table == TABLE_MAIN:
        return "no rule is known to use routes of table main"
    if decision.kind == "local":
        return f"[{decision.route}] makes the range this host's own"
    return f"[rule {rule}] comes before table main"


def _host_route(route: Route) -> Why:
    return Why("host-route", cause=f"[{route}] is as specific as a route can be")


def _why_not_fine(part: Part) -> Why:
    """What the proof has found out about a part that a new route takes."""
    if part.plain_grade is Grade.ESCAPE:
        return Why("not-proven", cause="with these routes, packets there would still escape")
    return Why("not-proven", cause="with these routes, some packets there would still be in doubt")
