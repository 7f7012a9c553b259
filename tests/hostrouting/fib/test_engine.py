"""The engine of one pass says what a naive scan says, for every address; and its cells are a
partition.
"""

from ipaddress import ip_address

import pytest
from hypothesis import assume, event, given, strategies as st

from hostrouting.fib.engine import NO_ROUTE, Decision, Fib, PacketKind
from hostrouting.fib.trace import trace_rules
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import TABLE_MAIN, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import plain_vm
from tests.support.ip_text import HostRow, host_rows
from tests.support.nodes import block_of, nodes
from tests.support.scan import scanned
from tests.support.topologies import vm_of


@given(nodes(), st.integers(0, 63), st.sampled_from(["lo", "cali1", "cni0"]))
def test_a_lookup_is_a_naive_scan(node: tuple[int, Snapshot], place: int, iif: str) -> None:
    """For each address of the block, the engine and the scan name the same route: for plain
    packets, and for those of a connection, or of a pod, from an address of the block.

    Kills: `not to`, `iif lo`, a mark rule that 0 fulfils, suppressed routes, throw.
    """
    family, snapshot = node
    fib = Fib(snapshot, family)
    block = block_of(family)
    source = block.first + place
    packet = PacketKind(Prefix.around(family, source, fib.width), iif)
    for address in range(block.first, block.last + 1):
        decision = fib.lookup(ip_at(family, address))
        event(decision.kind)
        assert (decision.kind, decision.route) == scanned(snapshot, family, address)
        decision = fib.lookup(ip_at(family, address), packet)
        of_these = scanned(snapshot, family, address, source=source, iif=iif)
        assert (decision.kind, decision.route) == of_these


@given(nodes())
def test_cells_are_a_partition_of_the_block(node: tuple[int, Snapshot]) -> None:
    """A cell begins where a prefix begins or ends, and nowhere else, and each address has the
    outcomes of all cells with the same sight.
    """
    family, snapshot = node
    fib = Fib(snapshot, family)
    block = block_of(family)
    inside = range(block.first + 1, block.last + 1)
    borders = sorted(border for border in borders_of(fib) if border in inside)

    cells = list(fib.cells(block.first, block.last))

    assert [cell.first for cell in cells] == [block.first, *borders]
    assert [cell.last for cell in cells] == [*(border - 1 for border in borders), block.last]
    by_sight: dict[tuple[int, ...], object] = {}
    for cell in cells:
        for address in range(cell.first, cell.last + 1):
            outcomes = fib.outcomes(address)
            assert by_sight.setdefault(cell.sight, outcomes) == outcomes


def test_a_route_to_the_last_address_of_a_block() -> None:
    """It is a cell of its own."""
    block = Prefix.parse("10.9.0.0/24")
    host = vm_of("10.9.0.255/32 dev eth1")
    cells = [(cell.first, cell.last) for cell in Fib(host, 4).cells(block.first, block.last)]
    assert cells == [(block.first, block.last - 1), (block.last, block.last)]


def borders_of(fib: Fib) -> set[int]:
    """Where a prefix begins that may decide, and what follows its end."""
    tables = {rule.table for rule in fib.rules if rule.action == "to_table"}
    of_routes = [route.prefix for route in fib.snapshot.routes if route.table in tables]
    of_rules = [rule.dst for rule in fib.rules if rule.dst is not None]
    borders: set[int] = set()
    for prefix in of_routes + of_rules:
        borders.add(prefix.first)
        borders.add(prefix.last + 1)
    return borders


@given(nodes())
def test_no_end_of_a_packet_is_missed(node: tuple[int, Snapshot]) -> None:
    """A packet that meets the conditions of some rules, and of no others, ends as the plain one or
    at a listed end.
    """
    family, snapshot = node
    fib = Fib(snapshot, family)
    block = block_of(family)
    conditional = [rule for rule in fib.rules if conditions_of(rule) != NO_CONDITIONS]
    assume(conditional)
    for met in conditional:
        for address in (block.first, block.last):
            plain, others = fib.outcomes(address)
            ends = [plain, *(other.decision for other in others)]
            assert end_of_met(fib, met, address) in ends


def conditions_of(rule: Rule) -> tuple[object, ...]:
    """What a rule selects packets by, other than their destination."""
    return rule.src, rule.iif, rule.fwmark, rule.fwmask, rule.others


NO_CONDITIONS = (None, None, 0, 0, ())


def end_of_met(fib: Fib, met: Rule, address: int) -> Decision:
    """Where a packet ends that meets this rule's conditions, and is plain in all else: as the plain
    packet does if each rule with these conditions is without them.
    """
    rules: list[Rule] = []
    replaced: dict[int, Rule] = {}
    for rule in fib.rules:
        if conditions_of(rule) == conditions_of(met):
            bare = rule._replace(src=None, iif=None, fwmark=0, fwmask=0, others=())
            replaced[id(bare)] = rule
            rules.append(bare)
        else:
            rules.append(rule)
    other = Fib(fib.snapshot, fib.family)
    other.rules = tuple(rules)
    decision, _ = other.outcomes(address)
    original = replaced.get(id(decision.rule), decision.rule)
    return decision._replace(rule=original)


def test_the_other_family() -> None:
    """A family has its own engine: an address of the other one is refused, and so is one that was
    not read.
    """
    of_ipv4 = plain_vm().snapshot(family=4)
    of_both = plain_vm().snapshot()
    fib = Fib(of_ipv4, 4)
    with pytest.raises(ValueError, match="::1 is not an IPv4 address"):
        fib.lookup(ip_address("::1"))
    with pytest.raises(ValueError, match="::1 is not an IPv4 address"):
        list(trace_rules(fib, "::1"))
    with pytest.raises(ValueError, match="the snapshot has no IPv6"):
        Fib(of_ipv4, 6)
    with pytest.raises(ValueError, match="the snapshot has no IPv5"):
        Fib(of_both, 5)


def test_ipv4_without_the_rule_for_table_main() -> None:
    """Linux follows the rule that is left. Only in IPv6 may it use the table all the same."""
    fib = Fib(plain_vm().snapshot()._replace(rules=default_rules(4)[:1]), 4)
    assert fib.lookup("8.8.8.8") == NO_ROUTE
    assert str(NO_ROUTE) == "no-route"
    assert not fib.lacks_main


@pytest.mark.parametrize("rules", [default_rules(6)[:1], ()], ids=["only local", "none"])
def test_ipv6_without_the_rule_for_table_main(rules: tuple[Rule, ...]) -> None:
    """Until a rule is added, Linux uses both tables all the same, unless it is without IPv6."""
    host = plain_vm().snapshot()
    of_ipv4 = tuple(rule for rule in host.rules if rule.family == 4)
    default = Route.to("::/0", dev="eth0", gateway="fe80::1")
    fib = Fib(host._replace(rules=(*of_ipv4, *rules), routes=(default,)), 6)
    assert fib.lookup("2001:db9::1").route == default
    assert fib.lacks_main
    assert not Fib(host._replace(rules=of_ipv4, routes=()), 6).lacks_main


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(Rule(family=4, priority=0, action="nop"), id="it does nothing"),
        pytest.param(Rule(4, 9, "unreachable", l3mdev=True), id="it is for packets in a VRF"),
    ],
)
def test_a_rule_that_is_passed_over(rule: Rule) -> None:
    """A lookup goes on to the next rule."""
    host = plain_vm().snapshot()

    decision = Fib(host._replace(rules=(rule, *host.rules)), 4).lookup("8.8.8.8")

    assert decision.devs == ("eth0",)
    assert decision == Fib(host, 4).lookup("8.8.8.8")
    assert str(decision) == str(decision.route)


def test_rules_of_one_priority() -> None:
    """They are asked in the order in which they were added, which is that of the list."""
    host = vm_with_table_7(Rule(family=4, priority=9, table=7))
    added_first = Rule(family=4, priority=9, table=TABLE_MAIN)
    fib = Fib(host._replace(rules=(added_first, *host.rules)), 4)
    assert fib.lookup("8.8.8.8").rule == added_first


def test_rules_by_source() -> None:
    """They are asked in the order of their priorities, and not the one for the longest prefix
    first.
    """
    wider_first = "rule pref 8 from 10.0.0.0/8 lookup 254; rule pref 9 from 10.0.0.4/32 lookup 7"
    fib = Fib(vm_of(f"default dev eth1 table 7; {wider_first}"), 4)
    assert fib.lookup("8.8.8.8", KINDS["of a connection"]).devs == ("eth0",)


SOURCE = Prefix.parse("10.0.0.4/32")
KINDS = {
    "sent": PacketKind(),
    "of a connection": PacketKind(SOURCE),
    "forwarded": PacketKind(SOURCE, "eth1"),
}


@pytest.mark.parametrize(
    ("selector", "kinds"),
    [
        ("fwmark 1/1", ["sent", "of a connection", "forwarded"]),
        ("uidrange 1000-1999", ["sent", "of a connection"]),  # what is forwarded is of user 0
        ("oif eth1", ["sent"]),
        ("iif eth1", ["sent"]),  # what arrives; of what is forwarded, it selects all
    ],
)
def test_which_packets_a_rule_tells_apart(selector: str, kinds: list[str]) -> None:
    """The kinds of which it selects some packets and not others. One behind it with the same
    selector changes nothing.
    """
    rules = f"rule pref 8 {selector} lookup 7; rule pref 9 {selector} lookup 254"
    fib = Fib(vm_of(f"default dev eth1 table 7; {rules}"), 4)
    first, *_ = [rule for rule in fib.rules if rule.priority == 8]
    told_apart = {name: [first] if name in kinds else [] for name in KINDS}
    assert {name: rules_of_others(fib, packet) for name, packet in KINDS.items()} == told_apart


def vm_with_table_7(rule: Rule) -> Snapshot:
    """A plain VM with this rule before its own. Table 7 leads everything to eth1."""
    host = vm_of("default dev eth1 table 7")
    return host._replace(rules=(rule, *host.rules))


def rules_of_others(fib: Fib, packet: PacketKind) -> list[Rule]:
    """The rules that tell some packets of this kind to 8.8.8.8 from the plain one."""
    _, others = fib.outcomes(0x08080808, packet)
    return [other.rule for other in others]


def test_all_that_this_host_sends_is_captured_first() -> None:
    """Packets that the rule before leaves have the decision of `iif lo`, and not of a later rule,
    which has what arrives. A connection of this host has nothing that arrives.
    """
    unmarked = Rule(family=4, priority=8, table=7, fwmark=1, fwmask=0xFF, invert=True)
    sent = Rule(family=4, priority=9, table=254, iif="lo")
    marked = Rule(family=4, priority=10, table=7, fwmark=2, fwmask=0xFF)
    everything = Rule(family=4, priority=11, table=7)
    host = vm_with_table_7(unmarked)
    fib = Fib(host._replace(rules=(unmarked, sent, marked, everything)), 4)

    _, others = fib.outcomes(0x08080808)

    assert {other.rule: other.decision.devs for other in others} == {
        marked: ("eth1",),
        unmarked: ("eth0",),
    }
    assert rules_of_others(fib, KINDS["of a connection"]) == [unmarked]


def test_a_rule_for_all_packets_to_other_addresses() -> None:
    """`not iif lo to 9.9.9.9` selects all packets to 8.8.8.8, also those that arrive on a device:
    no rule behind it is asked.
    """
    host = vm_with_table_7(Rule(family=4, priority=9, table=7, iif="eth1"))
    to_others = Rule(4, 8, table=7, invert=True, iif="lo", dst=Prefix.parse("9.9.9.9/32"))
    fib = Fib(host._replace(rules=(to_others, *host.rules)), 4)
    assert fib.lookup("8.8.8.8").rule == to_others
    assert rules_of_others(fib, PacketKind()) == []


@host_rows("""
a rule that refuses packets decides; Linux suppresses no refusal
  prohibit  | rule pref 9 prohibit
  blackhole | blackhole default table 8; rule pref 9 lookup 8 suppress 0
a rule with two selectors selects only packets that meet both; the plain one has user 0
+ default dev eth1 table 7
  eth1 | rule pref 9 uidrange 0-0 lookup 7
  eth0 | rule pref 9 uidrange 1-9 lookup 7
  eth0 | rule pref 9 fwmark 1/1 uidrange 0-0 lookup 7
  eth0 | rule pref 9 from 0.0.0.0/8 iif eth1 lookup 7
a route is used as long as one of its next hops is not dead, and leads to those alone
+ 10.9.0.0/16 dev wider
  eth0 eth1 | 10.9.0.0/24 nexthop dev eth0 nexthop dev eth1
  eth1      | 10.9.0.0/24 nexthop dev eth0 dead nexthop dev eth1
  eth0      | 10.9.0.0/24 nexthop dev eth0 nexthop dev eth1 dead
  wider     | 10.9.0.0/24 nexthop dev eth0 dead nexthop dev eth1 dead
  wider     | 10.9.0.0/24 dev eth0 dead
  eth0      | 10.9.0.0/24 dev eth0 linkdown
Linux lists what has expired until its next clean-up, and does not use it
+ 10.9.0.0/16 dev wider
  wider  | 10.9.0.0/24 dev narrow expired
  narrow | 10.9.0.0/24 dev narrow expires
  narrow | 10.9.0.0/24 dev narrow
plain packets have no type of service
  wider | 10.9.0.0/16 dev wider; 10.9.0.0/24 dev narrow tos 16
""")
def test_what_becomes_of_a_packet(row: HostRow) -> None:
    """The devices by which 10.9.0.1 leaves, or what refuses it."""
    decision = Fib(vm_of(row.host), 4).lookup("10.9.0.1")
    assert (" ".join(decision.devs) or decision.kind) == row.answer


def test_equal_default_routes_of_another_type() -> None:
    """Linux goes over only to those of type unicast, and not to one with a worse metric."""
    equal = "default via 10.0.0.1 dev eth1 metric 100"
    others = "multicast default via 10.0.0.1 dev ib0 metric 100; default via 10.0.0.1 dev eth2"
    fib = Fib(vm_of(f"{equal}; {others} metric 9999"), 4)
    assert fib.possible_devs(fib.lookup("8.8.8.8")) == ("eth0", "eth1")


def test_equal_default_routes_of_another_preference() -> None:
    """As one with a worse metric: a router that calls itself the second choice is no rival."""
    first = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024)
    equal = Route.to("::/0", dev="eth1", gateway="fe80::1", metric=1024)
    second_choice = Route.to("::/0", dev="eth2", gateway="fe80::1", metric=1024)
    routes = [first, equal, second_choice._replace(preference="low")]
    fib = Fib(plain_vm().snapshot().with_routes(routes), 6)
    assert fib.possible_devs(fib.lookup("2001:db8::1")) == ("eth0", "eth1")


def test_routes_to_a_prefix() -> None:
    """Those that are for any source: one that is for some says nothing about plain packets."""
    anywhere = Prefix.parse("::/0")
    by_eth1 = Route.to("::/0", dev="eth1")._replace(source=Prefix.parse("fd00::/64"))
    by_eth0 = Route.to("::/0", dev="eth0", metric=2048)
    host = plain_vm().snapshot().with_routes([by_eth1, by_eth0])
    fib = Fib(host, 6)
    assert fib.tables[TABLE_MAIN].routes_to(anywhere) == [by_eth0]
    assert {*fib.routes} - {*fib.without_routes([by_eth1]).routes} == {by_eth1}


def test_the_tables_of_plain_packets() -> None:
    """Not one that only a rule for marked packets looks up."""
    marked = Rule(4, 100, table=100, fwmark=1, fwmask=1)
    fib = Fib(plain_vm().snapshot().with_rules([marked]), 4)
    assert fib.tables_for_plain == {255, 254, 253}
