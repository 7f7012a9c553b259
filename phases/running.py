"""Run one task and report how it ended. Every task of a run, nested or not, goes through `step`."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, TypeVar, cast

from phases.context import Context, Node, valid_context
from phases.errors import Cancelled, StoppedElsewhere, TaskFailed
from phases.events import Failure, Finished, Skipped, Started, Status
from phases.interrupts import call_open, closed, hold_interrupts
from phases.tasks import Skip, valid_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from phases.tasks import Task

__all__ = ["act", "execute", "pass_over", "step"]

T = TypeVar("T")


def execute(task: Task[T], ctx: Context | None = None) -> T:
    """Run the task and return its result.

    Logs `started`, then one line with the outcome and the duration. An Exception becomes TaskFailed, with the path of
    names and the error. Cancellation raises Cancelled; KeyboardInterrupt and SystemExit are raised unchanged, after
    their line was logged.

    With the context of a running task, the task becomes a step inside that one; if run(skip=…) leaves that step out,
    the result is a Skip. From a running event loop use `await asyncio.to_thread(phases.execute, task)`.
    """
    ctx = valid_context(ctx)
    if ctx.node is not None:
        return step(valid_task(task), ctx)
    with hold_interrupts():
        return step(valid_task(task), ctx)


def step(task: Task[T], ctx: Context, *, order: int = 0) -> T:
    """Run the task as step number `order` inside the context, unless the run leaves it out."""
    if reason := ctx.run.leaves_out(task, ctx.path):
        pass_over(task.name, ctx, order=order, reason=reason)
        return cast("T", Skip(reason))
    return act(task.name, task.do, ctx, order=order)


@closed
def act(name: str, do: Callable[[Context], T], ctx: Context, *, order: int = 0, action: str = "do") -> T:
    """Run the function as a step with this name: exactly one Started and one Finished, whatever happens."""
    run, above = ctx.run, ctx.node
    node = Node(next(run.ids))
    inner = ctx.entering(name, node=node)
    path = inner.path
    if ctx.cancelled:
        pass_over(name, ctx, order=order, reason=f"cancelled: {ctx.reason}", action=action)
        ctx.check()
    start, began = run.clock.utc(), run.clock.now()
    parent = None if above is None else above.id
    run.tell(Started(run.run_id, node.id, parent, path, order, ctx.attempt, action, start))
    try:
        result = call_open(do, inner)
        _refuse_coroutine(result)
    except BaseException as raised:
        error = _of_this_run(raised, inner)
        status, reason, own = _judge(error, inner)
        _finish(inner, node, action, start, began, status=status, error=error, own=own, reason=reason)
        if own and isinstance(error, Exception):
            raise TaskFailed([Failure(path, error)], run_id=run.run_id) from error
        raise
    if isinstance(result, Skip):
        _finish(inner, node, action, start, began, status=Status.SKIPPED, result=result, reason=result.reason)
    else:
        _finish(inner, node, action, start, began, status=Status.OK, result=result)
    return result


def pass_over(name: str, ctx: Context, *, order: int, reason: str, action: str = "do") -> None:
    """Record that this step was not started."""
    run, above = ctx.run, ctx.node
    parent = None if above is None else above.id
    path = (*ctx.path, name)
    run.tell(Skipped(run.run_id, next(run.ids), parent, path, order, ctx.attempt, action, reason))


def _judge(error: BaseException, ctx: Context) -> tuple[Status, str, bool]:
    """The status of a task that raised this, the reason, and whether the error is its own."""
    match error:
        case TaskFailed() if error.run_id == ctx.run_id:
            return Status.FAILED, "", False
        case Cancelled():
            return Status.CANCELLED, error.reason, True
        case KeyboardInterrupt():
            return Status.CANCELLED, "interrupted from the keyboard", True
        case _:
            return Status.FAILED, "", True


def _of_this_run(error: BaseException, ctx: Context) -> BaseException:
    """The error; but if a separate run inside the task was cancelled, StoppedElsewhere: a failure of the task."""
    origin = getattr(error, "origin", None)
    if isinstance(error, Cancelled) and origin is not None and origin.run_id != ctx.run_id and not ctx.cancelled:
        failure = StoppedElsewhere(error.reason)
        failure.__cause__ = error
        return failure
    return error


def _finish(
    inner: Context,
    node: Node,
    action: str,
    start: datetime,
    began: float,
    *,
    status: Status,
    result: object = None,
    error: BaseException | None = None,
    own: bool = True,
    reason: str = "",
) -> None:
    run = inner.run
    duration = run.clock.now() - began
    fields = {} if result is None else _fields_of(result)
    run.tell(
        Finished(
            run.run_id,
            node.id,
            inner.path,
            action,
            status,
            start,
            duration,
            result,
            error,
            own,
            reason,
            node.attempts,
            fields,
        )
    )


def _fields_of(result: object) -> Mapping[str, object]:
    """The result's log fields. The task has done its work; an error in describing the result must not fail it."""
    try:
        offer = getattr(result, "log_fields", None)
        return dict(offer()) if callable(offer) else {}
    except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
        return {"log_fields_error": repr(error)}


def _refuse_coroutine(result: object) -> None:
    if isinstance(result, types.CoroutineType):
        result.close()
        raise TypeError(
            "do(ctx) returned a coroutine, so nothing was done; do(ctx) is synchronous: "
            "call asyncio.run(…) inside it, or make it a plain function"
        )
