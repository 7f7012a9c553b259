"""How one plain packet is routed, rule by rule: for an operator who asks why it leaves where it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from hostrouting.fib.engine import NOT_JUDGED

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib, Step
    from hostrouting.model.prefix import IP
    from hostrouting.model.route import Route
    from hostrouting.model.rule import Rule


class Tried(NamedTuple):
    """A rule, what came of it, and the route that it found."""

    rule: Rule
    result: Literal["skipped", "not-judged", "no-route", "thrown", "suppressed", "refuses", "decides"]
    """The packet does not fit it; such a rule is not judged; its table has no route; the route is passed over; or the
    lookup ends, by the rule itself or by the route."""
    route: Route | None = None


def trace_rules(fib: Fib, address: IP | str) -> Iterator[Tried]:
    """Each rule that a plain packet to this address meets, up to the one that decides."""
    number = fib.number_of(address)
    for step in fib.steps():
        tried = _try(step, number)
        yield tried
        if tried.result in {"refuses", "decides", "not-judged"}:
            return


def _try(step: Step, address: int) -> Tried:
    if step.rule.action == "nop" or not step.is_for_plain(address):
        return Tried(step.rule, "skipped")
    if decision := step.decision_for(address):
        if decision.kind == NOT_JUDGED:
            return Tried(step.rule, "not-judged")
        return Tried(step.rule, "decides" if decision.route else "refuses", decision.route)
    if step.table is not None and (route := step.table.best(address)):
        return Tried(step.rule, "thrown" if route.type == "throw" else "suppressed", route)
    return Tried(step.rule, "no-route")
