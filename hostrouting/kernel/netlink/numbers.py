"""Numbers of the kernel's interface that several modules need; a number that only one needs is there."""

AF_OF = {4: 2, 6: 10}
"""The address families (AF_…) by IP version."""
FAMILY_OF = {number: family for family, number in AF_OF.items()}

RTM_GETLINK, RTM_GETADDR, RTM_GETRULE, RTM_GETNETCONF = 18, 22, 34, 82
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26

_OF_BOTH = (1, 32)  # RTNLGRP_LINK, …_NEXTHOP
_OF = {4: (5, 7, 8, 24), 6: (9, 11, 19, 25)}  # …_IFADDR, …_ROUTE, …_RULE, …_NETCONF


def groups_of(family: int | None = None) -> int:
    """The mask of the groups that report changes of links, addresses, routes and rules; None for both families."""
    numbers = [*_OF_BOTH, *(number for each, some in _OF.items() if family in {None, each} for number in some)]
    return sum(1 << number - 1 for number in numbers)
