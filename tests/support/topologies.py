"""Hosts for tests, by name, each a snapshot as the kernel would list it."""

from collections.abc import Iterable

from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import PROTOCOL_KERNEL, SCOPE_HOST, SCOPE_LINK, TABLE_LOCAL, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Address, Link, Snapshot
from hostrouting.testing import FakeKernel, topologies


def connected(dev: str, interface: str) -> tuple[Route, ...]:
    """The routes that the kernel adds when `interface` (an IPv4 address with its length) is added to a device."""
    text, length = interface.split("/")
    address = as_ip(text)
    prefix = Prefix.around(4, int(address), int(length))
    legs = (NextHop(dev),)
    return (
        Route(prefix, legs, protocol=PROTOCOL_KERNEL, scope=SCOPE_LINK, prefsrc=address),
        Route(
            Prefix.of(address),
            legs,
            table=TABLE_LOCAL,
            type="local",
            protocol=PROTOCOL_KERNEL,
            scope=SCOPE_HOST,
            prefsrc=address,
        ),
        Route(
            Prefix(4, prefix.last, 32),
            legs,
            table=TABLE_LOCAL,
            type="broadcast",
            protocol=PROTOCOL_KERNEL,
            scope=SCOPE_LINK,
            prefsrc=address,
        ),
    )


def host(
    interfaces: Iterable[tuple[str, str]],
    routes: Iterable[Route] = (),
    *,
    rules: Iterable[Rule] | None = None,
    links: Iterable[Link] = (),
) -> Snapshot:
    """A host with IPv4 addresses on devices, the routes that the kernel adds for them, and further routes.

    A device that is not in `links` is an ordinary one; it is InfiniBand if its name begins with "ib".
    """
    interfaces, given = tuple(interfaces), {link.name: link for link in links}
    names = dict.fromkeys([*(dev for dev, _ in interfaces), *given])
    return Snapshot(
        links=tuple(
            given.get(name) or Link(name=name, index=index, type=ARPHRD_INFINIBAND if name.startswith("ib") else 1)
            for index, name in enumerate(names, start=2)
        ),
        addresses=tuple(
            Address(ip=as_ip(text.split("/")[0]), length=int(text.split("/")[1]), dev=dev) for dev, text in interfaces
        ),
        rules=default_rules(4) if rules is None else tuple(rules),
        routes=(*routes, *(route for dev, text in interfaces for route in connected(dev, text))),
    )


def marked_vm() -> FakeKernel:
    """A plain VM that sends packets with a mark by eth1: nobody can know which packets these are."""
    kernel = topologies.plain_vm()
    kernel.add_link(Link(name="eth1", index=0))
    kernel.add_rule(Rule(family=4, priority=32764, fwmark=51820, fwmask=0xFFFFFFFF, table=77))
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth1", table=77))
    return kernel


def refusing() -> FakeKernel:
    """An H200 node with a rule that none of our routes can mend."""
    kernel = topologies.h200()
    kernel.add_rule(Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse("172.16.0.0/24")))
    return kernel


def plain() -> Snapshot:
    """One Ethernet device with an address and a default route, as DHCP configures it."""
    return topologies.plain_vm().snapshot(family=4)._replace(family=None)  # a whole host, without IPv6


def h200() -> Snapshot:
    """The host that this library was written for: eth0 has the default route, ib0 to ib7 each have a connected 172.16.0.0/16."""
    return topologies.h200().snapshot(family=4)._replace(family=None)  # as above
