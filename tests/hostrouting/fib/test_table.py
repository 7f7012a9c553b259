"""hostrouting.fib.table: one column of a table, and the longest prefixes of a range, by brute force; and which routes a bound socket can use."""

from collections import Counter
from itertools import groupby

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.fib.table import BITS, Ordered
from hostrouting.fib.table_ipv4 import TableIPv4
from hostrouting.fib.table_ipv6 import TableIPv6
from hostrouting.model.prefix import Prefix, as_ip, width_of
from hostrouting.model.route import NextHop, Route
from hostrouting.model.route_table import RouteTable
from hostrouting.model.rule import default_rules
from hostrouting.model.snapshot import Snapshot
from tests.support.examples import scaled

# Prefixes of sixteen addresses and around them, so that they begin and end at the same places; and default routes.
BASE = {4: 0x0A000000, 6: 0x20010DB8 << 96}


def near(family: int) -> st.SearchStrategy[Prefix]:
    """A prefix that has one of the sixteen addresses."""
    width = width_of(family)
    lengths = st.sampled_from([0, 1, 8, *range(width - 5, width + 1)])
    return st.builds(lambda low, length: Prefix.around(family, BASE[family] + low, length), st.integers(0, 15), lengths)


@given(st.data(), st.sampled_from([4, 6]))
@settings(max_examples=scaled(200))
def test_law_a_column_equals_its_prefixes(data: st.DataObject, family: int) -> None:
    """What lies inside a prefix, around an address, or covers a range is what a scan of all prefixes finds."""
    prefixes = data.draw(st.lists(near(family), min_size=1, max_size=6))
    [column] = RouteTable.of([Route(prefix, (NextHop("eth0"),)) for prefix in prefixes]).columns
    ordered, asked = Ordered(column, width_of(family)), data.draw(near(family))
    everywhere = list(enumerate(prefixes))
    its = [at for at, prefix in everywhere if prefix == asked]
    assert ordered.of(asked.network, asked.length) == its
    within = [at for at, prefix in everywhere if asked.first <= prefix.first and prefix.last <= asked.last]
    assert sorted(ordered.inside(asked)) == within
    high = BASE[family] + data.draw(st.integers(-1, 17))
    for low in range(BASE[family] - 1, BASE[family] + 18):
        around = Counter(prefix.first for prefix in prefixes if prefix.first < low <= prefix.last)
        assert Counter(ordered.networks[at] for at in ordered.around(low)) == around
        if low <= high:
            is_covered = any(prefix.first <= low and high <= prefix.last for prefix in prefixes)
            assert ordered.covers(low, high) == is_covered


@given(st.data(), st.sampled_from([4, 6]))
@settings(max_examples=scaled(200))
def test_law_runs_are_of_one_longest_prefix(data: st.DataObject, family: int) -> None:
    """A range is cut where the longest prefix around an address changes, and only there."""
    # Of two that begin at the same address, both often end in the range.
    nested = [Prefix(family, BASE[family], width_of(family) - bits) for bits in (2, 1)]
    prefixes = data.draw(st.lists(near(family), max_size=6)) + nested * data.draw(st.booleans())
    routes = [Route(prefix, (NextHop("eth0"),), table=data.draw(st.sampled_from([254, 255]))) for prefix in prefixes]
    found = RouteTable.of(routes)
    table = TableIPv4(found, frozenset()) if family == 4 else TableIPv6(found, frozenset(), forwarding=True)
    for column in found.columns:
        table.add(column)

    def longest(address: int) -> int:
        around = [prefix for prefix in prefixes if prefix.first <= address <= prefix.last]
        return max((prefix.network << BITS | prefix.length for prefix in around), key=lambda key: key & 255, default=-1)

    high = BASE[family] + data.draw(st.integers(-1, 17))
    for low in range(BASE[family] - 1, high + 1):
        runs = [(next(its), key) for key, its in groupby(range(low, high + 1), longest)]
        assert list(table.runs(low, high)) == runs


@pytest.mark.parametrize(
    ("destination", "route", "taken"),
    [
        ("10.0.0.9", Route.to("10.0.0.0/16", type="blackhole"), "10.0.0.0/16"),
        ("10.0.0.9", Route.to("10.0.0.0/16", dev="ib0"), "10.0.0.0/8"),
        ("10.0.0.9", attrs.evolve(Route.to("10.0.0.0/16", dev="ib0"), nexthop_id=5), "0.0.0.0/0"),
        ("2001:db8::9", Route.to("2001:db8::/32", type="blackhole"), "::/0"),
        ("2001:db8::9", attrs.evolve(Route.to("2001:db8::/32", type="blackhole"), nexthop_id=5), "2001:db8::/32"),
        ("2001:db8::9", attrs.evolve(Route.to("2001:db8::/32", dev="ib0"), nexthop_id=5), "::/0"),
    ],
    ids=str,
)
def test_a_bound_socket(destination: str, route: Route, taken: str) -> None:
    """A route by another device is skipped; in IPv4, one with a nexthop object hides shorter ones of its network, too."""
    others = (Route.to(prefix, dev="eth0") for prefix in ("0.0.0.0/0", "10.0.0.0/8", "::/0"))
    fib = Fib(Snapshot(rules=(*default_rules(4), *default_rules(6)), routes=(*others, route)))
    found = fib.lookup(as_ip(destination), attrs.evolve(PLAIN, oif="eth0")).route
    assert found is not None
    assert found.prefix == Prefix.parse(taken)
