"""hostrouting.check.judge: rows that no node of tests/hosts has, each an opinion that was wrong
once.
"""

import pickle
from functools import partial
from typing import Any

import pytest

from hostrouting.check.check import check_snapshot
from hostrouting.check.judge import Judge
from hostrouting.check.parts import find_parts
from hostrouting.check.results import CheckReport
from hostrouting.check.sentences import check_findings
from hostrouting.config.cni import CNIS, Cni, Device, Refusal
from hostrouting.config.settings import HostRoutingConfig, StaticRoutesConfig
from hostrouting.fib.engine import PLAIN, Fib, Packet
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import (
    PROTOCOL_KERNEL,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    NextHop,
    Preference,
    Route,
    RouteType,
)
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Address, Link, Snapshot
from hostrouting.testing import ecmp_node, plain_vm
from tests.support.sections import expect
from tests.support.topologies import checked, vm_with

CIDR = "172.16.0.0/16"
IB0 = Link(name="ib0", index=9, type=32)
CALI1 = Link(name="cali1", index=9, kind="veth")
WG1 = Link(name="wg1", index=9, kind="wireguard", type=65534)
ELSEWHERE = Route.to("0.0.0.0/0", dev="ib0", table=100)
BY_IPV6 = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024)
node = partial(vm_with, links=(IB0,))
"""A plain VM with these things."""


def with_only_default(host: Snapshot, dev: str) -> Snapshot:
    """The host without the default routes by other devices."""
    routes = [route for route in host.routes if route.prefix.length or route.devs == (dev,)]
    return host._replace(routes=tuple(routes))


@pytest.mark.parametrize(
    ("selectors", "verdict"),
    [
        ({"fwmark": 1, "fwmask": 1}, "undecided"),
        ({"others": (("uidrange", "1000-1999"),)}, "undecided"),
        ({"others": (("ipproto", "tcp"), ("dport", "443"))}, "undecided"),
        ({"others": (("oif", "ib0"),)}, "ok"),
        ({"others": (("oif", "eth0"),)}, "ok"),
        ({"others": (("oif", "eth0"),), "action": "prohibit"}, "undecided"),
        ({"fwmark": 1, "fwmask": 1, "action": "prohibit"}, "undecided"),
        ({"src": Prefix.parse("127.0.0.0/8")}, "ok"),
    ],
)
@pytest.mark.parametrize("iif", [None, "lo"])
def test_packets_of_some_sockets(iif: str | None, selectors: dict[str, Any], verdict: str) -> None:
    """Those bound to a device pass over routes by others; with `iif lo`, a rule is not about
    forwarded packets either.
    """
    rule = Rule(**{"family": 4, "priority": 100, "table": 100, "iif": iif, **selectors})
    assert checked(node(ELSEWHERE, rules=(rule,))).verdict == verdict


@pytest.mark.parametrize(
    ("devs", "verdict"), [(["eth0"], "ok"), (["ib0"], "undecided"), (["eth0", "ib0"], "undecided")]
)
def test_sources_of_several_devices(devs: list[str], verdict: str) -> None:
    """If Linux may use any of several devices, packets may leave through another device than the
    one that has their source.
    """
    own = [Address(as_ip(ip), 24, dev) for ip, dev in (("10.9.1.4", "eth0"), ("10.9.2.4", "ib0"))]
    by_source = ELSEWHERE._replace(next_hops=tuple(map(NextHop, devs)))
    host = node(
        by_source, rules=(Rule(family=4, priority=100, table=100, src=Prefix.parse("10.9.0.0/16")),)
    )
    assert checked(host._replace(addresses=(*host.addresses, *own))).verdict == verdict


@pytest.mark.parametrize("kind", ["local", "broadcast", "multicast", "unicast"])
@pytest.mark.parametrize(
    "selectors", [{"src": Prefix.parse("10.9.0.4/32")}, {"others": (("oif", "ib0"),)}]
)
def test_the_device_of_a_source_and_the_type_of_its_route(
    selectors: dict[str, Any], kind: RouteType
) -> None:
    """What is known of packets excuses the device of a route, and no type that keeps or loses them."""
    way = Route(Prefix.parse(CIDR), (NextHop("ib0"),), type=kind, table=100, protocol=4)
    host = node(way, rules=(Rule(family=4, priority=100, table=100, **selectors),))
    host = host._replace(addresses=(*host.addresses, Address(as_ip("10.9.0.4"), 24, "ib0")))
    assert checked(host).verdict == ("ok" if kind == "unicast" else "undecided")


@pytest.mark.parametrize(
    "selectors",
    [
        {"src": Prefix.parse("10.0.0.9/32")},
        {"others": (("oif", "eth0"),)},
        {"others": (("uidrange", "5-5"),)},
    ],
)
@pytest.mark.parametrize(("gateway", "verdict"), [(None, "undecided"), ("10.0.0.1", "ok")])
def test_the_device_of_a_source_and_a_forgotten_gateway(
    gateway: str | None, verdict: str, selectors: dict[str, Any]
) -> None:
    """By the right device, packets are lost all the same if the link is asked for them."""
    way = Route.to(CIDR, dev="eth0", gateway=gateway, table=100)
    host = node(way, rules=(Rule(family=4, priority=100, table=100, **selectors),))
    second = Address(as_ip("10.0.0.9"), 24, "eth0")
    assert checked(host._replace(addresses=(*host.addresses, second))).verdict == verdict


def test_marked_packets_that_do_not_leave_by_the_default_route() -> None:
    """A VPN's own packets leave as if there were no VPN: by the default route of table main, and by
    no other there.
    """
    links = (
        Link(name="wg1", index=10, kind="wireguard", type=65534),
        Link(name="docker0", index=11, kind="bridge"),
    )
    rules = (Rule(family=4, priority=100, table=100, fwmark=1, fwmask=1, invert=True),)
    vpn = Route.to("0.0.0.0/0", dev="wg1", table=100)
    for taken, verdict in ((CIDR, "undecided"), ("10.9.0.0/16", "ok")):
        host = node(vpn, Route.to(taken, dev="docker0"), rules=rules, links=links)
        assert checked(host, expected_devs=["wg1"]).verdict == verdict
    marked = Rule(family=4, priority=90, table=200, fwmark=1, fwmask=1)
    by_card = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=200)
    host = node(vpn, by_card, rules=(marked, *rules), links=links)
    assert checked(host, expected_devs=["wg1"]).verdict == "ok"  # by the card that the tunnel hides
    # The packets of pods do not have that mark.
    pods = ["10.99.0.0/16"]
    assert checked(host, expected_devs=["wg1"], pod_cidrs=pods).verdict == "ok"
    lost = Route.to(CIDR, dev="eth0", type="multicast", table=200)
    assert checked(host.with_routes([lost]), expected_devs=["wg1"]).verdict == "undecided"


@pytest.mark.parametrize(
    ("widest", "wider"), [("172.16.0.0/20", "172.16.0.0/19"), ("fd16::/64", "fd16::/63")]
)
def test_the_widest_block_of_pods(widest: str, wider: str) -> None:
    """A range that is refused around a pod may be a block of a CNI that is not known, unless it is
    wider than those.
    """
    for block, verdict in ((widest, "undecided"), (wider, "overlap")):
        refused = Route(Prefix.parse(block), type="prohibit", protocol=4)
        pod = Route(Prefix.of(refused.prefix.ip), (NextHop("cali1"),))
        assert checked(node(refused, BY_IPV6, pod, links=(CALI1,)), block).verdict == verdict


@pytest.mark.parametrize(
    ("widest", "wider"), [("172.0.0.0/8", "172.0.0.0/7"), ("fd16::/48", "fd16::/47")]
)
def test_the_widest_block_of_flannel(widest: str, wider: str) -> None:
    """A range that is refused around a bridge is Flannel's, unless it is wider than a node's
    network of pods.
    """
    links = (
        Link(name="flannel.1", index=9, kind="vxlan"),
        Link(name="cni0", index=10, kind="bridge"),
    )
    for block, verdict in ((widest, "ok"), (wider, "overlap")):
        refused = Route(Prefix.parse(block), type="blackhole", protocol=3)
        held = Address(ip=refused.prefix.ip, length=refused.prefix.length, dev="cni0")
        assert (
            checked(node(refused, BY_IPV6, links=links)._replace(addresses=(held,)), block).verdict
            == verdict
        )


def test_halves_beside_a_default_route_are_a_capture() -> None:
    """They are not taken for the default route, though they have its metric; without one, they are
    the default route.
    """
    halves = [
        Route.to(half, dev=dev) for half, dev in (("0.0.0.0/1", "eth0"), ("128.0.0.0/1", "eth1"))
    ]
    links = (IB0, Link(name="eth1", index=10))
    host = node(Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1"), *halves, links=links)
    alone = host._replace(routes=tuple(route for route in host.routes if route.prefix.length))
    # A default route by InfiniBand is none; and of two routes to one half, Linux uses the first.
    others = alone.with_routes([Route.to("0.0.0.0/0", dev="ib0"), Route.to("0.0.0.0/1", dev="ib0")])
    both = ("eth0", "eth1")
    for there, verdict, devs in (
        (host, "overlap", ("eth0",)),
        (alone, "ok", both),
        (others, "ok", both),
    ):
        assert (checked(there).verdict, checked(there).families[0].expected_devs) == (verdict, devs)
    assert checked(others, "9.0.0.0/8").verdict == "ok"


def test_a_partition_of_infiniband_is_no_tunnel() -> None:
    """Where it is named, it hides no card, whose own subnet would be right then."""
    host = node(links=(Link(name="ib0.8001", index=9, kind="ipoib", type=32),))
    assert checked(host, "10.0.0.128/25", expected_devs=["ib0.8001"]).verdict == "overlap"


BY_ROUTER = [NextHop("dev1", gateway=as_ip("172.16.0.1"))]


@pytest.mark.parametrize(
    ("number", "others", "verdict"),
    [
        (1, [], "undecided"),
        (1, BY_ROUTER, "undecided"),
        (32, [], "overlap"),
        (32, BY_ROUTER, "overlap"),
    ],
)
def test_what_may_be_the_card_below_a_tunnel(
    number: int, others: list[NextHop], verdict: str
) -> None:
    """If only a tunnel has a default route, it may be any card that is connected, or has a router;
    never InfiniBand.
    """
    hops = (NextHop("dev1"), *others)
    links = (WG1, Link(name="dev1", index=10, type=number))
    host = node(
        Route.to("0.0.0.0/0", dev="wg1"), Route(Prefix.parse(CIDR), hops, protocol=2), links=links
    )
    host = with_only_default(host, "wg1")
    held = Address(ip=as_ip("172.16.0.4"), length=16, dev="dev1")
    assert checked(host._replace(addresses=(held,)), "172.16.5.0/24").verdict == verdict


@pytest.mark.parametrize(
    ("ports", "verdict"),
    [([], "overlap"), (["veth"], "overlap"), (["tun"], "overlap"), (["", "veth"], "undecided")],
)
def test_a_bridge_below_a_tunnel(ports: list[str], verdict: str) -> None:
    """A bridge may be the uplink if a card is its port; one of containers and virtual machines is
    not.
    """
    links = [WG1, Link(name="br0", index=10, kind="bridge")]
    links += (
        Link(name=f"port{at}", index=at, kind=kind, master="br0")
        for at, kind in enumerate(ports, start=20)
    )
    host = node(
        Route.to("0.0.0.0/0", dev="wg1"), Route.to(CIDR, dev="br0", protocol=2), links=tuple(links)
    )
    host = with_only_default(host, "wg1")
    held = Address(ip=as_ip("172.16.0.4"), length=16, dev="br0")
    assert checked(host._replace(addresses=(held,)), "172.16.5.0/24").verdict == verdict


@pytest.mark.parametrize(
    "kind",
    ["vxlan", "geneve", "gretap", "ip6gretap", "erspan", "ip6erspan", "batadv", "tun", "bond"],
)
def test_tunnels_that_look_like_ethernet(kind: str) -> None:
    """A default route by one hides the card's: which is meant is in doubt."""
    host = node(Route.to("0.0.0.0/0", dev="dev0"), links=(Link(name="dev0", index=9, kind=kind),))
    assert checked(host).verdict == ("ok" if kind == "bond" else "undecided")


def test_a_goto_before_the_default_route() -> None:
    """It may lead to another one: what leaves through any default route's device is in doubt, and
    does not escape.
    """
    host = node(Route.to("0.0.0.0/0", dev="dev0", table=100), links=(Link(name="dev0", index=9),))
    first = [
        Rule(family=4, priority=49, table=254, suppress_prefixlength=0),
        Rule(family=4, priority=51, table=100),
    ]
    first.insert(1, Rule(family=4, priority=50, action="goto", target=32766))
    assert checked(host._replace(rules=(*first, *host.rules)), "10.0.0.0/24").verdict == "undecided"


@pytest.mark.parametrize("kind", ["broadcast", "anycast"])
@pytest.mark.parametrize(("protocol", "verdict"), [(PROTOCOL_KERNEL, "ok"), (4, "overlap")])
def test_addresses_of_a_network(kind: RouteType, protocol: int, verdict: str) -> None:
    """Its broadcast and anycast addresses are this host's own; but not if another program has made
    the route.
    """
    way = Route(Prefix.parse("172.16.5.255/32"), (NextHop("ib0"),), type=kind, protocol=protocol)
    assert checked(node(way)).verdict == verdict


@pytest.mark.parametrize("kind", ["broadcast", "multicast"])
def test_routes_to_which_tcp_does_not_connect(kind: RouteType) -> None:
    """They lead out by the uplink, but not for every packet."""
    way = Route(
        Prefix.parse("172.16.5.0/24"),
        (NextHop("eth0", gateway=as_ip("10.0.0.1")),),
        type=kind,
        protocol=4,
    )
    assert checked(node(way)).verdict == "undecided"


@pytest.mark.parametrize(
    ("preference", "verdict", "devs"),
    [
        ("high", "ok", ("eth1",)),
        ("medium", "undecided", ("eth0", "eth1")),
        ("low", "ok", ("eth0",)),
    ],
)
def test_a_router_with_a_preference(
    preference: Preference, verdict: str, devs: tuple[str, ...]
) -> None:
    """Of IPv6 default routes with one metric, Linux uses the one whose router has the higher
    preference.
    """
    other = Route.to("::/0", dev="eth1", gateway="fe80::2", metric=1024, protocol=9)._replace(
        preference=preference
    )
    report = checked(node(BY_IPV6, other, links=(Link(name="eth1", index=9),)), "fd96::/108")
    assert (report.verdict, report.families[0].expected_devs) == (verdict, devs)
    assert [finding.name for finding in check_findings(report, mode="WARN")] == ["default-routes"]


def test_a_default_route_of_another_type_decides_beside_one_of_its_metric() -> None:
    """What it takes does not leave through the default route behind it, which is the expected one."""
    first = Route(Prefix.parse("::/0"), (NextHop("ib0"),), type="anycast", metric=1024)
    host = node(links=(IB0,))
    report = checked(host._replace(routes=(first, BY_IPV6, *host.routes)), "fd96::/108")
    assert (report.verdict, report.families[0].expected_devs) == ("overlap", ("eth0",))


def test_a_device_that_vanished_while_it_was_read() -> None:
    """Routes may name a device that is no longer listed."""
    report = checked(node(Route.to(CIDR, dev="gone")))
    assert report.verdict == "overlap"
    assert check_findings(report, mode="WARN")[0].remedy is None


def test_one_next_hop_without_a_gateway() -> None:
    """A part of the connections asks the link for hosts that are behind a router."""
    hops = (NextHop("eth0", gateway=as_ip("10.0.0.1")), NextHop("eth0"))
    assert checked(node(Route(Prefix.parse(CIDR), hops, protocol=3))).verdict == "undecided"
    assert (
        checked(node(Route(Prefix.parse(CIDR), hops, protocol=16))).verdict == "ok"
    )  # DHCP knows who is a neighbour


@pytest.mark.parametrize(
    ("destination", "verdict"),
    [
        ("172.16.0.0/16", "undecided"),
        ("172.16.2.0/24", "undecided"),
        ("172.16.128.0/17", "undecided"),
        ("172.16.1.128/25", "ok"),
        ("172.16.2.7/32", "ok"),
    ],
)
def test_a_bridge_for_pods_of_other_nodes(destination: str, verdict: str) -> None:
    """A bridge leads to the pods of its own network, and not to those around or beside it."""
    host = node(Route.to(destination, dev="cni0"), links=(Link("cni0", index=10, kind="bridge"),))
    held = Address(ip=as_ip("172.16.1.1"), length=24, dev="cni0")
    assert checked(host._replace(addresses=(*host.addresses, held))).verdict == verdict


@pytest.mark.parametrize(("address", "verdict"), [("fe80::1", "ok"), ("fd00::1", "undecided")])
def test_a_bridge_without_a_network_of_its_own(address: str, verdict: str) -> None:
    """Its address in the network of the link, which every device has, says nothing of its pods."""
    way = Route.to("fd16::/64", dev="cni0")
    host = node(way, BY_IPV6, links=(Link("cni0", index=10, kind="bridge"),))
    ip = as_ip(address)
    held = Address(ip, 64, "cni0", scope=SCOPE_LINK if ip.is_link_local else SCOPE_UNIVERSE)
    assert checked(host._replace(addresses=(held,)), "fd16::/56").verdict == verdict


def test_a_bridge_beside_the_pods_of_another_cni() -> None:
    """A CNI that may serve the pods of any other does so by its tunnels, and not by its bridge."""
    links = (Link(name="cbr0", index=10, kind="bridge"), Link(name="cali1", index=11, kind="veth"))
    routes = Route.to("172.16.1.0/24", dev="cbr0"), Route.to("172.16.2.7/32", dev="cali1")
    assert checked(node(*routes, links=links)).verdict == "undecided"
    assert checked(node(routes[0], links=links)).verdict == "ok"


def test_packets_of_pods_with_a_mark() -> None:
    """For packets of pods, the source and the device of a rule are known; the rest of it can still
    lead elsewhere.
    """
    rule = Rule(
        family=4, priority=100, table=100, src=Prefix.parse("10.244.0.0/16"), fwmark=128, fwmask=128
    )
    marked = node(ELSEWHERE, rules=(rule,))
    assert checked(marked, pod_cidrs=["10.244.1.0/24"]).verdict == "undecided"
    assert checked(marked).verdict == "ok"


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_addresses_decides_nothing(order: int) -> None:
    """If Linux may choose one of several sources, one that a rule selects leaves the verdict
    undecided.
    """
    links = (Link(name="eth1", index=10), Link(name="eth2", index=11))
    rule = Rule(family=4, priority=100, table=100, src=Prefix.parse("10.1.0.0/24"))
    host = node(Route.to("0.0.0.0/0", dev="eth1", table=100), rules=(rule,), links=links)
    held = [
        Address(ip=as_ip(f"10.{number}.0.1"), length=24, dev=f"eth{number}") for number in (1, 2)
    ]
    assert checked(host._replace(addresses=tuple(held[::order]))).verdict == "undecided"


def test_the_address_of_the_node() -> None:
    """Of several on the expected device, Linux writes the one in the network of the gateway."""
    host = node().with_routes([Route.to("0.0.0.0/0", dev="eth0", gateway="10.1.0.1", metric=1)])
    more = Address(ip=as_ip("10.1.0.4"), length=24, dev="eth0")
    assert checked(host._replace(addresses=(*host.addresses, more))).node_ips == {4: more.ip}


def test_a_report_from_another_process() -> None:
    """A report is data: another process has all of it."""
    report = checked(node(ELSEWHERE))
    received = pickle.loads(pickle.dumps(report))  # noqa: S301  our own bytes
    assert received == report
    assert str(received) == str(report)
    assert check_findings(received) == check_findings(report)


def ecmp_report(*, source: IP | None = None, is_dead: bool = False) -> CheckReport:
    """Check a host with two uplinks: with this source in its default route, and with a next hop
    that is out of use.
    """
    snapshot = ecmp_node().snapshot()
    routes: list[Route] = []
    for route in snapshot.routes:
        if route.prefix.length:
            routes.append(route)
            continue
        first, second = route.next_hops
        routes.append(
            route._replace(prefsrc=source, next_hops=(first, second._replace(dead=is_dead)))
        )
    loopback = Address(ip=as_ip("10.255.0.4"), length=32, dev="lo")
    return checked(
        snapshot._replace(routes=tuple(routes), addresses=(loopback, *snapshot.addresses))
    )


def test_two_uplinks_have_no_node_ip() -> None:
    """Linux chooses one of several next hops by a hash: where their sources differ, the node IP is
    not known.
    """
    report = ecmp_report()
    (note,) = report.families[0].flaws
    assert report.node_ips == {}
    assert (note.name, note.severity, note.target) == ("node-ip", "note", "eth0 and eth1")
    assert note.facts == {"family": 4, "addresses": ["10.0.0.4", "10.1.0.4"]}
    assert note in check_findings(report)


def test_two_uplinks_with_one_node_ip() -> None:
    """A source in the default route, often on lo, is the node IP; so is that of the only next hop
    in use.
    """
    loopback = as_ip("10.255.0.4")
    for report, node_ip in (
        (ecmp_report(source=loopback), loopback),
        (ecmp_report(is_dead=True), as_ip("10.0.0.4")),
    ):
        assert report.node_ips == {4: node_ip}
        assert report.families[0].flaws == ()


@pytest.mark.parametrize("block", ["10.244.1.0/24", "10.244.1.1/32"])
def test_a_source_of_its_own_on_a_pods_bridge(block: str) -> None:
    """A `from` that the host's own address on a CNI's bridge fulfils is about packets of pods, and
    if Linux may write that address into its own, also about these.

    Linux writes that address into packets that leave through a device without one, and looks up
    again with it.
    """
    links = (Link(name="cni0", index=10, kind="bridge"), IB0)
    rule = Rule(family=4, priority=100, table=100, src=Prefix.parse(block))
    host = node(ELSEWHERE, rules=(rule,), links=links)
    bridge = Address(ip=as_ip("10.244.1.1"), length=24, dev="cni0")
    assert checked(host._replace(addresses=(*host.addresses, bridge))).verdict == "undecided"
    assert checked(host._replace(addresses=(bridge,))).verdict == "overlap"


@pytest.mark.parametrize(
    ("block", "to_pod", "section", "verdict"),
    [
        ("10.244.0.0/16", "10.244.1.5/32", {}, "undecided"),
        ("10.244.0.0/16", "10.245.1.5/32", {}, "ok"),
        ("10.244.1.5/32", "10.244.1.5/32", {}, "ok"),
        ("10.244.0.0/16", "10.244.1.5/32", {"pod_cidrs": ["10.9.0.0/16"]}, "ok"),
        ("10.244.0.0/16", "10.244.1.5/32", {"expected_devs": ["eth0", "cali1"]}, "ok"),
    ],
)
def test_a_rule_for_the_sources_of_pods(
    block: str, to_pod: str, section: dict[str, Any], verdict: str
) -> None:
    """A route by a CNI's device says that a `from` selects packets of pods, also if the CNI has no
    address in the block. A rule for a single pod is its CNI's, and `podCidrs` says which are pods.
    """
    rule = Rule(family=4, priority=100, table=100, src=Prefix.parse(block))
    pod = Route.to(to_pod, dev="cali1")
    host = node(ELSEWHERE, pod, rules=(rule,), links=(CALI1, IB0))
    assert checked(host, **section).verdict == verdict


@pytest.mark.parametrize("way", [ELSEWHERE, ELSEWHERE._replace(next_hops=(), type="blackhole")])
def test_a_rule_for_addresses_of_several_devices(way: Route) -> None:
    """A `from` is known only if each own address in it is one of the device by which its packets
    leave.
    """
    host = node(
        way, rules=(Rule(family=4, priority=100, table=100, src=Prefix.parse("10.8.0.0/15")),)
    )
    held = [
        Address(ip=as_ip(f"10.{number}.0.1"), length=24, dev=dev)
        for number, dev in ((8, "lo"), (9, "ib0"))
    ]
    both, only = (
        host._replace(addresses=(*host.addresses, *addresses)) for addresses in (held, held[1:])
    )
    assert checked(both).verdict == "undecided"
    assert checked(only).verdict == ("ok" if way is ELSEWHERE else "undecided")


def test_reserved_ranges_are_the_hosts_own() -> None:
    """A check of everything is not about the loopback network, nor about the addresses of each
    single link.
    """
    assert checked(node(), "0.0.0.0/0").verdict == "ok"
    refused = Route(Prefix.parse("224.0.0.0/4"), type="unreachable", protocol=4)
    assert checked(node(refused), "239.0.0.0/8").verdict == "overlap"
    assert checked(node(Route.to("240.0.0.0/4", dev="ib0")), "255.255.255.255/32").verdict == "ok"


def test_addresses_of_services_on_dummy_devices() -> None:
    """kube-proxy has each service's address on a dummy device; that is no address of the host."""
    link = Link(name="kube-ipvs0", index=12, kind="dummy")
    host = node(links=(link,))
    service = Address(ip=as_ip("10.96.0.10"), length=32, dev="kube-ipvs0")
    report = checked(
        host._replace(addresses=(*host.addresses, service)), service_cidrs=["10.96.0.0/16"]
    )
    assert report.families[0].flaws == ()


def test_a_repair_of_nested_ipv6_routes_is_found_at_once() -> None:
    """Each prefix is looked at once for each wider route. Kills: a search that doubles with each
    nested route.
    """
    nested = [
        Route(Prefix.around(6, int(as_ip("fd00::")), length), (NextHop("ib0"),), metric=1024)
        for length in range(32, 97, 8)
    ]
    report = checked(node(BY_IPV6, *nested), "fd00::/16")
    assert 0 < len(report.routes) <= len(nested) * 2
    assert report.families[0].repair.unrepairable == ()


def test_a_repair_of_many_ipv6_routes_is_given_up_at_once() -> None:
    """The search ends with the first route that is one too many. Kills: a search that doubles with
    each level.
    """
    lengths = [24 + 7 * at % 105 for at in range(2_000)]
    captures = [
        Route(
            Prefix.around(6, (0xFD00 << 112) + (at * 0x9E3779B97F4A7C15 << 40), length),
            (NextHop("ib0"),),
            metric=9,
        )
        for at, length in enumerate(lengths)
    ]
    report = checked(node(BY_IPV6, *captures), "fd00::/8")
    assert {unsafe.why.reason for unsafe in report.families[0].repair.unrepairable} == {"too-many"}


def test_a_repair_waits_until_the_device_is_named() -> None:
    """Where a tunnel's default route hides the card's, it is not known by which the repair should
    lead.
    """
    links = (IB0, Link(name="wg1", index=10, kind="wireguard", type=65534))
    host = node(Route.to("0.0.0.0/0", dev="wg1"), Route.to(CIDR, dev="ib0"), links=links)
    repair = checked(host).families[0].repair
    assert (repair.routes, [unsafe.why.reason for unsafe in repair.unrepairable]) == (
        (),
        ["no-gateway"],
    )
    assert [route.dev for route in checked(host, expected_devs=["eth0", "eth9"]).routes] == [
        "eth0"
    ] * 2


def test_a_repair_is_never_a_default_route() -> None:
    """The configuration takes no default route, so a host without one in table main needs both of
    its halves.
    """
    eth1, network = (
        Link(name="eth1", index=10),
        Address(ip=as_ip("10.1.0.4"), length=24, dev="eth1"),
    )
    ways = [
        Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", table=100),
        Route.to(network.network, dev="eth1"),
    ]
    host = node(*ways, links=(eth1,))
    host = host._replace(
        routes=tuple(route for route in host.routes if route.prefix.length or route.table != 254)
    )
    report = checked(host._replace(addresses=(network,)), "0.0.0.0/0", expected_devs=["eth1"])
    routes = [str(route.destination) for route in report.routes]
    assert report.node_ips == {network.ip.version: network.ip}
    assert {"0.0.0.0/1", "128.0.0.0/1"} <= {*routes}
    assert StaticRoutesConfig(True, report.routes).enabled


def test_a_repair_names_the_device_where_table_main_has_another_default_route() -> None:
    """An open route would take the next hop of table main's, which a VPN's rule suppresses here."""
    rules = (
        Rule(family=4, priority=100, table=TABLE_MAIN, suppress_prefixlength=0),
        Rule(family=4, priority=200, table=200),
    )
    ways = Route.to("0.0.0.0/0", dev="eth1", table=200), Route.to(CIDR, dev="ib0", metric=100)
    report = checked(node(*ways, rules=rules, links=(IB0, Link(name="eth1", index=10))))
    assert [route.to_mapping() for route in report.routes] == [{"destination": CIDR, "dev": "eth1"}]


@pytest.mark.parametrize(("count", "routes"), [(256, 512), (257, 0)])
def test_a_repair_that_nobody_would_read(count: int, routes: int) -> None:
    """Each of these needs two routes, because its own key is taken; more than 512 are not proposed."""
    captures = [
        Route(Prefix.around(4, int(as_ip("172.16.0.0")) + 512 * at, 24), (NextHop("ib0"),))
        for at in range(count)
    ]
    report = checked(node(*captures), "172.16.0.0/13")
    assert (
        len(report.routes),
        {unsafe.why.reason for unsafe in report.families[0].repair.unrepairable},
    ) == (
        routes,
        set() if routes else {"too-many"},
    )
    assert ("more than 512 routes" in "".join(map(str, check_findings(report, mode="WARN")))) is (
        routes == 0
    )


def test_a_repair_of_the_last_address() -> None:
    """One address at the end of a CIDR is repaired by one route."""
    report = checked(node(Route.to("172.16.255.255/32", dev="ib0", metric=100)))
    assert [str(route.destination) for route in report.routes] == ["172.16.255.255/32"]


def test_a_repair_leaves_the_key_of_a_route_without_a_link_alone() -> None:
    """A route that Linux does not use now holds its key all the same."""
    dead = Route(Prefix.parse("172.16.5.0/24"), (NextHop("eth1", dead=True),), protocol=4)
    report = checked(node(Route.to(CIDR, dev="ib0"), dead), "172.16.5.0/24")
    assert [str(route.destination) for route in report.routes] == [
        "172.16.5.0/25",
        "172.16.5.128/25",
    ]


@pytest.mark.parametrize(
    ("gateways", "verdict"), [([None], "undecided"), ([None, as_ip("172.16.9.1")], "overlap")]
)
def test_what_is_behind_a_router_is_no_pod(gateways: list[IP | None], verdict: str) -> None:
    """A route inside a refused range leads to a pod only if none of its next hops has a gateway."""
    hops = tuple(NextHop("cali1", gateway=gateway) for gateway in gateways)
    refused = Route(Prefix.parse("172.16.5.0/24"), type="blackhole", protocol=4)
    host = node(refused, Route(Prefix.parse("172.16.5.9/32"), hops), links=(CALI1,))
    assert checked(host, "172.16.5.128/25").verdict == verdict


def test_the_uplink_leads_to_no_pod() -> None:
    """A single address that is reached by an expected device is no pod inside a refused range,
    whatever the device.
    """
    refused = Route(Prefix.parse("172.16.5.0/24"), type="blackhole", protocol=4)
    host = node(refused, Route.to("172.16.5.9/32", dev="cali1"), links=(CALI1,))
    assert checked(host).verdict == "undecided"
    assert checked(host, "172.16.5.0/24", expected_devs=["cali1"]).verdict == "overlap"


def test_packets_of_users_with_any_source_but_some() -> None:
    """A `not from` whose block is no own address is about the host's packets, where another rule
    decides the plain ones.
    """
    rules = (
        Rule(family=4, priority=90, table=TABLE_MAIN, others=(("uidrange", "0-0"),)),
        Rule(family=4, priority=100, table=100, src=Prefix.parse("10.244.0.0/16"), invert=True),
    )
    assert checked(node(ELSEWHERE, rules=rules)).verdict == "undecided"


def test_packets_of_users_that_no_rule_takes() -> None:
    """Where the only rule for table main selects some users, packets of the others have no route."""
    rules = (
        default_rules(4)[0],
        Rule(family=4, priority=90, table=TABLE_MAIN, others=(("uidrange", "0-0"),)),
    )
    assert checked(node()._replace(rules=rules)).verdict == "undecided"


def test_packets_without_a_mark_are_no_vpns() -> None:
    """Where a `not fwmark` decides for other users, their packets have no mark, and a device for
    marked ones is wrong.
    """
    links = (Link(name="antrea-ext.5", index=10, kind="vlan"),)
    rules = (
        Rule(family=4, priority=90, table=TABLE_MAIN, others=(("uidrange", "0-0"),)),
        Rule(family=4, priority=100, table=100, fwmark=0xCA6C, fwmask=0xFFFF, invert=True),
    )
    way = Route.to("0.0.0.0/0", dev="antrea-ext.5", table=100)
    assert checked(node(way, rules=rules, links=links)).verdict == "undecided"


@pytest.mark.parametrize(
    ("dev", "verdict"), [("cali1", "ok"), ("lxc1", "undecided"), ("eth1", "undecided")]
)
def test_a_refused_block_with_things_of_another_cni_inside(dev: str, verdict: str) -> None:
    """BIRD refuses blocks for Calico: only a pod of Calico inside shows that, beside a device of
    Calico.
    """
    links = tuple(
        Link(name=name, index=10 + place, kind="veth")
        for place, name in enumerate(["cali1", "lxc1", "eth1"])
    )
    block = Route(Prefix.parse("172.16.5.0/24"), type="blackhole", protocol=12)
    host = node(block, Route.to("172.16.5.7/32", dev=dev), links=links)
    assert checked(host, "172.16.5.128/25").verdict == verdict
    ways = (
        block._replace(protocol=80),
        Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100),
    )
    rule = Rule(family=4, priority=100, table=100, src=Prefix.parse("10.0.0.4/32"))
    assert (
        checked(node(*ways, rules=(rule,), links=links)).verdict == "ok"
    )  # Calico's own; a refusal has no source


def test_a_repair_leaves_alone_what_a_later_rule_sends_right() -> None:
    """A route in table main is used before the later rules: a wide one would take what these send
    by a fine device.
    """
    rules = (
        Rule(family=4, priority=100, table=TABLE_MAIN, suppress_prefixlength=0),
        Rule(family=4, priority=200, table=200, dst=Prefix.parse("172.16.5.0/24")),
        Rule(family=4, priority=300, table=300),
    )
    ways = Route.to("0.0.0.0/0", dev="ib0", table=200), Route.to(CIDR, dev="wg1", table=300)
    links = (IB0, Link(name="wg1", index=10, kind="wireguard", type=65534))
    not_there = Route(Prefix.parse("172.16.5.0/24"), type="throw", table=300)
    report = checked(node(*ways, not_there, rules=rules, links=links), allowed_devs=["wg1"])
    assert [str(route.destination) for route in report.routes] == ["172.16.5.0/24"]
    # Without the throw, wg1 has also these packets, once the route by ib0 is gone.
    report = checked(node(*ways, rules=rules, links=links), allowed_devs=["wg1"])
    assert (
        report.routes,
        [unsafe.why.reason for unsafe in report.families[0].repair.unrepairable],
    ) == (
        (),
        ["below-a-cni"],
    )


def test_a_repair_that_is_not_proven() -> None:
    """What a route takes, but does not make fine, has a reason of its own."""
    marked = Rule(family=4, priority=50, table=100, fwmark=1, fwmask=1)
    [unsafe] = (
        checked(node(Route.to(CIDR, dev="ib0"), ELSEWHERE, rules=(marked,)))
        .families[0]
        .repair.unrepairable
    )
    assert unsafe.why.reason == "not-proven"


def test_a_cni_that_refuses_in_one_family_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the table may have the lengths of one family; the other family has no such routes."""
    row = Refusal(222, ("prohibit",), {4: (24, 28)})
    made_up = Cni("Foo", (), (row,))
    monkeypatch.setattr("hostrouting.check.refusals.CNIS", (*CNIS, made_up))
    kernel = plain_vm()
    kernel.add_address("eth0", "fd00::4/64")
    kernel.ip_route("add", Route.to("::/0", dev="eth0", gateway="fd00::1"))
    kernel.ip_route("add", Route.to("fd44::/24", type="prohibit", protocol=222))
    config = HostRoutingConfig.from_mapping({"routeOverlap": {"expectedCidrs": ["fd44::/16"]}})
    assert check_snapshot(kernel.snapshot(), config).verdict == "overlap"


@pytest.mark.parametrize(("own", "verdict"), [([], "overlap"), (["dev1"], "undecided")])
def test_each_next_hop_below_a_tunnel_is_judged_alone(own: list[str], verdict: str) -> None:
    """That one device has a router, or its own network, says nothing about the other."""
    links = (WG1, Link(name="dev1", index=10), Link(name="dev2", index=11))
    hops = (NextHop("dev1"), NextHop("dev2", gateway=as_ip("172.17.0.1")))
    routes = (Route.to("0.0.0.0/0", dev="wg1"), Route(Prefix.parse(CIDR), hops, protocol=4))
    host = with_only_default(node(*routes, links=links), "wg1")
    addresses = tuple(Address(ip=as_ip("172.16.0.4"), length=16, dev=dev) for dev in own)
    report = checked(host._replace(addresses=addresses), "172.16.5.0/24")
    assert report.verdict == verdict
    assert [escape.devs for escape in report.escapes] == [("dev1",)] * (not own)


@pytest.mark.parametrize(
    ("beside", "metric", "verdict"),
    [("eth0", 99, "overlap"), ("eth0", 100, "overlap"), ("cni0", 100, "undecided")],
)
def test_a_second_card_beside_another_default_route(beside: str, metric: int, verdict: str) -> None:
    """Where a card has a default route, even one that is in doubt beside a tunnel's, no other card
    is meant. The bridge of pods is not a card.
    """
    links = (WG1, Link(name="eth1", index=10), Link(name="cni0", index=11, kind="bridge"))
    first = Route.to("0.0.0.0/0", dev=beside, metric=100)
    tunnel = Route.to("0.0.0.0/0", dev="wg1", metric=metric)
    rail = Route.to(CIDR, dev="eth1", protocol=PROTOCOL_KERNEL)
    host = node(links=links)._replace(routes=(first, tunnel, rail))
    held = Address(ip=as_ip("172.16.0.4"), length=16, dev="eth1")
    host = host._replace(addresses=(*host.addresses, held))
    assert checked(host, "172.16.5.0/24").verdict == verdict


def test_an_allowed_device_may_still_be_the_wrong_uplink() -> None:
    """`allowedDevs` names devices beside the uplink; which one the uplink is, `expectedDevs` says."""
    host = node(Route.to("0.0.0.0/0", dev="wg1"), links=(WG1,))
    assert checked(host, allowed_devs=["wg1"]).verdict == "undecided"
    assert checked(host, allowed_devs=["wg1"], expected_devs=["eth0"]).verdict == "ok"


def test_each_cni_is_named_with_its_own_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several CNIs that may have made a device, each may know it by another pattern."""
    made_up = [
        Cni(name, (Device(pattern, ("dummy",), "network"),))
        for name, pattern in (("Foo", "foo*"), ("Bar", "foo#"), ("Baz", "foo*"))
    ]
    monkeypatch.setattr("hostrouting.config.cni.CNIS", made_up)
    host = node(Route.to(CIDR, dev="foo1"), links=(Link(name="foo1", index=10, kind="dummy"),))
    parts = checked(host).families[0].parts
    assert {part.allowance for part in parts} == {"foo* (Foo or Baz) or foo# (Bar)"}


def test_an_equal_copy_of_the_plain_packet() -> None:
    """A packet is data: after another process had it, it is judged as before."""
    rule = Rule(family=4, priority=100, table=100, src=Prefix.parse("127.0.0.0/8"))
    judge = Judge(Fib(node(ELSEWHERE, rules=(rule,)), 4), expect(CIDR))
    block = Prefix.parse(CIDR)
    by_source = [
        list(find_parts(judge, block.first, block.last, packet)) for packet in (PLAIN, Packet())
    ]
    assert by_source[0] == by_source[1]


def test_a_route_that_a_rule_suppresses_catches_nothing() -> None:
    """What catches packets is to be deleted; that is not so for a route to the same prefix that
    Linux would pass over.
    """
    stale = Route.to(CIDR, type="blackhole", protocol=4)
    suppressed = Route.to(CIDR, dev="ib0", metric=5)
    by_flannel = Route.to(CIDR, dev="flannel.1", table=300)
    rules = (
        Rule(family=4, priority=100, table=TABLE_MAIN, suppress_prefixlength=16),
        Rule(family=4, priority=200, table=300),
    )
    links = (IB0, Link(name="flannel.1", index=10, kind="vxlan"))
    report = checked(node(stale, suppressed, by_flannel, rules=rules, links=links))
    [unrepairable] = report.families[0].repair.unrepairable
    assert unrepairable.why.reason == "below-a-cni"
    assert unrepairable.why.catching == (stale,)


RAIL = Link(name="rail0", index=10)
BY_RAIL = Route.to("0.0.0.0/0", dev="rail0", gateway="10.8.0.1", table=7)


def test_the_source_of_an_uplink_with_a_cnis_name() -> None:
    """An address of the uplink is this host's own, even if the device has the name of a CNI's, as
    Azure CNI's bridge has that is the uplink.
    """
    azure0 = Link(name="azure0", index=11, kind="bridge")
    default = Route.to("0.0.0.0/0", dev="azure0", gateway="10.0.0.1")
    own = (Address(as_ip("10.0.0.4"), 24, "azure0"), Address(as_ip("10.0.0.5"), 24, "azure0"))
    rule = Rule(family=4, priority=100, table=7, src=Prefix.parse("10.0.0.5/32"))
    host = Snapshot(
        links=(Link(name="eth0", index=2, master="azure0"), azure0, RAIL),
        addresses=own,
        rules=(rule, *default_rules(4)[1:]),
        routes=(default._replace(prefsrc=as_ip("10.0.0.4")), BY_RAIL),
    )
    assert checked(host).verdict == "undecided"


def test_equal_default_routes_for_a_source() -> None:
    """Linux may use either of two equal default routes with a gateway: one by another device is not
    right for packets with a source, as it is not for plain ones.
    """
    other = Route.to("0.0.0.0/0", dev="eth1", gateway="10.9.2.1", table=7)
    links = (RAIL, Link(name="eth1", index=12))
    rule = Rule(family=4, priority=100, table=7, src=Prefix.parse("10.9.1.5/32"))
    for routes, verdict in (((BY_RAIL,), "ok"), ((BY_RAIL, other), "undecided")):
        host = vm_with(*routes, rules=(rule,), links=links)
        host = host._replace(addresses=(*host.addresses, Address(as_ip("10.9.1.5"), 24, "rail0")))
        assert checked(host).verdict == verdict


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("10.0.0.1", "10.1.0.1", "overlap"),
        ("10.0.0.1", None, "ok"),
        (None, "10.1.0.1", "ok"),
        (None, None, "ok"),
    ],
)
def test_equal_default_routes_of_which_one_is_named(
    first: str | None, second: str | None, verdict: str
) -> None:
    """While its gateway does not answer, IPv4 goes over from a route to another one with a gateway.
    Without a name, it is in doubt which of the two is meant.
    """
    host = vm_with(links=(Link(name="eth1", index=9),))
    others = [route for route in host.routes if route.prefix.length]
    defaults = [Route.to("0.0.0.0/0", dev="eth0", gateway=first)]
    defaults.append(Route.to("0.0.0.0/0", dev="eth1", gateway=second))
    host = host._replace(routes=(*defaults, *others))
    assert checked(host, expected_devs=["eth0"]).verdict == verdict
    assert checked(host).verdict == "undecided"


@pytest.mark.parametrize("section", [{}, {"expected_devs": ["eth0"]}])
def test_an_equal_default_route_by_lo(section: dict[str, Any]) -> None:
    """Linux uses it where it is the first, and never instead of one with a gateway."""
    host = node()
    [default] = [route for route in host.routes if route.prefix.length == 0]
    by_lo = default._replace(next_hops=(NextHop("lo"),), scope=SCOPE_LINK)
    assert checked(host.with_routes([by_lo]), **section).verdict == "ok"
    others = [route for route in host.routes if route is not default]
    first = host._replace(routes=(by_lo, default, *others))
    assert checked(first, **section).verdict == "overlap"


@pytest.mark.parametrize(
    "first", [None, {"dst": Prefix.parse("172.16.5.0/24")}, {"fwmark": 1, "fwmask": 1}]
)
def test_what_no_route_repairs_for_pods(first: dict[str, Any] | None) -> None:
    """A rule before table main leads packets of pods away. A rule for table main that is not about
    these packets changes nothing about that, as AWS VPC CNI has some.
    """
    rules = [Rule(family=4, priority=100, table=100, src=Prefix.parse("10.244.1.0/24"))]
    if first is not None:
        rules.append(Rule(**{"family": 4, "priority": 50, "table": TABLE_MAIN, **first}))
    host = node(ELSEWHERE, rules=tuple(rules))
    [family] = checked(host, "172.16.6.0/24", pod_cidrs=["10.244.1.0/24"]).families
    assert [lost.why.reason for lost in family.repair.unrepairable] == ["earlier-rule"]


def test_a_rule_for_connections_that_is_intended() -> None:
    """An entry of intendedRules is about connections, too, which take the rule or not."""
    rule = Rule(family=4, priority=100, table=100, src=Prefix.parse("10.0.0.4/32"))
    host = node(ELSEWHERE, rules=(rule,))
    said = "OVERLAP: all of 172.16.0.0/16, for connections, leaves through ib0; expected: eth0"
    assert str(checked(host)) == said
    assert checked(host, intended_rules=["from 10.0.0.4"]).verdict == "ok"


@pytest.mark.parametrize(("users", "verdict"), [("1000-60000", "ok"), ("0-0", "overlap")])
def test_the_user_of_what_is_forwarded(users: str, verdict: str) -> None:
    """Linux forwards packets as user 0: those of pods never take the rule of another user."""
    pods = Rule(family=4, priority=50, table=TABLE_MAIN, iif="lo")
    rule = Rule(family=4, priority=100, table=100, others=(("uidrange", users),))
    host = node(ELSEWHERE, rules=(pods, rule))
    assert checked(host, pod_cidrs=["10.244.1.0/24"]).verdict == verdict


def test_all_ways_that_are_fine_are_said() -> None:
    """OK names what does not leave by an expected device: the neighbours on a card that a tunnel
    hides, and what a CNI refuses or takes.
    """
    tunnel = Route.to("0.0.0.0/0", dev="wg1", metric=200)
    report = checked(node(tunnel, links=(WG1,)), "10.0.0.0/24", expected_devs=["wg1"])
    assert str(report) == (
        "OK: every address of 10.0.0.0/24 leaves through wg1, or through eth0 (its own network), "
        "or is this host's own"
    )
    block = Route.to("172.16.5.0/26", type="blackhole", protocol=80)
    pod = Route.to("172.16.5.1/32", dev="cali1")
    assert str(checked(node(block, pod, links=(CALI1,)))) == (
        "OK: every address of 172.16.0.0/16 leaves through eth0, or through cali* (Calico), or is "
        "refused as no pod's, in 172.16.5.0/26 (Calico), or is this host's own"
    )
    hops = Route(Prefix.parse(CIDR), (NextHop("wg1"), NextHop("cni0"), NextHop("eth0")), protocol=2)
    report = checked(
        node(hops, links=(WG1, Link("cni0", index=10, kind="bridge"))), allowed_devs=["wg1"]
    )
    assert str(report) == (
        "OK: every address of 172.16.0.0/16 leaves through eth0, or through cni0 (bridge) or wg1 "
        "(allowedDevs), or is this host's own"
    )


def test_one_default_route_beside_two_halves_and_a_goto() -> None:
    """The default route that plain packets may miss is a card's, and nothing calls it a tunnel."""
    halves = [Route.to(half, dev="wg1") for half in ("0.0.0.0/1", "128.0.0.0/1")]
    first = Rule(family=4, priority=49, table=TABLE_MAIN, suppress_prefixlength=1)
    jump = Rule(family=4, priority=50, action="goto", target=32766)
    report = checked(node(*halves, rules=(first, jump), links=(WG1,)), "10.0.0.0/24")
    assert "eth0, a tunnel" not in "".join(map(str, check_findings(report)))
