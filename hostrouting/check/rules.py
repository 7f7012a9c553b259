"""What is wrong with the rules and the default routes of a host, whatever is expected of it.

Here: Linux's own rules, which other programs delete or overtake; default routes that compete; rules that look up an
empty table. Not here: where packets to the expected CIDRs leave (`overlap`), and the sentences (`report`).

- *The rule for table local.* Without it, or behind a rule that takes the packets, packets to this host's own addresses
  are sent away: it answers nobody. This is looked up for each own address, unless the rule is the first of all.
- *The rules for main and default.* Without them, the routes in these tables are not used.
- *Default routes that compete.* Of two routes with one metric, by different devices, Linux uses either. That is an
  accident, such as two devices with DHCP, unless the configuration names the devices. One route with several next hops
  is a decision, but not in IPv6 if routers advertised it: Linux makes one route of two that have the same metric.
- *A rule for an empty table* has no effect.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from hostrouting.fib import Fib
from hostrouting.model import (
    IP,
    IPV6,
    TABLE_DEFAULT,
    TABLE_LOCAL,
    TABLE_MAIN,
    Prefix,
    Route,
    Rule,
    by_priority,
    default_rules,
    missing_rules,
)
from hostrouting.routes.uplink import default_route

__all__ = ["Flaw", "FlawKind", "find_flaws"]

_ADVERTISED = 9  # the route protocol of what routers advertise
_OF_A_VRF = 0  # the table of a rule that looks up that of the packet's VRF

FlawKind: TypeAlias = Literal["not-local", "no-rule", "competing", "empty-table"]


@attrs.frozen
class Flaw:
    """One thing that is wrong: the rule that is missing or has no effect, or the routes that compete."""

    kind: FlawKind
    family: int
    rule: Rule | None = None
    routes: tuple[Route, ...] = ()
    addresses: tuple[IP, ...] = ()
    """The own addresses that are not delivered on this host."""

    @property
    def is_serious(self) -> bool:
        """Whether no verdict is OK with it."""
        return self.kind in {"not-local", "competing"}

    @property
    def is_of_main(self) -> bool:
        """Whether the rule for table main is missing."""
        return self.kind == "no-rule" and self.rule is not None and self.rule.table == TABLE_MAIN


def find_flaws(fib: Fib, family: int, *, is_named: bool = False) -> tuple[Flaw, ...]:
    """What is wrong in this family, the worst first; `is_named`: whether the configuration names the expected devices.

    Then default routes do not compete for being expected: each is judged.
    """
    rules = by_priority(rule for rule in fib.snapshot.rules if rule.family == family)
    competing = () if is_named else tuple(_competing(fib, family))
    if rules == default_rules(family):  # as on most hosts
        return competing
    return (
        *_not_local(fib, family, rules),
        *competing,
        *_missing(fib, family, rules),
        *_for_empty_tables(fib, family, rules),
    )


def _not_local(fib: Fib, family: int, rules: tuple[Rule, ...]) -> Iterator[Flaw]:
    if rules and rules[0].looks_up(TABLE_LOCAL):
        return
    own = dict.fromkeys(
        address.ip
        for address in fib.snapshot.addresses
        if address.ip.version == family
        and address.dev != "lo"
        # A device that is down has its addresses, but Linux has no route to them.
        and any(route.type == "local" for route in fib.routes(Prefix.of(address.ip), table=TABLE_LOCAL))
    )
    if lost := tuple(ip for ip in own if fib.lookup(ip).kind != "local"):
        yield Flaw("not-local", family, default_rules(family)[0], addresses=lost)


def _missing(fib: Fib, family: int, rules: tuple[Rule, ...]) -> Iterator[Flaw]:
    """The rules for main and default. The latter only matters if its table has routes, or if both are gone."""
    missing = [rule for rule in missing_rules(rules, family) if rule.table != TABLE_LOCAL]
    is_used = len(missing) > 1 or not fib.is_empty(family, TABLE_DEFAULT)
    for rule in missing if rules else ():
        if rule.table == TABLE_MAIN or is_used:
            yield Flaw("no-rule", family, rule)


def _competing(fib: Fib, family: int) -> Iterator[Flaw]:
    used = default_route(fib, family=family)
    if used is None:
        return
    alike = [
        route
        for route in fib.routes(used.prefix, table=used.table)
        if _rank(route) == _rank(used) and any(not leg.dead and not leg.linkdown for leg in route.legs)
    ]
    is_advertised = family == IPV6 and any(route.protocol == _ADVERTISED and len(route.devs) > 1 for route in alike)
    if is_advertised or len({frozenset(route.devs) for route in alike}) > 1:
        yield Flaw("competing", family, routes=tuple(alike))


def _rank(route: Route) -> tuple[object, ...]:
    return route.type, route.metric, route.tos, route.preference, route.source


def _for_empty_tables(fib: Fib, family: int, rules: tuple[Rule, ...]) -> Iterator[Flaw]:
    standing = {_OF_A_VRF, TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT}
    for rule in rules:
        if rule.action == "to_table" and rule.table not in standing and fib.is_empty(family, rule.table):
            yield Flaw("empty-table", family, rule)
