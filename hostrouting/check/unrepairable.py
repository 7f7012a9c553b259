"""Why no route repairs a range that escapes, or why the routes of a repair do not make it fine.

The reasons, in the order in which they are asked:

1. A rule decides before table main, so Linux uses none of its routes.
2. Only a deletion is right there (`hiding`).
3. A present route is as specific as a route can be.
4. A proposed route takes the range, and packets would still escape, or be in doubt.
5. The range is reserved.
6. The route could not be completed: for example, its gateway is not known.
7. The range is one address, and another program's route to it has the key that ours would have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.parts import ranges_of
from hostrouting.check.results import Escape, Grade, Part, Unrepairable, Why, phrase_of
from hostrouting.check.walk import holders_of_keys, shortest_length
from hostrouting.model.prefix import Prefix, is_reserved
from hostrouting.model.route import TABLE_LOCAL, TABLE_MAIN, Route

if TYPE_CHECKING:
    from hostrouting.check.hiding import HiddenParts
    from hostrouting.fib.engine import Decision, Fib


class Change(NamedTuple):
    """The part that addresses belong to without the new routes, and with them."""

    before: Part
    after: Part


class Attempt(NamedTuple):
    """The routes of a repair, which are tried on a host, and what there is to know about both."""

    fib: Fib
    """The tables without the new routes."""
    hidden: HiddenParts
    proposed: Sequence[Route]
    unmade: Mapping[Prefix, Why]
    """The prefixes whose routes could not be made, each with the reason."""

    def find_unrepairable(self, changes: Iterable[Change]) -> Iterator[Unrepairable]:
        """What escapes and is not fine with the routes."""
        reasons = [(after, self._why(before, after)) for before, after in changes]
        for reason, first, last in ranges_of(reasons):
            yield Unrepairable(reason, first, last)

    def _why(self, before: Part, after: Part) -> Why | None:
        """Why these addresses are not fine with the routes; None if they are, or if plain packets
        did not escape there. The parts are theirs without the routes, and with them.
        """
        if before.plain_grade is not Grade.ESCAPE or after.worst_grade is Grade.FINE:
            return None
        shortest = shortest_length(self.fib, after.first)
        if shortest is None:
            return _earlier_rule(before.decision)
        if before.first in self.hidden.reasons:
            return self.hidden.reasons[before.first]
        if shortest > self.fib.width:
            return _as_specific(self.fib.tables[TABLE_MAIN].best(after.first))
        if after.decision.route in self.proposed:
            return _why_not_fine(after)
        return self._why_not_taken(after.first)

    def _why_not_taken(self, address: int) -> Why:
        """Why the repair has no route for an address that a new route could take."""
        alone = Prefix.around(self.fib.family, address, self.fib.width)
        if is_reserved(alone):
            return Why("host-route", cause="the range is reserved")
        for prefix, why in self.unmade.items():
            if alone in prefix:
                return why
        # The walk has looked for a route from the widest prefix down to the address alone.
        return _as_specific(holders_of_keys(self.fib).get(alone))


def find_untaken(escapes: Iterable[Escape]) -> Iterator[Unrepairable]:
    """Why routes do not end these escapes, of packets that are not plain. Routes are looked for
    where plain packets escape.
    """
    for escape in escapes:
        rule = escape.decision.rule
        packets = phrase_of(escape.packet)
        if rule is None or rule.table == TABLE_MAIN:
            cause = f"routes are proposed only for plain packets, and not for {packets}"
            why = Why("not-proven", cause)
        else:
            why = _earlier_rule(escape.decision)
            why = why._replace(cause=f"for {packets}, {why.cause}")
        yield Unrepairable(why, escape.first, escape.last)


# The reasons.


def _earlier_rule(decision: Decision) -> Why:
    """That no new route is used for packets that have this decision now."""
    rule = decision.rule
    if rule is None or rule.table == TABLE_MAIN:
        return Why("earlier-rule", "no rule is known to use routes of table main")
    if decision.kind == "local":
        return Why("earlier-rule", f"[{decision.route}] makes the range this host's own")
    cause = f"[rule {rule}] comes before table main"
    if decision.route is None:  # the escape itself says how to delete the rule
        return Why("earlier-rule", cause)
    if decision.route.table == TABLE_LOCAL:  # no host can do without that table
        return Why("earlier-rule", cause, to_delete=(decision.route,))
    return Why("earlier-rule", cause, rule=rule)


def _as_specific(present: Route | None) -> Why:
    """That no route is more specific than this one. There is one, because only a present route
    makes the shortest length too long (`walk.shortest_length`).
    """
    cause = f"[{present}] is as specific as a route can be"
    if present is None or present.type != "unicast":
        return Why("host-route", cause)  # the escape itself says how to delete what refuses packets
    return Why("host-route", cause, to_delete=(present,))


def _why_not_fine(part: Part) -> Why:
    """What the proof has found out about a part that a new route takes."""
    if part.plain_grade is Grade.ESCAPE:
        return Why("not-proven", cause="with these routes, packets there would still escape")
    return Why("not-proven", cause="with these routes, some packets there would still be in doubt")
