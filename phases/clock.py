"""Time and threads: the one edge at which a run waits. Nothing here knows tasks.

A run waits, looks at the time and starts threads through a `Clock` only, so that a test can hand in
`phases.testing.FakeClock` and never wait at all.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from phases.interrupts import call_open, closed

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Lock

__all__ = ["Clock", "Event", "SystemClock", "Thread"]


class Event(Protocol):
    """A flag that is set once and can be waited for, as threading.Event."""

    def set(self) -> None:
        """Raise the flag and wake whoever waits. Setting it again does nothing."""

    def is_set(self) -> bool:
        """Whether the flag is up."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is up, or the seconds are over; say whether it is up."""
        ...


class Thread(Protocol):
    """A started thread."""

    def join(self) -> None:
        """Wait until it has ended."""


class Clock(Protocol):
    """What a run needs of the world outside: the time, waiting, and threads."""

    def now(self) -> float:
        """Seconds on a scale that never goes back; only differences mean anything."""
        ...

    def utc(self) -> datetime:
        """The date and time, in UTC."""
        ...

    def event(self) -> Event:
        """A new event whose waiting passes on this clock."""
        ...

    def start(self, target: Callable[[], None], *, name: str) -> Thread:
        """Run the target in a new thread. RuntimeError when the system has no thread left."""
        ...


class _SystemEvent:
    """An event that lets Ctrl-C through while the main thread waits, and nowhere else.

    An event of `threading` takes a lock again before its wait ends. KeyboardInterrupt just there, or just before the
    lock was let go, becomes "RuntimeError: release unlocked lock": the task fails, and nobody hears of Ctrl-C. So a
    thread that waits has a lock of its own here, which whoever sets the event releases; only the one call that waits
    for this lock can be interrupted.

    A signal that comes just before the main thread blocks is noticed by Python only when it wakes. (Seen: one Ctrl-C
    in 25 was not noticed for a minute.) So the main thread wakes now and then.
    """

    __slots__ = ("_up", "_waiting")

    def __init__(self) -> None:
        self._up = False
        # list.append, list.pop and list.remove are atomic, so these need no lock.
        self._waiting: list[Lock] = []

    @closed
    def set(self) -> None:
        """Raise the flag and wake whoever waits. Setting it again does nothing."""
        self._up = True
        with suppress(IndexError):  # another thread sets it too, or the last waiter has just left
            while True:
                self._waiting.pop().release()

    def is_set(self) -> bool:
        """Whether the flag is up."""
        return self._up

    @closed
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is up, or the seconds are over; say whether it is up."""
        main = threading.current_thread() is threading.main_thread()
        longest = _LONGEST_BLOCK if main else threading.TIMEOUT_MAX
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._up and (left := end - time.monotonic()) > 0:
            self._block(min(left, longest))
        return self._up

    def _block(self, seconds: float) -> None:
        waiter = threading.Lock()
        waiter.acquire()
        self._waiting.append(waiter)
        try:
            if not self._up:  # whoever sets it from here on finds the waiter
                call_open(waiter.acquire, timeout=seconds)
        finally:
            with suppress(ValueError):  # whoever set it has taken it away
                self._waiting.remove(waiter)


_LONGEST_BLOCK = 0.25


class SystemClock:
    """The machine's own time and threads."""

    __slots__ = ()

    now = staticmethod(time.monotonic)
    event = staticmethod(_SystemEvent)

    @staticmethod
    def utc() -> datetime:
        """The date and time, in UTC."""
        return datetime.now(UTC)

    @staticmethod
    def start(target: Callable[[], None], *, name: str) -> threading.Thread:
        """Run the target in a new thread. RuntimeError when the system has no thread left."""
        thread = threading.Thread(target=target, name=name, daemon=False)
        thread.start()
        return thread
