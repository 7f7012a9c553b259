"""A small runner for the tasks of a bootstrap. It knows nothing about networks.

A task is any object with a `name` and a method `do(ctx)`. A decorator turns a function into one::

    import phases

    @phases.task("download")
    def download(ctx):
        ctx.log.info("fetching", extra={"url": "https://..."})
        return "image.raw"

    start_machine = phases.task("start-machine")(lambda ctx: ctx.sleep(0.01))
    bootstrap = phases.serial(phases.retry(download), phases.deadline(start_machine, 60), name="bootstrap")
    print(phases.plan(bootstrap))  # what would be done
    report = phases.run(bootstrap)
    print(report)  # what was done, and how long it took

What happened to a task in a run is a `Step`, and the step of the whole run is its report.
"""

from __future__ import annotations

TYPE_CHECKING = False  # loading `typing` would take a third of the time of a program that only prints its usage
if TYPE_CHECKING:
    from phases.context import Clock, Context
    from phases.errors import Cancelled, DeadlineExceeded, InvalidTask, PhasesError, TaskFailed, UnknownTask
    from phases.groups import deadline, parallel, retry, serial, when
    from phases.observers import LogObserver
    from phases.running import execute, plan, run, undo
    from phases.step import Observer, Status, Step
    from phases.tasks import AnyTask, Skip, Task, task

# fmt: off
__all__ = [
    # what a task is
    "AnyTask", "Context", "Skip", "Task", "task",
    # how tasks are combined
    "deadline", "parallel", "retry", "serial", "when",
    # how tasks are run: run, plan and undo return a Step
    "Status", "Step", "execute", "plan", "run", "undo",
    # how tasks end
    "Cancelled", "DeadlineExceeded", "InvalidTask", "PhasesError", "TaskFailed", "UnknownTask",
    # how a run is observed, and where its time comes from
    "Clock", "LogObserver", "Observer",
]
# fmt: on

if not TYPE_CHECKING:  # if a type checker saw it, it would accept any name

    def __getattr__(name: str) -> object:
        # A name is looked for on first use: a command that only prints its usage runs no task.
        for home in ("errors", "tasks", "step", "observers", "context", "running", "groups") if name in __all__ else ():
            from importlib import import_module  # noqa: PLC0415  any interpreter has it loaded already

            if hasattr(module := import_module(f"{__name__}.{home}"), name):
                value = globals()[name] = getattr(module, name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
