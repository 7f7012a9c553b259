"""hostrouting.check.results: a report as data, and the address that it names as the node's."""

import pickle

import pytest

from hostrouting.check.check import check_snapshot
from hostrouting.check.results import CheckReport
from hostrouting.check.sentences import check_findings
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.finding import Remedy
from hostrouting.model.prefix import IP, as_ip
from hostrouting.model.route import TABLE_LOCAL, Route
from hostrouting.testing import plain_vm
from tests.support.sections import expect
from tests.support.topologies import (
    ELSEWHERE,
    ETH1,
    IB0,
    address,
    checked,
    ecmp_node,
    rule,
    vm_with,
)


def test_a_report_from_another_process() -> None:
    """A report is data: another process has all of it."""
    report = checked(vm_with(ELSEWHERE, rules=(rule(),), links=(IB0,)))
    assert report.escapes
    received = pickle.loads(pickle.dumps(report))  # noqa: S301  our own bytes
    assert received == report
    assert str(received) == str(report)
    assert repr(received) == "<CheckReport overlap>"
    assert repr(received.families[0]) == f"<FamilyReport {report}>"
    assert check_findings(received) == check_findings(report)


def test_the_address_of_the_node() -> None:
    """Of several on the expected device, Linux writes the one in the network of the gateway."""
    default = Route.to("0.0.0.0/0", dev="eth0", gateway="10.1.0.1", metric=1)
    second = address("10.1.0.4/24", "eth0")
    report = checked(vm_with(default, addresses=(second,)))
    assert report.node_ips == {4: as_ip("10.1.0.4")}


def targets(report: CheckReport, name: str) -> set[str]:
    """The targets of the findings with this name."""
    return {finding.target for finding in check_findings(report) if finding.name == name}


def test_an_own_address_without_its_local_route() -> None:
    """Without the rule for table local, the addresses are named that the rule would bring back: not
    one whose route in table local is gone, too.
    """
    vm = plain_vm().snapshot(family=4)
    later_rules = tuple(rule for rule in vm.rules if rule.priority > 0)
    other_routes = tuple(route for route in vm.routes if str(route.prefix) != "10.0.0.4/32")
    assert len(later_rules) == len(vm.rules) - 1
    assert len(other_routes) == len(vm.routes) - 1
    without_rule = vm._replace(rules=later_rules)
    without_both = vm._replace(rules=later_rules, routes=other_routes)

    assert targets(checked(without_rule), "missing-rule") == {"10.0.0.4"}
    assert targets(checked(without_both), "missing-rule") == set()


def test_another_rule_of_the_priority_of_that_for_table_local() -> None:
    """Linux has both, in the order in which they were added: before that for table local, it can
    send packets to this host's own addresses elsewhere.
    """
    host = vm_with(ELSEWHERE, rules=(rule(priority=0),), links=(IB0,))
    first, second, *_ = host.rules
    assert first.table == 100
    assert second.table == TABLE_LOCAL
    report = checked(host)
    assert "10.0.0.4" in targets(report, "missing-rule")
    # Linux would refuse to add the rule again.
    [flaw] = [flaw for flaw in check_findings(report) if flaw.name == "missing-rule"]
    assert flaw.remedy == Remedy("give the rules before it a priority above 0")


def test_a_rule_for_table_main_that_no_route_of_its_family_needs() -> None:
    """Routes of IPv6 are not used by a rule of IPv4, so it does not bring them back."""
    vm = plain_vm().snapshot()
    local = [route for route in vm.routes if route.table == TABLE_LOCAL]
    of_ipv6 = Route.to("fd00::/64", dev="eth0")
    host = vm._replace(rules=tuple(rule for rule in vm.rules if rule.priority < 32766))
    without_ipv4_routes = host._replace(routes=(*local, of_ipv6))

    [of_ipv4] = checked(host).families
    [unneeded] = checked(without_ipv4_routes).families

    assert [doubt.name for doubt in of_ipv4.doubts] == ["missing-rule"]
    assert unneeded.doubts == ()


@pytest.mark.parametrize("expected_devs", [(), ("eth0",)])
def test_linux_without_ipv6(expected_devs: tuple[str, ...]) -> None:
    """Nobody can add a default route there: the line says what can be done."""
    here = plain_vm().snapshot(family=4)._replace(family=None)
    config = HostRoutingConfig(route_overlap=expect("fd00::/8", expected_devs=expected_devs))
    findings = check_findings(check_snapshot(here, config))
    reason = "Linux has no IPv6 rules, as after a boot with ipv6.disable=1"
    [finding] = [finding for finding in findings if reason in finding.sentence]
    remedy = "boot it with IPv6, or take the IPv6 networks out of the configuration"
    assert str(finding.remedy) == remedy


def ecmp_report(*, source: IP | None = None, dead: str = "") -> CheckReport:
    """Check a host with two uplinks: with this source in its default route, and with the next hop
    by this device out of use.
    """
    snapshot = ecmp_node().snapshot()
    routes: list[Route] = []
    for route in snapshot.routes:
        if route.prefix.length:
            routes.append(route)
            continue
        hops = [hop._replace(dead=hop.dev == dead) for hop in route.next_hops]
        routes.append(route._replace(prefsrc=source, next_hops=tuple(hops)))
    addresses = (address("10.255.0.4/32", "lo"), *snapshot.addresses)
    return checked(snapshot._replace(routes=tuple(routes), addresses=addresses))


def test_two_uplinks_have_no_node_ip() -> None:
    """Linux chooses one of several next hops by a hash: where their sources differ, the node IP is
    not known.
    """
    assert ecmp_report().node_ips == {}


def test_uplinks_in_doubt_have_no_node_ip() -> None:
    """Of two default routes with one metric, either may be the intended one."""
    by_eth1 = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", metric=100)
    report = checked(vm_with(by_eth1, links=(ETH1,), addresses=(address("10.1.0.4/24", "eth1"),)))
    assert report.verdict == "undecided"
    assert report.node_ips == {}


def test_one_of_two_uplinks_is_named() -> None:
    """The address of that one is the node IP, although the default route has both."""
    report = checked(ecmp_node().snapshot(), expected_devs=["eth0"])
    assert report.node_ips == {4: as_ip("10.0.0.4")}


def test_the_source_of_the_default_route_is_the_node_ip() -> None:
    """It is often an address on lo, which both uplinks share."""
    report = ecmp_report(source=as_ip("10.255.0.4"))
    assert report.node_ips == {4: as_ip("10.255.0.4")}


@pytest.mark.parametrize(("dead", "node_ip"), [("eth1", "10.0.0.4"), ("eth0", "10.1.0.4")])
def test_the_only_next_hop_in_use_has_the_node_ip(dead: str, node_ip: str) -> None:
    """A dead next hop is not one that Linux chooses, whichever it is."""
    report = ecmp_report(dead=dead)
    assert report.node_ips == {4: as_ip(node_ip)}


def test_families_without_a_default_route() -> None:
    """Each has a sentence; a family that has one is not named."""
    report = checked(plain_vm().snapshot(), "10.0.0.0/8", "fd00::/8")
    assert [family.verdict for family in report.families] == ["ok", "no-default-route"]
    assert report.missing_defaults == ["there is no IPv6 default route"]
