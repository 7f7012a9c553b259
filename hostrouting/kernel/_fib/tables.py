"""The route tables of a host, and the rules that look them up.

Here: whether local and main are merged, and the consequences. Not here: the routes of a table (`table`), and which
packets a rule matches (`rules`).

Until a namespace gets its first custom rule, Linux keeps the IPv4 tables local and main in one trie and looks it up
once: a longer prefix in main then beats a shorter one in local. (After that it keeps them apart, even when the rule
was deleted, and a snapshot does not show this.) So the walk leaves out the rule for local, the rule for main looks
up both tables, and the result is reported under the rule for the route's table.
"""

from collections.abc import Iterator

import attrs

from hostrouting.errors import Fault, InputError
from hostrouting.kernel._fib.table import Entry, Table
from hostrouting.kernel._fib.table_ipv4 import TableIPv4
from hostrouting.kernel._fib.table_ipv6 import TableIPv6
from hostrouting.kernel._route_table import RouteTable
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import PROTOCOL_KERNEL, TABLE_LOCAL, TABLE_MAIN, Route
from hostrouting.model.rule import Rule, by_priority, default_rules
from hostrouting.model.snapshot import Snapshot

# The table number of a rule that looks up the table of a VRF, for packets in none: Linux uses main.
_UNSAID = 0


class Tables:
    """All tables of a snapshot, by family and number."""

    def __init__(self, snapshot: Snapshot, *, merged: bool | None) -> None:
        """Index the routes by table, without reading them.

        `merged`: whether the namespace never had a custom rule, if the caller knows; None derives it from the rules.
        """
        self._routes = RouteTable.of(snapshot.routes)
        self._wary = frozenset(link.name for link in snapshot.links if link.ignore_routes_with_linkdown)
        self._wary_ipv6 = frozenset(link.name for link in snapshot.links if link.ipv6_ignore_routes_with_linkdown)
        self._forwarding = snapshot.ipv6_forwarding
        up = frozenset(link.name for link in snapshot.links if link.up)
        self._heeded, self._heeded_ipv6 = self._wary & up, self._wary_ipv6 & up
        # Of the families that were read.
        self._rules = {
            family: by_priority(rule for rule in snapshot.rules if rule.family == family)
            for family in snapshot.families
        }
        if merged is None:
            kernels = (
                rule if rule.protocol == PROTOCOL_KERNEL else attrs.evolve(rule, protocol=PROTOCOL_KERNEL)
                for rule in self._rules.get(IPV4, ())
            )
            merged = tuple(kernels) == default_rules(IPV4)
        self.merged = merged
        self._tables: dict[tuple[int, int], Table] = {}
        for family in snapshot.families:
            self._make(family, TABLE_MAIN)  # looked up even while it is empty
        for column in self._routes.columns:
            self._make(column.family, column.table).add(column)

    def find(self, family: int, number: int) -> Table | None:
        """The indexed table that has the routes of this table number; None if there are none."""
        return self._tables.get(self._home(family, number))

    def main(self, family: int) -> Table:
        """Table main, which always exists."""
        return self._tables[self._home(family, TABLE_MAIN)]

    def walked(self, family: int) -> tuple[Rule, ...]:
        """The rules that a walk visits."""
        rules = self._rules_of(family)
        return rules[1:] if family == IPV4 and self.merged else rules

    def rule_of(self, rule: Rule, route: Route) -> Rule:
        """The rule to report for a route that the walk has found by `rule`."""
        return self._rules[IPV4][0] if self.merged and route.table == TABLE_LOCAL else rule

    def told(self, rule: Rule, route: Route | None) -> Iterator[tuple[Rule, bool]]:
        """The rules that this rule of the walk stands for, each with whether the found route is in its table."""
        if self.merged and rule.family == IPV4 and rule.table == TABLE_MAIN:
            local = route is not None and route.table == TABLE_LOCAL
            yield self._rules[IPV4][0], local
            yield rule, not local
        else:
            yield rule, True

    def routes(self, family: int, number: int, network: int, length: int) -> tuple[Route, ...]:
        """The routes of exactly this prefix in a table, in the order in which the kernel prefers them."""
        home = self.find(family, number)
        places = () if home is None else home.positions(network, length)
        found = [route for place in places if (route := self._routes[place]).table == number]
        return tuple(sorted(found, key=lambda route: (-route.tos, route.metric)))

    def within(self, prefix: Prefix, number: int) -> Iterator[Route]:
        """The routes of a table whose prefix is this one or lies inside it."""
        home = self.find(prefix.family, number)
        for column in () if home is None else home.columns:
            routes = map(self._routes.__getitem__, column.inside(prefix))
            yield from (route for route in routes if route.table == number)

    def around(self, family: int, number: int | None, address: int) -> Iterator[Route]:
        """The routes of a table (None: of any) whose prefix contains the address, in each the longest prefix first."""
        self._rules_of(family)
        numbers = [column.table for column in self._routes.columns if column.family == family]
        for one in numbers if number is None else (number,):
            home = self.find(family, one)
            for host, length in () if home is None else home.shifts:
                yield from self.routes(family, one, address >> host << host, length)

    def covering(self, family: int, number: int, address: int) -> Iterator[tuple[Route, Entry | None]]:
        """The routes that a lookup in the table may meet, longest prefix first; with an entry if in use.

        Routes of one prefix are in the order in which the kernel prefers them; those that are not in use come last.
        """
        home = self.find(family, number)
        if home is None:
            return
        for host, length in home.shifts:
            network = address >> host << host
            entries = home.of(network, length)
            used = {entry.position for entry in entries}
            yield from ((entry.route, entry) for entry in entries)
            yield from ((self._routes[place], None) for place in home.positions(network, length) if place not in used)

    def _rules_of(self, family: int) -> tuple[Rule, ...]:
        if family not in self._rules:
            raise InputError([Fault("family", "", f"nothing of IPv{family} was read", "take a whole one")])
        return self._rules[family]

    def _home(self, family: int, number: int) -> tuple[int, int]:
        self._rules_of(family)
        together = family == IPV4 and number == TABLE_LOCAL and self.merged
        return family, TABLE_MAIN if together or number == _UNSAID else number

    def _make(self, family: int, number: int) -> Table:
        home = self._home(family, number)
        if home not in self._tables:
            self._tables[home] = (
                TableIPv4(self._routes, self._wary, self._heeded)
                if family == IPV4
                else TableIPv6(self._routes, self._wary_ipv6, self._heeded_ipv6, forwarding=self._forwarding)
            )
        return self._tables[home]
