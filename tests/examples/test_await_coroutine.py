"""examples/await_coroutine.py: a coroutine in a task."""

import asyncio

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


@pytest.mark.parametrize(("divisor", "result"), [(2, 0.5), (0, None)])
def test_result_and_error(divisor: int, result: float | None) -> None:
    """The task has the result of the coroutine, or fails with its error."""

    async def divide() -> float:
        await asyncio.sleep(0)
        return 1 / divisor

    async def main() -> phases.Step:
        loop = asyncio.get_running_loop()
        task = phases.task("divide")(lambda ctx: await_in_task(ctx, divide(), loop))
        return await phases.run_async(task)

    report = asyncio.run(main())
    assert report.result == result
    assert isinstance(report.error, ZeroDivisionError) == (divisor == 0)


def test_a_loop_that_is_blocked() -> None:
    """The task can be cancelled, although the coroutine cannot begin."""

    async def main() -> phases.Step:
        loop = asyncio.get_running_loop()
        task = phases.task("sleep")(lambda ctx: await_in_task(ctx, asyncio.sleep(60), loop))
        return phases.run(phases.deadline(task, 0.1))

    assert isinstance(asyncio.run(main()).error, phases.DeadlineExceeded)
