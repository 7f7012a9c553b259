"""What the engine does not look at is named, and makes a verdict undecided."""

import pytest

from tests.support.ip_text import HostRow, host_rows
from tests.support.topologies import checked, checked_as, vm_of


@host_rows("""
a rule is named, and matters for its own destination; one with `not`, anywhere
  rule 50: from all goto 100 | rule pref 50 goto 100
  rule 50: not from all fwmark 0x1/0xff goto 100 | rule pref 50 not fwmark 1/0xff goto 100
  ok | rule pref 50 to 172.16.5.0/24 goto 100 | 10.99.0.0/16
  rule 50: from all to 172.16.5.0/24 goto 100 | rule pref 50 to 172.16.5.0/24 goto 100
  rule 50: from all lookup main suppress_ifgroup 0 | rule pref 50 lookup 254 ifgroup 0
  not from all to 10.99.0.0/16 lookup main | rule pref 50 not to 10.99.0.0/16 lookup 254 ifgroup 7
  not from all | rule pref 50 not to 10.99.0.0/16 lookup 254 ifgroup 7 | 10.99.0.0/16
a rule that only packets of pods take is named where these are expected
  ok | rule pref 50 from 10.99.0.0/16 goto 100
no packets of pods are left for a rule after one for all packets
+ 10.244.0.0/24 dev cni0; address 10.244.0.1/24 dev cni0
  ok | elsewhere; rule pref 40000 iif cni0 lookup 100
a route is named, and matters where it lies
  route 172.16.5.0/24 proto unspec nhid 7 (its next hops are not listed) | 172.16.5.0/24 nhid 7
  ok | 172.16.5.0/24 nhid 7 | 10.99.0.0/16
  ok | throw 172.16.5.0/24 table 100; rule to 172.16.5.0/24
  (for packets with tos 0x10) | 172.16.5.0/24 via 10.0.0.1 dev eth0 tos 16
  encap ip encap bpf (an encapsulation that may change \
| 172.16.5.0/24 via 10.0.0.1 dev eth0 encap ip encap bpf
  ok | 172.16.5.0/24 via 10.0.0.1 dev eth0 encap ip encap ip6 encap mpls
an IPv6 route for packets from some sources hides the others to its prefix
  (for packets from fd00::/64) \
| ::/0 via fe80::1 dev eth0; 8000::/4 via fe80::2 dev eth1 metric 9; \
8000::/4 from fd00::/64 via fe80::1 dev eth0 | 8000::/4
IPv6 may use table main without its rule, as long as no other rule was added
  IPv6 without the rule for table main | ipv6; -main | fd16::/48
  ok | ipv6; -main; rule to fd16::/48 lookup 254     | fd16::/48 dev=eth0
without another default route, that is what the verdict names, and not that there is none
  route default via 10.0.0.1 dev eth0 tos 0x10 | -default; default via 10.0.0.1 dev eth0 tos 16
""")
def test_what_is_named(row: HostRow) -> None:
    """The verdict on a CIDR that it can change is undecided."""
    report = checked_as(vm_of(row.host), row.asked)
    assert report.verdict == ("ok" if row.answer == "ok" else "undecided")
    doubts = "\n".join(doubt.sentence for doubt in report.families[0].doubts)
    assert ("" if row.answer == "ok" else row.answer) in doubts
    assert ("hostrouting does not judge" in doubts) is (row.answer != "ok")


@pytest.mark.parametrize("action", ["goto 100", "lookup 254 ifgroup 7"])
def test_what_is_not_judged_for_marked_packets(action: str) -> None:
    """The rule is named once, as one that sends other packets elsewhere: so it can be intended."""
    host = vm_of(f"rule pref 50 fwmark 1/0xff {action}")
    [doubt] = checked(host).families[0].doubts
    assert doubt.name == "other-packets"
    [marked] = [rule for rule in host.rules if rule.priority == 50]
    assert doubt.sentence.count(str(marked)) == 1
    assert checked(host, intended_rules=["fwmark 0x1/0xff"]).verdict == "ok"
