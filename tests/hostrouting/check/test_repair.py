"""Which routes a repair proposes, and why no route of ours repairs a range."""

from hostrouting.check.results import CheckReport, FamilyReport
from hostrouting.config.settings import StaticRoutesConfig
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.testing import h200
from tests.support.ip_text import HostRow, host_rows
from tests.support.topologies import checked, checked_as, vm_of


@host_rows("""
neighbouring networks have one route
  172.16.2.0/23 172.16.4.0/24 | 172.16.0.0/16 dev ib0 | 172.16.2.0/24 172.16.3.0/24 172.16.4.0/24
one address at the end of a CIDR has one
  172.16.255.255/32 | 172.16.255.255/32 dev ib0 metric 100
two addresses have one each
  172.16.5.6/32 172.16.5.7/32 | 172.16.5.6/31 dev ib0
half of all addresses may have one route
  128.0.0.0/1 | 128.0.0.0/1 dev ib0 metric 9 | 128.0.0.0/1
a route of ours by another device is replaced
  172.16.0.0/16 | 172.16.0.0/15 dev eth1; 172.16.0.0/16 dev ib0 proto ours | 172.16.0.0/16
in Linux, the type of service and the source are parts of the key
  172.16.0.0/17 172.16.128.0/17 | 172.16.0.0/16 dev ib0; 172.16.0.0/17 dev ib0 tos 16
+ ipv6; fd44::/64 from fd99::/64 dev eth1 dead metric 1024
  fd44::/64                          | fd44::/64 dev ib0 metric 2000 | fd44::/64
  fd44::/65 fd44::8000:0:0:0/65 | fd44::/64 dev ib0 metric 1    | fd44::/64
one of ours is replaced, whatever its metric
  fd44::/64 | ipv6; fd44::/64 dev ib0 metric 512 proto ours | fd44::/64
a throw in table main ends its lookup
  172.16.0.0/17 172.16.128.0/17 | throw 172.16.0.0/16
a route of ours makes way only for one that is needed
  earlier-rule | link cni0 bridge; 172.16.0.0/16 dev cni0 proto ours metric 9; rule; \
address 172.16.5.1/24 dev cni0; 172.16.0.0/16 via 10.0.0.1 dev eth0 table 100
what the first rule for table main suppresses is used by the second one
  10.0.0.0/9 10.128.0.0/9 | 10.0.0.0/8 dev ib0; rule lookup 254 suppress 16 | 10.0.0.0/8
no rule suppresses a refusal, but the longer route that hides it, which a later rule has
  10.0.0.0/16 10.1.0.0/16 | blackhole 10.0.0.0/15 proto 4; rule lookup 254 suppress 16 | 10.0.0.0/15
what a CNI may have left behind is not deleted if something else would be wrong then
  172.16.5.0/25 172.16.5.128/25 \
| blackhole 172.16.5.0/24 proto 12; 172.16.0.0/16 dev ib0 | 172.16.5.0/24
what leaves by the uplink's default route may as well leave by a route of ours
+ elsewhere; rule lookup 254 suppress 0; rule pref 200
  10.1.0.0/16 | rule pref 150 to 10.1.2.0/24 lookup 254 | 10.1.0.0/16 dev=eth0
what rules do with other packets is in doubt before and after the repair, which is whole
  172.16.0.0/17 172.16.128.0/17 \
| 172.16.0.0/16 dev ib0; rule pref 9 fwmark 7/7; default dev ib0 table 100 | 172.16.0.0/16
a route of ours would hide what a CNI refuses or may have left behind, and the network of a card
  below-a-cni | link flannel.1 vxlan; address 172.16.0.0/32 dev flannel.1; \
blackhole 172.16.0.0/16 proto 3; 172.16.5.0/24 dev ib0
  below-a-cni | link flannel.1 vxlan; 172.16.0.0/16 dev flannel.1; link lxc1 veth; \
172.16.9.9/32 dev lxc1; 172.16.5.0/24 dev ib0 | 172.16.5.0/24
  below-a-cni | default dev wg1; 10.0.0.128/25 dev ib0 | 10.0.0.0/24 dev=wg1
what is newly in doubt for some packets is not repaired
  172.16.0.0/16 not-proven | 172.16.0.0/16 dev ib0 metric 9; address 172.16.1.4/16 dev ib0; \
default dev eth1; rule from 10.0.0.4/32 ipproto tcp; \
default via 10.0.0.1 dev eth0 table 100 | 172.16.0.0/16 dev=eth1
no default route is replaced by one, even with a better metric
  0.0.0.0/1 10.1.0.0/25 10.1.0.128/25 128.0.0.0/1 \
| -default; default via 10.1.0.1 dev eth1 metric 100; default via 10.0.0.1 dev eth0 metric 200; \
10.1.0.0/24 dev eth1 | 0.0.0.0/0 dev=eth0
a provider's line is right, and has to be named all the same before a repair leads by it
  no-device | -default; link ppp0 ppp; default dev ppp0; 172.16.0.0/16 dev eth0
no configuration can name every device
  no-device | -default; link a~b nic; address 10.1.0.4/24 dev a~b; 172.16.0.0/16 dev ib0; \
default via 10.1.0.1 dev a~b table 100; 10.1.0.0/24 dev a~b; rule pref 40000 lookup 100
the host does not have the expected device
  no-gateway | | dev=eth9
Linux refuses an IPv6 route with its own gateway inside, unless a longer one leads to the gateway
+ ::/0 via 2001:db8::1 dev eth0 metric 1024; 2001:db8::/32 dev ib0 metric 100
  2001:db8::/32 | 2001:db8::/64 dev eth0 metric 256 proto 2 | 2001:db8::/32
a rule is proposed, unless it leads away what is fine, or comes before one for table local
+ elsewhere; rule
  earlier-rule: 99: from all to 172.16.0.0/16 lookup main | | 172.16.0.0/16 172.16.5.0/24
  earlier-rule | 172.16.5.0/24 dev wg1 table 100 | 172.16.0.0/16 allow=wg1
  earlier-rule | rule pref 200 lookup 255
Linux puts a new rule behind those of its priority, so the one for table local stays the first
+ elsewhere
  earlier-rule: 0: from all to 172.16.0.0/16 lookup main | rule pref 1
  earlier-rule | 172.16.0.0/16 dev wg1; address 10.9.0.4/32 dev wg1; rule pref 0 from 10.9.0.4/32 \
| 172.16.0.0/16 allow=wg1
what would lose what is fine, or lead packets of other users elsewhere, is not proposed
  earlier-rule | -default; default via 10.0.0.1 dev eth0 table 253; \
172.16.5.0/24 dev ib0 table 253; 172.16.6.7/32 dev cali1 table 253
+ default via 10.0.0.1 dev eth0 table 7; 172.16.5.0/24 dev ib0 table 7; rule pref 200 lookup 7
  earlier-rule | rule uidrange 0-0; 172.16.6.0/24 via 10.0.0.1 dev eth0 table 100; \
172.16.6.0/24 dev ib0
  earlier-rule | rule fwmark 1/1; elsewhere; 172.16.6.0/24 dev eth0 proto 3
""")
def test_repairs(row: HostRow) -> None:
    """The destinations of the routes, the reasons for what no route repairs, and a rule for it."""
    report = checked_as(vm_of(row.host), row.asked)
    reasons, _, rule = row.answer.partition(": ")
    assert [*destinations(report), *dict.fromkeys(reasons_of(report))] == reasons.split()
    whys = [unsafe.why for unsafe in family_of(report).repair.unrepairable]
    assert [str(why.rule) for why in whys if why.rule is not None] == ([rule] if rule else [])


def destinations(report: CheckReport) -> list[str]:
    return [str(route.destination) for route in report.routes]


def reasons_of(report: CheckReport) -> list[str]:
    return [unsafe.why.reason for unsafe in family_of(report).repair.unrepairable]


def family_of(report: CheckReport) -> FamilyReport:
    [family] = report.families
    return family


def test_a_repair_is_never_a_default_route() -> None:
    """A host without a default route in table main needs both of its halves."""
    of_eth1 = "10.1.0.0/24 dev eth1; address 10.1.0.4/24 dev eth1"
    by_rule = "default via 10.1.0.1 dev eth1 table 100"
    host = vm_of(f"-default; -addresses; {by_rule}; {of_eth1}")
    report = checked(host, "0.0.0.0/0", expected_devs=["eth1"])
    assert report.node_ips == {4: as_ip("10.1.0.4")}
    assert {"0.0.0.0/1", "128.0.0.0/1"} <= set(destinations(report))
    assert StaticRoutesConfig(True, report.routes).enabled


def test_the_device_is_named_where_table_main_has_another_default_route() -> None:
    """An open route would take the next hop of table main's, which a VPN's rule suppresses here."""
    of_vpn = "rule lookup 254 suppress 0; rule pref 200 lookup 200; default dev eth1 table 200"
    [route] = checked(vm_of(f"{of_vpn}; 172.16.0.0/16 dev ib0 metric 100")).routes
    assert route.to_mapping() == {"destination": "172.16.0.0/16", "dev": "eth1", "metric": 1}
    hidden = vm_of("default dev wg1; 172.16.0.0/16 dev ib0")
    named = checked(hidden, expected_devs=["eth0", "eth9"])
    assert [route.dev for route in named.routes] == ["eth0", "eth0"]


def test_a_cni_that_starts_later_has_its_pods() -> None:
    """Its routes may have the prefix of a repair, and the metric that Linux gives by itself."""
    kernel = h200()
    kernel.add_link(Link(name="cni0", index=0, kind="bridge"))
    kernel.add_address("eth0", "fd10::4/64")
    kernel.add_address("ib0", "fd16::10/32")
    kernel.ip_route("add", Route.to("::/0", dev="eth0", gateway="fd10::1", metric=1024))
    pods = {"172.16.64.0/24": "172.16.64.1/24", "fd16:0:1::/64": "fd16:0:1::1/64"}
    for cidr, address in pods.items():
        [repair] = checked(kernel.snapshot(), cidr).resolved
        kernel.ip_route("add", repair)
        assert checked(kernel.snapshot(), cidr).verdict == "ok"
        kernel.add_address("cni0", address)
        assert checked(kernel.snapshot(), cidr).verdict == "ok"
        kernel.ip_route("add", Route.to(cidr, dev="cni0", metric=1024))
