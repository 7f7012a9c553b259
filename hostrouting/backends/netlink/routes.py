"""Messages of the kernel's as routes and next hops. The plain path, by pyroute2.

What is not known is left out and does no harm. Routes by the hundred thousand are read by `lean`, which hands to
`read_route` what it does not know.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.backends.netlink.codec import decode
from hostrouting.backends.netlink.numbers import FAMILY_OF
from hostrouting.model import ROUTE_TYPES, NextHop, Prefix, Route, as_ip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hostrouting.backends.netlink.codec import Nested
    from hostrouting.model import IP

__all__ = ["PATHLESS", "ip_of", "make_leg", "name_of", "read_nexthops", "read_route"]

# Routes that lead nowhere; IPv6 lists the loopback device with them.
PATHLESS = frozenset({"blackhole", "unreachable", "prohibit", "throw"})
_DEAD, _PERVASIVE, _ONLINK, _LINKDOWN = 0x1, 0x2, 0x4, 0x10


def read_route(data: bytes, names: Mapping[int, str], nexthops: Mapping[int, tuple[NextHop, ...]]) -> Route:
    """One route; the legs of a next hop object that the kernel did not spell out are taken from `nexthops`."""
    route = decode("route", data)
    family = FAMILY_OF[route.field("family")]
    text, length = route.get("RTA_DST"), route.field("dst_len")
    kind = ROUTE_TYPES[route.field("type")]
    metrics, nexthop_id = route.nested("RTA_METRICS"), route.get("RTA_NH_ID")
    legs = tuple(_leg(hop, hop.field("oif"), names, hops=hop.field("hops")) for hop in route.listed("RTA_MULTIPATH"))
    device = route.get("RTA_OIF")
    if not legs and (device or _gateway(route) is not None):
        legs = (_leg(route, device, names),)
    if not legs and nexthop_id is not None:
        legs = nexthops.get(nexthop_id, ())
    return Route(
        Prefix.around(family, int(as_ip(text)), length) if text else Prefix(family, 0, 0),
        () if kind in PATHLESS else legs,
        table=route.get("RTA_TABLE") or route.field("table"),
        metric=route.get("RTA_PRIORITY") or 0,
        tos=route.field("tos"),
        type=kind,
        scope=route.field("scope"),
        protocol=route.field("proto"),
        prefsrc=ip_of(route.get("RTA_PREFSRC")),
        mtu=metrics.get("RTAX_MTU") if metrics else None,
        advmss=metrics.get("RTAX_ADVMSS") if metrics else None,
        nexthop_id=nexthop_id,
    )


def _leg(hop: Nested, device: int | None, names: Mapping[int, str], *, hops: int = 0) -> NextHop:
    return make_leg(device, _gateway(hop), hop.field("flags"), names, weight=hops + 1)


def make_leg(
    device: int | None, gateway: IP | None, flags: int, names: Mapping[int, str], *, weight: int = 1
) -> NextHop:
    """One way out, by the number of its device and its flags (RTNH_F_…)."""
    return NextHop(
        name_of(device, names) if device else None,
        gateway=gateway,
        weight=weight,
        onlink=bool(flags & _ONLINK),
        linkdown=bool(flags & _LINKDOWN),
        dead=bool(flags & _DEAD),
        pervasive=bool(flags & _PERVASIVE),
    )


def _gateway(hop: Nested) -> IP | None:
    # VIA is a gateway of the other family.
    via = hop.get("RTA_VIA")
    return ip_of(via["addr"] if via else hop.get("RTA_GATEWAY"))


def read_nexthops(messages: Iterable[bytes], names: Mapping[int, str]) -> dict[int, tuple[NextHop, ...]]:
    """The legs of each next hop object, a group's being those of its members."""
    singles: dict[int, tuple[NextHop, ...]] = {}
    grouped: dict[int, bytes] = {}
    for data in messages:
        one = decode("nexthop", data)
        number, members = one.get("NHA_ID"), one.get("NHA_GROUP")
        if members:
            grouped[number] = members
        elif one.get("NHA_OIF"):
            packed = one.get("NHA_GATEWAY")
            gateway = packed and ip_address(packed)
            singles[number] = (make_leg(one.get("NHA_OIF"), gateway, one.field("flags"), names),)
    return singles | {number: tuple(_members(members, singles)) for number, members in grouped.items()}


def _members(packed: bytes, singles: Mapping[int, tuple[NextHop, ...]]) -> Iterable[NextHop]:
    # struct nexthop_grp: the number of the member, then its weight less one: the low byte, and the high one.
    for number, low, high in struct.iter_unpack("=IBB2x", packed):
        yield from (attrs.evolve(leg, weight=(high << 8 | low) + 1) for leg in singles.get(number, ()))


def name_of(index: int, names: Mapping[int, str]) -> str:
    """The device's name; one that came after the devices were listed is called by its number, as `ip` does."""
    return names.get(index) or f"if{index}"


def ip_of(text: Any) -> IP | None:
    """The address that pyroute2 gives as text, if it gives one."""
    return as_ip(text) if text else None
