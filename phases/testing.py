"""Tools for tests of a pipeline: a task to configure, an observer that records steps, a clock that never waits."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from phases.context import Context
    from phases.step import Status, Step


@attrs.define
class StubTask:
    """A task that sleeps, then returns or raises what you set; it counts its calls.

    Each call raises the next of `errors`, so `errors=[OSError("busy")]` fails once and then succeeds.
    """

    name: str
    result: object = None
    seconds: float = attrs.field(default=0.0, kw_only=True)
    errors: Sequence[BaseException] = attrs.field(default=(), kw_only=True)
    always: BaseException | None = attrs.field(default=None, kw_only=True)
    """Raised by every call after those in `errors`."""
    calls: int = attrs.field(default=0, init=False)
    undone: int = attrs.field(default=0, init=False)

    def do(self, ctx: Context, /) -> object:
        """Sleep, then raise or return."""
        self.calls += 1
        ctx.sleep(self.seconds)
        if self.calls <= len(self.errors):
            raise self.errors[self.calls - 1]
        if self.always is not None:
            raise self.always
        return self.result

    def plan(self, _ctx: Context, /) -> str:
        """One line: what do() would return."""
        return f"would return {self.result!r}"

    def undo(self, _ctx: Context, /) -> None:
        """Count the call."""
        self.undone += 1


class Recorder:
    """An observer that records the paths of the steps that started, and each end with its status, in order."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.ends: list[tuple[str, Status]] = []
        """Also of the steps that were not started."""

    def started(self, step: Step) -> None:
        """Record the start."""
        self.starts.append("/".join(step.path))

    def ended(self, step: Step) -> None:
        """Record the end."""
        self.ends.append(("/".join(step.path), step.status))


class FakeClock:
    """A clock that never waits: as soon as every thread of the run waits, it jumps to the earliest end of a wait.

    Time only passes by such jumps, so durations are exact and a test of an hour takes no time. The clock counts the
    thread that created it and the threads that groups start; if your test starts a thread that runs tasks, start it
    with `clock.start(…)`.
    """

    def __init__(self, *, start: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc)) -> None:
        """Start at this date and time."""
        self._start, self._now, self._threads = start, 0.0, 1
        self._waits: list[tuple[Callable[[], bool], float]] = []
        self._changed = threading.Condition()

    def now(self) -> float:
        """The seconds since the start."""
        return self._now

    def utc(self) -> datetime:
        """The date and time."""
        return self._start + timedelta(seconds=self._now)

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        self._now += seconds
        self.wake()

    def wait(self, done: Callable[[], bool], until: float = math.inf) -> None:
        """See Clock."""
        with self._changed:
            self._waits.append(wait := (done, until))
            while not (done() or self._now >= until):
                is_awake = any(done() or self._now >= until for done, until in self._waits)
                earliest = min(until for _, until in self._waits)
                if is_awake or len(self._waits) < self._threads or earliest == math.inf:
                    self._changed.wait(1)
                else:
                    self._now = earliest
                    self._changed.notify_all()
            self._waits.remove(wait)

    def wake(self) -> None:
        """See Clock."""
        with self._changed:
            self._changed.notify_all()

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
        thread = threading.Thread(target=counted, name=name)
        thread.start()
        return thread
