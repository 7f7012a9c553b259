"""hostrouting.fib.engine: the fast path gives the same result as single cells."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from unittest.mock import patch

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostrouting.check.overlap import Judge, check_overlap
from hostrouting.fib.decision import Cell
from hostrouting.fib.engine import Fib, joined
from hostrouting.fib.packet import ANY, Flow
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import TABLE_MAIN, NextHop, Route
from hostrouting.model.rule import Rule, by_priority, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from tests.support.examples import scaled
from tests.support.strategies import blocks, prefixes, snapshots
from tests.support.topologies import plain

BLOCK = blocks()
TABLES = (TABLE_MAIN, 100)
DEVS = ("eth0", "eth1")
WAYS = st.sampled_from(
    [(NextHop("eth0"),), (NextHop("eth0", gateway=as_ip("fe80::1")),)] * 4
    + [(NextHop("eth1"), NextHop("eth0")), (NextHop("eth0", dead=True),)]
)


def cell_by_cell(fib: Fib, prefixes: Iterable[Prefix], _: object, flow: Flow = ANY) -> Iterator[list[Cell]]:
    """The slow path instead of the fast one."""
    return (fib.cells(prefix, flow) for prefix in prefixes)


@st.composite
def healthy(draw: st.DrawFn, block: Prefix) -> Snapshot:
    """A host whose routes mostly leave by eth0 or eth1; some are arbitrary."""
    whole = draw(snapshots(block, max_rules=draw(st.sampled_from([0, 0, 1, 3]))))
    odd = draw(st.sets(st.integers(0, len(whole.routes)), max_size=3))
    routes = [
        route if at in odd else attrs.evolve(route, type="unicast", tos=0, legs=draw(WAYS))
        for at, route in enumerate(whole.routes)
    ]
    family, main = block.family, draw(st.sampled_from([TABLE_MAIN, 100]))
    ways = [Route.to(Prefix(family, 0, 0), dev="eth0", table=table) for table in draw(st.sets(st.sampled_from(TABLES)))]
    # Rules that select only on the destination.
    more: tuple[list[Rule], ...] = (
        [],
        [Rule(family=family, priority=100, dst=draw(prefixes(block)), table=main)],
        [Rule(family=family, priority=100, suppress_prefixlength=draw(st.integers(0, block.length + 2)), table=main)],
    )
    rules = by_priority([*whole.rules, *draw(st.sampled_from(more))])
    forwards = draw(st.booleans())  # if not, Linux may skip a route in IPv6 whose gateway cannot be reached
    return attrs.evolve(whole, rules=rules, routes=(*routes, *ways), ipv6_forwarding=forwards)


SIXTEEN = st.builds(
    lambda low, length: Prefix.around(4, 0x0A000000 + low, length), st.integers(0, 15), st.integers(27, 32)
)
LEGS = [(NextHop("eth0"),)] * 2 + [
    (NextHop("ib0"),),
    (NextHop("eth0", dead=True),),
    (NextHop("eth0", linkdown=True),),
    (NextHop("eth0"), NextHop("ib0")),
]


DEAD = Route(Prefix.parse("10.0.0.0/28"), (NextHop("eth0", dead=True),))
DEFAULT, KEPT = Route.to("0.0.0.0/0", dev="eth0"), Route.to(DEAD.prefix, dev="ib0", table=100)
SOME = attrs.evolve(DEAD, legs=DEFAULT.legs, tos=0x10)
KEEPING = Rule(family=4, priority=100, suppress_prefixlength=0, table=100)


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """A host with few routes that share the same few addresses, so that their edges coincide."""
    way, tos, tables = st.sampled_from(LEGS), st.sampled_from([0, 0, 0, 0x10]), st.sampled_from(TABLES)
    some = st.builds(
        lambda prefix, legs, tos, table: Route(prefix, legs, tos=tos, table=table), SIXTEEN, way, tos, tables
    )
    defaults = [(), *((Route.to("0.0.0.0/0", dev=dev),) for dev in ("eth0", "ib0"))]
    rules: tuple[tuple[Rule, ...], ...] = (
        (),
        (Rule(family=4, priority=100, dst=draw(SIXTEEN), table=draw(tables)),),
        (Rule(family=4, priority=100, action="prohibit", dst=draw(SIXTEEN)),),
        (Rule(family=4, priority=100, suppress_prefixlength=draw(st.integers(0, 32)), table=draw(tables)),),
    )
    links = tuple(
        Link(name=name, index=at, ignore_routes_with_linkdown=draw(st.booleans()))
        for at, name in enumerate(("eth0", "ib0"), 1)
    )
    return Snapshot(
        links=links,
        rules=by_priority([*default_rules(4), *draw(st.sampled_from(rules))]),
        routes=(*draw(st.sampled_from(defaults)), *draw(st.lists(some, min_size=1, max_size=3))),
    )


class TestInBulk:
    """A check gives the same result with and without the fast path."""

    @given(data=st.data(), block=BLOCK)
    def test_a_check_is_the_same(self, data: st.DataObject, block: Prefix) -> None:
        """Findings, notes and kept ranges are those found cell by cell."""
        fib = Fib(data.draw(healthy(block)))
        cidrs = data.draw(st.lists(prefixes(block, wider=True), min_size=1, max_size=4))
        report = check_overlap(fib, cidrs, expected_devs=DEVS, allowed_devs=["wg*"])
        with patch.object(Fib, "doubtful_cells", cell_by_cell):
            assert report == check_overlap(fib, cidrs, expected_devs=DEVS, allowed_devs=["wg*"])

    @example(Snapshot(rules=default_rules(4), routes=(DEAD,)), [DEAD.prefix])
    @example(Snapshot(rules=default_rules(4), routes=(SOME,)), [SOME.prefix])
    @example(Snapshot(rules=by_priority([*default_rules(4), KEEPING]), routes=(DEFAULT, KEPT)), [KEPT.prefix])
    @given(snapshot=crowded(), cidrs=st.lists(SIXTEEN, min_size=1, max_size=2))
    @settings(max_examples=scaled(300))
    def test_a_check_is_the_same_where_edges_meet(self, snapshot: Snapshot, cidrs: list[Prefix]) -> None:
        """The same for a few routes that begin and end at the edges of the CIDRs.

        Kills: a dead route is in use; a route for a tos is for all packets; a rule that suppresses looks up nothing.
        """
        fib = Fib(snapshot)
        report = check_overlap(fib, cidrs, expected_devs=["eth0"])
        with patch.object(Fib, "doubtful_cells", cell_by_cell):
            assert report == check_overlap(fib, cidrs, expected_devs=["eth0"])

    @given(data=st.data(), family=st.sampled_from([4, 6]))
    def test_what_is_left_out(self, data: st.DataObject, family: int) -> None:
        """If no cell is listed, a unicast route by accepted devices decides, for any unknown fields and gateways."""
        block = data.draw(blocks(family))
        fib, judge = Fib(data.draw(healthy(block))), Judge(DEVS, ())
        flow = data.draw(st.sampled_from([ANY, Flow(mark=0), Flow(oif="eth0"), Flow(tos=0x10)]))
        within = data.draw(prefixes(block))
        (cells,) = fib.doubtful_cells([within], judge.likes, flow)
        told = {address: cell.decision for cell in cells for address in range(cell.first, cell.last + 1)}
        assert list(told) == sorted(told)
        for address in range(within.first, within.last + 1):
            decision = fib.lookup(ip_at(family, address), flow)
            assert told.get(address, decision) == decision
            if address not in told:
                for one in (decision, *(variant.decision for variant in decision.variants)):
                    assert one.kind == "unicast"
                    assert judge.likes(one.legs)

    def test_a_gateway_that_perhaps_cannot_be_reached(self) -> None:
        """Without forwarding, a range is left out if the route behind the first one is accepted, too."""
        near = Route.to("2001:db8::/32", dev="eth0", gateway="fe80::1")
        routes = (near, Route.to("::/0", dev="eth1", gateway="fe80::1"))
        fib = Fib(Snapshot(rules=default_rules(6), routes=routes, ipv6_forwarding=False))
        decision = fib.lookup("2001:db8::1")
        assert [variant.decision.devs for variant in decision.variants] == [("eth1",)]
        assert list(fib.doubtful_cells([near.prefix], Judge(DEVS, ()).likes)) == [[]]
        assert list(fib.doubtful_cells([near.prefix], Judge(("eth0",), ()).likes)) == [fib.cells(near.prefix)]

    def test_only_what_is_odd_is_looked_at(self) -> None:
        """Among many accepted routes, cells are only computed in the range of an odd one, not of that after the CIDR."""
        ours = [Route.to(f"30.0.{low}.0/24", dev="eth0", gateway="10.0.0.1") for low in range(256)]
        odd, after = Route.to("30.0.127.255/32", dev="ib0"), Route.to("30.1.0.0/32", dev="ib0")
        fib, judge = Fib(plain().with_routes([*ours, odd, after])), Judge(("eth0",), ())
        with patch.object(Judge, "likes", autospec=True) as likes:
            likes.side_effect = lambda _, legs: legs[0].dev == "eth0"
            cidrs = [Prefix.parse("30.0.0.0/17"), Prefix.parse("30.0.128.0/17")]
            found = list(fib.doubtful_cells(cidrs, judge.likes))
        assert [[(cell.first, cell.last, cell.decision.route) for cell in cells] for cells in found] == [
            [(odd.prefix.first, odd.prefix.last, odd)],
            [],
        ]

    def test_addresses_that_are_what_they_are(self) -> None:
        """Special addresses are never skipped."""
        fib = Fib(Snapshot(rules=plain().rules, routes=(Route.to("0.0.0.0/0", dev="eth0"),)))
        for text in ("0.0.0.0/0", "0.0.0.0/32", "224.0.0.0/4", "255.255.255.255/32"):
            (cells,) = fib.doubtful_cells([Prefix.parse(text)], Judge(("eth0",), ()).likes)
            assert cells == [cell for cell in fib.cells(Prefix.parse(text)) if cell.decision.kind != "unicast"]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2))))
def test_joined_ranges(pairs: list[tuple[int, int]]) -> None:
    """Joined ranges have the same addresses, in order, and no two of them touch."""
    spans = [(first, first + more) for first, more in pairs]
    found = joined(spans)
    assert {number for low, high in found for number in range(low, high + 1)} == {
        number for low, high in spans for number in range(low, high + 1)
    }
    assert all(one[1] + 1 < other[0] for one, other in pairwise(found))
