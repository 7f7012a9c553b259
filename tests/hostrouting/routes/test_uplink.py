"""hostrouting.routes.uplink: the default route, and how it completes routes without device or gateway."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.check.judge import Judge
from hostrouting.config.settings import RouteOverlapConfig
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import OURS, TABLE_MAIN, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link, Snapshot
from hostrouting.routes.uplink import DesiredRoute, Pending, Uplink
from tests.support.commands import furnish
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.topologies import host, plain

ANYWHERE = Prefix.parse("0.0.0.0/0")
LOCAL, MAIN, LAST = default_rules(4)
INTERFACES = [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24"), ("wg0", "10.2.0.4/24")]
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100)


def away(table: int, dev: str = "eth1") -> Route:
    """A default route in another table."""
    return Route.to("0.0.0.0/0", dev=dev, table=table)


def to_100(priority: int = 9, **selector: Any) -> Rule:
    """A rule that looks up table 100."""
    return Rule(family=4, priority=priority, table=100, **selector)


def refusing(kind: Literal["unreachable", "throw"], metric: int = 0) -> Route:
    """A default route that refuses packets, or sends them on to the next rule."""
    return Route.to("0.0.0.0/0", type=kind, metric=metric)


MOST = (LOCAL, MAIN, LAST)
NINE = Prefix.parse("9.0.0.0/8")
TUNNEL = (
    Rule(family=4, priority=7, table=254, suppress_prefixlength=0),
    Rule(family=4, priority=8, table=51820, fwmark=0xCA6C, fwmask=0xFFFFFFFF, invert=True),
)
HALVES = tuple(Route.to(half, dev="wg0") for half in ("0.0.0.0/1", "128.0.0.0/1"))
# Routes and rules, and the device that is expected. An open route gets that, too, but for OF_MAIN.
WAYS: dict[str, tuple[tuple[Route, ...], tuple[Rule, ...], str]] = {
    "a table that a rule looks up": ((away(100),), (*MOST, to_100(32768)), "eth1"),
    "table default": ((away(253),), MOST, "eth1"),
    "table main comes before table default": ((DEFAULT, away(253)), MOST, "eth0"),
    "an earlier rule": ((DEFAULT, away(100)), (LOCAL, to_100(), MAIN), "eth1"),
    "a table that no rule looks up": ((away(100),), MOST, ""),
    "a rule by source": ((DEFAULT, away(100)), (LOCAL, to_100(src=Prefix.parse("10.1.0.4/32")), MAIN), "eth0"),
    "a rule by mark": ((DEFAULT, away(100)), (LOCAL, to_100(fwmark=1, fwmask=1), MAIN), "eth0"),
    "a rule by a mark that 0 fulfils": ((DEFAULT, away(100)), (LOCAL, to_100(fwmark=0, fwmask=15), MAIN), "eth1"),
    "a rule by what the host itself sends": ((DEFAULT, away(100)), (LOCAL, to_100(iif="lo"), MAIN), "eth1"),
    "a rule that selects nothing": ((DEFAULT, away(100)), (LOCAL, to_100(invert=True), MAIN), "eth0"),
    "a rule by destination": ((DEFAULT, away(100)), (LOCAL, to_100(dst=NINE), MAIN), "eth0"),
    "wg-quick": ((DEFAULT, away(51820, "wg0")), (LOCAL, *TUNNEL, MAIN), "wg0"),
    "wg-quick, whose tunnel is down": ((DEFAULT,), (LOCAL, *TUNNEL, MAIN), "eth0"),
    "a VPN by halves": ((DEFAULT, *HALVES), MOST, "eth0"),
    "halves alone": (HALVES, MOST, ""),
    "the first one is unreachable": ((refusing("unreachable"), DEFAULT), MOST, "eth0"),
    "a throw goes on with the next rule": ((refusing("throw"), away(253)), MOST, "eth1"),
    "one for a tos only": ((DEFAULT, away(254)._replace(tos=0x10)), MOST, "eth0"),
    "a dead one": ((Route(ANYWHERE, (NextHop("eth1", dead=True, linkdown=True),)), DEFAULT), MOST, "eth0"),
    "ours": ((away(254)._replace(protocol=OURS), DEFAULT), MOST, "eth0"),
    "InfiniBand comes first": ((away(254, "ib0"), DEFAULT), MOST, "eth0"),
    "InfiniBand alone": ((away(254, "ib0"),), MOST, ""),
    "lo": ((away(254, "lo"), DEFAULT), MOST, "eth0"),
}


OF_MAIN = {
    "a table that a rule looks up": "",
    "table default": "",
    "an earlier rule": "eth0",
    "a rule by a mark that 0 fulfils": "eth0",
    "a rule by what the host itself sends": "eth0",
    "wg-quick": "eth0",
    "a throw goes on with the next rule": "",
}
"""The device that an open route gets: that of the best default route in table main, whatever the rules are."""


def meant(wish: DesiredRoute, snapshot: Snapshot) -> str:
    """The resolved route, or what is missing, as text."""
    return str(resolved(wish, snapshot))


def resolved(wish: DesiredRoute, snapshot: Snapshot) -> Route | Pending:
    """The resolved route, or what is missing."""
    return Uplink(snapshot, wish.destination.family).resolve(wish)


def want(gateway: str | None = None, dev: str | None = None) -> DesiredRoute:
    """A desired route to one network."""
    return DesiredRoute(Prefix.parse("10.9.0.0/16"), None if gateway is None else as_ip(gateway), dev)


def node(routes: tuple[Route, ...] | list[Route], rules: tuple[Rule, ...] = MOST) -> Snapshot:
    """A host with these routes and rules, three usual devices and ib0."""
    infiniband = Link(name="ib0", index=7, type=ARPHRD_INFINIBAND)
    return host(INTERFACES, routes, rules=rules, links=[infiniband])


class TestDefaultRoute:
    """The default route is the one for the host's own packets."""

    @pytest.mark.parametrize("name", WAYS)
    def test_the_way_of_plain_packets(self, name: str) -> None:
        """An open route has the device of table main's default route; halves, and routes of ours, are not taken for it."""
        routes, rules, dev = WAYS[name]
        snapshot = node(routes, rules)
        route = resolved(want(), snapshot)
        of_main = OF_MAIN.get(name, dev)
        assert (route.devs if isinstance(route, Route) else ()) == ((of_main,) if of_main else ())
        if name not in {"halves alone", "ours"}:
            assert Judge(Fib(snapshot, IPV4), RouteOverlapConfig()).uplinks.devs == ({dev} if dev else set())

    def test_by_a_device(self) -> None:
        """For a given device, it is the first one by that device, whatever comes before it: InfiniBand can be named."""
        snapshot = node([DEFAULT, away(254, "ib0"), away(51820, "wg0")], (LOCAL, *TUNNEL, MAIN))
        ways = [meant(want(dev=dev), snapshot) for dev in ("eth0", "ib0", "wg0", "eth1")]
        assert ways == [
            "10.9.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting",
            "10.9.0.0/16 dev ib0 proto hostrouting scope link",
            "10.9.0.0/16 dev wg0 proto hostrouting scope link",
            "10.9.0.0/16 dev eth1: waiting for an IPv4 default route on eth1",
        ]


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """Four devices; eth0 has an address of each family."""
    with private_namespace() as made:
        furnish(made)
        made.batch([f"rule add pref {pref} lookup 100 {how}" for pref, how in ((9, "from 9.9.9.9"), (40000, ""))])
        yield made


@pytest.mark.linux
@pytest.mark.needs("root")
@settings(max_examples=scaled(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), family=st.sampled_from([IPV4, IPV6]))
def test_an_open_route_is_that_of_table_main(namespace: Namespace, data: st.DataObject, family: int) -> None:
    """Where table main has the default route, Linux sends packets by the next hops of an open route, and accepts it."""
    ways = {IPV4: ["10.0.0.1", "10.0.0.2", None], IPV6: ["fd00:99::1", "fe80::2", None]}[family]
    defaults = data.draw(
        st.lists(
            st.builds(
                lambda way, dev, metric, table: Route.to(
                    Prefix(family, 0, 0), dev="eth0" if way else dev, gateway=way, metric=metric, table=table
                ),
                st.sampled_from(ways),
                st.sampled_from(["eth0", "eth1", "wg0"]),
                st.sampled_from([5, 100, 1024]),
                st.sampled_from([254, 254, 100]),
            ),
            max_size=4,
            unique_by=lambda route: route.key,
        )
    )
    wish = DesiredRoute(Prefix.parse({IPV4: "203.0.113.0/24", IPV6: "2001:db8::/32"}[family]))
    with namespace.inside(), NetlinkBackend() as backend:
        made = [outcome for outcome in backend.change([RouteRequest("add", route) for route in defaults]) if outcome.ok]
        try:
            route = resolved(wish, backend.snapshot())
            [answer] = backend.lookup([wish.destination.ip])
            if answer.route is not None and answer.route.table != TABLE_MAIN:
                answer = answer._replace(route=None)
            assert isinstance(route, Route) == (answer.route is not None)
            if isinstance(route, Route) and answer.route is not None:
                assert [(leg.dev, leg.gateway) for leg in route.legs] == [
                    (leg.dev, leg.gateway) for leg in answer.route.legs
                ]
                assert all(
                    outcome.ok for verb in ("add", "delete") for outcome in backend.change([RouteRequest(verb, route)])
                )
        finally:
            backend.change([RouteRequest("delete", outcome.change.route) for outcome in made])


class TestWhatIsMeant:
    """Missing fields are taken from the default route."""

    @pytest.mark.parametrize(
        ("wish", "routes", "said"),
        [
            (want(), [DEFAULT], " via 10.0.0.1 dev eth0 proto hostrouting"),
            (want("10.0.0.9", "eth0"), [], " via 10.0.0.9 dev eth0 proto hostrouting"),
            (want(), [away(254), DEFAULT], " dev eth1 proto hostrouting scope link"),
            (want(dev="eth0"), [away(254), DEFAULT], " via 10.0.0.1 dev eth0 proto hostrouting"),
            (want(), [DEFAULT._replace(protocol=OURS)], ": waiting for an IPv4 default route"),
            (want("10.0.0.1"), [], ": waiting for an IPv4 default route"),
            (want(dev="eth1"), [DEFAULT], " dev eth1: waiting for an IPv4 default route on eth1"),
            (want("10.0.0.9", "eth9"), [DEFAULT], ": waiting for the device eth9"),
            (want("10.7.0.9"), [DEFAULT], "on eth0 that reaches the gateway 10.7.0.9 directly"),
        ],
        ids=str,
    )
    def test_what_is_missing_or_found(self, wish: DesiredRoute, routes: list[Route], said: str) -> None:
        """Device and gateway of the default route, unless they are given; else what is missing."""
        assert meant(wish, host(INTERFACES, routes)).startswith("10.9.0.0/16")
        assert said in meant(wish, host(INTERFACES, routes))

    def test_ecmp_default(self) -> None:
        """Of several next hops: all, or one by its device; a gateway is asked for by the first; not in their present state."""
        first = NextHop("eth0", gateway=as_ip("10.0.0.1"), linkdown=True, weight=2)
        second = NextHop("eth1", gateway=as_ip("10.1.0.1"), weight=3)
        snapshot = host(INTERFACES, [Route(ANYWHERE, (first, second))])
        both, of_eth1 = resolved(want(), snapshot), resolved(want(dev="eth1"), snapshot)
        assert isinstance(both, Route)
        assert isinstance(of_eth1, Route)
        assert both.legs == (first._replace(linkdown=False), second)
        assert of_eth1.legs == (second._replace(weight=1),)
        assert "an address or route on eth0 that reaches the gateway 10.1.0.7" in meant(want("10.1.0.7"), snapshot)
        assert meant(want("10.1.0.7", "eth1"), snapshot) == "10.9.0.0/16 via 10.1.0.7 dev eth1 proto hostrouting"

    def test_one_gateway_on_two_devices(self) -> None:
        """A given gateway is one next hop: the first of the default route that has it."""
        legs = (NextHop("eth0", gateway=as_ip("fe80::1")), NextHop("eth1", gateway=as_ip("fe80::1")))
        snapshot = node([Route(Prefix.parse("::/0"), legs, metric=1024)], default_rules(6))
        assert meant(DesiredRoute(Prefix.parse("fd09::/16"), as_ip("fe80::1")), snapshot) == (
            "fd09::/16 via fe80::1 dev eth0 proto hostrouting metric 1024"
        )

    def test_a_leg_that_is_down(self) -> None:
        """A next hop of an ECMP default that is dead is left out; if none is left, there is no default route."""
        alive, dead = NextHop("eth0", gateway=as_ip("10.0.0.1"), weight=3), NextHop("eth1", dead=True)
        half = host(INTERFACES, [Route(ANYWHERE, (alive, dead))])
        assert meant(want(), half) == "10.9.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting"
        assert "waiting for an IPv4 default route" in meant(want(), host(INTERFACES, [Route(ANYWHERE, (dead, dead))]))

    @pytest.mark.parametrize("wish", [want("172.31.1.1", "eth0"), want("172.31.1.1"), want(dev="eth0"), want()])
    def test_an_on_link_default(self, wish: DesiredRoute) -> None:
        """The default gateway is on-link if the default route says so, whether it is given or automatic."""
        legs = (NextHop("eth0", gateway=as_ip("172.31.1.1"), onlink=True),)
        snapshot = host([("eth0", "10.0.0.4/32")], [Route(ANYWHERE, legs)])
        assert meant(wish, snapshot) == "10.9.0.0/16 via 172.31.1.1 dev eth0 onlink proto hostrouting"

    def test_an_own_address_as_gateway(self) -> None:
        """It is refused: Linux would accept it and lose the packets."""
        words = "waiting for 10.0.0.4 to be a router next to this host (it is this host's own address)"
        assert meant(want("10.0.0.4", "eth0"), plain()) == f"10.9.0.0/16 via 10.0.0.4 dev eth0: {words}"

    def test_a_gateway_beyond_a_global_route(self) -> None:
        """A destination of a route with global scope is not a neighbour, and one of ours does not count: it may go."""
        flat = Route.to("192.168.0.0/24", dev="eth0")._replace(scope=0)
        wish = want("192.168.0.1", "eth0")
        for route in (flat, flat._replace(scope=253, protocol=OURS)):
            assert "that reaches the gateway 192.168.0.1 directly" in meant(wish, plain().with_routes([route]))
        linked = plain().with_routes([flat._replace(scope=253)])
        assert meant(wish, linked) == "10.9.0.0/16 via 192.168.0.1 dev eth0 proto hostrouting"

    def test_a_device_without_ipv6(self) -> None:
        """A route by it waits until IPv6 is enabled there: Linux refuses it until then."""
        snapshot = Snapshot(links=(Link(name="eth1", index=2, ipv6_disabled=True),), rules=default_rules(6))
        wish = DesiredRoute(Prefix.parse("fd09::/16"), as_ip("fe80::1"), dev="eth1")
        assert meant(wish, snapshot) == f"{wish}: waiting for IPv6 to be enabled on eth1"
