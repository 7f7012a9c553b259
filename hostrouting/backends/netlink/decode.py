"""Messages of the kernel's as values: devices, addresses, rules and settings. Routes are in `route_message`.

All is read from bytes by hand (see `messages`); a property test has pyroute2 read the same.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address
from sys import byteorder
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.backends.netlink.messages import attributes_of
from hostrouting.backends.netlink.numbers import FAMILY_OF
from hostrouting.backends.netlink.route_message import name_of
from hostrouting.backends.netlink.selectors import read_selectors
from hostrouting.model import Address, Link, Prefix, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hostrouting.model import IP, RuleAction

__all__ = ["Settings", "as_text", "read_addresses", "read_device", "read_links", "read_rules", "read_settings"]

# The fixed part of a message, behind its header; then come attributes.
_LINK = struct.Struct("=16xBxHiI4x")  # struct ifinfomsg: family, type, number, flags
_ADDRESS = struct.Struct("=16xBBxBI")  # struct ifaddrmsg: family, length, scope, number of the device
_RULE = struct.Struct("=16x5B2xBI")  # struct fib_rule_hdr: family, lengths, tos, table, action, flags
_NETCONF_SIZE, _FAMILY_AT = 20, 16
# Attributes by their numbers: IFLA_…, IFA_…, NETCONFA_… and FRA_…
_IFNAME, _MASTER, _LINKINFO, _GROUP, _CARRIER, _LINK_NETNSID, _INFO_KIND = 3, 10, 18, 27, 33, 37, 1
# Of the forty that are said of a device.
_OF_LINK = frozenset({_IFNAME, _MASTER, _LINKINFO, _GROUP, _CARRIER, _LINK_NETNSID})
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST, _IFA_FLAGS, _IFA_RT_PRIORITY = 1, 2, 4, 8, 9
_NETCONF_IFINDEX, _NETCONF_RP_FILTER, _NETCONF_WARY = 1, 3, 6
_DST, _SRC, _IIFNAME, _GOTO, _PRIORITY, _FWMARK, _TABLE, _FWMASK, _OIFNAME = 1, 2, 3, 4, 6, 10, 15, 16, 17
_SUPPRESS_IFGROUP, _SUPPRESS_PREFIXLEN, _L3MDEV, _UID_RANGE, _PROTOCOL, _IP_PROTO = 13, 14, 19, 20, 21, 22
_SPORT_RANGE, _DPORT_RANGE = 23, 24
# What their values are made of.
_SIGNED, _PORTS, _UIDS = struct.Struct("=i"), struct.Struct("=HH"), struct.Struct("=II")

_IFF_UP = 0x1
_IFA_F_NOPREFIXROUTE = 0x200
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


class Settings(NamedTuple):
    """What is set for a device, or for all of them, about routing."""

    wary: bool = False  # routes are ignored while it has no carrier
    rp_filter: int = 0


def _number(raw: Mapping[int, bytes], kind: int) -> int:
    """A number of whatever width; 0 where it is not said."""
    return int.from_bytes(raw.get(kind, b""), byteorder)


def as_text(packed: bytes) -> str:
    """A name; what is no text in it can be read, and is no name by which a device is found."""
    return packed.partition(b"\0")[0].decode(errors="backslashreplace")


def _text(raw: Mapping[int, bytes], kind: int) -> str | None:
    return as_text(raw[kind]) if kind in raw else None


def _ip(packed: bytes | None) -> IP | None:
    if not packed:
        return None
    return IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)


def read_device(data: bytes) -> tuple[int, str]:
    """The number and the name of a device."""
    _, _, index, _ = _LINK.unpack_from(data)
    return index, _text(attributes_of(data, _LINK.size, (_IFNAME,)), _IFNAME) or ""


def read_links(messages: Iterable[bytes], settings: Mapping[int, Settings]) -> tuple[Link, ...]:
    """The devices, and what is set for each by its number."""
    parsed = [(*_LINK.unpack_from(data), attributes_of(data, _LINK.size, _OF_LINK)) for data in messages]
    names = {index: _text(raw, _IFNAME) or "" for _, _, index, _, raw in parsed}
    return tuple(_link(one, names, settings.get(one[2], Settings())) for one in parsed)


def _link(parsed: tuple[int, int, int, int, Mapping[int, bytes]], names: Mapping[int, str], settings: Settings) -> Link:
    _, looks, index, flags, raw = parsed
    made_by = attributes_of(raw.get(_LINKINFO, b""), 0)
    peer = _SIGNED.unpack(raw[_LINK_NETNSID])[0] if _LINK_NETNSID in raw else -1
    return Link(
        name=names[index],
        index=index,
        kind=_text(made_by, _INFO_KIND) or "",
        type=looks,
        up=bool(flags & _IFF_UP),
        carrier=_CARRIER not in raw or bool(_number(raw, _CARRIER)),
        master=names.get(_number(raw, _MASTER)),
        group=_number(raw, _GROUP),
        peer_namespace=None if peer < 0 else peer,
        ignore_routes_with_linkdown=settings.wary,
        rp_filter=settings.rp_filter,
    )


def read_settings(messages: Iterable[bytes]) -> dict[int, Settings]:
    """What is set, by the number of the device."""
    parsed = (attributes_of(data, _NETCONF_SIZE) for data in messages)
    return {
        _SIGNED.unpack(raw[_NETCONF_IFINDEX])[0]: Settings(
            bool(_number(raw, _NETCONF_WARY)), _number(raw, _NETCONF_RP_FILTER)
        )
        for raw in parsed
        if _NETCONF_IFINDEX in raw
    }


def read_addresses(messages: Iterable[bytes], names: Mapping[int, str]) -> tuple[Address, ...]:
    """The host's own addresses, of IPv4 and IPv6."""
    return tuple(_addresses(messages, names))


def _addresses(messages: Iterable[bytes], names: Mapping[int, str]) -> Iterator[Address]:
    for data in messages:
        af, length, scope, device = _ADDRESS.unpack_from(data)
        if af not in FAMILY_OF:
            continue
        raw = attributes_of(data, _ADDRESS.size)
        # Where both are given, LOCAL is ours and ADDRESS the other end's (of which IPv4 repeats ours).
        other = raw.get(_IFA_ADDRESS)
        packed = raw.get(_IFA_LOCAL) or other
        ours = _ip(packed)
        if ours is None:
            continue
        yield Address(
            ip=ours,
            length=length,
            dev=name_of(device, names),
            scope=scope,
            peer=None if other == packed else _ip(other),
            broadcast=_ip(raw.get(_IFA_BROADCAST)),
            metric=_number(raw, _IFA_RT_PRIORITY),
            prefix_route=not _number(raw, _IFA_FLAGS) & _IFA_F_NOPREFIXROUTE,
        )


def read_rules(messages: Iterable[bytes]) -> tuple[Rule, ...]:
    """The rules, except those that are for neither IPv4 nor IPv6."""
    return tuple(_rule(data) for data in messages if data[_FAMILY_AT] in FAMILY_OF)


def _rule(data: bytes) -> Rule:
    af, dst_len, src_len, tos, table, number, flags = _RULE.unpack_from(data)
    raw = attributes_of(data, _RULE.size)
    family, action, selectors = FAMILY_OF[af], _ACTIONS.get(number, "nop"), read_selectors(raw)

    def block(kind: int, length: int) -> Prefix | None:
        return Prefix.around(family, int.from_bytes(raw[kind], "big"), length) if length and kind in raw else None

    def ports(kind: int, name: str) -> tuple[int, int] | None:
        return _PORTS.unpack(raw[kind]) if kind in raw and name not in selectors.masked else None

    def limit(kind: int) -> int | None:
        return None if kind not in raw or (value := _number(raw, kind)) == _UNSET else value

    return Rule(
        family=family,
        priority=_number(raw, _PRIORITY),
        action=action,
        table=(_number(raw, _TABLE) or table) if action == "to_table" else 0,
        target=_number(raw, _GOTO) if action == "goto" and _GOTO in raw else None,
        invert=bool(flags & _FIB_RULE_INVERT),
        src=block(_SRC, src_len),
        dst=block(_DST, dst_len),
        iif=_text(raw, _IIFNAME),
        oif=_text(raw, _OIFNAME),
        fwmark=_number(raw, _FWMARK),
        fwmask=_number(raw, _FWMASK),
        tos=selectors.tos or tos,
        uids=_UIDS.unpack(raw[_UID_RANGE]) if _UID_RANGE in raw else None,
        ipproto=_number(raw, _IP_PROTO),
        sports=ports(_SPORT_RANGE, "sport"),
        dports=ports(_DPORT_RANGE, "dport"),
        others=selectors.others,
        l3mdev=bool(_number(raw, _L3MDEV)),
        suppress_prefixlength=limit(_SUPPRESS_PREFIXLEN),
        suppress_ifgroup=limit(_SUPPRESS_IFGROUP),
        protocol=_number(raw, _PROTOCOL),
    )
