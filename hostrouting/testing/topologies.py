"""Ready-made hosts: fake kernels with the routes that such a host has after boot."""

from hostrouting.model.route import PROTOCOL_DHCP, Route
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link
from hostrouting.testing.kernel import FakeKernel


def plain_vm() -> FakeKernel:
    """A virtual machine with one Ethernet device, the address 10.0.0.4/24, and a default route via
    10.0.0.1, as DHCP sets it.
    """
    kernel = FakeKernel(ipv6_forwarding=True)  # as on nodes of Kubernetes
    kernel.set_up("lo")
    kernel.add_link(Link(name="eth0", index=2))
    kernel.add_address("eth0", "10.0.0.4/24")
    kernel.ip_route(
        "add",
        Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=PROTOCOL_DHCP, metric=100),
    )
    return kernel


def h200() -> FakeKernel:
    """The host that this library was written for: a plain VM whose ib0 … ib7 are all connected to
    172.16.0.0/16.
    """
    kernel = plain_vm()
    for number in range(8):
        # The index 0 stands for the next free one.
        kernel.add_link(Link(name=f"ib{number}", index=0, type=ARPHRD_INFINIBAND))
        kernel.add_address(f"ib{number}", f"172.16.{number + 1}.{number + 10}/16")
    return kernel
