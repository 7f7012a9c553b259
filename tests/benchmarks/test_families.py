"""tests.benchmarks.families: the same work in both families, and one beside the other."""

from functools import partial

from hostrouting.model.prefix import IPV4, IPV6, Prefix
from tests.benchmarks.contest import Contest, Goal, comparisons
from tests.benchmarks.families import by_family, families_in_turn
from tests.benchmarks.peers import Method
from tests.benchmarks.workload import cidrs_among, equal_routes, in_family, mixed_routes

WORK = Contest("read", {}, (Goal("ours", 2.5, "C"),), panel="read", size=10)
TIMES = {IPV4: {"ours": [2.0, 4.0], "C": [1.0, 2.0]}, IPV6: {"ours": [3.0, 4.0], "C": [1.0, 3.0]}}


def test_both_families_do_the_same_in_turn() -> None:
    """Each method does the work of one family and then that of the other, in every round."""
    done: list[tuple[int, str]] = []

    def methods(family: int) -> dict[str, Method]:
        return {name: partial(done.append, (family, name)) for name in ("ours", "C")}

    times = families_in_turn(methods, rounds=2)
    assert done == [(4, "ours"), (6, "ours"), (4, "C"), (6, "C")] * 3
    assert {family: {name: len(its) for name, its in of.items()} for family, of in times.items()} == {
        4: {"ours": 2, "C": 2},
        6: {"ours": 2, "C": 2},
    }


def test_each_family_is_a_contest_and_their_ratio_is_another() -> None:
    """Both have the goals of the work. What is ours has a goal beside IPv4; a peer only shows what the kernel takes."""
    ipv4, ipv6, beside = by_family(WORK, TIMES)
    assert [it.work for it in (ipv4, ipv6, beside)] == ["read", "read, IPv6", "read, IPv6 beside IPv4"]
    assert (ipv4.values, ipv6.values) == (TIMES[IPV4], TIMES[IPV6])
    assert ipv4.goals == ipv6.goals == WORK.goals
    assert [it.panel for it in (ipv4, ipv6, beside)] == ["read", "", ""]
    found = [
        (comparison.method, comparison.against, comparison.ratio and comparison.ratio.median, comparison.limit)
        for comparison in comparisons(beside)
    ]
    assert found == [("ours, IPv6", "ours, IPv4", 1.25, 1.5), ("C, IPv6", "C, IPv4", 1.25, None)]


def test_the_routes_of_both_families_are_the_same_tree() -> None:
    """Behind fd00::/32 the same bits follow, so that prefixes are inside each other in both families."""
    assert in_family(Prefix.parse("10.1.0.0/16"), IPV6) == Prefix.parse("fd00:0:a01::/48")
    for routes in (equal_routes, mixed_routes):
        ipv4, ipv6 = ([route.prefix for route in routes(50, family=family)] for family in (IPV4, IPV6))
        assert [in_family(prefix, IPV6) for prefix in ipv4] == ipv6
    assert all(cidr.family == IPV4 for cidr in cidrs_among(100))
