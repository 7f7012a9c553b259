"""execute and run: every possible end of a task, and what is around the tasks of a program."""

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import phases
from phases import Context, Status
from phases.errors import BaseExceptionGroup
from phases.running import default_observers
from phases.testing import FakeClock, RecordingObserver, StubTask
from tests.support.programs import completed


def recorded() -> tuple[Context, RecordingObserver]:
    """A context on a fake clock, and its recording observer."""
    seen = RecordingObserver()
    return Context(clock=FakeClock(), observers=[seen]), seen


def test_without_a_context() -> None:
    """No context is needed to run a task."""
    assert phases.execute(StubTask("download", 42)) == 42


def test_exception() -> None:
    """An exception becomes TaskFailed with the path, the cause, and the whole traceback of the cause."""
    ctx, seen = recorded()

    @phases.task("download")
    def download(_ctx: Context) -> None:
        raise OSError("no route to host")

    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(phases.serial(download, name="bootstrap"), ctx)
    failed = caught.value
    assert failed.path == ("bootstrap", "download")
    assert isinstance(failed.error, OSError)
    assert failed.__cause__ is failed.error
    assert str(failed) == "download failed: OSError: no route to host (in bootstrap/download)"
    assert 'raise OSError("no route to host")' in "".join(traceback.format_exception(failed))
    assert seen.finished == [("bootstrap/download", Status.FAILED), ("bootstrap", Status.FAILED)]


def test_cancelled_is_not_swallowed_by_a_task_that_catches_exceptions() -> None:
    """A task that catches Exception and retries for ever still stops on cancellation."""
    ctx, _ = recorded()

    @phases.task("stubborn")
    def stubborn(inner: Context) -> None:
        while True:
            try:
                inner.sleep(1)
                if inner.clock.now() > 10:
                    inner.cancel("enough")
            except Exception:  # noqa: BLE001, S110  the bad habit that this test is about
                pass

    with pytest.raises(phases.Cancelled, match="enough"):
        phases.execute(stubborn, ctx)


def test_handled_failure() -> None:
    """A task may catch the failure of a step inside it and succeed; the report shows both."""
    ctx, seen = recorded()

    @phases.task("outer")
    def outer(ctx: Context) -> str:
        try:
            phases.execute(StubTask("first", always=OSError("full")), ctx)
        except phases.TaskFailed as failed:
            return f"went on after {failed.path[-1]}"
        raise AssertionError

    assert phases.execute(outer, ctx) == "went on after first"
    assert (seen.report.status, seen.report.children[0].status) == (Status.OK, Status.FAILED)


def test_failure_of_another_run() -> None:
    """The TaskFailed of a separate run inside a task is the task's own failure, with its cause intact."""
    ctx, _ = recorded()

    @phases.task("outer")
    def outer(_ctx: Context) -> None:
        phases.execute(StubTask("elsewhere", always=OSError("full")), Context(observers=[]))

    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(outer, ctx)
    assert caught.value.path == ("outer",)
    assert isinstance(caught.value.error, phases.TaskFailed)
    assert isinstance(caught.value.error.error, OSError)


def test_coroutine_is_refused() -> None:
    """An async function as a task fails, instead of doing nothing without an error."""

    async def download(_ctx: Context) -> int:
        return await asyncio.sleep(0, 1)

    with pytest.raises(phases.TaskFailed, match=r"do\(ctx\) returned a coroutine, so nothing was done"):
        phases.execute(phases.task("download")(download), Context(observers=[]))  # type: ignore[unused-coroutine]  # the mistake that is tested


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (lambda _ctx: None, r"no method do\(ctx\); decorate the function with @phases.task\('name'\)"),
        (StubTask, r"it is a class; pass an instance, StubTask\(…\)"),
        (object(), r"it has no method do\(ctx\)$"),
        (None, "None cannot be used as a task"),
        (StubTask(""), "its name is ''; a name must be non-empty, on one line and without '/'"),
        (StubTask("a/b"), "its name is 'a/b'"),
        (StubTask("a\nb"), r"its name is 'a\\nb'"),
        (StubTask(7), "its name is 7"),  # type: ignore[arg-type]  # the mistake that is tested
    ],
)
def test_what_is_no_task(candidate: object, words: str) -> None:
    """An object that is not a task is refused when the tree is built, with the remedy."""
    wrappers = (phases.retry, partial(phases.deadline, seconds=5), partial(phases.when, True))
    for use in (phases.serial, phases.execute, *wrappers):
        with pytest.raises(phases.InvalidTask, match=words):
            use(candidate)  # type: ignore[arg-type]  # the mistake that is tested


class Result:
    """A result whose log_fields raises when it is called."""

    def log_fields(self) -> dict[str, object]:
        """Raise an error."""
        raise RuntimeError("no idea")


class Lazy:
    """A result whose every attribute access raises."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("no idea")


@pytest.mark.parametrize("Result", [Result, Lazy])
def test_result_that_cannot_describe_itself(Result: type) -> None:  # noqa: N803  it is a class
    """A result whose log_fields raises does not fail its task; the log line has the error."""
    ctx, seen = recorded()
    phases.execute(StubTask("a", Result()), ctx)
    assert seen.report.status is Status.OK
    assert seen.report.fields == {"log_fields_error": "RuntimeError('no idea')"}


def test_error_that_cannot_print_itself() -> None:
    """An exception whose str() raises is still reported."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(phases.TaskFailed, match=r"MuteError: .its text cannot be printed."):
        phases.execute(StubTask("a", always=MuteError()), Context(observers=[]))


def test_from_a_running_event_loop() -> None:
    """In async code, a run is executed in a thread; the loop can cancel it through its context."""

    async def main() -> tuple[object, str]:
        first = await asyncio.to_thread(phases.execute, StubTask("a", 5))
        ctx = Context(observers=[])
        running = asyncio.create_task(asyncio.to_thread(phases.execute, StubTask("b", seconds=60), ctx))
        await asyncio.sleep(0.01)
        ctx.cancel("the loop says so")
        try:
            await running
        except phases.Cancelled as cancelled:
            return first, cancelled.reason
        raise AssertionError

    assert asyncio.run(main()) == (5, "the loop says so")


def test_cancelled_from_another_thread() -> None:
    """A sleeping task wakes at once when another thread cancels its run, on the real clock."""
    ctx = Context(observers=[])
    began = threading.Event()

    @phases.task("wait")
    def wait(inner: Context) -> None:
        began.set()
        inner.sleep(60)

    def order() -> None:
        began.wait()
        ctx.cancel("SIGTERM")

    thread = threading.Thread(target=order)
    thread.start()
    with pytest.raises(phases.Cancelled, match="SIGTERM"):
        phases.execute(wait, ctx)
    thread.join()


def test_decorator_without_a_name() -> None:
    """@phases.task without parentheses is refused with the remedy."""
    with pytest.raises(phases.InvalidTask, match=r"write @phases.task\('a-name'\), with parentheses and a name"):

        @phases.task  # type: ignore[arg-type]  # the mistake that is tested
        def download(_ctx: Context) -> None: ...


def test_words_that_would_steer_a_terminal() -> None:
    """The text of an error is on one line, with control characters escaped."""
    error = OSError("a\nb\x1b[2J\ud800")
    assert phases.text.describe_error(error) == "OSError: a b\\u001b[2J\\ud800"


def test_observers_that_cannot_be_closed(caplog: pytest.LogCaptureFixture) -> None:
    """If close() of an observer raises, the others are still closed and the report is complete, also of a failure."""

    class Closing(RecordingObserver):
        closed = 0

        def close(self) -> None:
            self.closed += 1
            raise OSError("disk full")

    first, second = Closing(), Closing()
    assert not phases.run(StubTask("a", always=SystemExit(3)), observers=[first, second]).ok
    assert (first.closed, second.closed) == (1, 1)
    assert "could not be closed; the report is not affected" in caplog.text


def test_default_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from a terminal there are log lines only."""
    monkeypatch.setenv("TERM", "xterm")
    [observer] = default_observers()
    assert isinstance(observer, phases.LogObserver)


@pytest.mark.linux
def test_types() -> None:
    """Mypy --strict accepts every way to write a task, and rejects the wrong ones marked in typing_tasks.py."""
    root = Path(__file__).resolve().parents[2]
    done = completed(
        [sys.executable, "-m", "mypy", "tests/phases/typing_tasks.py"],
        cwd=root,
        env={**os.environ, "MYPYPATH": str(root)},
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("error", [OSError, SystemExit, GeneratorExit, phases.Cancelled])
def test_observer_that_raises(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    """An observer that raises anything is logged, and affects neither the tasks nor the other observers."""
    seen = RecordingObserver()

    def broken(_event: phases.Event) -> None:
        raise error("observer out of order")

    report = phases.run(phases.serial(StubTask("a", 1), StubTask("b")), observers=[broken, seen])
    assert (report.status, len(seen.finished)) == (Status.OK, 3)
    assert "the run continues" in caplog.text
    assert "observer out of order" in caplog.text


class BrokenLog(logging.Handler):
    """A handler that cannot write."""

    def emit(self, _record: logging.LogRecord) -> None:
        """Raise an error."""
        raise OSError("no space left")


def test_log_that_raises() -> None:
    """A log that cannot be written affects no task either."""
    logger = logging.getLogger("phases.test.broken")
    logger.addHandler(BrokenLog())
    logger.setLevel(logging.INFO)
    assert phases.run(StubTask("a"), logger=logger, observers=[phases.LogObserver(logger)]).ok


STOPS = [
    SystemExit(3),
    GeneratorExit(),
    asyncio.CancelledError(),
    BaseExceptionGroup("both", [OSError(), SystemExit(3)]),
]


@pytest.mark.parametrize("group", [phases.serial, phases.parallel])
@pytest.mark.parametrize("stop", STOPS, ids=lambda error: type(error).__name__)
def test_what_is_no_exception(stop: BaseException, group: Callable[..., phases.Task[object]]) -> None:
    """What is not an Exception fails its task: execute raises it unchanged, run reports it, once."""
    ctx, seen = recorded()
    tree = group(StubTask("a", seconds=1, always=stop))
    with pytest.raises(type(stop)) as caught:
        phases.execute(tree, ctx)
    assert caught.value is stop
    assert [status for _, status in seen.finished] == [Status.FAILED, Status.FAILED]
    report = phases.run(tree, clock=FakeClock(), observers=[])
    assert (report.status, report.exit_code) == (Status.FAILED, 1)
    assert [(failure.path[-1], failure.error) for failure in report.failures] == [("a", stop)]


def test_keyboard_interrupt() -> None:
    """A KeyboardInterrupt that a task raises itself cancels it."""
    report = phases.run(StubTask("a", always=KeyboardInterrupt()), observers=[])
    assert (report.status, report.reason) == (Status.CANCELLED, "interrupted from the keyboard")


@pytest.mark.parametrize(
    "around", [phases.serial, phases.parallel, phases.retry, lambda task: phases.deadline(task, 5)]
)
def test_depth(around: Callable[[phases.AnyTask], phases.AnyTask]) -> None:
    """Tasks that are nested too deep for Python's stack are refused before the first begins; the deepest others work."""

    def nested(depth: int) -> phases.AnyTask:
        task: phases.AnyTask = StubTask("a")
        for _ in range(depth):
            task = around(task)
        return task

    seen = RecordingObserver()
    report = phases.run(nested(phases.tasks.DEEPEST - 1), observers=[seen])
    assert report.ok
    assert len(str(report).splitlines()) == len(list(report.walk())) + 1
    assert report.to_json()
    assert phases.undo(nested(phases.tasks.DEEPEST - 1), observers=[]).ok
    assert phases.plan(nested(phases.tasks.DEEPEST - 1)).ok
    seen.events.clear()
    calls: list[Callable[[phases.AnyTask], object]] = [phases.run, phases.execute, phases.plan, phases.undo]
    for call in calls:
        with pytest.raises(phases.InvalidTask, match="is nested too deep"):
            call(nested(2000))
    assert seen.events == []


def test_a_run_that_ends_before_it_begins() -> None:
    """A run that is stopped before its first task has not succeeded."""
    report = phases.run(StubTask("a"), deadline=1e-9, observers=[])
    assert (report.status, report.exit_code) == (Status.CANCELLED, 1)
