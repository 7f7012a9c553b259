"""The edges by which hostrouting reads and changes the networking of a kernel. No decisions are made here.

An edge has a contract, which is a Protocol, and an implementation for Linux. The fake ones are in
`hostrouting.testing`; the same tests run on both.

base        the contract of the routing edge, and its values
awaiting    an attempt that is repeated at each change
refusals    what cannot be requested, and what a refusal means
netlink     the routing edge on Linux
pyroute2    the same by a pyroute2 handle that the caller has: of another namespace, or a remote host
nftables    the packet filter
ebtables    rules for Ethernet frames
neighbours  MAC addresses and neighbours
programs    running a program of the host, and the rights of this process
"""

from hostrouting.kernel.base import KIND_OF_ERRNO, Answer, Outcome, RouteBackend, RouteRequest, Verb, Watch, part_of

__all__ = ["Answer", "KIND_OF_ERRNO", "RouteRequest", "Outcome", "RouteBackend", "Verb", "Watch", "part_of"]
