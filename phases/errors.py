"""The exceptions that a run can raise, and what Python 3.10 lacks for them.

    BaseException
    ├── Cancelled                    the run was cancelled: not a failure, so not an Exception
    └── Exception
        └── PhasesError
            ├── TaskFailed           a task raised; carries every failure, the innermost first
            ├── DeadlineExceeded     a task did not finish within its time limit
            ├── UnknownTask          only= or skip= names a task that does not exist
            └── InvalidTask          an object was used as a task and is not one

`str()` of each is one sentence that an operator can read. Groups of exceptions, and notes on them, have the same names
here on every version: from Python 3.11 on these are the builtin ones, and no package is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phases.report import Failure, Report

__all__ = ["BaseExceptionGroup", "ExceptionGroup", "add_note"]
__all__ += ["Cancelled", "DeadlineExceeded", "InvalidTask", "PhasesError", "TaskFailed", "UnknownTask"]

if sys.version_info >= (3, 11):
    from builtins import BaseExceptionGroup, ExceptionGroup
else:
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup  # and tracebacks print groups and notes from now on


def add_note(error: BaseException, note: str) -> None:
    """Add a line to the error that a traceback prints after its message."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        vars(error).setdefault("__notes__", []).append(note)


class PhasesError(Exception):
    """The base class: catch this to catch everything that phases raises on purpose, except Cancelled."""


class TaskFailed(PhasesError):  # noqa: N818  reads as what happened
    """One or more tasks failed.

    `failures` holds all of them, in the order in which they happened; `path` and `error` are those of the
    first. The error is also `__cause__` (an ExceptionGroup if there are several), so that a printed
    traceback is complete. `report` is set if undo() raised this.
    """

    def __init__(self, failures: Sequence[Failure], *, run_id: str = "") -> None:
        """Carry these failures (at least one) from the run with this id."""
        self.failures = tuple(failures)
        self.run_id = run_id
        self.report: Report | None = None
        super().__init__("; also ".join(map(str, self.failures)))
        errors = [failure.error for failure in self.failures]
        self.__cause__ = errors[0] if len(errors) == 1 else BaseExceptionGroup(f"{len(errors)} tasks failed", errors)

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the root down to the task that failed first."""
        return self.failures[0].path

    @property
    def error(self) -> BaseException:
        """The error of the task that failed first."""
        return self.failures[0].error

    @classmethod
    def merged(cls, parts: Iterable[TaskFailed], *, run_id: str) -> TaskFailed:
        """All of these as one, in the same order."""
        return cls([failure for part in parts for failure in part.failures], run_id=run_id)


class Cancelled(BaseException):
    """The run, or the part of it that this task belongs to, was cancelled.

    A BaseException, like asyncio's and for the same reason: a task that catches Exception to try again must
    not swallow the cancellation.
    """

    def __init__(self, reason: str = "cancelled", *, origin: object = None) -> None:
        """Give the reason. The origin is the scope that was cancelled, if there is one."""
        super().__init__(reason)
        self.reason = reason
        self.origin = origin


class DeadlineExceeded(PhasesError):  # noqa: N818  reads as what happened
    """The task was still running when its time was up."""

    def __init__(self, seconds: float) -> None:
        """Give the time limit in seconds."""
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"not finished within {self.seconds:g} s"


class UnknownTask(PhasesError, ValueError):  # noqa: N818  reads as what is wrong
    """only= or skip= names a task that is not in the tree."""

    can_retry = False

    def __init__(self, name: str, option: str, known: Sequence[str]) -> None:
        """Give the unknown name, the option, and the names of all tasks."""
        self.name, self.option, self.known = name, option, tuple(known)
        super().__init__(name, option, self.known)

    def __str__(self) -> str:
        return f"{self.option}: there is no task {self.name!r}. The tasks are: {', '.join(self.known)}"


class InvalidTask(PhasesError, TypeError):  # noqa: N818  reads as what is wrong
    """An object was passed as a task and is not one; the message says what is missing."""

    can_retry = False
