"""hostrouting.routes.uplink: the default route, and how it completes routes without device or
gateway.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings, strategies as st

from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import OURS, TABLE_MAIN, NextHop, Route
from hostrouting.model.rule import default_rules
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link, Snapshot
from hostrouting.routes.uplink import Need, Uplink
from hostrouting.testing import plain_vm
from tests.support.commands import furnish
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.own_routes import HOPS, entry
from tests.support.topologies import host

ANYWHERE, NETWORK = map(Prefix.parse, ("0.0.0.0/0", "10.9.0.0/16"))
INTERFACES = [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24"), ("wg0", "10.2.0.4/24")]
DEAD_ENDS = ("dummy", "ifb", "vrf")
LINKS = [
    Link(name="ib0", index=0, type=ARPHRD_INFINIBAND),
    *(Link(name=kind, index=0, kind=kind) for kind in DEAD_ENDS),
]
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100)
BY_ETH0, NO_DEFAULT = "via 10.0.0.1 dev eth0 proto hostrouting", "an IPv4 default route"


def away(dev: str = "eth1", table: int = TABLE_MAIN, **fields: Any) -> Route:
    """Another default route, without a gateway."""
    return Route.to("0.0.0.0/0", dev=dev, table=table)._replace(**fields)


def node(routes: Sequence[Route]) -> Snapshot:
    """A host with these routes, three usual devices, ib0, and a device of each kind that leads
    nowhere.
    """
    return host(INTERFACES, routes, links=LINKS)


def way(
    snapshot: Snapshot,
    gateway: str | None = None,
    dev: str | None = None,
    to: Prefix = NETWORK,
    expected: Sequence[str] = (),
) -> str:
    """The route to a network as text, without the network; or what is missing."""
    route = Uplink(snapshot, to.family, expected).route_to(
        to, dev=dev, gateway=None if gateway is None else as_ip(gateway)
    )
    return str(route).removeprefix(f"{to} ")


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """Four devices; eth0 has an address of each family."""
    with private_namespace() as made:
        furnish(made)
        made.batch(["rule add pref 9 from 9.9.9.9 lookup 100", "rule add pref 40000 lookup 100"])
        yield made


def ways_of(route: Route) -> list[tuple[str | None, IP | None]]:
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
    with namespace.inside(), NetlinkBackend() as backend:
        made = [route for route in defaults if backend.change([RouteRequest("add", route)])[0].ok]
        try:
            route = Uplink(backend.snapshot(), family).route_to(destination)
            [answer] = backend.lookup([destination.ip])
            is_by_main = answer.route is not None and answer.route.table == TABLE_MAIN
            assert isinstance(route, Route) is is_by_main
            if not isinstance(route, Route):
                reject()
            assert answer.route is not None
            assert ways_of(route) == ways_of(answer.route)
            requests = [RouteRequest("add", route), RouteRequest("delete", route)]
            assert all(outcome.ok for outcome in backend.change(requests))
        finally:
            backend.change(RouteRequest("delete", route) for route in made)


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
        assert accepts(default)
        assert all(accepts(route) for route in others)
        followers = [entry(Prefix.parse("2001:db8:2::/48"), wanted.next_hops[0])]
        if accepts(entry(Prefix.parse("2001:db8:1::/48"), by_default)):
            followers.append(entry(Prefix.parse("2001:db8:3::/48"), by_default))

        uplink = Uplink(backend.snapshot(), IPV6)
        route = uplink.route_to(destination, dev="eth0", gateway=gateway, metric=metric)

        if all(accepts(each) for each in (wanted, *followers)):
            assert route == wanted
        else:
            assert isinstance(route, Need), route


@contextmanager
def accepting(backend: NetlinkBackend) -> Iterator[Callable[[Route], bool]]:
    """A function that appends a route, and says whether Linux accepts it. All go in the end."""
    made: list[Route] = []

    def accepts(route: Route) -> bool:
        [outcome] = backend.change([RouteRequest("append", route)])
        made.append(route)
        return outcome.ok

    try:
        yield accepts
    finally:
        backend.change(RouteRequest("delete", route) for route in reversed(made))


def require_as_linux_on_link(namespace: Namespace, gateway: str, others: list[Route]) -> None:
    """Beside these routes, a route whose gateway is said to be on the link is complete exactly if
    Linux accepts it.
    """
    hop = NextHop("eth0", gateway=as_ip(gateway), onlink=True)
    default = Route(Prefix.parse("::/0"), (hop,), metric=1024, protocol=9)
    wanted = default._replace(prefix=Prefix.parse("2001:db8::/32"), protocol=OURS)
    with namespace.inside(), NetlinkBackend() as backend:
        made: list[Route] = []

        def accepts(route: Route) -> bool:
            [outcome] = backend.change([RouteRequest("append", route)])
            made.append(route)
            return outcome.ok

        try:
            assert accepts(default)
            assert all(accepts(route) for route in others)
            route = Uplink(backend.snapshot(), IPV6).route_to(wanted.prefix)
            assert isinstance(route, Route) == accepts(wanted), route
        finally:
            backend.change(RouteRequest("delete", route) for route in reversed(made))


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


class TestOpenRoute:
    """Missing fields are taken from the default route of table main."""

    @pytest.mark.parametrize(
        ("routes", "means"),
        [
            ([DEFAULT], BY_ETH0),
            ([away(), DEFAULT], "dev eth1 proto hostrouting scope link"),
            ([away(table=253)], NO_DEFAULT),
            ([DEFAULT, away(table=100)], BY_ETH0),
            ([Route.to(half, dev="wg0") for half in ("0.0.0.0/1", "128.0.0.0/1")], NO_DEFAULT),
            ([Route.to("0.0.0.0/0", type="unreachable"), DEFAULT], BY_ETH0),
            ([DEFAULT, away(type="multicast")], BY_ETH0),
            ([DEFAULT, away(tos=0x10)], BY_ETH0),
            ([away(expired=True), DEFAULT], BY_ETH0),
            ([away(expired=False), DEFAULT], "dev eth1 proto hostrouting scope link"),
            ([away(next_hops=(NextHop("eth1", dead=True, linkdown=True),)), DEFAULT], BY_ETH0),
            ([away(protocol=OURS), DEFAULT], BY_ETH0),
            ([away("ib0"), DEFAULT], BY_ETH0),
            ([away("ib0")], NO_DEFAULT),
            *(([away(dev), DEFAULT], BY_ETH0) for dev in ("lo", *DEAD_ENDS)),
        ],
        ids=str,
    )
    def test_which_default_route(self, routes: list[Route], means: str) -> None:
        """The best one of table main that leads out; halves and routes of ours are not taken for
        it.
        """
        assert way(node(routes)) == means

    def test_ipv6_default_routes(self) -> None:
        """Of one metric, the router's preference decides; one for a source is not for all packets."""
        default = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024)
        low = default._replace(next_hops=(NextHop("eth1"),), preference="low")
        high = default._replace(next_hops=(NextHop("wg0"),), preference="high")
        of_source = default._replace(metric=1, source=Prefix.parse("2001:db8::/64"))
        there = node([low, of_source, default, high])._replace(rules=default_rules(6))
        assert way(there, to=Prefix.parse("fd09::/16")) == "dev wg0 proto hostrouting metric 1024"

    def test_by_a_device(self) -> None:
        """For a given device, it is the first one by that device in any table: InfiniBand can be
        named.
        """
        there = node([DEFAULT, away("ib0"), away("wg0", 51820)])
        assert {dev: way(there, dev=dev) for dev in ("eth0", "ib0", "wg0", "eth1")} == {
            "eth0": BY_ETH0,
            "ib0": "dev ib0 proto hostrouting scope link",
            "wg0": "dev wg0 proto hostrouting scope link",
            "eth1": "an IPv4 default route on eth1",
        }

    def test_by_a_device_with_routes_in_two_tables(self) -> None:
        """That of table main comes first, whatever the number of the other table is."""
        for table in (100, 1000):
            other = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.9", table=table)
            assert way(node([DEFAULT, other]), dev="eth0") == BY_ETH0

    def test_ecmp_default(self) -> None:
        """Of several next hops: all that are alive, or one by its device; a gateway is looked for on
        each of their devices.
        """
        first = NextHop("eth0", gateway=as_ip("10.0.0.1"), linkdown=True, weight=2)
        second = NextHop("eth1", gateway=as_ip("10.1.0.1"), weight=3)
        both, half, none = (
            node([Route(ANYWHERE, next_hops)])
            for next_hops in (
                (first, second),
                (first, second._replace(dead=True)),
                (first._replace(dead=True),),
            )
        )
        route = Uplink(both, IPV4).route_to(NETWORK)
        assert isinstance(route, Route)
        assert route.next_hops == (first._replace(linkdown=False), second)
        one = Uplink(both, IPV4).route_to(NETWORK, dev="eth1")
        assert isinstance(one, Route)
        assert one.next_hops == (second._replace(weight=1),)
        assert way(half) == BY_ETH0
        assert way(none) == NO_DEFAULT
        assert way(both, "10.1.0.7") == "via 10.1.0.7 dev eth1 proto hostrouting"
        assert way(both, "10.0.0.7") == "via 10.0.0.7 dev eth0 proto hostrouting"
        assert (
            way(both, "10.5.0.7")
            == "an address or route on eth0 that reaches the gateway 10.5.0.7 directly"
        )
        assert way(both, "10.1.0.7", "eth1") == "via 10.1.0.7 dev eth1 proto hostrouting"

    def test_one_gateway_on_two_devices(self) -> None:
        """A given gateway is one next hop: the first of the default route that has it."""
        next_hops = (
            NextHop("eth0", gateway=as_ip("fe80::1")),
            NextHop("eth1", gateway=as_ip("fe80::1")),
        )
        there = node([Route(Prefix.parse("::/0"), next_hops, metric=1024)])
        assert (
            way(there, "fe80::1", to=Prefix.parse("fd09::/16"))
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
        assert way(there, gateway, dev) == "via 172.31.1.1 dev eth0 onlink proto hostrouting"


TUN0 = Link(name="tun0", index=0, type=65534, kind="tun")
PPP0 = Link(name="ppp0", index=0, type=512, kind="ppp")
WWAN0 = Link(name="wwan0", index=0, type=65534, kind="wwan")
TAP0 = Link(name="tap0", index=0, kind="tun")
TUNNELS = (TUN0, PPP0, WWAN0, TAP0)
BY_TUN0 = away("tun0", next_hops=(NextHop("tun0", gateway=as_ip("10.8.0.1")),))
EQUAL = away("eth1", metric=100)
BY_ANOTHER_ROUTER = DEFAULT._replace(next_hops=(NextHop("eth0", gateway=as_ip("10.0.0.2")),))
ETH0, ETH1, DEAD_TUNNEL = NextHop("eth0"), NextHop("eth1"), NextHop("tun0", dead=True)
IN_DOUBT = {
    "a tunnel's before a card's": ([BY_TUN0, DEFAULT], "tun0 or eth0"),
    "a tunnel's": ([BY_TUN0], "tun0"),
    "a tap's before a card's": ([away("tap0"), DEFAULT], "tap0 or eth0"),
    "a line's before a card's": ([away("ppp0"), DEFAULT], "ppp0 or eth0"),
    "equal ones": ([DEFAULT, EQUAL], "eth0 or eth1"),
    "equal ones, the other first": ([EQUAL, DEFAULT], "eth1 or eth0"),
    "of a card and a tunnel": ([away(next_hops=(ETH0, NextHop("tun0")))], "eth0 or tun0"),
}
CLEAR = {
    "only a line's": [away("ppp0")],
    "only a modem's": [away("wwan0")],
    "a tunnel's with a worse metric": [DEFAULT, BY_TUN0._replace(metric=200)],
    "a tunnel's in another table": [DEFAULT, BY_TUN0._replace(table=100)],
    "another card's with a worse metric": [DEFAULT, away("eth1", metric=200)],
    "two routers on one card": [DEFAULT, BY_ANOTHER_ROUTER],
    "an equal one of InfiniBand": [DEFAULT, away("ib0", metric=100)],
    "an equal one for some packets": [DEFAULT, EQUAL._replace(tos=4)],
    "an equal one of ours": [DEFAULT, EQUAL._replace(protocol=OURS)],
    "of two cards": [away(next_hops=(ETH0, ETH1))],
    "of a card and a dead tunnel": [away(next_hops=(ETH0, DEAD_TUNNEL))],
}


class TestDoubt:
    """A default route that may not be the network's is in doubt: a route without a device is not
    planned by it.
    """

    @pytest.mark.parametrize(("routes", "devs"), IN_DOUBT.values(), ids=IN_DOUBT)
    def test_which_is_in_doubt(self, routes: list[Route], devs: str) -> None:
        """The need names the devices, and the gateway of the wanted route does not say which. A
        named device is never in doubt.
        """
        there = host(INTERFACES, routes, links=[*LINKS, *TUNNELS])
        quoted = re.sub(r"(\w*[0-9])", r'"\1"', devs)
        need = Uplink(there, IPV4).route_to(NETWORK)
        assert isinstance(need, Need)
        assert str(need).startswith("a device to be named: [default ")
        assert str(need.remedy).startswith(f'write "dev": {quoted} into the configured route, or ')
        assert way(there, "10.0.0.9") == str(need)
        assert way(there, "10.0.0.9", "eth0") == "via 10.0.0.9 dev eth0 proto hostrouting"

    @pytest.mark.parametrize("routes", CLEAR.values(), ids=CLEAR)
    def test_which_is_not_in_doubt(self, routes: list[Route]) -> None:
        """A route is planned by it."""
        there = host(INTERFACES, routes, links=[*LINKS, *TUNNELS])
        assert "proto hostrouting" in way(there)

    @pytest.mark.parametrize(
        ("expected", "routes", "means"),
        [
            (["eth0"], [away(metric=100), DEFAULT], BY_ETH0),
            (["eth0", "ib0"], [away(metric=100), DEFAULT], BY_ETH0),
            (["eth0"], [BY_TUN0, DEFAULT], BY_ETH0),
            (["tun0"], [BY_TUN0, DEFAULT], "via 10.8.0.1 dev tun0 proto hostrouting"),
            (["eth1"], [DEFAULT], BY_ETH0),
            (["eth0"], [BY_TUN0], "an IPv4 default route on eth0"),
            (
                ["eth0"],
                [BY_TUN0, DEFAULT._replace(table=100)],
                "an IPv4 default route on eth0",
            ),
            (["eth9"], [away(metric=100), DEFAULT], "an IPv4 default route on eth9"),
            (["eth0", "eth1"], [away(metric=100), DEFAULT], "a device to be named: "),
            (["eth0", "eth9"], [away(metric=100), DEFAULT], "a device to be named: "),
            (["ib0"], [away(metric=100), DEFAULT], "a device to be named: "),
        ],
        ids=str,
    )
    def test_settled(self, expected: list[str], routes: list[Route], means: str) -> None:
        """The one expected device that can have the default route: by its default route in table
        main.
        """
        near = Route.to("10.8.0.0/24", dev="tun0")
        there = host(INTERFACES, [*routes, near], links=[*LINKS, TUN0])
        assert way(there, expected=expected).startswith(means)
        if means == BY_ETH0:
            by_other = way(there, "10.0.0.9", expected=expected)
            assert by_other == "via 10.0.0.9 dev eth0 proto hostrouting"

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
        there = host(interfaces, [away("tap0")], links=[TAP0, *links, *LINKS])
        assert way(there).startswith("a device to be named: ") is is_in_doubt

    def test_several_routers(self) -> None:
        """The devices of one IPv6 route that routers advertise are in doubt; of any other one, all
        are used.
        """
        hops = (
            NextHop("eth0", gateway=as_ip("fe80::1")),
            NextHop("eth1", gateway=as_ip("fe80::2")),
        )
        everywhere, somewhere = map(Prefix.parse, ("::/0", "fd09::/16"))
        for protocol, is_in_doubt in ((9, True), (3, False)):
            there = node([Route(everywhere, hops, metric=1024, protocol=protocol)])
            assert way(there, to=somewhere).startswith("a device to be named: ") is is_in_doubt


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
            ("10.0.0.4", "eth0", "a gateway other than 10.0.0.4, this host's own address"),
            ("10.1.0.9", "eth1", "the device eth1 to be up"),
        ],
    )
    def test_without_a_default_route(
        self, gateway: str | None, dev: str | None, means: str
    ) -> None:
        """The device has to be there and up, and its neighbour be a router, and not this host."""
        down = Link(name="eth1", index=3, up=False)
        assert way(host(INTERFACES, links=[down]), gateway, dev) == means

    def test_what_reaches_a_gateway(self) -> None:
        """A route of table main without a gateway, but not one of ours: it may go."""
        flat = Route.to("192.168.0.0/24", dev="eth0")
        needs = "an address or route on eth0 that reaches the gateway 192.168.0.1 directly"
        for route, means in (
            (flat, "via 192.168.0.1 dev eth0 proto hostrouting"),
            (
                flat._replace(prefix=Prefix.parse("192.168.0.1/32")),
                "via 192.168.0.1 dev eth0 proto hostrouting",
            ),
            (flat._replace(protocol=OURS), needs),
            (flat._replace(table=100), needs),
            (flat._replace(next_hops=(NextHop("eth1"),)), needs),
            (
                flat._replace(
                    next_hops=(NextHop("eth0"), NextHop("eth0", gateway=as_ip("10.0.0.1")))
                ),
                needs,
            ),
        ):
            assert way(plain_vm().snapshot().with_routes([route]), "192.168.0.1", "eth0") == means

    def test_a_device_without_ipv6(self) -> None:
        """A route by it waits until IPv6 is enabled there: Linux refuses it until then."""
        there = Snapshot(
            (Link(name="eth1", index=2, ipv6_disabled=True),), (), default_rules(6), ()
        )
        assert (
            way(there, "fe80::1", "eth1", to=Prefix.parse("fd09::/16"))
            == "IPv6 to be enabled on eth1"
        )
        assert way(there, "10.1.0.1", "eth1").endswith(
            " that reaches the gateway 10.1.0.1 directly"
        )
