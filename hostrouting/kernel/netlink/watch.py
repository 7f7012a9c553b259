"""Listening for changes: a socket that receives the kernel's reports, and an eventfd by which
another thread ends a wait.

A watch does not say what has changed. If its buffer overflows, reports are lost, and that counts as
a change.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Watch
from hostrouting.kernel.netlink.numbers import GROUPS_OF_CHANGES
from hostrouting.kernel.netlink.socket import Netlink, kernel_errors

if TYPE_CHECKING:
    from phases import Clock

_LONGEST = 3600.0  # seconds in one call of poll, which does not accept infinity


class NetlinkWatch(Watch):
    """A watch of the namespace of the thread that creates it."""

    def __init__(self) -> None:
        """Begin to listen; OSError if that is not possible."""
        self._socket = Netlink(groups=GROUPS_OF_CHANGES)
        self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Once the waker is closed, its number may be that of another file. A signal handler may
        # call `wake` while its thread has the lock.
        self._lock = threading.RLock()
        self._is_closed = False

    def wait(
        self,
        timeout: float,
        *,
        clock: Clock | None = None,  # noqa: ARG002  the kernel has only the machine's clock
    ) -> bool:
        """Wait for a change since the last wait: True; False after `timeout` seconds or wake()."""
        if self._is_closed:
            raise BackendError("this watch was closed", kind="unusable")
        deadline = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        poll.register(self._socket.fileno(), select.POLLIN)
        while True:
            seconds_left = max(deadline - time.monotonic(), 0.0)
            ready = dict(poll.poll(min(seconds_left, _LONGEST) * 1000))
            if self._waker in ready:
                os.eventfd_read(self._waker)
                return False
            with kernel_errors("listen to changes of routes any more"):
                if self._socket.reports():
                    return True
            if time.monotonic() >= deadline:
                return False

    def wake(self) -> None:
        """End the present or the next wait; may be called in any thread, also after `close`, and by
        a signal handler.
        """
        with self._lock:
            if not self._is_closed:
                os.eventfd_write(self._waker, 1)

    def close(self) -> None:
        """Stop listening, when no thread waits any more. May be called twice."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._socket.close()
            os.close(self._waker)
