"""Reports and errors go to another process and back, whatever a task leaves in them."""

import copy
import pickle
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


def failed(*errors: Exception, result: object = None) -> Step:
    """The report of a group of tasks, of which the last ones fail with these errors."""
    failing = [StubTask(f"task-{number}", errors=[error]) for number, error in enumerate(errors)]
    alone = phases.parallel(*failing, name="alone", at_once=1) if len(failing) > 1 else failing[0]
    pipeline = phases.serial(StubTask("first", result), alone, name="all")
    return phases.run(pipeline, clock=FakeClock(), observers=[])


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_report(way: Callable[[Step], Step]) -> None:
    """It reads the same, its failures are steps of its tree, and the error is the one raised."""
    report = failed(OSError(28, "disk full"), result={"routes": 3})
    copied = way(report)
    assert str(copied) == str(report)
    assert copied.facts == report.facts
    (failure,) = copied.failures
    assert failure is copied.find("task-0")
    assert isinstance(failure.error, OSError)
    assert failure.error.errno == 28
    assert copied.find("first").result == {"routes": 3}


@pytest.mark.parametrize("way", WAYS)
def test_the_error_of_a_run(way: Callable[[TaskFailed], TaskFailed]) -> None:
    """It has the same message, notes and steps; its cause is the first error."""
    caught = TaskFailed(failed(OSError(28, "disk full")).failures)
    vars(caught).setdefault("__notes__", []).append("on node 7")
    copied = way(caught)
    assert str(copied) == str(caught)
    assert vars(copied)["__notes__"] == ["on node 7"]
    assert [step.path for step in copied.failures] == [("all", "task-0")]
    assert isinstance(copied.error, OSError)
    assert copied.__cause__ is copied.error


UNPICKLABLE = [NeedsTwoError("x", code=3), RewordedError("x"), LockedError()]


@pytest.mark.parametrize("error", UNPICKLABLE, ids=lambda error: type(error).__name__)
def test_an_error_that_cannot_be_pickled(error: Exception) -> None:
    """In its place stands a PhasesError that describes it, and says why."""
    report = failed(error)
    (failure,) = through_pickle(report).failures
    assert type(failure.error) is phases.PhasesError
    said = str(failure.error)
    assert said.startswith(f"{type(error).__name__}: {error} (this error could not be pickled: ")
    copied = through_pickle(TaskFailed(report.failures))
    assert str(copied.error) == said


class LockedExit(SystemExit):
    """The same, and not an Exception: a group passes it on as it is."""

    def __init__(self) -> None:
        """Keep a lock."""
        super().__init__("it is locked")
        self.lock = threading.Lock()


def test_an_error_that_a_group_passes_on() -> None:
    """It is still the error of the step that raised it, and of no other."""
    tree = phases.serial(StubTask("x", errors=[LockedExit()]), name="all")
    report = phases.run(phases.serial(tree, name="top"), observers=[])
    copied = through_pickle(report)
    assert [step.path for step in copied.failures] == [("top", "all", "x")]
    assert [str(step) for step in copied.walk()][1].count("LockedExit") == 1


def test_a_result_that_cannot_be_pickled() -> None:
    """In its place stands its JSON value, so the report as JSON stays the same."""
    report = failed(OSError("x"), result=Connection())
    copied = through_pickle(report)
    assert copied.find("first").result == {"peer": "10.0.0.1"}
    documents = [each.find("first").to_mapping() for each in (copied, report)]
    assert documents[0]["result"] == documents[1]["result"]
    assert copied.find("task-0").status is Status.FAILED


def test_a_result_of_a_group_that_cannot_be_pickled() -> None:
    """It is still the result of a group, so the JSON is the same."""
    tree = phases.serial(StubTask("first", Connection()), StubTask("second", 2), name="all")
    report = phases.run(tree, observers=[])
    copied = through_pickle(report)
    assert copied.result == ({"peer": "10.0.0.1"}, 2)
    assert copied.to_mapping()["result"] is None


def test_a_cancelled_run() -> None:
    """Where the run was cancelled stays in its process; the reason goes along."""
    with pytest.raises(phases.Cancelled) as caught:
        cancelled_run()
    copied = through_pickle(caught.value)
    assert (copied.reason, copied.origin) == ("enough", None)


def cancelled_run() -> None:
    """A run that is cancelled before its task begins."""
    ctx = phases.Context(observers=[])
    ctx.cancel("enough")
    phases.execute(StubTask("never"), ctx)


def run_in_a_worker(error: Exception) -> None:
    """What a worker of a pool does."""
    task = StubTask("work", errors=[error])
    phases.execute(task, phases.Context(observers=[]))


def report_of_a_worker(error: Exception) -> Step:
    """The same, with the report as its result."""
    return phases.run(StubTask("work", errors=[error]), observers=[])


@pytest.mark.linux
def test_a_pool_of_processes() -> None:
    """It raises the error of a run, returns reports, and survives an error that cannot be pickled."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        with pytest.raises(
            TaskFailed, match=r"work failed: OSError: .* full \(in work\)"
        ) as caught:
            pool.submit(run_in_a_worker, OSError(28, "full")).result()
        assert isinstance(caught.value.error, OSError)
        with pytest.raises(TaskFailed, match="work failed: PhasesError: RewordedError: x failed"):
            pool.submit(fail_with, "RewordedError").result()
        report = pool.submit(report_of_a_worker, OSError(28, "full")).result()
        assert report.exit_code == 1
        assert isinstance(report.failures[0].error, OSError)


def fail_with(name: str) -> None:
    """Make the error in the worker, because this process cannot send it."""
    assert name == "RewordedError"
    run_in_a_worker(RewordedError("x"))
