"""What the kernel lists other than routes: devices, addresses, rules and a few settings.

Some selectors of a rule are fields of `Rule`. Any other is a text in the words of `ip rule` or, if
it is unknown here, its number and its bytes. So a rule with a selector is never read as a rule for
all packets.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from operator import attrgetter

from hostrouting.kernel.netlink.numbers import (
    AF_OF,
    FAMILY_OF,
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_GETNETCONF,
    RTM_GETRULE,
    ip_of,
    number_in,
    number_of,
    prefix_of,
    text_of,
)
from hostrouting.kernel.netlink.socket import (
    HEADER,
    KernelError,
    Netlink,
    attribute,
    attributes_of,
    number_attribute,
)
from hostrouting.model.prefix import IPV6, Prefix
from hostrouting.model.route import REFUSING, ROUTE_TYPES
from hostrouting.model.rule import IP_PROTOCOLS, Rule, RuleAction
from hostrouting.model.snapshot import Address, Link


def parts_of(message: bytes, fixed: struct.Struct) -> tuple[tuple[int, ...], dict[int, bytes]]:
    """Split a message into the fields of its fixed part, whose layout is `fixed`, and its
    attributes by number.
    """
    fields = fixed.unpack_from(message, HEADER.size)
    return fields, attributes_of(message, HEADER.size + fixed.size)


# Devices.

LINK = struct.Struct("=2xHiI4x")  # struct ifinfomsg: type, number, flags
_IFF_UP = 0x1

IFNAME = 3
_IFLA_MASTER = 10
_IFLA_LINKINFO = 18
_IFLA_EXT_MASK = 29

_SKIP_STATISTICS = 8  # RTEXT_FILTER_SKIP_STATS: statistics are half of a device's message
_WITHOUT_STATISTICS = number_attribute(_IFLA_EXT_MASK, _SKIP_STATISTICS)
_IFLA_INFO_KIND = 1


def list_links(netlink: Netlink) -> tuple[Link, ...]:
    """The devices, sorted by number."""
    body = bytes(LINK.size) + _WITHOUT_STATISTICS
    listed = [parts_of(message, LINK) for message in netlink.dump(RTM_GETLINK, body)]
    # All names first, because the master of a device may be listed after it.
    names: dict[int, str] = {}
    for (_, index, _), attributes in listed:
        names[index] = text_of(attributes[IFNAME])
    links = [_link(fields, attributes, names) for fields, attributes in listed]
    return tuple(sorted(links, key=attrgetter("index")))


def _link(
    fields: tuple[int, ...], attributes: Mapping[int, bytes], names: Mapping[int, str]
) -> Link:
    """Make the Link of a device from the fixed fields and the attributes of its message
    (`parts_of`). `names` has the names of all devices by number.
    """
    type_, index, flags = fields
    return Link(
        name=names[index],
        index=index,
        kind=kind_of(attributes),
        type=type_,
        up=bool(flags & _IFF_UP),
        master=names.get(number_in(attributes, _IFLA_MASTER) or 0),  # 0 is the number of no device
    )


def kind_of(attributes: Mapping[int, bytes]) -> str:
    """The kind of a device with these attributes, such as "vxlan"; empty for hardware."""
    info = attributes_of(attributes.get(_IFLA_LINKINFO, b""))
    return text_of(info.get(_IFLA_INFO_KIND, b""))


class Names(dict[int, str]):
    """The names of devices by number; an unknown device is "if" and its number, as in `ip`."""

    def __missing__(self, index: int) -> str:
        return f"if{index}"


class AskedNames(Names):
    """Names that Linux is asked for, each when it is looked up for the first time. On a host with
    200 devices, a lookup takes 0.1 ms by that, instead of 2.8 ms with a list of all devices. When
    Linux is asked, no answer to another request may be outstanding: it would be taken for this one.
    """

    def __init__(self, netlink: Netlink) -> None:
        super().__init__()
        self._netlink = netlink

    def __missing__(self, index: int) -> str:
        """Ask Linux for the name of the device with this number, and keep it."""
        request = LINK.pack(0, index, 0) + _WITHOUT_STATISTICS
        [answer] = self._netlink.ask(RTM_GETLINK, [request])
        if not isinstance(answer, bytes):  # the device is gone: call it "if" and its number
            return super().__missing__(index)
        _, attributes = parts_of(answer, LINK)
        self[index] = text_of(attributes[IFNAME])
        return self[index]


# Settings.

_NETCONF = struct.Struct("=B3x")  # struct netconfmsg: family
_NETCONFA_IFINDEX = 1
_NETCONFA_FORWARDING = 2
_OF_ALL_DEVICES = struct.pack("=i", -1)  # NETCONFA_IFINDEX_ALL
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EAFNOSUPPORT}
"""The errors of a kernel that was built, or booted, without what it is asked for."""


def forwards_ipv6(netlink: Netlink) -> bool | None:
    """Whether Linux forwards IPv6 packets; None if it does not have IPv6, as after a boot with
    ipv6.disable=1.
    """
    body = _NETCONF.pack(AF_OF[IPV6]) + attribute(_NETCONFA_IFINDEX, _OF_ALL_DEVICES)
    [answer] = netlink.ask(RTM_GETNETCONF, [body])
    if isinstance(answer, bytes):
        _, settings = parts_of(answer, _NETCONF)
        return bool(number_in(settings, _NETCONFA_FORWARDING))
    if answer.number not in _UNSUPPORTED:
        raise answer
    return None


# Addresses.

_ADDRESS = struct.Struct("=BBxBI")  # struct ifaddrmsg: family, length, scope, number of the device
_IFA_ADDRESS = 1
_IFA_LOCAL = 2


def list_addresses(netlink: Netlink, family: int, names: Mapping[int, str]) -> tuple[Address, ...]:
    """The addresses of one family, sorted by the numbers of their devices."""
    body = struct.pack("=B7x", AF_OF[family])  # struct ifaddrmsg, of which only the family counts
    listed = [parts_of(message, _ADDRESS) for message in netlink.dump(RTM_GETADDR, body)]
    listed.sort(key=lambda parts: parts[0][3])  # the last of the fixed fields is the device
    return tuple(_address(fields, attributes, names) for fields, attributes in listed)


def _address(
    fields: tuple[int, ...], attributes: Mapping[int, bytes], names: Mapping[int, str]
) -> Address:
    """Make the Address from the fixed fields and the attributes of its message (`parts_of`).
    `names` has the names of devices by number.
    """
    _, length, scope, index = fields
    # IFA_LOCAL is the host's address, and IFA_ADDRESS the peer's. Without a peer, the host's
    # address is in both in IPv4, and only in IFA_ADDRESS in IPv6.
    peer = attributes.get(_IFA_ADDRESS)
    local = attributes.get(_IFA_LOCAL) or attributes[_IFA_ADDRESS]
    return Address(
        ip=ip_address(local),
        length=length,
        dev=names[index],
        scope=scope,
        peer=None if peer == local else ip_of(peer),
    )


# Rules.

_RULE = struct.Struct("=4B3xBI")
"""struct fib_rule_hdr: family, lengths of dst and src, tos, action, flags. The table, which is
left out, has only 8 bits there; Linux always lists it in an attribute, too.
"""

_FIB_RULE_INVERT = 0x2
_ACTIONS: dict[int, RuleAction] = {
    1: "to_table",
    2: "goto",
    3: "nop",
    **{ROUTE_TYPES.index(kind): kind for kind in REFUSING},
}
_OTHER_ACTION: RuleAction = "blackhole"  # what Linux does for any other number

_FRA_DST = 1
_FRA_SRC = 2
_FRA_IIFNAME = 3
_FRA_GOTO = 4
_FRA_PRIORITY = 6
_FRA_FWMARK = 10
_FRA_FLOW = 11
_FRA_SUPPRESS_IFGROUP = 13
_FRA_SUPPRESS_PREFIXLEN = 14
_FRA_TABLE = 15
_FRA_FWMASK = 16
_FRA_OIFNAME = 17
_FRA_PAD = 18
_FRA_L3MDEV = 19
_FRA_UID_RANGE = 20
_FRA_PROTOCOL = 21
_FRA_IP_PROTO = 22
_FRA_SPORT_RANGE = 23
_FRA_DPORT_RANGE = 24
_FRA_DSCP = 25
_FRA_SPORT_MASK = 28
_FRA_DPORT_MASK = 29
_FRA_DSCP_MASK = 30

_READ_AS_FIELDS = {
    _FRA_DST,
    _FRA_SRC,
    _FRA_IIFNAME,
    _FRA_GOTO,
    _FRA_PRIORITY,
    _FRA_FWMARK,
    _FRA_SUPPRESS_IFGROUP,
    _FRA_SUPPRESS_PREFIXLEN,
    _FRA_TABLE,
    _FRA_FWMASK,
    _FRA_L3MDEV,
}
_SELECT_NOTHING = {_FRA_PROTOCOL, _FRA_FLOW, _FRA_PAD}
_FULL_MASKS = {
    _FRA_SPORT_MASK: b"\xff\xff",
    _FRA_DPORT_MASK: b"\xff\xff",
    _FRA_DSCP_MASK: b"\x3f",
}
"""By mask: its value if it covers every bit, so that the rule selects as without a mask."""
_SUPPRESSES_NONE = 0xFFFFFFFF  # -1


def list_rules(netlink: Netlink, family: int) -> tuple[Rule, ...]:
    """The rules of one family, in the kernel's order; none if the kernel was built without them."""
    body = struct.pack("=B11x", AF_OF[family])  # fib_rule_hdr, of which only the family counts
    try:
        return tuple(map(_rule, netlink.dump(RTM_GETRULE, body)))
    except KernelError as error:
        if error.number not in _UNSUPPORTED:
            raise
    return ()


def _rule(message: bytes) -> Rule:
    """The rule in a message. Linux leaves out most attributes whose value is 0, so an absent one is
    read as 0.
    """
    fields, attributes = parts_of(message, _RULE)
    af, dst_len, src_len, tos, action_number, flags = fields
    family = FAMILY_OF[af]
    action = _ACTIONS.get(action_number, _OTHER_ACTION)

    table = 0
    if action == "to_table":  # a refusing rule can have a table, too, which Linux does not use
        table = number_of(attributes[_FRA_TABLE])
    iif = None
    if _FRA_IIFNAME in attributes:
        iif = text_of(attributes[_FRA_IIFNAME])

    return Rule(
        family=family,
        priority=number_in(attributes, _FRA_PRIORITY) or 0,
        action=action,
        table=table,
        target=number_in(attributes, _FRA_GOTO),  # Linux accepts a target only in a goto
        invert=bool(flags & _FIB_RULE_INVERT),
        src=_selected_prefix(family, attributes.get(_FRA_SRC), src_len),
        dst=_selected_prefix(family, attributes.get(_FRA_DST), dst_len),
        iif=iif,
        fwmark=number_in(attributes, _FRA_FWMARK) or 0,
        fwmask=number_in(attributes, _FRA_FWMASK) or 0,
        others=_other_selectors(tos, attributes),
        l3mdev=bool(number_in(attributes, _FRA_L3MDEV)),
        suppress_prefixlength=_suppressed(attributes, _FRA_SUPPRESS_PREFIXLEN),
        suppress_ifgroup=_suppressed(attributes, _FRA_SUPPRESS_IFGROUP),
    )


def _selected_prefix(family: int, packed: bytes | None, length: int) -> Prefix | None:
    """The prefix by which a rule selects sources or destinations; None if it selects all."""
    if not length:
        return None
    return prefix_of(family, packed, length)


def _suppressed(attributes: Mapping[int, bytes], number: int) -> int | None:
    """The value of an attribute by which a rule suppresses routes, that is, finds but ignores them:
    their greatest prefix length, or the group of their devices. None if the rule suppresses none.
    """
    suppressed = number_in(attributes, number)
    return None if suppressed == _SUPPRESSES_NONE else suppressed


def _other_selectors(tos: int, attributes: Mapping[int, bytes]) -> tuple[tuple[str, str], ...]:
    """The selectors of a rule for which `Rule` has no field, each as the word of `ip rule` and the
    value. An unknown attribute may be a selector, too, so it is listed by its number and its bytes:
    otherwise the rule would seem to select all packets.
    """
    selectors: list[tuple[str, str]] = []
    if tos:
        selectors.append(("tos", f"{tos:#x}"))
    for number, (word, to_text) in _SELECTORS.items():
        if number in attributes:
            selectors.append((word, to_text(attributes[number])))
    unknown = attributes.keys() - _READ_AS_FIELDS - _SELECTORS.keys() - _SELECT_NOTHING
    for number in sorted(unknown):
        value = attributes[number]
        # A full mask (ffff for a port) changes nothing: the port itself is already listed.
        if value != _FULL_MASKS.get(number):
            selectors.append((f"attribute-{number}", value.hex()))
    return tuple(selectors)


def _dscp(value: bytes) -> str:
    return f"{number_of(value):#x}"


def _protocol(value: bytes) -> str:
    number = number_of(value)
    return IP_PROTOCOLS.get(number, str(number))


def _range(value: bytes) -> str:
    half = len(value) // 2
    return f"{number_of(value[:half])}-{number_of(value[half:])}"


def _ports(value: bytes) -> str:
    """A range of ports as `ip rule` writes it: "first-last", or one port if both are the same."""
    first, _, last = _range(value).partition("-")
    return first if first == last else f"{first}-{last}"


_SELECTORS: dict[int, tuple[str, Callable[[bytes], str]]] = {
    _FRA_DSCP: ("dscp", _dscp),
    _FRA_OIFNAME: ("oif", text_of),
    _FRA_UID_RANGE: ("uidrange", _range),
    _FRA_IP_PROTO: ("ipproto", _protocol),
    _FRA_SPORT_RANGE: ("sport", _ports),
    _FRA_DPORT_RANGE: ("dport", _ports),
}
"""For each selector that is not a field of `Rule`: its word, and how `ip rule` writes its value."""
