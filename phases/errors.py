"""The exceptions that a run can raise.

    BaseException
    ├── Cancelled                    the run was cancelled: not a failure, so not an Exception
    └── Exception
        └── PhasesError
            ├── TaskFailed           a task raised; has the steps that failed, the first one first
            ├── DeadlineExceeded     a task did not finish within its time limit
            ├── WouldFail            in a dry run: the plan of a task says why the task would fail
            ├── UnknownTask          a name in skip= or find() that no task has, or two have
            └── InvalidTask          an object was used as a task and is not one

`str()` of each is one sentence that an operator can read. TaskFailed consists of steps, so it is
defined in `phases.step`.
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

    def __init__(self, reason: str = "cancelled", *, origin: object = None) -> None:
        """`reason` says why, for an operator. `origin` is the Scope that has stopped, if any: so a
        block with a deadline knows whether its own time is up.
        """
        super().__init__(reason)
        self.reason = reason
        self.origin = origin


class DeadlineExceeded(PhasesError):  # noqa: N818  reads as what happened
    """The task was still running when its time was up."""


class WouldFail(PhasesError):  # noqa: N818  reads as what would happen
    """The plan of a task says that the task would fail. Only a dry run has this error."""


class UnknownTask(PhasesError, ValueError):  # noqa: N818  reads as what is wrong
    """skip= names a task that is not in the tree, or find() one that is not in the run, or two."""


class InvalidTask(PhasesError, TypeError):  # noqa: N818  reads as what is wrong
    """An object was passed as a task and is not one; the message says what is missing."""
