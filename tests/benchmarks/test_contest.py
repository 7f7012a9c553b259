"""tests.benchmarks.contest: the arithmetic of contests."""

import statistics

from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.contest import Comparison, Contest, Goal, comparisons, ratio

SECONDS = st.floats(1e-6, 1e3)
ROUNDS = st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=9)


@given(ROUNDS)
def test_a_ratio_is_of_the_same_round(rounds: list[tuple[float, float]]) -> None:
    """The median, the least and the most are of the rounds' own ratios, so that a slow round is slow for both."""
    ours, theirs = zip(*rounds, strict=True)
    found = ratio(ours, theirs)
    each = sorted(mine / other for mine, other in rounds)
    assert (found.least, found.median, found.most) == (each[0], statistics.median(each), each[-1])


CONTEST = Contest(
    "read",
    {"ours": [1.0, 3.0, 2.0], "C": [1.0, 2.0, 2.0], "ip": [9.0, 9.0, 9.0], "index": [4.0, 4.0, 4.0]},
    (Goal("ours", 1.25, "C"), Goal("index", 3.5)),
)


def test_each_goal_is_one_comparison_and_each_other_method_stands_beside_the_first() -> None:
    """What no goal names is compared with the first method, without a goal."""
    found = list(comparisons(CONTEST))
    assert [(it.method, it.against, it.limit) for it in found] == [
        ("ours", "C", 1.25),
        ("index", None, 3.5),
        ("ours", "ip", None),
    ]


def test_a_goal_is_met_by_the_median() -> None:
    """The median of the ratios, or of the values themselves, is at most the limit; without a goal nothing is met."""
    against, alone, other = comparisons(CONTEST)
    assert (against.ratio and against.ratio.median, against.met) == (1.0, True)
    assert (alone.median, alone.met) == (4.0, False)
    assert other.met is None


def test_the_limit_itself_meets_the_goal() -> None:
    """At most means that, too."""
    assert Comparison("memory", "MB", "ours", 120.0, limit=120.0).met
    assert Comparison("memory", "MB", "ours", 120.1, limit=120.0).met is False


def test_a_method_without_peer_and_goal_is_told_all_the_same() -> None:
    """A contest of one has one comparison."""
    assert list(comparisons(Contest("start", {"ours": [2.0]}))) == [Comparison("start", "s", "ours", 2.0)]
