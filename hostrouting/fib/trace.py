"""The way of one packet, rule by rule: what `Fib.lookup` decides, told so that somebody can follow it.

Here: which rules were tried, what each came to, which routes were passed over and why, as values. Not here: speed,
whole prefixes, or what is not known of a packet (`engine`); nor sentences. It is written from the model alone, and a
law says that it ends where the engine does.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from hostrouting.fib.answer import Kind
from hostrouting.fib.flow import PLAIN, Flow, asks_of, has_tos
from hostrouting.model import (
    IP,
    IPV4,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    Rule,
    Snapshot,
    as_ip,
    by_priority,
    default_rules,
    route_keys,
)

__all__ = ["Passed", "Reason", "Result", "Trace", "Tried", "trace_route"]

# not-selected: the rule is not for this packet. no-route: nothing in its table covers the address. suppressed, thrown:
# a route was found, and the next rule is asked all the same. jump: it goes on at another rule. nothing: the
# rule does nothing. refused: the rule itself is the answer. decides: a route is the answer.
Result: TypeAlias = Literal["not-selected", "no-route", "suppressed", "thrown", "jump", "nothing", "refused", "decides"]
# Why a route that covers the address was not taken. shorter: another's prefix is longer. metric: another's is lower.
# tie: another of the same prefix and metric is listed first. tos, oif: it is for other packets. down: none of its legs
# is in use.
Reason: TypeAlias = Literal["shorter", "metric", "tie", "tos", "oif", "down"]

_ERRORS = frozenset({"blackhole", "unreachable", "prohibit"})
_ZERO, _MULTICAST, _BROADCAST = 0, (0xE0000000, 0xEFFFFFFF), 0xFFFFFFFF


@attrs.frozen
class Passed:
    """A route that covers the address and was not taken, and why."""

    route: Route
    reason: Reason


@attrs.frozen
class Tried:
    """A rule, and what it came to. `selector` is what it asked for in vain; `route` what was found in its table."""

    rule: Rule
    result: Result
    selector: tuple[str, str] | None = None
    route: Route | None = None


@attrs.frozen
class Trace:
    """The rules that were tried, in order, and what became of the packet: the same as in a `Decision`.

    `passed` are the other routes that cover the address in the table that decides, those that came closest first.
    """

    address: IP
    flow: Flow
    kind: Kind
    rule: Rule | None
    route: Route | None
    legs: tuple[NextHop, ...]
    tried: tuple[Tried, ...]
    passed: tuple[Passed, ...] = ()

    @property
    def devs(self) -> tuple[str, ...]:
        """The devices by which it may leave, each once, in order."""
        return tuple(dict.fromkeys(leg.dev for leg in self.legs if leg.dev is not None))


def trace_route(snapshot: Snapshot, destination: IP | str, flow: Flow = PLAIN, *, merged: bool | None = None) -> Trace:
    """Follow a packet through the rules. What is not known of it is as in a plain packet of the host's own.

    `merged` as in `Fib`.
    """
    address = as_ip(destination)
    walk = _Walk(snapshot, address, flow.assumed(), merged)
    tried = tuple(walk.rules())
    end = tried[-1] if tried and tried[-1].result in {"decides", "refused"} else None
    rule, route = (None, None) if end is None else (end.rule, end.route)
    kind = "no-route" if rule is None else _of_rule(rule) if route is None else route.type
    return Trace(
        address,
        walk.flow,
        _by_address(address) or kind,
        rule,
        route,
        () if route is None else walk.in_use(route),
        tried,
        () if route is None or rule is None else tuple(walk.passed(rule.table, route)),
    )


def _of_rule(rule: Rule) -> Kind:
    """What a rule that is the answer itself makes of a packet."""
    match rule.action:
        case "blackhole" | "unreachable" | "prohibit" as verdict:
            return verdict
        case _:
            return "no-route"


def _by_address(address: IP) -> Kind | None:
    """What an address is by itself, whichever route takes it."""
    if address.version != IPV4:
        return "multicast" if address.is_multicast else None
    number = int(address)
    if number == _ZERO:
        return "local"
    if number == _BROADCAST:
        return "broadcast"
    return "multicast" if _MULTICAST[0] <= number <= _MULTICAST[1] else None


class _Walk:
    """One packet on its way through one host."""

    def __init__(self, snapshot: Snapshot, address: IP, flow: Flow, merged: bool | None) -> None:  # noqa: FBT001  internal
        self.flow, self._address = flow, address
        self._rules = by_priority(rule for rule in snapshot.rules if rule.family == address.version)
        self._links = {link.name: link for link in snapshot.links}
        plain = tuple(attrs.evolve(rule, protocol=2) for rule in self._rules)
        own = address.version == IPV4 and plain == default_rules(IPV4)
        self._merged = address.version == IPV4 and (own if merged is None else merged)
        family, width, number = address.version, address.max_prefixlen, int(address)
        # Of 100,000 routes only those that cover the address are looked at.
        self._covering = [
            snapshot.routes[position]
            for position, (of, _, network, length, _) in enumerate(route_keys(snapshot.routes))
            if of == family and not (network ^ number) >> width - length
        ]

    def rules(self) -> Iterator[Tried]:
        """Each rule that was tried; the last one decides, if any does."""
        at = 0
        while at < len(self._rules):
            tried = self._try(self._rules[at])
            yield tried
            if tried.result in {"decides", "refused"}:
                return
            at = self._target(tried.rule, at) if tried.result == "jump" else at + 1

    def _try(self, rule: Rule) -> Tried:
        selector = self._fails(rule)
        if (selector is None) is rule.invert:
            return Tried(rule, "not-selected", selector)
        if rule.action in _ERRORS:
            return Tried(rule, "refused")
        if rule.action == "goto":
            return Tried(rule, "jump" if self._target(rule, -1) >= 0 else "nothing")
        if rule.action != "to_table":
            return Tried(rule, "nothing")
        route = next((route for route, why in self._candidates(rule.table) if why is None), None)
        if route is None:
            return Tried(rule, "no-route")
        if route.type == "throw":
            return Tried(rule, "thrown", route=route)
        return Tried(rule, "suppressed" if self._suppressed(rule, route) else "decides", route=route)

    def _fails(self, rule: Rule) -> tuple[str, str] | None:
        """The first selector that is not true of the packet; None when all are."""
        if rule.dst is not None and self._address not in rule.dst:
            return ("to", str(rule.dst))
        devs, known = {"lo", *self._links}, self.flow.known(rule.family)
        asks = asks_of(rule, devs)
        return next((ask.words for ask, possible in asks if not (possible and ask.answer(known))), None)

    def _target(self, rule: Rule, at: int) -> int:
        """Where a goto goes on; `at` when it leads nowhere, or back."""
        ahead = (place for place, it in enumerate(self._rules) if it.priority == rule.target)
        return next(ahead, at) if rule.target is not None and rule.target > rule.priority else at

    def _suppressed(self, rule: Rule, route: Route) -> bool:
        if route.type in _ERRORS:
            return False
        short = rule.suppress_prefixlength is not None and route.prefix.length <= rule.suppress_prefixlength
        dev = next((leg.dev for leg in self.in_use(route)), None)
        group = None if dev is None else self._links[dev].group if dev in self._links else 0 if dev == "lo" else None
        return short or (group is not None and group == rule.suppress_ifgroup)

    def _candidates(self, table: int) -> Iterator[tuple[Route, Reason | None]]:
        """The routes of the table that cover the address, the best first; each with what speaks against it alone."""
        # Until a namespace has rules of its own, the tables local and main are one, which is asked once.
        both = self._merged and table in {TABLE_LOCAL, TABLE_MAIN}
        tables = {TABLE_LOCAL, TABLE_MAIN} if both else {table}
        found = [route for route in self._covering if route.table in tables]
        found.sort(key=lambda it: (-it.prefix.length, it.table != TABLE_LOCAL, -it.tos, it.metric))
        judged = [(route, self._against(route)) for route in found]
        best = next((route for route, why in judged if why is None), None)
        if both and best is not None and best.table != table:
            return  # it is told under the other table's rule
        yield from judged

    def _against(self, route: Route) -> Reason | None:
        legs = self.in_use(route)
        if route.legs and not legs:
            return "down"
        if not has_tos(self.flow.tos or 0, route.tos):
            return "tos"
        bound = self.flow.oif
        if bound and route.type not in {*_ERRORS, "throw"} and not any(leg.dev == bound for leg in legs):
            return "oif"
        return None

    def in_use(self, route: Route) -> tuple[NextHop, ...]:
        """The legs of a route that packets can take now."""
        wary = {name for name, link in self._links.items() if link.ignore_routes_with_linkdown}
        return tuple(leg for leg in route.legs if not (leg.dead or (leg.linkdown and leg.dev in wary)))

    def passed(self, table: int, taken: Route) -> Iterator[Passed]:
        """The routes that were not taken where `taken` was, and why."""
        for route, why in self._candidates(table):
            if route is not taken:
                yield Passed(route, why or _beaten_by(taken, route))


def _beaten_by(taken: Route, route: Route) -> Reason:
    if route.prefix.length < taken.prefix.length:
        return "shorter"
    return "tie" if (route.tos, route.metric) == (taken.tos, taken.metric) else "metric"
