"""Lines for the journal, in the words of the findings; systemd reads the level in front of each."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from hostrouting.errors import HostRoutingError
from hostrouting.node.ending import Stopped, TimeIsUp
from hostrouting.text import printable
from hostrouting.upkeep.passes import LOGGED

if TYPE_CHECKING:
    from hostrouting.upkeep.passes import Done, PassOutcome

Line: TypeAlias = "tuple[int, str]"
"""A level, and the words."""

ERROR, WARNING, NOTICE, INFO = 3, 4, 5, 6

_ABOUT_SIGNALS = (
    "systemd sends SIGTERM to a unit that is stopped, or whose start takes longer than its "
    "TimeoutStartSec="
)


def say(level: int, words: str) -> None:
    """Log a line. A log that cannot be written changes nothing."""
    line = f"<{level}>hostrouting: {printable(words)}\n"
    try:
        os.write(2, line.encode())
    except OSError:
        return


def lines_of(outcome: PassOutcome, done: Done) -> Iterator[Line]:
    """What a pass has found and done, each thing once: what was changed, what is wrong, and the
    verdicts.
    """
    changes = done.changes
    if changes:
        yield INFO, f"static routes changed: {len(changes):,}, first: {changes[0]}"
    for operation in done.operations:
        yield INFO, str(operation)
    findings = outcome.to_log
    for finding in findings[:LOGGED]:
        level = ERROR if finding.severity == "error" else WARNING
        yield level, finding.line
    if len(findings) > LOGGED:
        yield WARNING, f"and {len(findings) - LOGGED:,} more findings"
    if outcome.report is not None:
        for family in outcome.report.families:
            if family.verdict == "ok":
                yield INFO, str(family)


def say_failure(error: BaseException) -> None:
    """Log why a process of the node ended before its work was done."""
    for line in describe_failure(error):
        say(ERROR, line)


def describe_failure(error: BaseException) -> list[str]:
    """Why a process of the node ended before its work was done; and what is true now, if that was
    added to the error.
    """
    if isinstance(error, Stopped):
        lines = [f"{error} ended this; {_ABOUT_SIGNALS}"]
    elif isinstance(error, TimeIsUp):
        lines = [f"this took longer than {error} s, and was ended"]
    elif isinstance(error, HostRoutingError):
        lines = [line.strip() for line in str(error).split("\n")]
    else:
        return "".join(traceback.format_exception(error)).splitlines()
    notes: list[str] = getattr(error, "__notes__", [])
    return [*lines, *notes]
