"""examples/await_coroutine.py: a coroutine in a task."""

import asyncio
import signal
import threading

import pytest

import phases
from examples.await_coroutine import await_in_task
from tests.support.programs import example


@pytest.mark.linux
def test_by_itself() -> None:
    """At the deadline, the coroutine is cancelled, and has ended before its task is undone."""
    done = example("await_coroutine.py")
    assert done.stderr == ""
    first, second, *report = done.stdout.splitlines()
    assert (first, second) == ("the coroutine has ended", "what it did is undone")
    assert "DeadlineExceeded: not finished within 0.5 s" in report[0]


@pytest.mark.parametrize("fails", [False, True])
def test_result_and_error(*, fails: bool) -> None:
    """The task has the result of the coroutine, or fails with its error."""

    async def main() -> phases.Step:
        loop = asyncio.get_running_loop()

        async def divide() -> float:
            await asyncio.sleep(0)
            return 1 / (0 if fails else 2)

        @phases.task("divide")
        def task(ctx: phases.Context) -> float:
            return await_in_task(ctx, divide(), loop)

        return await phases.run_async(task)

    report = asyncio.run(main())
    assert report.result == (None if fails else 0.5)
    assert isinstance(report.error, ZeroDivisionError) == fails


def test_a_signal() -> None:
    """SIGTERM cancels the run and the coroutine."""
    ended: list[str] = []
    began = threading.Event()

    async def main() -> phases.Step:
        loop = asyncio.get_running_loop()

        async def wait() -> None:
            try:
                began.set()
                await asyncio.sleep(60)
            finally:
                ended.append("coroutine")

        @phases.task("wait")
        def task(ctx: phases.Context) -> None:
            try:
                await_in_task(ctx, wait(), loop)
            finally:
                ended.append("task")

        @phases.task("stop")
        def stop(_ctx: phases.Context) -> None:
            began.wait()
            signal.raise_signal(signal.SIGTERM)

        return await phases.run_async(phases.parallel(task, stop))

    assert asyncio.run(main()).exit_code == 128 + signal.SIGTERM
    assert ended == ["coroutine", "task"]
