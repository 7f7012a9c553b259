"""FakeWatch: the watch of a FakeKernel, with planned changes instead of waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Watch

if TYPE_CHECKING:
    from phases import Clock


class FakeWatch(Watch):
    """A watch of a FakeKernel. It waits on the clock that it is given; without one, a wait returns at once."""

    def __init__(self, happenings: list[Callable[[], object]]) -> None:
        """Take the planned changes: a wait without a report calls them until one changes something."""
        self._happenings = happenings
        self._lock = threading.Lock()
        self._reported = self._woken = self._closed = False
        self._clock: Clock | None = None

    def report(self) -> None:
        """Report a change."""
        with self._lock:
            self._reported = True
        self._end_wait()

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch. Without planned changes, it waits on the clock for a change by another thread."""
        if self._closed:
            raise BackendError("the watch was closed", kind="unusable")
        while self._happenings and not (self._reported or self._woken):
            self._happenings.pop(0)()
        if clock is not None:
            self._clock = clock
            clock.wait(lambda: self._reported or self._woken, clock.now() + timeout)
        with self._lock:
            reported, self._reported = self._reported and not self._woken, self._reported and self._woken
            self._woken, self._clock = False, None
        return reported

    def wake(self) -> None:
        """See Watch."""
        with self._lock:
            self._woken = True
        self._end_wait()

    def _end_wait(self) -> None:
        if (clock := self._clock) is not None:
            clock.wake()

    def close(self) -> None:
        """See Watch."""
        self._closed = True
