"""How a task becomes a step of a run. Whatever runs as a step, the method of a task or a `with`
block, runs inside `recorded`; the step of a task that is not called goes through
`record_unstarted`.

Groups call `new_step` for each of their tasks, and later either `run_step` or `record_unstarted`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar, cast

from phases.arguments import misspelt, must_be, reject_coroutine
from phases.context import (
    RUNNING,
    Context,
    WithBlock,
    cancelled_with,
    derived,
    fault_of_use,
    in_a_run,
    notify,
)
from phases.errors import Cancelled, InvalidTask, WouldFail
from phases.step import Status, Step, TaskFailed
from phases.tasks import AnyTask, Method, Skip, Task, Verb, fault_of_name, offers, valid_task
from phases.values import fields_of

T = TypeVar("T")


def execute(task: Task[T], ctx: Context | None = None) -> T:
    """Run the task and return its result.

    An Exception becomes TaskFailed, with the steps that failed. Cancellation raises Cancelled.
    SystemExit, KeyboardInterrupt and the like are raised unchanged, after the end of their step was
    logged.

    No signal is handled: Ctrl-C raises KeyboardInterrupt wherever the main thread is, also in an
    observer. After one Ctrl-C, running tasks are stopped and waited for; but if the main thread is
    inside this package at that moment, an observer can miss the end of a step. A program that must
    stop cleanly calls `run`.

    With the context of a running task, the task becomes a step inside that task's step; if
    run(skip=…) leaves it out, the result is a Skip. There is a RuntimeWarning if it has a plan or
    an undo and the running task does not: that task then needs it in its `subtasks`. In a running
    event loop, use `await asyncio.to_thread(phases.execute, task)`.
    """
    require_no_event_loop("execute", "await asyncio.to_thread(phases.execute, task)")
    ctx = in_a_run(context_of("execute", ctx))
    step = new_step(valid_task(task).name, ctx)
    warn_of_lost_verbs(task, ctx)
    return cast("T", run_step(task, step, ctx))


def warn_of_lost_verbs(task: AnyTask, ctx: Context) -> None:
    """Warn if a plan, or an undo, of the running task would leave out this one, which it runs.
    A task whose `do(ctx)` others call directly, without `execute`, calls this itself.
    """
    if ctx.task is None or ctx.step is None or ctx.step.action != "do":
        return
    lost = [verb for verb in ("plan", "undo") if offers(task, verb) and not offers(ctx.task, verb)]
    if lost:
        verbs = " and ".join(lost)
        words = (
            f"{task.name} has {verbs}, and {_path_of(ctx)}, which runs it, does not: write "
            f"subtasks = ({task.name},) there, with this object, or {verbs} of its own"
        )
        warnings.warn(words, RuntimeWarning, stacklevel=3)


_INSIDE_A_TASK = {
    "run": "phases.execute(task, ctx)",
    "run_async": "phases.execute(task, ctx)",
    "execute": "phases.execute(task, ctx)",
    "plan": "phases.plan(task, ctx=ctx)",
    "undo": "phases.undo(task, ctx)",
    "inner_step": "phases.inner_step(name, ctx)",
}
"""By function: what to write in a running task, with the context of that task."""


def context_of(function: str, given: Context | None, **settings: Any) -> Context:
    """The given context; without one, a new one with these settings. Raises InvalidTask if, in a
    running task, what stops that task would not stop this, or if a failure would be lost.
    """
    around = RUNNING.get()
    fault = ""
    if given is None and around is not None:
        fault = f"it is called in the task {_path_of(around)} without its context"
    if given is not None:
        must_be(Context, given, f"{function}: ctx", "a phases.Context")
        fault = fault_of_use(given)
        if not fault and given.step is not None and function in {"run", "run_async"}:
            fault = f"ctx is that of the task {_path_of(given)}, which would not fail with the run"
    if fault:
        raise InvalidTask(
            f"{function}: {fault}; write {_INSIDE_A_TASK[function]} with the context of the task, "
            "or pass a new phases.Context() for a run of its own, which nothing cancels"
        )
    return given or Context(**settings)


def _path_of(ctx: Context) -> str:
    return "/".join(ctx.path)


def require_no_event_loop(function: str, remedy: str) -> None:
    """Raise RuntimeError in a running event loop, which would stand still meanwhile."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:  # then no loop runs
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{function}: the event loop would stand still; write `{remedy}`")


class Block:
    """A `with` block that is a step: its context, and what the block says that it has done."""

    __slots__ = ("ctx", "result")

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.result: object = None


def inner_step(name: str, ctx: Context) -> AbstractContextManager[Block]:
    """A part of a running task as a step of its own: a `with` block.

    For example::

        with phases.inner_step("unpack", ctx) as step:
            files = unpack(image, step.ctx)
            step.result = f"{len(files)} files"  # or a Skip

    What the block knows stays in the local variables of the task. Like a task, the block is not
    entered if the run is cancelled, and what it raises leaves it as a TaskFailed. `only` and `skip`
    do not leave it out.
    """
    fault = fault_of_name(name)
    if fault:
        raise InvalidTask(f"inner_step: {fault}")
    must_be(Context, ctx, "inner_step: ctx", "the phases.Context of the running task")
    ctx = in_a_run(context_of("inner_step", ctx))
    return WithBlock("phases.inner_step", recorded(new_step(name, ctx), ctx))


def new_step(name: str, ctx: Context, verb: Verb = "do") -> Step:
    """A step inside the context, not yet started, for the method `verb` of the task of this name.

    A task that an undo runs is a part of the undo: its action is undo, although its do is called.
    Raises InvalidTask if a plan would do the task.
    """
    if verb == "do" and ctx.step is not None and ctx.step.action == "plan":
        raise InvalidTask(
            f"{name}: a dry run would do it; in a plan, call phases.plan(task, ctx=ctx)"
        )
    step = Step((*ctx.path, name), run=ctx.run_id, action=verb)
    if ctx.step is not None:
        step.attempt = ctx.step.attempts  # so far, of a task that is tried again
        if verb == "do" and ctx.step.action == "undo":
            step.action = "undo"
        ctx.step.children.append(step)
    return step


def run_step(task: AnyTask, step: Step, ctx: Context, verb: Verb = "do") -> object:
    """Call the method that the step is for. A task that the run leaves out, or that has no such
    method, is not called.
    """
    reason = ctx.why_left_out(step.path)
    # Only the verb undo is limited to what ran: an undo may run new tasks, which are done (do).
    if verb == "undo" and ctx.ran is not None and step.path not in ctx.ran:
        reason = "it did nothing in that run"
    if reason:
        return record_unstarted(step, ctx, reason)
    if verb == "plan":
        step.reason = getattr(task, "plan_note", "")
    method = _method_of(task, verb)
    if method is None:
        return record_unstarted(step, ctx, f"offers no {verb}")
    with recorded(step, derived(ctx, task=task)) as block:
        block.result = method(block.ctx)
    return block.result


def _method_of(task: AnyTask, verb: Verb) -> Method | None:
    """The method of the task; without one, a function that calls those of the tasks inside it.

    None if there are no such tasks.
    """
    method: Method | None = getattr(task, verb, None)
    if method is not None:
        return method
    subtasks = getattr(task, "subtasks", ())
    if not subtasks:
        return None
    return partial(_call_each, subtasks, verb)


def _call_each(tasks: Sequence[AnyTask], verb: Verb, ctx: Context) -> None:
    """Call every plan, or every undo from the last to the first. The others are still called if
    one fails, or exits.
    """
    if verb == "undo":
        tasks = tasks[::-1]
    errors: list[BaseException] = []
    for task in tasks:
        try:
            step = new_step(task.name, ctx, verb)
            run_step(task, step, ctx, verb)
        except BaseException as error:  # noqa: BLE001  raised after the last one
            errors.append(error)
    raise_together(errors)


@contextmanager
def recorded(step: Step, ctx: Context) -> Iterator[Block]:
    """Run the block as this step: exactly one start and one end, whatever happens.

    Every Exception leaves it as a TaskFailed with the failures of the step.
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
        around = RUNNING.set(block.ctx)
        try:
            with cancelled_with(ctx):
                yield block
        finally:
            RUNNING.reset(around)
        _record_result(step, block.result)
    except BaseException as error:
        _record_error(step, error)
        if not isinstance(error, Exception):
            raise
        if isinstance(error, TaskFailed) and error.failures == step.failures:
            raise  # it says just what a new one would say
        raise TaskFailed(step.failures) from error
    finally:
        step.seconds = ctx.clock.now() - began
        notify(ctx, step)


def _record_result(step: Step, result: object) -> None:
    """Keep what the method returned. Raises WouldFail if it is a plan that says so; the step then
    still shows the plan. Raises InvalidTask if a step inside has not ended: its failure would be
    lost.
    """
    for inner in step.children:
        if inner.status is Status.RUNNING:
            raise InvalidTask(
                f"the step {inner.name} inside it has not ended: wait for its thread before the end"
            )
    reject_coroutine(result, step.name)
    fault = _fault_of_result(result)
    if fault:
        raise InvalidTask(f"it returned {fault}")
    if isinstance(result, Skip):
        step.status = Status.SKIPPED
        step.reason = step.reason or result.reason  # the note of a plan is there already, and stays
        return
    step.result = result
    step.fields = fields_of(result)
    if step.action == "plan":
        fault = misspelt(result, "would_fail")
        if fault:
            raise InvalidTask(f"its plan cannot be used: {fault}")
        would_fail = getattr(result, "would_fail", None) or ""
        must_be(str, would_fail, "would_fail of its plan", "a sentence that says why")
        if would_fail:
            raise WouldFail(would_fail)
    step.status = Status.OK


def _fault_of_result(result: object) -> str:
    """The result, with the remedy, if its author may have meant a failure, which is raised; else
    empty.
    """
    if result is Skip:
        return "the class Skip; write Skip('the reason')"
    if isinstance(result, BaseException):
        return f"the error {result!r:.80}; to fail, raise it"
    if isinstance(result, bool):
        return (
            f"{result}, which does not say how it ended: to fail, raise an error; with nothing to "
            "do, return Skip('the reason'); a fact for a later task goes into a mapping"
        )
    if isinstance(result, Step) and result.status is Status.FAILED and result.action == "do":
        return "the report of a run that failed; write phases.execute(task, ctx), which raises"
    code = getattr(result, "returncode", None)
    if isinstance(code, int) and code != 0:
        return f"{result!r:.80}, which has failed; write subprocess.run(…, check=True)"
    if isinstance(result, Mapping) and "would_fail" in result:
        return "a mapping with would_fail, which is an attribute of a plan and not a key"
    return ""


def _record_error(step: Step, error: BaseException) -> None:
    """Keep what the method raised, and where that began.

    The step may have failures already: those of an undo of what ran in it. Then it has failed even
    if it was cancelled.
    """
    if isinstance(error, Cancelled):
        step.error = error
        step.reason = error.reason
    else:
        origins = _origins(step, error)
        if step in origins:
            step.error = error
        step.failures = (*origins, *step.failures)
    step.status = Status.FAILED if step.failures else Status.CANCELLED


def _origins(step: Step, error: BaseException) -> tuple[Step, ...]:
    """The steps of this run in which the error of the step began."""
    # A TaskFailed of another run is an error like any other: its steps are not in this report.
    if isinstance(error, TaskFailed) and error.failures[0].run == step.run:
        return error.failures
    # A step inside this one may have this very error: a group passes SystemExit on as it is, and a
    # task can raise the `error` of a step that failed. Then it began in the innermost such step.
    # This step comes last, and has no error yet.
    children_first = reversed(list(step.walk()))
    for inner in children_first:
        if inner.error is error:
            return inner.failures
    return (step,)


def record_unstarted(
    step: Step, ctx: Context, reason: str, *, status: Status = Status.SKIPPED
) -> Skip:
    """Record that the task of this step is not called: the step has an end and no start."""
    step.status = status
    step.reason = reason
    notify(ctx, step)
    return Skip(reason)


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
    if errors:
        raise errors[0]
