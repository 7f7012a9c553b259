"""Waiting for what Linux reports, by a program that reads the kernel again in any case.

A report only ends a wait earlier. So it does not matter if there is none, or if this process may
not listen.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from hostrouting.errors import BackendError

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.kernel.base import RouteBackend, Watch
    from phases import Clock


_REST = 0.1
"""Seconds after a report, so that a wait takes little of a processor beside a program that changes
routes all the time.
"""


class WaitClock(Protocol):
    """The time, as whoever waits has it: a run of a task, or a process of the node."""

    @property
    def for_watch(self) -> Clock | None:
        """The clock on which the watch of a fake kernel waits; a real one has the machine's."""

    def now(self) -> float:
        """Monotonic seconds: only differences are meaningful."""

    def sleep(self, seconds: float) -> None:
        """Wait that long, or raise what ends the caller."""


class Reports:
    """What Linux reports of its routing from now on; to be used in a `with` block."""

    def __init__(self, backend: RouteBackend, clock: WaitClock) -> None:
        self._clock = clock
        self._watch: Watch | None = None
        with suppress(BackendError):
            self._watch = backend.watch()

    def forget(self) -> None:
        """Forget what was reported so far."""
        if self._watch is not None:
            with suppress(BackendError):
                self._watch.wait(0.0)

    def wait(self, seconds: float) -> None:
        """Wait for a report, and rest after it; at most so many seconds before that."""
        if self._watch is not None:
            with suppress(BackendError):
                has_changed = self._watch.wait(seconds, clock=self._clock.for_watch)
                seconds = _REST if has_changed else 0.0
        self._clock.sleep(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._watch is not None:
            self._watch.close()
