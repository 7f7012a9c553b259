"""The time, and the lock of the host, as a process of the node waits for them: `phases.Clock` would
load threads.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from hostrouting.node.lock import HostLock

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from phases import Clock


class NodeClock(Protocol):
    """The time, and waiting."""

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of the host during the block; wait for it without a limit."""

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

    locked = HostLock
    for_watch = None
    now = staticmethod(time.monotonic)
    processor_time = staticmethod(time.process_time)
    sleep = staticmethod(time.sleep)
