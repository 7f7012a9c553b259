"""Run a task beside an event loop of asyncio.

The tasks run in a thread of their own, and the coroutine awaits its end, however that comes about:
it never leaves a thread behind. Two things can stop the run from outside. One is a cancellation of
the coroutine, which is raised again when the run has ended. The other is a signal. Its handler runs
in the main thread between two instructions of the loop, so it only puts a callback into the loop.
Several coroutines can await runs at the same time: the handler is set for the first of them, stops
the runs of all, and is taken away after the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from phases.running import prepared_run
from phases.stopping import handling_signals, wait_for_end

if TYPE_CHECKING:
    import asyncio

    from phases.context import Context
    from phases.step import Step
    from phases.stopping import Run
    from phases.tasks import AnyTask, Names

_callbacks: list[Callable[[int], None]] = []
"""Called by the handler of signals: one for each run that is awaited in the main thread."""
_handlers = ExitStack()
"""While there are such runs, it handles signals."""


async def run_async(
    task: AnyTask,
    *,
    ctx: Context | None = None,
    only: Names = None,
    skip: Names = None,
    undo_on_failure: bool = False,
) -> Step:
    """Run the task beside the event loop, and report: `report = await phases.run_async(task)`.

    Like `run`: SIGINT and SIGTERM cancel the run if the loop runs in the main thread, and the
    report is returned when the run has stopped. If the coroutine is cancelled, so is the run; the
    cancellation is raised when the run has ended, and the report is what observers have seen. For
    observers, a clock or a logger, give a context.
    """
    import asyncio  # noqa: PLC0415  it takes long, and a program without a loop needs none

    run = prepared_run(
        "run_async", task, ctx, only=only, skip=skip, undo_on_failure=undo_on_failure
    )
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()

    def tell_of_end() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end.set_result, None)

    thread = run.thread(at_end=tell_of_end)
    with _stopped_by_signals(run, loop):
        try:
            is_started = run.start(thread)
            if not is_started:
                return run.root
            cancelled = await _cancellation_before(end, run.ctx)
        finally:
            wait_for_end(thread)
    if cancelled is not None:
        raise cancelled
    return run.root


async def _cancellation_before(
    end: asyncio.Future[None], ctx: Context
) -> asyncio.CancelledError | None:
    """Wait for the end of the run, however often the coroutine is cancelled meanwhile. A
    cancellation is passed on to the run, and returned.
    """
    import asyncio  # noqa: PLC0415  see run_async

    cancelled: asyncio.CancelledError | None = None
    while not end.done():
        try:
            # The wait is short: if a signal comes just before the loop blocks, Python calls its
            # handler when the wait is over.
            await asyncio.wait([end], timeout=0.25)
        except asyncio.CancelledError as error:
            cancelled = error
            ctx.cancel(str(error) or "the coroutine was cancelled")
        except BaseException:
            ctx.cancel("the event loop was closed")
            raise
    return cancelled


@contextmanager
def _stopped_by_signals(run: Run, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """In the block, SIGINT and SIGTERM cancel the run; in another thread than the main one, no
    signal is handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop_soon(number: int) -> None:
        run.note(number)
        loop.call_soon_threadsafe(run.stop, number)

    _callbacks.append(stop_soon)
    try:
        if len(_callbacks) == 1:
            _handlers.enter_context(handling_signals(_call_back))
        yield
    finally:
        if len(_callbacks) == 1:
            _handlers.close()
        _callbacks.remove(stop_soon)


def _call_back(number: int) -> None:
    for callback in tuple(_callbacks):
        callback(number)
