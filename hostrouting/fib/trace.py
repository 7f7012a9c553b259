"""How one plain packet is routed, rule by rule: for an operator who asks why it leaves where it
does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from hostrouting.fib.engine import NOT_JUDGED, Fib, Step

if TYPE_CHECKING:
    from hostrouting.model.prefix import IP
    from hostrouting.model.route import Route
    from hostrouting.model.rule import Rule


class Tried(NamedTuple):
    """A rule that was tried, with the result and the route that was found."""

    rule: Rule
    result: Literal[
        "skipped", "not-judged", "no-route", "thrown", "suppressed", "refuses", "decides"
    ]
    """The rule does not select the packet; it is not judged; its table has no route; its route is
    passed over (thrown, suppressed); or the lookup ends, because of the rule itself (refuses) or
    because of its route (decides)."""
    route: Route | None = None


def trace_rules(fib: Fib, address: IP | str) -> Iterator[Tried]:
    """Each rule that is tried for a plain packet to this address, up to the one that ends the
    lookup.
    """
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
