"""What several modules need: numbers of the kernel's interface, and what the bytes of an attribute mean.

A number that only one module needs is in that module.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from sys import byteorder

from hostrouting.model.prefix import IP, Prefix

AF_OF = {4: 2, 6: 10}
FAMILY_OF = {number: family for family, number in AF_OF.items()}

RTM_GETLINK, RTM_GETADDR, RTM_GETRULE = 18, 22, 34
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26

_OF_BOTH = (1, 32)  # RTNLGRP_LINK, …_NEXTHOP
_OF = {4: (5, 7, 8, 24), 6: (9, 11, 19, 25)}  # …_IFADDR, …_ROUTE, …_RULE, …_NETCONF


def groups_of(family: int | None = None) -> int:
    """The mask of the groups that report changes of links, addresses, routes and rules; None for both families."""
    numbers = [*_OF_BOTH, *(number for each, some in _OF.items() if family in {None, each} for number in some)]
    return sum(1 << number - 1 for number in numbers)


def number_in(attributes: Mapping[int, bytes], kind: int) -> int | None:
    """The number in an attribute, of any width; None if the attribute is absent."""
    return int.from_bytes(attributes[kind], byteorder) if kind in attributes else None


def ip_of(packed: bytes | None) -> IP | None:
    """The address in these bytes; None if there are none."""
    if not packed:
        return None
    return IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)


def prefix_of(family: int, packed: bytes | None, length: int) -> Prefix:
    """The prefix in these bytes; a default route has none."""
    return Prefix.around(family, int.from_bytes(packed or b"", "big"), length)
