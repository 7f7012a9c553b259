"""What the kernel lists: the question for each list, and devices, addresses, settings and rules as values.

Listed routes are read by `route_message`, next hop objects by `nexthops`. A rule is read by the entries of `SELECTORS`,
which know the values that it selects on. What came to Linux late, or is not known here at all, is among its `others` in
the words of `ip rule`, so that it is never read as a rule for all packets. A property test has pyroute2 ask and read
the same.
"""

from __future__ import annotations

import struct
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from sys import byteorder
from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.messages import attributes_of, message
from hostrouting.backends.netlink.numbers import FAMILY_OF
from hostrouting.backends.netlink.route_message import RTMSG, name_of
from hostrouting.model import SELECTORS, Address, Link, Rule, selector_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hostrouting.model import IP, RuleAction

__all__ = [
    "Settings",
    "as_text",
    "ask_device",
    "ask_list",
    "decode_selectors",
    "read_addresses",
    "read_device",
    "read_links",
    "read_rules",
    "read_settings",
]

# The fixed part of an answer, behind its header; then come attributes.
_LINK = struct.Struct("=16xBxHiI4x")  # struct ifinfomsg: family, type, number, flags
_ADDRESS = struct.Struct("=16xBBxBI")  # struct ifaddrmsg: family, length, scope, number of the device
_RULE = struct.Struct("=16x5B2xBI")  # struct fib_rule_hdr: family, lengths, tos, table, action, flags
_NETCONF_SIZE, _FAMILY_AT = 20, 16
# That of a question is a family and zeros, so many bytes together.
_SIZES = {n.RTM_GETLINK: 16, n.RTM_GETADDR: 8, n.RTM_GETRULE: 12, n.RTM_GETNETCONF: 4, n.RTM_GETNEXTHOP: 8}
# Attributes by their numbers: IFLA_…, IFA_…, NETCONFA_… and FRA_…
_IFNAME, _MASTER, _LINKINFO, _GROUP, _CARRIER, _LINK_NETNSID, _INFO_KIND = 3, 10, 18, 27, 33, 37, 1
# Counters of packets are half of what is said of a device, and are not wanted: RTEXT_FILTER_SKIP_STATS.
_EXT_MASK, _SKIP_STATS = 29, struct.pack("=I", 8)
# Of the forty that are said of a device.
_OF_LINK = frozenset({_IFNAME, _MASTER, _LINKINFO, _GROUP, _CARRIER, _LINK_NETNSID})
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST, _IFA_FLAGS, _IFA_RT_PRIORITY = 1, 2, 4, 8, 9
_NETCONF_IFINDEX, _NETCONF_RP_FILTER, _NETCONF_WARY = 1, 3, 6
# What of a rule selects nothing: what it does and whose it is, then two of no consequence, FLOW (realms) and PAD.
_GOTO, _PRIORITY, _SUPPRESS_IFGROUP, _SUPPRESS_PREFIXLEN, _TABLE, _PROTOCOL = 4, 6, 13, 14, 15, 21
_NO_SELECTORS = (_GOTO, _PRIORITY, _SUPPRESS_IFGROUP, _SUPPRESS_PREFIXLEN, _TABLE, _PROTOCOL, 11, 18)
# Selectors that have no entry in SELECTORS.
_TUN_ID, _FLOWLABEL, _FLOWLABEL_MASK = 12, 26, 27
_KNOWN = frozenset(
    {_TUN_ID, _FLOWLABEL, _FLOWLABEL_MASK, *_NO_SELECTORS}
    | {number for selector in SELECTORS for number in (selector.attribute, selector.mask) if number}
)
_PORTS, _ALL_PORT = (selector_of("sport"), selector_of("dport")), 0xFFFF
_SIGNED = struct.Struct("=i")

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
# What Linux does for all other numbers, such as that of `ip rule add throw`.
_UNKNOWN: RuleAction = "blackhole"


class Settings(NamedTuple):
    """What is set for a device, or for all of them, about routing."""

    wary: bool = False  # routes are ignored while it has no carrier
    rp_filter: int = 0


@cache
def ask_list(kind: int, family: int, table: int = 0, protocol: int = 0) -> bytes:
    """The question for all of a kind (RTM_GET…); of routes those of a table and a protocol, 0 is any."""
    if kind == n.RTM_GETROUTE:
        body = RTMSG.pack(family, 0, 0, 0, 0, protocol, 0, 0, 0)
        said = [(n.RTA_TABLE, struct.pack("=I", table))] if table else []
    else:
        body = _blank(kind, family)
        said = [(_EXT_MASK, _SKIP_STATS)] if kind == n.RTM_GETLINK else []
    return message(kind, body, said, flags=n.NLM_F_DUMP)


def ask_device(name: bytes) -> bytes:
    """The question for one device, by its name."""
    return message(n.RTM_GETLINK, _blank(n.RTM_GETLINK, 0), [(_IFNAME, name + b"\0"), (_EXT_MASK, _SKIP_STATS)])


def _blank(kind: int, family: int) -> bytes:
    return bytes([family]).ljust(_SIZES[kind], b"\0")


def _number(raw: Mapping[int, bytes], kind: int, otherwise: int = 0) -> int:
    """A number of whatever width, or what it is where it is not said."""
    return int.from_bytes(raw[kind], byteorder) if kind in raw else otherwise


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
    family, action = FAMILY_OF[af], _ACTIONS.get(number, _UNKNOWN)

    def limit(kind: int) -> int | None:
        return None if kind not in raw or (value := _number(raw, kind)) == _UNSET else value

    return Rule(
        family=family,
        priority=_number(raw, _PRIORITY),
        action=action,
        table=(_number(raw, _TABLE) or table) if action == "to_table" else 0,
        target=_number(raw, _GOTO) if action == "goto" and _GOTO in raw else None,
        invert=bool(flags & _FIB_RULE_INVERT),
        suppress_prefixlength=limit(_SUPPRESS_PREFIXLEN),
        suppress_ifgroup=limit(_SUPPRESS_IFGROUP),
        protocol=_number(raw, _PROTOCOL),
        **decode_selectors(raw, {"family": family, "src": src_len, "dst": dst_len, "tos": tos}),
    )


def decode_selectors(raw: Mapping[int, bytes], header: Mapping[str, int]) -> dict[str, Any]:
    """The fields of a Rule that select; the header has its `family`, its `tos`, and the lengths of `src` and `dst`."""
    said = {
        name: value
        for selector in SELECTORS
        for name, value in zip(selector.fields, selector.decode(raw, header), strict=True)
    }
    return {**said, "others": tuple(_others(raw))}


def _others(raw: Mapping[int, bytes]) -> Iterator[tuple[str, str]]:
    if _TUN_ID in raw:
        yield "tun_id", str(int.from_bytes(raw[_TUN_ID], "big"))
    if _FLOWLABEL in raw:
        label, mask = (int.from_bytes(raw.get(kind, b""), "big") for kind in (_FLOWLABEL, _FLOWLABEL_MASK))
        yield "flowlabel", f"{label:#x}/{mask:#x}"
    for ports in _PORTS:
        if (mask := _number(raw, ports.mask, _ALL_PORT)) != _ALL_PORT:
            yield ports.word, f"{int.from_bytes(raw[ports.attribute][:2], byteorder):#x}/{mask:#x}"
    for kind in sorted(set(raw) - _KNOWN):
        yield f"attribute-{kind}", raw[kind].hex() or "set"
