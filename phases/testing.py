"""Tools for tests of a pipeline: a task to configure, an observer that records events, a clock that never waits."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import attrs

from phases.report import Event, Finished, Report, Retrying, Skipped, Started, Status

if TYPE_CHECKING:
    from phases.context import Context

__all__ = ["FakeClock", "FakeEvent", "RecordingObserver", "StubTask"]


def _own_list(errors: Iterable[BaseException]) -> list[BaseException]:
    return list(errors)


@attrs.define
class StubTask:
    """A task that sleeps, then returns or raises what you set; it counts its calls.

    Each call raises the next of `errors`, so `errors=[OSError("busy")]` fails once and then succeeds.
    """

    name: str
    result: object = None
    seconds: float = attrs.field(default=0.0, kw_only=True)
    errors: list[BaseException] = attrs.field(factory=list, kw_only=True, converter=_own_list)
    always: BaseException | None = attrs.field(default=None, kw_only=True)
    """Raised by every call after those in `errors`."""
    obeys: bool = attrs.field(default=True, kw_only=True)
    """Whether cancellation interrupts its sleep."""
    calls: int = attrs.field(default=0, init=False)
    undone: int = attrs.field(default=0, init=False)

    def do(self, ctx: Context, /) -> object:
        """Sleep, then raise or return."""
        self.calls += 1
        if self.seconds and self.obeys:
            ctx.sleep(self.seconds)
        elif self.seconds:
            with ctx.shielded() as deaf:
                deaf.sleep(self.seconds)
        if self.errors:
            raise self.errors.pop(0)
        if self.always is not None:
            raise self.always
        return self.result

    def plan(self, _ctx: Context, /) -> str:
        """One line: what do() would return."""
        return f"would return {self.result!r}"

    def undo(self, _ctx: Context, /) -> None:
        """Count the call."""
        self.undone += 1


class RecordingObserver:
    """An observer that records every event of a run, with properties for common assertions."""

    def __init__(self) -> None:
        """Start without events."""
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Record the event."""
        self.events.append(event)

    @property
    def started(self) -> list[str]:
        """The paths of the tasks that began, in the order in which they began."""
        return ["/".join(event.path) for event in self.events if isinstance(event, Started)]

    @property
    def finished(self) -> list[tuple[str, Status]]:
        """The paths of the tasks that ended, each with its status, in the order in which they ended."""
        return [("/".join(event.path), event.status) for event in self.events if isinstance(event, Finished)]

    @property
    def skipped(self) -> list[str]:
        """The paths of the tasks that never began."""
        return ["/".join(event.path) for event in self.events if isinstance(event, Skipped)]

    @property
    def retries(self) -> list[Retrying]:
        """The failed attempts that were followed by another attempt."""
        return [event for event in self.events if isinstance(event, Retrying)]

    @property
    def report(self) -> Report:
        """The report made from these events."""
        return Report.from_events(self.events)


class FakeClock:
    """A clock that never waits: as soon as every thread of the run sleeps, it jumps to the earliest wake-up time.

    Time only passes by such jumps, so durations are exact and a test of an hour takes no time. The clock tracks the
    thread that created it and the threads that groups start; if your test starts a thread that runs tasks, start it
    with `clock.start(…)`. With autojump=False the time only changes in `advance()`.
    """

    def __init__(self, *, start: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc), autojump: bool = True) -> None:
        """Start at this date and time."""
        self._start = start
        self._autojump = autojump
        self._now = 0.0
        self._changed = threading.Condition()
        self._awake = 1
        self._sleepers: list[_Sleeper] = []

    def now(self) -> float:
        """The seconds since the start."""
        return self._now

    def utc(self) -> datetime:
        """The date and time."""
        return self._start + timedelta(seconds=self._now)

    def event(self) -> FakeEvent:
        """An event whose wait() uses this clock."""
        return FakeEvent(self)

    def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
        """Run the target in a thread that this clock tracks."""

        def known() -> None:
            try:
                target()
            finally:
                with self._changed:
                    self._awake -= 1
                    self._jump()

        thread = threading.Thread(target=known, name=name)
        with self._changed:
            self._awake += 1
        try:
            thread.start()
        except BaseException:
            with self._changed:
                self._awake -= 1
            raise
        return thread

    def advance(self, seconds: float) -> None:
        """Move the time forward and wake every thread whose wake-up time has come."""
        with self._changed:
            self._pass_to(self._now + seconds)

    def _pass_to(self, moment: float) -> None:
        self._now = moment
        for sleeper in list(self._sleepers):
            if sleeper.until <= moment:
                self._wake(sleeper)

    def _jump(self) -> None:
        """Called with the lock held after a thread has gone to sleep or ended."""
        moment = min((sleeper.until for sleeper in self._sleepers), default=math.inf)
        if self._autojump and self._awake <= 0 and math.isfinite(moment):
            self._pass_to(moment)

    def _wake(self, sleeper: _Sleeper) -> None:
        # The sleeper counts as awake from now on, not from when its thread runs: so no jump can happen in between.
        sleeper.woken = True
        self._sleepers.remove(sleeper)
        self._awake += 1
        self._changed.notify_all()


@attrs.define(eq=False)
class _Sleeper:
    """A thread that waits for an event, at most until a time on the fake clock."""

    event: FakeEvent
    until: float
    woken: bool = False


class FakeEvent:
    """An event on a FakeClock."""

    def __init__(self, clock: FakeClock) -> None:
        """Make an event on this clock, not set."""
        self._clock = clock
        self._set = False

    def set(self) -> None:
        """Set the flag and wake every waiting thread."""
        clock = self._clock
        with clock._changed:
            self._set = True
            for sleeper in [sleeper for sleeper in clock._sleepers if sleeper.event is self]:
                clock._wake(sleeper)

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep on the fake clock until the flag is set or the time is up; return whether it is set."""
        clock = self._clock
        with clock._changed:
            if self._set or (timeout is not None and timeout <= 0):
                return self._set
            # At least the next larger float: adding a tiny timeout may not change the number, and time would stop.
            until = math.inf if timeout is None else max(clock._now + timeout, math.nextafter(clock._now, math.inf))
            sleeper = _Sleeper(self, until)
            clock._sleepers.append(sleeper)
            clock._awake -= 1
            clock._jump()
            try:
                while not sleeper.woken:
                    clock._changed.wait()
            finally:
                if not sleeper.woken:
                    clock._wake(sleeper)
            return self._set
