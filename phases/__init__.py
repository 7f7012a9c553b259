"""A small runner for bootstrap steps. It has never heard of networks.

A step is anything with a `name` and a method `do(ctx)`; a function becomes one by a decorator::

    import phases

    @phases.task("download")
    def download(ctx):
        ctx.log.info("fetching", extra={"url": "https://…"})
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

    Task                        the protocol: `name`, and `do(ctx)`, whose result is the task's
    task                        makes one of a function
    Context                     what `do` is given: cancellation, deadline, sleep, logger, clock
    Skip                        what a task returns that found nothing to do
    OffersPlan, OffersUndo      a task may say what it would do, and take back what it did
    OffersFields                a result may put facts on the log line of its task
    AnyTask                     a task of whatever result

2. What tasks are made into

    serial                      in order, to the first failure
    parallel                    all at once; the first failure stops the others, and every one is waited for
    retry                       again after a failure, with growing pauses
    deadline                    not longer than so many seconds
    when                        only if a condition is true

3. What is done with them

    execute                     run a task, return its result, raise TaskFailed
    run                         the same for a whole program: signals, chosen steps, a Report instead of an exception
    Report                      what happened, as a tree that prints as text and as JSON
    plan, Plan                  what would be done, as such a tree; nothing is changed
    undo                        take back what was done, last first

4. How they end: with a result, with TaskFailed, or with Cancelled

    Status                      how a task stands: running, ok, failed, cancelled or skipped
    TaskFailed                  a task failed: every Failure, innermost first
    Failure                     one failure: the path of names, and the error with its traceback
    Cancelled                   the order to stop; no Exception, so that nothing swallows it by mistake
    DeadlineExceeded            the time was up
    InvalidTask                 something cannot be used as a task
    UnknownTask                 a name that was chosen is none of the tasks'
    PhasesError                 the root of all that is raised on purpose

5. How one sees it: each start and each end is one wide log line, and an event

    LogfmtFormatter             a log record as a line of key=value
    JsonFormatter               a log record as a line of JSON
    LogObserver                 the observer that writes these lines
    default_observers           those that `run` has unless it is told otherwise: log lines, on a terminal a live tree
    Observer, Event             any function of one event, and what an event may be
    Started, Finished           a task began, and ended
    Skipped, Retrying           it was not run, and is tried again
    Clock, SystemClock          where the time comes from; `phases.testing` has one on which nobody waits
"""

from __future__ import annotations

TYPE_CHECKING = False  # to load `typing` would cost a program that only prints its usage a third of its time
if TYPE_CHECKING:
    from collections.abc import Callable

    from phases.clock import Clock, SystemClock
    from phases.context import Context
    from phases.errors import (
        Cancelled,
        DeadlineExceeded,
        InvalidTask,
        PhasesError,
        TaskFailed,
        UnknownTask,
    )
    from phases.events import Event, Failure, Finished, Observer, Retrying, Skipped, Started, Status
    from phases.execution import execute
    from phases.groups import parallel, serial
    from phases.launch import default_observers, run
    from phases.logs import JsonFormatter, LogfmtFormatter, LogObserver
    from phases.preview import Plan, plan
    from phases.report import Report
    from phases.tasks import AnyTask, OffersFields, OffersPlan, OffersUndo, Skip, Task, task
    from phases.undoing import undo
    from phases.wrappers import deadline, retry, when

# Which distribution brought this package: another project owns the name on the index.
__distribution__ = "hostrouting"

__all__ = [
    # what a task is
    "AnyTask",
    "Context",
    "OffersFields",
    "OffersPlan",
    "OffersUndo",
    "Skip",
    "Task",
    "task",
    # what tasks are made into
    "deadline",
    "parallel",
    "retry",
    "serial",
    "when",
    # what is done with them
    "Plan",
    "Report",
    "default_observers",
    "execute",
    "plan",
    "run",
    "undo",
    # how they end
    "Cancelled",
    "DeadlineExceeded",
    "Failure",
    "InvalidTask",
    "PhasesError",
    "Status",
    "TaskFailed",
    "UnknownTask",
    # how one sees it
    "Event",
    "Finished",
    "JsonFormatter",
    "LogObserver",
    "LogfmtFormatter",
    "Observer",
    "Retrying",
    "Skipped",
    "Started",
    # the edge
    "Clock",
    "SystemClock",
]

# Where each name lives. It is loaded when first asked for, so that a program pays for what it uses: a command that
# only prints its usage runs no task. (No module bears the name of something it offers, or one would hide the other.)
_HOMES = {
    "clock": ("Clock", "SystemClock"),
    "context": ("Context",),
    "errors": ("Cancelled", "DeadlineExceeded", "InvalidTask", "PhasesError", "TaskFailed", "UnknownTask"),
    "events": ("Event", "Failure", "Finished", "Observer", "Retrying", "Skipped", "Started", "Status"),
    "execution": ("execute",),
    "groups": ("parallel", "serial"),
    "logs": ("JsonFormatter", "LogfmtFormatter", "LogObserver"),
    "preview": ("Plan", "plan"),
    "launch": ("default_observers", "run"),
    "report": ("Report",),
    "tasks": ("AnyTask", "OffersFields", "OffersPlan", "OffersUndo", "Skip", "Task", "task"),
    "undoing": ("undo",),
    "wrappers": ("deadline", "retry", "when"),
}


def lazily(package: str, homes: dict[str, tuple[str, ...]], names: dict[str, object]) -> Callable[[str], object]:
    """A package's __getattr__ (PEP 562) that loads each name from its home when it is first asked for."""

    def load(name: str) -> object:
        for home, offered in homes.items():
            if name in offered:
                from importlib import import_module  # noqa: PLC0415  any interpreter has it loaded already

                value = names[name] = getattr(import_module(f"{package}.{home}"), name)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


if not TYPE_CHECKING:  # a type checker that saw it would believe any name
    __getattr__ = lazily(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
