"""Tools for tests of a pipeline: a task to configure, an observer that records steps, a clock that
never waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from phases.context import Clock, Context
from phases.step import Status, Step

if TYPE_CHECKING:
    import threading


class StubTask:
    """A task that sleeps, then returns or raises what you set; it counts its calls.

    Each call raises the next of `errors`, so `errors=[OSError("busy")]` fails once and then
    succeeds, and `errors=itertools.repeat(OSError("busy"))` always fails.
    """

    def __init__(
        self,
        name: str,
        result: object = None,
        *,
        seconds: float = 0.0,
        errors: Iterable[BaseException] = (),
    ) -> None:
        self.name, self.result, self.seconds = name, result, seconds
        self.calls = 0
        self._errors = iter(errors)

    def do(self, ctx: Context, /) -> object:
        """Sleep, then raise or return."""
        self.calls += 1
        ctx.sleep(self.seconds)
        for error in self._errors:
            raise error
        return self.result


class Recorder:
    """An observer that records, in order, each start and each end with its status; some steps have
    only an end.
    """

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


class FakeClock(Clock):
    """A clock that never waits: as soon as every thread of the run waits, it jumps to the earliest
    end of a wait.

    Time passes only in these jumps, so durations are exact and a test of an hour takes no time. The
    clock counts the thread that created it and the threads that groups start; if your test starts a
    thread that runs tasks, start it with `clock.start(…)`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now, self._threads = 0.0, 1
        self._waits: list[tuple[Callable[[], bool], float]] = []

    def now(self) -> float:
        """The seconds since the beginning."""
        return self._now

    def wait(self, done: Callable[[], bool], until: float = math.inf) -> None:
        """See Clock."""
        with self._changed:
            self._waits.append(wait := (done, until))
            while not (done() or self._now >= until):
                is_awake = any(done() or self._now >= until for done, until in self._waits)
                earliest = min(until for _, until in self._waits)
                if is_awake or len(self._waits) < self._threads or earliest == math.inf:
                    self._changed.wait()
                else:
                    self._now = earliest
                    self._changed.notify_all()
            self._waits.remove(wait)

    def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
        """See Clock."""

        def counted() -> None:
            try:
                target()
            finally:
                with self._changed:
                    self._threads -= 1
                    self._changed.notify_all()

        with self._changed:
            self._threads += 1
        return super().start(counted, name=name)
