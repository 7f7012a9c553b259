"""hostrouting.check.judge: which route and which device is right. Each row is an opinion that was
wrong once, on a host that no file of tests/hosts describes.

The rows about packets that a rule selects are in test_judge_packets.py.
"""

from collections.abc import Iterable
from functools import partial

import pytest

from hostrouting.check.sentences import check_findings
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import (
    PROTOCOL_DHCP,
    PROTOCOL_KERNEL,
    SCOPE_HOST,
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

    def test_a_default_route_that_every_rule_suppresses(self) -> None:
        """Linux uses it for nothing, so it is not said to be worse than another one."""
        host = node()
        looks_up_main = rule(priority=32766, table=TABLE_MAIN, suppress_prefixlength=0)
        report = checked(host._replace(rules=(host.rules[0], looks_up_main)))
        assert report.verdict == "no-default-route"
        names = [finding.name for finding in check_findings(report)]
        assert "default-routes" not in names

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
        [doubt] = check_findings(checked(host))
        assert doubt.facts["candidates"] == ["eth1", "wg1"]
        assert "hostrouting repair 172.16.0.0/16 --dev eth1" in str(doubt)


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

    def test_a_default_route_by_a_bridge_hides_no_pods(self) -> None:
        """It does not lead to pods, and Linux prefers the other one."""
        worse = Route.to("0.0.0.0/0", dev="cni0", metric=500)
        assert checked(node(worse, links=(CNI0,))).verdict == "ok"

    def test_a_bridge_beside_the_pods_of_another_cni(self) -> None:
        """A CNI that may serve the pods of any other does so by its tunnels, and not by its
        bridge.
        """
        links = (Link(name="cbr0", index=20, kind="bridge"), CALI1)
        network = Route.to("172.16.1.0/24", dev="cbr0")
        pod_of_calico = Route.to("172.16.2.7/32", dev="cali1")
        assert checked(node(network, links=links)).verdict == "ok"
        assert checked(node(network, pod_of_calico, links=links)).verdict == "undecided"

    def test_pods_that_the_plain_bridge_plugin_has_attached(self) -> None:
        """They may be those of any CNI, here of Flannel."""
        flannel = Link(name="flannel.1", index=20, kind="vxlan")
        veth = Link(name="veth7", index=21, kind="veth")
        network = Route.to("172.16.1.0/24", dev=flannel.name)
        pod = Route.to("172.16.2.7/32", dev=veth.name)
        assert checked(node(network, pod, links=(flannel, veth))).verdict == "ok"


class TestRefusedRanges:
    """A CNI refuses the addresses of its range that no pod has. Other programs' refusals are
    outages.
    """

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
