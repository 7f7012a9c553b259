"""The lookup of one packet, rule by rule: the decision of `Fib.lookup`, with each step.

Here: the rules that were tried, the result of each, the routes that were not used and why, as values: the engine's own
walk (`rules`), reported turn by turn. Not here: whole prefixes and unknown fields of a packet (`engine`); messages.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from hostrouting.kernel._fib.decision import Kind
from hostrouting.kernel._fib.engine import Fib
from hostrouting.kernel._fib.packet import PLAIN, Flow, Words, has_tos
from hostrouting.kernel._fib.rules import Turn
from hostrouting.kernel._fib.table import Entry
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot

# not-selected: the rule does not match this packet. no-route: nothing in its table covers the address. suppressed,
# thrown: a route was found, but the lookup continues at the next rule. jump: the lookup continues at another rule.
# nothing: the rule does nothing. refused: the rule itself is the answer. decides: a route is the answer.
Result: TypeAlias = Literal["not-selected", "no-route", "suppressed", "thrown", "jump", "nothing", "refused", "decides"]
# Why a route that covers the address was not used. shorter: another prefix is longer. metric: another metric is lower.
# preference: another router is preferred. tie: another route of the same prefix and metric is listed first. tos, oif:
# it is for other packets. source: it, or another route to its prefix, is for other sources. down: none of its next hops
# is in use. expired: its time is over.
Reason: TypeAlias = Literal["shorter", "metric", "preference", "tie", "tos", "oif", "source", "down", "expired"]


@attrs.frozen
class Passed:
    """A route that covers the address but was not used, and why."""

    route: Route
    reason: Reason


@attrs.frozen
class Tried:
    """A rule and its result. `selector` is what the packet did not match; `route` what was found in its table."""

    rule: Rule
    result: Result
    selector: Words | None = None
    route: Route | None = None


@attrs.frozen
class Trace:
    """The rules that were tried, in order, and the result for the packet: the same as in a `Decision`.

    `passed` are the other routes that cover the address in the table that decides, the closest first.
    """

    address: IP
    flow: Flow
    kind: Kind
    rule: Rule | None
    route: Route | None
    legs: tuple[NextHop, ...]
    tried: tuple[Tried, ...]
    passed: tuple[Passed, ...] = ()
    in_turn: tuple[Route, ...] = ()

    @property
    def devs(self) -> tuple[str, ...]:
        """The devices by which the packet may leave, each once, in order."""
        return tuple(dict.fromkeys(leg.dev for leg in self.legs if leg.dev is not None))


def trace_route(snapshot: Snapshot, destination: IP | str, flow: Flow = PLAIN, *, merged: bool | None = None) -> Trace:
    """Follow a packet through the rules. Unknown fields are those of a plain packet of this host.

    `merged` as in `Fib`.
    """
    address, flow, fib = as_ip(destination), flow.assumed(), Fib(snapshot, merged=merged)
    tried = tuple(
        Tried(rule, *_came_to(rule, turn, entry, decides)) for rule, turn, entry, decides in fib.turns(address, flow)
    )
    end = fib.lookup(address, flow)
    passed = () if end.route is None or end.rule is None else _passed(fib, address, end.rule.table, end.route, flow)
    return Trace(address, flow, end.kind, end.rule, end.route, end.legs, tried, tuple(passed), end.in_turn)


def _came_to(rule: Rule, turn: Turn, entry: Entry | None, decides: bool) -> tuple[Result, Words | None, Route | None]:  # noqa: FBT001  internal
    if not turn.plain:
        return "not-selected", turn.unmet, None
    if rule.action != "to_table":
        return "refused" if decides else "nothing" if turn.target is None else "jump", None, None
    if entry is None:
        return "no-route", None, None
    return "decides" if decides else "thrown" if entry.throws else "suppressed", None, entry.route


def _passed(fib: Fib, address: IP, table: int, taken: Route, flow: Flow) -> Iterator[Passed]:
    """The matching routes that were not used, each with the reason."""
    for route, entry in fib.covering(address, table):
        if route is not taken:
            yield Passed(route, _against(route, entry, flow) or _beaten_by(taken, route))


def _against(route: Route, entry: Entry | None, flow: Flow) -> Reason | None:
    """The reason against a route that does not depend on the others."""
    if route.expired:
        return "expired"
    if route.source is not None and (flow.source is None or int(flow.source) not in _numbers(route.source)):
        return "source"
    if entry is None:
        return "down"
    if not has_tos(flow.tos or 0, route.tos):
        return "tos"
    return "oif" if flow.oif and not entry.leaves_by(flow.oif) else None


def _numbers(source: Prefix) -> range:
    return range(source.first, source.last + 1)


def _beaten_by(taken: Route, route: Route) -> Reason:
    if route.prefix.length < taken.prefix.length:
        return "shorter"
    if route.prefix.length > taken.prefix.length or route.source != taken.source:
        return "source"
    if route.tos != taken.tos:
        return "tos"
    if route.metric <= taken.metric:
        return "tie" if route.preference == taken.preference else "preference"
    return "metric"
