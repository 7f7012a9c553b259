"""Network devices and the addresses on them.

Here: what the host reports about its devices. Not here: which of them are expected devices.
"""

import attrs

from hostrouting.model.prefix import IP, Prefix

ARPHRD_INFINIBAND = 32
RP_FILTER_STRICT = 1  # a packet is dropped if the route back to its source leaves by another device


@attrs.frozen(kw_only=True)
class Link:
    """A network device, identified by its name; its index changes when the device is created again."""

    name: str
    index: int
    # Its kind as in `ip -details link` ("veth", "bridge", "vrf", …); empty for hardware.
    kind: str = ""
    # The ARPHRD number: the type of its link-layer addresses (1 Ethernet, 32 InfiniBand, 772 loopback).
    type: int = 1
    up: bool = True
    carrier: bool = True
    master: str | None = None
    group: int = 0
    # The namespace (by its number here) of the other end of a veth; None if that is in this namespace.
    peer_namespace: int | None = None
    # The effective setting for IPv4, whether it was set on the device or on "all"; and that for IPv6.
    ignore_routes_with_linkdown: bool = False
    ipv6_ignore_routes_with_linkdown: bool = False
    # Whether it has no IPv6: the setting disable_ipv6 is on, or its MTU is less than IPv6 needs. Linux refuses every
    # IPv6 route by it. Its routes and addresses do not show this: a device that never had a carrier may have none.
    # A snapshot from `ip` does not show it either.
    ipv6_disabled: bool = False
    # What Linux does with IPv4 packets that arrive on this device (`hostrouting.fib.arrival`). All but `forwarding` are
    # effective: set on the device or on "all". A snapshot without `forwarding` does not say whether it forwards them.
    # Reverse path filter: 0 accepts all, 1 drops those whose source is routed by another device, 2 those whose source
    # has no route; on a device without an IPv4 address, 2 does what 1 does.
    rp_filter: int = 0
    forwarding: bool | None = None
    # Whether it accepts packets that come from an address of this host, and those from or to 127.0.0.0/8.
    accept_local: bool = False
    route_localnet: bool = False
    # Whether the reverse path filter looks up the route back with the mark of the packet; without this, the mark is 0.
    src_valid_mark: bool = False
    # Whether it forwards IPv6 packets although net.ipv6.conf.all.forwarding is 0; exists since Linux 6.17.
    ipv6_force_forwarding: bool = False

    @property
    def infiniband(self) -> bool:
        """Whether the device is an InfiniBand device, whatever its name."""
        return self.type == ARPHRD_INFINIBAND


@attrs.frozen(kw_only=True)
class Address:
    """An address of this host, on one of its devices."""

    ip: IP
    length: int
    dev: str
    scope: int = 0
    peer: IP | None = None
    broadcast: IP | None = None
    # The metric of the route to its network that the kernel adds for it; 0 if none was set.
    metric: int = 0
    # Whether the kernel adds that route: it does not with `noprefixroute`.
    prefix_route: bool = True

    @property
    def network(self) -> Prefix:
        """The network of the address: its peer's network if it has a peer."""
        far = self.peer or self.ip
        return Prefix.around(far.version, int(far), self.length)
