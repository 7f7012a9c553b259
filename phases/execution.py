"""How a task becomes a step of a run. The method of a task, and the `with` block of `inner_step`,
run inside `recorded`; a task that is not called goes through `record_unstarted`.

Groups call `new_step` for each of their tasks, and later either `run_step` or `record_unstarted`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from functools import partial
from inspect import iscoroutine

from phases.context import Context, derived, notify, with_run_id
from phases.errors import Cancelled, InvalidTask, WouldFail
from phases.step import Action, Status, Step, TaskFailed
from phases.tasks import AnyTask, Method, Skip

# Whether a dry run has called what runs now.
in_dry_run = ContextVar("in_dry_run", default=False)


class Block:
    """A `with` block that is a step: its context, and what the block says that it has done."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.result: object = None


@contextmanager
def inner_step(name: str, ctx: Context) -> Iterator[Block]:
    """Show a part of a running task, a `with` block, as a step of its own in the report.

    For example::

        with phases.inner_step("unpack", ctx) as step:
            files = unpack(image, step.ctx)
            step.result = f"{len(files)} files"  # or a Skip

    Like a task, the block is not entered if the run is already cancelled, and an Exception in it is
    raised as TaskFailed. `skip` leaves out only tasks, not such a block.
    """
    ctx = with_run_id(ctx)  # outside of a run, the block is a run of its own
    with recorded(new_step(name, ctx), ctx) as block:
        yield block


def new_step(name: str, ctx: Context, action: Action = "do") -> Step:
    """Make the step for a call of a task's method `action`. Add it to the children of the step that
    is running in this context, if one is.

    A task that an undo runs belongs to the undo: its step has the action undo, although `do` is
    called. A plan must change nothing: if a running plan calls this to do or undo a task, even with
    another context, InvalidTask is raised.
    """
    step = Step((*ctx.path, name), run=ctx.run_id, action=action)
    outer_action = "" if ctx.step is None else ctx.step.action
    if action != "plan" and (outer_action == "plan" or in_dry_run.get()):
        raise InvalidTask(
            f"{name}: a dry run would {action} it; in a plan, call phases.plan(task, ctx=ctx)"
        )
    if action == "do" and outer_action == "undo":
        step.action = "undo"
    if ctx.step is not None:
        ctx.step.children.append(step)
    return step


def run_step(task: AnyTask, step: Step, ctx: Context, action: Action = "do") -> object:
    """Call the task's method `action`, and return its result. A task that the run leaves out, or
    that has no such method, is not called: its step is skipped, and the result is a Skip.
    """
    if step.name in ctx.skip:
        return record_unstarted(step, ctx, "left out by skip")
    # In the undo after a failed run, `ctx.ran` has the paths of the tasks to undo. A group is also
    # called if a task inside it is among them. A task that an `undo` method executes has the action
    # "do" here, and so is called whatever its path.
    if action == "undo" and ctx.ran is not None:
        depth = len(step.path)
        if all(path[:depth] != step.path for path in ctx.ran):
            return record_unstarted(step, ctx, "it did nothing in that run")
    method = _method_of(task, action)
    if method is None:
        return record_unstarted(step, ctx, f"offers no {action}")
    with recorded(step, ctx) as block:
        block.result = method(block.ctx)
    return block.result


def _method_of(task: AnyTask, action: Action) -> Method | None:
    """Return the task's own method for this action. For a task without one, return a function that
    calls the method of each subtask; None if it has no subtasks either.
    """
    method: Method | None = getattr(task, action, None)
    if method is not None:
        return method
    subtasks = getattr(task, "subtasks", ())
    if not subtasks:
        return None
    return partial(_call_each, subtasks, action)


def _call_each(tasks: Sequence[AnyTask], action: Action, ctx: Context) -> None:
    """Plan or undo a group: call the plan of each task in order, or the undo of each from the last
    to the first. If one fails or exits, the others are still called.
    """
    if action == "undo":
        tasks = tasks[::-1]
    errors: list[BaseException] = []
    for task in tasks:
        try:
            step = new_step(task.name, ctx, action)
            run_step(task, step, ctx, action)
        except BaseException as error:  # noqa: BLE001  raised after the last one
            errors.append(error)
    raise_together(errors)


@contextmanager
def recorded(step: Step, ctx: Context) -> Iterator[Block]:
    """Run the `with` block as this step: tell the observers its start and its end, and keep its
    result or its error in the step.

    An Exception in the block becomes a TaskFailed with the failures of the step; Cancelled,
    SystemExit and the like are raised unchanged. If the run is already cancelled, the block is not
    entered: observers get only the end of the step, and Cancelled is raised.
    """
    try:
        ctx.check()
    except Cancelled as cancelled:
        record_unstarted(step, ctx, cancelled.reason, status=Status.CANCELLED)
        raise

    began = ctx.clock.now()
    try:
        step.start = datetime.now(timezone.utc)
        notify(ctx, step)
        root = step if ctx.root is None else ctx.root
        block = Block(derived(ctx, step=step, root=root))
        yield block
        _record_result(step, block.result)
    except BaseException as error:
        _record_error(step, error)
        if not isinstance(error, Exception):
            raise
        if isinstance(error, TaskFailed) and error.failures == step.failures:
            raise  # a new TaskFailed would say the same
        raise TaskFailed(step.failures) from error
    finally:
        step.seconds = ctx.clock.now() - began
        notify(ctx, step)


def _record_result(step: Step, result: object) -> None:
    """Keep in the step what the task's method returned, and set its status.

    Raises WouldFail if a plan says that the task would fail; the step then has both the plan and
    the error.
    """
    require_finished(result)  # not a coroutine, or a generator, that nobody runs
    if isinstance(result, Skip):
        step.status = Status.SKIPPED
        step.reason = result.reason
        return
    step.result = result
    if hasattr(result, "log_fields"):
        step.fields = result.log_fields()
    would_fail = getattr(result, "would_fail", "")
    if step.action == "plan" and would_fail:
        raise WouldFail(would_fail)
    step.status = Status.OK


def require_finished(result: object) -> None:
    """Raise InvalidTask if a function returned work that nobody would do: a generator or a
    coroutine. Futures may be returned, and so may other iterators, such as files.
    """
    if iscoroutine(result):
        result.close()  # Python would warn of it later, somewhere else
    if isinstance(result, (Generator, AsyncGenerator, Coroutine)):
        raise InvalidTask(
            f"nobody finishes {result}, which was returned: do the work in the function, without "
            "`yield`; for a coroutine, call await_in_task there"
        )


def _record_error(step: Step, error: BaseException) -> None:
    """Set the status of a step whose task has raised this error. Keep in `step.failures` the steps
    in which the error began. Set `step.error` only if the error began in this step.

    If `undo_on_failure` has undone the task, `step.failures` already has the steps that failed in
    the undo. With such failures, a step that was cancelled counts as failed, too.
    """
    if isinstance(error, Cancelled):
        step.reason = error.reason
    else:
        origins = _origins(step, error)
        if step in origins:  # otherwise, the error is shown at the inner step that raised it
            step.error = error
        step.failures = (*origins, *step.failures)
    step.status = Status.FAILED if step.failures else Status.CANCELLED


def _origins(step: Step, error: BaseException) -> tuple[Step, ...]:
    """Return the steps of this run in which the error began: steps inside this one, or this one."""
    # A TaskFailed of another run is an error like any other: its steps are not in this report.
    if isinstance(error, TaskFailed) and error.failures[0].run == step.run:
        return error.failures
    # An inner step may have the same error: a group raises a SystemExit of its task unchanged, and
    # a task can raise the `error` of a step that failed. (`walk` also yields this step, which has
    # no error yet.)
    for inner in step.walk():
        if inner.error is error:
            return inner.failures  # the inner step, and what failed in its undo
    return (step,)


def record_unstarted(
    step: Step, ctx: Context, reason: str, *, status: Status = Status.SKIPPED
) -> Skip:
    """Record why this step's task is not called, and tell the observers. The step has no start.

    Returns a Skip, which takes the place of the result of the task.
    """
    step.status = status
    step.reason = reason
    notify(ctx, step)
    return Skip(reason)


def raise_together(errors: Sequence[BaseException]) -> None:
    """Raise one error for everything that the tasks of a group raised; return if none raised.

    SystemExit and the like come first, and are raised unchanged. Otherwise, all failures are raised
    as one TaskFailed. If no task failed, and one was cancelled, Cancelled is raised.
    """
    failures: list[Step] = []
    for error in errors:
        if isinstance(error, TaskFailed):
            failures.extend(error.failures)
        elif not isinstance(error, Cancelled):
            raise error
    if failures:
        raise TaskFailed(failures)
    if errors:
        raise errors[0]
