"""hostrouting.routes.connected: the kernel's routes for addresses, computed from the addresses alone."""

from typing import Any

import attrs
import pytest

from hostrouting.check.overlap import is_unexplained, networks_of
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import PROTOCOL_KERNEL, TABLE_MAIN, Route
from hostrouting.model.snapshot import Address, Link, Snapshot
from hostrouting.routes.connected import connected_routes
from tests.support.commands import ports
from tests.support.namespace import private_namespace

IB0 = Link(name="ib0", index=2)


def brought(address: Address, *links: Link) -> list[str]:
    """The routes that the kernel adds for the address, as text."""
    return list(map(str, connected_routes(Snapshot(links=links, addresses=(address,))).values()))


def address(text: str, **more: object) -> Address:
    """An address of ib0."""
    ip, _, length = text.partition("/")
    return Address(ip=as_ip(ip), length=int(length), dev="ib0", **more)  # type: ignore[arg-type]  # any of its fields


def of_the_kernel(snapshot: Snapshot) -> set[Route]:
    """The kernel's own routes in table main, without the state of their devices."""
    bare = [
        attrs.evolve(route, legs=tuple(attrs.evolve(leg, linkdown=False) for leg in route.legs))
        for route in snapshot.routes
    ]
    return {it for it in bare if (it.table, it.protocol) == (TABLE_MAIN, PROTOCOL_KERNEL)}


@pytest.mark.parametrize(
    "links",
    [
        (),
        (attrs.evolve(IB0, up=False),),
        (attrs.evolve(IB0, type=772),),
        (attrs.evolve(IB0, master="blue"), Link(name="blue", index=3, kind="vrf")),
    ],
    ids=["gone", "down", "loopback", "in a VRF"],
)
def test_of_a_device(links: tuple[Link, ...]) -> None:
    """There is no route for a device that is not up, or whose routes are in another table."""
    assert brought(address("172.16.1.10/16"), *links) == []


@pytest.mark.parametrize(
    ("text", "more", "route"),
    [
        ("172.16.1.10/16", {}, Route.to("172.16.0.0/16", dev="ib0")),
        ("1.2.3.4/24", {}, Route.to("1.2.3.0/24", dev="ib0")),
        ("0.1.2.3/24", {}, Route.to("0.1.2.0/24", dev="ib0")),
        ("0.2.2.3/8", {}, None),
        ("172.19.1.10/32", {}, None),
        ("172.20.1.10/32", {"peer": as_ip("172.20.1.11")}, Route.to("172.20.1.11/32", dev="ib0")),
        ("172.19.1.0/24", {"metric": 7}, Route.to("172.19.1.0/24", dev="ib0", metric=7)),
    ],
)
def test_of_an_address(text: str, more: dict[str, Any], route: Route | None) -> None:
    """The route is on-link, the kernel's, and prefers the address as the source; the test below has the same addresses."""
    whose = address(text, **more)
    expected = [] if route is None else [attrs.evolve(route, scope=253, protocol=PROTOCOL_KERNEL, prefsrc=whose.ip)]
    assert list(connected_routes(Snapshot(links=(IB0,), addresses=(whose,))).values()) == expected


@pytest.mark.linux
@pytest.mark.needs("root")
def test_law_they_are_what_linux_makes() -> None:
    """On Linux, for any addresses: the predicted routes are those that return after all routes were deleted."""
    with private_namespace() as namespace:
        namespace.batch(
            [
                "link set lo up",
                *ports("eth0", "ib0", "ib1"),
                "link set ib1 down",
                "address add 10.0.0.4/24 dev eth0",
                "address add 10.0.0.5/24 dev eth0",
                "address add 172.16.1.10/16 dev ib0",
                "address add 172.17.1.10/16 dev ib0 metric 7",
                "address add 172.18.1.10/16 dev ib0 noprefixroute",
                "address add 172.18.1.11/16 dev ib0",
                "address add 172.19.1.10/32 dev ib0",
                "address add 172.20.1.10 peer 172.20.1.11/32 dev ib0",
                "address add 172.21.1.10/16 dev ib1",
                "address add 0.1.2.3/24 dev eth0",
                "address add 0.2.2.3/8 dev eth0",
                "address add 1.2.3.4/24 dev eth0",
                "address add 172.19.1.0/24 dev eth0 metric 7",
            ]
        )
        with NetlinkBackend(netns=namespace.path) as backend:
            before = backend.snapshot(family=4)
            namespace.batch(["route flush table main proto kernel"])
            foretold = connected_routes(backend.snapshot(family=4))
            namespace.batch([f"link set {name} {state}" for name in ("eth0", "ib0") for state in ("down", "up")])
            after = backend.snapshot(family=4)
        assert set(foretold.values()) == of_the_kernel(before) == of_the_kernel(after)
        assert len(foretold) == 7


@pytest.mark.parametrize(
    ("route", "unexplained"),
    [
        (Route.to("172.16.0.0/16", dev="ib0", protocol=2), False),
        (Route.to("10.8.0.1/32", dev="wg0", protocol=2), False),
        (Route.to("10.8.0.2/32", dev="wg0", protocol=2), False),
        (Route.to("172.16.0.0/17", dev="ib0", protocol=2), True),
        (Route.to("172.16.0.0/16", dev="ib1", protocol=2), True),
        (Route.to("172.16.0.0/16", dev="ib0", gateway="172.16.0.1", protocol=2), True),
        (Route.to("172.20.0.0/16", dev="ib0", protocol=3), False),
        (attrs.evolve(Route.to("2001:db8::/64", dev="eth1", metric=256, protocol=2), expires=86400), False),
        (Route.to("2001:db8::/64", dev="eth1", metric=256, protocol=2), True),
        (Route.to("172.20.0.0/16", type="blackhole", protocol=2), False),
    ],
    ids=str,
)
def test_is_unexplained(route: Route, unexplained: bool) -> None:  # noqa: FBT001  a row of the table
    """A proto kernel route is explained by an address of its device or its peer, or if it expires; not with a gateway."""
    addresses = (
        Address(ip=as_ip("172.16.1.10"), length=16, dev="ib0"),
        Address(ip=as_ip("10.8.0.2"), length=32, dev="wg0", peer=as_ip("10.8.0.1")),
    )
    assert is_unexplained(route, networks_of(addresses)) is unexplained
    assert not is_unexplained(route, networks_of([]))
