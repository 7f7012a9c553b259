"""A run of a task, and how SIGINT and SIGTERM stop it.

Python calls the handler of a signal in the main thread, between two of its instructions: the thread
may hold a lock just then. So the tasks run in a thread of their own. The main thread only waits for
a SimpleQueue, into which a handler may put something at any time.
"""

from __future__ import annotations

import contextvars
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from phases.context import in_a_run
from phases.execution import new_step, recorded, run_step
from phases.step import Status, Step
from phases.tasks import AnyTask, Verb, valid_tree
from phases.values import describe_error

if TYPE_CHECKING:
    from types import FrameType

    from phases.context import Context

# SIGINT is restored last: its own handler may raise at once.
_STOPPING = (signal.SIGINT, signal.SIGTERM)
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
        number = self.ctx.run_scope.stop.signal
        if number is not None:
            self.note(number)

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

    def start(self, thread: threading.Thread) -> bool:
        """Start the thread. If the system starts no more threads, that is the failure in the
        report, and the answer is false.
        """
        try:
            thread.start()
        except RuntimeError:
            if thread.is_alive():  # a handler of the program has raised it
                raise
            with suppress(Exception), recorded(self.root, self.ctx):
                raise
            return False
        return True

    def note(self, number: int) -> None:
        """Have the signal in the report, also if it comes too late to stop anything."""
        self.root.signal = self.root.signal or number

    def stop(self, number: int) -> None:
        """Cancel the run because of this signal. A repeated one only logs again what the run is
        waiting for.
        """
        reason = signal.Signals(number)
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

    def on_signal(number: int) -> None:
        run.note(number)
        events.put(number)

    with handling_signals(on_signal):
        try:
            is_started = run.start(thread)
            if not is_started:
                return
            number = _next(events)
            while number != _END:
                run.stop(number)
                number = _next(events)
        except BaseException as error:
            run.ctx.cancel(describe_error(error))
            raise
        finally:
            wait_for_end(thread)


def wait_for_end(thread: threading.Thread) -> None:
    """Wait for the end of the thread. What handlers of the program raise meanwhile is raised
    afterwards: the last of these errors, which has the others as its context.
    """
    raised: BaseException | None = None
    pause = 0.0001  # it usually ends now
    while thread.is_alive():
        try:
            # Not join: before Python 3.13, one that is interrupted takes the thread for ended.
            time.sleep(pause)
        except BaseException as error:  # noqa: BLE001  raised below
            raised = error
        pause = min(2 * pause, 0.01)
    if raised is not None:
        raise raised


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

    A signal that the parent process ignored (nohup) stays ignored. A handler that the program sets
    meanwhile stays.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        on_signal(number)

    def restore(number: int, former: Any) -> None:
        if signal.getsignal(number) is handle:
            signal.signal(number, former)

    with ExitStack() as stack:
        for number in _STOPPING:
            former = signal.getsignal(number)
            if former is signal.SIG_DFL or callable(former):
                stack.callback(restore, number, former)
                signal.signal(number, handle)
        yield
