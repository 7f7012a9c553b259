"""SIGINT and SIGTERM as an order to stop: the edge between a program's signals and a run's cancellation."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
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
    # A handler would run in the main thread, in the middle of whatever that holds (a lock of the run, say), and
    # only once that thread gets to run Python: the kernel may hand the signal to another thread, and then a sleeping
    # main thread sleeps on. So the handlers do nothing, and a thread reads the numbers that Python writes to a pipe.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def pass_on() -> None:
        while numbers := os.read(reading, 64):
            for number in numbers:
                if number in before:
                    _obey(signal.Signals(number), ctx, waiting_for(), again=bool(came))
                    came.append(number)

    before = {
        number: handler for number in SIGNALS if (handler := signal.getsignal(number)) not in {signal.SIG_IGN, None}
    }
    thread = threading.Thread(target=pass_on, name="phases-signals", daemon=True)
    thread.start()
    others = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        for number in before:
            signal.signal(number, _nothing)
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(others)
        os.close(writing)
        thread.join()
        os.close(reading)


def _obey(number: signal.Signals, ctx: Context, waiting_for: str, *, again: bool) -> None:
    if again:
        ctx.log.warning("%s again: still stopping, waiting for %s", number.name, waiting_for)
    else:
        ctx.log.warning("%s: stopping, waiting for %s", number.name, waiting_for)
        ctx.cancel(number.name)


def _nothing(_number: int, _frame: object) -> None:
    pass
