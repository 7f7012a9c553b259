"""execute and run: what is refused, and what is around the tasks of a program."""

import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

import phases
from phases import Context, Status
from phases.tasks import FunctionTask
from tests.support.recorder import StubTask, quiet, ran


def own(**attributes: object) -> Any:
    """An object of somebody else, which is a task but for these attributes."""
    return SimpleNamespace(**{"name": "own", "do": print, **attributes})


async def later() -> None: ...


task_without_name: Any = phases.task


NOT_TASKS: dict[str, object] = {
    r"^<function .* is not a task: it has no method do\(ctx\)": lambda _ctx: None,
    r'^<function task.*; write @phases\.task\("name"\) above a function$': task_without_name(print),
    "is not a task: it has no method": own(do=None),
    "the name of a task is 'a/b'": own(name="a/b"),
    "the name of a task is 7": own(name=7),
    **{
        rf"^own: its {method} is a coroutine function; write `def`": own(**{method: later})
        for method in ("do", "plan", "undo")
    },
    "two tasks in own are named 'b'": own(subtasks=(StubTask("b"), StubTask("b"))),
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
        phases.run(own(subtasks=(candidate,)))


def test_a_coroutine_function_as_a_task() -> None:
    """It is refused where the task is made."""
    for method in ({"do": later}, {"do": print, "plan": later}, {"do": print, "undo": later}):
        with pytest.raises(phases.InvalidTask, match=r"^a: its .* is a coroutine function"):
            FunctionTask("a", **cast("Any", method))


def generator(ctx: Context) -> Iterator[None]:
    ctx.cancel("it was run")
    yield


async def async_generator(ctx: Context) -> AsyncIterator[None]:
    ctx.cancel("it was run")
    yield


@pytest.mark.parametrize(
    ("shown", "function"),
    [
        ("<coroutine object later .*>", lambda _ctx: later()),
        ("<generator object generator .*>", generator),
        ("<async_generator object async_generator .*>", async_generator),
    ],
)
def test_a_result_that_is_not_finished(shown: str, function: Callable[[Context], object]) -> None:
    """The task has failed, also in an undo and as a condition."""
    words = (
        f"nobody finishes {shown}, which was returned: do the work in the function, without "
        "`yield`; for a coroutine, call await_in_task there"
    )
    hidden = phases.task("a")(function)
    undo_runs_it = phases.task("b", undo=partial(phases.execute, hidden))(print)
    condition = cast("Callable[[Context], bool]", function)
    under_it = phases.when(condition, StubTask("c"))
    for report in (ran(hidden), phases.undo(undo_runs_it, ctx=quiet()), ran(under_it)):
        assert re.fullmatch(words, str(report.failures[0].error))


class Broken(phases.Clock):
    """A clock that fails from a moment on."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.good = good

    def now(self) -> float:
        self.good -= 1
        if self.good < 0:
            raise OSError("the clock is broken")
        return 0.0


@pytest.mark.parametrize("call", [phases.run, phases.execute, phases.plan, phases.undo])
@pytest.mark.parametrize("good", range(3))
def test_a_clock_that_raises(call: Callable[..., object], good: int) -> None:
    """Its error is raised, because the report could not say that the run is not ok."""
    task = phases.task("a", plan=print, undo=print)(print)
    with pytest.raises(OSError, match="the clock is broken"):
        call(task, ctx=Context(clock=Broken(good)))


TASK = StubTask("a")
TREE = phases.serial(TASK, phases.serial(TASK, name="b"), name="all")
REPORT = ran(TASK)

REFUSED: dict[str, Callable[[], object]] = {
    "no step 'b' has ended; the steps that have ended are: a$": lambda: REPORT.find("b"),
    "no step 'a' has ended; the steps that have ended are: none$": lambda: REPORT.find(
        "a", action="undo"
    ),
    "skip is a list of names, and there is no task 'c'. The tasks are: all, a, b$": lambda: (
        phases.run(TREE, skip="c")
    ),
    "retry: attempts is 0; it must be 1 or more": lambda: phases.retry(TASK, attempts=0),
    "parallel: at_once is 0; it must be 1 or more": lambda: phases.parallel(at_once=0),
    "arg 2 must be a type": lambda: phases.retry(TASK, on=cast("Any", [OSError])),
    r"a report is always true; write `report\.ok`": lambda: bool(REPORT),
}


@pytest.mark.parametrize(("words", "call"), REFUSED.items())
def test_arguments_that_are_refused(words: str, call: Callable[[], object]) -> None:
    """At once, with the name of the argument, the value and the rule."""
    with pytest.raises((TypeError, ValueError, AttributeError, RuntimeError), match=words):
        call()


def test_a_failure_of_another_run() -> None:
    """It is an error like any other: the steps of that run are not in this report."""
    fails = StubTask("b", errors=[OSError("busy")])
    report = ran(phases.parallel(phases.task("a")(lambda _: phases.execute(fails, quiet()))))
    assert report.failures == (report.find("a"),)
    assert isinstance(report.failures[0].error, phases.TaskFailed)


@pytest.mark.parametrize(
    ("reason", "words", "code"),
    [("enough", "enough", 1), (signal.SIGINT, "SIGINT", 130), (15, "SIGTERM", 143)],
)
def test_the_reason_of_a_cancellation(reason: str | int, words: str, code: int) -> None:
    """Whoever cancels a run by its context gives it; a handler of signals has a plain number."""
    undone = phases.task("undone", undo=print)(print)

    @phases.task("stop")
    def stop(ctx: Context) -> None:
        ctx.cancel(reason)
        phases.undo(undone, ctx=ctx)

    report = ran(phases.serial(stop, StubTask("start")))
    assert report.find("undone").signal is None, "only the report of the whole run has it"
    assert (report.status, report.exit_code) == (Status.CANCELLED, code)
    assert report.find("start").reason == words
