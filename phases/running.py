"""Run a task as the work of a program, ask it for its plan, or undo it: each returns a report.

Python calls the handler of a signal in the main thread, between two of its instructions: the thread
may hold a lock just then. So a handler only notes the signal. The tasks run in a thread of their
own, and the main thread waits, and stops the run for each signal that was noted.
"""

from __future__ import annotations

import contextvars
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from phases.context import Context, derived, in_a_run
from phases.execution import new_step, run_step
from phases.step import Observer, Status, Step
from phases.tasks import AnyTask, Verb, require_known, valid_tree, wrapped
from phases.values import describe_error

if TYPE_CHECKING:
    import asyncio
    import logging

    from phases.context import Clock


def run(
    task: AnyTask,
    *,
    ctx: Context | None = None,
    skip: Collection[str] = (),
    undo_on_failure: bool = False,
    observers: Iterable[Observer] | None = None,
    clock: Clock | None = None,
    logger: logging.Logger | None = None,
) -> Step:
    """Run the task as the main work of a program, and report:
    `sys.exit(phases.run(bootstrap).exit_code)`.

    SIGINT and SIGTERM cancel the run, and `run` returns when it has stopped. A failure is not
    raised; it is in the report. Nothing is printed: `logging.basicConfig(level="INFO")` shows the
    log lines, `print(report)` the report. `skip` has the names of
    tasks that are left out; UnknownTask for one that no task has. Without observers, you get log
    lines.

    With a context of your own, another part of the program can cancel the run: `ctx.cancel()`. That
    context then has the observers, the clock and the logger. In a running task, write
    `phases.execute(task, ctx)` instead.

    With `undo_on_failure`, a run that fails or is cancelled is undone before it ends: each task
    that began, unless it returned a Skip at its first attempt. The steps of the undo are in the
    report.
    """
    ctx = ctx or Context(observers=observers, clock=clock, logger=logger)
    require_known(skip, valid_tree(task))
    if undo_on_failure:
        task = _undone_on_failure(task)
    return _report_of(task, derived(ctx, skip=ctx.skip.union(skip)))


async def run_async(task: AnyTask, *, ctx: Context | None = None, **options: Any) -> Step:
    """Run the task beside the event loop, and report: `report = await phases.run_async(task)`.

    Like `run`, in a thread. If the coroutine is cancelled, as asyncio.run does for SIGINT, so is
    the run; the cancellation is raised when the run has ended. Signals are the loop's: a program
    that has to stop cleanly after SIGTERM writes
    `loop.add_signal_handler(signal.SIGTERM, ctx.cancel, signal.SIGTERM)`.
    """
    import asyncio  # noqa: PLC0415  it takes long, and a program without a loop needs none

    ctx = ctx or Context()
    ending = asyncio.ensure_future(asyncio.to_thread(run, task, ctx=ctx, **options))
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError as error:
        ctx.cancel(str(error) or "the coroutine was cancelled")
        await _end_of(ending)
        raise


async def _end_of(future: asyncio.Future[Step]) -> None:
    """Wait for it, however often the coroutine is cancelled meanwhile."""
    import asyncio  # noqa: PLC0415  see run_async

    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])


def plan(task: AnyTask, *, ctx: Context | None = None, skip: Collection[str] = ()) -> Step:
    """Ask each task of the tree, in order, for its plan. In the report, the plan is the result of
    its step.

    Nothing is changed and, without a context of your own, nothing is logged. Tasks that `skip`
    names are not called. `ok` is false if a task raises, or if its plan says that the task would
    fail (`would_fail`): the error is in the report, with the plan if there is one. The other tasks
    are still called.
    """
    ctx = ctx or Context(observers=())
    require_known(skip, valid_tree(task))
    return _report_of(task, derived(ctx, skip=ctx.skip.union(skip)), "plan")


def undo(task: AnyTask, ctx: Context | None = None) -> Step:
    """Call the undo of every task in the tree that offers one, the last listed first, and report.

    If an undo fails, the others are still called; the failures are in the report. If a group has an
    undo, it is called instead of the undos of its tasks. All of it is shielded: a signal is in the
    report, and stops nothing.
    """
    ctx = ctx or Context()
    with ctx.shielded() as safe:
        return _report_of(task, safe, "undo")


def _report_of(task: AnyTask, ctx: Context, verb: Verb = "do") -> Step:
    """Do the work, and return the report. In the main thread, SIGINT and SIGTERM cancel the run; in
    another thread, no signal is handled.
    """
    ctx = in_a_run(ctx)
    root = new_step(valid_tree(task).name, ctx, verb)

    def work() -> None:
        with suppress(BaseException):  # it is in the report
            run_step(task, root, ctx, verb)
        root.signal = root.signal or ctx.run_scope.stop.signal

    if threading.current_thread() is not threading.main_thread():
        work()
        return root

    caught: list[int] = []
    with _handling_signals(caught.append):
        # Not the clock's: FakeClock counts this thread in place of the main thread, which does not
        # wait by the clock.
        variables = contextvars.copy_context()
        thread = threading.Thread(target=variables.run, args=(work,), name="phases")
        try:
            thread.start()
            for _ in _pauses_until_the_end_of(thread):
                while caught:
                    _stop(root, ctx, caught.pop(0))
        except BaseException as error:  # of another handler of the program
            ctx.cancel(describe_error(error))
            for _ in _pauses_until_the_end_of(thread):
                pass
            raise
    if caught:  # too late to stop anything
        root.signal = root.signal or caught[0]
    return root


def _stop(root: Step, ctx: Context, number: int) -> None:
    """Cancel the run. A repeated signal only logs again what the run is waiting for."""
    root.signal = root.signal or number
    reason = signal.Signals(number)
    ctx.cancel(reason)
    awaited = [step.label for step in root.walk() if _is_awaited(step)]
    words = ", ".join(awaited) or "the end"
    ctx.log.warning("%s: stopping, waiting for %s", reason.name, words)


def _pauses_until_the_end_of(thread: threading.Thread) -> Iterator[None]:
    pause = 0.0001  # it usually ends now
    while thread.is_alive():
        # Not join: before Python 3.13, one that is interrupted takes the thread for ended.
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
        yield


def _is_awaited(step: Step) -> bool:
    return step.status is Status.RUNNING and step.start is not None and not step.children


@contextmanager
def _handling_signals(note: Callable[[int], None]) -> Iterator[None]:
    """In the block, note SIGINT and SIGTERM, in place of the program's own handlers. A signal that
    the parent process ignored (nohup) stays ignored.
    """
    former: dict[int, Any] = {}
    try:
        for stopping in (signal.SIGTERM, signal.SIGINT):  # the handler of SIGINT may raise
            handler = signal.getsignal(stopping)
            if handler is signal.SIG_DFL or callable(handler):
                former[stopping] = handler
                signal.signal(stopping, lambda number, _frame: note(number))
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _undone_on_failure(task: AnyTask) -> AnyTask:
    """The task, which undoes what ran of it before it fails or is cancelled."""

    def do(ctx: Context) -> object:
        try:
            return task.do(ctx)
        except BaseException:
            step = ctx.step
            assert step is not None  # noqa: S101  a task runs inside its step
            with derived(ctx, ran=_paths_to_undo(step)).shielded() as safe:
                undo_step = new_step(task.name, safe, "undo")
                undo_step.path = step.path  # it is inside the step, but of the same task
                with suppress(BaseException):  # an error or Ctrl-C of the undo is noted in its step
                    run_step(task, undo_step, safe, "undo")
            step.failures = undo_step.failures  # after those of the run, which `raise` adds
            raise

    return wrapped(task, do)


def _paths_to_undo(report: Step) -> frozenset[tuple[str, ...]]:
    """The paths of the tasks that may have changed something, and of the groups around them,
    without which they are not reached.
    """
    paths: set[tuple[str, ...]] = set()
    for step in report.walk():
        # An attempt that failed may have left something, even if the next one had nothing to do.
        has_changed_nothing = step.status is Status.SKIPPED and step.attempts == 1
        if step.action == "do" and step.start is not None and not has_changed_nothing:
            paths.update(step.path[:length] for length in range(1, len(step.path) + 1))
    return frozenset(paths)
