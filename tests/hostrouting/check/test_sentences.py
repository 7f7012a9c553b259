"""hostrouting.check.sentences: each finding in words, as an operator reads it, on a node that has
it.
"""

from typing import Any

import pytest

from hostrouting.check.sentences import check_findings, repair_commands
from hostrouting.finding import Finding
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, TABLE_LOCAL, TABLE_MAIN, NextHop, Refusing, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import FakeKernel, cni_node, plain_vm, vpn_node
from tests.support.topologies import BY_IPV6, IB0, address, checked, vm_with

CIDR = "172.16.0.0/16"
ANYWHERE, INSIDE = map(Prefix.parse, ("0.0.0.0/0", "172.16.5.0/24"))
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


def findings(snapshot: Snapshot, *cidrs: str, **section: object) -> tuple[Finding, ...]:
    """The findings of that check."""
    return check_findings(checked(snapshot, *cidrs, **section), mode="STRICT", wait=60)


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
        rules=(Rule(family=4, priority=50, table=100, fwmark=1, fwmask=1),),
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
EQUAL = {"expected_devs": ["eth0"]}
SECTIONS = {
    "equal defaults": EQUAL,
    "services that hold the host": {"service_cidrs": ["10.0.0.0/16"]},
}


def test_each_line(snapshot: object) -> None:
    """The line names the thing, the reason and the remedy: __snapshots__ has those of each host,
    and the severities.

    Sentences without the text of a route or a rule stay below 160 characters.
    """
    lines: list[str] = []
    said: list[Finding] = []
    for name, host in HOSTS.items():
        for finding in findings(host, **SECTIONS.get(name, {})):
            lines.append(f"{name}: {finding.severity}: {finding.line}")
            said.append(finding)
    assert snapshot == "\n".join(lines)
    plain = [
        finding.sentence
        for finding in said
        if "[" not in finding.sentence and "rule" not in finding.sentence
    ]
    assert max(map(len, plain)) < 160


def test_no_allowance_for_what_hides_pods() -> None:
    """With docker0 allowed, the check would be OK while pods of cni0 are unreachable; elsewhere,
    too, it is not proposed then.
    """
    cni = cni_node().snapshot()
    hiding, other = (Route.to(to, dev="docker0") for to in ("10.244.0.0/25", "172.17.0.0/16"))
    host = cni.with_routes([hiding, other])._replace(links=(*cni.links, DOCKER))
    found = findings(host, "10.244.0.0/16", "172.17.0.0/16")
    remedies = {finding.target: str(finding.remedy) for finding in found}
    command = "ip route del 10.244.0.0/25 dev docker0 table main proto 0"
    assert remedies["10.244.0.0/25"].endswith(f"as root: {command}")
    assert not any("allowedDevs" in remedy for remedy in remedies.values())
    alone = cni.with_routes([other])._replace(links=(*cni.links, DOCKER))
    [escape, *_] = findings(alone, "172.17.0.0/16")
    assert str(escape.remedy).endswith('add to routeOverlap.allowedDevs: ["docker0"]')


@pytest.mark.parametrize(("family", "to"), [(4, "172.17.0.0/16"), (6, "fd16::/64")])
def test_a_rule_is_named_although_the_device_hides_pods(family: int, to: str) -> None:
    """Only to allow the device is not proposed, in neither family: allowedDevs is for both."""
    cni = cni_node().snapshot()
    hiding = Route.to("10.244.0.0/25", dev="docker0")
    routes = [hiding, BY_IPV6, Route.to(to, dev="docker0", table=100)]
    by_rule = Rule(family=family, priority=50, table=100, dst=Prefix.parse(to))
    host = cni.with_routes(routes)
    host = host._replace(links=(*host.links, DOCKER), rules=(*host.rules, by_rule))
    [escape] = [
        finding
        for finding in findings(host, "10.244.0.0/16", to)
        if finding.name == "overlap" and finding.target == to
    ]
    remedy = str(escape.remedy)
    assert remedy.startswith("exclude this network in the program that added rule 50")
    assert "allowedDevs" not in remedy


def test_the_rule_for_table_main_is_never_deleted() -> None:
    """It leads packets of pods by ib0, and a rule for the host's own ones comes before it: only
    that one hinders a repair.
    """
    by_rule = Rule(family=4, priority=50, table=100, iif="lo", dst=Prefix.parse(CIDR))
    routes = [Route.to(CIDR, dev="ib0"), Route.to(ANYWHERE, dev="ib0", table=100)]
    host = vm_with(*routes, rules=(by_rule,), links=(IB0,))
    said = findings(host, pod_cidrs=("10.244.0.0/24",))
    plain, of_pods = [each for each in said if each.name == "overlap"]
    assert "that added rule 50" in str(plain.remedy)
    assert "of pods" in of_pods.sentence
    assert of_pods.remedy is None


def test_the_rule_for_table_local_is_never_deleted() -> None:
    """The host would no longer answer on its addresses: of a route in table local, it is the route
    that is deleted.
    """
    by_ib0 = Route(Prefix.parse(CIDR), (NextHop("ib0"),), type="multicast", table=TABLE_LOCAL)
    [escape] = [each for each in findings(vm_with(by_ib0, links=(IB0,))) if each.name == "overlap"]
    command = f"ip route del {CIDR} table local proto 0"
    assert str(escape.remedy) == f"delete the route to {CIDR}, as root: {command}"


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (second_default(100), "eth0 or eth1; they leave through eth0 or eth1 now"),
        (
            vm_with(Route.to(ANYWHERE, dev="wg0"), links=(WG0,)),
            "eth0 or wg0; they leave through wg0 now",
        ),
        (
            only_default(Route.to(ANYWHERE, dev="wg0"), WG0),
            "wg0; they leave through wg0 now",
        ),
    ],
)
def test_a_doubtful_default_route(host: Snapshot, words: str) -> None:
    """Whoever reads that the uplink is unclear reads by which device packets leave now."""
    [doubt] = [finding for finding in findings(host) if finding.name == "default-routes"]
    assert doubt.sentence.endswith(f"should leave through {words}")


def costs(host: Snapshot, *cidrs: str) -> list[str]:
    """The sentences about what the repair costs."""
    return [each.sentence for each in findings(host, *cidrs) if each.name == "repair-cost"]


MOVES = f"with the repair, this node's IP traffic to {CIDR} moves from wg0 to eth0"


def test_a_repair_that_takes_from_a_vpn() -> None:
    """All that the VPN has a route to, also by a half of a default route: what should be inside the
    VPN would leave outside of it.
    """
    for to in ("172.16.0.0/12", "128.0.0.0/1"):
        assert costs(vm_with(Route.to(to, dev="wg0"), links=(WG0,))) == [MOVES]


def test_a_repair_that_takes_neighbours() -> None:
    """Those in the network of a device; the rest of the network stays."""
    own = address("172.16.0.9/16", "wg0")
    held = vm_with(Route.to(CIDR, dev="wg0"), links=(WG0,), addresses=(own,))
    assert costs(held) == [MOVES]
    [cost] = costs(held, "172.16.9.0/24")
    assert "traffic to 172.16.9.0/24 moves" in cost


def test_the_devices_of_a_repair_have_the_order_of_its_next_hops() -> None:
    """Kills: an order that differs from run to run."""
    devs = [f"eth{number}" for number in range(6)]
    links = tuple(Link(dev, index=20 + at) for at, dev in enumerate(devs[1:]))
    hops = tuple(NextHop(dev, gateway=as_ip("10.0.0.1"), onlink=True) for dev in devs)
    default = Route(Prefix.parse("0.0.0.0/0"), hops, metric=1)
    network = Route.to("172.16.0.0/16", dev="ib0", protocol=2)
    own = address("172.16.0.4/16", "ib0")
    host = vm_with(default, network, links=(IB0, *links), addresses=(own,))
    [cost] = [each for each in findings(host) if each.name == "repair-cost"]
    assert "moves from ib0 to eth0, eth1, eth2, eth3 or 2 more" in cost.sentence


def test_a_repair_that_loses_what_the_default_route_has() -> None:
    """A static route has no source and no mtu: whoever sets the default route can set them."""
    host = vm_with(Route.to(CIDR, dev="ib0"), links=(IB0,))
    [default] = [route for route in host.routes if route.prefix.length == 0]
    others = [route for route in host.routes if route is not default]
    host = host._replace(routes=(default._replace(mtu=9000), *others))
    [finding] = [each for each in findings(host) if each.name == "repair-cost"]
    assert finding.sentence == (
        f'with the repair, packets to {CIDR} leave without "mtu 9000", which the default route has'
    )
    assert "configure these routes in the program that sets the default route" in str(
        finding.remedy
    )


def test_the_devices_that_a_default_route_could_have() -> None:
    """Each with its address, and whether it is down; a dummy sends nothing out of the host."""
    kernel = FakeKernel()
    for number, (name, kind) in enumerate((("eth0", ""), ("br0", "bridge"), ("d0", "dummy"))):
        kernel.add_link(Link(name=name, index=0, kind=kind, up=name != "br0"))
        kernel.add_address(name, f"10.{number}.0.4/24")
    [finding] = [row for row in findings(kernel.snapshot()) if row.name == "no-default-route"]
    assert str(finding.remedy).endswith("perhaps to eth0 (10.0.0.4/24) or br0 (10.1.0.4/24, down)")


def test_a_rule_that_decides_first() -> None:
    """Where a VPN's table is looked up before main, no route helps: its program, or the rule."""
    kernel = plain_vm()
    kernel.add_link(Link(name="tailscale0", index=0, kind="tun", type=65534))
    kernel.add_rule(Rule(family=4, priority=5270, table=52))
    kernel.ip_route("add", Route.to(CIDR, dev="tailscale0", table=52))
    [escape, *_] = findings(kernel.snapshot())
    assert escape.remedy is not None
    allow, delete = escape.remedy.ways()
    assert allow.words.endswith('add to routeOverlap.allowedDevs: ["tailscale0"]')
    assert delete.command == "ip rule del pref 5270 lookup 52"


def test_to_allow_a_partition_of_infiniband_is_no_remedy() -> None:
    """It has a kind, as virtual devices do, and leads into InfiniBand as the card does."""
    partition = Link(name="ib0.8001", index=10, kind="ipoib", type=32)
    host = vm_with(Route.to(CIDR, dev="ib0.8001"), links=(IB0, partition))
    [escape, *_] = findings(host)
    assert (escape.name, escape.remedy) == ("overlap", None)


def test_devices_with_names_that_no_configuration_can_have() -> None:
    """Linux takes almost any name. No command names such a device, and to allow it is no remedy."""
    equal = Route.to("0.0.0.0/0", dev="a@b", metric=100)
    host = vm_with(equal, Route.to(CIDR, dev="ib0"), links=(IB0, Link(name="a@b", index=10)))
    remedies = [finding.remedy for finding in findings(host) if finding.name == "unsafe"]
    assert remedies[0] is not None
    odd, eth0 = remedies[0].ways()
    assert odd.command == ""
    assert " --dev eth0 | " in eth0.command
    assert odd.words.endswith(", give it another name: a configuration cannot have this one")

    tunnel = WG0._replace(name="wg@1")
    [escape, *_] = findings(vm_with(Route.to(CIDR, dev="wg@1"), links=(tunnel,)))
    assert (escape.name, escape.remedy) == ("overlap", None)


def test_a_route_that_is_as_specific_as_a_route_can_be() -> None:
    """Only to delete it repairs the range. If its device is virtual, it may also be allowed."""
    alone = Prefix.parse("172.16.5.5/32")
    by_card = Route(alone, (NextHop("ib0"),), protocol=4)
    *_, unsafe = findings(vm_with(by_card, links=(IB0,)))
    assert unsafe.remedy is not None
    assert unsafe.remedy.words == "if that is not intended"
    assert unsafe.remedy.command == "ip route del 172.16.5.5/32 dev ib0 table main proto 4"
    by_bridge = Route(alone, (NextHop("docker0"),), protocol=4)
    escape, unsafe = findings(vm_with(by_bridge, links=(DOCKER,)))
    assert str(escape.remedy).endswith('add to routeOverlap.allowedDevs: ["docker0"]')
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
    pod = Rule(family=4, priority=1536, src=Prefix.parse("10.0.1.7/32"), table=2)
    route = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", table=2)
    node = vm_with(route, links=(ETH1,))._replace(rules=(*VM.rules, pod))
    [escape, *_] = findings(node, pod_cidrs=["10.0.1.0/24"])
    assert escape.remedy is not None
    intend, delete = escape.remedy.ways()
    words = 'if rule 1536 is intended, add to routeOverlap.intendedRules: ["from 10.0.1.7"]'
    assert intend.words == words
    assert delete.command == "ip rule del pref 1536 from 10.0.1.7 lookup 2"
    intended = findings(node, pod_cidrs=["10.0.1.0/24"], intended_rules=["from 10.0.1.7"])
    assert "overlap" not in {finding.name for finding in intended}


def test_a_rule_for_all_packets_that_leads_those_of_pods_away() -> None:
    """It has no selectors, which `intendedRules` would have to name."""
    own = Rule(family=4, priority=50, iif="lo", table=TABLE_MAIN)
    all_packets = Rule(family=4, priority=60, table=2)
    route = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", table=2)
    node = vm_with(route, links=(ETH1,))._replace(rules=(*VM.rules, own, all_packets))
    [escape] = [row for row in findings(node, pod_cidrs=["10.0.1.0/24"]) if row.name == "overlap"]
    assert "of pods" in escape.sentence
    assert escape.remedy is not None
    [exclude] = escape.remedy.ways()
    assert exclude.command == "ip rule del pref 60 lookup 2"


def test_a_second_card_for_connections_of_this_host() -> None:
    """Neither the card nor the rule is to be allowed: it is this host that would lose packets."""
    own = Rule(family=4, priority=50, src=Prefix.parse("10.0.0.4/32"), table=2)
    route = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", table=2)
    node = vm_with(route, links=(ETH1,))._replace(rules=(*VM.rules, own))
    escapes = [row for row in findings(node) if row.name == "overlap"]
    assert escapes
    for escape in escapes:
        assert escape.remedy is not None
        [exclude] = escape.remedy.ways()
        assert exclude.command == "ip rule del pref 50 from 10.0.0.4 lookup 2"


def test_a_rule_that_decides_first_for_two_escapes() -> None:
    """Each of two neighbouring ranges, which leave by different tunnels, has the rule's remedy."""
    kernel = plain_vm()
    kernel.add_rule(Rule(family=4, priority=5270, table=52))
    for half, dev in (("172.16.0.0/17", "tun0"), ("172.16.128.0/17", "tun1")):
        kernel.add_link(Link(name=dev, index=0, kind="tun", type=65534))
        kernel.ip_route("add", Route.to(half, dev=dev, table=52))
    escapes = [row for row in findings(kernel.snapshot()) if row.name == "overlap"]
    assert len(escapes) == 2
    for escape in escapes:
        assert "ip rule del pref 5270 lookup 52" in str(escape.remedy)


def test_a_rule_that_decides_first_for_hardware() -> None:
    """That packets may leave by a card with RDMA is not proposed; what to do about the rule is."""
    kernel = plain_vm()
    kernel.add_link(Link(name="ib0", index=0, type=32))
    kernel.add_rule(Rule(family=4, priority=50, table=100))
    kernel.ip_route("add", Route.to(CIDR, dev="ib0", table=100))
    [escape, *_] = findings(kernel.snapshot())
    assert str(escape.remedy) == (
        "exclude this network in the program that added rule 50; until then, as root: "
        "ip rule del pref 50 lookup 100"
    )


def test_one_remedy_for_one_command() -> None:
    """Where a blackhole hides pods, the finding that no route repairs it has the command."""
    hiding = Route(Prefix.parse("10.244.0.128/25"), type="blackhole", protocol=4)
    escape, unsafe, *_ = findings(cni_node().snapshot().with_routes([hiding]), "10.244.0.0/24")
    assert (escape.name, escape.remedy) == ("refused", None)
    assert unsafe.remedy is not None
    assert unsafe.remedy.command == "ip route del 10.244.0.128/25 table main proto 4"


def test_the_gateway_of_an_escape() -> None:
    """Programs read that of the next hop by which packets escape."""
    hops = (
        NextHop("eth0", gateway=as_ip("10.0.0.1")),
        NextHop("docker0", gateway=as_ip("10.9.0.1")),
    )
    [escape, *_] = findings(vm_with(Route(INSIDE, hops), links=(DOCKER,)))
    assert (escape.facts["devs"], escape.facts["via"]["gateway"]) == (["docker0"], "10.9.0.1")


@pytest.mark.parametrize("kind", ["blackhole", "unreachable", "prohibit"])
def test_the_kind_of_an_escape(kind: Refusing) -> None:
    """Programs read what happens to the packets: the name alone does not say how they are refused."""
    by_route = Route(INSIDE, type=kind, protocol=4)
    by_rule = Rule(family=4, priority=50, action=kind, dst=INSIDE)
    for host in (vm_with(by_route), vm_with(rules=(by_rule,))):
        [escape, *_] = findings(host)
        assert (escape.name, escape.facts["kind"]) == ("refused", kind)


@pytest.mark.parametrize(
    ("host", "kind"),
    [("own range", "own-range"), ("no route", "no-route"), ("a repair of one route", "overlap")],
)
def test_the_kind_of_other_escapes(host: str, kind: str) -> None:
    """Elsewhere the kind is the name."""
    [escape, *_] = findings(HOSTS[host])
    assert (escape.name, escape.facts["kind"]) == (kind, kind)


def test_the_sentence_of_a_verdict_with_several_doubts() -> None:
    """The first doubt is told, and how many more there are."""
    rules = tuple(
        Rule(family=4, priority=50, action="goto", target=target) for target in (100, 200, 300)
    )
    sentence = checked(vm_with(rules=rules)).families[0].sentence
    assert sentence == "hostrouting does not judge rule 50: from all goto 100; and 2 more"


def test_the_commands_of_a_repair() -> None:
    """A route with several next hops names each, with its weight; the others have one."""
    hops = (
        NextHop("eth0", gateway=as_ip("10.0.0.1")),
        NextHop("eth0", gateway=as_ip("10.0.0.2"), weight=2),
    )
    several, one = (
        Route(INSIDE, hops, protocol=213),
        Route(INSIDE, hops[:1], protocol=213, metric=7),
    )
    both, single = repair_commands([several, one])
    ways = "nexthop via 10.0.0.1 dev eth0 weight 1 nexthop via 10.0.0.2 dev eth0 weight 2"
    assert both == f"ip route replace 172.16.5.0/24 proto 213 {ways}"
    assert single == "ip route replace 172.16.5.0/24 metric 7 proto 213 via 10.0.0.1 dev eth0"


def test_the_same_thing_is_said_once() -> None:
    """One doubt about several CIDRs is one finding, and so is one reason for several ranges."""
    doubts = findings(vpn_node().snapshot(), "172.16.0.0/16", "10.96.0.0/12", "192.168.0.0/16")
    assert [finding.name for finding in doubts] == ["default-routes"]


def test_a_network_that_escapes_by_several_devices() -> None:
    """All of it escapes, and the devices are one list; if another next hop is as expected, it may
    escape.
    """
    host = vm_with(Route.to("172.16.0.0/17", dev="ib0"), Route.to("172.16.128.0/17", dev="ib1"))
    cidrs = ["10.96.0.0/12", "172.16.0.0/16", "172.16.0.0/12"]
    one, two, three = (
        checked(host, *some).families[0].sentence for some in (cidrs[1:2], cidrs[:2], cidrs)
    )
    assert one == "all of 172.16.0.0/16 leaves through ib0 and ib1; expected: eth0"
    assert two.startswith("all of 172.16.0.0/16 leaves")
    assert three.startswith("part of 172.16.0.0/12 leaves")
    halves = checked(host, "172.16.0.0/17", "172.16.128.0/17").families[0].sentence
    assert halves.startswith("all of 172.16.0.0/17 and 172.16.128.0/17 leave through ib0 and ib1;")
    several = checked(vm_with(Route(INSIDE, (NextHop("eth0"), NextHop("ib0")), protocol=3)))
    assert (
        several.families[0].sentence
        == "part of 172.16.0.0/16 may leave through ib0; expected: eth0"
    )
    assert str(several.escapes[0]).startswith(
        "172.16.5.0/24 may leave through ib0 [172.16.5.0/24 proto boot nexthop"
    )


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [
        ({}, False),
        ({"iif": "eth0"}, True),
        ({"action": "prohibit"}, True),
        ({"suppress_prefixlength": 0}, True),
    ],
    ids=str,
)
def test_which_rule_looks_up_table_main(fields: dict[str, Any], *, lacks: bool) -> None:
    """One of any priority, for all packets, that uses each of its routes."""
    host = without(32766)
    host = host._replace(
        rules=(*host.rules, Rule(**{"family": 4, "priority": 9, "table": 254, **fields}))
    )
    assert any(finding.target == "main" for finding in findings(host)) is lacks


def test_an_equal_default_route_by_another_device() -> None:
    """Linux may use any of equal default routes, so the sentence says so, and the repair names the
    device.
    """
    host = second_default(metric=100)
    report, other_order = (
        checked(there, **EQUAL) for there in (host, host._replace(routes=host.routes[::-1]))
    )
    assert (
        report.families[0].sentence == "all of 172.16.0.0/16 may leave through eth1; expected: eth0"
    )
    assert [(str(route.destination), route.dev) for route in report.routes] == [(CIDR, "eth0")]
    assert other_order.routes == report.routes


def test_a_repair_through_a_device_that_a_shell_would_run() -> None:
    """Linux takes nearly any name for a device."""
    route = Route.to("172.16.0.0/16", dev="a;reboot")
    assert repair_commands([route])[0].endswith("dev 'a;reboot'")
