"""How a task waits for a coroutine of the event loop, so that both end when the run is cancelled.

`python examples/await_coroutine.py` limits the time of such a task to half a second, and prints
that the coroutine has ended before anything was undone.
"""

import asyncio

import phases


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
        phases.await_in_task(ctx, _fetch(), loop)

    return await phases.run_async(phases.deadline(fetch, 0.5), undo_on_failure=True)


if __name__ == "__main__":
    print(asyncio.run(_main()))
