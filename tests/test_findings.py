"""hostrouting.finding: a finding in words, in order, and as JSON."""

from hostrouting.finding import Finding, worst_first
from hostrouting.text import first_of
from phases.step import as_data


def test_a_finding_in_words() -> None:
    """The sentence, then the remedy; the pages of tests/hostrouting/cli show lines and JSON."""
    finding = Finding("no-route", "error", "it is lost", "10.0.0.0/8", "add a route", {"family": 4}, can_retry=True)
    assert (str(finding), str(finding._replace(remedy=""))) == ("it is lost; add a route", "it is lost")
    assert as_data([finding]) == [finding.to_mapping()]  # in the report of a run


def test_the_order_of_findings() -> None:
    """Each once, the worst first, otherwise in the order in which they were found."""
    error, warning, note = (Finding("lock", it, it) for it in ("error", "warning", "note"))
    other = Finding("gate-open", "error", "another")
    assert worst_first([note, warning, error, other, error]) == (error, other, warning, note)


def test_many_findings() -> None:
    """Of many, the first ones are shown, and the last text counts the others."""
    assert first_of([*map(str, range(25))], 20) == [*map(str, range(20)), "and 5 more"]
    assert first_of(["a", "b"], 2) == ["a", "b"]
