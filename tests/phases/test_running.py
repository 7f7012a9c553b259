"""execute and run: what is refused, and what is around the tasks of a program."""

import asyncio
import re
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import phases
from phases import Context, Status
from phases.tasks import FunctionTask
from phases.testing import FakeClock, StubTask
from tests.support.recorder import Recorder, quiet, ran

UNTYPED: Any = phases
"""phases, for calls that a type checker would refuse."""


async def _asynchronous(_ctx: phases.Context) -> None:
    """Would return a coroutine, and nothing in it would run."""


def _yields(_ctx: phases.Context) -> Iterator[None]:
    """Would return a generator."""
    yield


async def _yields_asynchronously(_ctx: phases.Context) -> AsyncIterator[None]:
    """Would return an asynchronous generator."""
    yield


class _Own:
    """A task of one's own."""

    name: object = "own"

    def __init__(self, **attributes: object) -> None:
        vars(self).update(attributes)

    def do(self, _ctx: Context) -> None:
        """Nothing."""


NOT_TASKS: dict[str, object] = {
    "^<function .* cannot be used as a task: it needs a method do": lambda _ctx: None,
    "^<class .*_Own'> cannot be used as a task: .* pass an instance": _Own,
    "^task 'own' cannot be used as a task: it needs a method": _Own(do=None),
    "its name is ''": StubTask(""),
    "its name is 'a/b'": StubTask("a/b"),
    r"its name is 'a\\nb'": StubTask("a\nb"),
    "its name is 7": _Own(name=7),
    r"its subtasks are <.*>; they must be a tuple: \(task,\)": _Own(subtasks=StubTask("a")),
    "two of its subtasks are named 'b'; a task is": _Own(subtasks=(StubTask("b"), StubTask("b"))),
    r"do does not take ctx alone; write do\(ctx\), and in a class do\(self, ctx\)": _Own(
        do=lambda: None
    ),
    r"undo does not take ctx alone; write undo\(ctx\)": _Own(undo=lambda _ctx, _more: None),
    "its plan is 'would load it'; it must be a function of ctx": _Own(plan="would load it"),
    "its do is async or a generator": _Own(do=_asynchronous),
    "its plan is async or a generator": _Own(plan=_yields),
    "its undo is async or a generator": _Own(undo=_yields_asynchronously),
}
USES: list[Callable[[Any], object]] = [
    phases.serial,
    phases.retry,
    partial(phases.deadline, seconds=5),
    partial(phases.when, True),
    partial(phases.when, lambda _ctx: True),
    phases.execute,
    phases.run,
    phases.plan,
    phases.undo,
]


@pytest.mark.parametrize(("words", "candidate"), NOT_TASKS.items())
def test_objects_that_are_not_tasks(words: str, candidate: object) -> None:
    """An object that is not a task is refused when the tree is built, with the remedy; in a group
    of one's own, before the first task.
    """
    for use in USES:
        with pytest.raises(phases.InvalidTask, match=words):
            use(candidate)
    with pytest.raises(phases.InvalidTask, match=words):
        phases.run(_Own(subtasks=(candidate,)))  # type: ignore[arg-type]  # the name is an object


def test_what_a_call_does_not_run() -> None:
    """A function that returns a coroutine has not done its work: its step has failed, also in an
    undo; a condition would always be true. A Skip is an object, not the class; an error is raised.
    """
    words = "returned a coroutine, which nothing runs; call asyncio.run in it"
    hidden = phases.task("a")(lambda ctx: _asynchronous(ctx))  # noqa: PLW0108  the mistake
    undo_runs_it = phases.task("b", undo=lambda ctx: phases.execute(hidden, ctx))(print)
    for report in (ran(hidden), phases.undo(undo_runs_it, quiet())):
        assert str(report.failures[0].error) == f"a {words}"
    condition: Any = _asynchronous
    inner = StubTask("a")
    report = ran(phases.when(lambda ctx: condition(ctx), inner))  # noqa: PLW0108  the mistake
    assert str(report.error) == f"a: its condition {words}"
    assert inner.calls == 0


RETURNED: dict[str, object] = {
    r"the class Skip; write Skip\('the reason'\)$": phases.Skip,
    r"the error OSError\('full'\); to fail, raise it$": OSError("full"),
    "False, which does not say how it ended: to fail, raise": False,
    r"the report of a run that failed; write phases.execute\(": ran(
        StubTask("b", errors=[OSError()])
    ),
    r"CompletedProcess\(args='false', returncode=1\), which has failed": CompletedProcess(
        "false", 1
    ),
    "a mapping with would_fail, which is an attribute": {"would_fail": "no image"},
}


@pytest.mark.parametrize(("words", "result"), RETURNED.items())
def test_results_that_may_be_failures(words: str, result: object) -> None:
    """What a task returns never makes it fail, so what was perhaps meant to is refused."""
    report = ran(StubTask("a", result=result))
    assert isinstance(report.error, phases.InvalidTask)
    assert re.match(f"it returned {words}", str(report.error))
    assert ran(StubTask("a", result=CompletedProcess("true", 0))).ok


TASK = StubTask("a")
REPORT = ran(TASK)
OUTER = quiet()


def error_in_task(function: Callable[[Any], object], ctx: Context | None = None) -> None:
    """Raise what a task of this function raises; the logger is at ERROR."""
    task = phases.task("a")(function)
    [step] = phases.run(task, ctx=ctx or quiet()).failures
    assert step.error is not None
    raise step.error


def _keep(kept: list[Context]) -> Context:
    ran(phases.task("a")(kept.append))
    return kept[0]


def _raise_with(**attributes: object) -> None:
    """What a retry makes of an error with these attributes."""
    error = OSError("busy")
    vars(error).update(attributes)
    error_in_task(phases.retry(StubTask("a", errors=[error])).do)


def _plan_with(**attributes: object) -> None:
    """What a dry run makes of a plan with these attributes."""
    task = phases.task("a", plan=lambda _ctx: SimpleNamespace(**attributes))(print)
    [step] = phases.plan(task).failures
    assert step.error is not None
    raise step.error


def _enter_twice() -> None:
    block = phases.Context().within(5)
    with block:
        pass
    with block:
        pass


def _misspell_the_result(ctx: Context) -> None:
    with phases.inner_step("part", ctx) as step:
        setattr(step, "resutl", 5)  # noqa: B010  mypy would refuse the mistake


class OnAttempt(Recorder):
    """An observer that nobody would tell of a failed attempt."""

    def on_attempt_failed(self, failed: object) -> None:
        """Nothing."""


class TwoArguments(Recorder):
    """An observer that could not be told of a failed attempt."""

    def attempt_failed(self, failed: object, more: object) -> None:
        """Nothing."""


REFUSED: dict[str, Callable[[], object]] = {
    "log: there is no keyword url; write extra=": lambda: error_in_task(
        lambda ctx: ctx.log.debug("fetching", url=1)
    ),
    "condition of a returned is None; it must be True or": lambda: error_in_task(
        phases.when(UNTYPED.Context.check, TASK).do
    ),
    "^run: ctx is that of the task a, which has ended": lambda: phases.run(TASK, ctx=_keep([])),
    "^ctx is that of the task a, which has ended; use the context w": lambda: _keep([]).check(),
    "^ctx is that of the task a, which has ended; use": lambda: _keep([]).within(5),
    r"^OSError\('busy'\) cannot be judged: it has canRetry, and no can_retry": lambda: _raise_with(
        canRetry=False
    ),
    "can_retry of OSError is 'no'; it must be True or False": lambda: _raise_with(can_retry="no"),
    "^<built-in function print> cannot be used as a task: it needs": lambda: UNTYPED.serial(
        print, repr
    ),
    "task 'a/b' cannot be used as a task: its name is": lambda: phases.task("a/b")(print),
    "no step 'b' among those of this report: a$": lambda: REPORT.find("b"),
    "would_fail of its plan is 5; it must be a sentence": lambda: _plan_with(would_fail=5),
    "plan cannot be used: it has wouldFail, and no would_fail: write": lambda: _plan_with(
        wouldFail="no disk"
    ),
    r"within: this block has run; write `with ctx.within\(…\):` again": _enter_twice,
    "find: action is 'Undo'; it must be do, plan or undo": lambda: REPORT.find("a", action="Undo"),
    "no step 'a' among those of this report with the action undo": lambda: REPORT.find(
        "a", action="undo"
    ),
    "observers: it has on_attempt_failed, and no attempt_failed": lambda: UNTYPED.run(
        TASK, observers=[OnAttempt()]
    ),
    r"retry: on is \(\); it must be a type of errors": lambda: phases.retry(TASK, on=()),
    "retry: attempts is 0; it must be a whole": lambda: phases.retry(TASK, attempts=0),
    "attempts is 2.5; it must be a whole number": lambda: UNTYPED.retry(TASK, attempts=2.5),
    "attempts is True; it must be a whole number": lambda: phases.retry(TASK, attempts=True),
    "retry: delay is -1; it must": lambda: phases.retry(TASK, delay=-1),
    "is 60; it must be a number, from 0 to 30": lambda: phases.retry(TASK, delay=60),
    "retry: delay is '2'; it must": lambda: UNTYPED.retry(TASK, delay="2"),
    "jitter is 2; it must be a number, from 0 to 1": lambda: phases.retry(TASK, jitter=2),
    "parallel: at_once is 0; it must be a whole": lambda: phases.parallel(at_once=0),
    "deadline: seconds is inf; it must be a": lambda: phases.deadline(TASK, float("inf")),
    "a time limit is -5": lambda: Context().within(-5).__enter__(),
    "sleep: seconds is nan; it must be a number": lambda: Context().sleep(float("nan")),
    "ctx is that of the whole run, and not that of the task a; use": lambda: error_in_task(
        lambda _ctx: OUTER.check(), OUTER
    ),
    "it has undo_, and no undo: write undo": lambda: UNTYPED.serial(_Own(undo_=print)),
    "it has plna, and no plan: write plan": lambda: UNTYPED.serial(_Own(plna=print)),
    "Skip: reason is empty; say why": lambda: phases.Skip(" "),
    "skip is {'a': False}; it must be a name, or a list": lambda: UNTYPED.run(
        TASK, skip={"a": False}
    ),
    "observers: its observer is the class LogObserver; pass an": lambda: UNTYPED.run(
        TASK, observers=[phases.LogObserver]
    ),
    "observers: attempt_failed does not take failed alone": lambda: UNTYPED.run(
        TASK, observers=[TwoArguments()]
    ),
    "'FAILED' is not a status; they are running, ok, failed": lambda: REPORT.status == "FAILED",
    "inner_step: its name is 'a/b'; a name": lambda: phases.inner_step("a/b", Context()),
    "inner_step: ctx is None; it must be": lambda: UNTYPED.inner_step("a", None),
    "Skip: reason is 5; it must be a text": lambda: UNTYPED.Skip(5),
    "when: reason is 5; it must be": lambda: UNTYPED.when(True, TASK, reason=5),
    "when: its condition is 'yes'; it must be a function": lambda: UNTYPED.when("yes", TASK),
    r"when: its condition is FunctionTask\('b'\); it": lambda: UNTYPED.when(
        phases.task("b")(print), TASK
    ),
    "when: condition does not take ctx": lambda: UNTYPED.when(lambda: True, TASK),
    "differences: later is '{}'; it must be a report": lambda: REPORT.differences(UNTYPED_TEXT),
    r"retry: on is \(<class 'OSError'>, 'x'\); it": lambda: UNTYPED.retry(TASK, on=(OSError, "x")),
    "retry: on is <class 'KeyboardInterrupt'>; it": lambda: UNTYPED.retry(
        TASK, on=KeyboardInterrupt
    ),
    "'Block' object has no attribute 'resutl'": lambda: error_in_task(_misspell_the_result),
    "observers: its observer is 5; it must be a function of step": lambda: UNTYPED.run(
        TASK, observers=[5]
    ),
    "observers is <.*Recorder": lambda: UNTYPED.run(TASK, observers=Recorder()),
    "clock is <class .*; it must be a phases.Clock": lambda: UNTYPED.run(TASK, clock=FakeClock),
    "run: ctx is <.*FakeClock": lambda: UNTYPED.run(TASK, ctx=FakeClock()),
    "run: undo_on_failure is 'no'": lambda: UNTYPED.run(TASK, undo_on_failure="no"),
    "run: give observers, clock": lambda: phases.run(TASK, ctx=quiet(), observers=[]),
    "run: give observers, clock and": lambda: phases.run(TASK, ctx=quiet(), clock=FakeClock()),
    "run: give observers, clock and lo": lambda: phases.run(TASK, ctx=quiet(), logger="agent"),
    "only is <.*; it must be a name, or a list": lambda: UNTYPED.run(TASK, only=[TASK]),
    "undo: of is '{.*; it must be a report": lambda: UNTYPED.undo(TASK, of=REPORT.to_json()),
    "on_cancel: callback is None": lambda: UNTYPED.Context().on_cancel(None),
    "sleep: seconds is '5'; it must be a number": lambda: UNTYPED.Context().sleep("5"),
    "cancel: reason is None; it must be a text": lambda: UNTYPED.Context().cancel(None),
    r"a report is always true; write `report\.ok`": lambda: bool(REPORT),
}
UNTYPED_TEXT: Any = "{}"


@pytest.mark.parametrize(("words", "call"), REFUSED.items())
def test_arguments_that_are_refused(words: str, call: Callable[[], object]) -> None:
    """At once, with the name of the argument, the value and the rule."""
    with pytest.raises((TypeError, ValueError, AttributeError, RuntimeError), match=words):
        call()


def test_a_task_that_hides_another_one() -> None:
    """There is a warning if a plan, or an undo, of a task would leave out one that it runs."""
    inner = phases.task("inner", undo=print)(print)
    outer = FunctionTask("outer", partial(phases.execute, inner))
    with pytest.warns(RuntimeWarning, match=r"^inner has undo, and outer, which runs it, does not"):
        ran(outer)
    assert ran(attrs.evolve(outer, subtasks=(inner,))).ok
    assert ran(attrs.evolve(outer, undo=print)).ok
    with phases.inner_step("part", quiet()) as part:  # of no task
        phases.execute(inner, part.ctx)


def test_the_line_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    """A record of `ctx.log` has the place in the task, not one in phases."""
    assert ran(phases.task("a")(lambda ctx: ctx.log.warning("here"))).ok
    [record] = caplog.records
    assert record.pathname == __file__


def test_a_run_in_a_running_event_loop() -> None:
    """Nothing else would run in the loop meanwhile, so it is refused, with the way out."""
    task = StubTask("a")

    async def run_in_loop() -> dict[str, str]:
        remedies: dict[str, str] = {}
        for use in (phases.run, phases.execute, phases.plan, phases.undo):
            with pytest.raises(RuntimeError) as caught:
                use(task)
            name, _, remedy = str(caught.value).partition(": the event loop would stand still; ")
            remedies[name] = remedy
        assert (await asyncio.to_thread(phases.run, task, observers=[])).ok
        return remedies

    assert asyncio.run(run_in_loop()) == {
        "run": "write `await phases.run_async(task)`",
        "execute": "write `await asyncio.to_thread(phases.execute, task)`",
        "plan": "write `await asyncio.to_thread(phases.plan, task)`",
        "undo": "write `await asyncio.to_thread(phases.undo, task)`",
    }


INSIDE = {
    phases.execute: "phases.execute(task, ctx)",
    phases.run: "phases.execute(task, ctx)",
    phases.plan: "phases.plan(task, ctx=ctx)",
    phases.undo: "phases.undo(task, ctx)",
}


@pytest.mark.parametrize(("use", "remedy"), INSIDE.items())
def test_a_run_inside_a_task(use: Callable[..., object], remedy: str) -> None:
    """Without the task's context, nothing that cancels the run around would cancel it, nor with
    that of the whole run; so it is refused, unless it has a context of its own.
    """
    inner = StubTask("inner", result=1)
    root = quiet()

    def careless(given: Context | None) -> str:
        """What is said of a task that does not pass its own context on."""
        task = phases.task("careless")(lambda _: use(inner, ctx=given))
        report = phases.run(phases.parallel(task, name="group"), ctx=root)
        return str(report.failures[0].error)

    said = (
        f"; write {remedy} with the context of the task, or pass a new phases.Context() for a run "
        "of its own, which nothing cancels"
    )
    without = "it is called in the task group/careless without its context"
    of_the_run = "ctx is that of the whole run, and not that of the task group/careless"
    assert careless(None) == f"{use.__name__}: {without}{said}"
    assert careless(root) == f"{use.__name__}: {of_the_run}{said}"
    assert inner.calls == 0
    separate = phases.task("separate")(lambda _: use(inner, ctx=quiet()))
    assert ran(separate).ok
    assert use(inner, ctx=quiet()) is not None
    assert phases.plan(inner).ok  # the task around has ended


def test_a_failure_of_another_run() -> None:
    """It is an error like any other: the steps of that run are not in this report."""
    fails = StubTask("b", errors=[OSError("busy")])
    report = ran(phases.task("a")(lambda _: phases.execute(fails, quiet())))
    assert report.failures == (report,)
    assert isinstance(report.error, phases.TaskFailed)


def test_a_run_with_the_context_of_a_task() -> None:
    """Its failure would be lost: the report that it returns is nobody's."""
    inner = StubTask("inner")

    def beside_a_loop(ctx: Context) -> object:
        return asyncio.run(phases.run_async(inner, ctx=ctx))

    for do in (lambda ctx: phases.run(inner, ctx=ctx), beside_a_loop):
        words = str(ran(phases.task("a")(do)).error)
        assert "ctx is that of the task a, which would not fail with the run; write" in words
        assert "write phases.execute(task, ctx) with" in words
    careless = phases.task("a")(lambda _: phases.inner_step("b", root).__enter__())
    root = quiet()
    assert "inner_step: ctx is that of the whole" in str(phases.run(careless, ctx=root).error)
    assert inner.calls == 0


def test_a_thread_that_outlives_its_task() -> None:
    """The task has failed: what the thread does afterwards would be lost."""
    has_begun = threading.Event()
    may_end = threading.Event()

    @phases.task("inner")
    def inner(_ctx: Context) -> None:
        has_begun.set()
        may_end.wait(60)

    threads: list[threading.Thread] = []

    @phases.task("outer")
    def outer(ctx: Context) -> None:
        threads.append(threading.Thread(target=phases.execute, args=(inner, ctx)))
        threads[0].start()
        has_begun.wait(60)

    report = ran(outer)
    may_end.set()
    threads[0].join()
    words = "the step inner inside it has not ended: wait for its thread before the end"
    assert (report.exit_code, str(report.error)) == (1, words)


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
        (OSError("disk full"), "disk full", 1),
        (2, "SIGINT", 130),
        (signal.SIGRTMIN + 3, "signal 37", 165),
    ],
)
def test_the_reason_of_a_cancellation(reason: str | int | OSError, words: str, code: int) -> None:
    """Whoever cancels a run by its context gives it, and the run still reports. A program that
    handles a signal itself passes it on.
    """
    ctx = quiet()
    stop = phases.task("stop")(lambda _: ctx.cancel(reason))
    report = phases.run(phases.serial(stop, StubTask("start")), ctx=ctx)
    assert report.status is Status.CANCELLED
    assert report.find("start").reason == words
    assert report.exit_code == code


@pytest.mark.parametrize("reason", [True, 999, "SIGTERM"])
def test_what_is_neither_a_reason_nor_a_signal(reason: str | int) -> None:
    """It would be a reason that nobody meant, and exit code 1."""
    ctx = Context()
    with pytest.raises(ValueError, match=f"{reason!r}.*a signal is written as signal.SIGTERM"):
        ctx.cancel(reason)
    assert not ctx.cancelled


def test_a_system_that_starts_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is the failure in the report: `run` and `run_async` return one whatever happens."""

    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    seen = Recorder()
    ctx = Context(observers=[seen])
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    for report in (
        phases.run(StubTask("boot"), ctx=ctx),
        asyncio.run(phases.run_async(StubTask("boot"), ctx=ctx)),
    ):
        assert (report.why, report.exit_code) == ("RuntimeError: can't start new thread", 1)
        assert report.failures == (report,)
    assert seen.starts == ["boot", "boot"]
    assert seen.ends == [("boot", Status.FAILED)] * 2


def test_a_plural_is_another_thing() -> None:
    """A task may have attributes that are called plans or undos."""
    assert UNTYPED.run(_Own(plans=("a", "b")), observers=[]).ok
