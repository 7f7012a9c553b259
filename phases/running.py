"""Run a task as the work of a program, ask it for its plan, or undo it: each returns a report.

SIGINT and SIGTERM cancel a run, which then ends as after any other cancellation. Python calls the
handler of a signal in the main thread, between two of its instructions: the thread may hold a lock
just then. So the tasks run in a thread of their own. The main thread only waits for a SimpleQueue,
into which a handler may put something at any time. If one of the program's own handlers raised
there, the main thread would leave the tasks behind, so that error is kept until they have ended.
"""

from __future__ import annotations

import contextvars
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from phases.arguments import must_be
from phases.context import Clock, Context, name_of_signal
from phases.execution import (
    new_step,
    record_error,
    require_no_event_loop,
    require_no_task_around,
    run_step,
)
from phases.observers import LOGGER, LiveTree
from phases.step import Observer, Status, Step
from phases.tasks import AnyTask, FunctionTask, Names, Path, Verb, selection, valid_task, valid_tree

if TYPE_CHECKING:
    import logging
    from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT)
"""The signals that cancel a run."""
_END = 0  # put into the queue when the tasks have ended: no signal has this number


def run(
    task: AnyTask,
    *,
    ctx: Context | None = None,
    only: Names = None,
    skip: Names = None,
    undo_on_failure: bool = False,
    observers: Iterable[Observer] | None = None,
    clock: Clock | None = None,
    logger: logging.Logger | str = LOGGER,
) -> Step:
    """Run the task as the main work of a program, and report:
    `sys.exit(phases.run(bootstrap).exit_code)`.

    SIGINT and SIGTERM cancel the run, and `run` returns when it has stopped. A failure is not
    raised; it is in the report. Nothing is printed: `logging.basicConfig(level="INFO")` shows the
    log lines, `print(report)` the report. `logger` is a logger or its name. `only` and `skip`
    select tasks by name, or by `group/name`; an unknown name raises UnknownTask. Without observers,
    you get log lines and, with rich and a terminal on stderr, a live tree.

    With a context of your own, another part of the program can cancel the run: `ctx.cancel()`. That
    context then has the observers, the clock and the logger.

    With `undo_on_failure`, a run that fails or is cancelled is undone before it ends, as by
    `undo(task, of=report)`; the steps of the undo are in the report.
    """
    require_no_event_loop("run", "await phases.run_async(task)")
    if ctx is None:
        ctx = _context_for_main_work("run", observers=observers, clock=clock, logger=logger)
    elif (observers, clock, logger) != (None, None, LOGGER):
        raise TypeError("run: give observers, clock and logger to the context, not beside ctx=")
    prepared = prepared_run("run", task, ctx, only=only, skip=skip, undo_on_failure=undo_on_failure)
    return _report(prepared)


def _context_for_main_work(
    function: str,
    *,
    observers: Iterable[Observer] | None = None,
    clock: Clock | None = None,
    logger: logging.Logger | str = LOGGER,
) -> Context:
    """The context of a run that was given none: without observers, it has a log and a live tree."""
    require_no_task_around(function)
    ctx = Context(clock=clock, logger=logger, observers=observers)
    if observers is None:
        ctx.observers += (LiveTree(ctx.logger),)
    return ctx


def prepared_run(
    function: str,
    task: AnyTask,
    ctx: Context | None,
    *,
    only: Names,
    skip: Names,
    undo_on_failure: bool,
) -> Run:
    """The run that a caller of this function has asked for; what he has given is checked."""
    must_be(bool, undo_on_failure, f"{function}: undo_on_failure", "True or False")
    if ctx is None:
        ctx = _context_for_main_work(function)
    must_be(Context, ctx, f"{function}: ctx", "a phases.Context")
    ctx = _only_selected(task, ctx, only=only, skip=skip)
    if undo_on_failure:
        task = _undone_on_failure(task)
    return Run(task, ctx, "do")


def _only_selected(task: AnyTask, ctx: Context, *, only: Names, skip: Names) -> Context:
    """The context of a run of the selected tasks. What a run around it leaves out stays out."""
    if only is None and skip is None:
        return ctx
    reason = selection(task, above=ctx.path, only=only, skip=skip)
    return ctx.derive(why_left_out=lambda path: ctx.why_left_out(path) or reason(path))


def plan(
    task: AnyTask,
    *,
    ctx: Context | None = None,
    only: Names = None,
    skip: Names = None,
) -> Step:
    """Ask each task of the tree, in order, for its plan. In the report, the plan is the result of
    its step.

    Nothing is changed and, without a context of your own, nothing is logged. Tasks that `only` and
    `skip` leave out are not called. `ok` is false if a task raises, or if its plan says that the
    task would fail (`would_fail`): the error is in the report, with the plan if there is one. The
    other tasks are still called.
    """
    if ctx is None:
        require_no_task_around("plan")
        ctx = Context(observers=())
    must_be(Context, ctx, "plan: ctx", "a phases.Context")
    return _report(Run(task, _only_selected(task, ctx, only=only, skip=skip), "plan"))


def undo(task: AnyTask, ctx: Context | None = None, *, of: Step | None = None) -> Step:
    """Call the undo of every task in the tree that offers one, the last listed first, and report.

    If an undo fails, the others are still called; the failures are in the report. If a group has an
    undo, it is called instead of the undos of its tasks. All of it is shielded: a signal is in the
    report, and stops nothing.

    With the report of a run of this task (`of`), only what ran in that run is undone: each task
    that began and did not return a Skip, or failed before it did, and the groups around it. Tasks
    are found by their paths.
    """
    require_no_event_loop("undo", "await asyncio.to_thread(phases.undo, task)")
    if ctx is None:
        require_no_task_around("undo")
        ctx = Context()
    must_be(Context, ctx, "undo: ctx", "a phases.Context; a report is passed as of=…")
    if of is not None:
        must_be(Step, of, "undo: of", "a report, as run returned it")
        name = valid_task(task).name
        if (of.action, of.name) != ("do", name):
            raise ValueError(
                f"undo: of is the report of the {of.action} of {of.name!r}, "
                f"not of the do of {name!r}"
            )
        # The report is also where ctx.find() looks for the results of the run.
        ctx = _only_what_ran(of, ctx, above=ctx.path).derive(root=of)
    with ctx.shielded() as safe:
        return _report(Run(task, safe, "undo"))


def _only_what_ran(report: Step, ctx: Context, *, above: Path) -> Context:
    """The context of an undo of just what ran in the run of this report: of each task that may have
    changed something, and of the groups around it, without which it is not reached.

    The undo of the report's own task is below the path `above`.
    """
    outside = len(report.path) - 1  # names of the groups around that run
    ran: set[Path] = set()
    for step in report.walk():
        if _may_have_changed_something(step):
            path = (*above, *step.path[outside:])
            for length in range(len(above) + 1, len(path) + 1):
                ran.add(path[:length])
    return ctx.derive(ran=frozenset(ran))


def _may_have_changed_something(step: Step) -> bool:
    if step.action != "do" or step.start is None:
        return False
    # An attempt that failed may have left something, even if the next one had nothing to do.
    return step.status is not Status.SKIPPED or step.attempts > 1


def _undone_on_failure(task: AnyTask) -> AnyTask:
    """The task, which undoes what ran of it before it fails or is cancelled."""

    def do(ctx: Context) -> object:
        try:
            return task.do(ctx)
        except BaseException:
            step = ctx.step
            assert step is not None  # noqa: S101  a task runs inside its step
            above = step.path[:-1]
            with _only_what_ran(step, ctx, above=above).shielded() as safe:
                undo_step = new_step(task.name, safe, "undo")
                undo_step.path = step.path  # it is inside the step, but of the same task
                with suppress(BaseException):  # an error or Ctrl-C of the undo is noted in its step
                    run_step(task, undo_step, safe, "undo")
            step.failures = undo_step.failures  # after those of the run, which `raise` adds
            raise

    return FunctionTask(valid_tree(task).name, do)


class Run:
    """A run of a task that has not begun."""

    def __init__(self, task: AnyTask, ctx: Context, verb: Verb) -> None:
        self.ctx = ctx.in_a_run()
        self.root = new_step(valid_tree(task).name, self.ctx, verb)
        self._task = task
        self._verb = verb

    def work(self) -> None:
        """Run the task. What it raises is in the root, and not raised."""
        try:
            run_step(self._task, self.root, self.ctx, self._verb)
        except BaseException as error:  # noqa: BLE001  it is in the report
            if self.root.status is Status.RUNNING:  # the clock raised it
                record_error(self.root, error)

    def note(self, number: int) -> None:
        """Have the signal in the report, also if it comes too late to cancel anything."""
        self.root.signal = self.root.signal or number

    def stop(self, number: int) -> None:
        """Cancel the run because of this signal. A repeated one only logs again what the run is
        waiting for.
        """
        self.ctx.cancel(number)
        with suppress(BaseException):  # a log that cannot be written stops nothing
            _log_what_is_awaited(name_of_signal(number), self.root, self.ctx)


def _report(run: Run) -> Step:
    """Do the work, and return the report. In the main thread, SIGINT and SIGTERM cancel the run; in
    another thread, no signal is handled.
    """
    if threading.current_thread() is threading.main_thread():
        _cancel_on_signals(run)
    else:
        run.work()
    return run.root


def _cancel_on_signals(run: Run) -> None:
    """Do the work in a thread, and stop the run for each signal that comes meanwhile."""
    events: SimpleQueue[int] = SimpleQueue()

    def on_signal(number: int) -> None:
        run.note(number)
        events.put(number)

    def work_to_the_end() -> None:
        try:
            run.work()
        finally:
            events.put(_END)

    # Not the clock's: FakeClock counts this thread in place of the main thread, which does not wait
    # by the clock.
    thread = threading.Thread(
        target=contextvars.copy_context().run,  # it has the caller's context variables
        args=(work_to_the_end,),
        name="phases",
    )
    with _handling_signals(on_signal):
        try:
            thread.start()
        except RuntimeError as error:  # the system starts no more threads
            record_error(run.root, error)
            return
        number = _next(events)
        while number != _END:
            run.stop(number)
            number = _next(events)
        thread.join()


def _next(events: SimpleQueue[int]) -> int:
    """The next event. The wait is short: if a signal comes just before the thread blocks, Python
    calls its handler when the wait is over.
    """
    while True:
        with suppress(Empty):
            return events.get(timeout=0.25)


def _log_what_is_awaited(name: str, root: Step, ctx: Context) -> None:
    paths: list[str] = []
    for step in root.walk():
        if step.status is Status.RUNNING and step.start and not step.children:
            path = "/".join(step.path)
            if step.action == "undo":
                path += " (undo)"
            paths.append(path)
    ctx.log.warning("%s: stopping, waiting for %s", name, ", ".join(paths) or "the end")


@contextmanager
def _handling_signals(on_signal: Callable[[int], None]) -> Iterator[None]:
    """In the block, call back for SIGINT and SIGTERM, and for each signal whose own handler raises;
    that error is raised at the end.

    A signal that the parent process ignored (nohup) stays ignored.
    """
    own_handlers = _own_handlers()
    ending = [number for number in STOPPING if signal.getsignal(number) is signal.SIG_DFL]
    raised: list[BaseException] = []
    is_over = False

    def handle(number: int, frame: FrameType | None) -> None:
        if number in STOPPING and not is_over:
            on_signal(number)
            return
        try:
            own_handlers[number](number, frame)
        except BaseException as error:
            if is_over:
                raise
            raised.append(error)  # raised at the end of the block
            on_signal(number)

    try:
        for number in (*ending, *own_handlers):
            signal.signal(number, handle)
        yield
    finally:
        # An own handler may raise as soon as it is restored, and that ends this block. So the
        # defaults are restored first; from then on, `handle` only calls the own handlers.
        for number in ending:
            signal.signal(number, signal.SIG_DFL)
        is_over = True
        for number, handler in own_handlers.items():
            signal.signal(number, handler)
    if raised:
        raise raised[0]


def _own_handlers() -> dict[int, Any]:
    """The handlers that the program has in Python; Python's own for SIGINT is one."""
    own_handlers: dict[int, Any] = {}
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            own_handlers[number] = handler
    return own_handlers
