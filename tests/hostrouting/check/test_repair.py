"""hostrouting.check.repair: which routes it proposes, and why no route of ours repairs a range, on
hosts where it was wrong.
"""

import pytest

from hostrouting.check.hiding import HiddenParts
from hostrouting.check.judge import Judge
from hostrouting.check.parts import find_parts
from hostrouting.check.repair import Case, prove
from hostrouting.check.results import CheckReport, FamilyReport, Repair
from hostrouting.check.sentences import check_findings
from hostrouting.check.way_out import WayOut, find_way_out
from hostrouting.config.settings import RouteOverlapConfig, StaticRoutesConfig
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import OURS, PROTOCOL_KERNEL, NextHop, Route
from tests.support.ip_text import HostRow, host_rows
from tests.support.topologies import BY_IPV6, IB0, checked, checked_as, vm_of, vm_with


@host_rows("""
neighbouring networks have one route
  172.16.2.0/23 172.16.4.0/24 | 172.16.0.0/16 dev ib0 | 172.16.2.0/24 172.16.3.0/24 172.16.4.0/24
one address at the end of a CIDR has one
  172.16.255.255/32 | 172.16.255.255/32 dev ib0 metric 100
a route of ours by another device is replaced
  172.16.0.0/16 | 172.16.0.0/15 dev eth1; 172.16.0.0/16 dev ib0 proto ours | 172.16.0.0/16
in Linux, the type of service and the source are parts of the key
  172.16.0.0/17 172.16.128.0/17 | 172.16.0.0/16 dev ib0; 172.16.0.0/17 dev ib0 tos 16
+ ipv6; fd44::/64 from fd99::/64 dev eth1 dead metric 1024
  fd44::/64 | fd44::/64 dev ib0 metric 2000 | fd44::/64
one of ours with a better metric is not replaced, so the prefix has to be longer
  fd44::/65 fd44::8000:0:0:0/65 | ipv6; fd44::/64 dev ib0 metric 512 proto ours | fd44::/64
a route that Linux does not use now holds its key all the same
+ 172.16.0.0/16 dev ib0
  172.16.5.0/25 172.16.5.128/25 | 172.16.5.0/24 dev eth1 dead proto 4 | 172.16.5.0/24
  host-route: [172.16.5.1/32 dev eth1 dead proto static scope link] is as specific as a route \
can be | 172.16.5.1/32 dev eth1 dead proto 4 | 172.16.5.1/32
a throw in table main ends its lookup
  172.16.0.0/17 172.16.128.0/17 | throw 172.16.0.0/16
what the first rule for table main suppresses is used by the second one
  10.0.0.0/9 10.128.0.0/9 | 10.0.0.0/8 dev ib0; rule lookup 254 suppress 16 | 10.0.0.0/8
no rule suppresses a refusal, but the longer route that hides it, which a later rule has
  10.0.0.0/16 10.1.0.0/16 | blackhole 10.0.0.0/15 proto 4; rule lookup 254 suppress 16 | 10.0.0.0/15
a route that the rule suppresses does not say how long a new one has to be
  10.0.0.0/17 10.0.128.0/17 \
| elsewhere; rule lookup 254 suppress 16; rule pref 200; 10.0.0.0/8 dev eth1 | 10.0.0.0/16 dev=eth0
what a CNI may have left behind is not deleted if something else would be wrong then
  172.16.5.0/25 172.16.5.128/25 \
| blackhole 172.16.5.0/24 proto 12; 172.16.0.0/16 dev ib0 | 172.16.5.0/24
what leaves by the uplink's default route may as well leave by a route of ours
+ elsewhere; rule lookup 254 suppress 0; rule pref 200
  10.1.0.0/16 | rule pref 150 to 10.1.2.0/24 lookup 254 | 10.1.0.0/16 dev=eth0
no route is too specific for a rule that suppresses all
+ -main; rule lookup 254 suppress 32; rule pref 32767 lookup 253; default via 10.0.0.1 dev eth0 \
table 253
  earlier-rule: no rule is known to use routes of table main | throw 172.16.0.0/16 table 253
a rule for table main that is not about packets of pods changes nothing for them
+ elsewhere; rule from 10.244.1.0/24
  earlier-rule |                                        | 172.16.6.0/24 pods=10.244.1.0/24
  earlier-rule | rule pref 50 fwmark 1/1 lookup 254     | 172.16.6.0/24 pods=10.244.1.0/24
routes are looked for where plain packets escape
+ default via 10.0.0.1 dev eth0 table 100; rule from 0.0.0.0/32
  not-proven: routes are proposed only for plain packets, and not for connections from 10.0.0.4 \
| 172.16.5.0/24 dev ib0
what a route takes has to be fine then
  172.16.0.0/17 172.16.128.0/17 not-proven \
| 172.16.0.0/16 dev ib0; elsewhere; rule pref 50 fwmark 1/1
plain packets would leave as before, but perhaps with a source for which there is a rule
+ -addresses; address 10.0.0.9/32 dev ib0; address 10.9.0.4/24 dev eth1
+ default via 10.0.0.1 dev eth0 table 100 src 10.0.0.9; default via 10.9.0.1 dev eth1 table 101
+ rule pref 50 from 10.9.0.4/32 lookup 101; rule to 172.16.5.0/24 lookup 254 suppress 16
  not-proven: with these routes, other packets would be lost or in doubt \
| 172.16.0.0/16 dev ib0; rule to 172.16.5.0/24
where a tunnel's default route hides the card's, the device has to be named
+ default dev wg1
  no-gateway: a repair needs its device to be named in routeOverlap.expectedDevs: eth0 or wg1 \
| 172.16.0.0/16 dev ib0
  no-gateway: a repair needs its device to be named in routeOverlap.expectedDevs: wg1 or a network \
card | -default; 172.16.0.0/16 dev ib0
a provider's line is right, and has to be named all the same before a repair leads by it
  no-gateway | -default; link ppp0 ppp; default dev ppp0; 172.16.0.0/16 dev ib0
the host does not have the expected device
  no-gateway | | dev=eth9
Linux refuses an IPv6 route with its own gateway inside, unless a longer one leads to the gateway
+ ::/0 via 2001:db8::1 dev eth0 metric 1024; 2001:db8::/32 dev ib0 metric 100
  2001:db8:8000::/33 no-gateway: a repair needs a destination without the gateway 2001:db8::1, \
which Linux would no longer reach directly \
| 2001:db8::/32 dev eth0 metric 256 proto 2 | 2001:db8::/32
  2001:db8::/33 2001:db8:8000::/33 | 2001:db8::/64 dev eth0 metric 256 proto 2 | 2001:db8::/32
the route that hides a pod has to go
  below-a-cni: [172.16.5.1/32 dev ib0 proto unspec scope link] hides [172.16.5.1/32 dev cali1 \
proto unspec scope link metric 100], which these packets would take without it \
| 172.16.5.1/32 dev cali1 metric 100; 172.16.5.1/32 dev ib0
no route has a device that a configuration refuses, by its name
+ -default; -addresses; link dummy0 dummy; link eth:0 nic; address 10.0.0.4/24 dev eth:0
+ default via 10.1.0.1 dev dummy0 table 101; rule pref 40101 lookup 101
  host-route no-gateway \
| default via 10.0.0.1 dev eth:0 table 102; rule pref 40102 lookup 102 | 0.0.0.0/0
a wider route, which could take what is reserved, would not be in what is expected
  host-route: the range is reserved | 0.0.0.0/1 dev ib0 | 0.0.0.0/8 dev=eth1
""")
def test_repairs(row: HostRow) -> None:
    """The destinations of the routes, then the reasons for what no route repairs, and the cause."""
    report = checked_as(vm_of(row.host), row.asked)
    reasons, _, cause = row.answer.partition(": ")
    assert [*destinations(report), *dict.fromkeys(reasons_of(report))] == reasons.split()
    if cause:
        assert {unsafe.why.cause for unsafe in family_of(report).repair.unrepairable} == {cause}


def destinations(report: CheckReport) -> list[str]:
    """The destinations of the repair's routes."""
    return [str(route.destination) for route in report.routes]


def reasons_of(report: CheckReport) -> list[str]:
    """Why ranges cannot be repaired, in the order of the ranges."""
    return [unsafe.why.reason for unsafe in family_of(report).repair.unrepairable]


def family_of(report: CheckReport) -> FamilyReport:
    """The only family."""
    [family] = report.families
    return family


def test_a_repair_is_never_a_default_route() -> None:
    """The configuration takes no default route, so a host without one in table main needs both of
    its halves.
    """
    of_eth1 = "10.1.0.0/24 dev eth1; address 10.1.0.4/24 dev eth1"
    by_rule = "default via 10.1.0.1 dev eth1 table 100"
    report = checked(
        vm_of(f"-default; -addresses; {by_rule}; {of_eth1}"), "0.0.0.0/0", expected_devs=["eth1"]
    )
    assert report.node_ips == {4: as_ip("10.1.0.4")}
    assert {"0.0.0.0/1", "128.0.0.0/1"} <= set(destinations(report))
    assert StaticRoutesConfig(True, report.routes).enabled


# The device and the gateway.


def test_a_device_that_can_be_configured() -> None:
    """Of several expected devices, the first whose name a configuration can have is used."""
    host = vm_of("link a@b nic; default dev eth1 metric 10; default dev a@b metric 50")
    judge = Judge(Fib(host, 4), RouteOverlapConfig())
    devs = frozenset({"a@b", "eth0"})
    judge.uplinks = judge.uplinks._replace(devs=devs, doubtful=frozenset())
    way_out = find_way_out(judge)
    assert isinstance(way_out, WayOut)
    assert way_out.dev == "eth0"


def test_the_device_is_named_where_table_main_has_another_default_route() -> None:
    """An open route would take the next hop of table main's, which a VPN's rule suppresses here."""
    of_vpn = "rule lookup 254 suppress 0; rule pref 200 lookup 200; default dev eth1 table 200"
    [route] = checked(vm_of(f"{of_vpn}; 172.16.0.0/16 dev ib0 metric 100")).routes
    assert route.to_mapping() == {"destination": "172.16.0.0/16", "dev": "eth1"}
    hidden = vm_of("default dev wg1; 172.16.0.0/16 dev ib0")
    named = checked(hidden, expected_devs=["eth0", "eth9"])
    assert [route.dev for route in named.routes] == ["eth0", "eth0"]


@host_rows("""
Linux would choose this source anyway, as of a DHCP client
  | default via 10.0.0.1 dev eth0 src 10.0.0.4
with BGP to the host, only the address of lo is known to others: nothing would come back
  src 10.255.0.4 mtu 1500 | default via 10.0.0.1 dev eth0 src 10.255.0.4 mtu 1500
  mtu 9000                | default via 10.0.0.1 dev eth0 mtu 9000
of next hops with weights, the expected one is named, which needs none
+ 10.1.0.0/24 dev eth1
  mtu 1400 | default mtu 1400 nexthop via 10.0.0.1 dev eth0 weight 2 nexthop via 10.1.0.1 dev eth1
""")
def test_what_the_default_route_has_and_a_static_route_cannot_have(row: HostRow) -> None:
    """It is a cost of the repair."""
    host = vm_of(f"-default; 172.16.0.0/16 dev ib0; {row.host}")
    report = checked(host, expected_devs=["eth0"] if "weight" in row.host else [])
    assert {route.dev for route in report.routes} <= {"eth0", None}
    assert family_of(report).repair.lacks == row.answer


# Proof, and proposals that nobody would read.


def test_packets_that_would_still_escape_are_not_called_doubtful() -> None:
    """The reason says what the proof has seen."""
    block = Prefix.parse("172.16.0.0/24")
    bad = Route(block, (NextHop("ib0"),), protocol=OURS)
    judge = Judge(Fib(vm_of("172.16.0.0/16 dev ib0"), 4), RouteOverlapConfig())
    parts = list(find_parts(judge, block.first, block.last))
    case = Case(judge, [block], parts, HiddenParts({}, judge.fib))
    [unsafe] = prove(case, Repair((bad,)), unmade={}).unrepairable
    assert unsafe.why.cause == "with these routes, packets there would still escape"


@pytest.mark.parametrize(
    ("in_main", "count"),
    [
        ("172.16.5.0/24 via 10.0.0.1 dev eth0", 1),
        ("multicast 172.16.5.0/24 via 10.0.0.1 dev eth0", 0),
        ("172.16.6.0/24 dev ib0", 0),
    ],
)
def test_a_rule_for_what_table_main_has_there(in_main: str, count: int) -> None:
    """It is proposed unless something that is fine would be in doubt, or something would still
    escape.
    """
    way = "172.16.5.0/24 via 10.0.0.1 dev eth0"
    report = checked(vm_of(f"{way} table 100; {in_main}; elsewhere; rule"))
    [reason] = {unsafe.why for unsafe in family_of(report).repair.unrepairable}
    assert len(reason.rules) == count


@pytest.mark.parametrize(("networks", "routes"), [(256, 512), (257, 0)])
def test_as_many_routes_as_are_proposed(networks: int, routes: int) -> None:
    """512; beyond that, the finding says how many are too many."""
    report = checked(vm_of(every_other_24(networks)), "172.24.0.0/13")
    assert len(report.routes) == routes
    assert set(reasons_of(report)) == (set() if routes else {"too-many"})
    said = "".join(map(str, check_findings(report)))
    assert ("more than 512 routes" in said) is not routes


def every_other_24(count: int) -> str:
    """Routes by ib0 to every other /24 from 172.24.0.0. Each needs two routes to repair it, because
    its own key is taken.
    """
    first = int(as_ip("172.24.0.0"))
    return "; ".join(f"{ip_at(4, first + 512 * at)}/24 dev ib0" for at in range(count))


def test_many_ipv6_routes_are_given_up_at_once() -> None:
    """The search ends with the first route that is one too many. Kills: a search that doubles with
    each level.
    """
    captures: list[Route] = []
    for at in range(700):
        somewhere = (0xFD00 << 112) + (at * 0x9E3779B97F4A7C15 << 40)
        prefix = Prefix.around(6, somewhere, 24 + 7 * at % 105)
        captures.append(Route(prefix, (NextHop("ib0"),), metric=9))
    report = checked(vm_with(BY_IPV6, *captures, links=(IB0,)), "fd00::/8")
    assert set(reasons_of(report)) == {"too-many"}


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (PROTOCOL_KERNEL, "give eth1 and ib0 another network"),
        (OURS, "remove hostrouting's from staticRoutes.routes"),
    ],
)
def test_each_route_that_hides_a_pod_has_to_go(protocol: int, words: str) -> None:
    """In the order in which they decide: to delete the first alone would bring up the next. One
    that is configured would come back, even if the others would not.
    """
    pod = "172.16.5.1/32"
    hiding = f"{pod} dev eth1 metric 50 proto {protocol}; {pod} dev ib0 proto {PROTOCOL_KERNEL}"
    host = vm_of(f"{pod} dev cali1 metric 100; {hiding}")
    report = checked(host)
    [unsafe] = family_of(report).repair.unrepairable
    assert [route.devs for route in unsafe.why.to_delete] == [("ib0",), ("eth1",)]
    [remedy] = [each.remedy for each in check_findings(report) if each.name == "unsafe"]
    assert str(remedy).startswith(f"if the route to 172.16.5.1/32 is not intended, {words}")


@pytest.mark.parametrize(
    ("more", "general"), [("default dev wg1", "no-gateway"), (every_other_24(257), "too-many")]
)
def test_several_reasons(more: str, general: str) -> None:
    """What no route can repair has its own reason, whatever the others lack: a gateway is missing,
    or too many routes would be needed.
    """
    ways = "local 172.16.0.0/24 dev lo table 255; 172.30.0.0/16 dev ib0; 172.20.1.1/32 dev ib0"
    host = vm_of(f"{ways}; rule pref 50 to 172.17.0.0/16 prohibit; {more}")
    ranges = ["172.16.0.0/24", "172.17.0.0/16", "172.20.1.1/32", "172.24.0.0/13"]
    reason_at: dict[str, str] = {}
    for unsafe in family_of(checked(host, *ranges)).repair.unrepairable:
        reason_at[str(ip_at(4, unsafe.first))] = unsafe.why.reason
    assert reason_at["172.16.0.0"] == "earlier-rule"
    assert reason_at["172.17.0.0"] == "earlier-rule"
    assert reason_at["172.20.1.1"] == "host-route"
    assert reason_at["172.30.0.0"] == general
    assert set(reason_at.values()) == {"earlier-rule", "host-route", general}
