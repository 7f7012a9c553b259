"""SIGINT and SIGTERM cancel a run.

A handler runs in the main thread between two of its instructions, where that may hold any lock, so it must take none.
It only puts the number into a queue (`SimpleQueue.put` is made for that), and a thread that reads the queue cancels.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from phases.context import complain

if TYPE_CHECKING:
    from phases.context import Context
    from phases.step import Step


@contextmanager
def cancelled_by_signals(ctx: Context, root: Step) -> Iterator[list[int]]:
    """While the block runs, SIGINT and SIGTERM cancel the run with this root; yields the list of those that came.

    A repeated signal does not interrupt a shielded task; it only logs what the run is waiting for. A signal that the
    parent process ignored (nohup) stays ignored. A signal during a run inside a run cancels both. Outside the main
    thread, nothing is handled.
    """
    handler = _Handler(ctx, root)
    thread = threading.Thread(target=handler.cancel_on_each, name="phases-signals", daemon=True)
    try:
        if threading.current_thread() is threading.main_thread():
            thread.start()
            for number in (int(signal.SIGTERM), int(signal.SIGINT)):
                if (before := signal.getsignal(number)) not in (signal.SIG_IGN, None):
                    handler.before[number] = before
                    signal.signal(number, handler)
        yield handler.came
    finally:
        if thread.ident is not None:
            handler.queue.put(None)
            thread.join()
        for number, before in handler.before.items():  # SIGINT last: it can raise as soon as it is restored
            signal.signal(number, before)


class _Handler:
    """The handler of both signals for one run."""

    def __init__(self, ctx: Context, root: Step) -> None:
        self.ctx, self.root = ctx, root
        self.before: dict[int, Any] = {}
        self.came: list[int] = []
        self.queue: SimpleQueue[int | None] = SimpleQueue()

    def __call__(self, number: int, frame: object) -> None:
        if isinstance(outer := self.before[number], _Handler):
            outer(number, frame)
        self.came.append(number)
        self.queue.put(number)

    def cancel_on_each(self) -> None:
        """Cancel the run for each number in the queue, the runs around it first: they must not start another task."""
        while (number := self.queue.get()) is not None:
            handlers, name = [self], signal.Signals(number).name
            while isinstance(outer := handlers[0].before[number], _Handler):
                handlers.insert(0, outer)
            for handler in handlers:
                handler.ctx.cancel(name)
            waits_for = ", ".join("/".join(step.path) for step in self.root.innermost_running())
            if waits_for and handlers == [self]:
                words = " again: still" if self.came[1:] else ":"
                try:
                    self.ctx.log.warning("%s%s stopping, waiting for %s", name, words, waits_for)
                except BaseException:  # noqa: BLE001  only the line is lost, not the next signal
                    complain(self.ctx.logger, "cannot log %s", name)
