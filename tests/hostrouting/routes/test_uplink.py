"""hostrouting.routes.uplink: the default route, and how it completes routes without device or gateway."""

from ipaddress import IPv4Network
from typing import Any, Literal

import attrs
import pytest

from hostrouting.errors import BackendError, RouteRefused
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import IPV6, Prefix, as_ip
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, ARPHRD_LOOPBACK, Link, Snapshot
from hostrouting.routes.uplink import (
    DesiredRoute,
    Uplink,
    default_route,
    is_held,
    missing_default,
    outbound_devs,
    resolve_route,
    seen_instead,
    way_round,
)
from hostrouting.testing.topologies import h200, plain_vm
from tests.support.topologies import host, plain

ANYWHERE = Prefix.parse("0.0.0.0/0")
LOCAL, MAIN, LAST = default_rules(4)
INTERFACES = [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24")]
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100)


def by(*routes: Route, rules: tuple[Rule, ...] = (LOCAL, MAIN, LAST)) -> str:
    """The device of the default route of a host with these routes and rules; empty if there is none."""
    return ",".join(outbound_devs(Fib(host(INTERFACES, routes, rules=rules))))


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
# Routes and rules, and the device of the default route.
WAYS: dict[str, tuple[tuple[Route, ...], tuple[Rule, ...], str]] = {
    "a table that a rule looks up": ((away(100),), (*MOST, to_100(32768)), "eth1"),
    "table default": ((away(253),), MOST, "eth1"),
    "table main comes before table default": ((DEFAULT, away(253)), MOST, "eth0"),
    "an earlier rule": ((DEFAULT, away(100)), (LOCAL, to_100(), MAIN), "eth1"),
    "a table that no rule looks up": ((away(100),), MOST, ""),
    "a rule by source": ((DEFAULT, away(100)), (LOCAL, to_100(src=Prefix.parse("10.1.0.4/32")), MAIN), "eth0"),
    "a rule by mark": ((DEFAULT, away(100)), (LOCAL, to_100(fwmark=1, fwmask=1), MAIN), "eth0"),
    "a rule by destination": ((DEFAULT, away(100)), (LOCAL, to_100(dst=NINE), MAIN), "eth0"),
    "a rule for all but one network": ((DEFAULT, away(100)), (LOCAL, to_100(dst=NINE, invert=True), MAIN), "eth1"),
    "a goto beyond a rule": (
        (DEFAULT, away(100)),
        (LOCAL, Rule(family=4, priority=5, action="goto", target=32766), to_100(), MAIN),
        "eth0",
    ),
    "a rule that refuses all": ((DEFAULT,), (LOCAL, Rule(family=4, priority=9, action="prohibit"), MAIN), ""),
    "wg-quick": ((DEFAULT, away(51820, "wg0")), (LOCAL, *TUNNEL, MAIN), "wg0"),
    "wg-quick, whose tunnel is down": ((DEFAULT,), (LOCAL, *TUNNEL, MAIN), "eth0"),
    "wg-quick, without the rule for main": ((DEFAULT,), (LOCAL, *TUNNEL), "eth0"),
    "the first one is unreachable": ((refusing("unreachable"), DEFAULT), MOST, ""),
    "a later one is unreachable": ((refusing("unreachable", 200), DEFAULT), MOST, "eth0"),
    "a throw goes on with the next rule": ((refusing("throw"), DEFAULT, away(253)), MOST, "eth1"),
    "one for a tos only": ((DEFAULT, attrs.evolve(away(254), tos=0x10)), MOST, "eth0"),
}


class TestDefaultRoute:
    """The default route is the one for the host's own packets."""

    @pytest.mark.parametrize("name", WAYS)
    def test_the_way_of_plain_packets(self, name: str) -> None:
        """It is in the first table looked up for packets of which nothing is known, unless a rule or route refuses."""
        routes, rules, dev = WAYS[name]
        assert by(*routes, rules=rules) == dev

    def test_a_suppressed_one_by_its_device(self) -> None:
        """The tunnel's own packets use the default route that wg-quick suppresses."""
        both = Fib(host(INTERFACES, [DEFAULT, away(51820, "wg0")], rules=(LOCAL, *TUNNEL, MAIN)))
        assert default_route(both, dev="eth0") == DEFAULT

    def test_a_group_is_suppressed(self) -> None:
        """A rule that suppresses the first default route of its table does not use the next one of that table either."""
        links = [Link(name="eth1", index=9, group=7)]
        worse = attrs.evolve(DEFAULT, metric=200)
        rules = (LOCAL, attrs.evolve(MAIN, suppress_ifgroup=7), LAST)
        fib = Fib(host(INTERFACES, [away(254), worse, away(253, "ib0")], rules=rules, links=links))
        assert outbound_devs(fib) == ("ib0",)

    def test_by_a_device(self) -> None:
        """For a given device, the default route is the first one by that device, whatever comes before it."""
        fib = Fib(host(INTERFACES, [Route.to("0.0.0.0/0", type="unreachable"), DEFAULT, away(253)]))
        assert default_route(fib, dev="eth1") == away(253)
        assert default_route(fib, dev="ib0") is None

    def test_others_in_turn(self) -> None:
        """Default routes of a later table that take turns among themselves do not count."""
        others = (Route.to("0.0.0.0/0", dev=dev, gateway="10.1.0.1", table=253) for dev in ("eth1", "eth2"))
        assert by(DEFAULT, *others) == "eth0"

    def test_seen_instead_of_the_other_family(self) -> None:
        """A table that only a rule of IPv6 looks up has no IPv4 default route that could be meant."""
        fib = Fib(host(INTERFACES, [away(100)], rules=(*MOST, Rule(family=6, priority=9, table=100))))
        assert seen_instead(fib) == "no default route"

    def test_dead(self) -> None:
        """A default route whose next hops are all dead does not count; the error names it if a rule looks it up."""
        dead = Route(ANYWHERE, (NextHop("eth1", dead=True, linkdown=True),))
        assert by(dead, DEFAULT) == "eth0"
        assert seen_instead(Fib(host([], [dead]))) == "a default route by eth1 that is not in use"
        assert seen_instead(Fib(host([], [attrs.evolve(dead, table=100)]))) == "no default route"

    def test_ipv6(self) -> None:
        """Each family has its own default route."""
        six = Route.to("::/0", dev="eth1", gateway="fe80::1", metric=1024)
        fib = Fib(Snapshot(rules=default_rules(6) + default_rules(4), routes=[six, DEFAULT]))
        assert (outbound_devs(fib, family=6), outbound_devs(fib)) == (("eth1",), ("eth0",))

    def test_in_turn_with_a_multipath_route(self) -> None:
        """If Linux uses a multipath route in turn with another route, the first next hop is taken."""
        legs = (NextHop("eth1", gateway=as_ip("10.1.0.1")), NextHop("ib0", gateway=as_ip("10.2.0.1")))
        fib = Fib(host(INTERFACES, [DEFAULT, Route(ANYWHERE, legs, metric=DEFAULT.metric)]))
        assert outbound_devs(fib) == ("eth0", "eth1")

    @pytest.mark.parametrize("family", [4, 6])
    @pytest.mark.parametrize(
        ("metrics", "devs"),
        [
            ({"ib0": 50, "eth0": 100}, ("eth0",)),
            ({"eth0": 100, "ib0": 100}, ("eth0",)),
            ({"ib0": 100, "eth0": 100, "eth1": 100}, ("eth0", "eth1")),
            ({"ib0": 100}, ()),
        ],
    )
    def test_infiniband(self, metrics: dict[str, int], devs: tuple[str, ...], family: int) -> None:
        """InfiniBand is never expected, whether its default route comes first, in turn with another, or alone."""
        gateway = {4: "10.0.0.1", 6: "fe80::1"}[family]
        anywhere = Prefix(family, 0, 0)
        routes = [Route.to(anywhere, dev=dev, gateway=gateway, metric=metric) for dev, metric in metrics.items()]
        links = (Link(name="ib0", index=8, type=ARPHRD_INFINIBAND), Link(name="eth0", index=2))
        fib = Fib(Snapshot(links=links, rules=default_rules(family), routes=routes))
        assert outbound_devs(fib, family=family) == devs
        if not devs:
            told = "a default route by ib0 (InfiniBand, which expectedDevs has to name)"
            assert seen_instead(fib, family=family) == told

    @pytest.mark.parametrize("family", [4, 6])
    @pytest.mark.parametrize(("others", "devs"), [({"eth0": 100}, ("eth0",)), ({}, ())])
    def test_loopback(self, others: dict[str, int], devs: tuple[str, ...], family: int) -> None:
        """What leaves by lo, whatever it is called, does not leave the host. Kills: lo is expected."""
        routes = [Route.to(Prefix(family, 0, 0), dev=dev, metric=at) for dev, at in {"loop0": 5, **others}.items()]
        links = (Link(name="loop0", index=1, type=ARPHRD_LOOPBACK), Link(name="eth0", index=2))
        fib = Fib(Snapshot(links=links, rules=default_rules(family), routes=routes))
        assert outbound_devs(fib, family=family) == devs
        if not devs:
            told = "a default route by loop0, which keeps all packets on this host"
            assert seen_instead(fib, family=family) == told

    def test_infiniband_in_a_multipath_route(self) -> None:
        """Of a default route with next hops by both, the network card is expected."""
        legs = (NextHop("ib0", gateway=as_ip("10.2.0.1")), NextHop("eth0", gateway=as_ip("10.0.0.1")))
        links = [Link(name="ib0", index=8, type=ARPHRD_INFINIBAND)]
        assert outbound_devs(Fib(host([], [Route(ANYWHERE, legs)], links=links))) == ("eth0",)

    @pytest.mark.parametrize(("forwarding", "devs"), [(False, ("eth0", "eth1")), (True, ("eth0",))])
    def test_two_ipv6_routers(self, *, forwarding: bool, devs: tuple[str, ...]) -> None:
        """A host that does not forward tries the next router of the same rank if the first does not answer."""
        first, alike, worse, lower = (
            Route.to("::/0", dev=dev, gateway="fe80::1", metric=metric)
            for dev, metric in (("eth0", 1024), ("eth1", 1024), ("ib0", 1025), ("ib1", 1024))
        )
        lower = attrs.evolve(lower, preference="low")
        routes = [first, alike, worse, lower]
        fib = Fib(Snapshot(rules=default_rules(6), routes=routes, ipv6_forwarding=forwarding))
        assert outbound_devs(fib, family=6) == devs
        on_link = attrs.evolve(first, legs=(NextHop("eth0"),))
        fib = Fib(Snapshot(rules=default_rules(6), routes=[on_link, alike], ipv6_forwarding=forwarding))
        assert outbound_devs(fib, family=6) == ("eth0",)


def meant(wish: DesiredRoute, snapshot: Snapshot) -> str:
    """The resolved route, or what is missing, as text."""
    return str(resolve_route(wish, Fib(snapshot)))


def want(gateway: str | None = None, dev: str | None = None) -> DesiredRoute:
    """A desired route to one network."""
    return DesiredRoute(IPv4Network("10.9.0.0/16"), gateway=gateway, dev=dev)


class TestDesiredRoute:
    """A static route as it is wanted."""

    def test_in_words(self) -> None:
        """Only what is given is said; the fields behind the destination are told apart by their names."""
        wish = DesiredRoute("10.9.0.0/16", gateway="10.0.0.9", dev="eth0", metric=7)
        assert (str(wish), repr(wish)) == (
            text := "10.9.0.0/16 via 10.0.0.9 dev eth0 metric 7",
            f"<DesiredRoute {text}>",
        )
        assert str(DesiredRoute("10.9.0.0/16")) == "10.9.0.0/16"
        with pytest.raises(TypeError):
            DesiredRoute("10.9.0.0/16", "eth0")  # type: ignore[call-arg]  # what is refused

    def test_left_open(self) -> None:
        """The fields that the default route fills in equally stay open, but the metric never, and the device if asked."""
        uplink = Uplink(Fib(host(INTERFACES, [DEFAULT])))
        wish = attrs.evolve(want("10.0.0.1", "eth0"), metric=7)
        assert str(uplink.leave_open(wish)) == "10.9.0.0/16 metric 7"
        assert str(uplink.leave_open(wish, names_dev=True)) == "10.9.0.0/16 dev eth0 metric 7"
        other = want("10.0.0.9", "eth0")
        assert uplink.leave_open(other) == other

    def test_a_way_round(self) -> None:
        """One route with a metric that is free, in IPv6 also the lowest one; or the halves."""
        [four, six] = Prefix.parse("10.9.0.0/16"), Prefix.parse("fd09::/16")
        assert way_round(six, lambda _, metric: metric != 1) == ((six, 1),)
        assert way_round(four, lambda prefix, _: prefix == four) == tuple((half, 0) for half in four.halves())
        assert way_round(four, lambda prefix, _: prefix != four.halves()[0]) == ()

    @pytest.mark.parametrize(("protocol", "metric", "held"), [(3, 0, True), (3, 1, False), (OURS, 0, False)])
    def test_what_holds_a_route(self, protocol: int, metric: int, *, held: bool) -> None:
        """A route of others with this metric or a lower one; ours never does."""
        route = Route.to("10.9.0.0/16", dev="ib0", protocol=protocol, metric=metric)
        assert is_held(route.prefix, 0, Fib(host(INTERFACES, [route]))) is held


class TestWhatIsMeant:
    """Missing fields are taken from the default route."""

    def test_nothing_of_what_the_kernel_reports(self) -> None:
        """The route has our protocol, and its next hop the weight of a single one and no state."""
        legs = NextHop("eth0", gateway=as_ip("10.0.0.1"), weight=2, pervasive=True), NextHop("eth1", weight=2)
        fib = Fib(host(INTERFACES, [Route(ANYWHERE, legs)]))
        found = resolve_route(want("10.0.0.1"), fib)
        assert found == Route.to("10.9.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS)
        assert isinstance(found, Route)
        assert found.legs == (NextHop("eth0", gateway=as_ip("10.0.0.1")),)

    @pytest.mark.parametrize("first", [NextHop("eth0"), NextHop("eth0", gateway=as_ip("fe80::1"))])
    def test_each_next_hop_is_judged(self, first: NextHop) -> None:
        """One that needs nothing does not hide what the next one lacks."""
        six = Route(Prefix.parse("::/0"), (first, NextHop("eth1", gateway=as_ip("2001:db8::1"))))
        links = (Link(name="eth0", index=2), Link(name="eth1", index=3))
        fib = Fib(Snapshot(links=links, rules=default_rules(6), routes=[six]))
        found = str(resolve_route(DesiredRoute("fd09::/16"), fib))
        assert "an address or route on eth1 that reaches the gateway 2001:db8::1 directly" in found

    @pytest.mark.parametrize("protocol", [OURS, 3])
    @pytest.mark.parametrize("kind", ["unicast", "unreachable"])
    def test_a_gateway_beyond_one_of_our_routes(self, protocol: int, kind: Literal["unicast", "unreachable"]) -> None:
        """Such a route may go, so it does not count; of others' only one that leads anywhere does."""
        legs = (NextHop("eth0"),)
        near = Route(Prefix.parse("10.7.0.0/16"), legs, protocol=protocol, type=kind, scope=253)
        said = meant(want("10.7.0.9", "eth0"), host(INTERFACES, [DEFAULT, near]))
        assert ("reaches the gateway" in said) is not (protocol != OURS and kind == "unicast")

    def test_the_rule_for_main_is_missing(self) -> None:
        """Only where table main has such a default route, its rule is what is missing."""
        rule = "the rule for table main (ip rule add pref 32766 lookup main)"
        for routes, dev, said in (
            ([DEFAULT], None, rule),
            ([DEFAULT], "eth1", "an IPv4 default route on eth1"),
            ([refusing("unreachable")], None, "an IPv4 default route"),
        ):
            fib = Fib(host(INTERFACES, routes, rules=(LOCAL, LAST)))
            assert missing_default(fib, family=4, dev=dev) == said

    @pytest.mark.parametrize(
        ("wish", "routes", "said"),
        [
            (want(), [DEFAULT], " via 10.0.0.1 dev eth0 proto hostrouting"),
            (want("10.0.0.9", "eth0"), [], " via 10.0.0.9 dev eth0 proto hostrouting"),
            (want(), [away(254), DEFAULT], " dev eth1 proto hostrouting scope link"),
            (want(dev="eth0"), [away(254), DEFAULT], " via 10.0.0.1 dev eth0 proto hostrouting"),
            (want(), [attrs.evolve(DEFAULT, protocol=OURS)], ": waiting for an IPv4 default route"),
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
        """Of several next hops: all, one by its device, or the one that reaches the gateway; not in their present state."""
        first = NextHop("eth0", gateway=as_ip("10.0.0.1"), linkdown=True, dead=True, weight=2)
        second = NextHop("eth1", gateway=as_ip("10.1.0.1"), weight=3)
        fib = Fib(host(INTERFACES, [Route(ANYWHERE, (first, second))]))
        both, one = resolve_route(want(), fib), resolve_route(want(dev="eth1"), fib)
        assert isinstance(both, Route)
        assert isinstance(one, Route)
        assert both.legs == (attrs.evolve(first, linkdown=False, dead=False), second)
        assert one.legs == (attrs.evolve(second, weight=1),)
        assert str(resolve_route(want("10.1.0.7"), fib)) == "10.9.0.0/16 via 10.1.0.7 dev eth1 proto hostrouting"

    def test_a_leg_that_is_down(self) -> None:
        """A next hop of an ECMP default whose device is down is left out; if none is left, the device is missing."""
        legs = (NextHop("eth0", gateway=as_ip("10.0.0.1"), weight=3), NextHop("eth1", gateway=as_ip("10.1.0.1")))
        down = [Link(name="eth1", index=9, up=False)]
        default = [Route(ANYWHERE, legs)]
        half = host(INTERFACES, default, links=down)
        assert meant(want(), half) == "10.9.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting"
        neither = host(INTERFACES, default, links=[*down, Link(name="eth0", index=8, up=False)])
        assert meant(want(), neither) == "10.9.0.0/16: waiting for the device eth0 to be up"

    @pytest.mark.parametrize("wish", [want("172.31.1.1", "eth0"), want("172.31.1.1"), want(dev="eth0"), want()])
    def test_an_on_link_default(self, wish: DesiredRoute) -> None:
        """The default gateway is on-link if the default route says so, whether it is given or automatic."""
        legs = (NextHop("eth0", gateway=as_ip("172.31.1.1"), onlink=True),)
        snapshot = host([("eth0", "10.0.0.4/32")], [Route(ANYWHERE, legs)])
        assert meant(wish, snapshot) == "10.9.0.0/16 via 172.31.1.1 dev eth0 onlink proto hostrouting"

    @pytest.mark.parametrize(
        ("gateway", "words"), [("10.0.0.4", "this host's own address"), ("10.0.0.255", "a broadcast address")]
    )
    def test_a_gateway_that_is_none(self, gateway: str, words: str) -> None:
        """The host's own address and a broadcast address are refused as a gateway, with the reason."""
        assert meant(want(gateway, "eth0"), plain()) == (
            f"{want(gateway, 'eth0')}: waiting for {gateway} to be a router next to this host (it is {words})"
        )

    def test_a_gateway_under_another_route_of_table_local(self) -> None:
        """Only an own or a broadcast address is no gateway. Kills: `if kind in _TAKEN` -> nothing, which was an error."""
        snapshot = plain()
        around = Route.to("10.0.0.0/30", dev="eth0", table=255, type="anycast")
        with_it = attrs.evolve(snapshot, routes=(*snapshot.routes, around))
        assert meant(want("10.0.0.1", "eth0"), with_it) == meant(want("10.0.0.1", "eth0"), snapshot)

    @pytest.mark.parametrize("gateway", [None, "fe80::1"])
    @pytest.mark.parametrize("dev", ["docker0", "eth0"])
    def test_a_link_local_gateway(self, dev: str, gateway: str | None) -> None:
        """A link-local address of this host is refused as a gateway on its own device only, as Linux refuses it."""
        kernel = h200(dual_stack=True)
        kernel.add_link("docker0")
        kernel.add_address(dev, "fe80::1/64")
        wish = DesiredRoute(Prefix.parse("fd00::/16"), gateway=gateway, dev="eth0")
        found = resolve_route(wish, Fib(kernel.snapshot()))
        route = Route.to("fd00::/16", dev="eth0", gateway="fe80::1", metric=1024, protocol=OURS)
        [outcome] = kernel.change([RouteRequest("add", route)])
        if dev == "eth0":
            assert "fe80::1 to be a router next to this host (it is this host's own address)" in str(found)
            assert "Gateway can not be a local address" in str(outcome.error)
        else:
            assert (found, outcome.error) == (route, None)

    @pytest.mark.parametrize("gateway", ["fe80::1", None])
    def test_a_device_without_ipv6(self, gateway: str | None) -> None:
        """A route by a device on which IPv6 is disabled waits until it is enabled: Linux refuses it until then."""
        kernel = plain_vm()
        kernel.add_link(Link(name="eth1", index=0, ipv6_disabled=True))
        kernel.set_up("eth1")
        route = Route.to("2001:db8::/48", dev="eth1", gateway=gateway, metric=1024, protocol=OURS)
        wish = DesiredRoute(route.prefix, gateway="fe80::1", dev="eth1")
        assert meant(wish, kernel.snapshot()) == f"{wish}: waiting for IPv6 to be enabled on eth1"
        [outcome] = kernel.change([RouteRequest("add", route)])
        assert isinstance(outcome.error, RouteRefused)
        assert outcome.error.kernel == "IPv6 is disabled on nexthop device"
        with pytest.raises(BackendError, match="IPv6 is disabled on this device"):
            kernel.add_address("eth1", "2001:db8::4/64")
        assert not [it for it in kernel.snapshot().routes if it.prefix.family == IPV6 and "eth1" in it.devs]
        kernel.add_address("eth1", "10.1.0.4/24")
        assert meant(want("10.1.0.1", "eth1"), kernel.snapshot()).startswith("10.9.0.0/16 via 10.1.0.1 dev eth1")

    def test_a_gateway_beyond_a_global_route(self) -> None:
        """A destination of a route with global scope is not a neighbour: the kernel refuses it as a gateway."""
        flat = Route.to("192.168.0.0/24", dev="eth0", scope=0)
        wish = want("192.168.0.1", "eth0")
        assert "that reaches the gateway 192.168.0.1 directly" in meant(wish, plain().with_routes([flat]))
        linked = plain().with_routes([attrs.evolve(flat, scope=253)])
        assert meant(wish, linked) == "10.9.0.0/16 via 192.168.0.1 dev eth0 proto hostrouting"

    @pytest.mark.parametrize(("source", "reaches"), [(None, True), ("fd00:16::/124", False), ("::/1", True)])
    def test_a_gateway_beyond_a_route_for_some_sources(self, source: str | None, *, reaches: bool) -> None:
        """A packet for a gateway has no source yet, so a route that is only for other sources does not lead to it."""
        kernel = h200(dual_stack=True)
        direct = Route.to("2001:db8:9::/48", dev="ib0", metric=1024)
        kernel.ip_route("add", attrs.evolve(direct, source=None if source is None else Prefix.parse(source)))
        wish = DesiredRoute(Prefix.parse("fd00::/16"), gateway="2001:db8:9::1", dev="ib0")
        found = resolve_route(wish, Fib(kernel.snapshot()))
        route = Route.to("fd00::/16", dev="ib0", gateway="2001:db8:9::1", metric=1024, protocol=OURS)
        [outcome] = kernel.change([RouteRequest("add", route)])
        assert (outcome.error is None) is reaches
        assert found == route if reaches else "that reaches the gateway 2001:db8:9::1 directly" in str(found)
