"""A clock for tests of a pipeline, which never waits."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import attrs

from phases.context import Clock


class FakeClock(Clock):
    """A clock for tests, which jumps when every thread of the run waits: no wait takes real time.

    It jumps to the earliest end of a wait. Time passes only in these jumps, so durations are exact
    and a test of an hour takes no time. If every thread waits without an end, nothing wakes them,
    and the test hangs. The clock counts the thread that created it and the threads that groups
    start; if your test starts a thread that runs tasks, start it with `clock.start(…)`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        # How many threads do not wait: at first one, the thread that makes this clock.
        self._busy = 1
        self._waits: list[_Wait] = []

    def now(self) -> float:
        """The seconds since the beginning."""
        return self._now

    def wait(self, done: Callable[[], bool], until: float = math.inf) -> None:
        """Wait until `done()` is true, or until this clock reaches `until`. If all other threads
        already wait, the clock jumps (`_add_busy`), which may end this wait at once.
        """
        wait = _Wait(done, until)
        with self._changed:
            if done() or until <= self._now:
                return
            self._waits.append(wait)
            self._add_busy(-1)
        wait.is_over.wait()  # until `_end_waits` sets it

    def wake(self) -> None:
        """End each wait whose `done` is true now. Call it after a change that can make one true."""
        with self._changed:
            self._end_waits([wait for wait in self._waits if wait.done()])

    def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
        """Run the target in a new thread. The clock does not jump while this thread is busy."""

        def counted() -> None:
            try:
                target()
            finally:
                self._add_busy(-1)

        self._add_busy(+1)
        return super().start(counted, name=name)

    def _add_busy(self, change: int) -> None:
        """Count one more thread that does not wait, or one fewer. If every thread waits now, let
        time pass until the earliest end of a wait.
        """
        with self._changed:
            self._busy += change
            if self._busy > 0:
                return
            earliest = min((wait.until for wait in self._waits), default=math.inf)
            if earliest == math.inf:  # no wait has an end, so only wake() can end one
                return
            self._now = earliest
            self._end_waits([wait for wait in self._waits if wait.until <= earliest])

    def _end_waits(self, waits: list[_Wait]) -> None:
        """End these waits, so that their threads run on."""
        for wait in waits:
            self._waits.remove(wait)
            self._busy += 1
            wait.is_over.set()


@attrs.frozen(eq=False)
class _Wait:
    """A thread that waits. Only its own thread is woken, and only once its wait is over."""

    done: Callable[[], bool]
    until: float
    is_over: threading.Event = attrs.field(factory=threading.Event)
