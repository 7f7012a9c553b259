"""hostrouting.check.results: the address of the node, and what happens to packets, in words."""

from hostrouting.check.document import check_document
from hostrouting.model.prefix import as_ip
from hostrouting.testing import plain_vm
from tests.support.ip_text import HostRow, host_rows
from tests.support.topologies import checked, checked_as, vm_of


@host_rows("""
of two default routes with one metric, either may be the intended one
  none | default via 10.1.0.1 dev eth1 metric 100; address 10.1.0.4/24 dev eth1
Linux chooses one of several next hops by a hash, unless one is dead
+ -default; address 10.1.0.4/24 dev eth1; address 10.255.0.4/32 dev lo
  none     | default nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1
  10.0.0.4 | default nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1 | dev=eth0
every device has a link-local address
  10.0.0.4 2001:db8::4 | ipv6; address fe80::4/64 dev eth0; address 2001:db8::4/64 dev eth0 \
| 172.16.0.0/16 fd16::/48
""")
def test_the_address_of_the_node(row: HostRow) -> None:
    """The one that its packets to elsewhere have, if that is known."""
    known = [as_ip(ip) for ip in row.answer.split() if ip != "none"]
    assert [*checked_as(vm_of(row.host), row.asked).node_ips.values()] == known


@host_rows("""
the route has no other device
  leaves through ib0 [ | 172.16.0.0/16 dev ib0
the route has another next hop
  may leave through ib0 [ | 172.16.0.0/16 nexthop via 10.0.0.1 dev eth0 nexthop dev ib0
an equal default route has the device
  may leave through ib0 [ | -default; default via 10.0.0.1 dev eth0; default dev ib0
""")
def test_packets_only_may_leave_by_one_of_several_devices(row: HostRow) -> None:
    """Linux uses one of several next hops, and an equal default route while a gateway is silent."""
    [escape] = checked_as(vm_of(row.host), row.asked).escapes
    assert f"172.16.0.0/16 {row.answer}" in str(escape)


def test_families_without_a_default_route() -> None:
    """Each has a verdict and a sentence; one whose default route is not judged has no sentence."""
    report = checked(plain_vm().snapshot(), "10.0.0.0/8", service_cidrs=["fd00::/108"])
    verdicts = check_document(report, mode="WARN", findings=())["verdicts"]
    assert verdicts == {"ipv4": "ok", "ipv6": "no-default-route"}
    assert report.missing_defaults == ["there is no IPv6 default route"]
    not_judged = checked(vm_of("-default; default via 10.0.0.1 dev eth0 tos 4"))
    assert (not_judged.verdict, not_judged.missing_defaults) == ("undecided", [])
    without_rule = checked(vm_of("-main; rule to ::/1 lookup 254"))
    assert without_rule.missing_defaults == ["no IPv4 rule looks up table main"]
    without_routes = checked(vm_of("-main"), "fd16::/48")
    assert without_routes.missing_defaults == ["no IPv6 rule looks up table main"]
