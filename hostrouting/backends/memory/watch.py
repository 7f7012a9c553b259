"""Listening to the fake kernel: the changes that were reported, and planned changes during a wait.

Here: the watch, and the clock that it waits on. Not here: the changes themselves.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from hostrouting.backends.base import cannot_listen
from hostrouting.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from hostrouting.backends.base import Source
    from phases import Clock
    from phases.clock import Event

__all__ = ["MemoryWatch"]

_MOMENTS: dict[Source, Literal["wait", "listen"]] = {"routes": "wait", "nftables": "listen"}


class MemoryWatch:
    """A listener. It waits on the clock that it is given; without one, a wait returns at once."""

    def __init__(
        self,
        happenings: list[Callable[[], object]],
        *,
        meet: Callable[[Literal["wait", "listen"]], object],
        on_clock: Callable[[Clock], object],
    ) -> None:
        """Take the planned changes: without a report, a wait calls them until one changes something.

        `meet` is called before each wait, and before it begins to listen to nftables; if it raises BackendError, the
        watch cannot listen to routes, or to nftables, until the next wait. `on_clock` tells the fake kernel the clock
        of a wait, both before and after it.
        """
        self._happenings, self._meet, self._on_clock = happenings, meet, on_clock
        self._lock = threading.Lock()
        self._heard = self._woken = self._closed = False
        self._waiting: Event | None = None
        self._troubles: dict[Source, str] = {}
        self._listens_to_nftables = False

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why it cannot listen to everything now."""
        return tuple(self._troubles.values())

    def listen(self, *, nftables: bool) -> None:
        """Listen to nftables too, or no longer."""
        if nftables and not self._listens_to_nftables:
            self._try("nftables")
        elif not nftables:
            self._troubles.pop("nftables", None)
        self._listens_to_nftables = nftables

    def hear(self, source: Source = "routes") -> None:
        """Report a change, if this source is listened to."""
        if source in self._troubles or (source == "nftables" and not self._listens_to_nftables):
            return
        with self._lock:
            self._heard = True
            self._end_wait()

    def _try(self, source: Source) -> None:
        try:
            self._meet(_MOMENTS[source])
        except BackendError as error:
            self._troubles[source] = cannot_listen(source, error)
        else:
            self._troubles.pop(source, None)

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """Whether something changed since the last wait; if not, whether one of the planned changes did.

        Without planned changes, it waits on the clock for a change by another thread.
        """
        if self._closed:
            raise BackendError("the watch was closed", can_retry=False)
        before = tuple(self._troubles)
        self._try("routes")
        if "nftables" in before:
            self._try("nftables")
        if before != tuple(self._troubles):
            with self._lock:
                self._heard = True  # a change may have been missed
        while self._happenings and not (self._heard or self._woken):
            self._happenings.pop(0)()
        if clock is not None:
            self._on_clock(clock)
            with self._lock:
                self._waiting = clock.event()
                if self._heard or self._woken:
                    self._waiting.set()
            self._waiting.wait(timeout)
            self._on_clock(clock)
        with self._lock:
            heard, self._heard = self._heard and not self._woken, self._heard and self._woken
            self._woken, self._waiting = False, None
        return heard

    def wake(self) -> None:
        """End the present or the next wait."""
        with self._lock:
            self._woken = True
            self._end_wait()

    def _end_wait(self) -> None:
        if self._waiting is not None:
            self._waiting.set()

    def close(self) -> None:
        """Stop listening."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
