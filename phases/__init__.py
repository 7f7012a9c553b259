"""A small runner for bootstrap steps. It has never heard of networks.

A step is anything with a `name` and a method `do(ctx)`; a function becomes one by a decorator:

    import phases

    @phases.task("download")
    def download(ctx):
        return fetch("https://…")

    bootstrap = phases.serial(
        phases.retry(download, attempts=5),
        phases.parallel(unpack, pull_images, name="prepare"),
        phases.deadline(start_machine, 60),
        name="bootstrap",
    )
    report = phases.run(bootstrap)
    print(report)

What a task is
    Task is the protocol, Context what `do` is given, `task` makes one of a function. A task may also offer
    `plan(ctx)` and `undo(ctx)` (OffersPlan, OffersUndo), its result `log_fields()` (OffersFields), and a task that
    finds nothing to do returns a Skip.

What tasks are made into
    `serial` and `parallel` make groups; `retry`, `deadline` and `when` put something around a task and keep its name.

What is done with them
    `execute` runs a task and returns its result, `run` is for a whole program and returns a Report, `plan` asks what
    would be done, `undo` takes it back.

How they end
    With a result, with TaskFailed (every Failure, innermost first), or with Cancelled. See `phases.errors`.

How one sees it
    Each start and each end is one wide log line. LogfmtFormatter and JsonFormatter print them; an Observer of
    your own gets the same events (Started, Finished, Skipped, Retrying). `phases.testing` has what tests need.
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
        Failure,
        InvalidTask,
        PhasesError,
        TaskFailed,
        UnknownTask,
    )
    from phases.events import Event, Finished, Observer, Retrying, Skipped, Started, Status
    from phases.groups import parallel, serial
    from phases.logs import JsonFormatter, LogfmtFormatter, LogObserver
    from phases.preview import Plan, plan
    from phases.program import default_observers, run
    from phases.report import Report
    from phases.steps import execute
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
    "errors": ("Cancelled", "DeadlineExceeded", "Failure", "InvalidTask", "PhasesError", "TaskFailed", "UnknownTask"),
    "events": ("Event", "Finished", "Observer", "Retrying", "Skipped", "Started", "Status"),
    "steps": ("execute",),
    "groups": ("parallel", "serial"),
    "logs": ("JsonFormatter", "LogfmtFormatter", "LogObserver"),
    "preview": ("Plan", "plan"),
    "program": ("default_observers", "run"),
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
