"""run_async: a run beside an event loop of asyncio, which signals and cancellations stop."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import phases
from phases import Context, Status, Step
from phases.testing import FakeClock, StubTask
from tests.support.recorder import Recorder

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
        return failed, await phases.run_async(tree, ctx=ctx, skip=["b"])

    failed, skipped = in_loop(story)
    assert str(failed.failures[0].error) == "busy"
    assert failed.find("tree").action == "undo"
    assert failed.find("a", action="do").result == 1
    assert skipped.find("b").reason == "left out by skip"


def test_a_signal_stops_a_run() -> None:
    """If the program gives the loop a handler; the loop goes on."""

    async def story() -> Step:
        seen = Recorder()
        ctx = Context(observers=[seen])
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, ctx.cancel, signal.SIGTERM)
        run = asyncio.ensure_future(phases.run_async(WAIT, ctx=ctx))
        await soon(lambda: seen.starts)
        signal.raise_signal(signal.SIGTERM)
        report = await run
        loop.remove_signal_handler(signal.SIGTERM)
        return report

    report = in_loop(story)
    assert report.status is Status.CANCELLED
    assert (report.reason, report.exit_code) == ("SIGTERM", 143)


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
