"""Numbers of the kernel's interface that several modules need, under the kernel's own names.

A number that only one module needs is in that module.
"""

# The address families (AF_…) by IP version, and back.
AF_OF = {4: 2, 6: 10}
FAMILY_OF = {number: family for family, number in AF_OF.items()}

NETLINK_ROUTE, NETLINK_NETFILTER = 0, 12
SOL_NETLINK = 270
NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK = 10, 11, 12

NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP_INTR = 0x1, 0x4, 0x10
NLM_F_DUMP = 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x100, 0x200, 0x400, 0x800
# In an answer: the refused message is given by its header only; texts follow.
NLM_F_CAPPED, NLM_F_ACK_TLVS = 0x100, 0x200
NLMSGERR_ATTR_MSG = 1

RTM_GETLINK, RTM_GETADDR, RTM_GETRULE, RTM_GETNETCONF, RTM_GETNEXTHOP = 18, 22, 34, 82, 106
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTA_DST, RTA_OIF, RTA_TABLE, RTA_NH_ID = 1, 4, 15, 30
RTM_F_CLONED, RTM_F_LOOKUP_TABLE, RTM_F_FIB_MATCH = 0x200, 0x1000, 0x2000

# The groups (RTNLGRP_…) that announce changes, by family; those for devices and next hops concern both.
_BOTH = (1, 32)  # LINK, NEXTHOP
_BY_FAMILY = {4: (5, 7, 8, 24), 6: (9, 11, 19, 25)}  # IFADDR, ROUTE, RULE, NETCONF

NFTABLES = 1 << 7 - 1
"""The group NFNLGRP_NFTABLES of NETLINK_NETFILTER, which announces changes of nftables, as the mask for bind."""


def groups(family: int | None = None) -> int:
    """The groups to join, as the mask for bind; None for both families."""
    numbers = [*_BOTH, *(group for key, those in _BY_FAMILY.items() if family in {None, key} for group in those)]
    return sum(1 << (number - 1) for number in numbers)
