"""run_async: a run beside an event loop of asyncio, which signals and cancellations stop."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent import futures
from contextlib import suppress
from typing import Any

import pytest

import phases
from phases import Context, Status, Step
from phases.testing import FakeClock, StubTask
from tests.support.recorder import Recorder, ran

WAIT = phases.task("wait")(lambda ctx: ctx.sleep(150))


async def soon(condition: Callable[[], object]) -> None:
    """Let the loop do other things until this is true."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.001)


def in_loop(story: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What the coroutine returns. It leaves no thread behind, and the handlers as they were."""
    threads = threading.active_count()
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    result = asyncio.run(story())
    assert threading.active_count() == threads
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    return result


def test_a_report() -> None:
    """It is that of `run`, with the same choices; what a task raises is in it."""
    tree = phases.serial(
        StubTask("a", result=1), StubTask("b", errors=[OSError("busy")]), name="tree"
    )
    clock = FakeClock()

    async def story() -> tuple[Step, Step]:
        ctx = Context(clock=clock, observers=[])
        failed = await phases.run_async(tree, ctx=ctx, undo_on_failure=True)
        return failed, await phases.run_async(tree, ctx=ctx, only="tree", skip="b")

    failed, skipped = in_loop(story)
    assert str(failed.failures[0].error) == "busy"
    assert failed.find("tree").action == "undo"
    assert failed.find("a", action="do").result == 1
    assert skipped.find("b").reason == "left out by skip"


def test_a_signal_stops_all_runs() -> None:
    """Those that are awaited when it comes; the loop goes on, and each has its report."""

    async def story() -> list[Step]:
        seen = Recorder()
        runs = [
            asyncio.ensure_future(phases.run_async(WAIT, ctx=Context(observers=[seen])))
            for _ in range(2)
        ]
        await phases.run_async(StubTask("short"))
        await soon(lambda: len(seen.starts) == 2)
        signal.raise_signal(signal.SIGINT)
        return await asyncio.gather(*runs)

    for report in in_loop(story):
        assert report.status is Status.CANCELLED
        assert (report.reason, report.exit_code) == ("SIGINT", 130)


def test_handlers_of_the_program() -> None:
    """A handler that the program gave to its loop is called as well, and stays. A signal that is
    ignored stays ignored.
    """
    called: list[str] = []

    async def story() -> Step:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, called.append, "during")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        seen = Recorder()
        run = asyncio.ensure_future(phases.run_async(WAIT, ctx=Context(observers=[seen])))
        await soon(lambda: seen.starts)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        report = await run
        loop.add_signal_handler(signal.SIGTERM, called.append, "after")
        signal.raise_signal(signal.SIGTERM)
        await soon(lambda: "after" in called)
        loop.remove_signal_handler(signal.SIGTERM)
        return report

    before = signal.getsignal(signal.SIGINT)
    try:
        report = asyncio.run(story())
    finally:
        signal.signal(signal.SIGINT, before)
    assert report.reason == "SIGTERM"
    assert called == ["during", "after"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [("the agent stops", "the agent stops"), (None, "the coroutine was cancelled")],
)
def test_a_cancelled_coroutine_waits_for_the_end(message: str | None, reason: str) -> None:
    """The run is cancelled and undone before the coroutine ends, however often it is cancelled;
    then the cancellation is raised, as anybody expects who has cancelled it.
    """
    undone: list[str] = []

    def undo(ctx: Context) -> None:
        ctx.sleep(0.05)
        undone.append("machine")

    machine = phases.task("machine", undo=undo)(WAIT.do)
    seen: list[Step] = []

    async def story() -> None:
        ctx = Context(observers=[seen.append])
        run = asyncio.ensure_future(phases.run_async(machine, ctx=ctx, undo_on_failure=True))
        await soon(lambda: seen)
        for _ in range(3):
            run.cancel(message)
            await asyncio.sleep(0.005)
        with pytest.raises(asyncio.CancelledError):
            await run
        assert undone == ["machine"]

    in_loop(story)
    assert (seen[-1].status, seen[-1].reason) == (Status.CANCELLED, reason)


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError, futures.CancelledError], ids=["loop", "thread"]
)
def test_a_future_that_was_cancelled(error: type[BaseException]) -> None:
    """If its task is cancelled, or out of time, that is the reason; otherwise the task fails."""

    def cancelled(ctx: Context) -> None:
        ctx.cancel(signal.SIGTERM)
        raise error

    def too_late(ctx: Context) -> None:
        with suppress(phases.Cancelled):
            ctx.sleep(60)
        raise error

    def fails(_ctx: Context) -> None:
        raise error

    report = ran(phases.task("a")(cancelled))
    assert (report.status, report.reason, report.exit_code) == (Status.CANCELLED, "SIGTERM", 143)
    report = ran(phases.deadline(phases.task("a")(too_late), 5))
    assert isinstance(report.error, phases.DeadlineExceeded)
    report = ran(phases.task("a")(fails))
    assert isinstance(report.error, error)


def test_a_coroutine_that_is_closed() -> None:
    """A loop that ends without waiting for its coroutines leaves no task behind."""
    seen = Recorder()

    async def story() -> None:
        run: Any = phases.run_async(WAIT, ctx=Context(observers=[seen]))
        step: Awaitable[Any] = run.send(None)
        assert step is not None
        await soon(lambda: seen.starts)
        run.close()

    in_loop(story)
    assert seen.ends == [("wait", Status.CANCELLED)]


def test_an_event_loop_in_another_thread() -> None:
    """It gets no signals, so the handlers stay as they are."""
    reports: list[Step] = []
    handlers: list[object] = []
    look = phases.task("look")(lambda _: handlers.append(signal.getsignal(signal.SIGTERM)))
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: reports.append(asyncio.run(phases.run_async(look))))
    thread.start()
    thread.join()
    assert reports[0].ok
    assert handlers == [before]


def test_what_is_refused() -> None:
    """What `run` refuses is refused with the name of this function."""
    untyped: Any = phases
    wrong: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "run_async: ctx is 5": lambda: untyped.run_async(WAIT, ctx=5),
        "run_async: undo_on_failure is 'x'": lambda: untyped.run_async(WAIT, undo_on_failure="x"),
        "only: there is no task 'y'": lambda: phases.run_async(WAIT, only="y"),
    }
    for words, call in wrong.items():
        with pytest.raises((TypeError, phases.UnknownTask), match=words):
            asyncio.run(call())
