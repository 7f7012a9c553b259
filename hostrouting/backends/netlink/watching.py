"""Listening for changes: a watch, which reports that something may have changed, and a guard during a snapshot.

A watch does not report what has changed. For a snapshot, only changes that may make it inconsistent matter: on a busy
host something changes all the time, but changes in other tables, or elsewhere in the table, do not affect a reading of
a few prefixes.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from functools import cached_property
from io import FileIO
from typing import TYPE_CHECKING

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

    from typing_extensions import Self

    from hostrouting.model import Route
    from phases import Clock

__all__ = ["EVERYTHING", "NetlinkWatch", "Wanted", "disturbed"]

_LONGEST = 3600.0  # the longest wait of one poll call, in seconds; it does not accept infinity
_ROOM = 1 << 16
_ROUTES = frozenset({n.RTM_NEWROUTE, n.RTM_DELROUTE})
# Until a namespace gets its first custom rule, IPv4 keeps these two merged.
_MERGED = frozenset({TABLE_LOCAL, TABLE_MAIN})


@attrs.frozen(slots=False)  # slots would prevent cached_property
class Wanted:
    """Which routes are wanted; None means all."""

    family: int | None = None
    table: int | None = None
    protocol: int | None = None
    prefixes: frozenset[Prefix] | None = None

    def disturbed_by(self, route: Route) -> bool:
        """Whether the reading may be wrong after a change of this route, even if this route is not wanted.

        After each part of a list, the kernel continues where it was: in IPv4 by the first address and the number of
        routes that begin there, in IPv6 by the number of routes already sent from the table.
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
    """Whether a change was reported that may have spoilt the reading; True too if reports were lost."""
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
        return True  # a change of a device or address also removes routes, without a report
    return wanted.disturbed_by(read_route(data[offset : offset + size], {}, {}))


class NetlinkWatch:
    """A listener with its own socket, so that a burst that overflows it does not affect anything else."""

    def __init__(self, make: Callable[[], socket.socket]) -> None:
        """Begin to listen; `make` opens the socket, which has joined the groups."""
        self._make = make
        self._closed = False
        # Whether something may have been missed; then the next wait returns at once.
        self._missed = False
        # Held while the ends of the pipe are used or changed; reentrant, because a signal handler may run in the same
        # thread.
        self._lock = threading.RLock()
        self._open()

    def _open(self) -> None:
        self._listen()
        # A pipe, so that wake() can be called before, during and between waits.
        wakened, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakened, self._waker = FileIO(wakened), FileIO(waker, "w")
        self._pid = os.getpid()

    def _listen(self) -> None:
        self._socket = self._make()
        self._socket.settimeout(0)

    def _make_mine(self) -> None:
        """In a forked child: open a new socket, because the parent reads the old one; changes may have been missed."""
        if self._pid != os.getpid():
            with self._lock:
                self._release()
                self._open()
                self._missed = True

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:  # noqa: ARG002  it uses the machine's clock
        """Wait for a change since the last wait: True; False after `timeout` seconds or wake()."""
        self._usable()
        self._make_mine()
        self._make_whole()
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
                self._drain()
                return True
            if time.monotonic() >= deadline:
                return False

    def wake(self) -> None:
        """End the present or the next wait, from any thread."""
        with self._lock:
            if not self._closed:
                self._make_mine()
                self._waker.write(b"\0")  # a full pipe (65,536 wakes) ignores it

    def close(self) -> None:
        """Stop listening. May be called twice."""
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

    def _drain(self) -> None:
        """Read everything that came. A burst may have overflowed the buffer. A socket that fails is closed."""
        while True:
            try:
                self._socket.recv(1)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    self._socket.close()
                    return

    def _make_whole(self) -> None:
        """Open a new socket if the old one has failed; changes may have been missed."""
        if self._socket.fileno() < 0:
            self._listen()
            self._missed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
