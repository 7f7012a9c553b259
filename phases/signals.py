"""SIGINT and SIGTERM cancel every run of the process.

Python calls a handler in the main thread only, between two of its instructions: not while that blocks in a system call
that began just before the signal, and possibly while it holds a lock. So the main thread of a run does no task. It
waits, wakes regularly, and cancels when a handler has noted a signal.
"""

from __future__ import annotations

import contextvars
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from phases.context import guarded

if TYPE_CHECKING:
    from phases.context import Context
    from phases.step import Step

_runs: list[Context] = []  # the runs under way, the outer before those inside it


def do_until_signalled(work: Callable[[], object], ctx: Context, root: Step) -> list[int]:
    """Do the work of the run with this root, and cancel it on SIGINT and SIGTERM; return those that came.

    A repeated signal does not interrupt a shielded task; it only logs what the run is waiting for. A signal that the
    parent process ignored (nohup) stays ignored. Outside the main thread no signal is handled.
    """
    came: list[int] = []
    _runs.append(ctx)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        if threading.current_thread() is not threading.main_thread():
            work()
            return came
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, lambda number, _frame: came.append(number))
        _watch(work, came, ctx, root)
    finally:
        _runs.remove(ctx)
        for number, handler in before.items():  # SIGINT last: it can raise as soon as it is restored
            if handler is not signal.getsignal(number):
                signal.signal(number, handler)
    return came


def _watch(work: Callable[[], object], came: list[int], ctx: Context, root: Step) -> None:
    """Do the work in a thread, and cancel the runs on each signal that comes."""
    has_ended, handled = threading.Event(), list[int]()

    def do() -> None:
        try:
            variables.run(work)
        finally:
            has_ended.set()
            ctx.clock.wake()

    variables = contextvars.copy_context()
    thread = ctx.clock.start(do, name="phases")
    while not has_ended.is_set():
        ctx.clock.wait(lambda: has_ended.is_set() or len(came) > len(handled))
        for number in came[len(handled) :]:
            name, again = signal.Signals(number).name, " again: still" if handled else ":"
            handled.append(number)
            for run in tuple(_runs):
                run.cancel(name)
            waits_for = ", ".join("/".join(step.path) for step in root.innermost_running()) or "nothing any more"
            guarded(ctx.logger, ctx.log.warning, "%s%s stopping, waiting for %s", name, again, waits_for)
    thread.join()
