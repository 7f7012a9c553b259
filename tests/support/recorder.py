"""What tests of the runner share: a run that is quick and quiet, and an observer."""

from typing import Any

import phases
from phases import Context, Status, Step
from phases.testing import FakeClock


def quiet() -> Context:
    """A context in which nothing waits and nothing is logged."""
    return Context(clock=FakeClock())


def ran(task: phases.AnyTask, **options: Any) -> Step:
    """The report of a run in which nothing waits and nothing is logged."""
    return phases.run(task, ctx=quiet(), **options)


class Recorder:
    """Records, in order, each start and each end with its status; some steps have only an end."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.ends: list[tuple[str, Status]] = []

    def __call__(self, step: Step) -> None:
        """Record the start or the end."""
        path = "/".join(step.path)
        if step.status is Status.RUNNING:
            self.starts.append(path)
        else:
            self.ends.append((path, step.status))
