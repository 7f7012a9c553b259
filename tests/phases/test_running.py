"""execute: every possible end of one task."""

from __future__ import annotations

import asyncio
import pickle
import threading
import traceback

import pytest

import phases
from phases import Context, Status
from phases.testing import FakeClock, RecordingObserver, StubTask


def recorded() -> tuple[Context, RecordingObserver]:
    """A context on a fake clock, and its recording observer."""
    seen = RecordingObserver()
    return Context(clock=FakeClock(), observers=[seen]), seen


def test_result() -> None:
    """Execute returns the task's result; the task began once and ended once, with status ok."""
    ctx, seen = recorded()
    assert phases.execute(StubTask("download", 42, seconds=2.5), ctx) == 42
    assert (seen.started, seen.finished) == (["download"], [("download", Status.OK)])
    assert seen.report.duration == 2.5


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


def test_innermost_first() -> None:
    """The message begins with the task that failed, however deep the groups are nested."""
    task: phases.AnyTask = StubTask("routes", always=ValueError("bad metric"))
    for name in ("network", "host", "bootstrap"):
        task = phases.serial(task, name=name)
    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(task, Context(observers=[]))
    assert str(caught.value).startswith("routes failed: ValueError: bad metric")
    assert caught.value.path == ("bootstrap", "host", "network", "routes")
    assert len(caught.value.failures) == 1


@pytest.mark.parametrize(
    "error",
    [
        phases.TaskFailed([phases.Failure(("a",), KeyError("k"))], run_id="r1"),
        phases.TaskFailed([phases.Failure(("a",), phases.DeadlineExceeded(2.5)), phases.Failure(("b",), OSError())]),
        phases.Cancelled("SIGTERM", origin=Context().scope),
        phases.DeadlineExceeded(2.5),
        phases.errors.StoppedElsewhere("its time is over"),
        phases.UnknownTask("donwload", "only", ("download", "start")),
        phases.InvalidTask("no task"),
    ],
    ids=lambda error: f"{type(error).__name__}: {str(error)[:20]}",
)
def test_errors_survive_pickling(error: BaseException) -> None:
    """Every error can be pickled: its message and its attributes survive."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    assert (type(copy), str(copy)) == (type(error), str(error))
    assert {**vars(copy), "origin": None}.keys() == {**vars(error), "origin": None}.keys()


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_is_no_exception_stays_itself(stop: BaseException) -> None:
    """KeyboardInterrupt and SystemExit are raised unchanged, after the task's last line."""
    ctx, seen = recorded()
    with pytest.raises(type(stop)) as caught:
        phases.execute(phases.serial(StubTask("a", always=stop), StubTask("b")), ctx)
    assert caught.value is stop
    expected = Status.CANCELLED if isinstance(stop, KeyboardInterrupt) else Status.FAILED
    assert seen.finished == [("serial/a", expected), ("serial", expected)]
    assert seen.skipped == ["serial/b"]


def test_deadline_of_the_run() -> None:
    """At the deadline of the run, Cancelled is raised, and every running task is cancelled."""
    seen = RecordingObserver()
    clock = FakeClock()
    with pytest.raises(phases.Cancelled, match="the 5 s of the run are over"):
        phases.execute(
            phases.serial(StubTask("a", seconds=3), StubTask("b", seconds=3), StubTask("c")),
            Context(deadline=5, clock=clock, observers=[seen]),
        )
    assert seen.finished == [
        ("serial/a", Status.OK),
        ("serial/b", Status.CANCELLED),
        ("serial", Status.CANCELLED),
    ]
    assert clock.now() == 5


def test_cancelled_before_it_begins() -> None:
    """A cancelled run starts no task, and says so."""
    ctx, seen = recorded()
    ctx.cancel("changed my mind")
    ctx.cancel("and again")
    with pytest.raises(phases.Cancelled, match=r"^changed my mind$"):
        phases.execute(StubTask("a"), ctx)
    assert (seen.started, seen.skipped) == ([], ["a"])


def test_task_that_cancels_itself() -> None:
    """A task may raise Cancelled itself; then the whole run is cancelled."""
    ctx, seen = recorded()
    with pytest.raises(phases.Cancelled, match="enough"):
        phases.execute(phases.serial(StubTask("a", always=phases.Cancelled("enough"))), ctx)
    assert seen.finished == [("serial/a", Status.CANCELLED), ("serial", Status.CANCELLED)]


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


def test_nothing_to_do() -> None:
    """A task that returns a Skip has the status skipped, with its reason."""
    ctx, seen = recorded()

    @phases.task("install")
    def install(_ctx: Context) -> phases.Skip:
        return phases.Skip("already there")

    assert phases.execute(install, ctx) == phases.Skip("already there")
    assert seen.report.status is Status.SKIPPED
    assert seen.report.reason == "already there"
    assert seen.report.exit_code == 0


def test_step_inside_a_step() -> None:
    """A task that executes another with its own context has it as a child in path and report."""
    ctx, seen = recorded()
    inner = StubTask("inner", 7)

    @phases.task("outer")
    def outer(ctx: Context) -> object:
        return phases.execute(inner, ctx)

    assert phases.execute(outer, ctx) == 7
    assert seen.report.children[0].path == ("outer", "inner")


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
    with pytest.raises(phases.InvalidTask, match=words):
        phases.serial(candidate)  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(phases.InvalidTask, match=words):
        phases.execute(candidate)  # type: ignore[arg-type]  # the mistake that is tested


def test_observer_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """An observer that raises is logged, and affects neither the task nor other observers."""
    seen = RecordingObserver()

    def broken(_event: phases.Event) -> None:
        raise RuntimeError("observer out of order")

    assert phases.execute(StubTask("a", 1), Context(observers=[broken, seen])) == 1
    assert seen.finished == [("a", Status.OK)]
    assert "the run continues" in caplog.text
    assert "observer out of order" in caplog.text


class Result:
    """A result whose log_fields raises when it is called."""

    def log_fields(self) -> dict[str, object]:
        """Raises."""
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
    """In async code a run goes to a thread; the loop can cancel it through its context."""

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
