"""run_async: a run beside an event loop of asyncio, which signals and cancellations stop; and
await_in_task, with which a task waits for a coroutine.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import phases
from phases import Context, Status, Step
from tests.support.recorder import Recorder, StubTask

WAIT = phases.task("wait")(lambda ctx: ctx.sleep(150))


async def soon(condition: Callable[[], object]) -> None:
    """Let the loop do other things until this is true."""
    while not condition():  # noqa: ASYNC110  a thread makes it true, and has no event of the loop
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
    b = StubTask("b", errors=[OSError("busy")])
    tree = phases.serial(StubTask("a", result=1), b, name="tree")
    failed = in_loop(lambda: phases.run_async(tree, undo_on_failure=True))
    assert str(failed.failures[0].error) == "busy"
    assert failed.find("tree").action == "undo"
    assert failed.find("a", action="do").result == 1
    skipped = in_loop(lambda: phases.run_async(tree, skip=["b"]))
    assert skipped.find("b").reason == "left out by skip"


def begun(seen: Recorder, task: phases.AnyTask = WAIT, **options: Any) -> asyncio.Future[Step]:
    """A run that the loop awaits, and that this observer sees."""
    run = phases.run_async(task, ctx=Context(observers=[seen]), **options)
    return asyncio.ensure_future(run)


def test_a_signal_stops_every_run() -> None:
    """Each run that the loop awaits, also after another one has ended; the loop goes on."""

    async def story() -> list[Step]:
        seen = Recorder()
        one, two = begun(seen), begun(seen)
        short = begun(seen, StubTask("short", seconds=0.1))
        await soon(lambda: len(seen.starts) == 3)
        await short
        signal.raise_signal(signal.SIGINT)
        return [await one, await two]

    for report in in_loop(story):
        assert report.status is Status.CANCELLED
        assert (report.reason, report.exit_code) == ("SIGINT", 130)


def test_a_run_that_begins_too_late() -> None:
    """While a signal stops another run, it is stopped, too: the program is about to end."""

    async def story() -> tuple[Step, Step, Step]:
        seen = Recorder()
        machine = phases.task("machine", undo=lambda ctx: ctx.sleep(0.1))(WAIT.do)
        first = begun(seen, machine, undo_on_failure=True)
        await soon(lambda: seen.starts)
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        second = await phases.run_async(WAIT)
        return await first, second, await phases.run_async(StubTask("later"))

    first, second, later = in_loop(story)
    assert first.find("machine").ok
    assert (second.status, second.exit_code) == (Status.CANCELLED, 143)
    assert later.ok


def test_a_handler_of_the_loop() -> None:
    """It is called, and stays, whether it came before the run or during it."""

    async def story() -> tuple[list[str], Step]:
        called: list[str] = []
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, called.append, "before")
        seen = Recorder()
        run = begun(seen)
        await soon(lambda: seen.starts)
        loop.add_signal_handler(signal.SIGTERM, called.append, "during")
        signal.raise_signal(signal.SIGINT)
        report = await run
        signal.raise_signal(signal.SIGTERM)
        await soon(lambda: len(called) == 2)
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)
        return called, report

    called, report = in_loop(story)
    assert called == ["before", "during"]
    assert report.signal == signal.SIGINT


@pytest.mark.linux
@pytest.mark.parametrize("runs", [0, 1])
def test_a_forked_child(runs: int) -> None:
    """Signals do there what they did before the run, also after a run of its own. They stop no run
    of its parent.
    """

    def fork(ctx: Context) -> int:
        child = os.fork()
        if child == 0:
            for _ in range(runs):
                phases.run(StubTask("own"))
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        ctx.sleep(0.02)
        return os.waitstatus_to_exitcode(status)

    task = phases.task("fork")(fork)
    assert in_loop(lambda: phases.run_async(task)).result == -signal.SIGTERM


@pytest.mark.parametrize(
    ("message", "reason"),
    [("the agent stops", "the agent stops"), (None, "the coroutine was cancelled")],
)
def test_a_cancelled_coroutine_waits_for_the_end(message: str | None, reason: str) -> None:
    """The coroutine ends after the run and its undo, and raises the cancellation."""
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


async def divide(divisor: int) -> float:
    await asyncio.sleep(0)
    return 1 / divisor


@pytest.mark.parametrize(
    ("made", "result", "error"),
    [
        (lambda: divide(2), 0.5, "None"),
        (lambda: divide(0), None, "ZeroDivisionError('division by zero')"),
        (lambda: divide, None, "TypeError('a coroutine was expected, got <function"),
    ],
)
def test_a_coroutine_in_a_task(made: Callable[[], Any], result: float | None, error: str) -> None:
    """The task has the result of the coroutine, or fails with its error or that of asyncio."""

    async def story() -> Step:
        loop = asyncio.get_running_loop()
        task = phases.task("divide")(lambda ctx: phases.await_in_task(ctx, made(), loop))
        return await phases.run_async(phases.deadline(task, 5))

    report = in_loop(story)
    assert report.result == result
    assert repr(report.error).startswith(error)


@pytest.mark.parametrize("blocked", [0.0, 0.2])
def test_a_coroutine_of_a_cancelled_task(blocked: float) -> None:
    """At the deadline, the coroutine is cancelled, and has ended before its task is undone."""
    log: list[str] = []

    async def fetch() -> None:
        time.sleep(blocked)  # noqa: ASYNC251  as a careless author does
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            log.append("ended")

    async def story() -> Step:
        loop = asyncio.get_running_loop()

        @phases.task("fetch", undo=lambda _ctx: log.append("undone"))
        def task(ctx: Context) -> None:
            phases.await_in_task(ctx, fetch(), loop)

        return await phases.run_async(phases.deadline(task, 0.1), undo_on_failure=True)

    report = in_loop(story)
    assert isinstance(report.failures[0].error, phases.DeadlineExceeded)
    assert log == ["ended", "undone"]


def test_a_coroutine_in_a_loop_that_is_blocked() -> None:
    """The task can be cancelled, although the coroutine cannot begin."""

    async def story() -> Step:
        loop = asyncio.get_running_loop()
        task = phases.task("sleep")(lambda ctx: phases.await_in_task(ctx, asyncio.sleep(60), loop))
        ctx = Context(observers=[seen := Recorder()])
        thread = asyncio.to_thread(phases.run, phases.deadline(task, 0.1), ctx=ctx)
        run = asyncio.ensure_future(thread)
        await asyncio.sleep(0)
        while not seen.ends:
            time.sleep(0.001)  # noqa: ASYNC251  as a careless author does
        return await run

    assert isinstance(asyncio.run(story()).error, phases.DeadlineExceeded)


def test_a_coroutine_in_a_loop_that_waits_for_the_run() -> None:
    """The task fails at once: `run` blocks the loop. Its coroutine never begins, and that
    of a later run of the same context does.
    """

    async def fetch() -> None:
        begun.append("fetch")
        await asyncio.sleep(0.05)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        task = phases.task("fetch")(lambda ctx: phases.await_in_task(ctx, fetch(), loop))
        group = phases.serial(phases.task("inner")(lambda ctx: phases.execute(task, ctx)))
        ctx = Context()
        reports.append(phases.run(phases.deadline(group, 5), ctx=ctx))
        assert (await phases.run_async(task, ctx=ctx)).ok

    begun: list[str] = []
    reports: list[Step] = []
    in_loop(story)
    error = reports[0].failures[0].error
    assert isinstance(error, RuntimeError)
    assert "begin the run with run_async" in str(error)
    assert begun == ["fetch"]


def test_a_coroutine_in_a_loop_that_has_stopped() -> None:
    """If the coroutine of the run is closed, its task and the undo of this task end, although the
    coroutines that they await cannot.
    """
    seen: list[Step] = []
    loop = asyncio.new_event_loop()

    async def wait_for_ever() -> None:
        begun.append("wait")
        await loop.create_future()

    def wait(ctx: Context) -> None:
        coroutines.append(wait_for_ever())
        phases.await_in_task(ctx, coroutines[-1], loop)

    async def story() -> Coroutine[Any, Any, Step]:
        run = phases.run_async(
            phases.task("wait", undo=wait)(wait),
            ctx=Context(observers=[seen.append]),
            undo_on_failure=True,
        )
        run.send(None)
        await soon(lambda: begun)
        return run

    begun: list[str] = []
    coroutines: list[Coroutine[Any, Any, Any]] = []
    loop.set_exception_handler(lambda *_: None)  # Python tells it what was left behind
    run = loop.run_until_complete(story())
    run.close()
    assert len(seen) == 4, "the run has ended"
    loop.run_until_complete(asyncio.sleep(0.01))
    assert not asyncio.all_tasks(loop), "they are cancelled when the loop goes on"
    loop.close()
    for coroutine in coroutines:
        coroutine.close()
    assert [(step.action, step.status) for step in seen[1::2]] == [
        ("undo", Status.FAILED),
        ("do", Status.FAILED),
    ]
    assert seen[-1].reason == "the event loop was closed"


def test_a_loop_that_is_closed_under_a_coroutine() -> None:
    """The task fails, and its error says what may be wrong."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # Python tells it what was left behind

    async def wait_for_ever() -> None:
        loop.call_soon(loop.stop)
        await loop.create_future()

    def serve() -> None:
        loop.run_forever()
        loop.close()

    coroutine = wait_for_ever()
    task = phases.task("wait")(lambda ctx: phases.await_in_task(ctx, coroutine, loop))
    thread = threading.Thread(target=serve)
    thread.start()
    report = phases.run(phases.deadline(task, 20))
    thread.join()
    coroutine.close()
    assert "the event loop has ended" in report.why


def test_a_coroutine_that_comes_too_late() -> None:
    """A loop that ends before it has begun the coroutine ends the task, too."""
    loop = asyncio.new_event_loop()
    task = phases.task("late")(lambda ctx: phases.await_in_task(ctx, asyncio.sleep(60), loop))
    timer = threading.Timer(0.05, loop.close)
    timer.start()
    report = phases.run(phases.deadline(task, 20))
    timer.join()
    assert isinstance(report.error, RuntimeError)


def test_a_coroutine_that_the_loop_refuses() -> None:
    """What the loop raises is the error of the task."""

    def refuse(_loop: object, coroutine: Any, **_: object) -> Any:
        coroutine.close()
        raise RuntimeError("too many tasks")

    async def story() -> Step:
        loop = asyncio.get_running_loop()
        task = phases.task("sleep")(lambda ctx: phases.await_in_task(ctx, asyncio.sleep(0), loop))
        run = asyncio.ensure_future(phases.run_async(phases.deadline(task, 5)))
        loop.set_task_factory(refuse)
        report = await run
        loop.set_task_factory(None)
        return report

    assert str(in_loop(story).error) == "too many tasks"
