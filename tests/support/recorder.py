"""What tests of the runner share: a run that is quick and quiet, an observer, and a task."""

from collections.abc import Iterable
from typing import Any

import phases
from phases import Context, Status, Step
from phases.testing import FakeClock


def quiet() -> Context:
    """A context in which nothing waits and nothing is logged."""
    return Context(clock=FakeClock())


def ran(task: phases.AnyTask, **options: Any) -> Step:
    return phases.run(task, ctx=quiet(), **options)


class Recorder:
    """Records, in order, each start and each end with its status; some steps have only an end."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.ends: list[tuple[str, Status]] = []

    def __call__(self, step: Step) -> None:
        path = "/".join(step.path)
        if step.status is Status.RUNNING:
            self.starts.append(path)
        else:
            self.ends.append((path, step.status))


class StubTask:
    """A task that counts its calls; each sleeps, and raises the next of `errors`, if any."""

    def __init__(
        self,
        name: str,
        *,
        result: object = None,
        seconds: float = 0.0,
        errors: Iterable[BaseException] = (),
    ) -> None:
        self.name = name
        self.result = result
        self.seconds = seconds
        self.calls = 0
        self._errors = iter(errors)

    def do(self, ctx: Context, /) -> object:
        self.calls += 1
        ctx.sleep(self.seconds)
        for error in self._errors:
            raise error
        return self.result
