"""A run as a whole program: signals, selection of tasks, observers, and a report at the end."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from phases.context import Context, listed_observers
from phases.errors import Cancelled, TaskFailed
from phases.events import Observer, Status
from phases.execution import step
from phases.live import live_tree
from phases.logs import LogObserver
from phases.report import Report, ReportBuilder
from phases.selection import Selection
from phases.tasks import valid_task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from phases.clock import Clock
    from phases.tasks import AnyTask

__all__ = ["default_observers", "run"]


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
) -> Report:
    """Run the task as the main work of a program, and report: `sys.exit(phases.run(bootstrap).exit_code)`.

    SIGINT and SIGTERM cancel the run and wait until it has stopped. A failure is not raised; it is in the report.
    Nothing is printed: `logging.basicConfig(level="INFO")` shows the log lines, `print(report)` the report.
    `only` and `skip` select tasks by name, or by `group/name`; an unknown name raises UnknownTask. If you pass no
    observers, you get log lines and, if rich is installed and stderr is a terminal, a live tree.
    """
    selection = Selection.of(valid_task(task), only=only, skip=skip)
    logger = logger or logging.getLogger("phases")
    chosen = default_observers(logger) if observers is None else listed_observers(observers)
    builder = ReportBuilder()
    ctx = Context(deadline=deadline, clock=clock, logger=logger, run_id=run_id, observers=[builder, *chosen])
    ctx.run.leaves_out = selection.leaves_out

    from phases.signals import stop_on_signals  # noqa: PLC0415  only a whole program needs it

    with stop_on_signals(ctx, waiting_for=lambda: _running(builder)) as signals:
        try:
            with suppress(TaskFailed, Cancelled):  # they are in the report
                step(task, ctx)
        finally:
            _close(chosen, logger)
        report = builder.report()
    return attrs.evolve(report, signal=signals[0]) if signals else report


def _close(observers: Iterable[Observer], logger: logging.Logger) -> None:
    for observer in observers:
        close = getattr(observer, "close", None)
        if callable(close):
            try:
                close()
            except Exception:
                logger.exception("the observer %r could not be closed; the report is not affected", observer)


def default_observers(logger: logging.Logger | None = None, *, errors: bool = True) -> list[Observer]:
    """Log lines, and a live tree if the terminal can show one. With errors=False, the lines leave out their texts."""
    lines, tree = LogObserver(logger, errors=errors), live_tree(logger or logging.getLogger("phases"))
    return [lines] if tree is None else [lines, tree]


def _running(builder: ReportBuilder) -> str:
    if not builder.begun:
        return "nothing yet"
    busy = [node for node in builder.report().walk() if node.status is Status.RUNNING and not _busy_inside(node)]
    return ", ".join("/".join(node.path) for node in busy) or "nothing any more"


def _busy_inside(node: Report) -> bool:
    return any(child.status is Status.RUNNING for child in node.children)
