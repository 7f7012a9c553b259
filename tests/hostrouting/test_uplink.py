"""hostrouting.uplink: what the default route is, and what a route becomes that leaves things open."""

from ipaddress import IPv4Network

import attrs
import pytest

from hostrouting.fib import Fib
from hostrouting.model import Link, NextHop, Prefix, Route, Rule, Snapshot, as_ip, default_rules
from hostrouting.uplink import DesiredRoute, default_route, outbound_devs, resolve_route
from tests.support.topologies import connected, host, plain

ANYWHERE = Prefix.parse("0.0.0.0/0")
LOCAL, MAIN, LAST = default_rules(4)
INTERFACES = [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24")]
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100)


def by(*routes: Route, rules: tuple[Rule, ...] = (LOCAL, MAIN, LAST)) -> str:
    """The device of the default route of a host with these routes and rules; empty when there is none."""
    return ",".join(outbound_devs(Fib(host(INTERFACES, routes, rules=rules))))


def away(table: int, dev: str = "eth1") -> Route:
    """A default route in another table."""
    return Route.to("0.0.0.0/0", dev=dev, table=table)


class TestDefaultRoute:
    """The default route is the one that the host's own packets take."""

    def test_policy_routing(self) -> None:
        """It may be in any table that a rule leads to, the first that has one."""
        rule = Rule(family=4, priority=32768, table=100)
        assert by(away(100), rules=(LOCAL, MAIN, LAST, rule)) == "eth1"
        assert by(away(253)) == "eth1"
        assert by(DEFAULT, away(253)) == "eth0"
        assert by(DEFAULT, away(100), rules=(LOCAL, attrs.evolve(rule, priority=9), MAIN)) == "eth1"
        assert by(away(100)) == ""

    @pytest.mark.parametrize(
        "selector",
        [{"src": Prefix.parse("10.1.0.4/32")}, {"fwmark": 1, "fwmask": 1}, {"dst": Prefix.parse("9.0.0.0/8")}],
    )
    def test_rules_for_others(self, selector: dict[str, object]) -> None:
        """A rule that is for some packets only says nothing about the default route."""
        rule = Rule(family=4, priority=9, table=100, **selector)  # type: ignore[arg-type]  # selectors of a rule
        assert by(DEFAULT, away(100), rules=(LOCAL, rule, MAIN)) == "eth0"

    def test_a_rule_for_all_but_few(self) -> None:
        """A rule for everything but one network is the rule for what nothing else is known of."""
        rule = Rule(family=4, priority=9, table=100, invert=True, dst=Prefix.parse("9.0.0.0/8"))
        assert by(DEFAULT, away(100), rules=(LOCAL, rule, MAIN)) == "eth1"

    def test_goto_and_rules_that_end(self) -> None:
        """A goto passes over tables, and after a rule that refuses everything there is no default route."""
        jump = Rule(family=4, priority=5, action="goto", target=32766)
        passed = Rule(family=4, priority=9, table=100)
        assert by(DEFAULT, away(100), rules=(LOCAL, jump, passed, MAIN)) == "eth0"
        assert by(DEFAULT, rules=(LOCAL, Rule(family=4, priority=9, action="prohibit"), MAIN)) == ""

    def test_a_tunnel_suppresses_it(self) -> None:
        """Where wg-quick hides the default route of main, it is the default route still."""
        tunnel = (
            Rule(family=4, priority=7, table=254, suppress_prefixlength=0),
            Rule(family=4, priority=8, table=51820, fwmark=0xCA6C, fwmask=0xFFFFFFFF, invert=True),
        )
        assert by(DEFAULT, away(51820, "wg0"), rules=(LOCAL, *tunnel, MAIN)) == "eth0"

    def test_one_that_refuses(self) -> None:
        """An unreachable default that comes first leaves no default route; a throw leads to the next rule."""
        assert by(Route.to("0.0.0.0/0", type="unreachable"), DEFAULT) == ""
        assert by(Route.to("0.0.0.0/0", type="unreachable", metric=200), DEFAULT) == "eth0"
        assert by(Route.to("0.0.0.0/0", type="throw"), DEFAULT, away(253)) == "eth1"

    def test_by_a_device(self) -> None:
        """Of a device that is asked for it is the first by that device, whatever comes before it."""
        fib = Fib(host(INTERFACES, [Route.to("0.0.0.0/0", type="unreachable"), DEFAULT, away(253)]))
        assert default_route(fib, dev="eth1") == away(253)
        assert default_route(fib, dev="ib0") is None

    def test_for_one_tos(self) -> None:
        """A default route for one tos is not the one of plain packets."""
        assert by(DEFAULT, attrs.evolve(away(254), tos=0x10)) == "eth0"

    def test_dead(self) -> None:
        """A default route of which every leg is dead is none."""
        dead = Route(ANYWHERE, (NextHop("eth1", dead=True, linkdown=True),))
        assert by(dead, DEFAULT) == "eth0"

    def test_ipv6(self) -> None:
        """Each family has a default route of its own."""
        six = Route.to("::/0", dev="eth1", gateway="fe80::1", metric=1024)
        fib = Fib(Snapshot(rules=default_rules(6) + default_rules(4), routes=[six, DEFAULT]))
        assert (outbound_devs(fib, family=6), outbound_devs(fib)) == (("eth1",), ("eth0",))


def meant(wish: DesiredRoute, snapshot: Snapshot) -> str:
    """What a wish comes to, as text."""
    return str(resolve_route(wish, Fib(snapshot)))


def want(gateway: str | None = None, dev: str | None = None) -> DesiredRoute:
    """A wish for one network."""
    return DesiredRoute(IPv4Network("10.9.0.0/16"), gateway=gateway, dev=dev)


class TestWhatIsMeant:
    """What is left open is taken from the default route."""

    def test_a_leg_that_is_down(self) -> None:
        """A leg of an ECMP default whose link is down is left out; with none left, the device is what is missing."""
        legs = (NextHop("eth0", gateway=as_ip("10.0.0.1"), weight=3), NextHop("eth1", gateway=as_ip("10.1.0.1")))
        down = [Link(name="eth1", index=9, up=False)]
        default = [Route(ANYWHERE, legs)]
        half = host(INTERFACES, default, links=down)
        assert meant(want(), half) == "10.9.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting"
        neither = host(INTERFACES, default, links=[*down, Link(name="eth0", index=8, up=False)])
        assert meant(want(), neither) == "10.9.0.0/16: waiting for the device eth0 to be up"

    @pytest.mark.parametrize("wish", [want("172.31.1.1", "eth0"), want("172.31.1.1"), want(dev="eth0"), want()])
    def test_an_on_link_default(self, wish: DesiredRoute) -> None:
        """The default gateway is on-link when the default route says so, spelled out or not."""
        legs = (NextHop("eth0", gateway=as_ip("172.31.1.1"), onlink=True),)
        snapshot = host([("eth0", "10.0.0.4/32")], [Route(ANYWHERE, legs)])
        assert meant(wish, snapshot) == "10.9.0.0/16 via 172.31.1.1 dev eth0 onlink proto hostrouting"

    @pytest.mark.parametrize(
        ("gateway", "words"),
        [("10.0.0.4", "this host's own address"), ("10.0.0.255", "a broadcast address")],
    )
    def test_a_gateway_that_is_none(self, gateway: str, words: str) -> None:
        """The host's own address and a broadcast address are no gateway, and that is said."""
        assert meant(want(gateway, "eth0"), plain()) == (
            f"{want(gateway, 'eth0')}: waiting for {gateway} to be a router next to this host (it is {words})"
        )

    def test_a_gateway_beyond_a_global_route(self) -> None:
        """A route of global scope does not make neighbours: the kernel refuses a gateway behind it."""
        flat = Route.to("192.168.0.0/24", dev="eth0", scope=0)
        wish = want("192.168.0.1", "eth0")
        assert "that reaches the gateway 192.168.0.1 directly" in meant(wish, plain().with_routes([flat]))
        linked = plain().with_routes([attrs.evolve(flat, scope=253)])
        assert meant(wish, linked) == "10.9.0.0/16 via 192.168.0.1 dev eth0 proto hostrouting"

    def test_the_leg_that_reaches_it(self) -> None:
        """Without a device, it is the leg of the default route on which the gateway is a neighbour."""
        legs = (NextHop("eth0", gateway=as_ip("10.0.0.1")), NextHop("eth1", gateway=as_ip("10.1.0.1")))
        snapshot = host(INTERFACES, [Route(ANYWHERE, legs)])
        assert meant(want("10.1.0.7"), snapshot) == "10.9.0.0/16 via 10.1.0.7 dev eth1 proto hostrouting"

    def test_ipv6(self) -> None:
        """In IPv6 routes have the scope of the universe and a metric of 1024."""
        default = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024)
        near = Route.to("fe80::/64", dev="eth0", metric=256)
        snapshot = Snapshot(links=plain().links, rules=default_rules(6), routes=[default, near])
        wish = DesiredRoute(Prefix.parse("fd00::/16"))
        assert meant(wish, snapshot) == "fd00::/16 via inet6 fe80::1 dev eth0 proto hostrouting metric 1024"
        assert connected("eth0", "10.0.0.4/24")[0].scope == 253
