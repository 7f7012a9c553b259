"""The lookups that Linux makes for itself while it changes IPv4 routes: for gateways, and for addresses of its own.

Here: those lookups, which look at scopes and ignore lost carriers. Not here: what a packet meets (`hostrouting.fib`
answers that, for users and fake alike).
"""

import errno
from typing import NamedTuple

import attrs

from hostrouting.backends.memory.devices import Devices
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Standing, Tables
from hostrouting.fib import PLAIN, Fib
from hostrouting.model import (
    IPV4,
    TABLE_DEFAULT,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteType,
    RuleAction,
    Snapshot,
    ip_at,
)

__all__ = ["Lookup4", "NoWay", "Way"]

_ERRORS: dict[RouteType, int] = {
    "blackhole": errno.EINVAL,
    "unreachable": errno.EHOSTUNREACH,
    "prohibit": errno.EACCES,
    "throw": errno.EAGAIN,
}
# A rule that ends the lookup; "unreachable" is another error here than in a route.
_RULE_ERRORS: dict[RuleAction, int] = {"blackhole": errno.EINVAL, "prohibit": errno.EACCES}
_MULTICAST = range(0xE0000000, 0xF0000000)


class NoWay(Exception):  # noqa: N818  an answer, not a fault
    """The lookup ended with an error."""

    def __init__(self, number: int) -> None:
        """Keep the errno."""
        self.number = number
        super().__init__(number)


class Way(NamedTuple):
    """The route that was found, and the leg that was taken."""

    route: Route
    leg: NextHop


class Lookup4:
    """IPv4 lookups on the tables as they stand."""

    def __init__(self, tables: Tables[Standing], rules: Rules, devices: Devices) -> None:
        """Look at these whenever asked."""
        self._tables, self._rules, self._devices = tables, rules, devices

    def for_gateway(self, address: int, table: int, *, scope: int, dev: str | None) -> Way:
        """What leads to a gateway: the table of the route that wants it, and then what the rules lead to."""
        if table != TABLE_MAIN:
            try:
                return self.in_table(table, address, scope=scope, dev=dev)
            except NoWay:
                pass
        return self.everywhere(address, scope=scope, dev=dev)

    def in_table(self, table: int, address: int, *, scope: int = 0, dev: str | None = None, wary: bool = False) -> Way:
        """What one table has for the address, among routes of this scope or a narrower one."""
        for standing in self._tables.covering(address, self._together(table)):
            route = standing.route
            if route.tos or route.scope < scope:
                continue
            if route.type in _ERRORS:
                raise NoWay(_ERRORS[route.type])
            leg = None if standing.dead else self._leg(standing, dev, wary=wary)
            if leg is not None:
                return Way(route, leg)
        raise NoWay(errno.EAGAIN)

    def everywhere(self, address: int, *, scope: int, dev: str | None) -> Way:
        """What the rules lead to, for a packet of the host's own that is bound to the device."""
        if self._rules.custom:
            return self._by_rules(address, scope, dev)
        # Without rules of its own a host is asked for these two tables.
        for table in (TABLE_MAIN, TABLE_DEFAULT):
            try:
                return self.in_table(table, address, scope=scope, dev=dev)
            except NoWay as error:
                if error.number != errno.EAGAIN:
                    raise
        raise NoWay(errno.ENETUNREACH)

    def type_of(self, address: int, table: int) -> RouteType:
        """What kind of address it is, as one table says."""
        if address in {0, 0xFFFFFFFF}:
            return "broadcast"
        if address in _MULTICAST:
            return "multicast"
        if not any(it in self._tables for it in self._together(table)):
            return "broadcast"
        try:
            return self.in_table(table, address, wary=True).route.type
        except NoWay:
            return "unicast"

    def _together(self, table: int) -> tuple[int, ...]:
        """The tables that are searched as one: until the first rule, Linux keeps local and main together."""
        merged = not self._rules.custom and table in {TABLE_LOCAL, TABLE_MAIN}
        return (TABLE_LOCAL, TABLE_MAIN) if merged else (table,)

    def _by_rules(self, address: int, scope: int, dev: str | None) -> Way:
        every = [link.shown() for link in self._devices]
        covering = [
            standing.route
            for standing in self._tables.covering(address, list(self._tables))
            if standing.route.scope >= scope and not standing.dead
        ]
        snapshot = Snapshot(
            links=tuple(attrs.evolve(link, ignore_routes_with_linkdown=False) for link in every),
            rules=self._rules.in_force(),
            routes=covering,
        )
        # It is no packet's lookup: there is no protocol.
        flow = attrs.evolve(PLAIN, ipproto=0, oif=dev or "")
        decision = Fib(snapshot, merged=False).lookup(ip_at(IPV4, address), flow)
        if decision.route is None:
            raise NoWay(_RULE_ERRORS.get(decision.rule.action if decision.rule else "nop", errno.ENETUNREACH))
        if decision.route.type in _ERRORS:
            raise NoWay(_ERRORS[decision.route.type])
        legs = [leg for leg in decision.legs if dev in {None, leg.dev}]
        return Way(decision.route, legs[0])

    def _leg(self, standing: Standing, dev: str | None, *, wary: bool) -> NextHop | None:
        """The first leg by the device; when `wary`, none that is passed over because of its lost carrier."""
        for leg in standing.route.legs:
            lost = wary and leg.linkdown and self._devices.ignores_linkdown(leg.dev)
            if dev in {None, leg.dev} and not leg.dead and not lost:
                return leg
        return None
