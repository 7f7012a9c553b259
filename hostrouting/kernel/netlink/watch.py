"""NetlinkWatch listens for changes: its socket receives the kernel's reports.

A watch does not say what has changed. If the buffer of the socket overflows, reports are lost,
which counts as a change.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from hostrouting.kernel.base import Watch
from hostrouting.kernel.netlink.numbers import GROUPS_OF_CHANGES
from hostrouting.kernel.netlink.socket import Netlink, kernel_errors

if TYPE_CHECKING:
    from phases import Clock

_LONGEST_POLL = 3600.0  # seconds


class NetlinkWatch(Watch):
    """Listens for changes in the network namespace of the thread that creates it."""

    def __init__(self) -> None:
        """Begin to listen; OSError if that is not possible."""
        self._socket = Netlink(groups=GROUPS_OF_CHANGES)

    def wait(
        self,
        timeout: float,
        *,
        clock: Clock | None = None,  # noqa: ARG002  the kernel has only the machine's clock
    ) -> bool:
        """Wait until the kernel has reported a change since the last wait. Return True then, or
        False after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        while True:
            seconds_left = max(deadline - time.monotonic(), 0.0)
            # `poll` takes milliseconds. It refuses infinity, and more than 24 days, so a wait of
            # more than an hour (`_LONGEST_POLL`) is made of several polls.
            poll.poll(min(seconds_left, _LONGEST_POLL) * 1000)
            with kernel_errors("listen to changes of routes any more"):
                if self._socket.take_reports():
                    return True
            if time.monotonic() >= deadline:
                return False

    def close(self) -> None:
        """Stop listening. May be called twice."""
        self._socket.close()
