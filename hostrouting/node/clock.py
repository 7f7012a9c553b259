"""The time, as a process of the node needs it: `phases.Clock` would load threads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from phases import Clock


class NodeClock(Protocol):
    """The time, and waiting."""

    @property
    def for_watch(self) -> Clock | None:
        """The clock on which the watch of a fake kernel waits; a real one has the machine's."""

    def now(self) -> float:
        """Monotonic seconds: only differences are meaningful."""

    def processor_time(self) -> float:
        """How many seconds this process has worked."""

    def sleep(self, seconds: float) -> None:
        """Wait that long."""


class MachineClock:
    """The clock of this machine; see NodeClock."""

    for_watch = None

    def now(self) -> float:
        return time.monotonic()

    def processor_time(self) -> float:
        return time.process_time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
