"""What Linux asks of an IPv6 route before it takes it.

Here: the refusals, each with its errno and the kernel's words. Not here: where a route is put (`ipv6_routes`).
"""

import errno
from ipaddress import IPv6Address

import attrs

from hostrouting.backends.memory.devices import Device, Devices
from hostrouting.backends.memory.ipv6_lookup import Lookup6
from hostrouting.backends.memory.refused import Refused
from hostrouting.model import DEFAULT_METRIC, IPV6, TABLE_MAIN, NextHop, Route

__all__ = ["check_leg", "check_route"]

_PROTOCOL_BOOT = 3
_PATHLESS = frozenset({"blackhole", "unreachable", "prohibit", "throw"})


def check_route(route: Route, devices: Devices) -> Route:
    """The route as it will stand, apart from its legs."""
    if route.nexthop_id is not None:
        raise Refused(errno.EINVAL, "Nexthop id does not exist")
    if len(route.legs) > 1 and any(leg.gateway is None for leg in route.legs):
        text = "Device only routes can not be added for IPv6 using the multipath API."
        raise Refused(errno.EINVAL, text)
    if route.type in _PATHLESS:
        for leg in route.legs[:2]:
            _check_onlink(leg, devices.find(leg.dev))
    if len(route.legs) > 1 and route.type in _PATHLESS:
        # Whatever they say, each of them is lo to Linux.
        raise Refused(errno.EEXIST)
    legs = () if route.type in _PATHLESS else route.legs or (NextHop(),)
    protocol = route.protocol or _PROTOCOL_BOOT
    return attrs.evolve(route, legs=legs, metric=route.metric or DEFAULT_METRIC[IPV6], protocol=protocol)


def check_leg(leg: NextHop, route: Route, devices: Devices, lookup: Lookup6) -> NextHop:
    """The leg as it will stand."""
    device = devices.find(leg.dev)
    _check_onlink(leg, device)
    if isinstance(leg.gateway, IPv6Address):
        device = _check_gateway(leg.gateway, device, leg=leg, table=route.table, devices=devices, lookup=lookup)
    if device is None:
        raise Refused(errno.ENODEV)
    if not device.up:
        raise Refused(errno.ENETDOWN, "Nexthop device is not up")
    if route.prefsrc is not None and not lookup.is_own(route.prefsrc):
        raise Refused(errno.EINVAL, "Invalid source address")
    own = route.type in {"local", "anycast"}
    return attrs.evolve(leg, dev=device.name, linkdown=not device.carrier and not own)


def _check_onlink(leg: NextHop, device: Device | None) -> None:
    if leg.onlink and device is None:
        raise Refused(errno.ENODEV, "Nexthop device required for onlink")
    if leg.onlink and device is not None and not device.up:
        raise Refused(errno.ENETDOWN, "Nexthop device is not up")


def _check_gateway(
    gateway: IPv6Address, device: Device | None, *, leg: NextHop, table: int, devices: Devices, lookup: Lookup6
) -> Device:
    if lookup.is_own(gateway):
        raise Refused(errno.EINVAL, "Gateway can not be a local address")
    if not gateway.is_link_local:
        if gateway.is_multicast or not int(gateway):
            raise Refused(errno.EINVAL, "Invalid gateway address")
        if leg.onlink:
            found = lookup.nearest(TABLE_MAIN, gateway, leg.dev)
            if found is not None and found.prefix.network and found.legs and leg.dev not in found.devs:
                raise Refused(errno.EINVAL, "Nexthop has invalid gateway or device mismatch")
        else:
            device = devices.find(_egress(gateway, leg.dev, table, lookup))
    if device is None:
        raise Refused(errno.EINVAL, "Egress device not specified")
    if device.loopback:
        raise Refused(errno.EINVAL, "Egress device can not be loopback device for this route")
    return device


def _egress(gateway: IPv6Address, dev: str | None, table: int, lookup: Lookup6) -> str:
    """The device on whose link the gateway is; EHOSTUNREACH when it is on none, or on another one."""
    for found in (lookup.in_table(table, gateway, dev), lookup.everywhere(gateway, dev)):
        if found is not None and found.legs and found.legs[0].gateway is None:
            return found.devs[0]
    raise Refused(errno.EHOSTUNREACH)
