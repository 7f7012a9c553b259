"""How a task waits for a coroutine of the event loop, so that both end when the run is cancelled.

`python examples/await_coroutine.py` limits the time of such a task to half a second, and prints
that the coroutine has ended before anything was undone.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import phases

T = TypeVar("T")


def await_in_task(
    ctx: phases.Context, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop
) -> T:
    """Run the coroutine in the loop, which another thread runs, and return its result. Begin the
    run with `run_async`: `run` would block the loop, and the coroutine would not begin.

    If the task is cancelled, the coroutine is cancelled. It has ended when Cancelled is raised.
    """

    async def begin() -> asyncio.Task[T]:
        return loop.create_task(coroutine)

    begun = asyncio.run_coroutine_threadsafe(begin(), loop)

    def give_up() -> None:  # while something blocks the loop
        if begun.cancel():
            coroutine.close()

    with ctx.on_cancel(give_up):
        running = begun.result()
    ended = asyncio.run_coroutine_threadsafe(asyncio.wait([running]), loop)
    with ctx.on_cancel(lambda: loop.call_soon_threadsafe(running.cancel)):
        ended.result()
    return running.result()


async def _fetch() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.1)  # such as closing a connection
        print("the coroutine has ended")


async def _main() -> phases.Step:
    loop = asyncio.get_running_loop()

    @phases.task("fetch", undo=lambda _ctx: print("what it did is undone"))
    def fetch(ctx: phases.Context) -> None:
        await_in_task(ctx, _fetch(), loop)

    return await phases.run_async(phases.deadline(fetch, 0.5), undo_on_failure=True)


if __name__ == "__main__":
    print(asyncio.run(_main()))
