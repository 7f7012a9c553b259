"""The steps of a run's own, beside those of its tasks: `only` and `skip` never leave them out, and
if one fails, the tasks still do their work.
"""

from __future__ import annotations

from typing import NoReturn, TypeVar

import phases
from hostrouting.errors import HostRoutingError
from hostrouting.host.effects import effects_of, having_changed
from phases.execution import raise_together

T = TypeVar("T")


def never_left_out(ctx: phases.Context) -> phases.Context:
    """The context in which no step is left out."""
    return ctx.derive(why_left_out=lambda _path: "")


def run_shielded(task: phases.Task[T], ctx: phases.Context) -> T | phases.TaskFailed:
    """Run a task as a step of the run's own, also in a run that has been cancelled since. If it
    fails, the failure is returned, to be raised when the tasks have ended. What ends the process,
    such as KeyboardInterrupt, is raised at once.
    """
    try:
        with ctx.shielded() as shielded:
            return phases.execute(task, never_left_out(shielded))
    except phases.TaskFailed as failure:
        return failure


def raise_failure(failure: phases.TaskFailed, result: object, ctx: phases.Context) -> NoReturn:
    """Raise the failure of a step of the run's own, after the tasks have ended with this result.
    The error has what the tasks have changed, and so has the report, as the result of the run.
    """
    effects = effects_of(result)
    if ctx.step is not None:  # the step of the run, which has no result yet
        ctx.step.result = effects
    with having_changed(effects.changes, effects.files, effects.operations):
        raise failure


def raise_both(failure: phases.TaskFailed, error: BaseException, ctx: phases.Context) -> None:
    """Raise the failure of a step of the run's own together with the error of the tasks. The step
    was first, and so is its failure.

    `raise_together` always raises here: one TaskFailed with the failures of both. It raises an
    error of hostrouting alone, such as RouteConflict, so the report gets the failure here.
    """
    if isinstance(error, HostRoutingError) and ctx.step is not None:
        ctx.step.failures = (*failure.failures, *ctx.step.failures)
    raise_together([failure, error])
