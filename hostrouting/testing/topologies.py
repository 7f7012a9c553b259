"""Ready-made hosts, each a fake kernel with the routes that such a host has after boot."""

from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import (
    PROTOCOL_BOOT,
    PROTOCOL_DHCP,
    PROTOCOL_RA,
    TABLE_MAIN,
    NextHop,
    Route,
)
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link
from hostrouting.testing.kernel import FakeKernel

_PROTOCOL_STATIC = 4
_ARPHRD_NONE = 65534


def plain_vm() -> FakeKernel:
    """One Ethernet device, 10.0.0.4/24, with a default route via 10.0.0.1, as from DHCP."""
    kernel = FakeKernel(ipv6_forwarding=True)
    kernel.set_up("lo")
    kernel.add_link(Link(name="eth0", index=2))
    kernel.add_address("eth0", "10.0.0.4/24")
    kernel.ip_route(
        "add",
        Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=PROTOCOL_DHCP, metric=100),
    )
    return kernel


def h200(*, dual_stack: bool = False) -> FakeKernel:
    """The host that this library was written for: a plain VM whose ib0 … ib7 are all connected to
    172.16.0.0/16.

    With `dual_stack`, they are also all connected to fd16::/48, and a router advertises an IPv6
    default route on eth0.
    """
    kernel = plain_vm()
    for number in range(8):
        kernel.add_link(Link(name=f"ib{number}", index=0, type=ARPHRD_INFINIBAND))
        kernel.add_address(f"ib{number}", f"172.16.{number + 1}.{number + 10}/16")
    if dual_stack:
        kernel.add_address("eth0", "2001:db8::4/64")
        for number in range(8):
            kernel.add_address(f"ib{number}", f"fd16::{number + 10:x}/48")
        kernel.ip_route(
            "add",
            Route.to("::/0", dev="eth0", gateway="fe80::1", protocol=PROTOCOL_RA, metric=1024),
        )
    return kernel


def vpn_node() -> FakeKernel:
    """A plain VM that sends all packets through wg0, as wg-quick configures it.

    WireGuard's own table has the route. One rule looks it up for packets without WireGuard's mark.
    The rule before it looks up table main, but ignores the default route there.
    """
    kernel = plain_vm()
    kernel.add_link(Link(name="wg0", index=0, kind="wireguard", type=_ARPHRD_NONE))
    kernel.add_address("wg0", "10.8.0.2/32")
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="wg0", table=51820, protocol=PROTOCOL_BOOT))
    kernel.add_rule(
        Rule(family=4, priority=32765, invert=True, fwmark=51820, fwmask=0xFFFFFFFF, table=51820)
    )
    kernel.add_rule(Rule(family=4, priority=32764, table=TABLE_MAIN, suppress_prefixlength=0))
    return kernel


def ecmp_node() -> FakeKernel:
    """A host with two uplinks, eth0 and eth1, which share its default route."""
    kernel = FakeKernel()
    kernel.set_up("lo")
    for number in (0, 1):
        kernel.add_link(f"eth{number}")
        kernel.add_address(f"eth{number}", f"10.{number}.0.4/24")
    next_hops = tuple(
        NextHop(f"eth{number}", gateway=as_ip(f"10.{number}.0.1")) for number in (0, 1)
    )
    kernel.ip_route("add", Route(Prefix.parse("0.0.0.0/0"), next_hops, protocol=_PROTOCOL_STATIC))
    return kernel


def cni_node() -> FakeKernel:
    """A plain VM with a CNI: the pod bridge cni0 has 10.244.0.0/24, and eth0 has routes to other
    nodes' pods.
    """
    kernel = plain_vm()
    kernel.add_link(Link(name="cni0", index=0, kind="bridge"))
    kernel.add_address("cni0", "10.244.0.1/24")
    for pod in range(2):
        kernel.add_link(Link(name=f"veth{pod}", index=0, kind="veth", master="cni0"))
    for node in (1, 2):
        kernel.ip_route(
            "add", Route.to(f"10.244.{node}.0/24", dev="eth0", gateway=f"10.0.0.{node + 4}")
        )
    return kernel
