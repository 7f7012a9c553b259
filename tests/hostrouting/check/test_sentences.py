"""hostrouting.check.sentences: each finding in words, as an operator reads it, on a node that has
it.
"""

from typing import Any

import pytest

from hostrouting.check.sentences import addition_command, check_findings
from hostrouting.config.settings import Mode
from hostrouting.finding import WRONG, Finding
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, TABLE_LOCAL, TABLE_MAIN, NextHop, Refusing, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import cni_node, plain_vm
from tests.support import topologies
from tests.support.topologies import BY_IPV6, IB0, address, checked, main_with, rule, vm_with

CIDR = "172.16.0.0/16"
HALVES = "172.16.0.0/17 and 172.16.128.0/17"
ANYWHERE = Prefix.parse("0.0.0.0/0")
INSIDE = Prefix.parse("172.16.5.0/24")
ETH1 = Link(name="eth1", index=9)
VM = plain_vm().snapshot()
HOLDER = VM._replace(name_servers=(as_ip("10.0.0.2"), as_ip("9.9.9.9")))


def without(priority: int) -> Snapshot:
    """A plain VM without the rule of this priority."""
    return VM._replace(rules=tuple(rule for rule in VM.rules if rule.priority != priority))


def second_default(metric: int) -> Snapshot:
    """A plain VM with a second card, whose default route has this metric."""
    route = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", protocol=16, metric=metric)
    return vm_with(route, links=(ETH1,))


NO_DEFAULT = VM._replace(routes=tuple(route for route in VM.routes if route.prefix.length))
DOCKER = Link(name="docker0", index=9, kind="bridge")
WG0 = Link(name="wg0", index=9, kind="wireguard", type=65534)


def only_default(route: Route, link: Link) -> Snapshot:
    """A plain VM with this default route alone, which does not count, so it is named."""
    return NO_DEFAULT.with_routes([route])._replace(links=(*NO_DEFAULT.links, link))


def findings(
    snapshot: Snapshot, *cidrs: str, mode: Mode = "STRICT", **section: Any
) -> tuple[Finding, ...]:
    """The findings of that check."""
    return check_findings(checked(snapshot, *cidrs, **section), mode=mode, wait=60)


def named(
    name: str, snapshot: Snapshot, *cidrs: str, mode: Mode = "STRICT", **section: Any
) -> list[Finding]:
    """The findings of that check that have this name."""
    return [each for each in findings(snapshot, *cidrs, mode=mode, **section) if each.name == name]


HOSTS = {
    "own range": vm_with(
        Route(INSIDE, (NextHop("lo"),), type="local", protocol=4, table=TABLE_LOCAL)
    ),
    "no route": vm_with(Route(INSIDE, type="throw")),
    "blackhole": vm_with(Route(INSIDE, type="blackhole", protocol=12)),
    "unreachable": vm_with(Route(INSIDE, type="unreachable", protocol=4)),
    "no default route": NO_DEFAULT,
    "by InfiniBand": only_default(
        Route.to(ANYWHERE, dev="ib0", protocol=16), Link("ib0", index=9, type=32)
    ),
    "by the loopback device": only_default(
        Route.to(ANYWHERE, dev="lo"), Link("lo", index=1, type=772)
    ),
    "by a dead end": only_default(
        Route.to(ANYWHERE, dev="ifb0"), Link("ifb0", index=9, kind="ifb")
    ),
    "in a table without a rule": only_default(Route.to(ANYWHERE, dev="eth1", table=7), ETH1),
    "on link": vm_with(Route(INSIDE, (NextHop("eth0"),), protocol=3)),
    "a repair of one route": vm_with(
        Route(INSIDE, (NextHop("docker0"),), protocol=2, metric=9), links=(DOCKER,)
    ),
    "not proven": vm_with(
        Route(INSIDE, (NextHop("docker0"),)),
        Route(ANYWHERE, (NextHop("docker0"),), table=100),
        rules=(rule(priority=50, fwmark=1, fwmask=1),),
        links=(DOCKER,),
    ),
    "competing defaults": second_default(200),
    "equal defaults": second_default(100),
    "a tunnel, which does not compete": vm_with(
        Route.to(ANYWHERE, dev="wg0", metric=500), links=(WG0,)
    ),
    "not judged": vm_with(rules=(Rule(family=4, priority=50, action="goto", target=100),)),
    "services that hold the host": HOLDER,
    "no local rule": without(0),
    "no main rule": without(32766),
}
SECTIONS: dict[str, dict[str, Any]] = {
    "equal defaults": {"expected_devs": ["eth0"]},
    "services that hold the host": {"service_cidrs": ["10.0.0.0/16"]},
}


def findings_of(name: str) -> tuple[Finding, ...]:
    """The findings of the host with this name."""
    return findings(HOSTS[name], **SECTIONS.get(name, {}))


def test_each_line(snapshot: object) -> None:
    """The line names the thing, the reason and the remedy: __snapshots__ has those of each host,
    and the severities.
    """
    lines: list[str] = []
    for name in HOSTS:
        lines += [f"{name}: {each.severity}: {each.line}" for each in findings_of(name)]
    assert snapshot == "\n".join(lines)


@pytest.mark.parametrize("name", HOSTS)
def test_a_sentence_is_short(name: str) -> None:
    """Without the text of a route or a rule, it has less than 160 characters."""
    for finding in findings_of(name):
        quotes_a_route_or_rule = "[" in finding.sentence or "rule" in finding.sentence
        assert quotes_a_route_or_rule or len(finding.sentence) < 160, finding.sentence


@pytest.mark.parametrize("name", HOSTS)
def test_only_what_fails_in_strict_is_an_error(name: str) -> None:
    """An error makes a run fail, and beside it nobody tries again (`can_retry`)."""
    errors = {finding.name for finding in findings_of(name) if finding.severity == "error"}
    assert errors <= {*WRONG, "unsafe"}


def test_the_name_server_of_the_cluster() -> None:
    """Kubespray writes it into the resolv.conf of nodes. On a dummy, it is a service: kube-proxy
    (IPVS) and the DNS cache have its address there. Elsewhere, only the operator knows.
    """
    held = named("service-network-holds-host", HOLDER, service_cidrs=["10.0.0.2/32"])
    assert "unless it is the cluster's own" in held[0].line
    of_kube_proxy = address("10.0.0.2/32", "kube-ipvs0")
    dummy = Link(name="kube-ipvs0", index=9, kind="dummy")
    served = HOLDER._replace(
        links=(*HOLDER.links, dummy), addresses=(*HOLDER.addresses, of_kube_proxy)
    )
    assert not named("service-network-holds-host", served, service_cidrs=["10.0.0.2/32"])


CNI = cni_node().snapshot()
CNI_AND_DOCKER = CNI._replace(links=(*CNI.links, DOCKER))
BY_DOCKER = Route.to("172.17.0.0/16", dev="docker0")
HIDING = Route.to("10.244.0.0/25", dev="docker0")
"""A route that hides pods of cni0."""


def test_a_device_that_may_be_allowed() -> None:
    """A virtual one: it may be intended that its network leaves by it. In STRICT, a unit that does
    not start would only tempt to allow it.
    """
    host = CNI_AND_DOCKER.with_routes([BY_DOCKER])
    [escape, *_] = findings(host, "172.17.0.0/16", mode="WARN")
    assert str(escape.remedy) == (
        "if leaving through docker0 (bridge) is intended, as root: "
        "hostrouting repair 172.17.0.0/16 --allow docker0 | hostrouting apply --config -"
    )
    assert escape.facts["mayAllow"] == {"docker0": "bridge"}
    [strict, *_] = findings(host, "172.17.0.0/16")
    assert strict.remedy is None
    assert "mayAllow" not in strict.facts


def test_no_allowance_for_what_hides_pods() -> None:
    """With docker0 allowed, the check would be OK while pods of cni0 are unreachable; elsewhere,
    too, it is not proposed then.
    """
    host = CNI_AND_DOCKER.with_routes([HIDING, BY_DOCKER])
    of_both = findings(host, "10.244.0.0/16", "172.17.0.0/16", mode="WARN")
    remedies = {finding.target: str(finding.remedy) for finding in of_both}
    command = "ip route del 10.244.0.0/25 dev docker0 table main"
    assert remedies["10.244.0.0/25"].endswith(f"as root: {command}")
    assert "172.17.0.0/16" in remedies
    assert "--allow" not in "".join(remedies.values())


@pytest.mark.parametrize(("family", "to"), [(4, "172.17.0.0/16"), (6, "fd16::/64")])
def test_a_rule_is_named_although_the_device_hides_pods(family: int, to: str) -> None:
    """Only to allow the device is not proposed, in neither family: allowedDevs is for both."""
    of_table_100 = Route.to(to, dev="docker0", table=100)
    by_rule = Rule(family=family, priority=50, table=100, dst=Prefix.parse(to))
    host = CNI_AND_DOCKER.with_routes([HIDING, BY_IPV6, of_table_100])
    host = host._replace(rules=(*host.rules, by_rule))

    escapes = named("overlap", host, "10.244.0.0/16", to, mode="WARN")

    [remedy] = [str(escape.remedy) for escape in escapes if escape.target == to]
    assert remedy.startswith("exclude this network in the program that added rule 50")
    assert "--allow" not in remedy


def test_a_rule_that_leads_several_ranges_away() -> None:
    """Each says what to do about the rule, also one that is a single address."""
    ranges = ["172.16.1.0/24", "172.16.3.7/32", "172.16.5.0/24"]
    led_away = [Route.to(to, dev="ib0", table=100) for to in ranges]
    host = vm_with(*led_away, rules=(rule(priority=50),), links=(IB0,))
    escapes = named("overlap", host, "172.16.0.0/16")
    assert len(escapes) == len(ranges)
    for escape in escapes:
        assert "the program that added rule 50" in str(escape.remedy)


def test_the_rule_for_table_main_is_never_deleted() -> None:
    """It leads packets of pods by ib0, and a rule for the host's own ones comes before it: only
    that one hinders a repair.
    """
    by_rule = rule(dst=CIDR, priority=50, iif="lo")
    routes = [Route.to(CIDR, dev="ib0"), Route.to(ANYWHERE, dev="ib0", table=100)]
    host = vm_with(*routes, rules=(by_rule,), links=(IB0,))
    plain, of_pods = named("overlap", host, pod_cidrs=("10.244.0.0/24",))
    assert "that added rule 50" in str(plain.remedy)
    assert "of pods" in of_pods.sentence
    assert of_pods.remedy is None


def test_the_rule_for_table_local_is_never_deleted() -> None:
    """The host would no longer answer on its addresses: of a route in table local, it is the route
    that is deleted.
    """
    by_ib0 = Route(Prefix.parse(CIDR), (NextHop("ib0"),), type="multicast", table=TABLE_LOCAL)
    [escape] = named("overlap", vm_with(by_ib0, links=(IB0,)))
    command = f"ip route del {CIDR} table local"
    assert str(escape.remedy) == f"delete the route to {CIDR}, as root: {command}"


def costs(host: Snapshot, *cidrs: str, **section: Any) -> list[str]:
    """The sentences about what the repair costs."""
    return [cost.sentence for cost in named("repair-cost", host, *cidrs, **section)]


UNREACHED = "it no longer reaches containers or virtual machines behind br9"
MOVES = f"with the repair, this node's IP traffic to {CIDR} moves from wg0 to eth0"


@pytest.mark.parametrize("to", ["172.16.0.0/12", "128.0.0.0/1"])
def test_a_repair_that_takes_from_a_vpn(to: str) -> None:
    """All that the VPN has a route to, also by a half of a default route: what should be inside the
    VPN would leave outside of it.
    """
    host = vm_with(Route.to(to, dev="wg0"), links=(WG0,))
    assert costs(host) == [MOVES]


def test_a_repair_that_takes_from_a_vpn_beside_others() -> None:
    """Each next hop of a route loses its packets, also behind addresses without a route."""
    both = (NextHop("eth1", gateway=as_ip("10.1.0.1"), onlink=True), NextHop("wg0"))
    half = Prefix.parse("172.16.128.0/17")
    host = vm_with(Route(half, both), links=(ETH1, WG0))
    rules = [each for each in host.rules if each.table != TABLE_MAIN]
    suppressing = host._replace(rules=(*rules, main_with(0)))
    found = costs(suppressing, expected_devs=["eth0"])
    of_half = MOVES.replace(CIDR, str(half))
    assert found == [of_half.replace("wg0", "eth1"), of_half]


def test_a_repair_that_takes_neighbours() -> None:
    """Those in the network of a device; the rest of the network stays."""
    own = address("172.16.0.9/16", "wg0")
    held = vm_with(Route.to(CIDR, dev="wg0"), links=(WG0,), addresses=(own,))
    assert costs(held) == [MOVES]
    [cost] = costs(held, "172.16.9.0/24")
    assert "traffic to 172.16.9.0/24 moves" in cost


def test_a_repair_by_routes_inside_each_other() -> None:
    """What they take is one range."""
    wide = Route.to("172.16.0.0/15", dev="wg0")
    inside = Route.to("172.16.5.0/24", dev="wg0")
    own = address("172.16.0.9/15", "wg0")
    host = vm_with(wide, inside, links=(WG0,), addresses=(own,))
    [cost] = costs(host, "172.16.0.0/15")
    assert "traffic to 172.16.0.0/15 moves" in cost


def test_a_repair_that_takes_from_two_rails() -> None:
    """Each rail loses what it had, also behind a router, and its own address parts no range."""
    kernel = plain_vm()
    for dev, own in (("ib0", "172.16.0.9/24"), ("ib1", "172.16.1.9/24")):
        kernel.add_link(Link(name=dev, index=0, type=32))
        kernel.add_address(dev, own)
    kernel.ip_route("add", Route.to("172.16.0.0/16", dev="ib0", gateway="172.16.0.1"))

    by_ib0, by_ib1 = named("repair-cost", kernel.snapshot())

    behind = "172.16.2.0\N{EN DASH}172.16.255.255"
    assert by_ib0.facts == {"dev": "ib0", "ranges": ["172.16.0.0\N{EN DASH}172.16.0.254", behind]}
    assert by_ib1.facts == {"dev": "ib1", "ranges": ["172.16.1.0\N{EN DASH}172.16.1.254"]}


def test_a_repair_takes_nothing_from_the_default_route_of_a_card() -> None:
    """The card may lead to nobody there. That of a VPN leads to its network."""
    default = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1")
    assert costs(vm_with(default, links=(ETH1,)), expected_devs=["eth0"]) == []
    vpn = Route.to("0.0.0.0/0", dev="wg0")
    assert costs(vm_with(vpn, links=(WG0,)), expected_devs=["eth0"]) == [MOVES]


@pytest.mark.parametrize(
    ("port", "consequence"),
    [
        pytest.param("veth", f"; {UNREACHED}", id="guest"),
        pytest.param("", "", id="card"),
    ],
)
def test_a_repair_that_takes_from_a_bridge(port: str, consequence: str) -> None:
    """The guests behind a bridge are on this host alone, unless a card is a port of it, too."""
    ports = Link(name="port0", index=10, kind=port, master="br9")
    network = Route.to(CIDR, dev="br9", protocol=2)
    own = address("172.16.0.1/16", "br9")
    bridge = Link(name="br9", index=9, kind="bridge")
    host = vm_with(network, links=(bridge, ports), addresses=(own,))
    [cost] = costs(host)
    move = f"with the repair, this node's IP traffic to {CIDR} moves from br9 to eth0"
    assert cost == move + consequence


def test_the_devices_of_a_repair_have_the_order_of_its_next_hops() -> None:
    """Kills: an order that differs from run to run."""
    devs = [f"eth{number}" for number in range(6)]
    hops = [NextHop(dev, gateway=as_ip("10.0.0.1"), onlink=True) for dev in devs]
    others = [Link(dev, index=20) for dev in devs[1:]]  # a plain VM has eth0
    default = Route(ANYWHERE, tuple(hops), metric=1)
    network = Route.to(CIDR, dev="ib0", protocol=2)
    own = address("172.16.0.4/16", "ib0")
    host = vm_with(default, network, links=(IB0, *others), addresses=(own,))

    [cost] = costs(host)

    assert "moves from ib0 to eth0, eth1, eth2, eth3 or 2 more" in cost


def test_a_repair_that_loses_what_the_default_route_has() -> None:
    """A static route has no source and no mtu: whoever sets the default route can set them."""
    host = vm_with(Route.to(CIDR, dev="ib0"), links=(IB0,))
    [default] = [route for route in host.routes if route.prefix.length == 0]
    others = [route for route in host.routes if route is not default]
    host = host._replace(routes=(default._replace(mtu=9000, advmss=8960), *others))

    cost, _ = named("repair-cost", host)

    loss = f'packets to {HALVES} leave without "mtu 9000 advmss 8960", which the default route has'
    assert cost.sentence == f"with the repair, {loss}"
    remedy = str(cost.remedy)
    assert "configure these routes in the program that sets the default route" in remedy


def test_the_devices_that_a_default_route_could_have() -> None:
    """Each network card with its address, and whether it is down; also a bridge with a card. A
    dummy sends nothing out of the host, docker0 and a CNI's bridge lead to containers, and a tunnel
    may be a VPN's. An address of the other family says nothing about this one's router.
    """
    interfaces = [
        ("eth0", "10.0.0.4/24"),
        ("br0", "10.1.0.4/24"),
        ("d0", "10.2.0.4/24"),
        ("docker0", "172.17.0.1/16"),
        ("cni0", "10.244.0.1/24"),
        ("wg0", "10.3.0.4/24"),
    ]
    links = [
        Link("br0", index=0, kind="bridge", up=False),
        Link("eth1", index=0, master="br0"),
        Link("eth2", index=0),
        Link("d0", index=0, kind="dummy"),
        DOCKER._replace(index=0),
        Link("veth1", index=0, kind="veth", master="docker0"),
        Link("cni0", index=0, kind="bridge"),
        WG0._replace(index=0),
    ]
    host = topologies.host(interfaces, links=links)
    of_ipv6 = address("2001:db8::4/64", "eth2")
    host = host._replace(addresses=(*host.addresses, of_ipv6))
    [finding] = named("no-default-route", host)
    assert str(finding.remedy).endswith("perhaps to eth0 (10.0.0.4/24) or br0 (10.1.0.4/24, down)")


TAILSCALE = Link("tailscale0", index=10, kind="tun", type=65534)


def test_a_rule_that_decides_first() -> None:
    """Where a VPN's table is looked up before main, no route helps: its program, or the rule."""
    by_vpn = Route.to(CIDR, dev="tailscale0", table=52)
    first = rule(priority=5270, table=52)
    [escape, *_] = findings(vm_with(by_vpn, rules=(first,), links=(TAILSCALE,)), mode="WARN")
    assert escape.remedy is not None
    allow, delete = escape.remedy.ways()
    assert allow.words == "if leaving through tailscale0 (tun) is intended"
    assert delete.command == "ip rule del pref 5270 lookup 52"


def test_to_allow_a_partition_of_infiniband_is_no_remedy() -> None:
    """It has a kind, as virtual devices do, and leads into InfiniBand as the card does."""
    partition = Link(name="ib0.8001", index=10, kind="ipoib", type=32)
    host = vm_with(Route.to(CIDR, dev="ib0.8001"), links=(IB0, partition))
    [escape, *_] = findings(host, mode="WARN")
    assert escape.name == "overlap"
    assert escape.remedy is None


def test_a_tunnel_with_a_name_that_no_configuration_can_have() -> None:
    """To allow it is no remedy: Linux takes almost any name."""
    tunnel = WG0._replace(name="wg@1")
    [escape, *_] = findings(vm_with(Route.to(CIDR, dev="wg@1"), links=(tunnel,)), mode="WARN")
    assert escape.name == "overlap"
    assert escape.remedy is None


ALONE = Prefix.parse("172.16.5.5/32")


def test_a_route_that_is_as_specific_as_a_route_can_be() -> None:
    """Only to delete it repairs the range."""
    by_card = Route(ALONE, (NextHop("ib0"),), protocol=4)
    *_, unsafe = findings(vm_with(by_card, links=(IB0,)))
    assert unsafe.remedy is not None
    assert unsafe.remedy.words == "if that is not intended"
    assert unsafe.remedy.command == "ip route del 172.16.5.5/32 dev ib0 table main proto 4"


def test_a_route_by_a_virtual_device_that_is_as_specific_as_a_route_can_be() -> None:
    """The device may also be allowed."""
    by_bridge = Route(ALONE, (NextHop("docker0"),), protocol=4)
    escape, unsafe = findings(vm_with(by_bridge, links=(DOCKER,)), mode="WARN")
    assert str(escape.remedy).startswith("if leaving through docker0 (bridge) is intended, as root")
    assert unsafe.remedy is not None


def test_a_route_of_ours_that_is_as_specific_as_a_route_can_be() -> None:
    """If it is configured with a wrong device, the guard brings it back after a deletion."""
    wrong = Route.to("fd16::5/128", dev="ib0", metric=100, protocol=OURS)
    *_, unsafe = findings(vm_with(BY_IPV6, wrong, links=(IB0,)), "fd16::/64")
    assert unsafe.remedy is not None
    in_configuration, if_not = unsafe.remedy.words.split("; ")
    assert in_configuration.endswith("remove hostrouting's route from staticRoutes.routes")
    assert if_not == "if it is not there"
    assert unsafe.remedy.command.startswith("ip -6 route del fd16::5/128")


def test_a_second_card_for_packets_of_pods() -> None:
    """AWS' CNI has a rule for each such pod, so to delete it comes last. To allow the card would
    allow it for the packets of this host, too.
    """
    pod = rule("10.0.1.7/32", priority=1536, table=2)
    route = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", table=2)
    node = vm_with(route, rules=(pod,), links=(ETH1,))
    pods = ["10.0.1.0/24"]

    [escape] = named("overlap", node, pod_cidrs=pods, mode="WARN")

    assert escape.remedy is not None
    intend, delete = escape.remedy.ways()
    words = 'if rule 1536 is intended, add to routeOverlap.intendedRules: ["from 10.0.1.7"]'
    assert intend.words == words
    assert delete.command == "ip rule del pref 1536 from 10.0.1.7 lookup 2"
    assert named("overlap", node, pod_cidrs=pods, intended_rules=["from 10.0.1.7"]) == []


def test_a_rule_for_all_packets_that_leads_those_of_pods_away() -> None:
    """It has no selectors, which `intendedRules` would have to name."""
    own = rule(priority=50, iif="lo", table=TABLE_MAIN)
    all_packets = rule(priority=60, table=2)
    route = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", table=2)
    node = vm_with(route, rules=(own, all_packets), links=(ETH1,))
    [escape] = named("overlap", node, pod_cidrs=["10.0.1.0/24"])
    assert "of pods" in escape.sentence
    assert escape.remedy is not None
    [exclude] = escape.remedy.ways()
    assert exclude.command == "ip rule del pref 60 lookup 2"


def test_a_second_card_for_connections_of_this_host() -> None:
    """Neither the card nor the rule is to be allowed: it is this host that would lose packets."""
    own = rule("10.0.0.4/32", priority=50, table=2)
    route = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", table=2)
    node = vm_with(route, rules=(own,), links=(ETH1,))
    escapes = named("overlap", node)
    assert escapes
    for escape in escapes:
        assert escape.remedy is not None
        [exclude] = escape.remedy.ways()
        assert exclude.command == "ip rule del pref 50 from 10.0.0.4 lookup 2"


def test_a_rule_that_decides_first_for_two_escapes() -> None:
    """Each of two neighbouring ranges, which leave by different tunnels, has the rule's remedy."""
    routes = [
        Route.to("172.16.0.0/17", dev="tailscale0", table=52),
        Route.to("172.16.128.0/17", dev="wg0", table=52),
    ]
    first = rule(priority=5270, table=52)
    escapes = named("overlap", vm_with(*routes, rules=(first,), links=(TAILSCALE, WG0)))
    assert [escape.target for escape in escapes] == ["172.16.0.0/17", "172.16.128.0/17"]
    for escape in escapes:
        assert "ip rule del pref 5270 lookup 52" in str(escape.remedy)


def test_a_rule_that_decides_first_for_hardware() -> None:
    """That packets may leave by a card with RDMA is not proposed; what to do about the rule is."""
    by_card = Route.to(CIDR, dev="ib0", table=100)
    host = vm_with(by_card, rules=(rule(priority=50),), links=(IB0,))
    [escape, *_] = findings(host, mode="WARN")
    assert str(escape.remedy) == (
        "exclude this network in the program that added rule 50; until then, as root: "
        "ip rule del pref 50 lookup 100"
    )


def test_one_remedy_for_one_command() -> None:
    """Where a blackhole hides pods, the finding that no route repairs it has the command."""
    hiding = Route(Prefix.parse("10.244.0.128/25"), type="blackhole", protocol=4)
    host = cni_node().snapshot().with_routes([hiding])
    escape, unsafe, *_ = findings(host, "10.244.0.0/24")
    assert escape.name == "refused"
    assert escape.remedy is None
    assert unsafe.remedy is not None
    assert unsafe.remedy.command == "ip route del 10.244.0.128/25 table main proto 4"


def test_the_gateway_of_an_escape() -> None:
    """Programs read that of the next hop by which packets escape."""
    expected = NextHop("eth0", gateway=as_ip("10.0.0.1"))
    other = NextHop("docker0", gateway=as_ip("10.9.0.1"))
    [escape, *_] = findings(vm_with(Route(INSIDE, (expected, other)), links=(DOCKER,)))
    assert escape.facts["devs"] == ["docker0"]
    assert escape.facts["via"]["gateway"] == "10.9.0.1"


@pytest.mark.parametrize("kind", ["blackhole", "unreachable", "prohibit"])
def test_the_kind_of_an_escape(kind: Refusing) -> None:
    """Programs read what happens to the packets:
    the name alone does not say how they are refused.
    """
    by_route = vm_with(Route(INSIDE, type=kind, protocol=4))
    by_rule = vm_with(rules=(Rule(family=4, priority=50, action=kind, dst=INSIDE),))
    for node in (by_route, by_rule):
        [escape, *_] = findings(node)
        assert escape.name == "refused"
        assert escape.facts["kind"] == kind


@pytest.mark.parametrize(
    ("host", "kind"),
    [("own range", "own-range"), ("no route", "no-route"), ("a repair of one route", "overlap")],
)
def test_the_kind_of_other_escapes(host: str, kind: str) -> None:
    """Elsewhere the kind is the name."""
    [escape, *_] = findings(HOSTS[host])
    assert escape.name == kind
    assert escape.facts["kind"] == kind


def test_the_sentence_of_a_verdict_with_several_doubts() -> None:
    """The first doubt is told, and how many more there are."""
    to_100 = Rule(family=4, priority=50, action="goto", target=100)
    rules = (to_100, to_100._replace(target=200), to_100._replace(target=300))
    [family] = checked(vm_with(rules=rules)).families
    assert family.sentence == "hostrouting does not judge rule 50: from all goto 100; and 2 more"


def test_the_commands_of_a_repair() -> None:
    """A route with several next hops names each, with its weight; the others have one."""
    first = NextHop("eth0", gateway=as_ip("10.0.0.1"))
    second = NextHop("eth0", gateway=as_ip("10.0.0.2"), weight=2)
    for_both = addition_command(Route(INSIDE, (first, second)))
    for_first = addition_command(Route(INSIDE, (first,), metric=7))
    ways = "nexthop via 10.0.0.1 dev eth0 weight 1 nexthop via 10.0.0.2 dev eth0 weight 2"
    assert for_both == f"ip route add 172.16.5.0/24 {ways}"
    assert for_first == "ip route add 172.16.5.0/24 metric 7 via 10.0.0.1 dev eth0"


def test_one_reason_for_several_ranges_is_one_finding() -> None:
    """It names each of the ranges that no route repairs."""
    by_card = Route.to("172.16.0.0/12", dev="ib0", table=100)
    host = vm_with(by_card, rules=(rule(priority=50),), links=(IB0,))
    [finding] = named("unsafe", host, "172.16.0.0/16", "172.20.0.0/16")
    assert finding.target == "172.16.0.0/16 and 172.20.0.0/16"


def test_a_network_that_escapes_by_several_devices() -> None:
    """All of it escapes, and the devices are one list."""
    host = vm_with(Route.to("172.16.0.0/17", dev="ib0"), Route.to("172.16.128.0/17", dev="ib1"))

    def sentence(*cidrs: str) -> str:
        [family] = checked(host, *cidrs).families
        return family.sentence

    services = "10.96.0.0/12"
    around = "172.16.0.0/12"
    halves = ("172.16.0.0/17", "172.16.128.0/17")
    assert sentence(CIDR) == f"all of {CIDR} leaves through ib0 and ib1; expected: eth0"
    assert sentence(services, CIDR).startswith(f"all of {CIDR} leaves")
    assert sentence(services, CIDR, around).startswith(f"part of {around} leaves")
    all_of_both = "all of 172.16.0.0/17 and 172.16.128.0/17 leave through ib0 and ib1;"
    assert sentence(*halves).startswith(all_of_both)


def test_a_network_that_escapes_by_one_of_two_next_hops() -> None:
    """If the other one is as expected, it may escape."""
    hops = (NextHop("eth0"), NextHop("ib0"))
    report = checked(vm_with(Route(INSIDE, hops, protocol=3)))
    [family] = report.families
    [escape] = report.escapes
    assert family.sentence == f"part of {CIDR} may leave through ib0; expected: eth0"
    words = "172.16.5.0/24 may leave through ib0 [172.16.5.0/24 proto boot nexthop"
    assert str(escape).startswith(words)


def test_a_network_that_escapes_by_each_of_two_next_hops() -> None:
    """All devices by which it escapes are named."""
    hops = (NextHop("ib0"), NextHop("ib1"))
    [escape] = checked(vm_with(Route(INSIDE, hops, protocol=3))).escapes
    assert escape.devs == ("ib0", "ib1")
    assert str(escape).startswith("172.16.5.0/24 leaves through ib0 and ib1 [172.16.5.0/24")


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [
        pytest.param({}, False, id="of another priority"),
        pytest.param({"iif": "eth0"}, True, id="for some packets"),
        pytest.param({"action": "prohibit"}, True, id="a refusal"),
        pytest.param({"suppress_prefixlength": 0}, True, id="for some routes"),
    ],
)
def test_which_rule_looks_up_table_main(fields: dict[str, Any], *, lacks: bool) -> None:
    """One of any priority, for all packets, that uses each of its routes."""
    looks_up_main = Rule(family=4, priority=9, table=TABLE_MAIN)
    host = without(32766)
    host = host._replace(rules=(*host.rules, looks_up_main._replace(**fields)))
    targets = [finding.target for finding in named("missing-rule", host)]
    assert targets == (["main"] if lacks else [])


def test_an_equal_default_route_by_another_device() -> None:
    """Linux may use any of equal default routes, so the sentence says so, and the repair names the
    device.
    """
    host = second_default(metric=100)
    in_other_order = host._replace(routes=host.routes[::-1])

    report = checked(host, expected_devs=["eth0"])
    other_report = checked(in_other_order, expected_devs=["eth0"])

    [family] = report.families
    [route] = report.routes
    assert family.sentence == f"all of {CIDR} may leave through eth1; expected: eth0"
    assert str(route.destination) == CIDR
    assert route.dev == "eth0"
    assert other_report.routes == (route,)


def test_a_repair_through_a_device_that_a_shell_would_run() -> None:
    """Linux takes nearly any name for a device."""
    command = addition_command(Route.to(CIDR, dev="a;reboot"))
    assert command.endswith("dev 'a;reboot'")
