"""Lines for the journal, in the words of the findings; systemd reads the level in front of each."""

from __future__ import annotations

import os

from hostrouting.host.layout import HostLayout
from hostrouting.node.ending import Stopped, TimeIsUp
from hostrouting.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from hostrouting.command import Operator
    from hostrouting.upkeep.passes import PassOutcome

    Line: TypeAlias = tuple[int, str]
    """A level, and the words."""

ERROR, WARNING, NOTICE, INFO = 3, 4, 5, 6

_ABOUT_SIGNALS = (
    "systemd sends SIGTERM to a unit that is stopped, or whose start takes longer than its "
    "TimeoutStartSec="
)
_SHOWN = 20
"""So many findings of a pass are logged; `hostrouting check` shows all."""


def say(level: int, words: str) -> None:
    """Log a line. A log that cannot be written changes nothing."""
    line = f"hostrouting: {printable(words)}\n"
    if not os.isatty(2):  # nobody reads the level on a terminal
        line = f"<{level}>{line}"
    try:
        os.write(2, line.encode())
    except OSError:
        return


def lines_of(outcome: PassOutcome) -> Iterator[Line]:
    """What a pass has found and done, each thing once: what was changed, what is wrong, and the
    verdicts. A note only explains a verdict, unless it is the repair.
    """
    if outcome.changes:
        count = len(outcome.changes)
        yield INFO, f"static routes changed: {count:,}, first: {outcome.changes[0]}"
    findings = [
        finding
        for finding in outcome.findings
        if finding.severity != "note" or finding.name == "action"
    ]
    for finding in findings[:_SHOWN]:
        level = ERROR if finding.severity == "error" else WARNING
        yield level, finding.line_for(_reader())
    if len(findings) > _SHOWN:
        yield WARNING, f"and {len(findings) - _SHOWN:,} more findings"
    for verdict in outcome.verdicts:
        yield INFO, verdict


def _reader() -> Operator:
    """Who reads the journal, and has the program of the node."""
    from hostrouting.command import Operator  # noqa: PLC0415  a shared pass needs none

    return Operator(program=HostLayout.node_command)


def describe_failure(error: BaseException, activity: str) -> list[str]:
    """Why a process of the node ended before its work was done, while it did this; and what is true
    now, if that was added to the error.
    """
    from hostrouting.errors import HostRoutingError  # noqa: PLC0415  only after a failure

    if isinstance(error, Stopped):
        lines = [f"{error} ended this while {activity}; {_ABOUT_SIGNALS}"]
    elif isinstance(error, TimeIsUp):
        lines = [f"this took longer than {error} s, and was ended while {activity}"]
    elif isinstance(error, HostRoutingError):
        lines = [line.strip() for line in error.lines_for(_reader())]
    else:
        import traceback  # noqa: PLC0415  as rare as a bug

        return "".join(traceback.format_exception(error)).splitlines()
    notes: list[str] = getattr(error, "__notes__", [])
    return [*lines, *notes]
