"""Run a task: as a step of a run, alone, or as a whole program; ask it for its plan, or undo it.

Every task of a run, nested or not, goes through `act`, whichever of its methods is called. Not here: how several tasks
make one (`groups`), and how a signal stops a run (`signals`).
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar, cast

from phases.context import Clock, Context
from phases.errors import Cancelled, TaskFailed
from phases.live import live_tree
from phases.logs import LogObserver
from phases.signals import do_until_signalled
from phases.step import Observer, Status, Step
from phases.tasks import AnyTask, Skip, Task, left_out

T = TypeVar("T")


def execute(task: Task[T], ctx: Context | None = None) -> T:
    """Run the task and return its result.

    An Exception becomes TaskFailed, with the steps that failed. Cancellation raises Cancelled. SystemExit,
    KeyboardInterrupt and the like are raised unchanged, after the end of their step was logged.

    It handles no signal: Ctrl-C raises KeyboardInterrupt wherever the main thread is. What runs then is stopped and
    waited for, but if that is inside this package, an observer can miss a step's end. A program that must stop cleanly
    calls `run`.

    With the context of a running task, the task becomes a step inside that one; if run(skip=…) leaves that step out,
    the result is a Skip. From a running event loop use `await asyncio.to_thread(phases.execute, task)`.
    """
    left_out(task)  # nothing begins if the tasks are nested too deep
    ctx = ctx or Context()
    return do_step(task, new_step(task, ctx), ctx)


def run(
    task: AnyTask,
    *,
    only: Iterable[str] | str = (),
    skip: Iterable[str] | str = (),
    observers: Iterable[Observer] | None = None,
    deadline: float | None = None,
    clock: Clock | None = None,
    logger: logging.Logger | None = None,
    run_id: str | None = None,
) -> Step:
    """Run the task as the main work of a program, and report: `sys.exit(phases.run(bootstrap).exit_code)`.

    SIGINT and SIGTERM cancel the run and wait until it has stopped. A failure is not raised; it is in the report.
    Nothing is printed: `logging.basicConfig(level="INFO")` shows the log lines, `print(report)` the report.
    `only` and `skip` select tasks by name, or by `group/name`; an unknown name raises UnknownTask. Without
    observers, you get log lines and, with rich and a terminal on stderr, a live tree.
    """
    leaves_out = left_out(task, only=only, skip=skip)
    observers = default_observers(logger) if observers is None else observers
    ctx = Context(deadline=deadline, clock=clock, logger=logger, run_id=run_id, observers=observers)
    return _reported(task, ctx.but(leaves_out=leaves_out), do_step, action="do")


def plan(
    task: AnyTask, ctx: Context | None = None, *, only: Iterable[str] | str = (), skip: Iterable[str] | str = ()
) -> Step:
    """Ask each task of the tree, in order, for its plan. In the report, the plan is the result of its step.

    Nothing is changed and nothing is logged. Tasks that only and skip leave out are not called. If a task raises, its
    error is in the report, `ok` is false, and the other tasks are still called.
    """
    ctx = (ctx or Context()).but(leaves_out=left_out(task, only=only, skip=skip), observers=(), step=None)
    return _reported(task, ctx, _ask_step, action="plan")


def undo(task: AnyTask, ctx: Context | None = None, *, observers: Iterable[Observer] | None = None) -> Step:
    """Call the undo of every task in the tree that offers one, the last listed first, and report.

    If an undo fails, the others are still called; the failures are in the report. If a group has an undo, it is called
    instead of the undos of its tasks. SIGINT and SIGTERM wait for the running undo, which is shielded; the remaining
    ones are not called.
    """
    left_out(task)  # no undo is called if the tasks are nested too deep
    return _reported(task, ctx or Context(observers=observers), _ask_step, action="undo")


def default_observers(logger: logging.Logger | None = None) -> list[Observer]:
    """Log lines, and a live tree if the terminal can show one."""
    tree = live_tree(logger or logging.getLogger("phases"))
    return [LogObserver(logger)] if tree is None else [LogObserver(logger), tree]


def _reported(task: AnyTask, ctx: Context, take: Callable[[AnyTask, Step, Context], object], *, action: str) -> Step:
    """The step of a whole run, whatever it has raised."""
    root = new_step(task, ctx, action=action)

    def work() -> None:
        with suppress(BaseException):  # it is in the report
            take(task, root, ctx)

    signals = do_until_signalled(work, ctx, root)
    root.signal = signals[0] if signals else None
    return root


def do_step(task: Task[T], step: Step, ctx: Context) -> T:
    """Run the task as this step, unless it is left out."""
    if reason := ctx.leaves_out(step.path):
        pass_over(step, ctx, reason)
        return cast("T", Skip(reason))
    return act(step, task.do, ctx)


def _ask_step(task: AnyTask, step: Step, ctx: Context) -> None:
    """Call the plan or undo of the task, or else of the tasks inside it, as this step; go on after a failure."""
    method, members = getattr(task, step.action, None), getattr(task, "subtasks", ())
    failures: list[Step] = []

    def ask(member: AnyTask, inside: Step, inner: Context) -> None:
        try:
            _ask_step(member, inside, inner)
        except TaskFailed as failed:
            failures.extend(failed.failures)

    def call(inner: Context) -> object:
        if method is not None and step.action == "plan":
            return method(inner)
        if method is not None:
            with inner.shielded() as safe:
                return method(safe)
        in_order(members if step.action == "plan" else members[::-1], inner, ask, action=step.action)
        if failures:
            raise TaskFailed(failures)
        return None

    if reason := ctx.leaves_out(step.path) or ("" if method or members else f"offers no {step.action}"):
        pass_over(step, ctx, reason)
    else:
        step.reason = getattr(task, "plan_note", "")
        act(step, call, ctx)


def new_step(task: AnyTask, ctx: Context, *, action: str = "do") -> Step:
    """A step for the task inside the context, not yet started."""
    step = Step((*ctx.path, task.name), run=ctx.run_id, action=action)
    if ctx.step is not None:
        ctx.step.children.append(step)
    return step


def act(step: Step, do: Callable[[Context], T], ctx: Context) -> T:
    """Call the function as this step: exactly one start and one end, whatever happens."""
    if ctx.cancelled:
        pass_over(step, ctx, ctx.reason, status=Status.CANCELLED)
        ctx.check()
    began = ctx.clock.now()
    try:
        step.start = ctx.clock.utc()
        ctx.tell("started", step)
        step.result = result = do(ctx.but(step=step))
        _refuse_coroutine(result)
    except BaseException as error:
        step.error = error
        if isinstance(error, Cancelled | KeyboardInterrupt):
            step.status, step.reason = Status.CANCELLED, getattr(error, "reason", "interrupted from the keyboard")
            raise
        step.status = Status.FAILED
        if isinstance(error, Exception) and step.failures == (step,):
            raise TaskFailed((step,)) from error
        raise
    else:
        step.status = Status.OK
        if isinstance(result, Skip):
            step.status, step.reason = Status.SKIPPED, step.reason or result.reason
        return result
    finally:
        step.seconds = ctx.clock.now() - began
        ctx.tell("ended", step)


def _refuse_coroutine(result: object) -> None:
    if isinstance(result, types.CoroutineType):
        result.close()
        raise TypeError("do(ctx) returned a coroutine, so nothing was done; call asyncio.run(…) inside it")


def pass_over(step: Step, ctx: Context, reason: str, *, status: Status = Status.SKIPPED) -> None:
    """Record that this step was not started."""
    step.status, step.reason = status, reason
    ctx.tell("ended", step)


def in_order(
    tasks: Sequence[AnyTask], ctx: Context, take: Callable[[AnyTask, Step, Context], object], *, action: str = "do"
) -> tuple[object, ...]:
    """The results of the tasks, each taken as a new step; if one raises, those after it are passed over."""
    results: list[object] = []
    for number, task in enumerate(tasks, start=1):
        try:
            results.append(take(task, new_step(task, ctx, action=action), ctx))
        except BaseException:
            for later in tasks[number:]:
                pass_over(new_step(later, ctx, action=action), ctx, f"not reached after {task.name}")
            raise
    return tuple(results)
