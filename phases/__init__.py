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

from phases.context import Clock, Context, Task
from phases.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidTask,
    PhasesError,
    UnknownTask,
    WouldFail,
)
from phases.execution import inner_step
from phases.groups import deadline, parallel, retry, serial, when
from phases.running import await_in_task, execute, plan, run, run_async, undo
from phases.step import Observer, Status, Step, TaskFailed
from phases.tasks import AnyTask, Skip, task

# What a task is. (InvalidTask is raised for what is not one.)
__all__ = ["AnyTask", "Context", "InvalidTask", "Skip", "Task", "task"]
# How tasks are combined.
__all__ += ["deadline", "parallel", "retry", "serial", "when"]
# How tasks are run, and how a task waits for a coroutine of an event loop.
__all__ += ["await_in_task", "execute", "inner_step", "plan", "run", "run_async", "undo"]
# How tasks end, and how a dry run does.
__all__ += ["Cancelled", "DeadlineExceeded", "PhasesError", "UnknownTask", "WouldFail"]
# What a run reports, to its caller and to observers, and where its time comes from.
__all__ += ["Clock", "Observer", "Status", "Step", "TaskFailed"]
