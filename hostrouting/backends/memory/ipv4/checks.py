"""The conditions under which Linux accepts an IPv4 route, and the lookups for them.

Here: the refusals, each with its errno and the kernel's text; the next hops of an accepted route; and lookups for
gateways and addresses, which compare scopes and ignore lost carriers. Not here: where a route is inserted (`routes`),
and lookups for packets (`hostrouting.fib`, for users and for the fake kernel).
"""

import errno
from typing import NamedTuple

import attrs

from hostrouting.backends.memory.devices import Device, Devices
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Installed, Tables, as_kept
from hostrouting.fib import PLAIN, Fib
from hostrouting.model import (
    IPV4,
    IPV6,
    PATHLESS,
    SCOPE_HOST,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
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
from hostrouting.reserved import MULTICAST

__all__ = ["Checks", "check_tos"]

# A rule that ends the lookup; "unreachable" has a different errno here than in a route.
_RULE_ERRORS: dict[RuleAction, int] = {"blackhole": errno.EINVAL, "prohibit": errno.EACCES}
_SCOPE_NOWHERE = 255
# The widest scope that a route of each type may have; missing types are always refused.
_WIDEST: dict[RouteType, int] = {
    "unicast": SCOPE_UNIVERSE,
    "local": SCOPE_HOST,
    "broadcast": SCOPE_LINK,
    "anycast": SCOPE_LINK,
    "multicast": SCOPE_UNIVERSE,
    **dict.fromkeys(PATHLESS, SCOPE_UNIVERSE),
}
_ECN = 0x03


class _NoWay(Exception):  # noqa: N818  an answer, not a fault
    """A lookup ended with an error."""

    def __init__(self, number: int) -> None:
        """Store the errno."""
        self.number = number
        super().__init__(number)


class _Way(NamedTuple):
    """The route that was found, and the next hop that was chosen."""

    route: Route
    leg: NextHop


# A next hop as it is stored, and its scope.
class _Reached(NamedTuple):
    leg: NextHop
    reach: int


def check_tos(route: Route) -> None:
    """Refuse the bits of tos that are used for congestion notification."""
    if route.tos & _ECN:
        raise KernelError(errno.EINVAL, "Invalid dsfield (tos): ECN bits must be 0")


class Checks:
    """The checks, against the present tables, rules and devices."""

    def __init__(self, tables: Tables[Installed], rules: Rules, devices: Devices) -> None:
        """Keep references to these; they are read at each check."""
        self._tables, self._rules, self._devices = tables, rules, devices

    def taken(self, route: Route) -> Installed:
        """The route as it will be stored; KernelError if Linux refuses it."""
        route = as_kept(route)
        if route.scope < _WIDEST.get(route.type, _SCOPE_NOWHERE):
            raise KernelError(errno.EINVAL, "Invalid scope")
        if route.nexthop_id is not None:
            raise KernelError(errno.EINVAL, "Nexthop id does not exist")
        if route.type in PATHLESS:
            if len(route.legs) > 1 or any(leg.dev or leg.gateway for leg in route.legs):
                words = "Gateway, device and multipath can not be specified for this route type"
                raise KernelError(errno.EINVAL, words)
            # Its next hop is not stored, but Linux compares this flag of it when looking for identical routes.
            return Installed(attrs.evolve(route, legs=()), tuple(int(leg.onlink) for leg in route.legs if leg.onlink))
        if route.scope > SCOPE_HOST:
            raise KernelError(errno.EINVAL, "Invalid scope")
        if route.scope == SCOPE_HOST:
            reached = [self._own(route)]
        else:
            reached = [self._leg(leg, route) for leg in route.legs or (NextHop(),)]
        if route.prefsrc is not None and not self._may_prefer(route):
            raise KernelError(errno.EINVAL, "Invalid prefsrc address")
        return Installed(attrs.evolve(route, legs=tuple(it.leg for it in reached)), tuple(it.reach for it in reached))

    def type_of(self, address: int, table: int) -> RouteType:
        """The type of an address according to one table."""
        if address in {0, 0xFFFFFFFF}:
            return "broadcast"
        if ip_at(IPV4, address) in MULTICAST[IPV4]:
            return "multicast"
        if not any(it in self._tables for it in self._together(table)):
            return "broadcast"
        try:
            return self._in_table(table, address, wary=True).route.type
        except _NoWay:
            return "unicast"

    def _own(self, route: Route) -> _Reached:
        """The next hop of a route of scope host: it needs a device, which need not be up."""
        if len(route.legs) > 1:
            raise KernelError(errno.EINVAL, "Route with host scope can not have multiple nexthops")
        leg = route.legs[0] if route.legs else NextHop()
        if leg.gateway is not None:
            raise KernelError(errno.EINVAL, "Route with host scope can not have a gateway")
        device = self._devices.find(leg.dev)
        if device is None:
            raise KernelError(errno.ENODEV)
        return _Reached(NextHop(device.name, weight=leg.weight, onlink=leg.onlink), _SCOPE_NOWHERE)

    def _leg(self, leg: NextHop, route: Route) -> _Reached:
        if leg.gateway is None:
            return self._straight(leg)
        if leg.gateway.version == IPV6:
            # Known limit: Linux looks it up in its IPv6 tables; here every IPv6 neighbour is on-link.
            return self._straight(attrs.evolve(leg, onlink=False))
        return self._onlink(leg, route) if leg.onlink else self._gateway(leg, route)

    def _straight(self, leg: NextHop) -> _Reached:
        """Without a gateway: the device must be up."""
        if leg.onlink:
            raise KernelError(errno.EINVAL, "Invalid flags for nexthop - PERVASIVE and ONLINK can not be set")
        device = self._devices.find(leg.dev)
        if device is None:
            raise KernelError(errno.ENODEV)
        if not device.up:
            raise KernelError(errno.ENETDOWN, "Device for nexthop is not up")
        return _Reached(_as_found(leg, device), SCOPE_HOST)

    def _onlink(self, leg: NextHop, route: Route) -> _Reached:
        """The gateway is assumed to be on-link."""
        if route.scope >= SCOPE_LINK:
            raise KernelError(errno.EINVAL, "Nexthop has invalid scope")
        device = self._devices.find(leg.dev)
        if device is None:
            raise KernelError(errno.ENODEV, "Nexthop device required for onlink")
        if not device.up:
            raise KernelError(errno.ENETDOWN, "Nexthop device is not up")
        if self.type_of(int(leg.gateway or 0), TABLE_LOCAL) != "unicast":
            raise KernelError(errno.EINVAL, "Nexthop has invalid gateway")
        return _Reached(_as_found(leg, device), SCOPE_LINK)

    def _gateway(self, leg: NextHop, route: Route) -> _Reached:
        """The gateway must have a narrower scope than the route: on-link, by this device."""
        scope = max(route.scope + 1, SCOPE_LINK)
        try:
            way = self._to_gateway(int(leg.gateway or 0), route.table, scope=scope, dev=leg.dev)
        except _NoWay as error:
            raise KernelError(error.number, "Nexthop has invalid gateway") from error
        if way.route.type not in {"unicast", "local"}:
            raise KernelError(errno.EINVAL, "Nexthop has invalid gateway")
        device = self._devices.find(way.leg.dev)
        if device is None:
            raise KernelError(errno.EINVAL, "No egress device for nexthop gateway")
        if not device.up:
            raise KernelError(errno.ENETDOWN)
        return _Reached(_as_found(attrs.evolve(leg, dev=device.name), device), way.route.scope)

    def _may_prefer(self, route: Route) -> bool:
        """Whether the preferred source is an address of this host, or is about to become one."""
        source = int(route.prefsrc or 0)
        if route.type == "local" and route.prefix.network == source:
            return True
        table = TABLE_LOCAL if route.table == TABLE_MAIN else route.table
        return "local" in {self.type_of(source, table), self.type_of(source, TABLE_LOCAL)}

    def _to_gateway(self, address: int, table: int, *, scope: int, dev: str | None) -> _Way:
        """The route to a gateway: from the table of the route that uses it, then by the rules."""
        if table != TABLE_MAIN:
            try:
                return self._in_table(table, address, scope=scope, dev=dev)
            except _NoWay:
                pass
        if self._rules.custom:
            return self._by_rules(address, scope, dev)
        # Without custom rules Linux looks up these two tables.
        for each in (TABLE_MAIN, TABLE_DEFAULT):
            try:
                return self._in_table(each, address, scope=scope, dev=dev)
            except _NoWay as error:
                if error.number != errno.EAGAIN:
                    raise
        raise _NoWay(errno.ENETUNREACH)

    def _in_table(
        self, table: int, address: int, *, scope: int = 0, dev: str | None = None, wary: bool = False
    ) -> _Way:
        """The route of one table for the address, among routes of this scope or a narrower one."""
        for installed in self._tables.covering(address, self._together(table)):
            route = installed.route
            if route.tos or route.scope < scope:
                continue
            if route.type in PATHLESS:
                raise _NoWay(PATHLESS[route.type])
            leg = None if installed.dead else self._usable(installed, dev, wary=wary)
            if leg is not None:
                return _Way(route, leg)
        raise _NoWay(errno.EAGAIN)

    def _by_rules(self, address: int, scope: int, dev: str | None) -> _Way:
        every = [link.shown() for link in self._devices]
        covering = [
            installed.route
            for installed in self._tables.covering(address, list(self._tables))
            if installed.route.scope >= scope and not installed.dead
        ]
        snapshot = Snapshot(
            links=tuple(attrs.evolve(link, ignore_routes_with_linkdown=False) for link in every),
            rules=self._rules.in_force(),
            routes=covering,
        )
        # This is not a lookup for a packet: it has no protocol.
        flow = attrs.evolve(PLAIN, ipproto=0, oif=dev or "")
        decision = Fib(snapshot, merged=False).lookup(ip_at(IPV4, address), flow)
        if decision.route is None:
            raise _NoWay(_RULE_ERRORS.get(decision.rule.action if decision.rule else "nop", errno.ENETUNREACH))
        if decision.route.type in PATHLESS:
            raise _NoWay(PATHLESS[decision.route.type])
        legs = [leg for leg in decision.legs if dev in {None, leg.dev}]
        return _Way(decision.route, legs[0])

    def _together(self, table: int) -> tuple[int, ...]:
        """The tables that are searched together: until the first custom rule, Linux keeps local and main merged."""
        merged = not self._rules.custom and table in {TABLE_LOCAL, TABLE_MAIN}
        return (TABLE_LOCAL, TABLE_MAIN) if merged else (table,)

    def _usable(self, installed: Installed, dev: str | None, *, wary: bool) -> NextHop | None:
        """The first next hop by the device; with `wary`, none that is skipped because of its lost carrier."""
        for leg in installed.route.legs:
            lost = wary and leg.linkdown and self._devices.ignores_linkdown(leg.dev, IPV4)
            if dev in {None, leg.dev} and not leg.dead and not lost:
                return leg
        return None


def _as_found(leg: NextHop, device: Device) -> NextHop:
    return attrs.evolve(leg, linkdown=not device.carrier)
