"""Undo what the tasks of a tree did, last one first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from phases.context import Context, valid_context
from phases.errors import TaskFailed
from phases.events import Status
from phases.execution import act, pass_over
from phases.interrupts import closed, hold_interrupts, whole
from phases.python310 import add_note
from phases.report import Report, ReportBuilder
from phases.tasks import offer_of, subtasks_of, valid_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from phases.events import Observer
    from phases.tasks import AnyTask

__all__ = ["undo"]


def undo(
    task: AnyTask,
    ctx: Context | None = None,
    *,
    after: Report | None = None,
    observers: Iterable[Observer] | None = None,
) -> Report:
    """Call the undo of every task in the tree that offers one, and report.

    Without `after`, all tasks are undone, the last listed first. With `after`, the report of a run, only the tasks
    that began in that run are undone, in the reverse of the order in which they ended, even if they ran in parallel.
    A task that was skipped is not undone. One that found nothing to change is: undoing Configure also removes what an
    earlier run installed.

    If an undo fails, the others are still called; at the end one TaskFailed carries all failures and the report. If
    a group has an undo, it is called instead of the undos of its tasks. Ctrl-C waits for the running undo; the
    remaining ones are not called, and the report says so. `observers` are as with `run`; a context has its own.
    """
    if observers is not None:
        if ctx is not None:
            raise TypeError("undo: both a context and observers are given; give the observers to the context")
        ctx = Context(observers=observers)
    if after is not None and after.name != valid_task(task).name:
        raise ValueError(f"the report is for {after.name!r}, not for {task.name!r}: nothing would be undone")
    builder = ReportBuilder()
    ctx = valid_context(ctx).telling_also(builder)
    steps = list(_offers(valid_task(task), above=ctx.path, report=after))
    # With a report: by when each task ended. Without: by position. The last comes first.
    steps.sort(key=lambda step: step.turn, reverse=True)
    alone = offer_of(task, "undo") if steps else None
    try:
        with hold_interrupts():
            act(task.name, alone or (lambda inner: _undo_each(steps, inner)), ctx, action="undo")
    except TaskFailed as failed:
        failed.report = builder.report()
        raise
    return builder.report()


class _Step(NamedTuple):
    """One undo to call: its position, the path of its task, and the method."""

    turn: tuple[int, ...]
    path: tuple[str, ...]
    offer: Callable[[Context], Any]


@closed
def _undo_each(steps: Sequence[_Step], ctx: Context) -> None:
    failures: list[TaskFailed] = []
    for order, step in enumerate(steps):
        try:
            act(step.path[-1], _uninterrupted(step.offer), ctx.at(step.path[:-1]), order=order, action="undo")
        except TaskFailed as failed:
            failures.append(failed)
        except BaseException as error:
            for later in range(order + 1, len(steps)):
                *above, name = steps[later].path
                why = f"not reached after {step.path[-1]}"
                pass_over(name, ctx.at(tuple(above)), order=later, reason=why, action="undo")
            for earlier in failures:
                add_note(error, f"before that: {earlier}")
            raise
    if failures:
        raise TaskFailed.merged(failures, run_id=ctx.run_id)


def _uninterrupted(undo: Callable[[Context], Any]) -> Callable[[Context], Any]:
    def call(ctx: Context) -> object:
        with whole():
            return undo(ctx)

    return call


def _offers(
    task: AnyTask, *, above: tuple[str, ...], report: Report | None, place: tuple[int, ...] = ()
) -> Iterator[_Step]:
    """The undos to call."""
    path = (*above, task.name)
    if report is not None and (report.ended is None or report.status is Status.SKIPPED):
        return
    offer = offer_of(task, "undo")
    if offer is not None:
        yield _Step((report.ended,) if report is not None and report.ended else place, path, offer)
        return
    for order, member in enumerate(subtasks_of(task)):
        if report is None:
            yield from _offers(member, above=path, report=None, place=(*place, order))
            continue
        ran = [child for child in report.children if child.order == order and child.name == member.name]
        for child in ran[-1:]:
            yield from _offers(member, above=path, report=child)
