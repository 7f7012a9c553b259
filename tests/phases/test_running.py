"""execute and run: every possible end of a task, and what is around the tasks of a program."""

import asyncio
import contextvars
import json
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import pytest

import phases
from phases import Context, Status, Step
from phases.tasks import FunctionTask
from phases.testing import FakeClock, Recorder, StubTask


def test_failures_of_other_steps() -> None:
    """A failure that a task catches is not its own; that of a separate run inside it is, with its
    cause intact.
    """

    @phases.task("catches")
    def catches(ctx: Context) -> str:
        try:
            phases.execute(StubTask("first", errors=repeat(OSError("full"))), ctx)
        except phases.TaskFailed as failed:
            return f"went on after {failed.failures[0].name}"
        raise AssertionError

    @phases.task("passes")
    def passes(_ctx: Context) -> None:
        phases.execute(StubTask("elsewhere", errors=repeat(OSError("full"))), Context(observers=[]))

    report = phases.run(phases.serial(catches, passes), observers=[])
    assert report.find("catches").result == "went on after first"
    assert report.find("first").status is Status.FAILED
    [failure] = report.failures
    assert failure.path == ("serial", "passes")
    assert isinstance(failure.error, phases.TaskFailed)
    assert isinstance(failure.error.failures[0].error, OSError)


def test_a_system_that_starts_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is a failure of the run like any other: it is in the report."""
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    seen = Recorder()
    report = phases.run(StubTask("boot"), observers=[seen])
    assert report.exit_code == 1
    assert report.failures == (report,)
    assert report.why == "RuntimeError: can't start new thread"
    assert seen.starts == []


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


async def _asynchronous(_ctx: phases.Context) -> None:
    """Would return a coroutine, and nothing in it would run."""


def _yields(_ctx: phases.Context) -> Iterator[None]:
    """Would return a generator."""
    yield


async def _yields_asynchronously(_ctx: phases.Context) -> AsyncIterator[None]:
    """Would return an asynchronous generator."""
    yield


class _Pair(NamedTuple):
    """One value of two parts, such as a configuration."""

    one: str
    other: str


REPORT = phases.run(StubTask("a"), observers=[])


class _Named:
    """Has a name, and nothing to do."""

    name = "own"


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (lambda _ctx: None, "cannot be used as a task: it needs a method"),
        (StubTask, "StubTask'> cannot be used as a task: .* pass an instance"),
        ([StubTask("a")], r"^you passed a list; pass each task: serial\(\*tasks\)$"),
        ((StubTask("a"),), "^you passed a tuple; pass each task"),
        (_Pair("a", "b"), r"^_Pair\(.*\) cannot be used as a task: it needs"),  # no list of tasks
        (None, "None cannot be used as a task"),
        (_Named(), "^task 'own' cannot be used as a task: it needs a method"),
        (StubTask(""), "its name is ''"),
        (StubTask("a/b"), "its name is 'a/b'"),
        (StubTask("a\nb"), r"its name is 'a\\nb'"),
        (StubTask(7), "its name is 7"),  # type: ignore[arg-type]  # the mistake that is tested
    ],
)
def test_objects_that_are_not_tasks(candidate: object, words: str) -> None:
    """An object that is not a task is refused when the tree is built, with the remedy."""
    wrappers = (phases.retry, partial(phases.deadline, seconds=5), partial(phases.when, True))
    for use in (phases.serial, phases.execute, *wrappers):
        with pytest.raises(phases.InvalidTask, match=words):
            use(candidate)  # type: ignore[arg-type]  # the mistake that is tested


@pytest.mark.parametrize("function", [_asynchronous, _yields, _yields_asynchronously])
def test_functions_that_a_call_does_not_run(function: Callable[[Context], object]) -> None:
    """An async function or a generator would be a step that is ok and did nothing, so it is
    refused.
    """
    make: Callable[..., object] = partial(FunctionTask, "a")
    for verb in ("do", "plan", "undo"):
        with pytest.raises(phases.InvalidTask, match="is async or a generator"):
            make(**{"do": print, verb: function})


def test_a_condition_that_nothing_evaluates() -> None:
    """The coroutine of an async condition would always be true, so it is refused, too."""
    condition: Any = _asynchronous
    with pytest.raises(phases.InvalidTask, match="when: its condition is async or a generator"):
        phases.when(condition, StubTask("a"))
    with pytest.raises(
        phases.InvalidTask, match=r"condition does not take the context alone; write condition"
    ):
        phases.when(lambda: True, StubTask("a"))  # type: ignore[arg-type, misc]
    task = StubTask("a")
    hidden = phases.when(lambda ctx: condition(ctx), task)  # noqa: PLW0108  the mistake
    report = phases.run(hidden, observers=[])
    assert str(report.error) == (
        "a: its condition returned a coroutine, which nothing runs; call asyncio.run in it"
    )
    assert task.calls == 0


class _Group:
    """A group of one's own."""

    name = "own"
    subtasks: object = ()

    def do(self, _ctx: Context) -> None:
        """Nothing."""


def _cycle() -> _Group:
    """A group that contains itself, in a group."""
    group = _Group()
    group.subtasks = (phases.serial(group, name="inner"),)
    return group


def _own(**attributes: object) -> _Group:
    group = _Group()
    vars(group).update(attributes)
    return group


@pytest.mark.parametrize("use", [phases.run, phases.plan, phases.undo])
@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (_own(subtasks=StubTask("a")), r"its subtasks are <.*>; they must be a tuple: \(task,\)"),
        (_own(subtasks=[StubTask("a")]), "they must be a tuple"),
        (_own(subtasks=(5,)), "5 cannot be used as a task"),
        (_cycle(), "it contains itself"),
        (
            _own(do=lambda: None),
            r"do does not take the context alone; write do\(ctx\), and in a class do\(self, ctx\)",
        ),
        (
            _own(undo=lambda _ctx, _more: None),
            r"undo does not take the context alone; write undo\(ctx\)",
        ),
        (_own(plan="would load it"), r"its plan is 'would load it'; it must be a function of the"),
    ],
)
def test_tasks_that_are_used_wrongly(
    use: Callable[[Any], object], candidate: Any, words: str
) -> None:
    """A tree that could not run is refused before the first task, with what is wrong."""
    with pytest.raises(phases.InvalidTask, match=words):
        use(candidate)


def test_functions_that_are_used_wrongly() -> None:
    """They are refused where the task is made; a builtin whose parameters nobody knows is not."""
    make: Any = FunctionTask
    with pytest.raises(
        phases.InvalidTask, match=r"^task 'a' cannot be used as a task: do does not take"
    ):
        phases.task("a")(lambda: None)  # type: ignore[arg-type, misc]  # the mistake that is tested
    with pytest.raises(phases.InvalidTask, match="its plan is 'text'"):
        make("a", print, plan="text")
    with pytest.raises(phases.InvalidTask, match="they must be a tuple"):
        make("a", print, subtasks=StubTask("b"))
    assert phases.run(make("a", type), observers=[]).ok


def test_a_decorator_without_a_name() -> None:
    """It is refused above the function, and not where the function is used as a task."""

    def download(_ctx: Context) -> None:
        """Nothing."""

    without_name: Any = phases.task
    with pytest.raises(
        phases.InvalidTask, match=r"^the task has no name; write @phases.task\('download'\)$"
    ):
        without_name(download)


def test_a_coroutine_that_nothing_runs() -> None:
    """A function that returns one has not done its work: its step has failed, also in an undo."""
    hidden = phases.task("a")(lambda ctx: _asynchronous(ctx))  # noqa: PLW0108  the mistake
    undo_runs_it = phases.task("b", undo=lambda ctx: phases.execute(hidden, ctx))(print)
    undone = phases.undo(undo_runs_it, Context(observers=[]))
    for report in (phases.run(hidden, observers=[]), undone):
        assert str(report.failures[0].error) == (
            "a returned a coroutine, which nothing runs; call asyncio.run in it"
        )


def test_a_part_of_a_task_as_a_step() -> None:
    """Its result stays in the task, also a Skip; a selection of tasks does not leave it out."""

    @phases.task("install")
    def install(ctx: Context) -> object:
        with phases.inner_step("files", ctx) as step:
            step.result = phases.Skip("they are there")
        skipped = step.result
        with phases.inner_step("guard", ctx) as step:
            step.ctx.log.info("starts")
            step.result = ["guard.service"]
        assert step.result == ["guard.service"]
        return skipped

    report = phases.run(install, observers=[], only="install")
    assert report.reason == report.find("install/files").reason == "they are there"
    assert report.find("install/guard").result == ["guard.service"]


TASK = StubTask("a")
OTHER_TASK = phases.task("b")(print)


def test_a_run_in_a_running_event_loop() -> None:
    """Nothing else would run in the loop meanwhile, so it is refused, with the way out."""
    task = StubTask("a")

    async def run_in_loop() -> list[str]:
        refused: list[str] = []
        for use in (phases.run, phases.execute, phases.undo):
            with pytest.raises(RuntimeError) as caught:
                use(task)
            name, _, remedy = str(caught.value).partition(": the event loop would stand still; ")
            refused += [name, remedy]
        assert (await asyncio.to_thread(phases.run, task, observers=[])).ok
        return refused

    assert asyncio.run(run_in_loop()) == [
        "run",
        "write `await phases.run_async(task)`",
        "execute",
        "write `await asyncio.to_thread(phases.execute, task)`",
        "undo",
        "write `await asyncio.to_thread(phases.undo, task)`",
    ]


UNTYPED: Any = phases
"""phases, for calls that a type checker would refuse."""
UNTYPED_CONTEXT: Any = Context
UNTYPED_STUB: Any = StubTask

REFUSED_ARGUMENTS: dict[str, tuple[Callable[[], object], str]] = {
    "inner_step: a path": (
        lambda: phases.inner_step("a/b", Context()),
        "inner_step: its name is 'a/b'; a name must be non-empty",
    ),
    "inner_step: no context": (
        lambda: UNTYPED.inner_step("a", None),
        "inner_step: ctx is None; it must be the phases.Context of the running task",
    ),
    "Skip: a number": (lambda: UNTYPED.Skip(5), "Skip: reason is 5; it must be a text"),
    "when: a reason": (lambda: UNTYPED.when(True, TASK, reason=5), "when: reason is 5; it must be"),
    "differences: JSON": (
        lambda: UNTYPED.plan(TASK).differences("{}"),
        "differences: later is '{}'; it must be a report: Step.from_json",
    ),
    "retry: a list of types": (
        lambda: UNTYPED.retry(TASK, on=[OSError]),
        r"retry: on is \[<class 'OSError'>\]; it must be a type of errors, or a tuple of types",
    ),
    "retry: the name of a type": (
        lambda: UNTYPED.retry(TASK, on="OSError"),
        "retry: on is 'OSError'",
    ),
    "when: a text": (
        lambda: UNTYPED.when("yes", TASK),
        "when: its condition is 'yes'; it must be True, False or a function of the context",
    ),
    "when: None": (
        lambda: UNTYPED.when(None, TASK),
        "when: its condition is None; it must be True, False or a function of the context",
    ),
    "when: a task": (
        lambda: UNTYPED.when(OTHER_TASK, TASK),
        r"when: its condition is FunctionTask\('b'\); it must",
    ),
    "run: an observer that cannot be called": (
        lambda: UNTYPED.run(TASK, observers=[5]),
        "observers has 5; an observer is a function of a step",
    ),
    "run: one observer": (
        lambda: UNTYPED.run(TASK, observers=Recorder()),
        "observers is <.*Recorder.*; it must be a list of observers",
    ),
    "run: the class of a clock": (
        lambda: UNTYPED.run(TASK, clock=FakeClock),
        r"clock is <class .*FakeClock'>; it must be a phases.Clock, such as FakeClock\(\)",
    ),
    "run: a clock in place of a context": (
        lambda: UNTYPED.run(TASK, ctx=FakeClock()),
        r"run: ctx is <.*FakeClock.*; it must be a phases.Context",
    ),
    "run: a text in place of a bool": (
        lambda: UNTYPED.run(TASK, undo_on_failure="no"),
        "run: undo_on_failure is 'no'; it must be True or False",
    ),
    "run: only a number": (
        lambda: UNTYPED.run(TASK, only=5),
        "only is 5; it must be a name, or a list of names",
    ),
    "run: only a list with a task": (
        lambda: UNTYPED.run(TASK, only=[TASK]),
        "only is <.*; it must be a name, or a list of names$",
    ),
    "run: skip a task": (
        lambda: UNTYPED.run(TASK, skip=OTHER_TASK),
        r"skip is FunctionTask\('b'\); it must be a name",
    ),
    "plan: a number in place of a context": (
        lambda: UNTYPED.plan(TASK, ctx=5),
        "plan: ctx is 5; it must be a phases.Context",
    ),
    "execute: a report in place of a context": (
        lambda: UNTYPED.execute(TASK, REPORT),
        r"execute: ctx is <Step a ok>; it must be a phases.Context",
    ),
    "undo: a report in place of a context": (
        lambda: UNTYPED.undo(TASK, REPORT),
        r"undo: ctx is <Step a ok>; it must be a phases.Context; a report is passed as of=…$",
    ),
    "undo: the text of a report": (
        lambda: UNTYPED.undo(TASK, of=REPORT.to_json()),
        "undo: of is '{.*; it must be a report, as run returned it$",
    ),
    "Context: a module in place of a clock": (
        lambda: UNTYPED_CONTEXT(clock=time),
        "clock is <module 'time'.*; it must be a phases.Clock",
    ),
    "Context: the class of an observer": (
        lambda: UNTYPED_CONTEXT(observers=[Recorder]),
        "observers has <class .*Recorder'>; an observer",
    ),
    "on_cancel: None": (
        lambda: UNTYPED_CONTEXT().on_cancel(None).__enter__(),
        "on_cancel: callback is None; it must be a function",
    ),
    "sleep: a text": (
        lambda: UNTYPED_CONTEXT().sleep("5"),
        "sleep: seconds is '5'; it must be a number",
    ),
    "StubTask: one error": (
        lambda: UNTYPED_STUB("a", errors=OSError("busy")),
        r"errors is OSError\('busy'\); it must be a list of errors",
    ),
}


@pytest.mark.parametrize("clock", [phases.Clock(), FakeClock()])
def test_a_sleep_that_would_never_end(clock: phases.Clock) -> None:
    """What is not a number is no time to wait for: no moment is later than it."""
    with pytest.raises(ValueError, match="sleep: seconds is nan; it must be a number"):
        Context(clock=clock).sleep(float("nan"))


@pytest.mark.parametrize(("call", "words"), REFUSED_ARGUMENTS.values(), ids=REFUSED_ARGUMENTS)
def test_arguments_that_are_refused(call: Callable[[], object], words: str) -> None:
    """At once, with the name of the argument, the value and the rule."""
    with pytest.raises(TypeError, match=words):
        call()


def test_a_task_in_a_message() -> None:
    """A task is shown by its name."""
    with pytest.raises(ValueError, match=r"seconds is FunctionTask\('a'\); it must be a number"):
        UNTYPED.deadline(60, phases.task("a")(print))  # the wrong way round


def test_the_class_skip() -> None:
    """A class that was returned in place of a Skip would be a result, and the task be undone."""
    report = phases.run(phases.task("a")(lambda _ctx: phases.Skip), observers=[])
    assert report.why == "InvalidTask: it returned the class Skip; write Skip('the reason')"


def test_mistakes_are_not_tried_again() -> None:
    """A name that no step has, what is not a task, and a task without its context are the same at
    the next attempt.
    """
    no_task: Any = 5
    mistakes: list[Callable[[Context], object]] = [
        lambda ctx: ctx.find("typo"),
        lambda ctx: phases.execute(no_task, ctx),
        lambda _: phases.execute(StubTask("b")),
    ]
    for mistake in mistakes:
        task = phases.retry(phases.task("a")(mistake))
        assert phases.run(task, clock=FakeClock(), observers=[]).attempts == 1


def test_observers_and_logs_that_raise(caplog: pytest.LogCaptureFixture) -> None:
    """What an observer raises is logged, if that can be written, and affects neither tasks nor
    other observers.
    """

    class BrokenLog(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            raise OSError("no space left")

    def broken(_step: Step) -> None:
        raise SystemExit("observer out of order")

    seen, logger = Recorder(), logging.getLogger("phases.test.broken")
    assert phases.run(StubTask("a"), observers=[broken, seen]).ok
    assert len(seen.ends) == 1
    assert "the run continues" in caplog.text
    assert "observer out of order" in caplog.text
    logger.addHandler(BrokenLog())
    logger.setLevel(logging.INFO)
    assert phases.run(StubTask("a"), logger=logger, observers=[phases.LogObserver(logger)]).ok


@pytest.mark.parametrize("status", [Status.RUNNING, Status.OK])
def test_an_observer_that_raises_keyboard_interrupt(status: Status) -> None:
    """That is not Ctrl-C, which comes in the main thread: nobody else misses a start or an end."""

    def interrupting(step: Step) -> None:
        if step.status is status:
            raise KeyboardInterrupt

    seen = Recorder()
    assert phases.run(phases.serial(StubTask("a")), observers=[interrupting, seen]).ok
    assert seen.starts == ["serial", "serial/a"]
    assert seen.ends == [("serial/a", Status.OK), ("serial", Status.OK)]


def test_observers_are_called_one_at_a_time() -> None:
    """An observer need not lock anything, although tasks start and end in many threads."""
    inside: list[str] = []
    overlaps: list[tuple[str, ...]] = []

    def slow(step: Step) -> None:
        inside.append(step.name)
        time.sleep(0.002)
        overlaps.append(tuple(inside))
        inside.remove(step.name)

    tasks = [StubTask(f"t{number}") for number in range(8)]
    phases.run(phases.parallel(*tasks), observers=[slow])
    assert [len(names) for names in overlaps] == [1] * 18


@pytest.mark.parametrize("group", [phases.serial, phases.parallel])
@pytest.mark.parametrize(
    "stop", [SystemExit(3), GeneratorExit(), asyncio.CancelledError()], ids=repr
)
def test_a_task_that_raises_no_exception(
    stop: BaseException, group: Callable[..., phases.Task[object]]
) -> None:
    """What is not an Exception fails its task:
    execute raises it unchanged, run reports it, once.
    """
    seen, tree = Recorder(), group(StubTask("a", seconds=1, errors=repeat(stop)))
    with pytest.raises(type(stop)) as caught:
        phases.execute(tree, Context(clock=FakeClock(), observers=[seen]))
    assert caught.value is stop
    assert [status for _, status in seen.ends] == [Status.FAILED, Status.FAILED]
    report = phases.run(tree, clock=FakeClock(), observers=[])
    assert report.status is Status.FAILED
    assert report.exit_code == 1
    assert [(failure.name, failure.error) for failure in report.failures] == [("a", stop)]


class _Unreadable(StubTask):
    """Cannot say what is in it."""

    @property
    def subtasks(self) -> tuple[phases.AnyTask, ...]:
        raise ValueError("no such file")


@pytest.mark.parametrize("undo_on_failure", [False, True])
def test_errors_around_the_task(*, undo_on_failure: bool) -> None:
    """What a clock raises is an error in the report, too; what a property of the task raises comes
    before the run.
    """

    class Broken(FakeClock):
        def now(self) -> float:
            raise OSError("no time")

    clock = Broken()
    report = phases.run(StubTask("a"), clock=clock, observers=[], undo_on_failure=undo_on_failure)
    assert report.status is Status.FAILED
    assert report.exit_code == 1
    assert [*report.failures] == [report]
    assert isinstance(report.error, OSError)
    with pytest.raises(ValueError, match="no such file"):
        phases.run(_Unreadable("a"), observers=[], undo_on_failure=undo_on_failure)


@pytest.mark.parametrize(
    ("attribute", "use"),
    [("do", phases.run), ("plan", phases.plan), ("undo", phases.undo)],
)
def test_a_property_that_raises_when_its_task_is_called(
    attribute: str, use: Callable[..., Step]
) -> None:
    """The step of the task has failed with that error:
    it has a start and an end, like any other.
    """
    is_broken: list[object] = []

    def read(_task: object) -> object:
        if is_broken:
            raise ValueError("no such file")
        return print

    broken: Any = type("Broken", (), {"name": "broken", "do": print, attribute: property(read)})()
    breaks = FunctionTask("breaks", is_broken.append, is_broken.append, is_broken.append)
    seen = Recorder()
    report = use(phases.serial(breaks, broken, breaks), ctx=Context(observers=[seen]))
    step = report.find("broken")
    assert report.failures == (step,)
    assert isinstance(step.error, ValueError)
    assert seen.starts.count("serial/broken") == 1
    assert seen.ends.count(("serial/broken", Status.FAILED)) == 1


def test_context_variables_in_a_run() -> None:
    """A task sees the caller's, although `run` calls it in a thread of its own."""
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller's")
    report = phases.run(phases.task("look")(lambda _ctx: variable.get()), observers=[])
    assert report.result == "caller's"


def test_a_run_is_cancelled_from_outside() -> None:
    """Another part of the program cancels a run by its context, and the run still reports; the
    context also has the clock, the logger and the observers of the run.
    """
    seen, started = Recorder(), threading.Event()
    ctx = Context(observers=[seen])

    @phases.task("download")
    def download(inner: Context) -> None:
        started.set()
        inner.sleep(1000)

    def stop() -> None:
        started.wait(100)
        ctx.cancel("the agent is shutting down")

    thread = threading.Thread(target=stop)
    thread.start()
    report = phases.run(phases.serial(download, StubTask("start")), ctx=ctx)
    thread.join()
    assert report.status is Status.CANCELLED
    assert report.find("download").reason == "the agent is shutting down"
    assert report.exit_code == 1
    assert seen.ends[-1] == ("serial", Status.CANCELLED)
    for other in ({"observers": [seen]}, {"clock": FakeClock()}, {"logger": "agent"}):
        with pytest.raises(TypeError, match="run: give observers, clock and logger to the context"):
            phases.run(download, ctx=ctx, **other)


@pytest.mark.parametrize("moment", ["before it starts", "while it runs"])
@pytest.mark.parametrize(
    ("reason", "words", "number", "code"),
    [
        (signal.SIGTERM, "SIGTERM", 15, 143),
        (2, "SIGINT", 2, 130),
        (signal.SIGRTMIN + 3, f"signal {signal.SIGRTMIN + 3}", signal.SIGRTMIN + 3, 165),
        ("the agent is shutting down", "the agent is shutting down", None, 1),
        (TimeoutError("no lease"), "no lease", None, 1),  # what an agent has at hand
    ],
)
def test_a_run_is_cancelled_because_of_a_signal(
    moment: str, reason: Any, words: str, number: int | None, code: int
) -> None:
    """A program that handles signals itself passes them on: the report, also as observers get it,
    has the number at its root, and the exit code is as if `run` had handled the signal.
    """
    observed: list[tuple[str, int | None]] = []

    def observe(step: Step) -> None:
        observed.append((step.name, step.signal))

    ctx = Context(observers=[observe])
    stop = phases.task("stop")(lambda inner: inner.cancel(reason))
    if moment == "before it starts":
        ctx.cancel(reason)

    report = phases.run(phases.serial(stop, StubTask("next"), name="all"), ctx=ctx)
    ctx.cancel(signal.SIGHUP)  # too late to be the reason

    assert report.status is Status.CANCELLED
    assert report.reason == words
    assert report.signal == number
    assert report.exit_code == code
    assert observed[-1] == ("all", number)
    for step in report.children:
        assert step.signal is None, step.name
    assert json.loads(report.to_json())["reason"] == words


def test_a_plan_in_a_context_of_ones_own() -> None:
    """It is cancelled with its context, and its observers see each step; undo waits for its end."""
    seen = Recorder()
    ctx = Context(observers=[seen])
    planned = phases.task("a", plan=lambda inner: inner.cancel("enough"))(lambda _: None)
    report = phases.plan(phases.serial(planned, planned), ctx=ctx)
    assert [step.status for step in report.children] == [Status.OK, Status.CANCELLED]
    assert seen.ends[-1] == ("serial", Status.CANCELLED)
    assert phases.undo(StubTask("a"), ctx=ctx).status is Status.SKIPPED


def test_several_runs_in_one_context() -> None:
    """Each has an id of its own, which its steps and its log lines have: an error that is raised
    again belongs to the run in which it began.
    """
    logged: list[str] = []
    ctx = Context(observers=[])
    fails = StubTask("fails", errors=[OSError("refused")])

    @phases.task("again")
    def again(inner: Context) -> None:
        logged.append(inner.run_id)
        raise phases.TaskFailed(first.failures)

    first = phases.run(fails, ctx=ctx)
    second = phases.run(again, ctx=ctx)
    with pytest.raises(phases.TaskFailed) as raised:
        phases.execute(again, ctx)
    third = raised.value.failures[0]

    assert len({first.run, second.run, third.run}) == 3
    assert logged == [second.run, third.run]
    assert second.failures == (second,)


def test_a_run_inside_a_task() -> None:
    """With a task's context, a run is a part of that task's run, names tasks as it would alone, and
    leaves out what the run around it leaves out.
    """
    inner = phases.serial(StubTask("a"), StubTask("b"), StubTask("c"), name="inner")

    class Outer:
        name = "outer"
        subtasks = (inner,)

        def do(self, ctx: Context) -> object:
            return phases.run(inner, ctx=ctx, only=["inner/a", "inner/b"])

    report = phases.run(Outer(), observers=[], skip="b", only=None)
    assert [step.reason for step in report.find("outer/inner").children] == [
        "",
        "left out by skip",
        "left out by only",
    ]


@pytest.mark.parametrize("use", [phases.execute, phases.run, phases.plan, phases.undo])
def test_a_run_inside_a_task_without_its_context(use: Callable[..., object]) -> None:
    """Nothing that cancels the run around would cancel it, so it is refused, unless it has a
    context of its own.
    """
    inner = StubTask("inner", 1)
    careless = phases.task("careless")(lambda _: use(inner))
    group = phases.parallel(careless, name="group")
    report = phases.run(group, observers=[])
    assert str(report.failures[0].error) == (
        f"{use.__name__}: it is called in the task group/careless without its context; pass ctx, "
        "or a phases.Context() for a run of its own, which nothing cancels"
    )
    assert inner.calls == 0
    separate = phases.task("separate")(lambda _: use(inner, ctx=Context(observers=[])))
    assert phases.run(separate, observers=[]).ok
    assert use(inner, ctx=Context(observers=[])) is not None  # the task around has ended


def test_a_plan_that_does_its_task() -> None:
    """A plan asks the task inside for its plan; in place of that, it must not do it."""
    inner = StubTask("inner")
    careless = phases.task("a", plan=lambda ctx: phases.execute(inner, ctx))(print)
    report = phases.plan(careless)
    assert str(report.error) == (
        "inner: a dry run would do it; in a plan, call phases.plan(task, ctx=ctx)"
    )
    assert inner.calls == 0


def test_a_run_inside_a_task_whose_name_it_skips() -> None:
    """The names are those of its own tasks, and not of what is around it."""
    inner = phases.serial(StubTask("a"), StubTask("outer"), name="inner")

    @phases.task("outer")
    def outer(ctx: Context) -> object:
        return phases.run(inner, ctx=ctx, skip="outer")

    report = phases.run(outer, observers=[])
    assert [step.reason for step in report.find("inner").children] == ["", "left out by skip"]
