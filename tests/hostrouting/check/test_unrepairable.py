"""hostrouting.check.unrepairable: the reason why no route of ours repairs a range, on hosts where
it was wrong.
"""

from functools import partial

import pytest

from hostrouting.check.sentences import check_findings
from hostrouting.model.prefix import Prefix, as_ip, ip_at, prefixes_between
from hostrouting.model.route import (
    OURS,
    PROTOCOL_KERNEL,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteType,
)
from hostrouting.model.rule import Rule
from tests.support.topologies import (
    BY_IPV6,
    CALI1,
    ELSEWHERE,
    ETH1,
    IB0,
    WG1,
    address,
    causes,
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
TO_NAME = "a repair needs its device to be named in routeOverlap.expectedDevs"


def every_other_24(count: int) -> list[Route]:
    """Routes by ib0 to every other /24 from 172.24.0.0. Each needs two routes to repair it, because
    its own key is taken.
    """
    first = int(as_ip("172.24.0.0"))
    prefixes = [Prefix.around(4, first + 512 * at, 24) for at in range(count)]
    return [Route(prefix, (NextHop("ib0"),)) for prefix in prefixes]


class TestRules:
    """A rule decides before table main, or does not use all of its routes."""

    @pytest.mark.parametrize(
        "way",
        [
            pytest.param(Route.to(CIDR, type="throw", table=253), id="no route"),
            pytest.param(Route.to(CIDR, type="blackhole", protocol=4), id="refused"),
        ],
    )
    def test_a_rule_that_suppresses_every_route(self, way: Route) -> None:
        """No route is too specific there. Linux suppresses no refusal."""
        default = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=253)
        host = node(way, default)
        others = [rule for rule in host.rules if rule.table != TABLE_MAIN]
        report = checked(host._replace(rules=(*others, main_with(32))))
        assert reasons(report) == ["earlier-rule"]
        assert causes(report) == ["no rule is known to use routes of table main"]

    @pytest.mark.parametrize(
        "first",
        [
            pytest.param((), id="alone"),
            pytest.param((rule(dst="172.16.5.0/24", priority=50, table=TABLE_MAIN),), id="to"),
            pytest.param((rule(priority=50, table=TABLE_MAIN, fwmark=1, fwmask=1),), id="mark"),
        ],
    )
    def test_packets_of_pods(self, first: tuple[Rule, ...]) -> None:
        """A rule before table main leads packets of pods away. A rule for table main that is not
        about these packets changes nothing about that, as AWS VPC CNI has some.
        """
        host = node(ELSEWHERE, rules=(rule("10.244.1.0/24"), *first))
        report = checked(host, "172.16.6.0/24", pod_cidrs=["10.244.1.0/24"])
        assert reasons(report) == ["earlier-rule"]

    def test_connections_that_escape_alone(self) -> None:
        """Routes are looked for where plain packets escape. Where only connections do, this is
        said.
        """
        by_source = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100)
        lost = Route.to("172.16.5.0/24", dev="ib0")
        report = checked(node(by_source, lost, rules=(rule("0.0.0.0/32"),)))
        assert reasons(report) == ["not-proven"]
        assert causes(report) == [
            "routes are proposed only for plain packets, and not for connections from 10.0.0.4"
        ]

    @pytest.mark.parametrize(("type_", "count"), [("unicast", 1), ("multicast", 0)])
    def test_what_table_main_has_there(self, type_: RouteType, count: int) -> None:
        """A rule for table main is proposed unless something that is fine would be in doubt."""
        fine = Route.to("172.16.5.0/24", dev="eth0", gateway="10.0.0.1", table=100)
        in_main = fine._replace(table=TABLE_MAIN, type=type_)
        report = checked(node(fine, in_main, ELSEWHERE, rules=(rule(),)))
        [reason] = {unsafe.why for unsafe in report.families[0].repair.unrepairable}
        assert len(reason.rules) == count

    def test_packets_that_a_route_takes_and_does_not_make_fine(self) -> None:
        """Others, with a mark, would still leave wrongly."""
        marked = rule(priority=50, fwmark=1, fwmask=1)
        report = checked(node(Route.to(CIDR, dev="ib0"), ELSEWHERE, rules=(marked,)))
        assert reasons(report) == ["not-proven"]

    def test_routes_that_put_other_packets_in_doubt(self) -> None:
        """Plain packets to 172.16.5.0/24 would leave as before, but by a route that no longer says
        with which source: perhaps with the one for which there is a rule.
        """
        by_default = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100)
        host = node(
            Route.to(CIDR, dev="ib0"),
            by_default._replace(prefsrc=as_ip("10.0.0.9")),
            Route.to("0.0.0.0/0", dev="eth1", gateway="10.9.0.1", table=101),
            rules=(
                rule("10.9.0.4", priority=50, table=101),
                main_with(16, to="172.16.5.0/24"),
                rule(dst="172.16.5.0/24"),
            ),
        )
        host = host._replace(
            addresses=(address("10.0.0.9/32", "ib0"), address("10.9.0.4/24", "eth1"))
        )
        report = checked(host)
        assert report.routes == ()
        assert set(causes(report)) == {"with these routes, other packets would be lost or in doubt"}


class TestKeys:
    """Another route is as specific as a route can be."""

    def test_a_holder_of_the_last_key_is_named(self) -> None:
        """A route that Linux does not use now holds the key that a route of ours would need."""
        dead = Route(Prefix.parse("172.16.5.1/32"), (NextHop("eth1", dead=True),), protocol=4)
        report = checked(node(Route.to(CIDR, dev="ib0"), dead), "172.16.5.1/32")
        assert reasons(report) == ["host-route"]
        assert causes(report) == [f"[{dead}] is as specific as a route can be"]


class TestTooMany:
    """A repair that nobody would read is not proposed."""

    def test_as_many_as_are_proposed(self) -> None:
        """512 routes."""
        report = checked(node(*every_other_24(256)), "172.24.0.0/13")
        assert len(report.routes) == 512
        assert reasons(report) == []
        assert "more than 512 routes" not in "".join(map(str, check_findings(report)))

    def test_more_than_are_proposed(self) -> None:
        """The finding says how many are too many."""
        report = checked(node(*every_other_24(257)), "172.24.0.0/13")
        assert report.routes == ()
        assert set(reasons(report)) == {"too-many"}
        assert "more than 512 routes" in "".join(map(str, check_findings(report)))

    def test_many_ipv6_routes_are_given_up_at_once(self) -> None:
        """The search ends with the first route that is one too many. Kills: a search that doubles
        with each level.
        """
        captures: list[Route] = []
        for at in range(2_000):
            somewhere = (0xFD00 << 112) + (at * 0x9E3779B97F4A7C15 << 40)
            prefix = Prefix.around(6, somewhere, 24 + 7 * at % 105)
            captures.append(Route(prefix, (NextHop("ib0"),), metric=9))
        report = checked(node(BY_IPV6, *captures), "fd00::/8")
        assert set(reasons(report)) == {"too-many"}


class TestGateways:
    """Without a gateway that Linux accepts, no route is proposed."""

    def test_the_device_has_to_be_named(self) -> None:
        """Where a tunnel's default route hides the card's, it is not known by which the repair
        should lead.
        """
        by_tunnel = Route.to("0.0.0.0/0", dev="wg1")
        host = node(by_tunnel, Route.to(CIDR, dev="ib0"), links=(IB0, WG1))
        report = checked(host)
        assert destinations(report) == []
        assert reasons(report) == ["no-gateway"]
        assert causes(report) == [f"{TO_NAME}: eth0 or wg1"]
        named = checked(host, expected_devs=["eth0", "eth9"])
        assert [route.dev for route in named.routes] == ["eth0", "eth0"]

    def test_two_addresses_are_not_called_as_specific_as_a_route_can_be(self) -> None:
        """A route to each would take it, if it were known by which device."""
        by_ib0 = Route.to("172.16.5.0/31", dev="ib0")
        host = node(Route.to("0.0.0.0/0", dev="wg1"), by_ib0, links=(IB0, WG1))
        assert reasons(checked(host)) == ["no-gateway"]

    def test_a_card_of_which_nothing_is_known(self) -> None:
        """Where a VPN has replaced the default route, no route tells which card is meant."""
        host = node(Route.to(CIDR, dev="ib0"), links=(IB0, WG1))
        of_vpn = Route.to("0.0.0.0/0", dev="wg1")
        routes = [route for route in host.routes if route.prefix.length > 0]
        report = checked(host._replace(routes=(*routes, of_vpn)))
        assert causes(report) == [f"{TO_NAME}: wg1 or a network card"]

    def test_an_expected_device_that_the_host_does_not_have(self) -> None:
        """A card has got another name: the one with the default route is named instead."""
        report = checked(node(), expected_devs=["eth9"])
        assert reasons(report) == ["no-gateway"]
        [remedy] = [each.remedy for each in check_findings(report) if each.name == "unsafe"]
        assert "--dev eth0 | " in str(remedy)
        assert checked(node(), expected_devs=["eth0"]).verdict == "ok"

    @pytest.mark.parametrize(
        ("connected", "halves", "refused"),
        [
            pytest.param("2001:db8::/32", ["2001:db8:8000::/33"], ["2001:db8::/33"], id="as wide"),
            pytest.param("2001:db8::/64", ["2001:db8::/33", "2001:db8:8000::/33"], [], id="longer"),
        ],
    )
    def test_a_route_that_leads_to_its_own_gateway(
        self, connected: str, halves: list[str], refused: list[str]
    ) -> None:
        """Linux refuses an IPv6 route whose gateway another route with a gateway leads to. So the
        half around the gateway could not be added, unless a longer route still leads to the
        gateway. The other half repairs its addresses all the same.
        """
        default = Route.to("::/0", dev="eth0", gateway="2001:db8::1", metric=1024)
        to_gateway = Route.to(connected, dev="eth0", metric=256, protocol=2)
        escapes = Route.to("2001:db8::/32", dev="ib0", metric=100)
        report = checked(node(default, to_gateway, escapes), "2001:db8::/32")
        lacking: list[str] = []
        for unsafe in report.families[0].repair.unrepairable:
            if unsafe.why.reason == "no-gateway":
                lacking += map(str, prefixes_between(6, unsafe.first, unsafe.last))
                assert unsafe.why.cause == (
                    "a repair needs a destination without the gateway 2001:db8::1, which Linux "
                    "would no longer reach directly"
                )
        assert destinations(report) == halves
        assert lacking == refused


class TestHiding:
    """A route hides another one, by which packets would reach a CNI."""

    def test_the_pod_itself_is_hidden(self) -> None:
        """The hiding route is to the same address, and has a better metric."""
        of_pod = Route.to("172.16.5.1/32", dev="cali1", metric=100)
        hiding = Route.to("172.16.5.1/32", dev="ib0")
        report = checked(node(of_pod, hiding, links=(IB0, CALI1)))
        assert reasons(report) == ["below-a-cni"]
        assert causes(report) == [
            f"[{hiding}] hides [{of_pod}], which these packets would take without it"
        ]

    @pytest.mark.parametrize(
        ("protocol", "words"),
        [
            (PROTOCOL_KERNEL, "give eth1 and ib0 another network"),
            (OURS, "remove hostrouting's from staticRoutes.routes"),
        ],
    )
    def test_each_route_that_hides_it_has_to_go(self, protocol: int, words: str) -> None:
        """In the order in which they decide: to delete the first alone would bring up the next. One
        that is configured would come back, even if the others would not.
        """
        of_pod = Route.to("172.16.5.1/32", dev="cali1", metric=100)
        first = Route.to("172.16.5.1/32", dev="ib0", protocol=PROTOCOL_KERNEL)
        second = Route.to("172.16.5.1/32", dev="eth1", metric=50, protocol=protocol)
        report = checked(node(of_pod, second, first, links=(IB0, ETH1, CALI1)))
        [unsafe] = report.families[0].repair.unrepairable
        assert unsafe.why.to_delete == (first, second)
        [remedy] = [each.remedy for each in check_findings(report) if each.name == "unsafe"]
        assert str(remedy).startswith(f"if the route to 172.16.5.1/32 is not intended, {words}")


class TestReserved:
    """No static route leads to a reserved range, but one to a wider prefix can take it."""

    def test_what_is_expected_is_reserved(self) -> None:
        """A wider route, which could take it, would not be in what is expected."""
        host = node(Route.to("0.0.0.0/1", dev="ib0"))
        report = checked(host, "0.0.0.0/8", expected_devs=["eth1"])
        assert causes(report) == ["the range is reserved"]


class TestSeveralReasons:
    """What no route can repair has its own reason, whatever the others lack."""

    LOCAL = Route.to("172.16.0.0/24", type="local", dev="lo", table=TABLE_LOCAL)
    NETWORK = Route.to("172.30.0.0/16", dev="ib0")
    ADDRESS = Route.to("172.20.1.1/32", dev="ib0")

    @pytest.mark.parametrize(
        ("more", "general"),
        [
            pytest.param([Route.to("0.0.0.0/0", dev="wg1")], "no-gateway", id="no gateway"),
            pytest.param(every_other_24(257), "too-many", id="too many"),
        ],
    )
    def test_without_routes(self, more: list[Route], general: str) -> None:
        """Whether a gateway is missing, or too many routes would be needed, does not
        matter there.
        """
        prohibit = rule(dst="172.17.0.0/16", priority=50, table=0, action="prohibit")
        ways = (self.LOCAL, self.NETWORK, self.ADDRESS, *more)
        host = node(*ways, rules=(prohibit,), links=(IB0, WG1))
        ranges = ["172.16.0.0/24", "172.17.0.0/16", "172.20.1.1/32", "172.24.0.0/13"]
        [family] = checked(host, *ranges).families
        reason_at: dict[str, str] = {}
        for unsafe in family.repair.unrepairable:
            reason_at[str(ip_at(4, unsafe.first))] = unsafe.why.reason
        assert reason_at["172.16.0.0"] == "earlier-rule"
        assert reason_at["172.17.0.0"] == "earlier-rule"
        assert reason_at["172.20.1.1"] == "host-route"
        assert reason_at["172.30.0.0"] == general
        assert set(reason_at.values()) == {"earlier-rule", "host-route", general}
