"""hostrouting.check.results: a report as data, and the address that it names as the node's."""

import pickle

import pytest

from hostrouting.check.check import check_snapshot
from hostrouting.check.document import check_document
from hostrouting.check.results import CheckReport
from hostrouting.check.sentences import check_findings
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.finding import Remedy
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import TABLE_LOCAL, Route
from hostrouting.testing import plain_vm
from tests.support.ip_text import HostRow, host_rows
from tests.support.sections import expect
from tests.support.topologies import checked, checked_as, vm_of


def test_a_report_from_another_process() -> None:
    """A report is data: another process has all of it."""
    report = checked(vm_of("elsewhere; rule"))
    assert report.escapes
    received = pickle.loads(pickle.dumps(report))  # noqa: S301  our own bytes
    assert received == report
    assert str(received) == str(report)
    assert repr(received) == "<CheckReport overlap>"
    assert repr(received.families[0]) == f"<FamilyReport {report}>"
    assert check_findings(received) == check_findings(report)
    document = check_document(received, mode="STRICT")
    assert document == check_document(report, mode="STRICT")
    assert document["verdict"] == "overlap"


@host_rows("""
of several addresses on the expected device, Linux writes the one in the network of the gateway
  10.1.0.4 | default via 10.1.0.1 dev eth0 metric 1; address 10.1.0.4/24 dev eth0
of two default routes with one metric, either may be the intended one
  none | default via 10.1.0.1 dev eth1 metric 100; address 10.1.0.4/24 dev eth1
by a device without an address, Linux writes one of another device that is not only for its link
  10.0.0.4 | -default; default via 10.1.0.1 dev eth1; address 169.254.7.7/16 dev ib0
Linux chooses one of several next hops by a hash, unless one is dead
+ -default; address 10.1.0.4/24 dev eth1; address 10.255.0.4/32 dev lo
  none     | default nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1
  10.0.0.4 | default nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1 | dev=eth0
  10.1.0.4 | default nexthop via 10.0.0.1 dev eth0 dead nexthop via 10.1.0.1 dev eth1
the source of the default route is often an address on lo, which both uplinks share
  10.255.0.4 | -default; address 10.255.0.4/32 dev lo; \
default src 10.255.0.4 nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1
""")
def test_the_address_of_the_node(row: HostRow) -> None:
    """The one that its packets to elsewhere have, if that is known."""
    known = {} if row.answer == "none" else {4: as_ip(row.answer)}
    assert checked_as(vm_of(row.host), row.asked).node_ips == known


def targets(report: CheckReport, name: str) -> set[str]:
    """The targets of the findings with this name."""
    return {finding.target for finding in check_findings(report) if finding.name == name}


def test_an_own_address_without_its_local_route() -> None:
    """Without the rule for table local, the addresses are named that the rule would bring back: not
    one whose route in table local is gone, too.
    """
    vm = plain_vm().snapshot(family=4)
    without_rule = vm._replace(rules=tuple(rule for rule in vm.rules if rule.priority > 0))
    other_routes = tuple(route for route in vm.routes if str(route.prefix) != "10.0.0.4/32")
    assert targets(checked(without_rule), "missing-rule") == {"10.0.0.4"}
    assert targets(checked(without_rule._replace(routes=other_routes)), "missing-rule") == set()


def test_another_rule_of_the_priority_of_that_for_table_local() -> None:
    """Linux has both, in the order in which they were added: before that for table local, it can
    send packets to this host's own addresses elsewhere.
    """
    host = vm_of("elsewhere; rule pref 0")
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
    assert checked(here).verdict == "ok"  # of IPv4


def test_families_without_a_default_route() -> None:
    """Each has a sentence, also if only services are expected there; none has one whose default
    route is not judged, because nobody waits for another one.
    """
    report = checked(plain_vm().snapshot(), "10.0.0.0/8", service_cidrs=["fd00::/108"])
    assert [family.verdict for family in report.families] == ["ok", "no-default-route"]
    assert report.missing_defaults == ["there is no IPv6 default route"]
    not_judged = checked(vm_of("-default; default via 10.0.0.1 dev eth0 tos 4"))
    assert (not_judged.verdict, not_judged.missing_defaults) == ("undecided", [])
