"""Messages of the kernel's as values: devices, addresses, rules, routes, next hops. The plain path, by pyroute2.

What is not known is left out and does no harm. Routes by the hundred thousand are read by `lean`, which hands to
`read_route` what it does not know.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.backends.netlink.codec import decode
from hostrouting.model import (
    IPV4,
    IPV6,
    ROUTE_TYPES,
    Address,
    Link,
    NextHop,
    Prefix,
    Route,
    Rule,
    as_ip,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hostrouting.backends.netlink.codec import Message, Nested
    from hostrouting.model import IP, RuleAction

__all__ = [
    "AF_OF",
    "FAMILY_OF",
    "PATHLESS",
    "as_ip_bytes",
    "make_leg",
    "name_of",
    "read_addresses",
    "read_links",
    "read_nexthops",
    "read_route",
    "read_rules",
    "read_wary",
]

AF_OF = {IPV4: 2, IPV6: 10}
FAMILY_OF = {number: family for family, number in AF_OF.items()}
# Routes that lead nowhere; IPv6 lists the loopback device with them.
PATHLESS = frozenset({"blackhole", "unreachable", "prohibit", "throw"})

_IFF_UP = 0x1
_DEAD, _PERVASIVE, _ONLINK, _LINKDOWN = 0x1, 0x2, 0x4, 0x10
_FIB_RULE_INVERT = 0x2
_UNSET = 0xFFFFFFFF
_ACTIONS: dict[int, RuleAction] = {
    1: "to_table",
    2: "goto",
    3: "nop",
    6: "blackhole",
    7: "unreachable",
    8: "prohibit",
}


def read_links(messages: Iterable[bytes], wary: frozenset[int]) -> tuple[Link, ...]:
    """The devices; `wary` are the numbers of those that ignore routes without carrier."""
    parsed = [decode("link", data) for data in messages]
    names = {link.field("index"): str(link.get("IFLA_IFNAME")) for link in parsed}
    return tuple(_link(link, names, wary) for link in parsed)


def _link(link: Message, names: Mapping[int, str], wary: frozenset[int]) -> Link:
    index = link.field("index")
    made_by = link.nested("IFLA_LINKINFO")
    carrier = link.get("IFLA_CARRIER")
    peer = link.get("IFLA_LINK_NETNSID")
    return Link(
        name=names[index],
        index=index,
        kind=(made_by and made_by.get("IFLA_INFO_KIND")) or "",
        type=link.field("ifi_type"),
        up=bool(link.field("flags") & _IFF_UP),
        carrier=carrier is None or bool(carrier),
        master=names.get(link.get("IFLA_MASTER") or 0),
        group=link.get("IFLA_GROUP") or 0,
        peer_namespace=None if peer is None or peer < 0 else peer,
        ignore_routes_with_linkdown=index in wary,
    )


def read_wary(messages: Iterable[bytes]) -> frozenset[int]:
    """The numbers of the devices whose routes are ignored while they have no carrier."""
    parsed = (decode("netconf", data) for data in messages)
    return frozenset(
        int(one.get("NETCONFA_IFINDEX"))
        for one in parsed
        if one.get("NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN") and one.get("NETCONFA_IFINDEX") is not None
    )


def read_addresses(messages: Iterable[bytes], names: Mapping[int, str]) -> tuple[Address, ...]:
    """The host's own addresses."""
    return tuple(_address(decode("address", data), names) for data in messages)


def _address(address: Message, names: Mapping[int, str]) -> Address:
    # Where both are given, LOCAL is ours and ADDRESS the other end's (of which IPv4 repeats ours).
    ours = _ip(address.get("IFA_LOCAL") or address.get("IFA_ADDRESS"))
    other = _ip(address.get("IFA_ADDRESS"))
    return Address(
        ip=ours or as_ip("0.0.0.0"),  # noqa: S104  an address that is listed without one: never seen
        length=address.field("prefixlen"),
        dev=name_of(address.field("index"), names),
        scope=address.field("scope"),
        peer=None if other == ours else other,
        broadcast=_ip(address.get("IFA_BROADCAST")),
    )


def read_rules(messages: Iterable[bytes]) -> tuple[Rule, ...]:
    """The rules, except those that are for neither IPv4 nor IPv6."""
    parsed = (decode("rule", data) for data in messages)
    return tuple(_rule(rule) for rule in parsed if rule.field("family") in FAMILY_OF)


def _rule(rule: Message) -> Rule:
    family = FAMILY_OF[rule.field("family")]
    action = _ACTIONS.get(rule.field("action"), "nop")
    target = rule.get("FRA_GOTO")
    # Since Linux 6.13 a rule can give all six bits of the DSCP instead of a tos.
    tos = (rule.get("FRA_DSCP") or 0) << 2 or rule.field("tos")

    def block(name: str, length: str) -> Prefix | None:
        bits, text = rule.field(length), rule.get(name)
        return Prefix.around(family, int(as_ip(text)), bits) if bits and text else None

    def span(name: str) -> tuple[int, int] | None:
        low, _, high = (rule.get(name) or "").partition(":")
        return (int(low), int(high)) if low else None

    def limit(name: str) -> int | None:
        value = rule.get(name)
        return None if value in {None, _UNSET} else int(value)

    return Rule(
        family=family,
        priority=rule.get("FRA_PRIORITY") or 0,
        action=action,
        table=(rule.get("FRA_TABLE") or rule.field("table")) if action == "to_table" else 0,
        target=target if action == "goto" else None,
        invert=bool(rule.field("flags") & _FIB_RULE_INVERT),
        src=block("FRA_SRC", "src_len"),
        dst=block("FRA_DST", "dst_len"),
        iif=rule.get("FRA_IIFNAME"),
        oif=rule.get("FRA_OIFNAME"),
        fwmark=rule.get("FRA_FWMARK") or 0,
        fwmask=rule.get("FRA_FWMASK") or 0,
        tos=tos,
        uids=span("FRA_UID_RANGE"),
        ipproto=rule.get("FRA_IP_PROTO") or 0,
        sports=span("FRA_SPORT_RANGE"),
        dports=span("FRA_DPORT_RANGE"),
        l3mdev=bool(rule.get("FRA_L3MDEV")),
        suppress_prefixlength=limit("FRA_SUPPRESS_PREFIXLEN"),
        suppress_ifgroup=limit("FRA_SUPPRESS_IFGROUP"),
        protocol=rule.get("FRA_PROTOCOL") or 0,
    )


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
        prefsrc=_ip(route.get("RTA_PREFSRC")),
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
    return _ip(via["addr"] if via else hop.get("RTA_GATEWAY"))


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
            gateway = packed and as_ip_bytes(packed)
            singles[number] = (make_leg(one.get("NHA_OIF"), gateway, one.field("flags"), names),)
    return singles | {number: tuple(_members(members, singles)) for number, members in grouped.items()}


def _members(packed: bytes, singles: Mapping[int, tuple[NextHop, ...]]) -> Iterable[NextHop]:
    # struct nexthop_grp: the number of the member, then its weight less one, low byte first.
    for number, weight in struct.iter_unpack("=IH2x", packed):
        yield from (attrs.evolve(leg, weight=weight + 1) for leg in singles.get(number, ()))


def name_of(index: int, names: Mapping[int, str]) -> str:
    """The device's name; one that came after the devices were listed is called by its number, as `ip` does."""
    return names.get(index) or f"if{index}"


def as_ip_bytes(packed: bytes) -> IP:
    """The address that stands in a message as these bytes."""
    return ip_address(packed)


def _ip(text: Any) -> IP | None:
    return as_ip(text) if text else None
