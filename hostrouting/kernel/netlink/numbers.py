"""What several modules need: numbers of the kernel's interface, and what an attribute's bytes mean.

A number that only one module needs is in that module. Numbers have the names of Linux's headers.
"""

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from sys import byteorder

from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix

AF_OF = {IPV4: 2, IPV6: 10}
FAMILY_OF = {number: family for family, number in AF_OF.items()}

RTM_GETLINK = 18
RTM_GETADDR = 22
RTM_NEWROUTE = 24
RTM_DELROUTE = 25
RTM_GETROUTE = 26
RTM_GETRULE = 34
RTM_GETNETCONF = 82

_GROUPS = (
    1,  # RTNLGRP_LINK
    32,  # RTNLGRP_NEXTHOP
    *(5, 7, 8, 24),  # RTNLGRP_IPV4_IFADDR, …_ROUTE, …_RULE, …_NETCONF
    *(9, 11, 19, 25),  # RTNLGRP_IPV6_IFADDR, …_ROUTE, …_RULE, …_NETCONF
)
GROUPS_OF_CHANGES = sum(1 << group - 1 for group in _GROUPS)
"""The mask of the groups that report changes of links, addresses, routes, rules and settings."""


def number_in(attributes: Mapping[int, bytes], attribute: int) -> int | None:
    """The number in an attribute, of any width; None if the attribute is absent."""
    if attribute not in attributes:
        return None
    return number_of(attributes[attribute])


def number_of(value: bytes) -> int:
    """The number in these bytes."""
    return int.from_bytes(value, byteorder)


def text_of(packed: bytes) -> str:
    """The text in these bytes, such as the name of a device, up to a zero byte. Linux allows bytes
    in a name that are not UTF-8: these are escaped with a backslash.
    """
    return packed.partition(b"\0")[0].decode(errors="backslashreplace")


@lru_cache(maxsize=256)  # many routes have the same gateway, or the same source
def ip_of(packed: bytes | None) -> IP | None:
    """The address in these bytes; None if there are none."""
    if not packed:
        return None
    if len(packed) == 4:
        return IPv4Address(packed)
    return IPv6Address(packed)


def prefix_of(family: int, packed: bytes | None, length: int) -> Prefix:
    """The prefix of this length in these bytes; without bytes, that of a default route."""
    return Prefix.around(family, int.from_bytes(packed or b"", "big"), length)
