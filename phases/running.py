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
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from phases.context import Context, T, Task, derived, with_run_id
from phases.execution import in_dry_run, new_step, run_step
from phases.tasks import AnyTask, WrappedTask, require_known, valid_tree
from phases.values import describe_error

if TYPE_CHECKING:
    import asyncio

    from phases.step import Action, Step


def execute(task: Task[T], ctx: Context | None = None) -> T:
    """Run the task and return its result.

    A task that fails raises TaskFailed, with the steps that failed; a cancelled one raises
    Cancelled. SystemExit, KeyboardInterrupt and the like are raised unchanged, after the end of
    their step was logged.

    In the main thread, SIGINT and SIGTERM cancel the run. Once all tasks have ended, the signal is
    passed on to the program's own handler: Ctrl-C then raises KeyboardInterrupt here.

    A running task can pass its own context to execute another task, whose step is then inside its
    own step. If run(skip=…) leaves that other task out, the result is a Skip. List the other task
    in the `subtasks` of the running task, so that plans and undos find it.
    """
    run = _Run(task, ctx)
    run.finish()
    # Loop over a copy: if a task of another run of the main thread calls `execute`, our own handler
    # is still set. It gets the signal that is raised here, and appends it to the list, which both
    # runs share.
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
    log lines, `print(report)` the report. `skip` names the tasks to leave out; a name that no task
    has raises UnknownTask.

    With a context of your own, another part of the program can cancel the run: `ctx.cancel()`. In a
    running task, write `phases.execute(task, ctx)` instead.

    With `undo_on_failure`, a run that fails or is cancelled undoes each task that began, and then
    ends. A task that returned a Skip at its first attempt has nothing to undo. The report has the
    steps of the undo, too.
    """
    if undo_on_failure:
        task = _with_undo_on_failure(task)
    return _report_of(task, ctx, skip, "do")


async def run_async(
    task: AnyTask,
    *,
    ctx: Context | None = None,
    skip: Collection[str] = (),
    undo_on_failure: bool = False,
) -> Step:
    """Do what `run` does, but leave the event loop free: `report = await phases.run_async(task)`.

    SIGINT and SIGTERM cancel the run if the loop runs in the main thread. If the coroutine is
    cancelled, the run is cancelled, too, and CancelledError is raised once the run has ended. No
    report is returned then; only observers get the steps.
    """
    import asyncio  # noqa: PLC0415  it takes long, and a program without a loop needs none

    if undo_on_failure:
        task = _with_undo_on_failure(task)
    run = _Run(task, ctx, skip)
    loop = asyncio.get_running_loop()
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
            run.ctx.blocked_loops.add(loop)  # `run.wait` below blocks it
            raise
        finally:
            run.wait()
    if cancelled is not None:
        raise cancelled
    return run.report


def await_in_task(
    ctx: Context, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop
) -> T:
    """In a running task, run the coroutine in the event loop, and return its result. The loop has
    to go on meanwhile: begin the run with `run_async`, and not with `run`, which blocks the loop.

    If the task is cancelled, the coroutine is cancelled, and has ended when Cancelled is raised. If
    the loop has not begun, or was stopped but not closed, this waits for it.
    """
    running: asyncio.Task[T]
    # Gets the asyncio task of the coroutine when that task has ended.
    ended: Future[asyncio.Task[T]] = Future()

    def begin() -> None:
        nonlocal running
        if ended.set_running_or_notify_cancel():  # false if `cancel` was called first
            try:
                running = loop.create_task(coroutine)
                running.add_done_callback(ended.set_result)
            except BaseException as error:  # noqa: BLE001  raised in the task
                ended.set_exception(error)

    def cancel() -> None:
        if ended.cancel():  # before the loop has called `begin`: something blocks it
            coroutine.close()
        else:
            loop.call_soon_threadsafe(lambda: running.cancel())  # noqa: PLW0108  it is set later

    loop.call_soon_threadsafe(begin)
    with ctx.on_cancel(cancel):
        while not ended.done():
            if loop in ctx.blocked_loops or loop.is_closed():
                try:
                    cancel()
                finally:  # also if `cancel` raises, because a closed loop takes no call
                    raise RuntimeError(
                        "the event loop has ended, or waits for this run itself: begin the run "
                        "with run_async, and call plan and undo in asyncio.to_thread"
                    )
            wait([ended], 0.1)  # seconds
    return ended.result().result()


def plan(task: AnyTask, *, ctx: Context | None = None, skip: Collection[str] = ()) -> Step:
    """Do a dry run: ask each task of the tree, in order, for its plan. In the report, the plan is
    the `result` of the task's step.

    Nothing is changed. Nothing is logged either, unless you pass a context of your own. Tasks named
    in `skip` are not asked.

    The report is not `ok` if a task raises, or if its plan says that the task would fail
    (`would_fail`). The step then has the error, beside the plan if there is one, and the other
    tasks are still asked.
    """
    return _report_of(task, ctx or derived(Context(), observers=()), skip, "plan")


def undo(task: AnyTask, *, ctx: Context | None = None, skip: Collection[str] = ()) -> Step:
    """Call the undo of every task in the tree that has one, from the last task to the first, and
    report.

    If an undo fails, the others are still called; the report has the failures. If a group has an
    undo of its own, this is called instead of the undos of its tasks. A signal does not stop an
    undo half way; it is only noted in the report.
    """
    with (ctx or Context()).shielded() as safe:
        return _report_of(task, safe, skip, "undo")


def _report_of(task: AnyTask, ctx: Context | None, skip: Collection[str], action: Action) -> Step:
    """Call the task's method `action` in a run, wait for its end, and return the report."""
    run = _Run(task, ctx, skip, action)
    run.finish()
    return run.report


class _Run:
    """One run of a task in a thread: `report` is its step, `error` what the task raised."""

    def __init__(
        self,
        task: AnyTask,
        ctx: Context | None,
        skip: Collection[str] = (),
        action: Action = "do",
    ) -> None:
        """Check the task and the names in `skip`, and make the step and the thread of the run. The
        thread is not started here.
        """
        ctx = ctx or Context()
        require_known(skip, valid_tree(task))
        self.ctx = with_run_id(derived(ctx, skip=ctx.skip.union(skip)))
        self.report = new_step(task.name, self.ctx, action)
        self.result: object = None
        self.error: BaseException | None = None
        # The signals that came during the run. `_noting_signals` puts a list here, which is shared
        # by all runs for which the main thread waits at the same time.
        self.signals: list[int] = []
        # For how many of these signals `_stop` was called already.
        self._signals_handled = 0
        self._task = task
        self._action = action
        # Not started by `clock.start`, so that a FakeClock does not count this thread. It already
        # counts the caller's thread, which only waits for this one, and not by the clock: the two
        # count as one.
        variables = contextvars.copy_context()
        self.thread = threading.Thread(target=variables.run, args=(self._work,), name="phases")

    def _work(self) -> None:
        """Call the task's method, and keep its result or its error. The report gets the signal that
        stopped the run, if one did.
        """
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
        """Run the task to its end, so that SIGINT and SIGTERM can cancel it.

        Python calls signal handlers in the main thread only. The thread that calls this therefore
        starts `self.thread` for the task, and itself waits and takes the signals.
        """
        asyncio_module = sys.modules.get("asyncio")
        if asyncio_module:  # else no event loop runs
            # An event loop that runs in this thread stands still while the thread waits. A task
            # must not wait for a coroutine of that loop (`await_in_task`). If no loop runs here,
            # None is added, which does no harm.
            self.ctx.blocked_loops.add(asyncio_module._get_running_loop())
        with _noting_signals(self):
            self.thread.start()
            self.wait()

    def wait(self) -> None:
        """Wait until the thread of the run has ended. An error that is raised meanwhile, by a
        signal handler of the program (SIGALRM) or when a signal is logged, cancels the run. At the
        end, raise the last such error, or else an error of the run that is not in the report.
        """
        raised = None
        while self.thread.is_alive():
            try:
                for pause in self.pauses():
                    # Not thread.join: before Python 3.13, a join that is interrupted believes that
                    # the thread has ended.
                    time.sleep(pause)
            except BaseException as error:  # noqa: BLE001  raised below
                raised = error
                self.ctx.cancel(describe_error(error))
        if self.report.status in {"running", "ok"}:
            raised = raised or self.error  # such as an error of the clock, or None
        if raised is not None:
            raise raised

    def pauses(self) -> Iterator[float]:
        """Yield how many seconds to sleep, again and again until the thread of the run has ended.
        The caller sleeps in its own way, by `time.sleep` or `asyncio.sleep`. After each sleep, stop
        the run for each new signal.
        """
        pause = 0.0001  # begin with a short one, because most runs end at once
        while self.thread.is_alive():
            yield pause
            pause = min(2 * pause, 0.02)
            for number in self.signals[self._signals_handled :]:
                self._signals_handled += 1
                self._stop(number)

    def _stop(self, number: int) -> None:
        """Cancel the run because of this signal, and log for which tasks it still waits. A further
        signal only logs this again.
        """
        reason = signal.Signals(number)
        self.ctx.cancel(reason)
        # Those that work now: a step without a start has not begun, and a group with children only
        # waits for them.
        running = [
            step.label
            for step in self.report.walk()
            if step.start and not step.children and step.status == "running"
        ]
        self.ctx.log.warning(
            "%s: stopping, waiting for %s", reason.name, ", ".join(running) or "the end"
        )


# The runs that the main thread waits for.
_awaited_runs: set[_Run] = set()
# The signals since the first of these runs began.
_signals_so_far: list[int] = []
# The handlers of the program, by the number of the signal.
_former_handlers: dict[int, Any] = {}


def _note_signal(number: int, _frame: object) -> None:  # the handler of both signals
    _signals_so_far.append(number)


@contextmanager
def _noting_signals(run: _Run) -> Iterator[None]:
    """While the block runs, note SIGINT and SIGTERM in `run.signals`, in place of the program's own
    handlers. Outside the main thread, do nothing, because only the main thread can set handlers.

    A signal that the parent process ignored (nohup) stays ignored. A handler that the program sets
    inside the block is kept after the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    global _signals_so_far  # noqa: PLW0603  the handler gets no argument of ours
    try:
        # In an event loop, several runs can be in such a block at once. The first run sets the
        # handlers, and the last one that ends restores them. A signal stops all of these runs, so
        # they share one list of signals.
        if not _awaited_runs:
            _signals_so_far = []
        run.signals = _signals_so_far
        _awaited_runs.add(run)
        for stopping in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(stopping)
            # Leave None alone: such a handler was not set by Python, which could not restore it.
            if handler not in {_note_signal, signal.SIG_IGN, None}:
                _former_handlers[stopping] = handler
                signal.signal(stopping, _note_signal)
        yield
    finally:
        _awaited_runs.discard(run)
        _restore_handlers()
        if run.signals:  # the report has a signal even if it came too late to stop the run
            run.report.signal = run.report.signal or run.signals[0]


def _restore_handlers() -> None:
    """Set the handlers of the program again. While other runs are awaited, ours stay."""
    while _former_handlers and not _awaited_runs:
        number, former = _former_handlers.popitem()  # SIGINT last: Ctrl-C may raise from then on
        if signal.getsignal(number) is _note_signal:
            signal.signal(number, former)


# In a child process that a task forks, no run is awaited, and signals do what they did before.
os.register_at_fork(after_in_child=_awaited_runs.clear)
os.register_at_fork(after_in_child=_restore_handlers)


def _with_undo_on_failure(task: AnyTask) -> AnyTask:
    """The task with an undo built into its `do`: if that fails or is cancelled, each task that ran
    inside it is undone before the error is raised.
    """

    def do(ctx: Context) -> object:
        try:
            return task.do(ctx)
        except BaseException:
            step = ctx.step
            assert step is not None  # noqa: S101  a task runs inside its step
            with derived(ctx, ran=_paths_to_undo(step)).shielded() as safe:
                undo_step = new_step(task.name, safe, "undo")
                undo_step.path = step.path  # `new_step` has added the task's name a second time
                with suppress(BaseException):  # an error or Ctrl-C of the undo is noted in its step
                    run_step(task, undo_step, safe, "undo")
            # `_record_error` gets the error that is raised here, and puts the failures of the run
            # before these failures of the undo.
            step.failures = undo_step.failures
            raise

    return WrappedTask(task, do)


def _paths_to_undo(report: Step) -> frozenset[tuple[str, ...]]:
    """The paths of the tasks to undo after a failed run: all that began, because each may have
    changed something. A task that returned a Skip at its first attempt has not.
    """
    paths: set[tuple[str, ...]] = set()
    for step in report.walk():
        # An attempt that failed may have left something, even if the next one had nothing to do.
        has_changed_nothing = step.status == "skipped" and step.attempts == 1
        if step.action == "do" and step.start is not None and not has_changed_nothing:
            paths.add(step.path)
    return frozenset(paths)
