"""SIGINT and SIGTERM as an order to stop: the edge between a program's signals and a run's cancellation."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from phases.context import Context

__all__ = ["stop_on_signals"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(ctx: Context, *, waiting_for: Callable[[], str]) -> Iterator[list[int]]:
    """While the block runs, a signal cancels the context; the list that is yielded has those that came.

    A repeated signal cannot hurry a task that is not to be left half done; it makes the log say what is waited for.
    A signal that the parent process chose to ignore (nohup) stays ignored. Outside the main thread, where Python does
    not deliver signals, nothing is installed.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    # A handler interrupts whatever the main thread holds, its locks too. SimpleQueue.put is made for that; the
    # locks of a scope are not, so a thread of its own passes the order on.
    queue: SimpleQueue[int | None] = SimpleQueue()

    def pass_on() -> None:
        while (number := queue.get()) is not None:
            name = signal.Signals(number).name
            still = waiting_for()
            if came:
                ctx.log.warning("%s again: still stopping, waiting for %s", name, still)
            else:
                ctx.log.warning("%s: stopping, waiting for %s", name, still)
                ctx.cancel(name)
            came.append(number)

    thread = threading.Thread(target=pass_on, name="phases-signals", daemon=True)
    thread.start()
    before = {}
    try:
        for number in SIGNALS:
            if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                before[number] = signal.signal(number, lambda number, _frame: queue.put(number))
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        queue.put(None)
        thread.join()
