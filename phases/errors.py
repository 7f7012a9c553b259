"""The exceptions that a run can raise.

    BaseException
    ├── Cancelled                    the run was cancelled: not a failure, so not an Exception
    └── Exception
        └── PhasesError
            ├── TaskFailed           a task raised; has the steps that failed, the first one first
            ├── DeadlineExceeded     a task did not finish within its time limit
            ├── WouldFail            in a dry run: the plan of a task says why the task would fail
            ├── ReportedError        in a report that was read from JSON: the words of any error
            ├── UnknownTask          a name in only=, skip= or find() that no task has
            └── InvalidTask          an object was used as a task and is not one

`str()` of each is one sentence that an operator can read. Each can be pickled and copied, also if
an error of a task cannot: `phases.values` makes what takes its place. TaskFailed consists of steps,
so it is defined in `phases.step`.
"""

from __future__ import annotations


class PhasesError(Exception):
    """The base class: catch this to catch everything that phases raises on purpose, except
    Cancelled.
    """


class Cancelled(BaseException):
    """The run, or the part of it that this task belongs to, was cancelled.

    This is a BaseException for the same reason as asyncio's: a task that catches Exception to try
    again must not swallow the cancellation.
    """

    __slots__ = ("origin",)  # slots of an exception are not pickled: it stays in its process

    def __init__(self, reason: str = "cancelled", *, origin: object = None) -> None:
        """Give the reason. The origin is the part of the run that was cancelled, if any."""
        super().__init__(reason)
        self.reason = reason
        self.origin = origin


class DeadlineExceeded(PhasesError):  # noqa: N818  reads as what happened
    """The task was still running when its time was up."""


class WouldFail(PhasesError):  # noqa: N818  reads as what would happen
    """The plan of a task says that the task would fail. Only a dry run has this error."""


class ReportedError(PhasesError):
    """An error in a report that was read from JSON: its type and its message, in one text.

    `details` is what the `to_mapping()` of the error returned; None if it has none.
    """

    def __init__(self, words: str, details: object = None) -> None:
        super().__init__(words)
        self.details = details

    def to_mapping(self) -> object:
        """The details, for the JSON of the report."""
        return self.details


class UnknownTask(PhasesError, ValueError):  # noqa: N818  reads as what is wrong
    """only= or skip= names a task that is not in the tree, or find() one that is not in the run."""

    can_retry = False


class InvalidTask(PhasesError, TypeError):  # noqa: N818  reads as what is wrong
    """An object was passed as a task and is not one; the message says what is missing."""

    can_retry = False
