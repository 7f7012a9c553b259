"""The engine says what a naive scan says."""

import pytest
from hypothesis import event, given, strategies as st

from hostrouting.fib.engine import NOT_JUDGED, Decision, Fib
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import plain_vm
from tests.support.ip_text import HostRow, host_rows
from tests.support.nodes import block_of, nodes
from tests.support.scan import scanned
from tests.support.topologies import vm_of


@given(nodes())
def test_a_lookup_is_a_naive_scan(node: tuple[int, Snapshot]) -> None:
    family, snapshot = node
    fib = Fib(snapshot, family)
    block = block_of(family)
    for address in range(block.first, block.last + 1):
        decision = fib.lookup(ip_at(family, address))
        event(decision.kind)
        assert (decision.kind, decision.route) == scanned(snapshot, family, address)


def test_the_first_and_the_last_address_of_a_block() -> None:
    """Each is a cell if a rule or a route is for it alone. One of the other family is in none."""
    block = Prefix.parse("10.9.0.0/24")
    host = vm_of("10.9.0.255/32 dev eth1; rule to 10.9.0.0/32")
    first, _, last = Fib(host, 4).cells(block.first, block.last)
    assert (first, last) == ((block.first, block.first), (block.last, block.last))
    with pytest.raises(ValueError, match="::1 is not an IPv4 address"):
        Fib(plain_vm().snapshot(), 4).lookup("::1")


@given(nodes(), st.sampled_from([0, 0x200, 0xCA6C]), st.integers(0, 1), st.data())
def test_no_end_of_a_packet_is_missed(
    node: tuple[int, Snapshot], mark: int, user: int, data: st.DataObject
) -> None:
    """A packet of any user, with any mark and own address, ends as a plain one, or is listed."""
    family, snapshot = node
    fib = Fib(snapshot, family)
    sources = [int(address.ip) for address in snapshot.addresses]
    source = data.draw(st.sampled_from([None, *sources]))
    for address in range(block_of(family).first, block_of(family).last + 1):
        plain, others = fib.ends(address)
        decisions = [plain, *(other.decision for other in others)]
        end = scanned(snapshot, family, address, user=user, mark=mark, source=source)
        ends = [(decision.kind, decision.route) for decision in decisions]
        assert end in ends or plain.kind == NOT_JUDGED


@host_rows("""
a rule that refuses packets decides; Linux suppresses no refusal, and no prefix above the length
  prohibit  | rule pref 9 prohibit
  blackhole | blackhole default table 8; rule pref 9 lookup 8 suppress 0
  blackhole | blackhole default table 8; rule pref 9 lookup 8 ifgroup 7
  eth0      | 10.9.0.0/24 dev eth1 table 8; rule pref 9 lookup 8 suppress 24
Linux follows the rules that are left; only in IPv6 may it use table main all the same
  no-route | -main
a rule leads what it selects elsewhere, and `not` all else; what no packet meets selects nothing
+ elsewhere; address 127.0.0.1/8 dev lo
  ib0                                 | rule to 10.9.0.1/32
  eth0, fwmark ib0                    | rule fwmark 1/1
  ib0, others eth0                    | rule fwmark 0x100/0xff
  ib0, fwmark eth0                    | rule not fwmark 1/1
  eth0, others ib0                    | rule not fwmark 0/1
  ib0                                 | rule not iif eth1
  ib0                                 | rule not to 10.99.0.0/16 from 10.7.0.0/16
  eth0                                | rule from 127.0.0.0/8
  eth0                                | rule from 10.8.1.0/24; local 10.8.0.0/16 dev lo table 101
  eth0, from ib0                      | rule from 10.8.1.0/24; local 10.8.0.0/16 dev lo table 255
+ ipv6; ::/0 dev ib0 table 100; address 2001:db8::4/64 dev eth0
  eth0                                | rule from ::/8
  eth0, from ib0                      | rule from ::/1
of two rules with the same conditions, each is passed over only inside its own `to`
+ elsewhere; rule pref 9 not to 10.0.0.0/8 fwmark 0/255 lookup 100
  eth0, others ib0 | rule pref 9 not to 10.9.0.0/27 fwmark 0/255 lookup 100
  ib0, others ib0  | rule pref 9 not to 10.9.0.32/27 fwmark 0/255 lookup 100
the first of them takes all that meet these, and leaves those that do not
+ elsewhere; rule pref 90 fwmark 1/1
  eth0, fwmark ib0                    | rule fwmark 1/1 prohibit
  prohibit, fwmark ib0, fwmark eth0   | rule not fwmark 1/1 prohibit
  eth0, fwmark ib0                    | rule pref 80 fwmark 1/1 lookup 7
the plain packet ends at the first rule that selects it
  eth0, uidrange ib0, others eth0     | elsewhere; rule pref 90 fwmark 0/1 lookup 254; \
rule uidrange 0-0
a rule for what the host sends leaves none of it to another, but what arrives on a device
  eth0          | rule pref 8 iif lo lookup 254; rule pref 9 from 0.0.0.0/8 iif lo prohibit
  eth0          | rule pref 8 iif lo lookup 254; rule pref 9 fwmark 1/1 prohibit
  eth0, iif ib0 | rule pref 8 iif lo lookup 254; elsewhere; rule iif eth1
a rule with two selectors selects only packets that meet both; the plain one has user 0
+ default dev eth1 table 7
  eth1, others eth0         | rule pref 9 uidrange 0-9 lookup 7
  eth0, uidrange eth1       | rule pref 9 uidrange 1-9 lookup 7
  eth0, fwmark uidrange eth1 | rule pref 9 fwmark 1/1 uidrange 0-0 lookup 7
  eth0, from iif eth1       | rule pref 9 from 0.0.0.0/8 iif eth1 lookup 7
a route is used as long as one of its next hops is not dead, and leads to those alone
+ 10.9.0.0/16 dev wider
  eth0 eth1 | 10.9.0.0/24 nexthop dev eth0 nexthop dev eth1
  eth0      | 10.9.0.0/24 nexthop dev eth0 nexthop dev eth1 dead
  wider     | 10.9.0.0/24 nexthop dev eth0 dead nexthop dev eth1 dead
  eth0      | 10.9.0.0/24 dev eth0 linkdown
while a gateway does not answer, Linux uses an equal default route, and no other equal one
  eth0      | 10.9.0.0/24 via 10.0.0.9 dev eth0; 10.9.0.0/24 via 10.1.0.9 dev eth1
  eth0      | local default dev lo metric 100
  eth0 eth1 | default metric 100 nexthop via 10.1.0.1 dev eth1 nexthop dev ib0 dead
  eth0      | ipv6; ::/0 via fe80::2 dev eth1 metric 1024 pref low
a route for some sources hides those for all to its prefix, even with a worse metric
  not-judged | ipv6; ::/0 from fd00::/64 via fe80::2 dev eth1 metric 2000
Linux lists what has expired until its next clean-up, and does not use it
+ 10.9.0.0/16 dev wider
  wider  | 10.9.0.0/24 dev narrow expired
  narrow | 10.9.0.0/24 dev narrow expires
plain packets have no type of service
  wider | 10.9.0.0/16 dev wider; 10.9.0.0/24 dev narrow tos 16
""")
def test_what_becomes_of_packets(row: HostRow) -> None:
    """The devices by which 10.9.0.1 may leave, or what refuses it; then where others end, with the
    selectors that they meet.
    """
    fib = Fib(vm_of(row.host), 6 if "ipv6" in row.host else 4)
    plain, others = fib.ends({4: int(as_ip("10.9.0.1")), 6: int(as_ip("fd09::1"))}[fib.family])
    ends = [" ".join(fib.possible_devs(plain)) or plain.kind]
    for other in others:
        names = [name for name, _ in other.met_conditions] or ["others"]
        ends.append(" ".join([*names, *other.decision.devs]))
    assert ", ".join(ends) == row.answer
    assert str(plain) == str(plain.route or plain.rule or plain.kind)


def test_a_rule_for_vrfs() -> None:
    """It is passed over: plain packets are in no VRF. They use tables of rules without a mark."""
    of_vrfs, blackhole = Rule(4, 9, "unreachable", l3mdev=True), Rule(4, 10, "blackhole")
    fib = Fib(vm_of("rule pref 10 to 8.0.0.0/8 prohibit"), 4).with_rules([of_vrfs, blackhole])
    assert fib.lookup("8.8.8.8").kind == "prohibit"
    assert fib.lookup("9.9.9.9") == Decision("blackhole", rule=blackhole)
    host = vm_of("rule fwmark 1/1 lookup 7; rule not fwmark 1/1 lookup 8; rule not iif a lookup 9")
    assert Fib(host, 4).tables_for_plain == {8, 9, 253, 254, 255}
