"""What Linux asks of an IPv4 route before it takes it.

Here: the refusals, each with its errno and the kernel's words, and what becomes of the legs of a route that is
taken. Not here: where it is put (`ipv4_routes`).
"""

import errno

import attrs

from hostrouting.backends.memory.devices import Device, Devices
from hostrouting.backends.memory.ipv4_lookup import Lookup4, NoWay
from hostrouting.backends.memory.refused import Refused
from hostrouting.backends.memory.tables import Standing, as_kept
from hostrouting.model import (
    IPV6,
    SCOPE_HOST,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteType,
)

__all__ = ["PATHLESS", "check_route", "check_tos"]

PATHLESS: dict[RouteType, int] = {
    "blackhole": errno.EINVAL,
    "unreachable": errno.EHOSTUNREACH,
    "prohibit": errno.EACCES,
    "throw": errno.EAGAIN,
}
"""Types without a way, and the error that each answers a lookup with."""

_SCOPE_NOWHERE = 255
# The widest scope that a route of a type may have; those that are missing are of no use to anybody.
_WIDEST: dict[RouteType, int] = {
    "unicast": SCOPE_UNIVERSE,
    "local": SCOPE_HOST,
    "broadcast": SCOPE_LINK,
    "anycast": SCOPE_LINK,
    "multicast": SCOPE_UNIVERSE,
    **dict.fromkeys(PATHLESS, SCOPE_UNIVERSE),
}
_ECN = 0x03


def check_tos(route: Route) -> None:
    """Refuse the bits of tos that belong to congestion notification."""
    if route.tos & _ECN:
        raise Refused(errno.EINVAL, "Invalid dsfield (tos): ECN bits must be 0")


def check_route(route: Route, devices: Devices, lookup: Lookup4) -> Standing:
    """The route as it will stand; Refused when Linux does not take it."""
    route = as_kept(route)
    if route.scope < _WIDEST.get(route.type, _SCOPE_NOWHERE):
        raise Refused(errno.EINVAL, "Invalid scope")
    if route.nexthop_id is not None:
        raise Refused(errno.EINVAL, "Nexthop id does not exist")
    if route.type in PATHLESS:
        if any(leg.dev or leg.gateway for leg in route.legs):
            text = "Gateway, device and multipath can not be specified for this route type"
            raise Refused(errno.EINVAL, text)
        return Standing(attrs.evolve(route, legs=()))
    if route.scope > SCOPE_HOST:
        raise Refused(errno.EINVAL, "Invalid scope")
    if route.scope == SCOPE_HOST:
        legs: tuple[tuple[NextHop, int], ...] = (_own(route, devices),)
    else:
        legs = tuple(_check_leg(leg, route, devices, lookup) for leg in route.legs or (NextHop(),))
    if route.prefsrc is not None and not _may_prefer(route, lookup):
        raise Refused(errno.EINVAL, "Invalid prefsrc address")
    return Standing(attrs.evolve(route, legs=tuple(leg for leg, _ in legs)), tuple(reach for _, reach in legs))


def _own(route: Route, devices: Devices) -> tuple[NextHop, int]:
    """The leg of a route to the host itself: it needs a device, and nothing of it."""
    if len(route.legs) > 1:
        raise Refused(errno.EINVAL, "Route with host scope can not have multiple nexthops")
    leg = route.legs[0] if route.legs else NextHop()
    if leg.gateway is not None:
        raise Refused(errno.EINVAL, "Route with host scope can not have a gateway")
    device = devices.find(leg.dev)
    if device is None:
        raise Refused(errno.ENODEV)
    return NextHop(device.name, weight=leg.weight, onlink=leg.onlink), _SCOPE_NOWHERE


def _check_leg(leg: NextHop, route: Route, devices: Devices, lookup: Lookup4) -> tuple[NextHop, int]:
    if leg.gateway is None:
        return _check_device(leg, devices)
    if leg.gateway.version == IPV6:
        # Known limit: Linux asks its IPv6 tables; here every IPv6 neighbour is on the link.
        return _check_device(attrs.evolve(leg, onlink=False), devices)
    if leg.onlink:
        return _check_onlink(leg, route, devices, lookup)
    return _check_gateway(leg, route, devices, lookup)


def _check_device(leg: NextHop, devices: Devices) -> tuple[NextHop, int]:
    if leg.onlink:
        raise Refused(errno.EINVAL, "Invalid flags for nexthop - PERVASIVE and ONLINK can not be set")
    device = devices.find(leg.dev)
    if device is None:
        raise Refused(errno.ENODEV)
    if not device.up:
        raise Refused(errno.ENETDOWN, "Device for nexthop is not up")
    return _as_found(leg, device), SCOPE_HOST


def _check_onlink(leg: NextHop, route: Route, devices: Devices, lookup: Lookup4) -> tuple[NextHop, int]:
    if route.scope >= SCOPE_LINK:
        raise Refused(errno.EINVAL, "Nexthop has invalid scope")
    device = devices.find(leg.dev)
    if device is None:
        raise Refused(errno.ENODEV, "Nexthop device required for onlink")
    if not device.up:
        raise Refused(errno.ENETDOWN, "Nexthop device is not up")
    if lookup.type_of(int(leg.gateway or 0), TABLE_LOCAL) != "unicast":
        raise Refused(errno.EINVAL, "Nexthop has invalid gateway")
    return _as_found(leg, device), SCOPE_LINK


def _check_gateway(leg: NextHop, route: Route, devices: Devices, lookup: Lookup4) -> tuple[NextHop, int]:
    """The gateway has to be nearer than the route: on the link, through this device."""
    scope = max(route.scope + 1, SCOPE_LINK)
    try:
        way = lookup.for_gateway(int(leg.gateway or 0), route.table, scope=scope, dev=leg.dev)
    except NoWay as error:
        raise Refused(error.number, "Nexthop has invalid gateway") from error
    if way.route.type not in {"unicast", "local"}:
        raise Refused(errno.EINVAL, "Nexthop has invalid gateway")
    device = devices.find(way.leg.dev)
    if device is None:
        raise Refused(errno.EINVAL, "No egress device for nexthop gateway")
    if not device.up:
        raise Refused(errno.ENETDOWN)
    return _as_found(attrs.evolve(leg, dev=device.name), device), way.route.scope


def _as_found(leg: NextHop, device: Device) -> NextHop:
    return attrs.evolve(leg, linkdown=not device.carrier)


def _may_prefer(route: Route, lookup: Lookup4) -> bool:
    """Whether the preferred source is an address of the host's own, or just about to become one."""
    source = int(route.prefsrc or 0)
    if route.type == "local" and route.prefix.network == source:
        return True
    table = TABLE_LOCAL if route.table == TABLE_MAIN else route.table
    return "local" in {lookup.type_of(source, table), lookup.type_of(source, TABLE_LOCAL)}
