"""Run a task as the work of a program, ask it for its plan, or undo it.

Python calls the handler of a signal in the main thread, between two of its instructions: the thread
may hold a lock just then. So a handler only notes the signal. The tasks run in a thread of their
own, and the thread that waits for them stops the run for each signal that was noted. Runs can be
awaited side by side in one event loop: the handlers are set for the first of them, and restored
after the last. A run that begins while a signal stops another is stopped, too.

Not handled: Ctrl-C while asyncio.run makes its task, before any handler is set. asyncio may then
start the coroutine, and await it no more; its run goes on to the end.
"""

from __future__ import annotations

import contextvars
import signal
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from phases.context import Context, derived, in_a_run
from phases.execution import in_dry_run, new_step, run_step
from phases.step import Action, Status, Step
from phases.tasks import AnyTask, Task, require_known, valid_tree, wrapped
from phases.values import describe_error

T = TypeVar("T")


def execute(task: Task[T], ctx: Context | None = None) -> T:
    """Run the task and return its result.

    An Exception becomes TaskFailed, with the steps that failed. Cancellation raises Cancelled.
    SystemExit, KeyboardInterrupt and the like are raised unchanged, after the end of their step was
    logged.

    In the main thread, SIGINT and SIGTERM cancel the run, and reach the program once all tasks have
    ended: Ctrl-C then raises KeyboardInterrupt here.

    With the context of a running task, the task becomes a step inside that task's step; if
    run(skip=…) leaves it out, the result is a Skip. Name it in the `subtasks` of the running task,
    so that plans and undos find it.
    """
    run = _Run(task, ctx)
    run.finish()
    # A copy: while another run is awaited, `_note` is still the handler, and appends to this list.
    for number in tuple(run.signals):
        signal.raise_signal(number)
    if run.error is not None:
        raise run.error
    return cast("T", run.result)


def run(
    task: AnyTask,
    *,
    ctx: Context | None = None,
    skip: Collection[str] = (),
    undo_on_failure: bool = False,
) -> Step:
    """Run the task as the main work of a program, and report:
    `sys.exit(phases.run(bootstrap).exit_code)`.

    SIGINT and SIGTERM cancel the run, and `run` returns when it has stopped. A failure is not
    raised; it is in the report. Nothing is printed: `logging.basicConfig(level="INFO")` shows the
    log lines, `print(report)` the report. `skip` has the names of tasks that are left out;
    UnknownTask for one that no task has.

    With a context of your own, another part of the program can cancel the run: `ctx.cancel()`. In a
    running task, write `phases.execute(task, ctx)` instead.

    With `undo_on_failure`, a run that fails or is cancelled is undone before it ends: each task
    that began, unless it returned a Skip at its first attempt. The steps of the undo are in the
    report.
    """
    if undo_on_failure:
        task = _undone_on_failure(task)
    return _report_of(task, ctx, skip, "do")


async def run_async(
    task: AnyTask,
    *,
    ctx: Context | None = None,
    skip: Collection[str] = (),
    undo_on_failure: bool = False,
) -> Step:
    """Run the task beside the event loop, and report: `report = await phases.run_async(task)`.

    Like `run`: SIGINT and SIGTERM cancel the run if the loop runs in the main thread, and the
    report is returned when the run has stopped. If the coroutine is cancelled, so is the run; the
    cancellation is raised when the run has ended, and only observers get the steps.
    """
    import asyncio  # noqa: PLC0415  it takes long, and a program without a loop needs none

    if undo_on_failure:
        task = _undone_on_failure(task)
    run = _Run(task, ctx, skip)
    cancelled: asyncio.CancelledError | None = None
    with _noting_signals(run):
        run.thread.start()
        try:
            for pause in run.pauses():
                try:
                    await asyncio.sleep(pause)
                except asyncio.CancelledError as error:
                    cancelled = error
                    run.ctx.cancel(str(error) or "the coroutine was cancelled")
        except BaseException:  # such as GeneratorExit: nobody awaits this coroutine any more
            run.ctx.cancel("the event loop was closed")
            raise
        finally:
            run.wait()
    if cancelled is not None:
        raise cancelled
    return run.report


def plan(task: AnyTask, *, ctx: Context | None = None, skip: Collection[str] = ()) -> Step:
    """Ask each task of the tree, in order, for its plan. In the report, the plan is the result of
    its step.

    Nothing is changed and, without a context of your own, nothing is logged. Tasks that `skip`
    names are not called. `ok` is false if a task raises, or if its plan says that the task would
    fail (`would_fail`): the error is in the report, with the plan if there is one. The other tasks
    are still called.
    """
    return _report_of(task, ctx or derived(Context(), observers=()), skip, "plan")


def undo(task: AnyTask, *, ctx: Context | None = None, skip: Collection[str] = ()) -> Step:
    """Call the undo of every task in the tree that offers one, the last listed first, and report.

    If an undo fails, the others are still called; the failures are in the report. If a group has an
    undo, it is called instead of the undos of its tasks. All of it is shielded: a signal is in the
    report, and stops nothing.
    """
    with (ctx or Context()).shielded() as safe:
        return _report_of(task, safe, skip, "undo")


def _report_of(task: AnyTask, ctx: Context | None, skip: Collection[str], action: Action) -> Step:
    run = _Run(task, ctx, skip, action)
    run.finish()
    return run.report


class _Run:
    """A run of a task in a thread. `report` is its step, `error` what the task raised."""

    def __init__(
        self,
        task: AnyTask,
        ctx: Context | None,
        skip: Collection[str] = (),
        action: Action = "do",
    ) -> None:
        ctx = ctx or Context()
        require_known(skip, valid_tree(task))
        self.ctx = in_a_run(derived(ctx, skip=ctx.skip.union(skip)))
        self.report = new_step(task.name, self.ctx, action)
        self.result: object = None
        self.error: BaseException | None = None
        self.signals: list[int] = []
        """The signals that came during the run; the list `_noted` if the main thread waits."""
        self._stopped_for = 0
        """For how many of these signals the run was stopped already."""
        self._task, self._action = task, action
        # Not started by the clock: a FakeClock counts the main thread as busy, which only waits for
        # this thread. If both counted, one would seem busy for ever, and the clock would not jump.
        variables = contextvars.copy_context()
        self.thread = threading.Thread(target=variables.run, args=(self._work,), name="phases")

    def _work(self) -> None:
        """Run the task; keep its result or error and, in the report, the signal that stopped it."""
        if self._action == "plan":
            in_dry_run.set(True)
        try:
            self.result = run_step(self._task, self.report, self.ctx, self._action)
        except BaseException as error:  # noqa: BLE001  it is in the report, or raised by execute
            self.error = error
        # If the task runs inside another one, the report of the outer run has the signal.
        if self.ctx.step is None:
            self.report.signal = self.ctx.run_scope.stop.signal

    def finish(self) -> None:
        """Run the task to its end. In the main thread, run it in `self.thread`, and SIGINT and
        SIGTERM cancel it. In any other thread, run it right there: no signal reaches that thread,
        because Python calls the handlers of signals only in the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            # In a copy of the context variables, so that the tasks change none of the caller's.
            contextvars.copy_context().run(self._work)
            return
        with _noting_signals(self):
            self.thread.start()
            self.wait()

    def wait(self) -> None:
        """Wait for the end of the thread. An error that a handler of another signal, such as
        SIGALRM, raises meanwhile cancels the run; the last such error is raised at the end.
        """
        raised: BaseException | None = None
        for pause in self.pauses():
            try:
                # Not thread.join: before Python 3.13, a join that is interrupted believes that the
                # thread has ended.
                time.sleep(pause)
            except BaseException as error:  # noqa: BLE001  raised below
                raised = error
                self.ctx.cancel(describe_error(error))
        if raised is not None:
            raise raised

    def pauses(self) -> Iterator[float]:
        """Yield the seconds that the caller sleeps (`time.sleep` or `asyncio.sleep`), again and
        again until the thread has ended. After each pause, stop the run if a signal was noted.
        """
        pause = 0.0001  # most runs end at once
        while self.thread.is_alive():
            yield pause
            pause = min(2 * pause, 0.02)
            for number in self.signals[self._stopped_for :]:
                self._stopped_for += 1
                self._stop(number)

    def _stop(self, number: int) -> None:
        """Cancel the run. A repeated signal only logs again what the run is waiting for."""
        reason = signal.Signals(number)
        self.ctx.cancel(reason)
        innermost = [step for step in self.report.walk() if step.start and not step.children]
        running = [step.label for step in innermost if step.status is Status.RUNNING]
        awaited = ", ".join(running) or "the end"
        self.ctx.log.warning("%s: stopping, waiting for %s", reason.name, awaited)


_awaited_runs: set[_Run] = set()
"""The runs that the main thread waits for."""
_noted: list[int] = []
"""The signals since the first of these runs began."""
_former_handlers: dict[int, Any] = {}
"""The handlers of the program, by the number of the signal."""


def _note(number: int, _frame: object) -> None:  # the handler of both signals
    _noted.append(number)


@contextmanager
def _noting_signals(run: _Run) -> Iterator[None]:
    """In the block, note SIGINT and SIGTERM, in place of the program's own handlers. In another
    thread, do nothing, because Python lets only the main thread set handlers.

    A signal that the parent process ignored (nohup) stays ignored. A handler that the program sets
    in the block stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    global _noted  # noqa: PLW0603  a handler is a function, and gets nothing else
    try:
        # Blocks overlap in an event loop. The first sets the handlers, and the last that ends
        # restores them. A signal stops all of their runs, so these share a list.
        if not _awaited_runs:
            _noted = []
        run.signals = _noted
        _awaited_runs.add(run)
        for stopping in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(stopping)
            # None is a handler that was not set by Python, and cannot be restored by it.
            if handler not in {_note, signal.SIG_IGN, None}:
                _former_handlers[stopping] = handler
                signal.signal(stopping, _note)
        yield
    finally:
        _awaited_runs.discard(run)
        while _former_handlers and not _awaited_runs:
            number, former = _former_handlers.popitem()  # SIGINT last: its handler may raise
            if signal.getsignal(number) is _note:
                signal.signal(number, former)
        if run.signals:  # in the report even if the run ended before the signal stopped it
            run.report.signal = run.report.signal or run.signals[0]


def _undone_on_failure(task: AnyTask) -> AnyTask:
    """A task that does the same and, if it fails or is cancelled, first undoes what ran of it."""

    def do(ctx: Context) -> object:
        """Call the task's do. If it raises, undo what ran, then raise the error again."""
        try:
            return task.do(ctx)
        except BaseException:
            step = ctx.step
            assert step is not None  # noqa: S101  a task runs inside its step
            with derived(ctx, ran=_paths_to_undo(step)).shielded() as safe:
                undo_step = new_step(task.name, safe, "undo")
                undo_step.path = step.path  # without the task's name a second time
                with suppress(BaseException):  # an error or Ctrl-C of the undo is noted in its step
                    run_step(task, undo_step, safe, "undo")
            step.failures = undo_step.failures  # `recorded` puts those of the run before them
            raise

    return wrapped(task, do)


def _paths_to_undo(report: Step) -> frozenset[tuple[str, ...]]:
    """The paths of the tasks that may have changed something: each that began, unless it returned
    a Skip at its first attempt.
    """
    paths: set[tuple[str, ...]] = set()
    for step in report.walk():
        # An attempt that failed may have left something, even if the next one had nothing to do.
        has_changed_nothing = step.status is Status.SKIPPED and step.attempts == 1
        if step.action == "do" and step.start is not None and not has_changed_nothing:
            paths.add(step.path)
    return frozenset(paths)
