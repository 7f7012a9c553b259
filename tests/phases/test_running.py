"""execute and run: what is refused, and what is around the tasks of a program."""

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

import phases
from phases import Context, Status
from tests.support.recorder import StubTask, quiet, ran


async def _asynchronous(_ctx: Context) -> None:
    """Would return a coroutine, and nothing in it would run."""


def _yields(_ctx: Context) -> Iterator[None]:
    """Would return a generator."""
    yield


async def _yields_later(_ctx: Context) -> AsyncIterator[None]:
    """Would return an asynchronous generator."""
    yield


def _does_later(_ctx: Context) -> Future[None]:
    """Returns what is still being done, as by `asyncio.run_coroutine_threadsafe`."""
    return Future()


class _Own:
    """A task of one's own."""

    name: object = "own"

    def __init__(self, **attributes: object) -> None:
        vars(self).update(attributes)

    def do(self, _ctx: Context) -> None:
        """Nothing."""


NOT_TASKS: dict[str, object] = {
    r"^<function .* is not a task: it has no method do\(ctx\)": lambda _ctx: None,
    "is not a task: it has no method": _Own(do=None),
    "the name of a task is 'a/b'": StubTask("a/b"),
    "the name of a task is 7": _Own(name=7),
    "two tasks in own are named 'b'": _Own(subtasks=(StubTask("b"), StubTask("b"))),
}
USES: list[Callable[[Any], object]] = [
    phases.serial,
    phases.retry,
    partial(phases.deadline, seconds=5),
    partial(phases.when, lambda _ctx: True),
    phases.run,
    phases.plan,
    phases.undo,
]


@pytest.mark.parametrize(("words", "candidate"), NOT_TASKS.items())
def test_objects_that_are_not_tasks(words: str, candidate: object) -> None:
    """It is refused when the tree is built; in a group of one's own, before its first task."""
    for use in USES:
        with pytest.raises(phases.InvalidTask, match=words):
            use(candidate)
    with pytest.raises(phases.InvalidTask, match=words):
        phases.run(_Own(subtasks=(candidate,)))  # type: ignore[arg-type]  # the name is an object


UNFINISHED: list[tuple[Callable[[Context], object], str]] = [
    (_asynchronous, "coroutine"),
    (_yields, "generator"),
    (_yields_later, "async_generator"),
    (_does_later, "Future"),
]


@pytest.mark.parametrize(("do", "kind"), UNFINISHED)
def test_what_a_call_does_not_finish(do: Callable[[Context], object], kind: str) -> None:
    """A function that returns a coroutine, generator or future has failed, also in an undo."""
    words = f"nobody waits for the {kind} that it returned: wait for it in the task"
    hidden = phases.task("a")(do)
    undo_runs_it = phases.task("b", undo=partial(phases.execute, hidden))(print)
    for report in (ran(hidden), phases.undo(undo_runs_it, ctx=quiet())):
        assert str(report.failures[0].error) == words


TASK = StubTask("a")
TREE = phases.serial(TASK, phases.serial(TASK, name="b"), name="all")
REPORT = ran(TASK)


REFUSED: dict[str, Callable[[], object]] = {
    "there is no step 'b'; the steps are: a$": lambda: REPORT.find("b"),
    "there is no step 'a'; the steps are: none$": lambda: REPORT.find("a", action="undo"),
    "there is no task 'c'. The tasks are: all, a, b$": lambda: phases.run(TREE, skip=["c"]),
    "retry: attempts is 0; it must be 1 or more": lambda: phases.retry(TASK, attempts=0),
    "parallel: at_once is 0; it must be 1 or more": lambda: phases.parallel(at_once=0),
    r"a report is always true; write `report\.ok`": lambda: bool(REPORT),
}


@pytest.mark.parametrize(("words", "call"), REFUSED.items())
def test_arguments_that_are_refused(words: str, call: Callable[[], object]) -> None:
    """At once, with the name of the argument, the value and the rule."""
    with pytest.raises((TypeError, ValueError, AttributeError, RuntimeError), match=words):
        call()


def test_the_line_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    """A record of `ctx.log` has the place in the task, not one in phases."""
    assert ran(phases.task("a")(lambda ctx: ctx.log.warning("here"))).ok
    [record] = caplog.records
    assert record.pathname == __file__


def test_a_failure_of_another_run() -> None:
    """It is an error like any other: the steps of that run are not in this report."""
    fails = StubTask("b", errors=[OSError("busy")])
    report = ran(phases.task("a")(lambda _: phases.execute(fails, quiet())))
    assert report.failures == (report,)
    assert isinstance(report.error, phases.TaskFailed)


@pytest.mark.parametrize("stop", [SystemExit(3), GeneratorExit()], ids=repr)
def test_a_task_that_raises_no_exception(stop: BaseException) -> None:
    """What is not an Exception is raised by execute as it is."""
    with pytest.raises(type(stop)) as caught:
        phases.execute(phases.parallel(StubTask("a", errors=[stop])), quiet())
    assert caught.value is stop


@pytest.mark.parametrize(
    ("reason", "words", "code"),
    [
        ("the agent stops", "the agent stops", 1),
        (signal.SIGINT, "SIGINT", 130),
    ],
)
def test_the_reason_of_a_cancellation(reason: str | signal.Signals, words: str, code: int) -> None:
    """Whoever cancels a run by its context gives it, and the run still reports."""
    undone = phases.task("undone", undo=print)(print)

    @phases.task("stop")
    def stop(ctx: Context) -> None:
        ctx.cancel(reason)
        phases.undo(undone, ctx=ctx)

    report = ran(phases.serial(stop, StubTask("start")))
    assert report.find("undone").signal is None, "only the report of the whole run has it"
    assert report.status is Status.CANCELLED
    assert report.find("start").reason == words
    assert report.exit_code == code
