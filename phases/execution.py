"""How a task becomes a step of a run. Every task of a run, nested or not, goes through `record`,
whichever of its methods is called.

Groups call `new_step` for each of their tasks, and later either `run_step` or `record_unstarted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from inspect import iscoroutine
from typing import TypeVar, cast

from phases.context import Context
from phases.errors import Cancelled, InvalidTask, WouldFail
from phases.step import Status, Step, TaskFailed
from phases.tasks import AnyTask, Method, Skip, Task, valid_task

T = TypeVar("T")


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
    step = new_step(valid_task(task), ctx)
    return cast("T", run_step(task, step, ctx))


def new_step(task: AnyTask, ctx: Context, *, action: str = "do") -> Step:
    """A step for the task inside the context, not yet started."""
    step = Step((*ctx.path, task.name), run=ctx.run_id, action=action)
    if ctx.step is not None:
        step.attempt = ctx.step.attempts
        ctx.step.children.append(step)
    return step


def run_step(task: AnyTask, step: Step, ctx: Context) -> object:
    """Call the method that the step is for (do, plan or undo): that of the task or, if it has none,
    that of each task inside it. A task that the run leaves out is not called.
    """
    method = getattr(task, step.action, None)
    subtasks = ()
    if method is None:
        subtasks = getattr(task, "subtasks", ())

    reason = ctx.why_left_out(step.path)
    if not reason and method is None and not subtasks:
        reason = f"offers no {step.action}"
    if reason:
        record_unstarted(step, ctx, reason)
        return Skip(reason)

    if step.action == "plan":
        step.reason = getattr(task, "plan_note", "")
    if method is None:
        return record(step, lambda inner: _call_each(subtasks, inner, step.action), ctx)
    return record(step, method, ctx)


def _call_each(tasks: Sequence[AnyTask], ctx: Context, action: str) -> None:
    """Call every plan, or every undo from the last to the first, even after a failure."""
    if action == "undo":
        tasks = tasks[::-1]
    errors: list[BaseException] = []
    for task in tasks:
        try:
            step = new_step(valid_task(task), ctx, action=action)
            run_step(task, step, ctx)
        except BaseException as error:  # noqa: BLE001  raised after the last one
            errors.append(error)
    raise_together(errors)


def record(step: Step, method: Method, ctx: Context) -> object:
    """Call the method as this step: exactly one start and one end, whatever happens."""
    try:
        ctx.check()
    except Cancelled as cancelled:
        record_unstarted(step, ctx, cancelled.reason, status=Status.CANCELLED)
        raise

    began = ctx.clock.now()
    try:
        step.start = datetime.now(timezone.utc)
        ctx.notify(step)
        result = method(ctx.derive(step=step, root=ctx.root or step))
        _require_that_it_ran(step, result)
        _record_result(step, result)
    except BaseException as error:
        _record_error(step, error)
        if isinstance(error, Exception) and step.failure is error:
            raise TaskFailed((step,)) from error
        raise
    else:
        return result
    finally:
        step.seconds = ctx.clock.now() - began
        ctx.notify(step)


def _require_that_it_ran(step: Step, result: object) -> None:
    if iscoroutine(result):
        result.close()
        raise InvalidTask(
            f"{step.name}: {step.action} returned a coroutine, which nothing runs; "
            "call asyncio.run in it"
        )


def _record_result(step: Step, result: object) -> None:
    """Keep what the method returned. Raises WouldFail if it is a plan that says so; the step then
    still shows the plan.
    """
    if isinstance(result, Skip):
        step.status = Status.SKIPPED
        step.reason = step.reason or result.reason
        return
    reason: object = None
    if step.action == "plan":
        reason = getattr(result, "would_fail", "")
    step.result = result
    if isinstance(reason, str) and reason:
        raise WouldFail(reason)
    step.status = Status.OK


def _record_error(step: Step, error: BaseException) -> None:
    step.error = error
    if isinstance(error, Cancelled):
        step.status = Status.CANCELLED
        step.reason = error.reason
    else:
        step.status = Status.FAILED


def record_unstarted(
    step: Step, ctx: Context, reason: str, *, status: Status = Status.SKIPPED
) -> None:
    """Record that the task of this step is not called: the step has an end and no start."""
    step.status = status
    step.reason = reason
    ctx.notify(step)


def raise_together(errors: Sequence[BaseException]) -> None:
    """Raise what several tasks raised as one error; nothing if none raised.

    SystemExit and the like are raised unchanged; without one, a TaskFailed with all failures;
    without a failure, Cancelled.
    """
    failures: list[Step] = []
    for error in errors:
        if isinstance(error, TaskFailed):
            failures.extend(error.failures)
        elif not isinstance(error, Cancelled):
            raise error
    if failures:
        raise TaskFailed(failures)
    for cancelled in errors:
        raise cancelled
