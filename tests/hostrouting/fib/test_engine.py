"""The engine of one pass says what a naive scan says, for every address; and its cells are a
partition.
"""

from ipaddress import ip_address

import pytest
from hypothesis import assume, event, given

from hostrouting.fib.engine import Fib, PacketKind
from hostrouting.fib.trace import trace_rules
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import TABLE_MAIN, NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import plain_vm
from tests.support.nodes import block_of, nodes
from tests.support.scan import scanned


@given(nodes())
def test_a_lookup_is_a_naive_scan(node: tuple[int, Snapshot]) -> None:
    """For each address of the block, the engine and the scan name the same route.

    Kills: `not to`, `iif lo`, a mark rule that 0 fulfils, suppressed routes, throw.
    """
    family, snapshot = node
    fib, block = Fib(snapshot, family), block_of(family)
    for address in range(block.first, block.last + 1):
        decision = fib.lookup(ip_at(family, address))
        kind, route = scanned(snapshot, family, address)
        event(kind)
        assert (decision.kind, decision.route) == (kind, route)


@given(nodes())
def test_cells_are_a_partition_of_the_block(node: tuple[int, Snapshot]) -> None:
    """A cell begins where a prefix begins or ends, and nowhere else, and each address has the
    outcomes of all cells with the same sight.
    """
    family, snapshot = node
    fib = Fib(snapshot, family)
    block = block_of(family)
    addresses = range(block.first, block.last + 1)
    borders = {block.first, *borders_of(fib)}

    cells = list(fib.cells(block.first, block.last))

    assert [cell.first for cell in cells] == [each for each in addresses if each in borders]
    ends = [cell.first - 1 for cell in cells[1:]]
    assert [cell.last for cell in cells] == [*ends, block.last]
    by_sight: dict[tuple[int, ...], object] = {}
    for cell in cells:
        for address in range(cell.first, cell.last + 1):
            outcomes = fib.outcomes(address)
            assert by_sight.setdefault(cell.sight, outcomes) == outcomes


def borders_of(fib: Fib) -> set[int]:
    """Where a prefix begins that may decide, and what follows its end."""
    tables = {rule.table for rule in fib.rules if rule.action == "to_table"}
    prefixes = [route.prefix for route in fib.snapshot.routes if route.table in tables]
    prefixes += [rule.dst for rule in fib.rules if rule.dst is not None]
    borders: set[int] = set()
    for prefix in prefixes:
        borders |= {prefix.first, prefix.last + 1}
    return borders


@given(nodes())
def test_no_end_of_a_packet_is_missed(node: tuple[int, Snapshot]) -> None:
    """A packet that meets the conditions of some rules, and of no others, ends as the plain one or
    at a listed end.
    """
    family, snapshot = node
    fib, block = Fib(snapshot, family), block_of(family)
    conditional = [rule for rule in fib.rules if rule.src or rule.fwmask or rule.iif or rule.others]
    assume(conditional)
    for met in conditional:
        for address in (block.first, block.last):
            plain, others = fib.outcomes(address)
            ends = [plain, *(end.decision for end in others)]
            assert end_of_met(fib, met, address) in ends


def end_of_met(fib: Fib, met: Rule, address: int) -> object:
    """Where a packet ends that meets this rule's conditions, and is plain in all else."""
    alike = (met.src, met.iif, met.fwmark, met.fwmask, met.others)
    rules = tuple(
        rule if (rule.src, rule.iif, rule.fwmark, rule.fwmask, rule.others) != alike else bare(rule)
        for rule in fib.rules
    )
    other = Fib(fib.snapshot, fib.family)
    other.rules = rules
    decision = other.outcomes(address)[0]
    back = {id(new): old for new, old in zip(rules, fib.rules, strict=True)}
    return decision if decision.rule is None else decision._replace(rule=back[id(decision.rule)])


def bare(rule: Rule) -> Rule:
    """The rule without its conditions, as a packet sees it that meets them."""
    return rule._replace(src=None, iif=None, fwmark=0, fwmask=0, others=())


def test_further_routes() -> None:
    """An engine with further routes decides like that of the host with these routes, in any table."""
    host = plain_vm().snapshot()
    host = host._replace(rules=(*host.rules, Rule(family=4, priority=9, table=7)))
    for more in (
        [Route.to("8.8.8.8/32", dev="eth1", table=table)] for table in (7, TABLE_MAIN, 99)
    ):
        shared, fresh = Fib(host, 4).with_routes(more), Fib(host.with_routes(more), 4)
        assert shared.borders == fresh.borders
        for address in (0, *fresh.borders[:-1]):
            assert shared.outcomes(address) == fresh.outcomes(address)


def test_the_other_family() -> None:
    """A family has its own engine: an address of the other one is refused, and so is one that was
    not read.
    """
    snapshot = plain_vm().snapshot(family=4)
    with pytest.raises(ValueError, match="::1 is not an IPv4 address"):
        Fib(snapshot, 4).lookup(ip_address("::1"))
    with pytest.raises(ValueError, match="::1 is not an IPv4 address"):
        list(trace_rules(Fib(snapshot, 4), "::1"))
    with pytest.raises(ValueError, match="the snapshot has no IPv6"):
        Fib(snapshot, 6)
    with pytest.raises(ValueError, match="the snapshot has no IPv5"):
        Fib(plain_vm().snapshot(), 5)


def test_a_rule_that_does_nothing() -> None:
    """A lookup goes on to the next rule."""
    host = plain_vm().snapshot()
    also = host._replace(rules=(Rule(family=4, priority=0, action="nop"), *host.rules))
    address = ip_at(4, 0x08080808)
    assert Fib(also, 4).lookup(address) == Fib(host, 4).lookup(address)


def test_a_rule_for_users() -> None:
    """It selects some connections of this host, also those from a known source; but nothing that
    is forwarded, which is of user 0.
    """
    rule = Rule(family=4, priority=9, table=7, others=(("uidrange", "1000-1999"),))
    host = plain_vm().snapshot().with_routes([Route.to("0.0.0.0/0", dev="eth1", table=7)])
    fib = Fib(host._replace(rules=(rule, *host.rules)), 4)
    source, address = Prefix.parse("10.0.0.4/32"), 0x08080808
    for packet, selecting in (
        (PacketKind(), [rule]),
        (PacketKind(source), [rule]),
        (PacketKind(source, "eth1"), []),
    ):
        _, others = fib.outcomes(address, packet)
        assert [other.rule for other in others] == selecting, packet


@pytest.mark.parametrize(
    ("next_hops", "devs"),
    [
        ("eth0 eth1", ("eth0", "eth1")),
        ("eth0-dead eth1", ("eth1",)),
        ("eth0 eth1-dead", ("eth0",)),
        ("eth0-dead eth1-dead", ("wider",)),
        ("eth0-dead", ("wider",)),
    ],
)
def test_next_hops_that_are_dead(next_hops: str, devs: tuple[str, ...]) -> None:
    """A route is used as long as one of its next hops is not dead, and leads to those alone.

    Kills: the whole route is passed over.
    """
    hops = tuple(NextHop(hop[:4], dead=hop.endswith("dead")) for hop in next_hops.split())
    wider = Route.to("10.9.0.0/16", dev="wider")
    host = plain_vm().snapshot().with_routes([wider, Route(Prefix.parse("10.9.0.0/24"), hops)])
    assert Fib(host, 4).lookup("10.9.0.1").devs == devs


@pytest.mark.parametrize(("expired", "dev"), [(True, "wider"), (False, "narrow"), (None, "narrow")])
def test_a_route_that_has_expired(dev: str, *, expired: bool | None) -> None:
    """Linux lists it until its next clean-up, and does not use it.

    Kills: it is used as any other.
    """
    wider = Route.to("10.9.0.0/16", dev="wider")
    narrow = Route.to("10.9.0.0/24", dev="narrow")._replace(expired=expired)
    host = plain_vm().snapshot().with_routes([wider, narrow])
    assert Fib(host, 4).lookup("10.9.0.1").devs == (dev,)


def test_a_route_for_a_type_of_service() -> None:
    """Plain packets have none, so they take the wider route.

    Kills: it is used as any other.
    """
    wider = Route.to("10.9.0.0/16", dev="wider")
    narrow = Route.to("10.9.0.0/24", dev="narrow")._replace(tos=0x10)
    host = plain_vm().snapshot().with_routes([wider, narrow])
    assert Fib(host, 4).lookup("10.9.0.1").devs == ("wider",)


@pytest.mark.parametrize(("fwmask", "dev"), [(0x0F, "eth1"), (0xF0, "eth0")])
def test_a_mark_outside_its_mask(fwmask: int, dev: str) -> None:
    """Linux compares a mark only where the mask has a bit: of `fwmark 0x10/0xf` nothing is left,
    and the plain packet, whose mark is 0, meets it.

    Kills: the mark alone is compared with 0.
    """
    rule = Rule(family=4, priority=9, table=7, fwmark=0x10, fwmask=fwmask)
    host = plain_vm().snapshot().with_routes([Route.to("0.0.0.0/0", dev="eth1", table=7)])
    fib = Fib(host._replace(rules=(rule, *host.rules)), 4)
    assert fib.lookup("8.8.8.8").devs == (dev,)


def test_equal_default_routes_of_another_type() -> None:
    """Linux goes over only to those of type unicast."""
    host = plain_vm().snapshot()
    [default] = [route for route in host.routes if route.prefix.length == 0]
    hop = default.next_hops[0]
    equal = default._replace(next_hops=(hop._replace(dev="eth1"),))
    of_another_type = default._replace(next_hops=(hop._replace(dev="ib0"),), type="multicast")
    fib = Fib(host.with_routes([equal, of_another_type]), 4)
    assert fib.possible_devs(fib.lookup("8.8.8.8")) == ("eth0", "eth1")
