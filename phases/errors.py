"""The exceptions that a run can raise.

    BaseException
    ├── Cancelled                    the run was cancelled: not a failure, so not an Exception
    └── Exception
        └── PhasesError
            ├── TaskFailed           a task raised; has the steps that failed, the first one first
            ├── DeadlineExceeded     a task did not finish within its time limit
            ├── WouldFail            in a dry run: the plan of a task says why the task would fail
            ├── UnknownTask          only= or skip= names a task that does not exist
            └── InvalidTask          an object was used as a task and is not one

`str()` of each is one sentence that an operator can read. Each can be pickled and copied, also if
an error of a task cannot: `phases.step` says what takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phases.step import Step


class PhasesError(Exception):
    """The base class: catch this to catch everything that phases raises on purpose, except
    Cancelled.
    """


class TaskFailed(PhasesError):  # noqa: N818  reads as what happened
    """One or more tasks failed.

    `failures` are their steps, in the order in which they failed, each with its `path` and its
    `error`. `error` is the first error, and also `__cause__`, so that a printed traceback begins
    where it was raised.
    """

    def __init__(self, failures: Sequence[Step]) -> None:
        self.failures = tuple(failures)
        self.error = self.__cause__ = self.failures[0].error
        super().__init__("; also ".join(map(_sentence, self.failures)))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the steps, which have the errors, and what was added later, such as notes."""
        return type(self), (self.failures,), _added_later(self, "failures", "error")


def _sentence(step: Step) -> str:
    why = "" if step.error is None else f": {describe_error(step.error)}"
    return f"{step.name} failed{why} (in {'/'.join(step.path)})"


class Cancelled(BaseException):
    """The run, or the part of it that this task belongs to, was cancelled.

    This is a BaseException for the same reason as asyncio's: a task that catches Exception to try
    again must not swallow the cancellation.
    """

    def __init__(self, reason: str = "cancelled", *, origin: object = None) -> None:
        """Give the reason. The origin is the part of the run that was cancelled, if any."""
        super().__init__(reason)
        self.reason, self.origin = reason, origin

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the reason; the part of the run stays in its process."""
        return type(self), (self.reason,), _added_later(self, "reason", "origin")


class DeadlineExceeded(PhasesError):  # noqa: N818  reads as what happened
    """The task was still running when its time was up."""


class WouldFail(PhasesError):  # noqa: N818  reads as what would happen
    """The plan of a task says that the task would fail. Only a dry run has this error."""


class UnknownTask(PhasesError, ValueError):  # noqa: N818  reads as what is wrong
    """only= or skip= names a task that is not in the tree."""


class InvalidTask(PhasesError, TypeError):  # noqa: N818  reads as what is wrong
    """An object was passed as a task and is not one; the message says what is missing."""


def _added_later(error: BaseException, *names: str) -> dict[str, object] | None:
    """The attributes of the error but for these; None without any, as pickle has it."""
    attributes = {name: value for name, value in vars(error).items() if name not in names}
    return attributes or None


def describe_error(error: BaseException) -> str:
    """The error in one line: its type, then its message."""
    words = " ".join(printable(error).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def printable(value: object) -> str:
    """str(value), safe for any terminal and encoding: what cannot be printed is escaped, and
    nothing is raised.
    """
    try:
        return "".join(
            char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in str(value)
        )
    except Exception:  # noqa: BLE001  a log or a report may contain any object
        return f"<{type(value).__name__} that cannot be printed>"
