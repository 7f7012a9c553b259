"""Listening for changes. A watch says that something may have changed, never what."""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from io import FileIO
from typing import TYPE_CHECKING, Self

from hostrouting.errors import BackendError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["NetlinkWatch"]

_LONGEST = 3600.0  # seconds that poll waits at a time; it cannot count to infinity


class NetlinkWatch:
    """A listener with a socket of its own, so that a burst which overflows it disturbs nobody."""

    def __init__(self, make: Callable[[], socket.socket]) -> None:
        """Begin to listen; `make` makes the socket, which has joined the groups."""
        self._make = make
        self._closed = False
        # Whether something may have been missed, which makes the next wait a short one.
        self._missed = False
        # Held by whoever uses or changes the ends of the pipe; by a thread and a signal's handler in it, twice.
        self._lock = threading.RLock()
        self._open()

    def _open(self) -> None:
        self._socket, self._pid = self._make(), os.getpid()
        self._socket.settimeout(0)
        # A pair of pipe ends, on which wake() can be called before, during and between waits.
        wakened, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakened, self._waker = FileIO(wakened), FileIO(waker, "w")

    def _make_mine(self) -> None:
        """In a forked child: the parent reads what comes to its socket; what this child missed, nobody knows."""
        if self._pid != os.getpid():
            with self._lock:
                self._release()
                self._open()
                self._missed = True

    def wait(self, timeout: float) -> bool:
        """Wait for a change since the last wait: True; False when the seconds are over or wake() was called."""
        self._usable()
        self._make_mine()
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._wakened, select.POLLIN)
        deadline = time.monotonic() + timeout
        while True:
            left = 0.0 if self._missed else min(max(deadline - time.monotonic(), 0.0), _LONGEST)
            ready = dict(poll.poll(left * 1000))
            if self._wakened.fileno() in ready:
                self._drain_wakes()
                return False
            if self._missed:
                self._missed = False
                return True
            if ready:
                return self._drain()
            if time.monotonic() >= deadline:
                return False

    def wake(self) -> None:
        """End a wait that is under way, or the next one, from any thread."""
        with self._lock:
            if not self._closed:
                self._make_mine()
                self._waker.write(b"\0")  # or nothing, when it was woken 65,536 times already

    def close(self) -> None:
        """Stop listening. Fine to call twice."""
        with self._lock:
            self._closed = True
            self._release()

    def _release(self) -> None:
        for end in (self._socket, self._wakened, self._waker):
            end.close()

    def _usable(self) -> None:
        if self._closed:
            raise BackendError("this watch was closed")

    def _drain_wakes(self) -> None:
        while self._wakened.read(1 << 12):
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
