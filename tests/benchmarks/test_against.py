"""tests.benchmarks.against: the rows of two commits, compared."""

from tests.benchmarks.against import compared_lines


def test_what_became_slower_comes_first() -> None:
    """A row that takes a tenth longer is marked; what only one of the commits has is named, and not compared."""
    before = {("read", "ours"): 1.0, ("read", "C"): 2.0, ("read", "old"): 1.0, ("plan", "ours"): 2.0}
    now = {("plan", "ours"): 1.0, ("read", "C"): 2.1, ("read", "ours"): 1.1, ("read", "new"): 1.0}
    assert list(compared_lines(before, now)) == [
        "  1.10 × slower read: ours",
        "  1.05 ×        read: C",
        "  0.50 × faster plan: ours",
        "only now: read: new",
        "only before: read: old",
    ]
