"""Listening for changes. A watch says that something may have changed, never what."""

from __future__ import annotations

import errno
import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from hostrouting.errors import BackendError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["NetlinkWatch"]


class NetlinkWatch:
    """A listener with a socket of its own, so that a burst which overflows it disturbs nobody."""

    def __init__(self, make: Callable[[], socket.socket]) -> None:
        """Begin to listen; `make` makes the socket, which has joined the groups."""
        self._make = make
        self._closed = False
        self._open()

    def _open(self) -> None:
        self._socket, self._pid = self._make(), os.getpid()
        self._socket.settimeout(0)
        # A pair of pipe ends, on which wake() can be called before, during and between waits.
        self._wakened, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, timeout: float) -> bool:
        """Wait for a change since the last wait: True; False when the seconds are over or wake() was called."""
        self._usable()
        if self._pid != os.getpid():
            # The parent reads what comes to its socket; what this child missed, nobody knows.
            self._release()
            self._open()
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._wakened, select.POLLIN)
        deadline = time.monotonic() + timeout
        while True:
            ready = dict(poll.poll(max(deadline - time.monotonic(), 0.0) * 1000))
            if self._wakened in ready:
                self._drain_wakes()
                return False
            if ready:
                return self._drain()
            if time.monotonic() >= deadline:
                return False

    def wake(self) -> None:
        """End a wait that is under way, or the next one, from any thread."""
        if not self._closed:
            with suppress(BlockingIOError):  # it was woken 65,536 times already
                os.write(self._waker, b"\0")

    def close(self) -> None:
        """Stop listening. Fine to call twice."""
        if not self._closed:
            self._closed = True
            self._release()

    def _release(self) -> None:
        self._socket.close()
        os.close(self._wakened)
        os.close(self._waker)

    def _usable(self) -> None:
        if self._closed:
            raise BackendError("this watch was closed")

    def _drain_wakes(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._wakened, 1 << 12):
                pass

    def _drain(self) -> bool:
        """Take all that has come, as one change. A burst that did not fit is one too, and listening goes on."""
        while True:
            try:
                self._socket.recv(1)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise BackendError("netlink failed", errno=error.errno, kernel=error.strerror or "") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
