"""A small runner for bootstrap steps. It knows nothing about networks.

A step is any object with a `name` and a method `do(ctx)`. A decorator turns a function into one::

    import phases

    @phases.task("download")
    def download(ctx):
        ctx.log.info("fetching", extra={"url": "https://..."})
        return "image.raw"

    unpack = phases.task("unpack")(lambda ctx: ctx.sleep(0.01))
    start_machine = phases.task("start-machine")(lambda ctx: None)

    bootstrap = phases.serial(
        phases.retry(download, attempts=5),
        phases.parallel(unpack, phases.task("pull-images")(lambda ctx: None), name="prepare"),
        phases.deadline(start_machine, 60),
        name="bootstrap",
    )
    print(phases.plan(bootstrap))  # what would be done
    report = phases.run(bootstrap)
    print(report)  # what was done, and how long it took

1. What a task is

    Task                        the protocol: `name`, and `do(ctx)`, which returns the task's result
    task                        turns a function into a task
    Context                     the argument of `do`: cancellation, deadline, sleep, logger, clock
    Skip                        the result of a task that found nothing to do
    AnyTask                     a task with any result

2. How tasks are combined

    serial                      in order, up to the first failure
    parallel                    all at once, or some at once; the first failure cancels the others
    retry                       again after a failure, with growing pauses
    deadline                    within a time limit
    when                        only if a condition is true

3. How tasks are run

    execute                     run a task, return its result, raise TaskFailed
    run                         run a whole program: can select steps, returns a Report
    Report                      what happened, as a tree that prints as text and as JSON
    plan                        what would be done, as a Report; nothing is changed
    undo                        undo what was done, last step first

4. How tasks end: with a result, with TaskFailed, or with Cancelled

    Status                      the state of a task: running, ok, failed, cancelled or skipped
    TaskFailed                  a task failed: every Failure, innermost first
    Failure                     one failure: the path of names, and the error with its traceback
    Cancelled                   the run was cancelled; a BaseException, so that `except Exception` does not catch it
    DeadlineExceeded            the time was up
    InvalidTask                 the object cannot be used as a task
    UnknownTask                 only= or skip= names a task that does not exist
    PhasesError                 the base class of every error that phases raises on purpose

5. How a run is observed: each start and each end is one wide log line and one event

    LogObserver                 the observer that writes these lines
    default_observers           the observers of `run` unless you pass others: log lines and, on a terminal, a live tree
    Observer, Event             any function that takes one event, and the union of the events
    Started, Finished           a task began, and ended
    Skipped, Retrying           a task was not run, or will be tried again
    Clock, SystemClock          where the time comes from; `phases.testing` has a clock that never waits
"""

from __future__ import annotations

TYPE_CHECKING = False  # loading `typing` would take a third of the time of a program that only prints its usage
if TYPE_CHECKING:
    from phases.context import Clock, Context, SystemClock
    from phases.errors import Cancelled, DeadlineExceeded, InvalidTask, PhasesError, TaskFailed, UnknownTask
    from phases.groups import deadline, parallel, retry, serial, when
    from phases.logs import LogObserver
    from phases.report import Event, Failure, Finished, Observer, Report, Retrying, Skipped, Started, Status
    from phases.running import default_observers, execute, plan, run, undo
    from phases.tasks import AnyTask, Skip, Task, task

# fmt: off
__all__ = [
    # what a task is
    "AnyTask", "Context", "Skip", "Task", "task",
    # how tasks are combined
    "deadline", "parallel", "retry", "serial", "when",
    # how tasks are run
    "Report", "default_observers", "execute", "plan", "run", "undo",
    # how tasks end
    "Cancelled", "DeadlineExceeded", "Failure", "InvalidTask", "PhasesError", "Status", "TaskFailed", "UnknownTask",
    # how a run is observed
    "Event", "Finished", "LogObserver", "Observer",
    "Retrying", "Skipped", "Started",
    # the edge
    "Clock", "SystemClock",
]
# fmt: on

# The module of each name. It is imported on first use, so that a program only pays for what it uses: a command that
# only prints its usage runs no task. (No module has the name of something it offers, or one would hide the other.)
_HOMES = {
    "context": ("Clock", "Context", "SystemClock"),
    "errors": ("Cancelled", "DeadlineExceeded", "InvalidTask", "PhasesError", "TaskFailed", "UnknownTask"),
    "groups": ("deadline", "parallel", "retry", "serial", "when"),
    "logs": ("LogObserver",),
    "report": ("Event", "Failure", "Finished", "Observer", "Report", "Retrying", "Skipped", "Started", "Status"),
    "running": ("default_observers", "execute", "plan", "run", "undo"),
    "tasks": ("AnyTask", "Skip", "Task", "task"),
}


if not TYPE_CHECKING:  # if a type checker saw it, it would accept any name

    def __getattr__(name: str) -> object:
        for home, offered in _HOMES.items():
            if name in offered:
                from importlib import import_module  # noqa: PLC0415  any interpreter has it loaded already

                value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
