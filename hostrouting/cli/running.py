"""A task run from the command line: its progress on standard error, its end as an exit code.

Here: signals, observers and failures of a run. Not here: which task it is, and what it changed.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import phases
from hostrouting.cli.failure import code_of, errors_in, words_of
from hostrouting.cli.page import Line, Painted, line
from hostrouting.cli.reply import FINE
from hostrouting.effects import Effects, effects_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["code_of_run", "effects_of_run", "failure_documents", "failure_lines", "run_task"]


def run_task(task: phases.AnyTask, *, quietly: bool = False) -> phases.Report:
    """Run the task to its end, or undo what it has begun when it is told to stop."""
    with _hangup_stops():
        return phases.run(task, observers=[] if quietly else None)


@contextmanager
def _hangup_stops() -> Iterator[None]:
    """A terminal that goes away is an order to stop, so that nothing stays half done; under nohup it is none."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGHUP) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def code_of_run(report: phases.Report) -> int:
    """0; or what the failures mean, a failed application above what could not be decided; or 128 and the signal."""
    if report.ok:
        return FINE
    if not report.failures:
        return report.exit_code
    return code_of(BaseExceptionGroup("failures", [failure.error for failure in report.failures]))


def effects_of_run(report: phases.Report) -> Effects:
    """What the run has changed, as its results and its errors say."""
    return sum((effects_of(it) for node in report.walk() for it in (node.result, node.error)), Effects())


def failure_lines(report: phases.Report) -> Iterator[Line]:
    """Why it failed: each failure once, and what can be done all the same."""
    if not report.ok and not report.failures:
        yield line(Painted("STOPPED:", "warn"), f" {report.reason or 'it was told to stop'}")
    for error in (error for failure in report.failures for error in errors_in(failure.error)):
        first, *others = words_of(error)
        yield line(Painted("FAILED:", "bad"), f" {first}")
        yield from (line(f"  {words}") for words in others)


def failure_documents(report: phases.Report) -> list[dict[str, Any]]:
    """The failures as plain values, each with the task that it happened in."""
    return [
        {"task": "/".join(it.path), "error": type(error).__name__, "message": str(error)}
        for it in report.failures
        for error in errors_in(it.error)
    ]
