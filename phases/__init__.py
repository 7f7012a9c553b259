"""A small runner for the tasks of a bootstrap. It knows nothing about networks.

A task is any object with a `name` and a method `do(ctx)`. A decorator turns a function into one::

    import phases

    @phases.task("download")
    def download(ctx):
        ctx.log.info("fetching", extra={"url": "https://..."})
        return "image.raw"

    bootstrap = phases.serial(phases.retry(phases.deadline(download, 60)), name="bootstrap")
    print(phases.plan(bootstrap))  # what would be done
    print(phases.run(bootstrap))  # the report, a Step: what was done, and how long it took
"""

from phases.context import Clock, Context
from phases.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidTask,
    PhasesError,
    TaskFailed,
    UnknownTask,
    WouldFail,
)
from phases.groups import deadline, parallel, retry, serial, when
from phases.observers import LogObserver
from phases.running import execute, plan, run, undo
from phases.step import Observer, Status, Step
from phases.tasks import AnyTask, FunctionTask, Skip, Task, task

__all__ = ["AnyTask", "Context", "FunctionTask", "Skip", "Task", "task"]  # what a task is
__all__ += ["deadline", "parallel", "retry", "serial", "when"]  # how tasks are combined
__all__ += [
    "Status",
    "Step",
    "execute",
    "plan",
    "run",
    "undo",
]  # how tasks are run: run, plan and undo return a Step
__all__ += [
    "Cancelled",
    "DeadlineExceeded",
    "InvalidTask",
    "PhasesError",
    "TaskFailed",
    "UnknownTask",
]  # how tasks end
__all__ += ["WouldFail"]  # how a dry run ends
__all__ += [
    "Clock",
    "LogObserver",
    "Observer",
]  # how a run is observed, and where its time comes from
