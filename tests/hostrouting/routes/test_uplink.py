"""hostrouting.routes.uplink: the default route, and how it completes routes without device or
gateway.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostrouting.kernel.base import RouteRequest, Verb
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import (
    OURS,
    SCOPE_UNIVERSE,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
)
from hostrouting.model.rule import default_rules
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link, Snapshot
from hostrouting.routes.uplink import Need, Uplink
from hostrouting.testing import plain_vm
from tests.support.commands import furnish
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.own_routes import HOPS, entry
from tests.support.topologies import host

ANYWHERE = Prefix.parse("0.0.0.0/0")
NETWORK = Prefix.parse("10.9.0.0/16")
NETWORK_6 = Prefix.parse("fd09::/16")
INTERFACES = [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24"), ("wg0", "10.2.0.4/24")]
DEAD_ENDS = ("dummy", "ifb", "vrf")
LINKS = [
    Link(name="ib0", index=0, type=ARPHRD_INFINIBAND),
    *(Link(name=kind, index=0, kind=kind) for kind in DEAD_ENDS),
]
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100)
BY_ETH0 = "via 10.0.0.1 dev eth0 proto hostrouting"
NO_DEFAULT = "an IPv4 default route"
A_NAME = "a device to be named: "
OWN = "this host's own address or a broadcast address"


def default_by(dev: str = "eth1", table: int = TABLE_MAIN, **fields: Any) -> Route:
    """A default route by this device, without a gateway."""
    return Route.to("0.0.0.0/0", dev=dev, table=table)._replace(**fields)


def node(routes: Sequence[Route]) -> Snapshot:
    """A host with these routes, three usual devices, ib0, and a device of each kind that leads
    nowhere.
    """
    return host(INTERFACES, routes, links=LINKS)


def planned(
    snapshot: Snapshot,
    gateway: str | None = None,
    dev: str | None = None,
    to: Prefix = NETWORK,
    expected: Sequence[str] = (),
) -> str:
    """The route that is planned to a network as text, without the network; or what is missing."""
    uplink = Uplink(snapshot, to.family, expected)
    if gateway is None:
        route = uplink.route_to(to, dev=dev)
    else:
        route = uplink.route_to(to, dev=dev, gateway=as_ip(gateway))
    return str(route).removeprefix(f"{to} ")


BY_ROUTER_0 = NextHop("eth0", gateway=as_ip("10.0.0.1"), weight=2)
BY_ROUTER_1 = NextHop("eth1", gateway=as_ip("10.1.0.1"), weight=3)


class TestOpenRoute:
    """Missing fields are taken from the default route of table main."""

    @pytest.mark.parametrize(
        ("routes", "means"),
        [
            ([DEFAULT], BY_ETH0),
            ([default_by(), DEFAULT], "dev eth1 proto hostrouting scope link"),
            ([default_by(table=253)], NO_DEFAULT),
            ([DEFAULT, default_by(table=100)], BY_ETH0),
            ([Route.to(half, dev="wg0") for half in ("0.0.0.0/1", "128.0.0.0/1")], NO_DEFAULT),
            ([Route.to("0.0.0.0/0", type="unreachable"), DEFAULT], BY_ETH0),
            ([DEFAULT, default_by(type="multicast")], BY_ETH0),
            ([DEFAULT, default_by(tos=0x10)], BY_ETH0),
            ([default_by(expired=True), DEFAULT], BY_ETH0),
            ([default_by(expired=False), DEFAULT], "dev eth1 proto hostrouting scope link"),
            (
                [default_by(next_hops=(NextHop("eth1", dead=True, linkdown=True),)), DEFAULT],
                BY_ETH0,
            ),
            ([default_by(protocol=OURS), DEFAULT], BY_ETH0),
            ([default_by("ib0"), DEFAULT], BY_ETH0),
            ([default_by("ib0")], NO_DEFAULT),
            *(([default_by(dev), DEFAULT], BY_ETH0) for dev in ("lo", *DEAD_ENDS)),
        ],
        ids=str,
    )
    def test_which_default_route(self, routes: list[Route], means: str) -> None:
        """The best one of table main that leads out; halves and routes of ours are not taken for
        it.
        """
        assert planned(node(routes)) == means

    def test_ipv6_default_routes(self) -> None:
        """Of one metric, the router's preference decides;
        one for a source is not for all packets.
        """
        default = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024)
        low = default._replace(next_hops=(NextHop("eth1"),), preference="low")
        high = default._replace(next_hops=(NextHop("wg0"),), preference="high")
        of_source = default._replace(metric=1, source=Prefix.parse("2001:db8::/64"))
        there = node([low, of_source, default, high])._replace(rules=default_rules(6))
        assert planned(there, to=NETWORK_6) == "dev wg0 proto hostrouting metric 1024"

    def test_by_a_device(self) -> None:
        """For a given device, it is the first one by that device in any table: InfiniBand can be
        named.
        """
        there = node([DEFAULT, default_by("ib0"), default_by("wg0", 51820)])
        assert {dev: planned(there, dev=dev) for dev in ("eth0", "ib0", "wg0", "eth1")} == {
            "eth0": BY_ETH0,
            "ib0": "dev ib0 proto hostrouting scope link",
            "wg0": "dev wg0 proto hostrouting scope link",
            "eth1": "an IPv4 default route on eth1",
        }

    def test_by_a_device_with_routes_in_two_tables(self) -> None:
        """That of table main comes first, whatever the number of the other table is."""
        for table in (100, 1000):
            other = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.9", table=table)
            assert planned(node([DEFAULT, other]), dev="eth0") == BY_ETH0

    def test_by_a_device_with_routes_in_two_other_tables(self) -> None:
        """That of the lower table comes first, whatever its metric is."""
        lower = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100, metric=200)
        higher = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.9", table=200, metric=50)
        assert planned(node([higher, lower]), dev="eth0") == BY_ETH0

    def test_several_next_hops(self) -> None:
        """All next hops of the default route that are alive are taken, each with its weight."""
        there = node([Route(ANYWHERE, (BY_ROUTER_0._replace(linkdown=True), BY_ROUTER_1))])
        route = Uplink(there, IPV4).route_to(NETWORK)
        assert isinstance(route, Route)
        assert route.next_hops == (BY_ROUTER_0, BY_ROUTER_1)

    def test_several_next_hops_and_a_device(self) -> None:
        """The one next hop by that device is taken; a weight says nothing then."""
        there = node([Route(ANYWHERE, (BY_ROUTER_0, BY_ROUTER_1))])
        route = Uplink(there, IPV4).route_to(NETWORK, dev="eth1")
        assert isinstance(route, Route)
        assert route.next_hops == (BY_ROUTER_1._replace(weight=1),)

    def test_dead_next_hops(self) -> None:
        """A dead next hop is passed over; a default route with no other is none."""
        half = node([Route(ANYWHERE, (BY_ROUTER_0, BY_ROUTER_1._replace(dead=True)))])
        assert planned(half) == BY_ETH0
        none = node([Route(ANYWHERE, (BY_ROUTER_0._replace(dead=True),))])
        assert planned(none) == NO_DEFAULT

    @pytest.mark.parametrize(
        ("gateway", "dev", "means"),
        [
            ("10.1.0.7", None, "via 10.1.0.7 dev eth1 proto hostrouting"),
            ("10.0.0.7", None, "via 10.0.0.7 dev eth0 proto hostrouting"),
            (
                "10.5.0.7",
                None,
                "an address or route on eth0 that reaches the gateway 10.5.0.7 directly",
            ),
            ("10.1.0.7", "eth1", "via 10.1.0.7 dev eth1 proto hostrouting"),
        ],
    )
    def test_several_next_hops_and_a_gateway(
        self, gateway: str, dev: str | None, means: str
    ) -> None:
        """A gateway is looked for on the device of each next hop."""
        there = node([Route(ANYWHERE, (BY_ROUTER_0, BY_ROUTER_1))])
        assert planned(there, gateway, dev) == means

    def test_one_gateway_on_two_devices(self) -> None:
        """A given gateway is one next hop: the first of the default route that has it."""
        next_hops = (
            NextHop("eth0", gateway=as_ip("fe80::1")),
            NextHop("eth1", gateway=as_ip("fe80::1")),
        )
        there = node([Route(Prefix.parse("::/0"), next_hops, metric=1024)])
        assert (
            planned(there, "fe80::1", to=NETWORK_6)
            == "via fe80::1 dev eth0 proto hostrouting metric 1024"
        )

    @pytest.mark.parametrize("gateway", ["172.31.1.1", None])
    @pytest.mark.parametrize("dev", ["eth0", None])
    def test_an_on_link_default(self, gateway: str | None, dev: str | None) -> None:
        """The default gateway is on-link if the default route says so, whether it is given or
        automatic.
        """
        next_hops = (NextHop("eth0", gateway=as_ip("172.31.1.1"), onlink=True),)
        there = host([("eth0", "10.0.0.4/32")], [Route(ANYWHERE, next_hops)])
        assert planned(there, gateway, dev) == "via 172.31.1.1 dev eth0 onlink proto hostrouting"

    @pytest.mark.parametrize("gateway", ["fe80::1", "2001:db8::1"])
    def test_an_ipv4_default_by_an_ipv6_router(self, gateway: str) -> None:
        """Its gateway is taken over: routes of IPv4 do not say how it is reached."""
        there = node([Route.to("0.0.0.0/0", dev="eth0", gateway=gateway)])
        assert planned(there) == f"via inet6 {gateway} dev eth0 proto hostrouting"


TUN0 = Link(name="tun0", index=0, type=65534, kind="tun")
PPP0 = Link(name="ppp0", index=0, type=512, kind="ppp")
WWAN0 = Link(name="wwan0", index=0, type=65534, kind="wwan")
TAP0 = Link(name="tap0", index=0, kind="tun")
ETH2 = Link(name="eth2", index=0)
TUNNELS = (TUN0, PPP0, WWAN0, TAP0)
BY_TUN0 = default_by("tun0", next_hops=(NextHop("tun0", gateway=as_ip("10.8.0.1")),))
EQUAL = default_by("eth1", metric=100)
BY_ANOTHER_ROUTER = DEFAULT._replace(next_hops=(NextHop("eth0", gateway=as_ip("10.0.0.2")),))
ETH0, ETH1, DEAD_TUNNEL = NextHop("eth0"), NextHop("eth1"), NextHop("tun0", dead=True)
IN_DOUBT = {
    "a tunnel's before a card's": ([BY_TUN0, DEFAULT], "tun0 or eth0"),
    "a tunnel's": ([BY_TUN0], "tun0"),
    "a tap's before a card's": ([default_by("tap0"), DEFAULT], "tap0 or eth0"),
    "a line's before a card's": ([default_by("ppp0"), DEFAULT], "ppp0 or eth0"),
    "equal ones": ([DEFAULT, EQUAL], "eth0 or eth1"),
    "equal ones, the other first": ([EQUAL, DEFAULT], "eth1 or eth0"),
    "equal ones before a third card's": (
        [DEFAULT, EQUAL, default_by("eth2", metric=300)],
        "eth0 or eth1",
    ),
    "a tunnel's and two cards'": (
        [BY_TUN0, default_by("eth0"), default_by("eth1")],
        "tun0, eth0 or eth1",
    ),
    "of a card and a tunnel": ([default_by(next_hops=(ETH0, NextHop("tun0")))], "eth0 or tun0"),
    "of a line and a tunnel": (
        [default_by(next_hops=(NextHop("ppp0"), NextHop("tun0")))],
        "ppp0 or tun0",
    ),
}
CLEAR = {
    "only a line's": ([default_by("ppp0")], ["ppp0"]),
    "only a modem's": ([default_by("wwan0")], ["wwan0"]),
    "a tunnel's with a worse metric": ([DEFAULT, BY_TUN0._replace(metric=200)], ["eth0"]),
    "a tunnel's in another table": ([DEFAULT, BY_TUN0._replace(table=100)], ["eth0"]),
    "another card's with a worse metric": ([DEFAULT, default_by("eth1", metric=200)], ["eth0"]),
    "two routers on one card": ([DEFAULT, BY_ANOTHER_ROUTER], ["eth0"]),
    "an equal one of InfiniBand": ([DEFAULT, default_by("ib0", metric=100)], ["eth0"]),
    "an equal one for some packets": ([DEFAULT, EQUAL._replace(tos=4)], ["eth0"]),
    "an equal one of ours": ([DEFAULT, EQUAL._replace(protocol=OURS)], ["eth0"]),
    "of two cards": ([default_by(next_hops=(ETH0, ETH1))], ["eth0", "eth1"]),
    "of a card and a dead tunnel": ([default_by(next_hops=(ETH0, DEAD_TUNNEL))], ["eth0"]),
}


def beside_a_tunnel(routes: Sequence[Route]) -> Snapshot:
    """A host with these routes, and with a tunnel, of which the network is there."""
    network = Route.to("10.8.0.0/24", dev="tun0")
    return host(INTERFACES, [*routes, network], links=[*LINKS, TUN0])


class TestDoubt:
    """A default route that may not be the network's is in doubt: a route without a device is not
    planned by it.
    """

    @pytest.mark.parametrize(("routes", "devs"), IN_DOUBT.values(), ids=IN_DOUBT)
    def test_which_is_in_doubt(self, routes: list[Route], devs: str) -> None:
        """The need names the devices, and the gateway of the wanted route does not say which. A
        named device is never in doubt.
        """
        there = host(INTERFACES, routes, links=[*LINKS, *TUNNELS, ETH2])
        quoted = re.sub(r"(\w*[0-9])", r'"\1"', devs)
        need = Uplink(there, IPV4).route_to(NETWORK)
        assert isinstance(need, Need)
        assert str(need).startswith("a device to be named: [default ")
        assert str(need.remedy).startswith(f'write "dev": {quoted} into the configured route, or ')
        assert planned(there, "10.0.0.9") == str(need)
        assert planned(there, "10.0.0.9", "eth0") == "via 10.0.0.9 dev eth0 proto hostrouting"

    @pytest.mark.parametrize(("routes", "devs"), CLEAR.values(), ids=CLEAR)
    def test_which_is_not_in_doubt(self, routes: list[Route], devs: list[str]) -> None:
        """A route is planned by its devices."""
        there = host(INTERFACES, routes, links=[*LINKS, *TUNNELS])
        route = Uplink(there, IPV4).route_to(NETWORK)
        assert isinstance(route, Route)
        assert [hop.dev for hop in route.next_hops] == devs

    @pytest.mark.parametrize(
        ("expected", "routes", "means"),
        [
            (["eth0"], [default_by(metric=100), DEFAULT], BY_ETH0),
            (["eth0", "ib0"], [default_by(metric=100), DEFAULT], BY_ETH0),
            (["eth0"], [BY_TUN0, DEFAULT], BY_ETH0),
            (["tun0"], [BY_TUN0, DEFAULT], "via 10.8.0.1 dev tun0 proto hostrouting"),
            (["eth1"], [DEFAULT], BY_ETH0),
            (["eth0"], [BY_TUN0], "an IPv4 default route on eth0"),
            (
                ["eth0"],
                [BY_TUN0, DEFAULT._replace(table=100)],
                "an IPv4 default route on eth0",
            ),
            (["eth9"], [default_by(metric=100), DEFAULT], "an IPv4 default route on eth9"),
            (["eth0", "eth1"], [default_by(metric=100), DEFAULT], A_NAME),
            (["eth0", "eth9"], [default_by(metric=100), DEFAULT], A_NAME),
            (["ib0"], [default_by(metric=100), DEFAULT], A_NAME),
        ],
        ids=str,
    )
    def test_settled(self, expected: list[str], routes: list[Route], means: str) -> None:
        """The one expected device that can have the default route: by its default route in table
        main.
        """
        assert planned(beside_a_tunnel(routes), expected=expected).startswith(means)

    @pytest.mark.parametrize(
        ("expected", "routes"),
        [
            ("eth0", [default_by(metric=100), DEFAULT]),
            ("eth0", [BY_TUN0, DEFAULT]),
            ("eth1", [DEFAULT]),
        ],
        ids=str,
    )
    def test_settled_for_a_gateway(self, expected: str, routes: list[Route]) -> None:
        """A gateway of the wanted route is looked for on the device of that default route."""
        by_gateway = planned(beside_a_tunnel(routes), "10.0.0.9", expected=[expected])
        assert by_gateway == "via 10.0.0.9 dev eth0 proto hostrouting"

    @pytest.mark.parametrize(
        ("interfaces", "is_in_doubt"),
        [
            ([("tap0", "10.0.2.15/24")], False),
            ([("tap0", "10.0.2.15/24"), ("docker0", "172.17.0.1/16")], False),
            ([("tap0", "10.0.2.15/24"), ("eth0", "10.0.0.4/24")], True),
            ([("tap0", "10.0.2.15/24"), ("ib0", "172.16.0.4/16")], False),
            ([("tap0", "10.0.2.15/24"), ("br0", "10.0.0.4/24")], True),
        ],
        ids=str,
    )
    def test_a_tap_may_be_the_only_way_out(
        self, interfaces: list[tuple[str, str]], *, is_in_doubt: bool
    ) -> None:
        """Of a virtual machine, also with bridges for guests; a VPN's has a card beside it, or a
        bridge with a card.
        """
        links = [
            Link(name="docker0", index=0, kind="bridge"),
            Link(name="veth7", index=0, kind="veth", master="docker0"),
            Link(name="br0", index=0, kind="bridge"),
            Link(name="eth9", index=0, master="br0"),
        ]
        there = host(interfaces, [default_by("tap0")], links=[TAP0, *links, *LINKS])
        assert planned(there).startswith(A_NAME) is is_in_doubt

    def test_a_tap_beside_a_tunnel(self) -> None:
        """A tap is the only way out only if no other tunnel has the default route, too."""
        both = default_by(next_hops=(NextHop("tap0"), NextHop("tun0")))
        there = host([("tap0", "10.0.2.15/24")], [both], links=[TAP0, TUN0])
        assert planned(there).startswith(A_NAME)

    def test_another_tunnel_with_ethernet_is_not_a_tap(self) -> None:
        """It is in doubt even where no card has an address."""
        gretap = Link(name="gretap1", index=0, kind="gretap")
        there = host([("gretap1", "10.0.2.15/24")], [default_by("gretap1")], links=[gretap])
        assert planned(there).startswith(A_NAME)

    @pytest.mark.parametrize(("protocol", "is_in_doubt"), [(9, True), (3, False)])
    def test_several_routers(self, protocol: int, *, is_in_doubt: bool) -> None:
        """The devices of one IPv6 route that routers advertise are in doubt; of any other one, all
        are used.
        """
        hops = (
            NextHop("eth0", gateway=as_ip("fe80::1")),
            NextHop("eth1", gateway=as_ip("fe80::2")),
        )
        there = node([Route(Prefix.parse("::/0"), hops, metric=1024, protocol=protocol)])
        assert planned(there, to=NETWORK_6).startswith(A_NAME) is is_in_doubt


class TestWhatIsMissing:
    """What Linux would refuse, or lose packets by, is awaited."""

    @pytest.mark.parametrize(
        ("gateway", "dev", "means"),
        [
            ("10.0.0.9", "eth0", "via 10.0.0.9 dev eth0 proto hostrouting"),
            ("10.0.0.1", None, NO_DEFAULT),
            (
                "10.0.0.9",
                "eth9",
                "the device eth9, which this host does not have (an altname does not count)",
            ),
            (
                None,
                "eth9",
                "the device eth9, which this host does not have (an altname does not count)",
            ),
            (
                "10.1.0.9",
                "eth0",
                "an address or route on eth0 that reaches the gateway 10.1.0.9 directly",
            ),
            ("10.0.0.4", "eth0", f"a gateway other than 10.0.0.4, {OWN}"),
            ("10.1.0.9", "eth1", "the device eth1 to be up"),
            (None, "eth1", "the device eth1 to be up"),
        ],
    )
    def test_without_a_default_route(
        self, gateway: str | None, dev: str | None, means: str
    ) -> None:
        """The device has to be there and up, and its neighbour be a router, and not this host."""
        down = Link(name="eth1", index=3, up=False)
        assert planned(host(INTERFACES, links=[down]), gateway, dev) == means

    @pytest.mark.parametrize(
        ("gateway", "dev"),
        [("10.5.0.7", None), ("10.0.0.9", "eth9"), (None, "eth9"), (None, "eth1"), (None, "wg0")],
    )
    def test_a_way_that_is_not_that_of_the_default_route(
        self, gateway: str | None, dev: str | None
    ) -> None:
        """The need has the default route: perhaps the configuration is that of another host, or
        names a card as it was called once.
        """
        uplink = Uplink(host(INTERFACES, [DEFAULT]), IPV4)
        there = None if gateway is None else as_ip(gateway)
        need = uplink.route_to(NETWORK, dev=dev, gateway=there)
        assert isinstance(need, Need)
        assert need.defaults == (DEFAULT,)

    def test_a_renamed_card_beside_another_one(self) -> None:
        """The need has both default routes: the first one may be that of the wrong card."""
        second = default_by(metric=200)
        uplink = Uplink(host(INTERFACES, [DEFAULT, second]), IPV4)
        need = uplink.route_to(NETWORK, dev="eth9")
        assert isinstance(need, Need)
        assert need.defaults == (DEFAULT, second)

    @pytest.mark.parametrize(
        ("routes", "dev"),
        [
            ([], "eth9"),
            ([DEFAULT._replace(next_hops=(NextHop("eth0", as_ip("10.5.0.7")),))], None),
            ([DEFAULT._replace(next_hops=(NextHop("eth0", as_ip("10.5.0.7")),))], "eth0"),
            ([DEFAULT, default_by(metric=100)], "eth9"),
        ],
        ids=["none", "not named", "the same", "in doubt"],
    )
    def test_no_other_default_route(self, routes: list[Route], dev: str | None) -> None:
        """There is none, the route leaves by it, or nobody knows which one is meant."""
        need = Uplink(host(INTERFACES, routes), IPV4).route_to(NETWORK, dev=dev)
        assert isinstance(need, Need)
        assert need.defaults == ()

    @pytest.mark.parametrize(("table", "is_own"), [(255, True), (254, True), (100, False)])
    def test_a_gateway_with_a_local_route(self, table: int, *, is_own: bool) -> None:
        """It is this host's own address if the table is local or main: in another one, the route
        may be a proxy's, which takes marked packets in.
        """
        local = Route.to("10.0.0.9/32", dev="lo", type="local", table=table)
        way = planned(host(INTERFACES, [local]), "10.0.0.9", "eth0")
        assert way.startswith("a gateway other than 10.0.0.9") is is_own

    @pytest.mark.parametrize("fields", [{"source": Prefix.parse("fd00::/64")}, {"expired": True}])
    def test_a_gateway_inside_a_route_that_is_not_used(self, fields: dict[str, Any]) -> None:
        """Linux looks for a gateway without a source, so it does not use a route `from` some; nor
        one that has expired.
        """
        unused = Route.to("fd00::/80", dev="eth0", gateway="fe80::1")._replace(**fields)
        connected = Route.to("fd00::/64", dev="eth0")
        uplink = Uplink(host(INTERFACES, [connected, unused]), 6)
        way = uplink.route_to(Prefix.parse("fd01::/48"), dev="eth0", gateway=as_ip("fd00::1"))
        assert isinstance(way, Route), way

    @pytest.mark.parametrize(("dev", "is_own"), [("eth0", True), ("eth1", False)])
    def test_a_link_local_gateway_that_this_host_has(self, dev: str, *, is_own: bool) -> None:
        """It is this host's own address on that device only: another link can have it, too."""
        local = Route.to("fe80::1/128", dev="eth0", type="local", table=TABLE_LOCAL)
        way = planned(host(INTERFACES, [local]), "fe80::1", dev, to=NETWORK_6)
        assert way.startswith("a gateway other than fe80::1") is is_own

    def test_a_gateway_on_a_link_whose_prefix_has_expired(self) -> None:
        """Linux lists the prefix for a while, and refuses the gateway."""
        prefix = Route.to("fd00::/64", dev="eth0")._replace(expired=True)
        way = planned(host(INTERFACES, [prefix]), "fd00::1", "eth0", to=NETWORK_6)
        assert way == "an address or route on eth0 that reaches the gateway fd00::1 directly"

    def test_a_gateway_with_a_broadcast_address(self) -> None:
        """Linux refuses it, although the network around it is on the link."""
        broadcast = Route.to("10.0.0.255/32", dev="eth0", type="broadcast", table=255)
        way = planned(host(INTERFACES, [broadcast]), "10.0.0.255", "eth0")
        assert way == f"a gateway other than 10.0.0.255, {OWN}"

    @pytest.mark.parametrize("prefix", ["192.168.0.0/24", "192.168.0.1/32"])
    def test_what_reaches_a_gateway(self, prefix: str) -> None:
        """A route of table main without a gateway."""
        there = plain_vm().snapshot().with_routes([Route.to(prefix, dev="eth0")])
        reached = "via 192.168.0.1 dev eth0 proto hostrouting"
        assert planned(there, "192.168.0.1", "eth0") == reached

    @pytest.mark.parametrize(
        "change",
        [
            {"protocol": OURS},  # it may go
            {"table": 100},
            {"scope": SCOPE_UNIVERSE},
            {"next_hops": (NextHop("eth1"),)},
            {"next_hops": (NextHop("eth0"), NextHop("eth0", gateway=as_ip("10.0.0.1")))},
        ],
        ids=str,
    )
    def test_what_does_not_reach_a_gateway(self, change: dict[str, Any]) -> None:
        """A route of ours, of another table, of scope global, by another device, or partly by
        another gateway.
        """
        other = Route.to("192.168.0.0/24", dev="eth0")._replace(**change)
        there = plain_vm().snapshot().with_routes([other])
        missing = "an address or route on eth0 that reaches the gateway 192.168.0.1 directly"
        assert planned(there, "192.168.0.1", "eth0") == missing

    @pytest.mark.parametrize(("metric", "is_hidden"), [(1023, False), (1024, True), (1025, True)])
    def test_a_route_to_the_network_of_its_own_gateway(
        self, metric: int, *, is_hidden: bool
    ) -> None:
        """Linux looks for an IPv6 gateway by the route with the better metric. Of two equal ones,
        ours may be the first.
        """
        there = node([Route.to(NETWORK_6, dev="eth0", metric=metric)])
        way = planned(there, "fd09::1", "eth0", to=NETWORK_6)
        assert way.startswith("a destination without the gateway fd09::1") is is_hidden

    def test_a_route_to_a_part_of_the_network_of_its_gateway(self) -> None:
        """IPv4 looks for a gateway only by routes without one."""
        part = Prefix.parse("10.0.0.0/25")
        assert planned(node([DEFAULT]), "10.0.0.1", "eth0", to=part) == BY_ETH0

    def test_a_route_to_neighbours_around_the_gateway_of_the_default_route(self) -> None:
        """Linux finds the gateway by it."""
        connected = Route.to(NETWORK_6, dev="eth0", metric=1024)
        default = Route.to("::/0", dev="eth0", gateway="fd09::1", metric=1024)
        uplink = Uplink(node([connected, default]), 6)
        way = uplink.route_to(Prefix.parse("fd09::/64"), dev="eth0", on_link=True)
        assert isinstance(way, Route), way

    def test_a_route_around_its_gateway_that_is_on_link(self) -> None:
        """Linux does not look for a gateway of which the route says so."""
        hop = NextHop("eth0", gateway=as_ip("fd09::1"), onlink=True)
        default = Route(Prefix.parse("::/0"), (hop,), metric=1024)
        there = node([default, Route.to(NETWORK_6, dev="eth0", metric=1024)])
        way = "via fd09::1 dev eth0 onlink proto hostrouting metric 1024"
        assert planned(there, to=NETWORK_6) == way

    def test_a_route_around_its_link_local_gateway(self) -> None:
        """Linux needs no route to such a gateway."""
        there = node([Route.to("::/0", dev="eth0", metric=2048)])
        way = planned(there, "fe80::1", "eth0", to=Prefix.parse("fc00::/6"))
        assert way == "via fe80::1 dev eth0 proto hostrouting metric 1024"

    def test_a_route_around_the_gateway_of_a_default_route_that_nothing_reaches(self) -> None:
        """Table main has no route to that gateway that the new one could come before."""
        default = Route.to("::/0", dev="eth0", gateway="fd09::1", table=100, metric=1024)
        there = node([default])
        way = planned(there, "fe80::1", "eth0", to=NETWORK_6)
        assert way == "via fe80::1 dev eth0 proto hostrouting metric 1024"

    def test_a_device_without_ipv6(self) -> None:
        """A route by it waits until IPv6 is enabled there: Linux refuses it until then."""
        there = Snapshot(
            (Link(name="eth1", index=2, ipv6_disabled=True),), (), default_rules(6), ()
        )
        assert planned(there, "fe80::1", "eth1", to=NETWORK_6) == "IPv6 to be enabled on eth1"
        assert planned(there, "10.1.0.1", "eth1").endswith(
            " that reaches the gateway 10.1.0.1 directly"
        )

    def test_a_family_that_was_not_read(self) -> None:
        """Linux may have IPv6: a snapshot of IPv4 alone does not say."""
        there = plain_vm().snapshot(family=4)
        assert planned(there, to=NETWORK_6) == "an IPv6 default route"


# On Linux.


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """Four devices; eth0 has an address of each family."""
    with private_namespace() as made:
        furnish(made)
        made.batch(["rule add pref 9 from 9.9.9.9 lookup 100", "rule add pref 40000 lookup 100"])
        yield made


@contextmanager
def accepting(backend: NetlinkBackend, verb: Verb = "append") -> Iterator[Callable[[Route], bool]]:
    """A function that adds a route, and says whether Linux accepts it. All go in the end."""
    added: list[Route] = []

    def accepts(route: Route) -> bool:
        [outcome] = backend.change([RouteRequest(verb, route)])
        if outcome.ok:
            added.append(route)
        return outcome.ok

    try:
        yield accepts
    finally:
        backend.change(RouteRequest("delete", route) for route in reversed(added))


def next_hops_of(route: Route) -> list[tuple[str | None, IP | None]]:
    """The device and the gateway of each next hop."""
    return [(hop.dev, hop.gateway) for hop in route.next_hops]


def defaults_of(family: int) -> st.SearchStrategy[list[Route]]:
    """Default routes in table main and in another one."""
    route = st.builds(
        lambda hop, metric, table: entry(Prefix(family, 0, 0), hop, metric)._replace(
            table=table, protocol=9
        ),
        st.sampled_from(HOPS[family]),
        st.sampled_from([5, 100, 1024]),
        st.sampled_from([TABLE_MAIN, TABLE_MAIN, 100]),
    )
    return st.lists(route, min_size=1, max_size=4)


@pytest.mark.linux
@pytest.mark.needs("root")
@settings(max_examples=scaled(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(defaults_of(IPV4) | defaults_of(IPV6))
def test_an_open_route_is_that_of_table_main(namespace: Namespace, defaults: list[Route]) -> None:
    """Where table main has the default route, Linux sends packets by the next hops of an open
    route, and accepts it.
    """
    family = defaults[0].prefix.family
    destination = Prefix.parse({IPV4: "203.0.113.0/24", IPV6: "2001:db8::/32"}[family])
    with namespace.inside(), NetlinkBackend() as backend, accepting(backend, "add") as accepts:
        for default in defaults:
            accepts(default)
        route = Uplink(backend.snapshot(), family).route_to(destination)
        [answer] = backend.lookup([destination.ip])
        is_by_main = answer.route is not None and answer.route.table == TABLE_MAIN
        assert isinstance(route, Route) is is_by_main
        if isinstance(route, Route):
            assert answer.route is not None
            assert next_hops_of(route) == next_hops_of(answer.route)
            assert accepts(route)


IPV6_GATEWAY = as_ip("fd00:99::1")
AROUND_THE_GATEWAY = ("fd00:98::/31", "fd00:99::/64", "fd00:99::/80", "fd00:99::1/128")


REFUSED = Route(Prefix.parse("fd00:98::/64"), type="unreachable", metric=1024, protocol=4)


def routes_around_the_gateway() -> st.SearchStrategy[list[Route]]:
    """Another program's IPv6 routes to networks that have a gateway of the host's link inside."""
    route = st.builds(
        lambda prefix, gateway, dev, metric: Route.to(
            prefix, dev=dev, gateway=gateway, metric=metric, protocol=4
        ),
        st.sampled_from(AROUND_THE_GATEWAY),
        st.sampled_from([None, "fe80::7"]),
        st.sampled_from(["eth0", "eth0", "eth1"]),
        st.sampled_from([100, 300, 2000]),
    )
    return st.lists(route, max_size=3, unique_by=lambda route: route.key)


@pytest.mark.linux
@pytest.mark.needs("root")
@settings(max_examples=scaled(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    routes_around_the_gateway(),
    st.sampled_from([*AROUND_THE_GATEWAY, "2001:db8::/32"]).map(Prefix.parse),
    st.sampled_from([None, as_ip("fd00:99::3"), as_ip("fe80::5")]),
    st.sampled_from([7, 200, 5000]),
)
def test_gateways_that_linux_accepts_in_ipv6(
    namespace: Namespace, others: list[Route], destination: Prefix, gateway: IP | None, metric: int
) -> None:
    """A route is complete exactly if Linux accepts it, and still accepts routes by its gateway and
    by the gateway of the default route afterwards.
    """
    default = Route.to("::/0", dev="eth0", gateway=IPV6_GATEWAY, metric=1024, protocol=9)
    by_default = default.next_hops[0]
    wanted = entry(destination, NextHop("eth0", gateway=gateway or IPV6_GATEWAY), metric)
    with namespace.inside(), NetlinkBackend() as backend, accepting(backend) as accepts:
        for there in (default, *others):
            assert accepts(there), there
        followers = [entry(Prefix.parse("2001:db8:2::/48"), wanted.next_hops[0])]
        if accepts(entry(Prefix.parse("2001:db8:1::/48"), by_default)):
            followers.append(entry(Prefix.parse("2001:db8:3::/48"), by_default))

        uplink = Uplink(backend.snapshot(), IPV6)
        route = uplink.route_to(destination, dev="eth0", gateway=gateway, metric=metric)

        if all(accepts(each) for each in (wanted, *followers)):
            assert route == wanted
        else:
            assert isinstance(route, Need), route


def require_as_linux_on_link(namespace: Namespace, gateway: str, others: list[Route]) -> None:
    """Beside these routes, a route whose gateway is said to be on the link is complete exactly if
    Linux accepts it.
    """
    hop = NextHop("eth0", gateway=as_ip(gateway), onlink=True)
    default = Route(Prefix.parse("::/0"), (hop,), metric=1024, protocol=9)
    wanted = default._replace(prefix=Prefix.parse("2001:db8::/32"), protocol=OURS)
    with namespace.inside(), NetlinkBackend() as backend, accepting(backend) as accepts:
        for there in (default, *others):
            assert accepts(there), there
        route = Uplink(backend.snapshot(), IPV6).route_to(wanted.prefix)
        assert isinstance(route, Route) == accepts(wanted), route


@pytest.mark.linux
@pytest.mark.needs("root")
@settings(max_examples=scaled(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(routes_around_the_gateway(), st.sampled_from([[], [REFUSED]]))
def test_gateways_on_link_that_linux_accepts_in_ipv6(
    namespace: Namespace, others: list[Route], refused: list[Route]
) -> None:
    """A gateway that is said to be on the link, with routes around it."""
    require_as_linux_on_link(namespace, "fd00:98::1", [*others, *refused])


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("elsewhere", ["::/1", "2000::/3"])
def test_a_gateway_on_link_in_a_part_of_ipv6(namespace: Namespace, elsewhere: str) -> None:
    """Linux passes over ::/1 of another device as over a default route, and not over 2000::/3."""
    route = Route.to(elsewhere, dev="eth1", metric=1024, protocol=4)
    require_as_linux_on_link(namespace, "2001:db7::1", [route])
