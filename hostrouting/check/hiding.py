"""What would be fine elsewhere than at the uplink, if the route that hides it were gone.

Packets to pods belong at a CNI's device. If a stale blackhole or another bridge catches them, a
route by the uplink would only lose them in another way. So what catches packets is taken out of the
tables, to see where they would go. Such a range has to be repaired by a deletion.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.results import Grade, Part
from hostrouting.fib.engine import Decision, Fib, effect_of

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge
    from hostrouting.model.route import Route


class Hidden(NamedTuple):
    """An escaping part that would be fine without the routes that catch its packets."""

    part: Part
    """The part as it would be then."""
    catching: tuple[Route, ...]
    """The routes that have to go, in the order in which they decide."""

    @property
    def cause(self) -> str:
        """Why no route by the uplink is right, in words that follow a colon."""
        hidden = self.part.decision.route
        return f"[{self.catching[0]}] hides [{hidden}], which these packets would take without it"


class Uncovered(NamedTuple):
    """The host without all that catches packets."""

    without_catching: Fib
    hidden: dict[int, Hidden]
    """By their first address: the parts that belong elsewhere than at the uplink."""


def find_hidden(judge: Judge, escapes: Sequence[Part]) -> Uncovered:
    """Take the routes of these escapes out of the tables, then those that catch the packets next.

    An escape is judged by its route alone: a route by which some packets escape is right for no
    others, so all such routes can go at once. What is expected stays what the whole host expects.
    """
    if not _may_hide(judge, escapes):
        return Uncovered(judge.fib, {})
    fib = judge.fib
    decisions = {part.first: part.decision for part in escapes}
    catching: dict[int, list[Route]] = {part.first: [] for part in escapes}
    while True:
        removed: list[Route] = []
        for first, decision in decisions.items():
            routes = _escaping_routes(judge, fib, decision)
            catching[first] += routes
            removed += routes
        if not removed:
            break
        fib = fib.without_routes(removed)
        decisions = {first: fib.outcomes(first)[0] for first in decisions}
    hidden: dict[int, Hidden] = {}
    for part in escapes:
        decision = decisions[part.first]
        opinion = judge.opinion(decision)
        if catching[part.first] and opinion.belongs_elsewhere:
            then = part._replace(decision=decision, opinion=opinion)
            hidden[part.first] = Hidden(then, tuple(catching[part.first]))
    return Uncovered(fib, hidden)


def _escaping_routes(judge: Judge, fib: Fib, decision: Decision) -> list[Route]:
    """The route of this decision and those that would decide next, one after the other, as long as
    packets escape by them: at once all eight InfiniBand devices that are in one network.
    """
    rule = decision.rule
    if decision.route is None or rule is None:
        return []
    escaping: list[Route] = []
    for route in fib.tables[rule.table].routes_to(decision.route.prefix):
        is_deciding = effect_of(rule, route) == "decides"
        would_be = Decision(route.type, route, rule)
        if not is_deciding or judge.opinion(would_be).grade is not Grade.ESCAPE:
            break
        escaping.append(route)
    return escaping


def _may_hide(judge: Judge, escapes: Sequence[Part]) -> bool:
    """Whether a route to one of these addresses is right elsewhere than at the uplink.

    Most hosts have none, and need not be taken apart: without this question, the check of a node
    with eight InfiniBand devices takes nearly twice as long.
    """
    firsts = sorted(part.first for part in escapes)
    for route in judge.fib.routes:
        place = bisect_left(firsts, route.prefix.first)
        is_around = place < len(firsts) and firsts[place] <= route.prefix.last
        if is_around and judge.opinion(Decision(route.type, route)).belongs_elsewhere:
            return True
    return False
