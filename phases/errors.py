"""Every way in which a run can end badly, and nothing else.

    BaseException
    ├── Cancelled                    the run was told to stop: not a failure, so not an Exception
    └── Exception
        └── PhasesError
            ├── TaskFailed           a task raised; carries every failure, the innermost first
            ├── DeadlineExceeded     a task was given less time than it needed
            ├── StoppedElsewhere     a separate run inside a task was told to stop
            ├── UnknownTask          only= or skip= names a task that is not there
            └── InvalidTask          an object was used as a task and is none

`str()` of each is one sentence that an operator can read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from phases.events import Failure
    from phases.report import Report

__all__ = [
    "Cancelled",
    "DeadlineExceeded",
    "InvalidTask",
    "PhasesError",
    "StoppedElsewhere",
    "TaskFailed",
    "UnknownTask",
]


class PhasesError(Exception):
    """The root: catch this to catch everything that phases raises on purpose, except Cancelled."""


class TaskFailed(PhasesError):  # noqa: N818  reads as what happened
    """One or more tasks failed.

    `failures` holds each of them, in the order in which they happened; `path` and `error` are those of the
    first. The error is also `__cause__` (an ExceptionGroup when there are several), so that a printed
    traceback loses nothing. `report` is set where undo() raises it.
    """

    def __init__(self, failures: Sequence[Failure], *, run_id: str = "") -> None:
        """Carry these failures, at least one, out of the run named run_id."""
        self.failures = tuple(failures)
        self.run_id = run_id
        self.report: Report | None = None
        super().__init__("; also ".join(map(str, self.failures)))
        errors = [failure.error for failure in self.failures]
        self.__cause__ = errors[0] if len(errors) == 1 else BaseExceptionGroup(f"{len(errors)} tasks failed", errors)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by content: the text alone would not bring it back."""
        return (_task_failed, (self.failures, self.run_id))

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the root down to the task that failed first."""
        return self.failures[0].path

    @property
    def error(self) -> BaseException:
        """What the task that failed first raised."""
        return self.failures[0].error

    @classmethod
    def merged(cls, parts: Iterable[TaskFailed], *, run_id: str) -> TaskFailed:
        """All of these as one; the order is kept."""
        return cls([failure for part in parts for failure in part.failures], run_id=run_id)


def _task_failed(failures: tuple[Failure, ...], run_id: str) -> TaskFailed:
    return TaskFailed(failures, run_id=run_id)


class Cancelled(BaseException):
    """The run, or the part of it that this task belongs to, was told to stop.

    A BaseException, like asyncio's and for the same reason: a task that catches Exception to try again must
    not swallow the order to stop.
    """

    def __init__(self, reason: str = "cancelled", *, origin: object = None) -> None:
        """Say why. The origin is the scope whose cancellation this is, when there is one."""
        super().__init__(reason)
        self.reason = reason
        self.origin = origin

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the reason; the scope stays in its process."""
        return (Cancelled, (self.reason,))


class DeadlineExceeded(PhasesError):  # noqa: N818  reads as what happened
    """The task was still running when its time was up."""

    def __init__(self, seconds: float) -> None:
        """Say how much time it had."""
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"not finished within {self.seconds:g} s"


class StoppedElsewhere(PhasesError):  # noqa: N818  reads as what happened
    """A separate run inside the task was told to stop; the run that the task belongs to was not."""

    def __init__(self, reason: str) -> None:
        """Say why that run was stopped."""
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"a separate run inside it was stopped: {self.reason}"


class UnknownTask(PhasesError, ValueError):  # noqa: N818  reads as what is wrong
    """only= or skip= names a task that is not in the tree."""

    can_retry = False

    def __init__(self, name: str, option: str, known: Sequence[str]) -> None:
        """Name the option, the unknown name, and every name that would do."""
        self.name, self.option, self.known = name, option, tuple(known)
        super().__init__(name, option, self.known)

    def __str__(self) -> str:
        import difflib  # noqa: PLC0415  only a mistake pays for it

        near = difflib.get_close_matches(self.name, self.known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        return f"{self.option}: there is no task {self.name!r}{hint} The tasks are: {', '.join(self.known)}"


class InvalidTask(PhasesError, TypeError):  # noqa: N818  reads as what is wrong
    """An object was given as a task and cannot be one; the message says what is missing."""

    can_retry = False
