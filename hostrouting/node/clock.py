"""The clock of a process of the node, with the lock of the host: for both of them it waits. It is
not a `phases.Clock`, because that loads `threading`, which delays each start.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from hostrouting.host.process_lock import ProcessLock
from hostrouting.kernel.reports import WaitClock
from hostrouting.node.journal import say

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class NodeClock(WaitClock, Protocol):
    """The time of a process of the node, and the lock of its host."""

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of the host during the block; wait for it without a limit."""

    def processor_time(self) -> float:
        """The seconds of processor time that this process has used."""


class MachineClock:
    """The clock of this machine; see NodeClock."""

    for_watch = None
    now = staticmethod(time.monotonic)
    processor_time = staticmethod(time.process_time)
    sleep = staticmethod(time.sleep)

    def locked(self) -> ProcessLock:
        return ProcessLock(say)
