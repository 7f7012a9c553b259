"""Network devices and the addresses on them.

Here: what the host says about its devices. Not here: which of them anybody expects traffic to leave by.
"""

import attrs

from hostrouting.model.prefix import IP, Prefix

__all__ = ["ARPHRD_INFINIBAND", "Address", "Link"]


ARPHRD_INFINIBAND = 32


@attrs.frozen(kw_only=True)
class Link:
    """A network device, known by its name; its index is good only until the device is made anew."""

    name: str
    index: int
    # What made it ("veth", "bridge", "vrf", …); empty for hardware.
    kind: str = ""
    # The ARPHRD number: what its addresses look like (1 Ethernet, 32 InfiniBand, 772 loopback).
    type: int = 1
    up: bool = True
    carrier: bool = True
    master: str | None = None
    group: int = 0
    # The namespace (by its number here) in which the other end of a veth lives; None when it is in this one.
    peer_namespace: int | None = None
    # In force for the device, whether it was set on it or on "all".
    ignore_routes_with_linkdown: bool = False
    # What becomes of IPv4 packets that come in by another device than the way back to their source: 0 nothing, 1 they
    # are dropped, 2 only where there is no way back at all. In force, whether it was set on the device or on "all".
    rp_filter: int = 0

    @property
    def infiniband(self) -> bool:
        """Whether it leads into an InfiniBand fabric, whatever it is called."""
        return self.type == ARPHRD_INFINIBAND


@attrs.frozen(kw_only=True)
class Address:
    """An address of the host's own, on one of its devices."""

    ip: IP
    length: int
    dev: str
    scope: int = 0
    peer: IP | None = None
    broadcast: IP | None = None
    # The metric of the route that it brings to its network; 0 where nobody gave one.
    metric: int = 0
    # Whether it brings one at all: `noprefixroute` is what keeps it from that.
    prefix_route: bool = True

    @property
    def network(self) -> Prefix:
        """The network that it says to be on: its peer's, when it has one."""
        far = self.peer or self.ip
        return Prefix.around(far.version, int(far), self.length)
