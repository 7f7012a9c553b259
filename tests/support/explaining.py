"""What the output says under a failed test, beside the comparison that failed: what the last check
has said.

A comparison of two words, such as "ok" and "undecided", does not show where they come from.
"""

from collections.abc import Iterator

from hostrouting.check.results import CheckReport
from hostrouting.check.sentences import check_findings

_last: list[CheckReport] = []


def remember(report: CheckReport) -> None:
    """The last check of the test that runs; its sentences are made only if the test fails."""
    _last[:] = [report]


def forget() -> None:
    """Another test begins."""
    _last.clear()


def explanations() -> list[tuple[str, str]]:
    """The section of the output below a failed test, if it has checked a host."""
    sections: list[tuple[str, str]] = []
    for report in _last:
        try:
            text = "\n".join(explained(report))
        except Exception as error:  # noqa: BLE001  the failure itself has to be shown all the same
            text = f"it cannot be written: {error!r}"
        sections.append(("the last check", text))
    return sections


def explained(report: CheckReport) -> Iterator[str]:
    """What this check says."""
    yield f"The verdict is {report.verdict}. Findings:"
    for finding in check_findings(report, mode="STRICT"):
        yield f"  {finding.name}: {finding}"
