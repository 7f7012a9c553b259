"""Reports and errors go to another process and back, whatever a task leaves in them."""

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

import phases
from phases import Step, TaskFailed
from phases.testing import StubTask
from tests.support.recorder import quiet, ran

T = TypeVar("T")


def through_pickle(value: T) -> T:
    """What another process receives."""
    copied: T = pickle.loads(pickle.dumps(value))  # noqa: S301  our own bytes
    return copied


WAYS: list[Callable[[Any], Any]] = [through_pickle, copy.deepcopy, copy.copy]


class NeedsTwoError(Exception):
    """An error that pickle cannot make again: its constructor takes something else than `args`."""

    def __init__(self, name: str, *, code: int) -> None:
        """Describe the failure."""
        super().__init__(f"{name} ended with {code}")
        self.code = code


class RewordedError(Exception):
    """An error that pickle makes again with another message."""

    def __init__(self, name: str) -> None:
        """Describe the failure."""
        super().__init__(f"{name} failed")


class LockedExit(SystemExit):
    """An exit with something that stays in its process; a group passes it on as it is."""

    def __init__(self) -> None:
        """Keep a lock."""
        super().__init__("it is locked")
        self.lock = threading.Lock()


class Connection:
    """A result with something that stays in its process, and with fields for the log."""

    def __init__(self) -> None:
        """Keep a lock."""
        self.lock = threading.Lock()

    def log_fields(self) -> dict[str, object]:
        """One field."""
        return {"peer": "10.0.0.1"}


def failed(error: BaseException, *, result: object = None) -> Step:
    """The report of two tasks: the first has this result, and the second fails with this error."""
    return ran(phases.serial(StubTask("first", result=result), StubTask("second", errors=[error])))


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_run(way: Callable[[Any], Any]) -> None:
    """The report reads the same, its failures are steps of its tree, and the error is the one
    raised. So it is of the error of the run, which has the same notes.
    """
    report = failed(OSError(28, "disk full"), result={"routes": 3})
    copied = way(report)
    assert str(copied) == str(report)
    assert copied.facts == report.facts
    [failure] = copied.failures
    assert failure is copied.find("second")
    assert failure.error.errno == 28
    assert copied.find("first").result == {"routes": 3}

    error = TaskFailed(report.failures)
    vars(error)["__notes__"] = ["on node 7"]
    copied = way(error)
    assert str(copied) == str(error)
    assert vars(copied)["__notes__"] == ["on node 7"]
    assert copied.failures[0].path == ("serial", "second")
    assert copied.__cause__ is copied.error


@pytest.mark.parametrize("error", [NeedsTwoError("x", code=3), RewordedError("x"), LockedExit()])
def test_an_error_that_cannot_be_pickled(error: BaseException) -> None:
    """In its place stands a PhasesError that describes it, and says why; it stands once."""
    report = failed(error)
    copied = through_pickle(report)
    [failure] = copied.failures
    assert type(failure.error) is phases.PhasesError
    sentence = str(failure.error)
    assert sentence.startswith(f"{type(error).__name__}: {error} (this error could not be pickled")
    assert str(copied).count("PhasesError") == 1
    assert str(through_pickle(TaskFailed(report.failures)).error) == sentence


def test_a_result_that_cannot_be_pickled() -> None:
    """In its place stands its JSON value, so the report as JSON stays the same; what a group
    returns stays the result of a group.
    """
    report = ran(
        phases.serial(
            StubTask("first", result=Connection()), StubTask("second", result=2), name="all"
        )
    )
    copied = through_pickle(report)
    assert copied.find("first").result == {"peer": "10.0.0.1"}
    assert copied.result == ({"peer": "10.0.0.1"}, 2)
    assert copied.to_json() == report.to_json()


def test_a_cancelled_run() -> None:
    """Where the run was cancelled stays in its process; the reason goes along."""
    ctx = quiet()
    ctx.cancel("enough")
    with pytest.raises(phases.Cancelled) as caught:
        phases.execute(StubTask("never"), ctx)
    copied = through_pickle(caught.value)
    assert (copied.reason, copied.origin) == ("enough", None)
