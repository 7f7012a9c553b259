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
    """Waits for reports of Linux that its routing has changed; to be used in a `with` block."""

    def __init__(self, backend: RouteBackend, clock: WaitClock) -> None:
        """Begin to listen, so that `wait` misses no change from now on."""
        self._clock = clock
        self._watch: Watch | None = None  # stays None if this process may not listen
        with suppress(BackendError):
            self._watch = backend.watch()

    def forget(self) -> None:
        """Forget the reports that have come so far, such as those of the caller's own changes: the
        next `wait` waits for a later one.
        """
        if self._watch is not None:
            with suppress(BackendError):
                self._watch.wait(0.0)  # takes all reports that are there

    def wait(self, seconds: float) -> None:
        """Wait until Linux reports a change, but at most so many seconds. After a report, rest for
        `_REST` seconds: more reports may follow, and the caller reads the kernel after each wait.
        Raises what `WaitClock.sleep` raises if the caller has to end, for example because its run
        is cancelled.
        """
        seconds_to_sleep = seconds  # all of them, if this process cannot listen
        if self._watch is not None:
            with suppress(BackendError):
                # A fake kernel waits by the clock `for_watch`. The real kernel has its own clock.
                has_changed = self._watch.wait(seconds, clock=self._clock.for_watch)
                seconds_to_sleep = _REST if has_changed else 0.0
        self._clock.sleep(seconds_to_sleep)  # even for 0 s: it raises if the caller has to end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._watch is not None:
            self._watch.close()
