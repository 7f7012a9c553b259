"""Lines for the journal. systemd reads the level in front of each from standard error."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from hostrouting.errors import HostRoutingError
from hostrouting.node.ending import Stopped, TimeIsUp
from hostrouting.text import printable
from hostrouting.upkeep.passes import MOST_FINDINGS_SHOWN

if TYPE_CHECKING:
    from hostrouting.upkeep.passes import Done, PassOutcome

Line: TypeAlias = "tuple[int, str]"
"""A level, and the text."""

ERROR, WARNING, NOTICE, INFO = 3, 4, 5, 6  # as syslog counts


def say(level: int, text: str) -> None:
    """Log a line. A line that cannot be written is lost: no decision depends on the log."""
    line = f"<{level}>hostrouting: {printable(text)}\n"
    try:
        os.write(2, line.encode())
    except OSError:
        return


def lines_of(outcome: PassOutcome, done: Done) -> Iterator[Line]:
    """Yield the lines for the journal about a pass: the changed static routes, what else was done
    (such as loading the table for probes), each verdict that is ok, and the findings, which explain
    any other verdict.
    """
    changes = done.changes
    if changes:
        yield INFO, f"static routes changed: {len(changes):,}, first: {changes[0]}"
    for operation in done.operations:
        yield INFO, str(operation)
    if outcome.report is not None:
        for family in outcome.report.families:
            if family.verdict == "ok":
                yield INFO, str(family)
    findings = outcome.to_log
    for finding in findings[:MOST_FINDINGS_SHOWN]:
        level = ERROR if finding.severity == "error" else WARNING
        yield level, finding.line
    if len(findings) > MOST_FINDINGS_SHOWN:
        yield WARNING, f"and {len(findings) - MOST_FINDINGS_SHOWN:,} more findings"


def say_failure(error: BaseException) -> None:
    """Log why a process of the node ended before its work was done."""
    for line in describe_failure(error):
        say(ERROR, line)


def describe_failure(error: BaseException) -> list[str]:
    """Return lines that say why a process of the node ended before its work was done, and what is
    true now, such as routes that were rolled back, if the error has notes about that.
    """
    if isinstance(error, Stopped):  # its text is the name of the signal
        lines = [
            (
                f"{error} ended this; systemd sends SIGTERM to a unit that is stopped, or whose "
                "start takes longer than its TimeoutStartSec="
            )
        ]
    elif isinstance(error, TimeIsUp):  # its text is the limit in seconds
        lines = [
            (
                f"this took longer than {error} s, and was ended (if another process holds the "
                "lock of this host, lslocks shows it)"
            )
        ]
    elif isinstance(error, HostRoutingError):
        lines = [line.strip() for line in str(error).split("\n")]
    else:  # perhaps a bug; its traceback has the notes, too
        return "".join(traceback.format_exception(error)).splitlines()
    return [*lines, *getattr(error, "__notes__", [])]
