"""The verdict of the check at boot, held against the engine's: two laws on random hosts, in both
families.

If the script says ok, the engine says OK or UNDECIDED. If it says overlap or no-default-route, the
engine does not say OK. Where the script has no doubts, its ranges are those of the engine.
tests/hostrouting/check/test_fields.py holds the same of the nodes that people run.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import DEFAULT_METRIC, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing.strategies import prefixes, routes as any_routes, rules, small_block
from tests.support.awks import AWKS, TREES
from tests.support.check_script import Checked, EnginesCheck, check, dressed, showing
from tests.support.commands import (
    default_routes,
    furnish,
    ports,
    route_command,
    rule_command,
    up,
    wishes,
)
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.nodes import block_of, nodes, prefixes as node_prefixes
from tests.support.sections import expect

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

# What random rules and routes seldom are. {block} is the block, {half} a part of it, {spare} an
# address elsewhere.
ODDITIES: tuple[list[str], ...] = (
    ["rule add pref 50 goto 39999", "rule add pref 40000 lookup 100"],
    ["rule add pref 50 to {half} goto 32767"],
    [
        "rule add pref 50 goto 32766",
        "rule add pref 60 lookup 100",
        "route add {half} dev ib0 table 100",
    ],
    ["rule add pref 50 uidrange 0-0 lookup 100", "route add default dev ib0 table 100"],
    ["rule add pref 50 uidrange 1000-2000 lookup 100", "route add default dev ib0 table 100"],
    ["rule add pref 50 fwmark 1 lookup 100", "route add {half} dev ib0 table 100"],
    ["rule add pref 50 iif eth1 lookup 100", "route add default dev ib0 table 100"],
    [
        "link set ib0 group 7",
        "rule add pref 50 lookup 100 suppress_ifgroup 7",
        "route add {half} dev ib0 table 100",
    ],
    ["rule add pref 50 lookup main suppress_prefixlength 0", "rule add pref 51 lookup 100"],
    [
        "rule add pref 50 lookup main suppress_prefixlength 0",
        "rule add pref 51 lookup 100",
        "route add blackhole {half} table 100",
        "route add {half} from 2001:db8::/124 dev eth0 table 100",
    ],
    [
        "rule add pref 50 lookup main suppress_prefixlength 0",
        "rule add pref 51 not fwmark 51820 lookup 100",
        "route add default dev wg0 table 100",
    ],
    ["rule add pref 50 ipproto udp lookup 100", "route add {half} dev ib0 table 100"],
    ["rule add pref 50 not to {half} lookup 100", "route add default dev eth1 table 100"],
    ["route add {low} dev wg0", "route add {high} dev wg0"],
    ["route add {low} dev wg0", "route add {high} dev wg0", "route add {block} dev eth0"],
    ["nexthop add id 31 dev ib0", "route add {half} nhid 31", "route add local {spare} nhid 31"],
    [
        "nexthop add id 31 dev ib0",
        "nexthop add id 32 dev eth0",
        "nexthop add id 33 group 31/32",
        "route add {half} nhid 33 metric 7",
    ],
    ["nexthop add id 34 blackhole", "route add {half} nhid 34"],
    [
        "rule add pref 50 lookup 100",
        "route add default dev eth1 table 100",
        "route add throw {spare} table 100",
    ],
    [
        "nexthop add id 31 dev ib0",
        "route add default tos 0x10 metric 5 nhid 31",
        "route add {half} dev ib0",
    ],
    ["route add nat {half} dev ib0"],
    [*ports("via"), "route add {half} encap seg6local action End.X nh6 fe80::1 oif via dev ib0"],
    ["route add {half} encap ip id 7 dst 10.0.0.9 dev eth0"],
    ["route add local default dev eth0 table local"],
)


def ipv6_command(route: Route) -> str:
    """The command that appends the route, with what only IPv6 has: sources, a preference, an end in
    time.
    """
    words = ""
    if route.source is not None:
        words += f" from {route.source}"
    if route.prefix.length:  # default routes have their own
        words += f" pref {route.preference}"
        if route.expired is not None:
            words += " expires 600"
    return route_command(route).replace(" table ", f"{words} table ", 1)


@st.composite
def ipv6_wishes(draw: st.DrawFn, block: Prefix) -> tuple[list[Rule], list[Route]]:
    """The same as `wishes`, with what only IPv6 has; Linux would join several with one key."""
    wanted = draw(st.lists(rules(block), max_size=4, unique_by=lambda rule: rule.priority))
    several = draw(st.lists(any_routes(block, only_ipv6=True), min_size=1, max_size=14))
    last_of: dict[tuple[object, ...], Route] = {}
    for route in several:
        metric = route.metric or DEFAULT_METRIC[IPV6]
        last_of[route.table, route.prefix, route.source, metric] = route
    return wanted, list(last_of.values())


@attrs.frozen
class RandomHost:
    """Commands for each family, devices that lose their carrier, and what is checked by which
    programs.
    """

    batches: dict[int, list[str]]
    lost: frozenset[str]
    forwarding: bool
    config: HostRoutingConfig
    awk: str
    tree: Path


@st.composite
def random_batches(draw: st.DrawFn, block: Prefix) -> list[str]:
    """What is added to a host in one family: default routes, some of ODDITIES, and often routes and
    rules around this block.
    """
    family = block.family
    low, high = Prefix(family, 0, 0).halves()
    places = {
        "block": block,
        "half": draw(st.sampled_from(block.halves())),
        "low": low,
        "high": high,
        "spare": "1.1.1.1" if family == IPV4 else "8000::1",
    }
    batch = [*ports("cali1"), *draw(default_routes(family))]
    for lines in draw(st.lists(st.sampled_from(ODDITIES), max_size=3)):
        batch += [line.format(**places) for line in lines]
    if draw(st.booleans()):  # otherwise, what is odd decides more often
        if family == IPV4:
            wanted_rules, wanted_routes = draw(wishes(block))
            batch += map(route_command, wanted_routes)
        else:
            wanted_rules, wanted_routes = draw(ipv6_wishes(block))
            batch += map(ipv6_command, wanted_routes)
        batch += map(rule_command, wanted_rules)
    return batch


@st.composite
def random_hosts(draw: st.DrawFn) -> RandomHost:
    """Any host: in one family or both, often with some of ODDITIES and routes that refuse packets
    for pods.
    """
    batches: dict[int, list[str]] = {}
    cidrs: list[str] = []
    for family in draw(st.sampled_from([[IPV4], [IPV6], [IPV4, IPV6]])):
        block = small_block(family)
        around = prefixes(block, wider=True) | st.just(block)
        cidrs += map(str, draw(st.lists(around, min_size=1, max_size=3)))
        batches[family] = draw(random_batches(block))
    section = expect(
        *cidrs,
        mode=draw(st.sampled_from(["WARN", "STRICT"])),
        expected_devs=draw(st.sampled_from([[], [], ["eth0"], ["eth0", "eth1"]])),
        allowed_devs=draw(st.sampled_from([[], ["wg*"], ["wg?", "eth1"], ["b0", "wg", "i?"]])),
    )
    return RandomHost(
        batches,
        lost=draw(st.frozensets(st.sampled_from(["ib0", "wg0"]))),
        forwarding=draw(st.booleans()),
        config=HostRoutingConfig(route_overlap=section),
        awk=draw(st.sampled_from(AWKS)),
        tree=draw(st.sampled_from(TREES)),
    )


APART = ("rule add priority 1 lookup 1000", "rule delete priority 1")
"""Keeps the tables local and main apart, as the engine takes them to be: without it, a longer route
in main wins over an own range in local, and only the kernel's answers would show that
(`kernel-differs`)."""


def test_the_two_laws(tmp_path_factory: pytest.TempPathFactory) -> None:
    """They hold on any host, with any awk; and the random hosts reach each kind of answer, so they
    can be broken.
    """
    reached: Counter[tuple[str, str]] = Counter()

    @settings(max_examples=scaled(100), print_blob=True)
    @given(random_hosts())
    def law(host: RandomHost) -> None:
        checked, engines = both_checks(host, tmp_path_factory.mktemp("check"))
        assert engines.objections(checked) == [], f"{engines}\n{checked.said}"
        assert checked.status == exit_status(checked.verdict, host.config)
        reached[checked.verdict, engines.verdict] += 1

    law()
    one_in_twenty = reached.total() / 20
    assert reached["ok", "ok"] >= one_in_twenty, reached
    assert reached["overlap", "overlap"] >= one_in_twenty, reached
    if reached.total() >= 200:  # Hypothesis draws hosts that are alike: of a hundred, perhaps none
        assert "undecided" in {verdict for verdict, _ in reached}, reached


def both_checks(host: RandomHost, folder: Path) -> tuple[Checked, EnginesCheck]:
    """What the script and the engine say of this host on Linux."""
    with private_namespace() as namespace:
        furnish(namespace, lost=host.lost)
        namespace.batch(APART)
        namespace.sysctl("ipv6/conf/all/forwarding", int(host.forwarding))
        for family, batch in host.batches.items():
            namespace.batch(batch, force=True, family=family)
        engines = engines_check(namespace, host.config)
        checked = Checked(namespace, host.config, folder, awk=host.awk, tree=host.tree)
    return checked, engines


def exit_status(verdict: str, config: HostRoutingConfig) -> int:
    """1, which refuses the start, only in STRICT and if something is certainly wrong."""
    if config.route_overlap.mode == "STRICT" and verdict in {"overlap", "no-default-route"}:
        return 1
    return 0


def engines_check(namespace: Namespace, config: HostRoutingConfig) -> EnginesCheck:
    """The engine's check of the host as it is now."""
    return EnginesCheck.of(namespace.snapshot(), config)


class Question(NamedTuple):
    """A node, and what is checked there: a network around its routes or inside, and at most one
    that is also for services.
    """

    family: int
    node: Snapshot
    config: HostRoutingConfig


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Any node and configuration."""
    family, node = draw(nodes())
    services = draw(st.lists(node_prefixes(family).map(str), max_size=1))
    cidr = draw(st.just(block_of(family)) | node_prefixes(family))
    devs = draw(st.sampled_from([[], [], ["eth0"], ["wg0"]]))
    config = check(str(cidr), expected_devs=devs, service_cidrs=services)
    return Question(family, node, config)


def test_the_two_laws_with_cnis_and_tunnels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """They hold on hosts with devices of CNIs, tunnels and refused ranges; a veth stands in for
    each device.
    """
    reached: Counter[tuple[str, str]] = Counter()

    @settings(max_examples=scaled(50), suppress_health_check=list(HealthCheck), print_blob=True)
    @given(questions(), st.sampled_from(AWKS))
    def law(question: Question, awk: str) -> None:
        checked, engines = checks_on_veths(question, awk, tmp_path_factory.mktemp("check"))
        assert not engines.broken_laws(checked), f"{engines}\n{checked.said}\n{question.node}"
        reached[checked.verdict, engines.verdict] += 1

    law()
    assert reached["overlap", "overlap"], reached


def checks_on_veths(question: Question, awk: str, folder: Path) -> tuple[Checked, EnginesCheck]:
    """What the script and the engine say of this node on Linux, made of veths."""
    family, node, config = question
    kinds = {link.name: (link.type, link.kind) for link in node.links if link.name != "lo"}
    tools = {"ip": showing(kinds)}
    with private_namespace() as namespace:
        rebuild(namespace, family, node)
        engines = EnginesCheck.of(dressed(namespace.snapshot(), kinds), config)
        checked = Checked(namespace, config, folder, awk=awk, tools=tools)
    return checked, engines


def rebuild(namespace: Namespace, family: int, wanted: Snapshot) -> None:
    """Make this host on Linux, as far as Linux takes it: with a veth for each device."""
    links = [*APART, "link set lo up"]
    for link in wanted.links:
        if link.name != "lo":
            links += ports(link.name)
    for address in wanted.addresses:
        line = f"address add {address.ip}/{address.length} dev {address.dev}"
        links.append(f"{line} nodad" if family == IPV6 else line)
    if family == IPV4:
        links.append("route add 10.0.0.1/32 dev eth0 scope link")
    namespace.batch(links, force=True)
    # Linux itself has added the routes of the addresses, and the usual rules.
    routes = [route for route in wanted.routes if (route.table, route.protocol) != (255, 2)]
    namespace.batch(map(route_command, routes), force=True, family=family)
    rules = [rule for rule in wanted.rules if rule.priority not in {0, 32766, 32767}]
    namespace.batch(map(rule_command, rules), force=True, family=family)


# Each story: its name, commands on a host with a default route by eth0 (a word in braces is one of
# WORDS), and then the verdict on 172.20.0.0/16, with what is said.
TUNNEL = (
    "link add tun7 type vxlan id 7 dstport 4789; link set tun7 up; route replace default dev tun7"
)
WORDS = {
    "tunnel": TUNNEL,
    "both": f"{TUNNEL}; route append default via 10.0.0.1 dev eth0 metric 9",
    "halves": "route add 0.0.0.0/1 dev wg0; route add 128.0.0.0/1 dev wg0",
    "pods": "; ".join(ports("cali1")),
    "lxc": "; ".join(ports("lxc1")),
}
STORIES = """\
a tunnel hides a card's default route, and another card has a network, and a table for its address
  {both}
  address add 172.20.9.4/24 dev eth1
  rule add pref 50 from 172.20.9.4 lookup 101
  route add default dev eth1 table 101
  overlap: routes via eth1 [172.20.9.0/24 dev eth1 proto kernel scope link src 172.20.9.4],
      expected tun7, eth0
a tunnel has the only default route, and a card has a network
  {tunnel}
  address add 172.20.9.4/24 dev eth1
  undecided: UNDECIDED: it is unclear whether packets to 172.20.9.0\u2013172.20.9.255 should leave
      through tun7 or eth1;
a tunnel has the only default route, and a card has a router
  {tunnel}
  address add 10.0.9.4/24 dev eth1
  route add 172.20.9.0/24 via 10.0.9.1 dev eth1
  undecided: UNDECIDED: it is unclear whether packets to 172.20.9.0\u2013172.20.9.255 should leave
      through tun7 or eth1;
the default route is suppressed, and hidden
  rule add pref 50 lookup main suppress_prefixlength 0
  {halves}
  rule del pref 32766
  undecided: UNDECIDED: rules or routes hide the IPv4 default route; in routeOverlap.expectedDevs,
      name the intended
a default route by a device with the sign in its name that ip puts before the name of its peer
  link add e@0 type veth peer name far0
  link set far0 up
  link set e@0 up
  route replace default dev e@0
  ok
one default route by lo
  route replace default dev lo
  no-default-route: NO-DEFAULT-ROUTE: no IPv4 default route leads packets from this host to the
      network
a rule that refuses a part
  rule add pref 9 to 172.20.4.0/24 blackhole
  overlap: REFUSED: expected CIDR 172.20.0.0/16 (172.20.4.0\u2013172.20.4.255) is refused
      (blackhole) by [rule 9:
a rule that refuses marked packets, beside a route that refuses all
  rule add pref 9 fwmark 0x1 prohibit
  route add prohibit 172.20.4.0/24
  overlap: is refused (prohibit) by [prohibit 172.20.4.0/24 proto boot]; expected via eth0
a rule for which Linux answers as if there were no route
  rule add pref 9 to 172.20.4.0/24 unreachable
  overlap: REFUSED: expected CIDR 172.20.0.0/16 (172.20.4.0\u2013172.20.4.255) is refused
      (unreachable) by [rule 9:
a part of the host's own
  route add 172.20.9.0/24 dev ib0
  address add 172.20.9.7/32 dev eth0
  address add 172.20.8.7/32 dev eth0
  overlap: (172.20.9.0\u2013172.20.9.255) routes via ib0
rules for other packets, whose tables are empty
  rule add pref 9 fwmark 1 lookup 100
  rule add pref 8 from 10.0.0.4 lookup 100
  route add tos 4 1.2.3.4 dev ib0
  ok
rules for packets that arrive
  {lxc}
  rule add pref 7 iif eth1 lookup 100
  rule add pref 8 iif lo lookup 101
  rule add pref 9 iif lxc1 lookup 100
  route add default dev ib0 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 9: from all
      iif lxc1 lookup 100;
a rule for packets without a source
  rule add pref 9 from 0.0.0.0 lookup 100
  rule add pref 8 not from 0.0.0.0/8 lookup 101
  route add default dev eth1 table 100
  route add default dev ib0 table 101
  route add 172.20.9.0/24 dev eth0 table 100
  overlap: routes via eth0 [172.20.9.0/24 dev eth0 table 100 proto boot scope link], expected eth1
marks that packets without a mark have
  rule add pref 9 fwmark 0x200/0xff lookup 100
  route add default dev eth1 table 100
  route add 172.20.9.0/24 dev eth0 table 100
  overlap: routes via eth0 [172.20.9.0/24 dev eth0 table 100 proto boot scope link], expected eth1
marks that packets without a mark do not have
  rule add pref 9 fwmark 0x300/0x100 lookup 100
  rule add pref 8 fwmark 0xf00/0xff0 lookup 100
  route add default dev ib0 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 8: from all
      fwmark 0xf00/0xff0 lookup 100;
a route for a tos
  route add 172.20.9.0/24 tos 0x10 dev ib0
  undecided: UNDECIDED: this check does not judge route [172.20.9.0/24 tos 0x10 dev ib0 proto boot
      scope link] (only for
a route with an encapsulation, of which the tos is that of the outer header
  route add 172.20.9.0/24 encap ip id 7 dst 10.0.0.9 tos 4 via 10.0.0.1 dev eth0
  ok
a rule for UDP, with the only default route
  rule add pref 50 ipproto udp lookup 100
  route del default
  route add default via 10.0.0.1 dev eth0 table 100
  no-default-route: NO-DEFAULT-ROUTE: no IPv4 default route leads packets from this host to the
      network
a rule for UDP, and one for TCP, with what would escape
  rule add pref 50 ipproto udp lookup 100
  rule add pref 51 ipproto tcp lookup 100
  route add 172.20.9.0/24 dev ib0 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 50: from all
      ipproto udp lookup 100;
a rule for ICMP, about which Linux is asked where there are rules for UDP and TCP
  rule add pref 50 ipproto icmp lookup 100
  undecided: UNDECIDED: this check does not judge rule 50: from all ipproto icmp lookup 100; run:
      hostrouting check
a next hop that is down
  route add 172.20.8.0/24 nexthop via 10.0.0.1 dev eth0 nexthop dev ib0
  link set ib0 down
  ok
blocks like a CNI's, without its devices
  route add blackhole 172.20.40.0/26 proto 80
  route add 10.7.0.0/26 dev eth1 proto 80
  undecided: UNDECIDED: packets to 172.20.40.0\u2013172.20.40.63 may be lost: [blackhole
      172.20.40.0/26 proto calico] refuses
the block of a CNI around another CNI's pod
  {pods}
  {lxc}
  route add blackhole 172.20.40.0/26 proto 12
  route add 172.20.40.9 dev lxc1
  undecided: [blackhole 172.20.40.0/26 proto bird] refuses them, perhaps for pods;
the protocol of a CNI's refusals, which many other routes have, without the CNI
  route add unreachable 172.20.9.7 proto kernel
  overlap: REFUSED: expected CIDR 172.20.0.0/16 (172.20.9.7) is refused (unreachable) by
      [unreachable 172.20.9.7 proto kernel]
a refused range, and a pod inside that only another table knows
  {lxc}
  route add blackhole 172.20.64.0/20 proto 196
  route add 172.20.64.9 dev lxc1 table 100
  overlap: (172.20.64.0\u2013172.20.79.255) is refused (blackhole) by [blackhole 172.20.64.0/20
      proto 196]; expected via eth0
a refused range that is too wide for the block of the pod inside
  {lxc}
  route add blackhole 172.20.64.0/19 proto 196
  route add 172.20.64.9 dev lxc1
  overlap: (172.20.64.10\u2013172.20.95.255) is refused (blackhole) by [blackhole 172.20.64.0/19
      proto 196]; expected via eth0
a refused range, and a network of pods inside, which proves less than a pod
  link add cni0 type bridge
  link set cni0 up
  route add blackhole 172.20.64.0/20 proto 196
  route add 172.20.64.0/24 dev cni0
  overlap: (172.20.65.0\u2013172.20.79.255) is refused (blackhole) by [blackhole 172.20.64.0/20
      proto 196]; expected via eth0
two refused ranges around own addresses that are not of pods, one of them at the beginning
  address add 172.20.8.0/32 dev eth1
  address add 172.20.9.7/32 dev eth1
  route add blackhole 172.20.8.0/24 proto 196
  route add blackhole 172.20.9.0/24 proto 196
  overlap: (172.20.9.0\u2013172.20.9.255) is refused (blackhole) by [blackhole 172.20.9.0/24 proto
      196]; expected via eth0
a mark with two rules, of which the first has a table that leaves the packets to the second
  rule add pref 9 fwmark 1 lookup 100
  rule add pref 10 fwmark 1 lookup 101
  route add throw 172.20.0.0/16 table 100
  route add default dev eth1 table 101
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 10: from all
      fwmark 0x1 lookup 101;
a mark with two rules, of which the first decides for all packets
  rule add pref 9 fwmark 1 lookup 100
  rule add pref 10 fwmark 1 lookup 101
  route add default dev eth0 table 100
  route add default dev eth1 table 101
  ok
a mark whose table is for some plain packets, too
  rule add pref 8 to 10.99.0.0/16 lookup 101
  rule add pref 9 fwmark 1 lookup 101
  route add default dev eth1 table 101
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 9: from all
      fwmark 0x1 lookup 101;
a mark for table main, beside another table that plain packets look up first
  rule add pref 8 fwmark 1 lookup main
  rule add pref 9 lookup 90
  route add 172.20.0.0/16 dev eth0 table 90
  route add 172.20.0.0/16 dev eth1
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 8: from all
      fwmark 0x1 lookup main;
all destinations but one network look up another table, which has the default route
  rule add pref 9 not to 10.99.0.0/16 lookup 100
  route del default
  route add default via 10.0.0.1 dev eth0 table 100
  undecided: UNDECIDED: rules or routes hide the IPv4 default route; in routeOverlap.expectedDevs,
      name the intended
a route that was made by hand without its gateway
  route add 172.20.9.0/24 dev eth0
  route add 172.20.8.0/24 dev eth0 proto kernel
  route add 172.20.7.7 dev eth0
  undecided: packets to 172.20.9.0\u2013172.20.9.255 may be lost: [172.20.9.0/24 dev eth0 proto
      boot scope link] has no gateway
routes without a gateway, of Linux and DHCP, which know who is on the link, and one to a neighbour
  route add 172.20.9.0/24 dev eth0 proto dhcp
  route add 172.20.8.0/24 dev eth0 proto kernel
  route add 172.20.7.7 dev eth0
  ok
a route by two next hops, of which only one has a gateway
  route add 172.20.9.0/24 nexthop via 10.0.0.1 dev eth0 nexthop dev eth0
  undecided: packets to 172.20.9.0\u2013172.20.9.255 may be lost: [172.20.9.0/24 proto boot
      nexthop via 10.0.0.1 dev eth0 weight 1 nexthop dev eth0 weight 1]
the same by DHCP, which knows who is on the link
  route add 172.20.9.0/24 proto dhcp nexthop via 10.0.0.1 dev eth0 nexthop dev eth0
  ok
an equal default route by lo, which Linux does not use
  route append default dev lo
  undecided: UNDECIDED: this check does not judge route [default dev lo proto boot scope link] (by
      lo, so Linux may pass over it);
an equal default route by a device that does not lead out
  link add ifb7 type ifb
  link set ifb7 up
  route append default dev ifb7
  ok
the rule for VRFs before the one for table local
  rule add pref 1000 l3mdev
  rule add pref 1001 l3mdev unreachable
  rule add pref 32765 table local
  rule del pref 0
  ok
a rule for the sources of pods, whose addresses are in no device of this host
  {pods}
  route add 172.20.1.5 dev cali1
  rule add pref 9 from 172.20.0.0/16 lookup 100
  route add default dev eth1 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 9: from
      172.20.0.0/16 lookup 100;
a rule for a part of the pods' network
  link add cni0 type bridge
  link set cni0 up
  route add 172.20.64.0/18 dev cni0
  rule add pref 9 from 172.20.96.0/20 lookup 100
  route add default dev eth1 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 9: from
      172.20.96.0/20 lookup 100;
a rule for sources beside the pods' network
  link add cni0 type bridge
  link set cni0 up
  route add 172.20.64.0/18 dev cni0
  route add default dev cni0 metric 99
  rule add pref 9 from 172.20.0.0/18 lookup 100
  route add default dev eth1 table 100
  ok
a rule for the source of one pod, as a CNI adds it
  {pods}
  route add 172.20.1.5 dev cali1
  rule add pref 9 from 172.20.1.5 lookup 100
  route add default dev eth1 table 100
  ok
a rule for the address of a card that came before the expected one, beside a bridge of pods
  address add 10.9.0.4/24 dev eth1
  route replace default via 10.9.0.1 dev eth1
  link add cni0 type bridge
  address add 10.244.0.1/24 dev cni0
  link set cni0 up
  route add 172.20.45.0/24 dev cni0
  route add 172.20.0.0/16 via 10.9.0.1 dev eth1
  route add 172.16.0.0/12 dev wg0
  rule add pref 9 from 10.0.0.4 lookup 100
  route add default via 10.0.0.1 dev eth0 table 100
  ok
a rule for a part of a card's network that has its broadcast address, and none of this host
  address add 172.20.9.4/24 dev eth0
  rule add pref 9 from 172.20.9.128/25 lookup 100
  route add default dev eth1 table 100
  ok
a rule for a source that nobody has, beside an expected device without an address
  route replace default dev eth1
  rule add pref 9 from 192.0.2.1 lookup 100
  route add default dev ib0 table 100
  ok
a table for the addresses of a card, of which one is on lo
  address add 10.9.9.8/24 dev eth1
  address add 10.9.9.9/32 dev lo
  rule add pref 9 from 10.9.9.0/24 lookup 100
  route add default dev eth1 table 100
  ok
the bridge of a CNI whose tunnel leads to all pods, beside a pod of another CNI
  link add kube-bridge type bridge
  link set kube-bridge up
  {lxc}
  route add 172.20.9.0/24 dev kube-bridge
  undecided: kube-bridge beside pods of Cilium (lxc1)
a VPN as wg-quick makes it, which hides the default route of a card
  link add tun7 type vxlan id 7 dstport 4789
  link set tun7 up
  route add default dev tun7 table 100
  rule add pref 50 lookup main suppress_prefixlength 0
  rule add pref 51 lookup 100
  route add 172.20.9.0/24 dev ib0
  overlap: routes via ib0 [172.20.9.0/24 dev ib0 proto boot scope link], expected tun7, eth0
a tunnel hides a card's default route, which no rule but one that passes over it looks up
  link add tun7 type vxlan id 7 dstport 4789
  link set tun7 up
  route add default dev tun7 table 100
  rule add pref 50 lookup main suppress_prefixlength 0
  rule add pref 51 lookup 100
  rule del pref 32766
  route add 172.20.9.0/24 dev ib0
  overlap: routes via ib0 [172.20.9.0/24 dev ib0 proto boot scope link], expected tun7, eth0
a tunnel has the only default route, and a card has many networks
  {tunnel}
  address add 172.20.9.4/24 dev eth1
  route add 172.20.1.0/24 dev eth1
  route add 172.20.3.0/24 dev eth1
  route add 172.20.5.0/24 dev eth1
  route add 172.20.7.0/24 dev eth1
  undecided: , 172.20.5.0\u2013172.20.5.255 and 2 more should leave through tun7 or eth1;
a mark whose table has a default route that the rule passes over, which only the check judges
  rule add pref 9 fwmark 1 lookup 100 suppress_prefixlength 0
  route add 172.20.9.0/24 via 10.0.0.1 dev eth0 table 100
  route add default dev eth1 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 9: from all
      fwmark 0x1 lookup 100
a rule for sockets that are bound to a device, which only the check judges
  rule add pref 9 oif eth1 lookup 100
  route add default dev ib0 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 9: from all
      oif eth1 lookup 100
a rule for root alone, which plain packets meet
  rule add pref 9 uidrange 0-0 lookup 100
  route add default dev eth1 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 9: from all
      uidrange 0-0 lookup 100;
a rule for users, which plain packets do not meet
  rule add pref 9 uidrange 1000-2000 lookup 100
  route add default dev eth1 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 9: from all
      uidrange 1000-2000 lookup 100;
a rule that refuses what has no mark
  rule add pref 9 not fwmark 0x1 prohibit
  overlap: is refused (prohibit) by a route or rule that is not known; expected via eth0
the only default route, which each rule passes over
  rule add pref 50 lookup main suppress_prefixlength 0
  rule del pref 32766
  no-default-route: NO-DEFAULT-ROUTE: no IPv4 default route leads packets from this host to the
      network
blocks of a CNI: the only pod of one has its first address, and that of the other its last one
  {pods}
  route add blackhole 172.20.40.0/26 proto 12
  route add 172.20.40.0 dev cali1
  route add blackhole 172.20.41.0/26 proto 12
  route add 172.20.41.63 dev cali1
  ok
a default route that refuses, with the protocol of a CNI of which an address is inside
  {pods}
  address add 172.20.9.7/32 dev cali1
  rule add pref 9 lookup 100
  route add blackhole default proto 80 table 100
  overlap: is refused (blackhole) by [blackhole default table 100 proto calico]; expected via eth0
a mark with two rules, of which the first passes over the default route of its table
  rule add pref 8 fwmark 1 lookup main suppress_prefixlength 0
  rule add pref 9 fwmark 1 lookup 100
  route add default dev eth1 table 100
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 9: from all
      fwmark 0x1 lookup 100;
a default route by lo, which Linux uses before that by a card
  route add default via 10.0.0.1 dev eth0 metric 9
  route replace default dev lo
  overlap: routes via lo [default dev lo proto boot scope link], expected eth0
a rule that refuses a part with an address of a CNI inside
  {pods}
  address add 172.20.4.7/32 dev cali1
  rule add pref 9 to 172.20.4.0/24 blackhole
  overlap: is refused (blackhole) by [rule 9: from all to 172.20.4.0/24 blackhole]
a refused range as Flannel has it, which does not begin with an address of Flannel
  link add flannel.1 type vxlan id 1 dstport 8472
  link set flannel.1 up
  address add 172.20.64.7/32 dev flannel.1
  route add blackhole 172.20.64.0/18
  overlap: is refused (blackhole) by [blackhole 172.20.64.0/18 proto boot]; expected via eth0
a mark with two rules, of which the first has a table for a part
  rule add pref 9 fwmark 1 lookup 100
  rule add pref 10 fwmark 1 lookup 101
  route add throw default table 100
  route add 172.20.9.0/24 via 10.0.0.1 dev eth0 table 100
  route add default dev eth1 table 101
  undecided: UNDECIDED: some packets to 172.20.0.0/16 are routed differently, by rule 10: from all
      fwmark 0x1 lookup 101;
a default route on the link, by DHCP, which is no network around that of a CNI
  route replace default dev eth0 proto dhcp
  link add flannel.1 type vxlan id 1 dstport 8472
  link set flannel.1 up
  route add 172.20.9.0/24 dev flannel.1
  ok
the block of a CNI, of which there is only a device
  {pods}
  route add blackhole 172.20.40.0/26 proto 12
  undecided: [blackhole 172.20.40.0/26 proto bird] refuses them, perhaps for pods;
a rule for all packets but those of a bridge of pods
  link add cni0 type bridge
  link set cni0 up
  rule add pref 9 not iif cni0 lookup 100
  route add 172.20.0.0/16 via 10.0.0.1 dev eth0 table 100
  ok
a refused part, where no device is expected
  rule add pref 9 to 172.20.4.0/24 blackhole
  rule add pref 50 lookup main suppress_prefixlength 0
  {halves}
  rule del pref 32766
  overlap: is refused (blackhole) by [rule 9: from all to 172.20.4.0/24 blackhole]; expected via
      another device
a tap as the network card of a virtual machine, beside an address of a CNI
  address flush dev eth0
  address flush dev ib0
  tuntap add dev tap7 mode tap
  link set tap7 up
  route replace default dev tap7
  link add cilium_host type veth peer name cilium_net
  link set cilium_host up
  address add 10.244.0.7/32 dev cilium_host
  ok
a block like a CNI's, with nothing inside but the expected device, which has a name as of a pod
  {pods}
  route replace default dev cali1
  route add blackhole 172.20.40.0/26 proto 12
  route add 172.20.40.9 dev cali1
  undecided: [blackhole 172.20.40.0/26 proto bird] refuses them, perhaps for pods;
a refused range that is too small for Flannel, which has its first address
  link add flannel.1 type vxlan id 1 dstport 8472
  link set flannel.1 up
  address add 172.20.64.0/32 dev flannel.1
  route add blackhole 172.20.64.0/31
  undecided: [blackhole 172.20.64.0/31 proto boot] refuses them, perhaps for pods;
the peer at the other end of a link, which is not this host
  route add 172.20.9.7 dev ib0 proto kernel
  overlap: routes via ib0 [172.20.9.7 dev ib0 proto kernel scope link], expected eth0
a rule for what this host sends, beside pods
  {pods}
  rule add pref 9 iif lo lookup 100
  route add default via 10.0.0.1 dev eth0 table 100
  ok
a network of the type broadcast, which is no broadcast address
  route add broadcast 172.20.9.0/24 dev ib0 proto kernel
  overlap: routes via ib0 [broadcast 172.20.9.0/24 dev ib0 proto kernel scope link], expected eth0
the block of a CNI, and a route of another type that it hides
  {pods}
  route add blackhole 172.20.40.0/26 proto 80
  route add unreachable 172.20.40.0/26 metric 9
  ok
"""


class Story(NamedTuple):
    """What is done to the host, and what the check says then."""

    commands: list[str]
    verdict: str
    words: str


def stories(text: str) -> dict[str, Story]:
    """Each story by its name; a line that is indented further goes on with the one before."""
    by_name: dict[str, Story] = {}
    for block in re.split(r"\n(?=\S)", text.replace("\n      ", " ").strip()):
        name, *lines, said = block.split("\n  ")
        commands: list[str] = []
        for line in lines:
            commands += line.format(**WORDS).split("; ")
        verdict, _, words = said.partition(": ")
        assert verdict in {"ok", "undecided", "overlap", "no-default-route"}, said
        assert name not in by_name, name
        by_name[name] = Story(commands, verdict, words)
    return by_name


STORY = stories(STORIES)
MEANT = [name for name in STORY if " tunnel has the only " in name or "tunnel hides" in name]


@pytest.mark.parametrize(
    ("name", "devs"), [*((name, []) for name in STORY), *((name, ["tun7"]) for name in MEANT)]
)
def test_what_decides(namespace: Namespace, tmp_path: Path, name: str, devs: list[str]) -> None:
    """The verdict and its reason; the engine agrees as far as the laws say.

    With expectedDevs no card is meant: its routes are overlaps.
    """
    story = STORY[name]
    verdict = "overlap" if devs else story.verdict
    words = "" if devs else story.words
    namespace.batch(story.commands)
    config = check("172.20.0.0/16", expected_devs=devs)
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path, awk=AWKS[len(name) % len(AWKS)])
    assert checked.verdict == verdict, checked.said
    assert engines.objections(checked) == [], checked.said
    assert words in checked.said


# The selectors of a rule with a table of its own, a route of that table, and the verdict of both.
OTHER_PACKETS = [
    ("uidrange 1000-2000", "default dev ib0", "undecided"),
    ("tos 0x10", "default dev ib0", "undecided"),
    ("ipproto udp", "172.20.9.0/24 dev ib0", "undecided"),
    ("ipproto udp dport 53", "default dev ib0", "undecided"),
    ("from 10.9.0.4", "default dev ib0", "undecided"),
    ("from 10.9.0.4", "default dev eth1", "ok"),
    ("from 192.0.2.1", "default dev ib0", "ok"),
    ("from 10.9.0.4 ipproto tcp", "blackhole 172.20.0.0/14", "undecided"),
    ("fwmark 0x1", "default dev ib0", "undecided"),
    ("fwmark 0x1/0xf", "local default dev lo", "ok"),
    ("fwmark 0x1", "default dev ib0, 172.16.0.0/12 via 10.0.0.1 dev eth0", "ok"),
    ("to 10.0.0.0/8 fwmark 0x1", "default dev ib0", "ok"),
    ("to 192.168.0.0/16 fwmark 0x1", "default dev ib0", "ok"),
    ("iif eth1", "default dev ib0", "ok"),
    ("iif gone0", "default dev ib0", "ok"),
]


@pytest.mark.parametrize(("selectors", "route", "verdict"), OTHER_PACKETS)
def test_rules_for_other_packets(
    namespace: Namespace, tmp_path: Path, selectors: str, route: str, verdict: str
) -> None:
    """Packets that a rule selects are in doubt where they would escape, as in the engine's check,
    unless the configuration intends the rule.
    """
    namespace.batch(
        [
            "address add 10.9.0.4/24 dev eth1",
            f"rule add pref 9 {selectors} lookup 100",
            *(f"route add {line} table 100" for line in route.split(", ")),
        ]
    )
    wanted = {"not intended": verdict}
    if verdict != "ok":
        wanted["intended"] = "ok"
    for rule, right in wanted.items():
        intended = [selectors] if rule == "intended" else []
        config = check("172.20.0.0/16", intended_rules=intended)
        engines = engines_check(namespace, config)
        checked = Checked(namespace, config, tmp_path, awk=AWKS[len(selectors) % len(AWKS)])
        assert checked.verdict == right, checked.said
        assert engines.verdict == right, checked.said
        doubt = f'to routeOverlap.intendedRules: "{selectors}"'
        assert (doubt in checked.said) is (right == "undecided")


def test_a_rule_that_matters_to_one_of_three(namespace: Namespace, tmp_path: Path) -> None:
    """What its table has for one network is in doubt for that one alone."""
    namespace.batch(
        ["rule add pref 9 fwmark 1 lookup 100", "route add 172.20.9.0/24 dev ib0 table 100"]
    )
    checked = Checked(namespace, check("172.19.0.0/16", "172.20.0.0/16", "172.21.0.0/16"), tmp_path)
    assert "some packets to 172.20.0.0/16 are routed differently" in checked.said


@pytest.mark.parametrize(
    ("pattern", "verdict"),
    [("i*0", "ok"), ("ib?", "ok"), ("ib0?", "overlap"), ("i.0", "overlap"), ("b0", "overlap")],
)
def test_allowed_devices(namespace: Namespace, tmp_path: Path, pattern: str, verdict: str) -> None:
    """A pattern is for the whole name; `*` is any text, and `?` one character."""
    namespace.batch(["route add 172.20.9.0/24 dev ib0"])
    config = check("172.20.0.0/16", allowed_devs=[pattern])
    assert Checked(namespace, config, tmp_path).verdict == verdict
    assert engines_check(namespace, config).verdict == verdict


@pytest.mark.parametrize(
    ("protocols", "verdict"), [("udp tcp", "ok"), ("udp tcp ipv6-icmp", "undecided")]
)
def test_rules_for_protocols_in_ipv6(
    namespace: Namespace, tmp_path: Path, protocols: str, verdict: str
) -> None:
    """Linux is asked with ICMPv6 where there are rules for UDP and TCP."""
    rules = [f"rule add ipproto {protocol} lookup 100" for protocol in protocols.split()]
    namespace.batch(["route add default via fe80::1 dev eth0", *rules], family=IPV6)
    checked = Checked(namespace, check("fd16::/64"), tmp_path)
    assert checked.verdict == verdict, checked.said


@pytest.mark.parametrize(
    ("answered", "cidr", "verdict"),
    [("fd16::5", "fd16::/64", "overlap"), ("fd16::9", "fd16::5/128", "ok")],
)
def test_routes_by_one_nexthop_object(
    namespace: Namespace, tmp_path: Path, answered: str, cidr: str, verdict: str
) -> None:
    """In IPv6, Linux keeps a route for each nexthop object and CPU, and answers with it about all
    routes by that object.

    Kills: a network by the device of one pod is fine, because Linux answers with the route to a
    single address; that address escapes, because Linux answers with the route to the network.
    """
    namespace.batch(["link add lxc1 type veth peer name peer1", *up("lxc1"), *up("peer1")])
    namespace.batch(
        [
            "route add default via fe80::1 dev eth0",
            "nexthop add id 7 dev lxc1",
            "route add fd16::/64 nhid 7",
            "route add fd16::5 nhid 7",
        ],
        family=IPV6,
    )
    for cpu in os.sched_getaffinity(0):
        namespace.run("taskset", "-c", str(cpu), "ip", "route", "get", answered)
    config = check(cidr)
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path)
    assert engines.verdict == verdict
    assert checked.verdict == "undecided"
    assert "(several routes use its nexthop object)" in checked.said


@pytest.mark.parametrize(
    "commands",
    [
        # on lo, as with BGP
        "address add 10.9.9.9/32 dev lo; route change default via 10.0.0.1 dev eth0 src 10.9.9.9",
        # on another card
        "address add 10.9.9.9/24 dev eth1; route change default via 10.0.0.1 dev eth0 src 10.9.9.9",
        # Linux takes that of another device
        (
            "route del default; address flush dev eth0; address add 10.9.9.9/32 dev lo; "
            "route add default dev eth0"
        ),
        (
            "route del default; address flush dev eth0; address add 10.9.9.9/24 dev eth1; "
            "route add default dev eth0"
        ),
    ],
)
def test_a_source_of_another_device(namespace: Namespace, tmp_path: Path, commands: str) -> None:
    """Linux looks up a second time, with the source of the default route: then a rule leads to
    another device, though that may be where the address is.
    """
    namespace.batch(commands.split("; "))
    namespace.batch(
        ["rule add from 10.9.9.9 lookup 100", "route add 172.20.0.0/16 dev eth1 table 100"]
    )
    assert " dev eth1 " in namespace.ip("route", "get", "172.20.0.1", "from", "10.9.9.9").stdout
    config = check("172.20.0.0/16")
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path)
    assert checked.verdict == "undecided", checked.said
    assert engines.objections(checked) == [], checked.said
    assert engines.verdict != "ok"


class Preferred(NamedTuple):
    """Two IPv6 default routes with one metric, by eth0 with a gateway and by eth1 without one, and
    the preference of each.
    """

    by_eth0: str
    by_eth1: str

    def in_both_orders(self) -> list[list[str]]:
        """The routes, in each order in which they can be added."""
        first = f"default via fe80::1 dev eth0 pref {self.by_eth0}"
        second = f"default dev eth1 pref {self.by_eth1}"
        return [[first, second], [second, first]]


@contextmanager
def added(namespace: Namespace, routes: list[str]) -> Iterator[str]:
    """Add these routes for the block; the route that Linux uses."""
    namespace.batch([f"route append {route}" for route in routes], family=IPV6)
    yield namespace.ip("-6", "route", "get", "fibmatch", "fd16::1").stdout
    namespace.batch([f"route del {route}" for route in routes], family=IPV6)


@pytest.mark.parametrize(
    ("routes", "used"),
    [
        (Preferred("high", "medium"), "eth0"),
        (Preferred("high", "low"), "eth0"),
        (Preferred("medium", "low"), "eth0"),
        (Preferred("medium", "high"), "eth1"),
        (Preferred("low", "high"), "eth1"),
        (Preferred("low", "medium"), "eth1"),
    ],
)
@pytest.mark.parametrize("is_forwarding", [0, 1])
def test_the_preference_of_a_router(
    namespace: Namespace,
    tmp_path: Path,
    routes: Preferred,
    used: str,
    is_forwarding: int,
) -> None:
    """Linux uses the route with the higher preference, and the script and the engine expect it
    where its device is named, whichever is listed first.
    """
    namespace.sysctl("ipv6/conf/all/forwarding", is_forwarding)
    for ordered in routes.in_both_orders():
        with added(namespace, ordered) as answer:
            assert f" dev {used} " in answer
            for dev in ("eth0", "eth1"):
                verdict = "ok" if dev == used else "overlap"
                config = check("fd16::/64", expected_devs=[dev])
                engines = engines_check(namespace, config)
                checked = Checked(namespace, config, tmp_path)
                assert engines.objections(checked) == []
                assert checked.verdict == verdict
                assert engines.verdict == verdict


@pytest.mark.parametrize("preference", ["low", "medium", "high"])
@pytest.mark.parametrize("is_forwarding", [0, 1])
def test_routers_with_the_same_preference(
    namespace: Namespace, tmp_path: Path, preference: str, is_forwarding: int
) -> None:
    """The route without a gateway stays in use, if it is the first. Neither the script nor the
    engine says ok of a device that Linux does not use.
    """
    namespace.sysctl("ipv6/conf/all/forwarding", is_forwarding)
    for ordered in Preferred(preference, preference).in_both_orders():
        with added(namespace, ordered) as answer:
            for dev in ("eth0", "eth1"):
                config = check("fd16::/64", expected_devs=[dev])
                engines = engines_check(namespace, config)
                checked = Checked(namespace, config, tmp_path)
                assert engines.objections(checked) == []
                if "ok" in {checked.verdict, engines.verdict}:
                    assert f" dev {dev} " in answer


BY_TWO_HOPS = "route replace default nexthop via 10.0.0.1 dev eth0 nexthop dev eth0"


@pytest.mark.parametrize(
    ("family", "commands", "verdict"),
    [
        (IPV4, "route append default via 10.0.0.7 dev eth1 onlink", "overlap"),
        (IPV4, "route append default dev eth1", "ok"),
        (
            IPV4,
            "route replace default dev eth0; route append default via 10.0.0.7 dev eth1 onlink",
            "ok",
        ),
        (
            IPV4,
            f"{BY_TWO_HOPS}; route append default via 10.0.0.7 dev eth1 onlink",
            "ok",
        ),
        (
            IPV6,
            "route append default via fe80::1 dev eth0; route append default dev eth1",
            "overlap",
        ),
        (
            IPV6,
            (
                "route append default via fe80::1 dev eth0; "
                "route append default via fe80::2 dev eth0; route append default dev eth1"
            ),
            "overlap",
        ),
        (IPV6, "route append default dev eth0; route append default dev eth1", "ok"),
        (IPV6, "route append default dev eth0; route append default via fe80::1 dev eth1", "ok"),
        (
            IPV6,
            "route append default via fe80::1 dev eth0; route append default dev eth1 pref low",
            "ok",
        ),
    ],
)
def test_equal_default_routes_and_a_named_device(
    namespace: Namespace, tmp_path: Path, family: int, commands: str, verdict: str
) -> None:
    """While the gateway of the first one does not answer, Linux uses another one, so each has to be
    as expected: in IPv4 each with a gateway. IPv6 has a preference among them.
    """
    namespace.batch(commands.split(";"), family=family)
    config = check("172.20.0.0/16" if family == IPV4 else "fd16::/64", expected_devs=["eth0"])
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path)
    assert checked.verdict == verdict
    assert engines.verdict == verdict
    assert engines.objections(checked) == []


@pytest.mark.parametrize("preference", ["high", "low"])
def test_default_routes_of_one_metric(
    namespace: Namespace, tmp_path: Path, preference: str
) -> None:
    """The script leaves open which of them IPv6 prefers, and no expected device is a guess."""
    routes = ["default via fe80::1 dev eth0", f"default dev eth1 pref {preference}"]
    namespace.batch([f"route append {route}" for route in routes], family=IPV6)
    config = check("fd16::/64")
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path)
    assert checked.verdict == "undecided", checked.said
    assert engines.verdict == "ok", checked.said


@pytest.mark.parametrize(
    ("commands", "verdict"),
    [
        (
            "rule add pref 51 lookup 100; route add 8000::/4 from fd00:16::/124 dev eth0 table 100",
            "undecided",
        ),
        (
            "rule add pref 51 lookup 100; route add 9000::/4 from fd00:16::/124 dev eth0 table 100",
            "overlap",
        ),
        ("rule add pref 51 goto 32766; rule add pref 52 lookup 100", "undecided"),
    ],
)
def test_what_is_not_judged_may_hide_an_escape(
    namespace: Namespace, tmp_path: Path, commands: str, verdict: str
) -> None:
    """Linux passes over a route to the same prefix as one for some sources, and over rules before
    the target of a goto.

    So the engine says undecided where Linux may send the packets by the default route.
    """
    namespace.batch(
        ["route add default dev eth0", "route add blackhole 8000::/4 table 100"], family=IPV6
    )
    namespace.batch(commands.split(";"), family=IPV6)
    config = check("8000::/4")
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path)
    assert checked.verdict == verdict
    assert engines.objections(checked) == []
    assert engines.verdict == verdict


@pytest.mark.parametrize("family", [IPV4, IPV6])
@pytest.mark.parametrize("kind", ["blackhole", "prohibit", "unreachable"])
def test_a_rule_that_refuses(namespace: Namespace, tmp_path: Path, family: int, kind: str) -> None:
    """The rule is named, whatever Linux answers for it, and no route is proposed: a rule comes
    first.
    """
    cidr = "172.20.0.0/16" if family == IPV4 else "fd16::/32"
    namespace.batch(["route add default via fe80::1 dev eth0"], family=IPV6)
    namespace.batch([f"rule add pref 100 to {cidr} {kind}"], family=family)
    config = check(cidr)
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path)
    assert checked.verdict == "overlap"
    assert engines.objections(checked) == []
    rule = f"[rule 100: from all to {cidr} {kind}]"
    assert f" is refused ({kind}) by {rule}; expected via eth0\n" in checked.said
    assert "hostrouting repair" not in checked.said


@pytest.mark.parametrize(
    ("refused", "pod", "verdict"),
    [
        ("172.20.64.0/20", "172.20.64.9", "undecided"),
        ("fd16::/32", "fd16::9", "overlap"),
        ("fd16::/64", "fd16::9", "undecided"),
        ("fd16::/120", "fd16::9", "ok"),
    ],
)
def test_refused_ranges_of_both_families(
    namespace: Namespace, tmp_path: Path, refused: str, pod: str, verdict: str
) -> None:
    """The blocks of a CNI and of a node have other lengths in IPv6 than in IPv4."""
    protocol = "bird" if ":" in refused else "196"
    namespace.batch(ports("cali1"))
    namespace.batch(["route add default via fe80::1 dev eth0"], family=IPV6)
    namespace.batch(
        [f"route add blackhole {refused} proto {protocol}", f"route add {pod} dev cali1"],
        family=IPV6 if ":" in refused else IPV4,
    )
    config = check("172.20.0.0/16", "fd16::/32")
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path)
    assert engines.objections(checked) == []
    assert checked.verdict == verdict, checked.said
    assert engines.verdict == verdict


@pytest.mark.parametrize(
    "commands",
    [
        "rule del pref 32766",  # Linux looks up table main all the same, and there is none
        "link add ifb7 type ifb; link set ifb7 up; route add default dev ifb7",
    ],
)
def test_no_default_route_in_ipv6(namespace: Namespace, tmp_path: Path, commands: str) -> None:
    """None is there, or none that leads out: nothing is open."""
    namespace.batch(commands.split("; "), family=IPV6)
    config = check("fd16::/64")
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path)
    assert checked.verdict == "no-default-route", checked.said
    assert engines.objections(checked) == []


@pytest.mark.parametrize("awk", AWKS)
def test_any_address(namespace: Namespace, tmp_path: Path, awk: str) -> None:
    """Linux reads each address as the script spells it, and the script as Linux does; one row of
    zeros is left out.
    """
    groups = ["0", "0", "0", "1", "ab", "ab0", "ffff"]
    chance = Random(7)  # noqa: S311  the same in each run
    cidrs = [":".join(chance.choices(groups, k=8)) + "/128" for _ in range(60)]
    namespace.batch(
        ["route add ::ffff:0.0.0.0/97 dev ib0", "route add ::ffff:128.0.0.0/97 dev eth0"],
        family=IPV6,
    )
    config = check(
        "::/128",
        "0:0:0:0:0:0:1:0/128",
        "::fffe:0:0/95",
        "0.0.0.0/0",
        *cidrs,
        expected_devs=["eth0"],
    )
    engines = engines_check(namespace, config)
    checked = Checked(namespace, config, tmp_path, awk=awk)
    assert checked.verdict == "overlap", checked.said
    assert engines.objections(checked) == [], checked.said
    assert len(checked.lines) > 50
