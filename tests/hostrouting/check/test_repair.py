"""hostrouting.check.repair: which routes it proposes, on hosts where it proposed too many, too wide
or useless ones.

Ranges for which it proposes none are in test_unrepairable.py.
"""

from functools import partial

import pytest

from hostrouting.check.hiding import HiddenParts
from hostrouting.check.judge import Judge
from hostrouting.check.parts import find_parts
from hostrouting.check.repair import Case, prove
from hostrouting.check.results import Repair
from hostrouting.check.way_out import WayOut, find_way_out
from hostrouting.config.settings import RouteOverlapConfig, StaticRoutesConfig
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, TABLE_MAIN, NextHop, Route
from hostrouting.model.snapshot import Link
from tests.support.topologies import (
    BY_IPV6,
    ELSEWHERE,
    ETH1,
    IB0,
    address,
    checked,
    destinations,
    main_with,
    reasons,
    rule,
    vm_with,
)

CIDR = "172.16.0.0/16"
node = partial(vm_with, links=(IB0, ETH1))
"""A plain VM with these things."""


def test_neighbouring_networks_have_one_route() -> None:
    """Two expected halves of a network are repaired by one route to it; a third beside them has its
    own.
    """
    host = node(Route.to(CIDR, dev="ib0"))
    report = checked(host, "172.16.2.0/24", "172.16.3.0/24", "172.16.4.0/24")
    assert destinations(report) == ["172.16.2.0/23", "172.16.4.0/24"]


class TestKeys:
    """A route of ours needs a key that no other program's route has."""

    def test_the_last_address(self) -> None:
        """One address at the end of a CIDR is repaired by one route."""
        report = checked(node(Route.to("172.16.255.255/32", dev="ib0", metric=100)))
        assert destinations(report) == ["172.16.255.255/32"]

    @pytest.mark.parametrize("wrong", ["172.16.0.0/16", "172.16.9.9/32"])
    def test_a_route_of_ours_by_another_device_is_replaced(self, wrong: str) -> None:
        """The new route has the key of the wrong one, so it needs no longer prefix."""
        ours = Route.to(wrong, dev="ib0", protocol=OURS)
        report = checked(node(Route.to("172.16.0.0/15", dev="eth1"), ours), wrong)
        assert destinations(report) == [wrong]
        assert reasons(report) == []

    def test_a_route_for_a_type_of_service_has_another_key(self) -> None:
        """In Linux, the type of service is a part of the key."""
        halves = ["172.16.0.0/17", "172.16.128.0/17"]
        of_tos = Route.to(halves[0], dev="ib0")._replace(tos=16)
        report = checked(node(Route.to(CIDR, dev="ib0"), of_tos))
        assert destinations(report) == halves

    def test_an_ipv6_route_for_some_sources_has_another_key(self) -> None:
        """In Linux, the source is a part of the key. The route has lost its link here, because one
        that is in use puts its packets in doubt.
        """
        hop = NextHop("eth1", dead=True)
        of_source = Route(
            Prefix.parse("fd44::/64"), (hop,), metric=1024, source=Prefix.parse("fd99::/64")
        )
        wrong = Route.to("fd44::/64", dev="ib0", metric=2000)
        report = checked(node(BY_IPV6, wrong, of_source), "fd44::/64")
        assert destinations(report) == ["fd44::/64"]

    def test_a_route_of_ours_with_a_better_metric_is_not_replaced(self) -> None:
        """The new route has the default metric, so Linux goes on using the wrong one, unless the
        prefix is longer.
        """
        wrong = Route.to("fd44::/64", dev="ib0", metric=512, protocol=OURS)
        report = checked(node(BY_IPV6, wrong), "fd44::/64")
        assert destinations(report) == ["fd44::/65", "fd44::8000:0:0:0/65"]
        assert reasons(report) == []

    def test_the_key_of_a_route_without_a_link_is_left_alone(self) -> None:
        """A route that Linux does not use now holds its key all the same."""
        dead = Route(Prefix.parse("172.16.5.0/24"), (NextHop("eth1", dead=True),), protocol=4)
        report = checked(node(Route.to(CIDR, dev="ib0"), dead), "172.16.5.0/24")
        assert destinations(report) == ["172.16.5.0/25", "172.16.5.128/25"]

    def test_a_repair_is_never_a_default_route(self) -> None:
        """The configuration takes no default route, so a host without one in table main needs both
        of its halves.
        """
        own = address("10.1.0.4/24", "eth1")
        host = node(
            Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", table=100),
            Route.to(own.network, dev="eth1"),
        )
        without_default = [
            route for route in host.routes if route.prefix.length or route.table != TABLE_MAIN
        ]
        host = host._replace(routes=tuple(without_default), addresses=(own,))
        report = checked(host, "0.0.0.0/0", expected_devs=["eth1"])
        assert report.node_ips == {4: own.ip}
        assert {"0.0.0.0/1", "128.0.0.0/1"} <= set(destinations(report))
        assert StaticRoutesConfig(True, report.routes).enabled


class TestThrows:
    """A throw in table main ends its lookup, so a route of ours to the same prefix would not be
    used.
    """

    def test_a_repair_is_more_specific_than_a_throw(self) -> None:
        """Each half has a route."""
        report = checked(node(Route.to(CIDR, type="throw")))
        assert [escape.kind for escape in report.escapes] == ["no-route"]
        assert destinations(report) == ["172.16.0.0/17", "172.16.128.0/17"]
        assert reasons(report) == []


class TestRulesBesideTableMain:
    """A route of table main decides only for packets that a rule sends there."""

    def test_a_later_rule_for_table_main_takes_a_wide_route(self) -> None:
        """What the first rule for table main suppresses is used by the second one."""
        host = node(Route.to("10.0.0.0/8", dev="ib0"), rules=(main_with(16),))
        report = checked(host, "10.0.0.0/8")
        assert destinations(report) == ["10.0.0.0/9", "10.128.0.0/9"]
        assert reasons(report) == []

    def test_what_leaves_rightly_already_needs_no_way_around(self) -> None:
        """A VPN takes all but what a rule excludes from it: that leaves by the uplink's default
        route, and may as well leave by a route of ours with the same next hop.
        """
        excluded = rule(dst="10.1.2.0/24", priority=150, table=TABLE_MAIN)
        vpn = rule(priority=200)
        host = node(ELSEWHERE, rules=(main_with(0), excluded, vpn))
        report = checked(host, "10.1.0.0/16", expected_devs=["eth0"])
        assert destinations(report) == ["10.1.0.0/16"]
        assert reasons(report) == []

    def test_a_refusal_that_no_rule_suppresses(self) -> None:
        """Linux suppresses no refusal, but the longer route that hides it: so a later rule has that
        route.
        """
        refusal = Route.to("10.0.0.0/15", type="blackhole", protocol=4)
        report = checked(node(refusal, rules=(main_with(16),)), "10.0.0.0/15")
        assert destinations(report) == ["10.0.0.0/16", "10.1.0.0/16"]


class TestWayOut:
    """The device and the gateway of a repair."""

    def test_a_device_that_can_be_configured(self) -> None:
        """Of several expected devices, the first whose name a configuration can have is used."""
        odd = Link(name="a@b", index=20)
        by_eth1 = Route.to("0.0.0.0/0", dev="eth1", metric=10)
        by_odd = Route.to("0.0.0.0/0", dev="a@b", metric=50)
        judge = Judge(Fib(vm_with(by_eth1, by_odd, links=(ETH1, odd)), 4), RouteOverlapConfig())
        devs = frozenset({"a@b", "eth0"})
        judge.uplinks = judge.uplinks._replace(devs=devs, doubtful=frozenset())
        way_out = find_way_out(judge)
        assert isinstance(way_out, WayOut)
        assert way_out.dev == "eth0"

    def test_the_device_is_named_where_table_main_has_another_default_route(self) -> None:
        """An open route would take the next hop of table main's, which a VPN's rule suppresses
        here.
        """
        rules = (main_with(0), rule(priority=200, table=200))
        by_rule = Route.to("0.0.0.0/0", dev="eth1", table=200)
        report = checked(node(by_rule, Route.to(CIDR, dev="ib0", metric=100), rules=rules))
        [route] = report.routes
        assert route.to_mapping() == {"destination": CIDR, "dev": "eth1"}

    @pytest.mark.parametrize(
        ("source", "mtu", "lacks"),
        [
            # As of a DHCP client: Linux would choose this source anyway.
            pytest.param("10.0.0.4", None, "", id="the usual source"),
            pytest.param("10.255.0.4", 1500, "src 10.255.0.4 mtu 1500", id="a source on lo"),
            pytest.param(None, 9000, "mtu 9000", id="an mtu"),
        ],
    )
    def test_what_the_default_route_has_and_a_static_route_cannot_have(
        self, source: str | None, mtu: int | None, lacks: str
    ) -> None:
        """With BGP to the host, only the address of lo is known to others: without it, nothing
        comes back. So this is a cost of the repair.
        """
        host = node(Route.to(CIDR, dev="ib0"))
        [default] = [route for route in host.routes if route.prefix.length == 0]
        others = [route for route in host.routes if route.prefix.length]
        prefsrc = None if source is None else as_ip(source)
        routes = (default._replace(prefsrc=prefsrc, mtu=mtu), *others)
        [family] = checked(host._replace(routes=routes)).families
        assert family.repair.lacks == lacks

    def test_what_the_default_route_has_whose_next_hops_have_weights(self) -> None:
        """The route names the expected one, so that nothing goes by the other, which Linux would
        accept, too. It has no weight, and lacks the rest.
        """
        hops = (
            NextHop("eth0", gateway=as_ip("10.0.0.1"), weight=2),
            NextHop("eth1", gateway=as_ip("10.1.0.1")),
        )
        by_both = Route(Prefix.parse("0.0.0.0/0"), hops, mtu=1400)
        near_eth1 = Route.to("10.1.0.0/24", dev="eth1")
        host = node(Route.to(CIDR, dev="ib0"), near_eth1, links=(ETH1,))
        others = [route for route in host.routes if route.prefix.length]
        report = checked(host._replace(routes=(by_both, *others)), expected_devs=["eth0"])
        [family] = report.families
        assert {route.dev for route in report.routes} == {"eth0"}
        assert family.repair.lacks == "mtu 1400"


class TestProof:
    """A route is proposed only if the tables with it are judged better than without."""

    BLOCK = Prefix.parse("172.16.0.0/24")
    BAD = Route(BLOCK, (NextHop("ib0"),), protocol=OURS)

    def test_packets_that_would_still_escape_are_not_called_doubtful(self) -> None:
        """The reason says what the proof has seen."""
        judge = Judge(Fib(node(Route.to(CIDR, dev="ib0")), 4), RouteOverlapConfig())
        parts = list(find_parts(judge, self.BLOCK.first, self.BLOCK.last))
        case = Case(judge, [self.BLOCK], parts, HiddenParts({}, judge.fib))
        repair = prove(case, Repair((self.BAD,)), unmade={})
        [unsafe] = repair.unrepairable
        assert unsafe.why.cause == "with these routes, packets there would still escape"
