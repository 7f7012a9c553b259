"""A run of a task, and how SIGINT and SIGTERM stop it.

Python calls the handler of a signal in the main thread, between two of its instructions: the thread
may hold a lock just then. So the tasks run in a thread of their own. The main thread only waits for
a SimpleQueue, into which a handler may put something at any time.
"""

from __future__ import annotations

import contextvars
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from phases.context import in_a_run
from phases.execution import new_step, run_step
from phases.step import Status, Step
from phases.tasks import AnyTask, Verb, valid_tree
from phases.values import describe_error

if TYPE_CHECKING:
    from phases.context import Context

_STOPPING = (signal.SIGTERM, signal.SIGINT)
_END = 0  # put into the queue when the tasks have ended: no signal has this number


class Run:
    """A run of a task, which `work` does once. Its report is `root`."""

    def __init__(self, task: AnyTask, ctx: Context, verb: Verb = "do") -> None:
        self.ctx = in_a_run(ctx)
        self.root = new_step(valid_tree(task).name, self.ctx, verb)
        self._task = task
        self._verb = verb

    def work(self) -> None:
        """Run the task. What it raises is in the root, and not raised."""
        with suppress(BaseException):
            run_step(self._task, self.root, self.ctx, self._verb)
        self.root.signal = self.root.signal or self.ctx.run_scope.stop.signal

    def thread(self, at_end: Callable[[], None]) -> threading.Thread:
        """A thread for the work, not started, with the context variables of the caller. It calls
        back when the work is done.
        """

        def work_to_the_end() -> None:
            self.work()
            at_end()

        # Not the clock's: FakeClock counts this thread in place of the main thread, which does not
        # wait by the clock.
        variables = contextvars.copy_context()
        return threading.Thread(target=variables.run, args=(work_to_the_end,), name="phases")

    def stop(self, number: int) -> None:
        """Cancel the run because of this signal. A repeated one only logs again what the run is
        waiting for.
        """
        reason = signal.Signals(number)
        self.root.signal = self.root.signal or number
        self.ctx.cancel(reason)
        awaited = [step.label for step in self.root.walk() if _is_awaited(step)]
        words = ", ".join(awaited) or "the end"
        with suppress(Exception):  # a log that cannot be written stops nothing
            self.ctx.log.warning("%s: stopping, waiting for %s", reason.name, words)


def _is_awaited(step: Step) -> bool:
    return step.status is Status.RUNNING and step.start is not None and not step.children


def report_of(run: Run) -> Step:
    """Do the work, and return the report. In the main thread, SIGINT and SIGTERM cancel the run; in
    another thread, no signal is handled.
    """
    if threading.current_thread() is threading.main_thread():
        _work_in_a_thread(run)
    else:
        run.work()
    return run.root


def _work_in_a_thread(run: Run) -> None:
    """Do the work in a thread, and stop the run for each signal that comes meanwhile.

    The error of a handler that the program has for another signal is raised after the end of the
    run, which it cancels.
    """
    events: SimpleQueue[int] = SimpleQueue()
    thread = run.thread(at_end=lambda: events.put(_END))
    with handling_signals(events.put):
        try:
            thread.start()
            number = _next(events)
            while number != _END:
                run.stop(number)
                number = _next(events)
        except BaseException as error:
            run.ctx.cancel(describe_error(error))
            raise
        finally:
            if thread.is_alive():
                thread.join()


def _next(events: SimpleQueue[int]) -> int:
    """The next event. The wait is short: if a signal comes just before the thread blocks, Python
    calls its handler when the wait is over.
    """
    while True:
        with suppress(Empty):
            return events.get(timeout=0.25)


@contextmanager
def handling_signals(on_signal: Callable[[int], object]) -> Iterator[None]:
    """In the block, call back for SIGINT and SIGTERM, in place of the program's own handlers.

    A signal that the parent process ignored (nohup) stays ignored.
    """
    with ExitStack() as stack:
        for number in _STOPPING:
            former = signal.getsignal(number)
            if former is signal.SIG_DFL or callable(former):
                stack.callback(signal.signal, number, former)
                signal.signal(number, lambda number, _frame: on_signal(number))
        yield
