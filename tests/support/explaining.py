"""What the output says under a failed test, beside the comparison that failed: what the last check
has said, for example.

A comparison of two words, such as "ok" and "undecided", does not show where they come from.
"""

from collections.abc import Callable, Iterable, Iterator

from hostrouting.check.results import CheckReport
from hostrouting.check.sentences import check_findings

_lines_of: dict[str, Callable[[], Iterable[str]]] = {}


def on_failure(headline: str, lines: Callable[[], Iterable[str]]) -> None:
    """If the test that runs fails, write these lines below the headline, instead of those that came
    before under the same headline. They are made only then.
    """
    _lines_of[headline] = lines


def forget() -> None:
    """Another test begins."""
    _lines_of.clear()


def explanations() -> list[tuple[str, str]]:
    """Each headline with its text."""
    return [(headline, _text_of(lines)) for headline, lines in _lines_of.items()]


def _text_of(lines: Callable[[], Iterable[str]]) -> str:
    written: list[str] = []
    try:
        for line in lines():
            written.append(line)  # noqa: PERF402  what is there before an error stays
    except Exception as error:  # noqa: BLE001  the failure itself has to be shown all the same
        written.append(f"the rest cannot be written: {error!r}")
    return "\n".join(written)


def explained(report: CheckReport) -> Iterator[str]:
    """What this check says."""
    yield f"The verdict is {report.verdict}. Findings:"
    for finding in check_findings(report, mode="STRICT"):
        yield f"  {finding.name}: {finding}"
