"""hostrouting.finding: findings in order, and as JSON; tests/hostrouting/cli shows their lines."""

from hostrouting.finding import Finding, worst_first
from hostrouting.text import first_of
from phases.values import as_data


def test_the_order_of_findings() -> None:
    """Each once, the worst first, otherwise in the order in which they were found."""
    error, warning, note = (Finding("lock", it, it) for it in ("error", "warning", "note"))
    other = Finding("gate-open", "error", "another")
    assert worst_first([note, warning, error, other, error]) == (error, other, warning, note)
    assert as_data([error]) == [error.to_mapping()]  # in the report of a run


def test_many_findings() -> None:
    """Of many, the first ones are shown, and the last text counts the others."""
    assert first_of([*map(str, range(25))], 20) == [*map(str, range(20)), "and 5 more"]
    assert first_of(["a", "b"], 2) == ["a", "b"]
