"""The conditions under which Linux accepts an IPv6 route, and the lookups for them.

Here: the refusals, each with its errno and the kernel's text; the next hops of an accepted route; and lookups for
gateways and addresses, for a device. Not here: where a route is inserted (`routes`), and lookups for packets
(`hostrouting.fib`).
"""

import errno
from collections.abc import Iterable
from ipaddress import IPv6Address
from typing import Any

import attrs

from hostrouting.backends.deletion import expires, sources_of
from hostrouting.backends.memory.clock import KernelClock
from hostrouting.backends.memory.devices import LOOPBACK, Device, Devices
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Tables, as_kept
from hostrouting.fib import PLAIN, Fib
from hostrouting.fib.flow import Sought
from hostrouting.fib.table_ipv6 import TableIPv6
from hostrouting.model import (
    DEFAULT_METRIC,
    IP,
    IPV6,
    PATHLESS,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteTable,
    Snapshot,
)

__all__ = ["Checks"]

_PROTOCOL_BOOT = 3


class Checks:
    """The checks, against the present tables, rules and devices."""

    def __init__(self, tables: Tables[Any], rules: Rules, devices: Devices, clock: KernelClock) -> None:
        """Keep references to these; they are read at each check."""
        self._tables, self._rules, self._devices, self._clock = tables, rules, devices, clock

    def taken(self, route: Route) -> Route:
        """The route as it will be stored, without its next hops; KernelError if Linux refuses it."""
        left = max(route.expires or 0, 0) if expires(route) else None
        preference = "medium" if route.type in PATHLESS else route.preference
        route = attrs.evolve(as_kept(route), source=sources_of(route), preference=preference, expires=left)
        if route.nexthop_id is not None:
            raise KernelError(errno.EINVAL, "Nexthop id does not exist")
        if len(route.legs) > 1 and any(leg.gateway is None for leg in route.legs):
            words = "Device only routes can not be added for IPv6 using the multipath API."
            raise KernelError(errno.EINVAL, words)
        if route.type in PATHLESS:
            for leg in route.legs[:2]:
                _check_onlink(leg, self._devices.find(leg.dev))
            self._check_source(route, LOOPBACK)
        if len(route.legs) > 1 and route.type in PATHLESS:
            # To Linux each of them is lo, whatever was given.
            raise KernelError(errno.EEXIST)
        legs = () if route.type in PATHLESS else route.legs or (NextHop(),)
        protocol = route.protocol or _PROTOCOL_BOOT
        return attrs.evolve(route, legs=legs, metric=route.metric or DEFAULT_METRIC[IPV6], protocol=protocol)

    def leg(self, leg: NextHop, route: Route) -> NextHop:
        """A next hop of the route as it will be stored; KernelError if Linux refuses it."""
        device = self._devices.find(leg.dev)
        _check_onlink(leg, device)
        if isinstance(leg.gateway, IPv6Address):
            device = self._gateway(leg.gateway, device, leg=leg, route=route)
        if device is None:
            raise KernelError(errno.ENODEV)
        if device.link.ipv6_disabled:
            raise KernelError(errno.EACCES, "IPv6 is disabled on nexthop device")
        if not device.up:
            raise KernelError(errno.ENETDOWN, "Nexthop device is not up")
        self._check_source(route, device.name)
        own = route.type in {"local", "anycast"}
        return attrs.evolve(leg, dev=device.name, linkdown=not device.carrier and not own)

    def _check_source(self, route: Route, dev: str) -> None:
        if route.prefsrc is not None and not self.is_source(route.prefsrc, dev):
            raise KernelError(errno.EINVAL, "Invalid source address")

    def _gateway(self, gateway: IPv6Address, device: Device | None, *, leg: NextHop, route: Route) -> Device:
        named = device
        if named is not None and self._is_own(gateway, named):
            raise KernelError(errno.EINVAL, "Gateway can not be a local address")
        if not gateway.is_link_local:
            if gateway.is_multicast or not int(gateway):
                raise KernelError(errno.EINVAL, "Invalid gateway address")
            if leg.onlink:
                found = self._in_table(TABLE_MAIN, gateway, Sought(iif=leg.dev or "", source=int(route.prefsrc or 0)))
                if found is not None and found.prefix.network and _leads_on(found) and leg.dev not in found.devs:
                    raise KernelError(errno.EINVAL, "Nexthop has invalid gateway or device mismatch")
            else:
                device = self._devices.find(self._egress(gateway, leg.dev, route))
        if device is None:
            raise KernelError(errno.EINVAL, "Egress device not specified")
        if device.loopback:
            raise KernelError(errno.EINVAL, "Egress device can not be loopback device for this route")
        if named is None and self._is_own(gateway, device):
            raise KernelError(errno.EINVAL, "Gateway can not be a local address")
        return device

    def _egress(self, gateway: IPv6Address, dev: str | None, route: Route) -> str:
        """The device on which the gateway is on-link; EHOSTUNREACH if there is none, or a different one."""
        found = self._in_table(route.table, gateway, Sought(oif=dev or "", source=int(route.prefsrc or 0)))
        if not _is_direct(found):
            found = self._by_rules(gateway, dev)
        if found is None or not _is_direct(found):
            raise KernelError(errno.EHOSTUNREACH)
        return found.devs[0]

    def _is_own(self, address: IP, dev: Device) -> bool:
        """Whether any device has the address; a link-local one must be on this device."""
        holders = [dev] if address.is_link_local else self._devices
        return any(held.ip == address for device in holders for held in device.ipv6)

    def is_source(self, address: IP, dev: str | None) -> bool:
        """Whether packets that leave by this device may have this source address."""
        device = self._devices.find(dev)
        holders = [device] if device and (address.is_link_local or address.is_loopback) else self._devices
        return any(held.ip == address for holder in holders for held in holder.ipv6)

    def _in_table(self, table: int, address: IP, sought: Sought, *, wary: Iterable[str] = ()) -> Route | None:
        """The route of one table for the address; without a carrier, routes by the `wary` devices are skipped."""
        routes = RouteTable.of(self._covering(address, (table,)))
        index = TableIPv6(routes, frozenset(wary), forwarding=True)
        for column in routes.columns:
            index.add(column)
        entry, _ = index.best(int(address), sought)
        return None if entry is None else entry.route

    def _by_rules(self, address: IP, dev: str | None) -> Route | None:
        """The route that the rules lead to, by this device; here a lost carrier may matter."""
        if not self._rules.custom:
            # A route without a next hop ends this lookup, even a throw route.
            wary = [device.name for device in self._devices if self._devices.ignores_linkdown(device.name, IPV6)]
            near = (
                self._in_table(table, address, Sought(oif=dev or ""), wary=wary) for table in (TABLE_LOCAL, TABLE_MAIN)
            )
            return next((route for route in near if route is not None), None)
        links = tuple(device.link for device in self._devices)
        routes = self._covering(address, self._tables)
        snapshot = Snapshot(links=links, rules=self._rules.in_force(), routes=routes, ipv6_forwarding=True)
        return Fib(snapshot).lookup(address, attrs.evolve(PLAIN, ipproto=0, iif="", oif=dev or "")).route

    def _covering(self, address: IP, tables: Iterable[int]) -> tuple[Route, ...]:
        now = self._clock.now()
        return tuple(it.shown(now) for it in self._tables.covering(int(address), tables))


def _check_onlink(leg: NextHop, device: Device | None) -> None:
    if leg.onlink and device is None:
        raise KernelError(errno.ENODEV, "Nexthop device required for onlink")
    if leg.onlink and device is not None and not device.up:
        raise KernelError(errno.ENETDOWN, "Nexthop device is not up")


def _leads_on(route: Route) -> bool:
    """Whether it has a next hop, and is not a unicast route by lo (the network of an address on lo)."""
    return bool(route.legs) and not (route.type == "unicast" and LOOPBACK in route.devs)


def _is_direct(route: Route | None) -> bool:
    """Whether the addresses of this route are on-link."""
    return route is not None and _leads_on(route) and route.legs[0].gateway is None
