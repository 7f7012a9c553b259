"""Reports and errors go to another process and back, whatever a task leaves in them."""

import copy
import pickle
import re
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

import pytest

import phases
from phases import Status, Step, TaskFailed
from phases.testing import FakeClock, StubTask

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


class LockedError(Exception):
    """An error with something that stays in its process."""

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


class LockedExit(SystemExit):
    """An exit with something that stays in its process; a group passes it on as it is."""

    def __init__(self) -> None:
        """Keep a lock."""
        super().__init__("it is locked")
        self.lock = threading.Lock()


def failed(error: Exception, *, result: object = None) -> Step:
    """The report of two tasks: the first has this result, and the second fails with this error."""
    first = StubTask("first", result)
    second = StubTask("second", errors=[error])
    return phases.run(phases.serial(first, second, name="all"), clock=FakeClock(), observers=[])


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_report(way: Callable[[Step], Step]) -> None:
    """It reads the same, its failures are steps of its tree, and the error is the one raised."""
    report = failed(OSError(28, "disk full"), result={"routes": 3})
    copied = way(report)
    assert str(copied) == str(report)
    assert copied.facts == report.facts
    [failure] = copied.failures
    assert failure is copied.find("second")
    assert isinstance(failure.error, OSError)
    assert failure.error.errno == 28
    assert copied.find("first").result == {"routes": 3}


@pytest.mark.parametrize("way", WAYS)
def test_the_error_of_a_run(way: Callable[[TaskFailed], TaskFailed]) -> None:
    """It has the same message, notes and steps; its cause is the first error."""
    report = failed(OSError(28, "disk full"))
    error = TaskFailed(report.failures)
    vars(error)["__notes__"] = ["on node 7"]
    copied = way(error)
    assert str(copied) == str(error)
    assert vars(copied)["__notes__"] == ["on node 7"]
    [failure] = copied.failures
    assert failure.path == ("all", "second")
    assert isinstance(copied.error, OSError)
    assert copied.__cause__ is copied.error


UNPICKLABLE = [NeedsTwoError("x", code=3), RewordedError("x"), LockedError()]


@pytest.mark.parametrize("error", UNPICKLABLE, ids=lambda error: type(error).__name__)
def test_an_error_that_cannot_be_pickled(error: Exception) -> None:
    """In its place stands a PhasesError that describes it, and says why."""
    report = failed(error)
    copied = through_pickle(report)
    copied_error = through_pickle(TaskFailed(report.failures))
    [failure] = copied.failures
    assert type(failure.error) is phases.PhasesError
    sentence = str(failure.error)
    described = f"{type(error).__name__}: {error}"
    assert sentence.startswith(f"{described} (this error could not be pickled: ")
    assert str(copied_error.error) == sentence


def test_an_error_that_a_group_passes_on() -> None:
    """It is still the error of the step that raised it, and of no other."""
    group = phases.serial(StubTask("x", errors=[LockedExit()]), name="all")
    report = phases.run(phases.serial(group, name="top"), observers=[])
    copied = through_pickle(report)
    [failure] = copied.failures
    assert failure.path == ("top", "all", "x")
    assert str(copied.find("all")).count("LockedExit") == 1


def test_a_result_that_cannot_be_pickled() -> None:
    """In its place stands its JSON value, so the report as JSON stays the same."""
    report = failed(OSError("x"), result=Connection())
    copied = through_pickle(report)
    first = report.find("first")
    copied_first = copied.find("first")
    assert copied_first.result == {"peer": "10.0.0.1"}
    assert copied_first.to_mapping()["result"] == first.to_mapping()["result"]
    assert copied.find("second").status is Status.FAILED


def test_a_result_of_a_group_that_cannot_be_pickled() -> None:
    """It is still the result of a group, so the JSON is the same."""
    tree = phases.serial(StubTask("first", Connection()), StubTask("second", 2), name="all")
    report = phases.run(tree, observers=[])
    copied = through_pickle(report)
    assert copied.result == ({"peer": "10.0.0.1"}, 2)
    assert report.to_mapping()["result"] is None
    assert copied.to_mapping()["result"] is None


def test_a_cancelled_run() -> None:
    """Where the run was cancelled stays in its process; the reason goes along."""
    ctx = phases.Context(observers=[])
    ctx.cancel("enough")
    with pytest.raises(phases.Cancelled) as caught:
        phases.execute(StubTask("never"), ctx)
    copied = through_pickle(caught.value)
    assert copied.reason == "enough"
    assert copied.origin is None


# What a worker of a pool does.


def raise_in_a_worker(error: Exception) -> None:
    """Run a task that fails."""
    phases.execute(StubTask("work", errors=[error]), phases.Context(observers=[]))


def raise_reworded_in_a_worker() -> None:
    """The error is made in the worker, because this process cannot send it."""
    raise_in_a_worker(RewordedError("x"))


def report_of_a_worker(error: Exception) -> Step:
    """The report of a task that fails."""
    return phases.run(StubTask("work", errors=[error]), observers=[])


@pytest.mark.linux
def test_a_pool_of_processes() -> None:
    """It raises the error of a run, returns reports,
    and survives an error that cannot be pickled.
    """
    full = OSError(28, "full")
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        raised = pool.submit(raise_in_a_worker, full).exception()
        described = pool.submit(raise_reworded_in_a_worker).exception()
        report = pool.submit(report_of_a_worker, full).result()

    assert isinstance(raised, TaskFailed)
    assert isinstance(raised.error, OSError)
    assert re.search(r"work failed: OSError: .* full \(in work\)", str(raised))

    assert isinstance(described, TaskFailed)
    assert "work failed: PhasesError: RewordedError: x failed" in str(described)

    assert report.exit_code == 1
    [failure] = report.failures
    assert isinstance(failure.error, OSError)
