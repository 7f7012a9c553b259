"""The kernel's lists: the request for each list, and devices, addresses, settings and rules as values.

Listed routes are read by `route_message`, next hop objects by `nexthops`. A rule is read with the entries of
`SELECTORS`, which decode the values that it selects on. A selector that is new in Linux or unknown here goes into
`others`, in the notation of `ip rule`, so that the rule is never read as one for all packets. A property test compares
requests and results with pyroute2's.
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
from hostrouting.model import IPV6, SELECTORS, Address, Link, Rule, selector_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hostrouting.model import IP, RuleAction

__all__ = [
    "EVERY",
    "NEW",
    "Settings",
    "as_text",
    "ask_device",
    "ask_list",
    "decode_selectors",
    "default_link",
    "in_force",
    "read_addresses",
    "read_device",
    "read_links",
    "read_rules",
    "read_settings",
]

# The fixed part of an answer after its header; attributes follow it.
_LINK = struct.Struct("=16xBxHiI4x")  # struct ifinfomsg: family, type, number, flags
_ADDRESS = struct.Struct("=16xBBxBI")  # struct ifaddrmsg: family, length, scope, number of the device
_RULE = struct.Struct("=16x5B2xBI")  # struct fib_rule_hdr: family, lengths, tos, table, action, flags
_NETCONF_SIZE, _FAMILY_AT = 20, 16
# The fixed part of a request is a family and zeros, with this many bytes in total.
_SIZES = {n.RTM_GETLINK: 16, n.RTM_GETADDR: 8, n.RTM_GETRULE: 12, n.RTM_GETNETCONF: 4, n.RTM_GETNEXTHOP: 8}
# Attribute numbers: IFLA_…, IFA_…, NETCONFA_… and FRA_…
_IFNAME, _MASTER, _LINKINFO, _GROUP, _CARRIER, _LINK_NETNSID, _INFO_KIND = 3, 10, 18, 27, 33, 37, 1
# RTEXT_FILTER_SKIP_STATS: leaves out packet counters, which are half of a device's data.
_EXT_MASK, _SKIP_STATS = 29, struct.pack("=I", 8)
# In IFLA_AF_SPEC, the settings of each family as an array of numbers: in AF_INET IFLA_INET_CONF, with the places
# IPV4_DEVCONF_… minus 1; in AF_INET6 IFLA_INET6_CONF, with the places DEVCONF_….
_AF_SPEC, _AF_INET, _INET_CONF, _AF_INET6, _INET6_CONF = 26, 2, 1, 10, 2
_ACCEPT_LOCAL, _SRC_VALID_MARK, _ROUTE_LOCALNET = 22, 23, 25
_DISABLE_IPV6, _FORCE_FORWARDING = 26, 59
# The attributes of a device that are used; the kernel sends forty.
_OF_LINK = frozenset({_IFNAME, _MASTER, _LINKINFO, _AF_SPEC, _GROUP, _CARRIER, _LINK_NETNSID})
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST, _IFA_FLAGS, _IFA_RT_PRIORITY = 1, 2, 4, 8, 9
_NETCONF_IFINDEX, _NETCONF_FORWARDING, _NETCONF_RP_FILTER, _NETCONF_WARY = 1, 2, 3, 6
# Attributes of a rule that select nothing: its action and protocol, then FLOW (realms) and PAD, which do not matter.
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

EVERY, NEW = -1, -2
"""The numbers of "all" and of "default", the settings of a new device: NETCONFA_IFINDEX_ALL and _DEFAULT."""

_IFF_UP = 0x1
_IFA_F_NOPREFIXROUTE = 0x200
_FIB_RULE_INVERT = 0x2
_FIB_RULE_FIND_SADDR = 0x10000
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
    """The routing settings of a device, or of "all"."""

    wary: bool = False  # ignore_routes_with_linkdown
    rp_filter: int = 0  # IPv4 only
    forwarding: bool | None = None
    # IPv4 only. The kernel's list of settings lacks these: those of a device are in its list of devices, those of "all"
    # only in files.
    accept_local: bool = False
    route_localnet: bool = False
    src_valid_mark: bool = False


@cache
def ask_list(kind: int, family: int, table: int = 0, protocol: int = 0) -> bytes:
    """The request for all entries of a kind (RTM_GET…); for routes, those of a table and a protocol (0: any)."""
    if kind == n.RTM_GETROUTE:
        body = RTMSG.pack(family, 0, 0, 0, 0, protocol, 0, 0, 0)
        said = [(n.RTA_TABLE, struct.pack("=I", table))] if table else []
    else:
        body = _blank(kind, family)
        said = [(_EXT_MASK, _SKIP_STATS)] if kind == n.RTM_GETLINK else []
    return message(kind, body, said, flags=n.NLM_F_DUMP)


def ask_device(name: bytes) -> bytes:
    """The request for one device, by its name."""
    return message(n.RTM_GETLINK, _blank(n.RTM_GETLINK, 0), [(_IFNAME, name + b"\0"), (_EXT_MASK, _SKIP_STATS)])


def _blank(kind: int, family: int) -> bytes:
    return bytes([family]).ljust(_SIZES[kind], b"\0")


def _number(raw: Mapping[int, bytes], kind: int, otherwise: int = 0) -> int:
    """A number of any width, or the default if the attribute is missing."""
    return int.from_bytes(raw[kind], byteorder) if kind in raw else otherwise


def as_text(packed: bytes) -> str:
    """A name as text; undecodable bytes are escaped, so that the result is readable but matches no device."""
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


def read_links(
    messages: Iterable[bytes], settings: Mapping[int, Settings], ipv6_settings: Mapping[int, Settings]
) -> tuple[Link, ...]:
    """The devices, with the settings of each by its number, for IPv4 and for IPv6; EVERY is the number of "all"."""
    parsed = [(*_LINK.unpack_from(data), attributes_of(data, _LINK.size, _OF_LINK)) for data in messages]
    names = {index: _text(raw, _IFNAME) or "" for _, _, index, _, raw in parsed}
    unset = Settings()
    every = settings.get(EVERY, unset)
    return tuple(
        _link(one, names, settings.get(one[2], unset), every, ipv6_settings.get(one[2], unset)) for one in parsed
    )


def _link(
    parsed: tuple[int, int, int, int, Mapping[int, bytes]],
    names: Mapping[int, str],
    settings: Settings,
    every: Settings,
    ipv6_settings: Settings,
) -> Link:
    _, looks, index, flags, raw = parsed
    made_by = attributes_of(raw.get(_LINKINFO, b""), 0)
    of_families = attributes_of(raw.get(_AF_SPEC, b""), 0)
    ipv4 = attributes_of(of_families.get(_AF_INET, b""), 0).get(_INET_CONF, b"")
    ipv6 = attributes_of(of_families.get(_AF_INET6, b""), 0).get(_INET6_CONF, b"")
    own = settings._replace(
        accept_local=_is_on(ipv4, _ACCEPT_LOCAL),
        route_localnet=_is_on(ipv4, _ROUTE_LOCALNET),
        src_valid_mark=_is_on(ipv4, _SRC_VALID_MARK),
    )
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
        ipv6_ignore_routes_with_linkdown=ipv6_settings.wary,
        # Without settings for IPv6, the device does not have it.
        ipv6_disabled=not ipv6 or _is_on(ipv6, _DISABLE_IPV6),
        ipv6_force_forwarding=_is_on(ipv6, _FORCE_FORWARDING),
        **in_force(own, every),
    )


def _is_on(conf: bytes, place: int) -> bool:
    """Whether a setting in an array of settings is not 0; an older kernel has a shorter array."""
    return any(conf[place * 4 : place * 4 + 4])


def in_force(own: Settings, every: Settings) -> dict[str, Any]:
    """The fields of a Link for its settings for IPv4, which Linux combines with those of "all".

    In IPv6, Linux copies a setting of "all" to each device.
    """
    return {
        "ignore_routes_with_linkdown": own.wary or every.wary,
        "rp_filter": max(own.rp_filter, every.rp_filter),
        "forwarding": own.forwarding,
        "accept_local": own.accept_local or every.accept_local,
        "route_localnet": own.route_localnet or every.route_localnet,
        "src_valid_mark": own.src_valid_mark or every.src_valid_mark,
    }


def read_settings(messages: Iterable[bytes]) -> dict[int, Settings]:
    """The settings, by the number of the device."""
    parsed = (attributes_of(data, _NETCONF_SIZE) for data in messages)
    return {
        _SIGNED.unpack(raw[_NETCONF_IFINDEX])[0]: Settings(
            bool(_number(raw, _NETCONF_WARY)),
            _number(raw, _NETCONF_RP_FILTER),
            bool(_number(raw, _NETCONF_FORWARDING)) if _NETCONF_FORWARDING in raw else None,
        )
        for raw in parsed
        if _NETCONF_IFINDEX in raw
    }


def default_link(own: Settings | None, every: Settings) -> Link | None:
    """A device with the settings that a new one gets; None if they are not known."""
    return None if own is None else Link(name="default", index=0, **in_force(own, every))


def read_addresses(messages: Iterable[bytes], names: Mapping[int, str]) -> tuple[Address, ...]:
    """The addresses of this host, IPv4 and IPv6."""
    return tuple(_addresses(messages, names))


def _addresses(messages: Iterable[bytes], names: Mapping[int, str]) -> Iterator[Address]:
    for data in messages:
        af, length, scope, device = _ADDRESS.unpack_from(data)
        if af not in FAMILY_OF:
            continue
        raw = attributes_of(data, _ADDRESS.size)
        # If both are present, LOCAL is the host's address and ADDRESS the peer's (in IPv4 it may repeat the host's).
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
    """The rules, except those that are neither IPv4 nor IPv6."""
    return tuple(_rule(data) for data in messages if data[_FAMILY_AT] in FAMILY_OF)


def _rule(data: bytes) -> Rule:
    af, dst_len, src_len, tos, table, number, flags = _RULE.unpack_from(data)
    raw = attributes_of(data, _RULE.size)
    family, action = FAMILY_OF[af], _ACTIONS.get(number, _UNKNOWN)

    def limit(kind: int) -> int | None:
        return None if kind not in raw or (value := _number(raw, kind)) == _UNSET else value

    said = decode_selectors(raw, {"family": family, "src": src_len, "dst": dst_len, "tos": tos})
    if flags & _FIB_RULE_FIND_SADDR and family == IPV6 and said["src"] is not None:
        # Of an IPv6 packet without a source, Linux compares the one that it will get by the route that the rule finds.
        said["others"] += (("source-of-route", str(said["src"])),)
        said["src"] = None

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
        **said,
    )


def decode_selectors(raw: Mapping[int, bytes], header: Mapping[str, int]) -> dict[str, Any]:
    """The selecting fields of a Rule; the header has its `family`, its `tos`, and the lengths of `src` and `dst`."""
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
