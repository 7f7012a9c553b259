"""Listening for changes: a socket that has joined the groups, and a counter to wake it.

A watch does not say what has changed. If its buffer overflows, reports are lost, and that counts as
a change.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Watch
from hostrouting.kernel.netlink.numbers import groups_of
from hostrouting.kernel.netlink.socket import NetlinkSocket, kernel_errors

if TYPE_CHECKING:
    from phases import Clock

_LONGEST = 3600.0  # seconds in one call of poll, which does not accept infinity


class NetlinkWatch(Watch):
    """A watch of the namespace of the thread that creates it."""

    def __init__(self) -> None:
        """Begin to listen; OSError if that is not possible."""
        self._socket = NetlinkSocket(groups=groups_of())
        # Another thread may wake it before, during and between waits.
        self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_closed = False

    def wait(
        self,
        timeout: float,
        *,
        clock: Clock | None = None,  # noqa: ARG002  it uses the machine's clock
    ) -> bool:
        """Wait for a change since the last wait: True; False after `timeout` seconds or wake()."""
        if self._is_closed:
            raise BackendError("this watch was closed", kind="unusable")
        deadline = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        poll.register(self._socket.fileno(), select.POLLIN)
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            ready = dict(poll.poll(min(left, _LONGEST) * 1000))
            if self._waker in ready:
                os.eventfd_read(self._waker)
                return False
            with kernel_errors("listen to changes of routes any more"):
                if ready and self._socket.reports():
                    return True
            if time.monotonic() >= deadline:
                return False

    def wake(self) -> None:
        """End the present or the next wait; may be called in any thread."""
        with suppress(OSError):  # it is closed
            os.eventfd_write(self._waker, 1)

    def close(self) -> None:
        """Stop listening. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._socket.close()
            os.close(self._waker)
