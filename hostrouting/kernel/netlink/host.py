"""What the kernel lists other than routes: devices, addresses, rules and a few settings.

A device's message also contains its settings: in IFLA_AF_SPEC, by family, as an array of numbers.

Four selectors of a rule have types. Any other is text in the words of `ip rule`; a selector that is unknown here is its
number and its bytes. So a rule with a selector is never read as a rule for all packets.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address
from sys import byteorder

from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.socket import HEADER, NUMBER, NetlinkSocket, attribute, attributes_of
from hostrouting.model.prefix import IPV6
from hostrouting.model.rule import Rule, RuleAction
from hostrouting.model.snapshot import Address, Link

_UNSET = 0xFFFFFFFF


def parts_of(
    message: bytes, fixed: struct.Struct, wanted: Collection[int] | None = None
) -> tuple[tuple[int, ...], dict[int, bytes]]:
    """The fields of the fixed part of a message, and its attributes: all or the wanted ones."""
    return fixed.unpack_from(message, HEADER.size), attributes_of(message, HEADER.size + fixed.size, wanted)


def text_of(packed: bytes) -> str:
    """A name; bytes that are not text are escaped, so that they match no device."""
    return packed.partition(b"\0")[0].decode(errors="backslashreplace")


# Devices.

LINK = struct.Struct("=2xHiI4x")  # struct ifinfomsg: type, number, flags
IFNAME, _MASTER, _LINKINFO, _AF_SPEC, _EXT_MASK, _XDP = 3, 10, 18, 26, 29, 43
_WANTED = {IFNAME, _MASTER, _LINKINFO, _AF_SPEC, _XDP}
_XDP_ATTACHED = 2
SKIP_STATISTICS = 8  # RTEXT_FILTER_SKIP_STATS: statistics are half of a device's message
_INFO_KIND, _UP = 1, 0x1
_INET6_CONF, _DISABLE_IPV6 = 2, 26  # an array inside the attributes of AF_INET6, and a place in it


def list_links(netlink: NetlinkSocket) -> tuple[Link, ...]:
    """The devices, sorted by number."""
    body = bytes(LINK.size) + attribute(_EXT_MASK, NUMBER.pack(SKIP_STATISTICS))
    return decode_links(netlink.dump(n.RTM_GETLINK, body))


def decode_links(messages: Iterable[bytes]) -> tuple[Link, ...]:
    """The devices in these messages, sorted by number."""
    links = sorted((parts_of(message, LINK, _WANTED) for message in messages), key=lambda parts: parts[0][1])
    names = {index: text_of(attributes.get(IFNAME, b"")) for (_, index, _), attributes in links}
    return tuple(_link(hardware, index, flags, attributes, names) for (hardware, index, flags), attributes in links)


def _link(hardware: int, index: int, flags: int, attributes: Mapping[int, bytes], names: Mapping[int, str]) -> Link:
    families = attributes_of(attributes.get(_AF_SPEC, b""))
    ipv6 = attributes_of(families.get(n.AF_OF[IPV6], b"")).get(_INET6_CONF, b"")
    return Link(
        name=names[index],
        index=index,
        kind=kind_of(attributes),
        type=hardware,
        up=bool(flags & _UP),
        master=names.get(n.number_in(attributes, _MASTER) or 0),
        xdp=any(attributes_of(attributes.get(_XDP, b"")).get(_XDP_ATTACHED, b"")),
        ipv6_disabled=not ipv6 or any(ipv6[_DISABLE_IPV6 * 4 : _DISABLE_IPV6 * 4 + 4]),
    )


def kind_of(link: Mapping[int, bytes]) -> str:
    """The kind of a device with these attributes; empty for hardware."""
    return text_of(attributes_of(link.get(_LINKINFO, b"")).get(_INFO_KIND, b""))


def forwards_ipv6() -> bool | None:
    """Whether the namespace of this thread forwards IPv6 packets; None if there is no such setting."""
    try:
        with open("/proc/sys/net/ipv6/conf/all/forwarding", "rb") as file:
            return file.read().strip() != b"0"
    except OSError:
        return None


# Addresses.

_ADDRESS = struct.Struct("=BBxBI")  # struct ifaddrmsg: family, length, scope, number of the device
_IFA_ADDRESS, _IFA_LOCAL = 1, 2


def list_addresses(netlink: NetlinkSocket, family: int, names: Mapping[int, str]) -> tuple[Address, ...]:
    """The addresses of one family, sorted by the numbers of their devices."""
    body = struct.pack("=B7x", n.AF_OF[family])
    return decode_addresses(netlink.dump(n.RTM_GETADDR, body), names)


def decode_addresses(messages: Iterable[bytes], names: Mapping[int, str]) -> tuple[Address, ...]:
    """The addresses in these messages, sorted by the numbers of their devices."""
    ordered = sorted(messages, key=lambda message: NUMBER.unpack_from(message, HEADER.size + 4))
    return tuple(_address(message, names) for message in ordered)


def _address(message: bytes, names: Mapping[int, str]) -> Address:
    (_, length, scope, index), attributes = parts_of(message, _ADDRESS)
    # If both are given, LOCAL is the host's address and ADDRESS the peer's; in IPv4, both may be the host's.
    other = attributes.get(_IFA_ADDRESS)
    local = attributes.get(_IFA_LOCAL) or attributes[_IFA_ADDRESS]
    peer = None if other == local else n.ip_of(other)
    return Address(ip=ip_address(local), length=length, dev=names[index], scope=scope, peer=peer)


# Rules.

_RULE = struct.Struct("=5B2xBI")  # struct fib_rule_hdr: family, lengths of dst and src, tos, table, action, flags
_FRA_DST, _FRA_SRC, _FRA_IIF, _FRA_GOTO, _FRA_PRIORITY, _FRA_MARK = 1, 2, 3, 4, 6, 10
_FRA_IFGROUP, _FRA_PREFIXLEN, _FRA_TABLE, _FRA_MASK, _FRA_L3MDEV, _FRA_PROTOCOL = 13, 14, 15, 16, 19, 21
_FLOW, _PAD = 11, 18  # realms and padding select nothing
_TYPED = {_FRA_DST, _FRA_SRC, _FRA_IIF, _FRA_GOTO, _FRA_PRIORITY, _FRA_MARK, _FRA_IFGROUP, _FRA_PREFIXLEN}
_TYPED |= {_FRA_TABLE, _FRA_MASK, _FRA_L3MDEV, _FRA_PROTOCOL, _FLOW, _PAD}
_INVERT = 0x2
_ACTIONS: dict[int, RuleAction] = {1: "to_table", 2: "goto", 3: "nop", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
_UNKNOWN: RuleAction = "blackhole"  # what Linux does for any other number
_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "ipv6-icmp"}
_WORDS = {25: "dscp", 17: "oif", 20: "uidrange", 22: "ipproto", 23: "sport", 24: "dport"}
_NAMED = _TYPED | _WORDS.keys()
_NO_MASKS = {(28, b"\xff\xff"), (29, b"\xff\xff"), (30, b"\x3f")}  # full masks of ports and dscp


def list_rules(netlink: NetlinkSocket, family: int) -> tuple[Rule, ...]:
    """The rules of one family, in the kernel's order."""
    body = struct.pack("=B11x", n.AF_OF[family])
    return tuple(decode_rule(message) for message in netlink.dump(n.RTM_GETRULE, body))


def decode_rule(message: bytes) -> Rule:
    """The rule of one message."""
    (af, dst_len, src_len, tos, table, number, flags), attributes = parts_of(message, _RULE)
    family, action = n.FAMILY_OF[af], _ACTIONS.get(number, _UNKNOWN)
    limits = [n.number_in(attributes, kind) for kind in (_FRA_PREFIXLEN, _FRA_IFGROUP)]
    prefixlen, ifgroup = (None if limit == _UNSET else limit for limit in limits)
    mask = n.number_in(attributes, _FRA_MASK) or 0
    return Rule(
        family=family,
        priority=n.number_in(attributes, _FRA_PRIORITY) or 0,
        action=action,
        table=(n.number_in(attributes, _FRA_TABLE) or table) if action == "to_table" else 0,
        target=n.number_in(attributes, _FRA_GOTO) if action == "goto" else None,
        invert=bool(flags & _INVERT),
        src=n.prefix_of(family, attributes.get(_FRA_SRC), src_len) if src_len else None,
        dst=n.prefix_of(family, attributes.get(_FRA_DST), dst_len) if dst_len else None,
        iif=text_of(attributes[_FRA_IIF]) if _FRA_IIF in attributes else None,
        fwmark=n.number_in(attributes, _FRA_MARK) or 0,
        fwmask=mask,
        others=(*([("tos", f"{tos:#x}")] if tos else []), *_others(attributes)),
        l3mdev=bool(n.number_in(attributes, _FRA_L3MDEV)),
        suppress_prefixlength=prefixlen,
        suppress_ifgroup=ifgroup,
    )


def _others(attributes: Mapping[int, bytes]) -> Iterator[tuple[str, str]]:
    for number, word in _WORDS.items():
        if number in attributes:
            yield word, _value(word, attributes[number])
    for number, value in sorted(attributes.items()):
        if number not in _NAMED and (number, value) not in _NO_MASKS:
            yield f"attribute-{number}", value.hex() or "set"


def _value(word: str, value: bytes) -> str:
    first, last = (int.from_bytes(half, byteorder) for half in (value[: len(value) // 2], value[len(value) // 2 :]))
    number = int.from_bytes(value, byteorder)
    if word == "oif":
        return text_of(value)
    if word == "dscp":
        return f"{number:#x}"
    if word == "ipproto":
        return _PROTOCOLS.get(number) or str(number)
    return str(first) if first == last and word != "uidrange" else f"{first}-{last}"
