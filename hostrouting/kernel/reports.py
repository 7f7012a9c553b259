"""Waits that a report of Linux ends earlier.

Whoever waits reads the kernel again afterwards in any case. So it does not matter if there is no
report, or if this process may not listen.
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
"""Seconds to rest after a report. Without a rest, a program that changes routes all the time would
have the caller read the kernel all the time.
"""


class WaitClock(Protocol):
    """The clock of a caller that waits: a run of a task, or a process of the node."""

    @property
    def for_watch(self) -> Clock | None:
        """The clock for a wait of a `Watch`; None where only the machine's is used."""

    def now(self) -> float:
        """Monotonic seconds: only differences are meaningful."""

    def sleep(self, seconds: float) -> None:
        """Wait that long, or raise what ends the caller."""


class Reports:
    """Listens to what Linux reports of its routing; to be used in a `with` block."""

    def __init__(self, backend: RouteBackend, clock: WaitClock) -> None:
        self._clock = clock
        self._watch: Watch | None = None  # stays None if this process may not listen
        with suppress(BackendError):
            self._watch = backend.watch()

    def forget(self) -> None:
        """Forget what was reported so far."""
        if self._watch is not None:
            with suppress(BackendError):
                self._watch.wait(0.0)

    def wait(self, seconds: float) -> None:
        """Wait at most so many seconds for a report. After one, sleep for `_REST`, which limits how
        often the caller reads the kernel. If this process may not listen, sleep for all the
        seconds. Raises what `WaitClock.sleep` raises if the caller has to end.
        """
        seconds_to_sleep = seconds
        if self._watch is not None:
            with suppress(BackendError):
                has_changed = self._watch.wait(seconds, clock=self._clock.for_watch)
                seconds_to_sleep = _REST if has_changed else 0.0
        self._clock.sleep(seconds_to_sleep)  # even for 0 s: it raises if the caller has to end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._watch is not None:
            self._watch.close()
