"""Run a task as the work of a program, ask it for its plan, or undo it: each returns a report."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from phases.arguments import must_be
from phases.context import derived
from phases.execution import context_of, new_step, require_no_event_loop, run_step
from phases.observers import LOGGER
from phases.step import Observer, Status, Step
from phases.stopping import Run, report_of
from phases.tasks import AnyTask, Names, Path, selection, valid_task, valid_tree, wrapped

if TYPE_CHECKING:
    import logging

    from phases.context import Clock, Context


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
    select tasks by name, or by `group/name`; an unknown name, or a selection that leaves no task,
    raises UnknownTask. Without observers, you get log lines and, with rich and a terminal on
    stderr, a live tree.

    With a context of your own, another part of the program can cancel the run: `ctx.cancel()`. That
    context then has the observers, the clock and the logger. In a running task, write
    `phases.execute(task, ctx)` instead: `run` refuses the context of a task with InvalidTask. In a
    thread that a task has started, `run` cannot see the task, and nothing cancels this run.

    With `undo_on_failure`, a run that fails or is cancelled is undone before it ends, as by
    `undo(task, of=report)`; the steps of the undo are in the report.
    """
    require_no_event_loop("run", "await phases.run_async(task)")
    if ctx is None:
        ctx = context_of("run", None, observers=observers, clock=clock, logger=logger)
    elif (observers, clock, logger) != (None, None, LOGGER):
        raise TypeError("run: give observers, clock and logger to the context, not beside ctx=")
    prepared = prepared_run("run", task, ctx, only=only, skip=skip, undo_on_failure=undo_on_failure)
    return report_of(prepared)


def prepared_run(
    function: str,
    task: AnyTask,
    ctx: Context | None,
    *,
    only: Names,
    skip: Names,
    undo_on_failure: bool,
) -> Run:
    """The run that a caller of the named function has asked for. The arguments are checked. It is
    never a part of another run: `execute` is.
    """
    must_be(bool, undo_on_failure, f"{function}: undo_on_failure", "True or False")
    ctx = _only_selected(task, context_of(function, ctx), only=only, skip=skip)
    if undo_on_failure:
        task = _undone_on_failure(task)
    return Run(task, ctx)


def _only_selected(task: AnyTask, ctx: Context, *, only: Names, skip: Names) -> Context:
    """The context of a run of the selected tasks. What a run around it leaves out stays out."""
    why_not_selected = selection(task, above=ctx.path, only=only, skip=skip)
    return derived(ctx, why_left_out=lambda path: ctx.why_left_out(path) or why_not_selected(path))


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
    require_no_event_loop("plan", "await asyncio.to_thread(phases.plan, task)")
    ctx = context_of("plan", ctx, observers=())
    return report_of(Run(task, _only_selected(task, ctx, only=only, skip=skip), "plan"))


def undo(task: AnyTask, ctx: Context | None = None, *, of: Step | None = None) -> Step:
    """Call the undo of every task in the tree that offers one, the last listed first, and report.

    If an undo fails, the others are still called; the failures are in the report. If a group has an
    undo, it is called instead of the undos of its tasks. All of it is shielded: a signal is in the
    report, and stops nothing.

    With the report of a run of this task (`of`), only what ran in that run is undone: each task
    that began, unless it returned a Skip at its first attempt, and the groups around it. Tasks are
    found by their paths. What that run has undone itself is undone again.
    """
    require_no_event_loop("undo", "await asyncio.to_thread(phases.undo, task)")
    ctx = context_of("undo", ctx)
    if of is not None:
        must_be(Step, of, "undo: of", "a report, as run returned it")
        if (of.name, of.action) != (valid_task(task).name, "do"):
            raise ValueError(f"undo: of is {of!r}, which is not the report of a run of this task")
        # The report is also where ctx.find() looks for the results of the run.
        ctx = derived(_only_what_ran(of, ctx, above=ctx.path), root=of)
    with ctx.shielded() as safe:
        return report_of(Run(task, safe, "undo"))


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
    return derived(ctx, ran=frozenset(ran))


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
            with _only_what_ran(step, ctx, above=()).shielded() as safe:
                undo_step = new_step(task.name, safe, "undo")
                undo_step.path = step.path  # it is inside the step, but of the same task
                with suppress(BaseException):  # an error or Ctrl-C of the undo is noted in its step
                    run_step(task, undo_step, safe, "undo")
            step.failures = undo_step.failures  # after those of the run, which `raise` adds
            raise

    return wrapped(valid_tree(task), do)
