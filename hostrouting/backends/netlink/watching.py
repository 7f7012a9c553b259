"""Hearing of changes: by a watch, which says that something may have changed, and while a snapshot is being read.

A watch never says what has changed. A reading that went on meanwhile is told whether it may have been spoilt: on a busy
host something changes all the time, and what is about other tables, or about other places of the table, does not matter
to whoever asked for a few prefixes.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from functools import cached_property
from io import FileIO
from typing import TYPE_CHECKING, Self

import attrs

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.messages import HEADER
from hostrouting.backends.netlink.route_message import read_route
from hostrouting.backends.netlink.sockets import as_backend_error
from hostrouting.errors import BackendError
from hostrouting.model import IPV4, TABLE_LOCAL, TABLE_MAIN, Prefix

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from hostrouting.model import Route
    from phases import Clock

__all__ = ["EVERYTHING", "NetlinkWatch", "Wanted", "disturbed"]

_LONGEST = 3600.0  # seconds that poll waits at a time; it cannot count to infinity
_ROOM = 1 << 16
_ROUTES = frozenset({n.RTM_NEWROUTE, n.RTM_DELROUTE})
# Until the first rule of a namespace IPv4 keeps the two in one.
_MERGED = frozenset({TABLE_LOCAL, TABLE_MAIN})


@attrs.frozen(slots=False)  # for what is cached
class Wanted:
    """Which routes are wanted; None is all."""

    family: int | None = None
    table: int | None = None
    protocol: int | None = None
    prefixes: frozenset[Prefix] | None = None

    def disturbed_by(self, route: Route) -> bool:
        """Whether the reading may be wrong after a change of this route, also of one that is not wanted.

        The kernel goes on where it was before a pause: in IPv4 by the first address and by counting what begins there,
        in IPv6 by counting all that it has told of the table.
        """
        table, prefix = route.table, route.prefix
        if self.table is not None and table != self.table and not {table, self.table} <= _MERGED:
            return False
        return prefix.family != IPV4 or self.prefixes is None or prefix.network in self._networks

    @cached_property
    def _networks(self) -> frozenset[int]:
        return frozenset(it.network for it in self.prefixes or () if it.family == IPV4)


EVERYTHING = Wanted()


def disturbed(guard: socket.socket, wanted: Wanted) -> bool:
    """Whether anything was heard that may have spoilt the reading; also when more came than could be heard."""
    guard.settimeout(0)
    while True:
        try:
            data = guard.recv(_ROOM)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return True
            raise as_backend_error(error) from error
        if any(_disturbs(data, offset, wanted) for offset in _places(data)):
            return True


def _places(data: bytes) -> Iterator[int]:
    offset = 0
    while offset + HEADER.size <= len(data):
        yield offset
        offset += (HEADER.unpack_from(data, offset)[0] + 3 & ~3) or len(data)


def _disturbs(data: bytes, offset: int, wanted: Wanted) -> bool:
    size, kind, *_ = HEADER.unpack_from(data, offset)
    if kind not in _ROUTES:
        return True  # what becomes of devices and addresses takes routes along, silently
    return wanted.disturbed_by(read_route(data[offset : offset + size], {}, {}))


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

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:  # noqa: ARG002  a kernel has its own time
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
                    raise as_backend_error(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
