"""hostrouting.finding: a finding in words, in order, and as JSON."""

from hostrouting.finding import Finding, worst_first
from hostrouting.text import first_of
from phases.step import as_data


class TestFinding:
    """A finding in words, in order, and as JSON."""

    def test_words(self) -> None:
        """The sentence, then the remedy; a line begins with the name."""
        finding = Finding("no-route", "error", "it is lost", "10.0.0.0/8", "add a route", {"family": 4}, can_retry=True)
        assert str(finding) == "it is lost; add a route"
        assert finding.line == "NO-ROUTE: it is lost; add a route"
        assert str(Finding("lock", "note", "it is held")) == "it is held"
        assert finding.to_mapping() == {
            "name": "no-route",
            "severity": "error",
            "target": "10.0.0.0/8",
            "sentence": "it is lost",
            "remedy": "add a route",
            "facts": {"family": 4},
            "canRetry": True,
        }
        assert as_data([finding]) == [finding.to_mapping()]  # in the report of a run

    def test_order(self) -> None:
        """Each once, the worst first, otherwise in the order in which they were found."""
        error, warning, note = (Finding("lock", it, it) for it in ("error", "warning", "note"))
        other = Finding("gate-open", "error", "another")
        assert worst_first([note, warning, error, other, error]) == (error, other, warning, note)

    def test_many(self) -> None:
        """Of many, the first ones are shown, and the last text counts the others."""
        assert first_of([*map(str, range(25))], 20) == [*map(str, range(20)), "and 5 more"]
        assert first_of(["a", "b"], 2) == ["a", "b"]
