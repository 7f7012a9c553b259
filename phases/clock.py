"""Time and threads: everything that a run waits on. Nothing here knows about tasks.

A run waits, reads the time and starts threads only through a `Clock`, so that a test can pass
`phases.testing.FakeClock` and never wait.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Protocol

from phases.interrupts import call_open, closed

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Lock

__all__ = ["Clock", "Event", "SystemClock", "Thread"]


class Event(Protocol):
    """A flag that is set once and can be waited for, like threading.Event."""

    def set(self) -> None:
        """Set the flag and wake every waiting thread. Setting it again does nothing."""

    def is_set(self) -> bool:
        """Whether the flag is set."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set or the time is up; return whether it is set."""
        ...


class Thread(Protocol):
    """A started thread."""

    def join(self) -> None:
        """Wait until it has ended."""


class Clock(Protocol):
    """What a run needs from the outside world: the time, waiting, and threads."""

    def now(self) -> float:
        """Monotonic seconds: only differences are meaningful."""
        ...

    def utc(self) -> datetime:
        """The date and time, in UTC."""
        ...

    def event(self) -> Event:
        """A new event whose wait() uses this clock."""
        ...

    def start(self, target: Callable[[], None], *, name: str) -> Thread:
        """Run the target in a new thread. Raises RuntimeError if the system cannot start one."""
        ...


class _SystemEvent:
    """An event that lets Ctrl-C through while the main thread waits, and nowhere else.

    A `threading.Event` reacquires a lock before its wait returns. A KeyboardInterrupt at that point, or just before
    the lock is released, becomes "RuntimeError: release unlocked lock": the task fails, and Ctrl-C is lost. So here
    each waiting thread has a lock, which set() releases, and only the one call that waits for this lock can be
    interrupted.

    If a signal arrives just before the main thread blocks, Python handles it only when the thread wakes. (Measured:
    one Ctrl-C in 25 was not handled for a minute.) So the main thread wakes up regularly.
    """

    __slots__ = ("_up", "_waiting")

    def __init__(self) -> None:
        self._up = False
        # list.append, list.pop and list.remove are atomic, so these need no lock.
        self._waiting: list[Lock] = []

    @closed
    def set(self) -> None:
        """Set the flag and wake every waiting thread. Setting it again does nothing."""
        self._up = True
        with suppress(IndexError):  # another thread is setting it as well, or the last waiter has just left
            while True:
                self._waiting.pop().release()

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._up

    @closed
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set or the time is up; return whether it is set."""
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
            if not self._up:  # a set() from here on finds the waiter
                call_open(waiter.acquire, timeout=seconds)
        finally:
            with suppress(ValueError):  # set() has removed it
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
        return datetime.now(timezone.utc)

    @staticmethod
    def start(target: Callable[[], None], *, name: str) -> threading.Thread:
        """Run the target in a new thread. Raises RuntimeError if the system cannot start one."""
        thread = threading.Thread(target=target, name=name, daemon=False)
        thread.start()
        return thread
