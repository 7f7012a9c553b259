"""Run a task: as a step of a run, alone, or as a whole program; ask it for its plan, or undo it.

Every task of a run, nested or not, goes through `act`, whichever of its methods is called.

SIGINT and SIGTERM cancel a run, which then ends as after any other cancellation. Python calls a
handler in the main thread, between any two of its instructions: possibly while the thread holds a
lock, but not during a system call that began just before the signal. So the tasks run in a thread
of their own. The main thread waits until a handler releases a lock, which a handler may do at any
time, and also wakes regularly. If the program's own handler for another signal raised there, the
main thread would leave the tasks behind, so the error is kept until the tasks have ended.
"""

from __future__ import annotations

import contextvars
import itertools
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar, cast

from phases.context import Clock, Context, guarded
from phases.errors import Cancelled, TaskFailed, WouldFail
from phases.observers import LOGGER, LogObserver, live_tree, logger_of
from phases.step import Observer, Status, Step
from phases.tasks import AnyTask, Skip, Task, left_out, valid_task

if TYPE_CHECKING:
    import logging
    from types import FrameType

T = TypeVar("T")

_STOPPING = (signal.SIGTERM, signal.SIGINT)


def execute(task: Task[T], ctx: Context | None = None) -> T:
    """Run the task and return its result.

    An Exception becomes TaskFailed, with the steps that failed. Cancellation raises Cancelled.
    SystemExit, KeyboardInterrupt and the like are raised unchanged, after the end of their step was
    logged.

    No signal is handled: Ctrl-C raises KeyboardInterrupt wherever the main thread is. Running tasks
    are stopped and waited for, but if the thread is inside this package at that moment, an observer
    can miss the end of a step. A program that must stop cleanly calls `run`.

    With the context of a running task, the task becomes a step inside that task's step; if
    run(skip=…) leaves it out, the result is a Skip. In a running event loop, use `await
    asyncio.to_thread(phases.execute, task)`.
    """
    ctx = ctx or Context()
    return take(task, new_step(task, ctx), ctx)


def run(
    task: AnyTask,
    *,
    only: Iterable[str] | str = (),
    skip: Iterable[str] | str = (),
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
    """
    logger = logger_of(logger)
    if observers is None:
        observers = [each for each in (LogObserver(logger), live_tree(logger)) if each]
    ctx = Context(clock=clock, logger=logger, observers=observers)
    return _reported(task, ctx.but(leaves_out=left_out(task, only=only, skip=skip)), action="do")


def plan(task: AnyTask, *, only: Iterable[str] | str = (), skip: Iterable[str] | str = ()) -> Step:
    """Ask each task of the tree, in order, for its plan. In the report, the plan is the result of
    its step.

    Nothing is changed and nothing is logged. Tasks that `only` and `skip` leave out are not called.
    `ok` is false if a task raises, or if its plan says that the task would fail (`would_fail`): the
    error is in the report, with the plan if there is one. The other tasks are still called.
    """
    ctx = Context(observers=()).but(leaves_out=left_out(task, only=only, skip=skip))
    return _reported(task, ctx, action="plan")


def undo(task: AnyTask, ctx: Context | None = None) -> Step:
    """Call the undo of every task in the tree that offers one, the last listed first, and report.

    If an undo fails, the others are still called; the failures are in the report. If a group has an
    undo, it is called instead of the undos of its tasks. All of it is shielded: signals wait for
    its end.
    """
    with (ctx or Context()).shielded() as safe:
        return _reported(task, safe, action="undo")


def _reported(task: AnyTask, ctx: Context, *, action: str) -> Step:
    """The step of a whole run, whatever the run has raised; SIGINT and SIGTERM cancel the run.

    A repeated signal only logs again what the run is waiting for. A signal that the parent process
    ignored (nohup) stays ignored. Outside the main thread no signal is handled.
    """
    root = new_step(task, ctx, action=action)
    came, awake = list[int](), threading.Lock()  # signals, and 0 when the work has ended

    def work() -> None:
        try:
            take(task, root, ctx)
        except BaseException as error:  # noqa: BLE001  it is in the report
            if (
                root.status is Status.RUNNING
            ):  # raised outside the task: by the clock, or by a property of the task
                root.status, root.error = Status.FAILED, error
        note(0)

    def note(number: int) -> None:
        came.append(number)
        with suppress(RuntimeError):  # the main thread is awake
            awake.release()

    if threading.current_thread() is not threading.main_thread():
        work()
        return root
    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="phases")
    with _handlers(note):
        thread.start()
        for place in itertools.count():
            while len(came) == place:
                awake.acquire(timeout=0.25)
            if not came[place]:
                break
            ctx.cancel(name := signal.Signals(came[place]).name)
            running = [step for step in root.walk() if step.start and step.status is Status.RUNNING]
            paths = ", ".join("/".join(step.path) for step in running if not step.children)
            guarded(
                ctx.logger,
                ctx.log.warning,
                "%s: stopping, waiting for %s",
                name,
                paths or "the end",
            )
        thread.join()
    root.signal = next(filter(None, came), None)
    return root


@contextmanager
def _handlers(note: Callable[[int], None]) -> Iterator[None]:
    """In the block, note SIGINT, SIGTERM and each signal whose own handler raises; that error is
    raised at the end.
    """
    raised, is_over = list[BaseException](), False

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            if is_over or number not in _STOPPING:
                handlers[number](number, frame)
                return
        except BaseException as error:
            if is_over:
                raise
            raised.append(error)
        note(number)

    before: dict[int, Any] = {number: signal.getsignal(number) for number in signal.valid_signals()}
    stopping = {number: signal.SIG_DFL for number in _STOPPING if before[number] is signal.SIG_DFL}
    handlers = stopping | {
        number: handler for number, handler in before.items() if callable(handler)
    }
    try:
        for number in handlers:
            signal.signal(number, handle)
        yield
    finally:
        for number, handler in handlers.items():
            is_over = callable(
                handler
            )  # it may raise as soon as it is restored; `handle` then calls the others
            signal.signal(number, handler)
    if raised:
        raise raised[0]


def take(task: Task[T], step: Step, ctx: Context) -> T:
    """Call the method that the step is for: that of the task, or else of the tasks inside it. Skip
    what is left out.
    """
    method, members = getattr(task, step.action, None), getattr(task, "subtasks", ())
    if reason := ctx.leaves_out(step.path) or (
        "" if method or members else f"offers no {step.action}"
    ):
        pass_over(step, ctx, reason)
        return cast("T", Skip(reason))
    if step.action == "plan":
        step.reason = getattr(task, "plan_note", "")
    return cast(
        "T", act(step, method or (lambda inner: _take_each(members, inner, step.action)), ctx)
    )


def _take_each(tasks: Sequence[AnyTask], ctx: Context, action: str) -> None:
    """Call every plan, or every undo from the last to the first, even after a failure."""
    raised: list[BaseException] = []
    for task in tasks if action == "plan" else tasks[::-1]:
        try:
            take(task, new_step(task, ctx, action=action), ctx)
        except BaseException as error:  # noqa: BLE001  raised after the last one
            raised.append(error)
    raise_one(raised)


def new_step(task: AnyTask, ctx: Context, *, action: str = "do") -> Step:
    """A step for the task inside the context, not yet started."""
    step = Step((*ctx.path, valid_task(task).name), run=ctx.run_id, action=action)
    if ctx.step is not None:
        ctx.step.children.append(step)
    return step


def act(step: Step, do: Callable[[Context], T], ctx: Context) -> T:
    """Call the function as this step: exactly one start and one end, whatever happens."""
    try:
        ctx.check()
    except Cancelled as cancelled:
        pass_over(step, ctx, cancelled.reason, status=Status.CANCELLED)
        raise
    began = ctx.clock.now()
    try:
        step.start = datetime.now(timezone.utc)
        ctx.tell(step)
        result = do(ctx.but(step=step))
        if step.action == "plan":
            _require_possible(result, step)
    except BaseException as error:
        step.error = error
        if isinstance(error, Cancelled):
            step.status, step.reason = Status.CANCELLED, error.reason
            raise
        step.status = Status.FAILED
        if isinstance(error, Exception) and step.failures == (step,):
            raise TaskFailed((step,)) from error
        raise
    else:
        if isinstance(result, Skip):
            step.status, step.reason = Status.SKIPPED, step.reason or result.reason
        else:
            step.status, step.result = Status.OK, result
        return result
    finally:
        step.seconds = ctx.clock.now() - began
        ctx.tell(step)


def _require_possible(plan: object, step: Step) -> None:
    """Raise WouldFail if the plan says that its task would fail; the step keeps the plan."""
    reason = getattr(plan, "would_fail", "")
    if isinstance(reason, str) and reason:
        step.result = plan
        raise WouldFail(reason)


def pass_over(step: Step, ctx: Context, reason: str, *, status: Status = Status.SKIPPED) -> None:
    """Record that this step was not started."""
    step.status, step.reason = status, reason
    ctx.tell(step)


def raise_one(raised: Sequence[BaseException]) -> None:
    """Raise SystemExit and the like unchanged; or else one TaskFailed with all failures; or else
    Cancelled.
    """
    strays = [error for error in raised if not isinstance(error, TaskFailed | Cancelled)]
    if failures := [
        step for error in raised if isinstance(error, TaskFailed) for step in error.failures
    ]:
        strays.append(TaskFailed(failures))
    if raised:
        raise (*strays, *raised)[0]
