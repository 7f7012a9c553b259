"""How one plain packet is routed, rule by rule: for an operator who asks why it leaves where it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.fib.engine import conditions_of, is_plain
from hostrouting.model.route import REFUSING

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.prefix import IP
    from hostrouting.model.route import Route
    from hostrouting.model.rule import Rule

Result: TypeAlias = Literal["skipped", "not-judged", "no-route", "thrown", "suppressed", "refuses", "decides"]
"""What came of a rule: the packet does not fit it; it is a kind of rule that is not judged; its table has no route; the
route that it found is passed over; or the lookup ends, by the rule itself or by the route."""


class Tried(NamedTuple):
    """A rule, what came of it, and the route that it found."""

    rule: Rule
    result: Result
    route: Route | None = None


def trace_rules(fib: Fib, address: IP) -> Iterator[Tried]:
    """Each rule that a plain packet to this address meets, up to the one that decides."""
    number = int(address)
    for rule in fib.rules:
        tried = _try(fib, rule, number)
        yield tried
        if tried.result in {"refuses", "decides"}:
            return


def _try(fib: Fib, rule: Rule, number: int) -> Tried:
    conditions = conditions_of(rule)
    is_inside = rule.dst is None or rule.dst.first <= number <= rule.dst.last
    meets = is_inside and all(condition == ("iif", "lo") or is_plain(rule, (condition,)) for condition in conditions)
    if meets is rule.invert:
        return Tried(rule, "skipped")
    if rule.action in REFUSING:
        return Tried(rule, "refuses")
    if rule.action != "to_table":
        return Tried(rule, "not-judged")
    table = fib.tables.get(rule.table)
    route = None if table is None else table.best(number)
    if route is None:
        return Tried(rule, "no-route")
    if route.type == "throw":
        return Tried(rule, "thrown", route)
    limit = rule.suppress_prefixlength
    if limit is not None and route.type not in REFUSING and route.prefix.length <= limit:
        return Tried(rule, "suppressed", route)
    return Tried(rule, "decides", route)
