"""The route tables of a host, and the rules that look them up.

Here: whether local and main are merged, and the consequences. Not here: the routes of a table (`table`), and which
packets a rule matches (`rules`).

Until a namespace gets its first custom rule, Linux keeps the IPv4 tables local and main in one trie and looks it up
once: a longer prefix in main then beats a shorter one in local. (After that it keeps them apart, even when the rule
was deleted, and a snapshot does not show this.) So the walk leaves out the rule for local, the rule for main looks
up both tables, and the result is reported under the rule for the route's table.
"""

import attrs

from hostrouting.errors import ConfigError, Fault
from hostrouting.kernel._fib.table import Table
from hostrouting.kernel._fib.table_ipv4 import TableIPv4
from hostrouting.kernel._fib.table_ipv6 import TableIPv6
from hostrouting.kernel._route_table import RouteTable
from hostrouting.model.prefix import IPV4
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

    def walked(self, family: int) -> tuple[Rule, ...]:
        """The rules that a walk visits."""
        rules = self._rules_of(family)
        return rules[1:] if family == IPV4 and self.merged else rules

    def rule_of(self, rule: Rule, route: Route) -> Rule:
        """The rule to report for a route that the walk has found by `rule`."""
        return self._rules[IPV4][0] if self.merged and route.table == TABLE_LOCAL else rule

    def _rules_of(self, family: int) -> tuple[Rule, ...]:
        if family not in self._rules:
            raise ConfigError(
                [Fault("family", "", f"nothing of IPv{family} was read", "take a whole one")], kind="snapshot"
            )
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
                else TableIPv6(self._routes, self._wary_ipv6, self._heeded_ipv6)
            )
        return self._tables[home]
