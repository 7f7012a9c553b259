"""hostrouting.check.judge: which route and which device is right. Each row is an opinion that was
wrong once, on a host that no file of tests/hosts describes.

The rows about packets that a rule selects are in test_judge_packets.py.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from hostrouting.check.sentences import check_findings
from hostrouting.config.cni import CNIS, Cni, Device, Refusal
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import (
    PROTOCOL_DHCP,
    PROTOCOL_KERNEL,
    SCOPE_HOST,
    SCOPE_LINK,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Preference,
    Route,
    RouteType,
)
from hostrouting.model.snapshot import Link, Snapshot
from tests.support.topologies import (
    BY_IPV6,
    CALI1,
    CNI0,
    ETH1,
    IB0,
    WG1,
    address,
    checked,
    rule,
    vm_with,
)

CIDR = "172.16.0.0/16"
BY_ETH0 = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1")
BY_WG1 = Route.to("0.0.0.0/0", dev="wg1")
node = partial(vm_with, links=(IB0,))
"""A plain VM with these things."""


def with_only_default(host: Snapshot, dev: str) -> Snapshot:
    """The host without the default routes by other devices."""
    routes = [route for route in host.routes if route.prefix.length or route.devs == (dev,)]
    return host._replace(routes=tuple(routes))


class TestTheDefaultRoute:
    """The devices of the default route are expected. Which of several is one, and which is not."""

    def test_halves_beside_a_default_route_are_a_capture(self) -> None:
        """They are not taken for the default route, though they have its metric."""
        halves = [Route.to("0.0.0.0/1", dev="eth0"), Route.to("128.0.0.0/1", dev="eth1")]
        report = checked(node(BY_ETH0, *halves, links=(IB0, ETH1)))
        assert report.verdict == "overlap"
        assert report.families[0].expected_devs == ("eth0",)

    def test_a_bond_of_infiniband_ports_is_not_expected(self) -> None:
        """Linux gives a bond the type of its ports, so it needs no rule of its own."""
        bond = Link(name="bond0", index=20, kind="bond", type=IB0.type)
        by_bond = [Route.to("0.0.0.0/0", dev="bond0"), Route.to(CIDR, dev="bond0")]
        report = checked(node(*by_bond, links=(bond,)))
        assert report.verdict == "overlap"
        assert report.families[0].expected_devs == ("eth0",)

    def test_halves_without_a_default_route_are_the_default_route(self) -> None:
        """A default route by InfiniBand is not one; and of two routes to one half, Linux uses the
        first.
        """
        halves = [Route.to("0.0.0.0/1", dev="eth0"), Route.to("128.0.0.0/1", dev="eth1")]
        host = node(*halves, links=(IB0, ETH1))
        alone = host._replace(routes=tuple(route for route in host.routes if route.prefix.length))
        by_infiniband = [Route.to("0.0.0.0/0", dev="ib0"), Route.to("0.0.0.0/1", dev="ib0")]
        beside_infiniband = alone.with_routes(by_infiniband)
        for state in (alone, beside_infiniband):
            report = checked(state)
            assert report.verdict == "ok"
            assert report.families[0].expected_devs == ("eth0", "eth1")
        assert checked(beside_infiniband, "9.0.0.0/8").verdict == "ok"

    @pytest.mark.parametrize(("led", "refused"), [("0", "128"), ("128", "0")])
    def test_one_half_is_not_a_default_route(self, led: str, refused: str) -> None:
        """Linux refuses packets to the other half."""
        blackhole = Route.to(f"{refused}.0.0.0/1", type="blackhole")
        host = node(Route.to(f"{led}.0.0.0/1", dev="eth0"), blackhole)
        alone = host._replace(routes=tuple(route for route in host.routes if route.prefix.length))
        assert checked(alone).verdict == "no-default-route"

    @pytest.mark.parametrize(
        ("preference", "verdict", "devs"),
        [
            ("high", "ok", ("eth1",)),
            ("medium", "undecided", ("eth0", "eth1")),
            ("low", "ok", ("eth0",)),
        ],
    )
    def test_a_router_with_a_preference(
        self, preference: Preference, verdict: str, devs: tuple[str, ...]
    ) -> None:
        """Of IPv6 default routes with one metric, Linux uses the one whose router has the higher
        preference.
        """
        other = Route.to("::/0", dev="eth1", gateway="fe80::2", metric=1024, protocol=9)
        host = node(BY_IPV6, other._replace(preference=preference), links=(ETH1,))
        report = checked(host, "fd96::/108")
        assert report.verdict == verdict
        assert report.families[0].expected_devs == devs
        assert [finding.name for finding in check_findings(report, mode="WARN")] == [
            "default-routes"
        ]

    def test_a_default_route_of_another_type_decides_beside_one_of_its_metric(self) -> None:
        """What it takes does not leave through the default route behind it, which is the expected
        one.
        """
        first = Route(Prefix.parse("::/0"), (NextHop("ib0"),), type="anycast", metric=1024)
        host = node()
        report = checked(host._replace(routes=(first, BY_IPV6, *host.routes)), "fd96::/108")
        assert report.verdict == "overlap"
        assert report.families[0].expected_devs == ("eth0",)

    def test_a_default_route_that_every_rule_suppresses(self) -> None:
        """Linux uses it for nothing, so it is not said to be worse than another one."""
        host = node()
        looks_up_main = rule(priority=32766, table=TABLE_MAIN, suppress_prefixlength=0)
        report = checked(host._replace(rules=(host.rules[0], looks_up_main)))
        assert report.verdict == "no-default-route"
        names = [finding.name for finding in check_findings(report)]
        assert "default-routes" not in names

    @pytest.mark.parametrize("selectors", [{}, {"dst": "10.9.0.0/24", "invert": True}])
    def test_a_goto_before_the_default_route(self, selectors: dict[str, Any]) -> None:
        """It may lead to another one: what leaves through any default route's device is in doubt,
        and does not escape.
        """
        rules = (
            rule(priority=49, table=TABLE_MAIN, suppress_prefixlength=0),
            rule(priority=50, table=0, action="goto", target=32766, **selectors),
            rule(priority=51, table=100),
        )
        host = node(Route.to("0.0.0.0/0", dev="eth1", table=100), rules=rules, links=(ETH1,))
        assert checked(host, "10.0.0.0/24").verdict == "undecided"

    def test_a_goto_for_one_network(self) -> None:
        """No packets to other networks miss the default route, so it is not in doubt."""
        rules = (rule(dst="10.9.0.0/24", priority=50, table=0, action="goto", target=32766),)
        worse = Route.to("0.0.0.0/0", dev="eth1", metric=4000)
        report = checked(node(worse, rules=rules, links=(ETH1,)))
        assert report.verdict == "ok"
        assert report.families[0].expected_devs == ("eth0",)

    def test_one_default_route_beside_two_halves_and_a_goto(self) -> None:
        """The default route that plain packets may miss is the only one, and not in doubt."""
        halves = [Route.to(half, dev="eth1") for half in ("0.0.0.0/1", "128.0.0.0/1")]
        rules = (
            rule(priority=49, table=TABLE_MAIN, suppress_prefixlength=1),
            rule(priority=50, table=0, action="goto", target=32766),
        )
        report = checked(node(*halves, rules=rules, links=(ETH1,)), "10.0.0.0/24")
        assert report.families[0].expected_devs == ("eth0",)
        assert "default-routes" not in {doubt.name for doubt in report.doubts}

    @pytest.mark.parametrize(
        ("first", "second", "verdict"),
        [
            pytest.param("10.0.0.1", "10.1.0.1", "overlap", id="two gateways"),
            pytest.param("10.0.0.1", None, "ok", id="only the first has a gateway"),
            pytest.param(None, "10.1.0.1", "ok", id="only the second has a gateway"),
            pytest.param(None, None, "ok", id="no gateway"),
        ],
    )
    def test_an_equal_default_route_by_a_device_that_is_not_named(
        self, first: str | None, second: str | None, verdict: str
    ) -> None:
        """While its gateway does not answer, IPv4 goes over from a route to another one with a
        gateway. Without a name, it is in doubt which of the two is meant.
        """
        host = node(links=(ETH1,))
        others = [route for route in host.routes if route.prefix.length]
        by_eth0 = Route.to("0.0.0.0/0", dev="eth0", gateway=first)
        by_eth1 = Route.to("0.0.0.0/0", dev="eth1", gateway=second)
        host = host._replace(routes=(by_eth0, by_eth1, *others))
        assert checked(host, expected_devs=["eth0"]).verdict == verdict
        assert checked(host).verdict == "undecided"

    @pytest.mark.parametrize("expected", [(), ("eth0",)])
    def test_an_equal_default_route_by_lo(self, expected: tuple[str, ...]) -> None:
        """Linux uses it where it is the first, and never instead of one with a gateway."""
        host = node()
        [default] = [route for route in host.routes if route.prefix.length == 0]
        by_lo = default._replace(next_hops=(NextHop("lo"),), scope=SCOPE_LINK)
        behind = host.with_routes([by_lo])
        assert checked(behind, expected_devs=expected).verdict == "ok"
        before = host._replace(routes=(by_lo, *host.routes))
        assert checked(before, expected_devs=expected).verdict == "overlap"


class TestTunnels:
    """A default route by a tunnel hides the card's: which is meant, only `expectedDevs` says."""

    @pytest.mark.parametrize(
        "kind",
        ["vxlan", "geneve", "gretap", "ip6gretap", "erspan", "ip6erspan", "batadv", "tun", "bond"],
    )
    def test_tunnels_that_look_like_ethernet(self, kind: str) -> None:
        """All but the bond are tunnels."""
        link = Link(name="dev0", index=20, kind=kind)
        host = node(Route.to("0.0.0.0/0", dev="dev0"), links=(link,))
        assert checked(host).verdict == ("ok" if kind == "bond" else "undecided")

    def test_a_partition_of_infiniband_is_not_a_tunnel(self) -> None:
        """Where it is named, it hides no card, whose own subnet would be right then."""
        host = node(links=(Link(name="ib0.8001", index=20, kind="ipoib", type=32),))
        report = checked(host, "10.0.0.128/25", expected_devs=["ib0.8001"])
        assert report.verdict == "overlap"

    def test_only_neighbours_of_the_hidden_card_are_fine(self) -> None:
        """What the card leads to a router is not for neighbours, although its addresses lie in the
        network of the card.
        """
        part = "10.0.0.128/25"
        by_router = Route.to(part, dev="eth0", gateway="10.0.0.1", protocol=4)
        host = node(BY_WG1, links=(WG1,))
        assert checked(host, part, expected_devs=["wg1"]).verdict == "ok"
        assert (
            checked(host.with_routes([by_router]), part, expected_devs=["wg1"]).verdict == "overlap"
        )

    def test_two_named_tunnels_hide_the_card(self) -> None:
        """Its own network is right, as with one tunnel."""
        wg2 = Link(name="wg2", index=20, kind="wireguard", type=65534)
        host = node(BY_WG1, links=(WG1, wg2))
        assert checked(host, "10.0.0.128/25", expected_devs=["wg1", "wg2"]).verdict == "ok"

    def test_a_tap_beside_a_cnis_device_with_an_address(self) -> None:
        """The device of a CNI is not a card beside which the tap would be a VPN's."""
        tap = Link(name="tap0", index=20, kind="tun")
        cilium = Link(name="cilium_host", index=21, kind="veth")
        host = node(Route.to("0.0.0.0/0", dev="tap0"), links=(tap, cilium))
        host = with_only_default(host, "tap0")
        own = (address("10.0.2.100/24", "tap0"), address("10.0.5.1/32", "cilium_host"))
        assert checked(host._replace(addresses=own)).verdict == "ok"

    @pytest.mark.parametrize(("others", "verdict"), [((), "ok"), ((WG1,), "undecided")])
    def test_a_tap_beside_a_tunnel_with_a_worse_default_route(
        self, others: tuple[Link, ...], verdict: str
    ) -> None:
        """A tap is right only if no other device has a default route."""
        tap = Link(name="tap0", index=20, kind="tun")
        by_tap = Route.to("0.0.0.0/0", dev="tap0", metric=50)
        worse = [Route.to("0.0.0.0/0", dev=link.name, metric=4000) for link in others]
        host = node(by_tap, *worse, links=(tap, WG1))
        routes = [route for route in host.routes if route.prefix.length or route.devs != ("eth0",)]
        own = (address("10.0.2.100/24", "tap0"),)
        without_card = host._replace(routes=tuple(routes), addresses=own)
        assert checked(without_card).verdict == verdict

    def test_an_allowed_device_may_still_be_the_wrong_uplink(self) -> None:
        """`allowedDevs` names devices beside the uplink; which one the uplink is, `expectedDevs`
        says.
        """
        host = node(BY_WG1, links=(WG1,))
        assert checked(host, allowed_devs=["wg1"]).verdict == "undecided"
        assert checked(host, allowed_devs=["wg1"], expected_devs=["eth0"]).verdict == "ok"

    @pytest.mark.parametrize("is_behind_a_router", [False, True])
    @pytest.mark.parametrize(("link_type", "verdict"), [(1, "undecided"), (32, "overlap")])
    def test_what_may_be_the_card_below_a_tunnel(
        self, link_type: int, verdict: str, *, is_behind_a_router: bool
    ) -> None:
        """If only a tunnel has a default route, it may be any card that is connected, or has a
        router; never InfiniBand.
        """
        hops = [NextHop("dev1")]
        if is_behind_a_router:
            hops.append(NextHop("dev1", gateway=as_ip("172.16.0.1")))
        network = Route(Prefix.parse(CIDR), tuple(hops), protocol=PROTOCOL_KERNEL)
        links = (WG1, Link(name="dev1", index=20, type=link_type))
        host = with_only_default(node(BY_WG1, network, links=links), "wg1")
        host = host._replace(addresses=(address("172.16.0.4/16", "dev1"),))
        assert checked(host, "172.16.5.0/24").verdict == verdict

    def test_the_card_that_may_be_meant_can_be_named(self) -> None:
        """The doubt has a command for the tunnel, and one for the card."""
        network = Route.to(CIDR, dev="eth1", gateway="10.1.0.1")
        host = with_only_default(node(BY_WG1, network, links=(WG1, ETH1)), "wg1")
        [doubt] = checked(host).families[0].doubts
        assert doubt.facts["candidates"] == ["eth1", "wg1"]
        assert "hostrouting repair 172.16.0.0/16 --dev eth1" in str(doubt)

    @pytest.mark.parametrize(
        ("ports", "verdict"),
        [
            pytest.param([], "overlap", id="no port"),
            pytest.param(["veth"], "overlap", id="a container"),
            pytest.param(["tun"], "overlap", id="a virtual machine"),
            pytest.param(["", "veth"], "undecided", id="a card and a container"),
        ],
    )
    def test_a_bridge_below_a_tunnel(self, ports: list[str], verdict: str) -> None:
        """A bridge may be the uplink if a card is its port; one of containers and virtual machines
        is not.
        """
        links = [WG1, Link(name="br0", index=20, kind="bridge")]
        for index, kind in enumerate(ports, start=21):
            links.append(Link(name=f"port{index}", index=index, kind=kind, master="br0"))
        network = Route.to(CIDR, dev="br0", protocol=PROTOCOL_KERNEL)
        host = with_only_default(node(BY_WG1, network, links=tuple(links)), "wg1")
        host = host._replace(addresses=(address("172.16.0.4/16", "br0"),))
        assert checked(host, "172.16.5.0/24").verdict == verdict

    @pytest.mark.parametrize("is_connected", [False, True])
    def test_each_next_hop_below_a_tunnel_is_judged_alone(self, *, is_connected: bool) -> None:
        """That one device has a router, or its own network, says nothing about the other."""
        links = (WG1, Link(name="dev1", index=20), Link(name="dev2", index=21))
        hops = (NextHop("dev1"), NextHop("dev2", gateway=as_ip("172.17.0.1")))
        way = Route(Prefix.parse(CIDR), hops, protocol=4)
        host = with_only_default(node(BY_WG1, way, links=links), "wg1")
        addresses = (address("172.16.0.4/16", "dev1"),) if is_connected else ()
        report = checked(host._replace(addresses=addresses), "172.16.5.0/24")
        escaping = [escape.devs for escape in report.escapes]
        if is_connected:
            assert report.verdict == "undecided"
            assert escaping == []
        else:
            assert report.verdict == "overlap"
            assert escaping == [("dev1",)]

    @pytest.mark.parametrize(
        ("beside", "metric", "verdict"),
        [
            pytest.param("eth0", 99, "overlap", id="the tunnel's is used"),
            pytest.param("eth0", 100, "overlap", id="either is used"),
            pytest.param("cni0", 100, "undecided", id="the other is not a card's"),
        ],
    )
    def test_a_second_card_beside_another_default_route(
        self, beside: str, metric: int, verdict: str
    ) -> None:
        """Where a card has a default route, even one that is in doubt beside a tunnel's, no other
        card is meant. The bridge of pods is not a card.
        """
        routes = (
            Route.to("0.0.0.0/0", dev=beside, metric=100),
            BY_WG1._replace(metric=metric),
            Route.to(CIDR, dev="eth1", protocol=PROTOCOL_KERNEL),
        )
        addresses = (address("172.16.0.4/16", "eth1"),)
        host = node(links=(WG1, ETH1, CNI0), addresses=addresses)._replace(routes=routes)
        assert checked(host, "172.16.5.0/24").verdict == verdict


class TestTheHostsOwn:
    """Addresses of this host need no device."""

    @pytest.mark.parametrize("kind", ["broadcast", "anycast"])
    @pytest.mark.parametrize(
        ("destination", "protocol", "verdict"),
        [
            ("172.16.5.255/32", PROTOCOL_KERNEL, "ok"),
            ("172.16.5.255/32", 4, "overlap"),
            ("172.16.5.0/24", PROTOCOL_KERNEL, "overlap"),
        ],
    )
    def test_addresses_of_a_network(
        self, kind: RouteType, destination: str, protocol: int, verdict: str
    ) -> None:
        """Its broadcast and anycast addresses are this host's own; but not if another program has
        made the route, nor a whole range.
        """
        way = Route.to(destination, dev="ib0", type=kind, protocol=protocol)
        assert checked(node(way)).verdict == verdict

    @pytest.mark.parametrize("kind", ["broadcast", "multicast"])
    def test_routes_to_which_tcp_does_not_connect(self, kind: RouteType) -> None:
        """They lead out by the uplink, but not for every packet."""
        way = Route.to("172.16.5.0/24", dev="eth0", gateway="10.0.0.1", type=kind, protocol=4)
        assert checked(node(way)).verdict == "undecided"

    def test_ipv6_asks_only_for_the_type_of_the_address(self) -> None:
        """TCP connects by a route of type multicast, too."""
        way = Route.to("fd16::/64", dev="eth0", gateway="fe80::1", type="multicast", protocol=4)
        assert checked(node(way, BY_IPV6), "fd16::/48").verdict == "ok"

    def test_reserved_ranges_are_the_hosts_own(self) -> None:
        """A check of everything is not about the loopback network, nor about the addresses of each
        single link.
        """
        assert checked(node(), "0.0.0.0/0").verdict == "ok"
        refused = Route.to("224.0.0.0/4", type="unreachable", protocol=4)
        assert checked(node(refused), "239.0.0.0/8").verdict == "overlap"
        reserved = Route.to("240.0.0.0/4", dev="ib0")
        assert checked(node(reserved), "255.255.255.255/32").verdict == "ok"

    def test_addresses_of_services_on_dummy_devices(self) -> None:
        """kube-proxy has each service's address on a dummy device; that is no address of the
        host.
        """
        link = Link(name="kube-ipvs0", index=20, kind="dummy")
        host = node(links=(link,), addresses=(address("10.96.0.10/32", "kube-ipvs0"),))
        assert checked(host, service_cidrs=["10.96.0.0/16"]).families[0].flaws == ()


class TestLosses:
    """Routes that lose packets although their device is right, or is unknown."""

    @pytest.mark.parametrize(("source", "verdict"), [(None, "undecided"), ("10.0.0.4", "ok")])
    def test_a_device_without_an_address(self, source: str | None, verdict: str) -> None:
        """Linux finds no source for packets by a route of the scope of the host, unless the route
        has one.
        """
        pod = Route.to("172.16.5.1/32", dev="cali1")._replace(scope=SCOPE_HOST)
        if source is not None:
            pod = pod._replace(prefsrc=as_ip(source))
        of_ipv6 = address("fe80::1/64", "cali1")  # every device has such a one
        host = node(pod, links=(CALI1,), addresses=(of_ipv6,))
        assert checked(host).verdict == verdict

    def test_a_device_that_vanished_while_it_was_read(self) -> None:
        """Routes may name a device that is no longer listed."""
        report = checked(node(Route.to(CIDR, dev="gone")))
        assert report.verdict == "overlap"
        assert check_findings(report, mode="WARN")[0].remedy is None

    @pytest.mark.parametrize(("protocol", "verdict"), [(3, "undecided"), (PROTOCOL_DHCP, "ok")])
    def test_one_next_hop_without_a_gateway(self, protocol: int, verdict: str) -> None:
        """A part of the connections asks the link for hosts that are behind a router. DHCP knows
        who is a neighbour.
        """
        hops = (NextHop("eth0", gateway=as_ip("10.0.0.1")), NextHop("eth0"))
        host = node(Route(Prefix.parse(CIDR), hops, protocol=protocol))
        assert checked(host).verdict == verdict

    def test_a_route_by_one_of_two_uplinks_without_a_gateway(self) -> None:
        """Others are behind the router of that one, whatever is behind the other."""
        second = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", metric=200)
        mistake = Route.to(CIDR, dev="eth0", protocol=3)
        host = node(second, mistake, links=(ETH1,))
        assert checked(host, expected_devs=["eth0", "eth1"]).verdict == "undecided"

    def test_a_next_hop_by_another_device_without_a_gateway(self) -> None:
        """Only the next hops by the uplink itself need one."""
        hops = (NextHop("eth0", gateway=as_ip("10.0.0.1")), NextHop("wg1"))
        host = node(Route(Prefix.parse(CIDR), hops, protocol=3), links=(WG1,))
        assert checked(host, allowed_devs=["wg1"]).verdict == "ok"

    @pytest.mark.parametrize(
        ("destination", "verdict"), [("0.0.0.0/0", "ok"), ("172.0.0.0/8", "undecided")]
    )
    def test_a_default_route_without_a_gateway(self, destination: str, verdict: str) -> None:
        """It is not for neighbours: whoever sets it means that the link has everything. Any other
        route may be a mistake.
        """
        on_link = Route.to(destination, dev="eth0", protocol=3)
        by_router = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100)
        assert checked(node(on_link, by_router)).verdict == verdict

    @pytest.mark.parametrize(("owner", "verdict"), [("ib0", "undecided"), ("eth0", "ok")])
    def test_without_a_gateway_in_a_network(self, owner: str, verdict: str) -> None:
        """Neighbours are those in a network of the device itself, and not in one of another."""
        way = Route.to("172.16.5.0/24", dev="eth0", protocol=3)
        host = node(way, addresses=(address("172.16.1.10/16", owner),))
        assert checked(host, "172.16.5.0/24").verdict == verdict


class TestBridges:
    """The bridge of a CNI leads to the pods of its own network."""

    @pytest.mark.parametrize(
        ("destination", "verdict"),
        [
            pytest.param("172.16.0.0/16", "undecided", id="around it"),
            pytest.param("172.16.2.0/24", "undecided", id="beside it"),
            pytest.param("172.16.128.0/17", "undecided", id="far from it"),
            pytest.param("172.16.1.128/25", "ok", id="a part of it"),
            pytest.param("172.16.2.7/32", "ok", id="one address"),
        ],
    )
    def test_a_bridge_for_pods_of_other_nodes(self, destination: str, verdict: str) -> None:
        """It does not lead to the pods around or beside its network."""
        way = Route.to(destination, dev="cni0")
        host = node(way, links=(CNI0,), addresses=(address("172.16.1.1/24", "cni0"),))
        assert checked(host).verdict == verdict

    @pytest.mark.parametrize(("ip", "verdict"), [("fe80::1", "ok"), ("fd00::1", "undecided")])
    def test_a_bridge_without_a_network_of_its_own(self, ip: str, verdict: str) -> None:
        """Its address in the network of the link, which every device has, says nothing of its
        pods.
        """
        host = node(Route.to("fd16::/64", dev="cni0"), BY_IPV6, links=(CNI0,))
        host = host._replace(addresses=(address(f"{ip}/64", "cni0"),))
        assert checked(host, "fd16::/56").verdict == verdict

    def test_a_bridge_beside_the_pods_of_another_cni(self) -> None:
        """A CNI that may serve the pods of any other does so by its tunnels, and not by its
        bridge.
        """
        links = (Link(name="cbr0", index=20, kind="bridge"), CALI1)
        network = Route.to("172.16.1.0/24", dev="cbr0")
        pod_of_calico = Route.to("172.16.2.7/32", dev="cali1")
        assert checked(node(network, links=links)).verdict == "ok"
        assert checked(node(network, pod_of_calico, links=links)).verdict == "undecided"

    def test_a_bridge_beside_a_device_that_another_cni_may_have_left(self) -> None:
        """An address of cilium_host without a route to pods shows no pods of Cilium; a route by it
        does, also before the first pod comes.
        """
        cilium = Link(name="cilium_host", index=20, kind="veth")
        own = Route.to("10.0.5.1/32", dev=cilium.name, type="local", table=TABLE_LOCAL)
        to_pods = Route.to("10.0.5.0/24", dev=cilium.name)
        network = Route.to("172.16.1.0/24", dev="cni0")
        other_bridge = Route.to("172.16.1.0/24", dev="cbr0")
        links = (CNI0, Link(name="cbr0", index=21, kind="bridge"), cilium)
        assert checked(node(other_bridge, own, links=links)).verdict == "ok"
        assert checked(node(other_bridge, own, to_pods, links=links)).verdict == "undecided"
        assert checked(node(network, own, links=links)).verdict == "ok"

    def test_a_bridge_in_doubt_and_a_device_that_is_allowed(self) -> None:
        """Of two next hops, the doubt is about one: the other is not a device that is left over."""
        pod_of_calico = Route.to("172.20.2.7/32", dev="cali1")
        way = Route(Prefix.parse("172.16.1.0/24"), (NextHop("wg1"), NextHop("cni0")))
        host = node(way, pod_of_calico, links=(CNI0, CALI1, WG1))
        [doubt] = checked(host, allowed_devs=["wg1"]).doubts
        assert doubt.sentence.endswith(": cni0 beside pods of Calico (cali1)")

    def test_a_bridge_with_two_cards(self) -> None:
        """The doubt names the same one, whatever the order of the devices."""
        second = Link(name="eth9", index=20, master="cni0")
        first = Link(name="eth8", index=21, master="cni0")
        host = node(Route.to("172.16.1.0/24", dev="cni0"), links=(CNI0, second, first))
        [doubt] = checked(host).doubts
        assert "cni0 has eth8 as a port" in doubt.sentence

    def test_pods_that_the_plain_bridge_plugin_has_attached(self) -> None:
        """They may be those of any CNI, here of Flannel."""
        flannel = Link(name="flannel.1", index=20, kind="vxlan")
        veth = Link(name="veth7", index=21, kind="veth")
        network = Route.to("172.16.1.0/24", dev=flannel.name)
        pod = Route.to("172.16.2.7/32", dev=veth.name)
        assert checked(node(network, pod, links=(flannel, veth))).verdict == "ok"

    def test_pods_of_two_cnis(self) -> None:
        """During a migration, each CNI has pods, and each pod its own device."""
        links = (CALI1, Link("lxc1", index=20, kind="veth"))
        pods = [Route.to(f"172.16.2.{link.index}/32", dev=link.name) for link in links]
        assert checked(node(*pods, links=links)).verdict == "ok"


class TestRefusedRanges:
    """A CNI refuses the addresses of its range that no pod has. Other programs' refusals are
    outages.
    """

    def test_a_route_to_the_refused_range_itself_is_no_neighbour_inside(self) -> None:
        """It does not show that the range is the CNI's, whose device it leads to."""
        refused = Route.to("172.16.5.0/26", type="blackhole", protocol=12)
        worse = Route.to("172.16.5.0/26", dev="cali1", protocol=12, metric=9)
        assert checked(node(refused, worse, links=(CALI1,))).verdict == "undecided"

    @pytest.mark.parametrize(
        ("block", "verdict"),
        [
            ("172.16.0.0/20", "undecided"),
            ("172.16.0.0/19", "overlap"),
            ("fd16::/64", "undecided"),
            ("fd16::/63", "overlap"),
        ],
    )
    def test_the_widest_block_of_pods(self, block: str, verdict: str) -> None:
        """A range that is refused around a pod may be a block of a CNI that is not known, unless it
        is wider than those.
        """
        refused = Route.to(block, type="prohibit", protocol=4)
        pod = Route(Prefix.of(refused.prefix.ip), (NextHop("cali1"),))
        assert checked(node(refused, BY_IPV6, pod, links=(CALI1,)), block).verdict == verdict

    @pytest.mark.parametrize(
        ("block", "verdict"),
        [
            ("172.0.0.0/8", "ok"),
            ("172.0.0.0/7", "overlap"),
            ("fd16::/48", "ok"),
            ("fd16::/47", "overlap"),
        ],
    )
    def test_the_widest_block_of_flannel(self, block: str, verdict: str) -> None:
        """A range that begins with the address of Flannel's device is Flannel's, unless it is wider
        than a node's network of pods.
        """
        links = (Link(name="flannel.1", index=20, kind="vxlan"), CNI0)
        refused = Route.to(block, type="blackhole", protocol=3)
        host = node(refused, BY_IPV6, links=links)
        host = host._replace(addresses=(address(block, "flannel.1"),))
        assert checked(host, block).verdict == verdict

    @pytest.mark.parametrize(("dev", "verdict"), [("flannel.1", "ok"), ("eth1", "overlap")])
    def test_whose_address_a_block_of_flannel_begins_with(self, dev: str, verdict: str) -> None:
        """Flannel gives the first address of its block to its own device."""
        links = (Link(name="flannel.1", index=20, kind="vxlan"), Link(name="eth1", index=21))
        refused = Route.to("172.20.0.0/16", type="blackhole", protocol=3)
        host = node(refused, links=links)
        host = host._replace(addresses=(address("172.20.0.0/32", dev),))
        assert checked(host, "172.20.0.0/16").verdict == verdict

    @pytest.mark.parametrize(
        ("dev", "verdict"), [("cali1", "ok"), ("lxc1", "undecided"), ("eth1", "undecided")]
    )
    def test_a_refused_block_with_things_of_another_cni_inside(
        self, dev: str, verdict: str
    ) -> None:
        """BIRD refuses blocks for Calico: only a pod of Calico inside shows that, beside a device
        of Calico.
        """
        links = (CALI1, Link("lxc1", index=20, kind="veth"), Link("eth1", index=21, kind="veth"))
        block = Route.to("172.16.5.0/24", type="blackhole", protocol=12)
        host = node(block, Route.to("172.16.5.7/32", dev=dev), links=links)
        assert checked(host, "172.16.5.128/25").verdict == verdict

    def test_a_refused_block_of_calicos_own_protocol(self) -> None:
        """It needs no pod inside, beside a device of Calico. A refusal has no source, so that a
        rule for one does not matter.
        """
        block = Route.to("172.16.5.0/24", type="blackhole", protocol=80)
        by_source = BY_ETH0._replace(table=100)
        host = node(block, by_source, rules=(rule("10.0.0.4/32"),), links=(CALI1,))
        assert checked(host).verdict == "ok"

    def test_a_refused_address_like_ciliums_without_cilium(self) -> None:
        """That Linux has other routes of the same protocol, as it has for each network, is not a
        trace of Cilium.
        """
        refused = Route.to("172.16.5.9/32", type="unreachable", protocol=PROTOCOL_KERNEL)
        network = Route.to("10.0.0.0/24", dev="eth0", protocol=PROTOCOL_KERNEL)
        assert checked(node(refused, network)).verdict == "overlap"

    def test_a_cni_that_refuses_in_one_family_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A row of the table may have the lengths of one family; the other family has no such
        routes.
        """
        made_up = Cni("Foo", (), (Refusal(222, ("prohibit",), {4: (24, 28)}),))
        monkeypatch.setattr("hostrouting.check.refusals.CNIS", (*CNIS, made_up))
        default = Route.to("::/0", dev="eth0", gateway="fd00::1")
        refused = Route.to("fd44::/24", type="prohibit", protocol=222)
        host = node(default, refused, addresses=(address("fd00::4/64", "eth0"),))
        assert checked(host, "fd44::/16").verdict == "overlap"

    @pytest.mark.parametrize(
        ("gateways", "verdict"),
        [
            pytest.param([None], "undecided", id="on the link"),
            pytest.param([None, "172.16.9.1"], "overlap", id="behind a router, too"),
        ],
    )
    def test_what_is_behind_a_router_is_not_a_pod(
        self, gateways: Iterable[str | None], verdict: str
    ) -> None:
        """A route inside a refused range leads to a pod only if none of its next hops has a
        gateway.
        """
        hops: list[NextHop] = []
        for gateway in gateways:
            ip: IP | None = as_ip(gateway) if gateway else None
            hops.append(NextHop("cali1", gateway=ip))
        refused = Route.to("172.16.5.0/24", type="blackhole", protocol=4)
        inside = Route(Prefix.parse("172.16.5.9/32"), tuple(hops))
        host = node(refused, inside, links=(CALI1,))
        assert checked(host, "172.16.5.128/25").verdict == verdict

    @pytest.mark.parametrize(
        ("inside", "dev", "verdict"),
        [
            ("172.16.5.8/32", "cali1", "undecided"),
            ("172.16.5.8/31", "cali1", "overlap"),
            ("172.16.5.8/32", "ib0", "overlap"),
        ],
    )
    def test_only_a_single_address_is_a_pod(self, inside: str, dev: str, verdict: str) -> None:
        """A wider route inside a refused range, by the device of a pod, shows nothing; nor does a
        neighbour on another device.
        """
        refused = Route.to("172.16.5.0/24", type="blackhole", protocol=4)
        host = node(refused, Route.to(inside, dev=dev), links=(CALI1, IB0))
        assert checked(host, "172.16.5.128/25").verdict == verdict

    def test_the_uplink_leads_to_no_pod(self) -> None:
        """A single address that is reached by an expected device is no pod inside a refused range,
        whatever the device.
        """
        refused = Route.to("172.16.5.0/24", type="blackhole", protocol=4)
        host = node(refused, Route.to("172.16.5.9/32", dev="cali1"), links=(CALI1,))
        assert checked(host).verdict == "undecided"
        assert checked(host, "172.16.5.0/24", expected_devs=["cali1"]).verdict == "overlap"


class TestWhatIsSaid:
    """OK names what does not leave by an expected device."""

    def test_the_neighbours_on_a_card_that_a_tunnel_hides(self) -> None:
        """They are reached directly."""
        host = node(BY_WG1._replace(metric=200), links=(WG1,))
        for_wg1 = checked(host, "10.0.0.0/24", expected_devs=["wg1"])
        for_both = checked(host, "10.0.0.0/24", expected_devs=["eth0", "wg1"])
        allowance = "or through eth0 (its own network), or is this host's own"
        every = "OK: every address of 10.0.0.0/24 leaves through"
        assert str(for_wg1) == f"{every} wg1, {allowance}"
        assert str(for_both) == f"{every} eth0 or wg1, {allowance}"

    def test_what_a_cni_refuses_and_takes(self) -> None:
        """The CNI is named, and the pattern that its device fits."""
        block = Route.to("172.16.5.0/26", type="blackhole", protocol=80)
        pod = Route.to("172.16.5.1/32", dev="cali1")
        assert str(checked(node(block, pod, links=(CALI1,)))) == (
            "OK: every address of 172.16.0.0/16 leaves through eth0, or through cali* (Calico), or "
            "is refused because no pod has it, in 172.16.5.0/26 (Calico), or is this host's own"
        )

    def test_each_cni_is_named_with_its_own_pattern(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of several CNIs that may have made a device, each may know it by another pattern."""
        made_up = [
            Cni(name, (Device(pattern, ("dummy",), "network"),))
            for name, pattern in (("Foo", "foo*"), ("Bar", "foo#"), ("Baz", "foo*"))
        ]
        monkeypatch.setattr("hostrouting.config.cni.CNIS", made_up)
        link = Link(name="foo1", index=20, kind="dummy")
        parts = checked(node(Route.to(CIDR, dev="foo1"), links=(link,))).families[0].parts
        assert {part.allowance for part in parts} == {"foo* (Foo or Baz) or foo# (Bar)"}
