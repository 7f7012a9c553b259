"""Listening for changes: a watch, which reports that something may have changed, and a guard during a snapshot.

A watch does not report what has changed. It has a socket for each source, routes and perhaps nftables, and waits for
all of them at once. A socket that cannot be opened, or fails, is opened again after a second. It may have missed
changes, so that counts as a change.

On a host with pods or a routing daemon, most changes do not matter to the guard. Of such a message only the few numbers
that `Concern` asks for are read, which takes 10 to 20 µs. After such messages the watch rests, so that it wakes up for
many of them at once.

For a snapshot, only changes that may make it inconsistent matter: on a busy host something changes all the time, but
changes in other tables, or elsewhere in the table, do not affect a reading of a few prefixes.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache, partial
from io import FileIO
from sys import byteorder
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Source, cannot_listen
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import HEADER, as_backend_error, attributes_of, why_not_opened
from hostrouting.kernel.netlink.numbers import FAMILY_OF
from hostrouting.kernel.netlink.route_message import read_route
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import TABLE_LOCAL, TABLE_MAIN, Route

if TYPE_CHECKING:
    import socket
    from types import TracebackType

    from typing_extensions import Self

    from hostrouting.kernel.concern import Concern
    from hostrouting.model.snapshot import Snapshot
    from phases import Clock

_LONGEST = 3600.0  # the longest wait of one poll call, in seconds; it does not accept infinity
_ROOM = 1 << 16
_TABLE = frozenset({n.RTA_TABLE})
_AGAIN = 1.0  # seconds until a socket that could not be opened, or has failed, is opened again
_REST = 0.02  # seconds after messages that do not matter
_ROUTES = frozenset({n.RTM_NEWROUTE, n.RTM_DELROUTE})
_LINKS, _ADDRESSES, _SETTINGS = frozenset({16, 17}), frozenset({20, 21}), frozenset({80, 81})  # RTM_NEW… and RTM_DEL…
_IFLA_IFNAME, _NETCONFA_IFINDEX = 3, 1
_IFLA, _IFA, _ROUTE_PARTS = frozenset({_IFLA_IFNAME}), frozenset({1, 2}), frozenset({n.RTA_DST, n.RTA_TABLE})
# Until a namespace gets its first custom rule, IPv4 keeps these two merged.
_MERGED = frozenset({TABLE_LOCAL, TABLE_MAIN})


class Wanted(NamedTuple):
    """Which routes are wanted; None means all."""

    family: int | None = None
    table: int | None = None
    protocol: int | None = None
    prefixes: frozenset[Prefix] | None = None
    reached: bool = False
    """Whether the tables that no rule looks up are left out."""
    tables: frozenset[int] | None = None
    """The tables that are read; None until the rules are known."""
    about: Callable[[Snapshot], Concern] | None = None
    """What an answer from the reading depends on: other changes do not spoil it."""

    @property
    def families(self) -> tuple[int, ...]:
        """The families that are read."""
        return (IPV4, IPV6) if self.family is None else (self.family,)

    @property
    def is_whole(self) -> bool:
        """Whether no route of these families is left out, except those of tables that no rule looks up."""
        return self.table is None and self.protocol is None and self.prefixes is None

    def disturbed_by(self, route: Route) -> bool:
        """Whether a change of this route, wanted or not, can make the reading wrong.

        After each part of a list, the kernel continues where it was: in IPv4 by the first address and the number of
        routes that begin there, in IPv6 by the number of routes already sent from the table.
        """
        table, prefix = route.table, route.prefix
        if self.table is not None and table != self.table and not {table, self.table} <= _MERGED:
            return False
        if self.tables is not None and table not in self.tables:
            return False
        return prefix.family != IPV4 or self.prefixes is None or prefix.network in _networks(self.prefixes)


@lru_cache(maxsize=1)  # a program asks about each reported route of one reading
def _networks(prefixes: frozenset[Prefix]) -> frozenset[int]:
    return frozenset(prefix.network for prefix in prefixes if prefix.family == IPV4)


EVERYTHING = Wanted()


def disturbed(heard: Iterable[bytes], wanted: Wanted, found: Snapshot | None = None) -> bool:
    """Whether one of these changes may have spoilt the reading; True also for an empty one (lost reports).

    A change may have come before or after its part of `found` was read. In both cases it matters to an answer only if
    it matters to what this answer depends on.
    """
    concern: Concern | None = None
    for message in heard:
        if wanted.about is not None and found is not None:
            concern = concern or wanted.about(found)
        if not message or _disturbs(message, wanted, concern):
            return True
    return False


def reports(guard: socket.socket) -> Iterator[tuple[bytes, ...]]:
    """The messages that a socket without a timeout has received; an empty one stands for lost ones."""
    while True:
        try:
            yield tuple(_messages(guard.recv(_ROOM)))
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise as_backend_error(error) from error
            yield (b"",)


def _messages(data: bytes) -> Iterator[bytes]:
    offset = 0
    while offset + HEADER.size <= len(data):
        size = HEADER.unpack_from(data, offset)[0]
        yield data[offset : offset + size]
        offset += (size + 3 & ~3) or len(data)


def _disturbs(data: bytes, wanted: Wanted, concern: Concern | None) -> bool:
    if HEADER.unpack_from(data)[1] not in _ROUTES:
        # A change of a device or address also removes routes, without a report.
        return concern is None or _is_for_one(data, (concern,))
    route = read_route(data, {}, {})
    if concern is None:
        return wanted.disturbed_by(route)
    return _is_for_one(data, (concern,)) or (wanted.disturbed_by(route) and concern.loses_place(route.prefix))


def table_of(data: bytes) -> int:
    """The table of a route, in a message about it."""
    raw = attributes_of(data, 28, _TABLE)
    return int.from_bytes(raw[n.RTA_TABLE], byteorder) if raw else data[20]


def device_of(data: bytes) -> int:
    """The number of the device in a message about it, or about an address of it."""
    return int.from_bytes(data[20:24], byteorder)


def _matters(data: bytes, concerns: Collection[Concern] | None) -> bool:
    """Whether one of these messages matters to one of these answers."""
    if concerns is None:
        return True
    return any(_is_for_one(message, concerns) for message in _messages(data))


def _is_for_one(data: bytes, concerns: Collection[Concern]) -> bool:
    kind, family = HEADER.unpack_from(data)[1], FAMILY_OF.get(data[16], 0)
    if kind in _ROUTES and family:
        table, protocol, length = data[20], data[21], data[17]
        raw = attributes_of(data, 28, _ROUTE_PARTS)
        if n.RTA_TABLE in raw:
            table = int.from_bytes(raw[n.RTA_TABLE], byteorder)
        network = int.from_bytes(raw.get(n.RTA_DST, b""), "big")
        return any(concern.has_route(family, table, protocol, network, length) for concern in concerns)
    if kind in _ADDRESSES and family:
        device = device_of(data)
        told = attributes_of(data, 24, _IFA).values()
        prefixes = [Prefix.around(family, int.from_bytes(address, "big"), data[17]) for address in told]
        return any(concern.has_address(device, prefix) for concern in concerns for prefix in prefixes)
    if kind in _LINKS:
        device = device_of(data)
        name = attributes_of(data, 32, _IFLA).get(_IFLA_IFNAME, b"").partition(b"\0")[0].decode(errors="replace")
        return any(concern.has_device(device, name) for concern in concerns)
    if kind in _SETTINGS:
        device = int.from_bytes(attributes_of(data, 20)[_NETCONFA_IFINDEX], byteorder, signed=True)
        return any(concern.has_device(device) for concern in concerns)
    return True


class _Listener:
    """The socket of one source. If it cannot be opened, `error` is the reason and `again` the next attempt."""

    def __init__(self, source: Source, make: Callable[[Source], socket.socket]) -> None:
        """Begin to listen."""
        self._open = partial(make, source)
        self.socket: socket.socket | None = None
        self.error: BackendError | None = None
        self.again = 0.0
        self.open()

    def open(self) -> None:
        """Open a socket and read from it once: one that can never be read does not count as open."""
        try:
            made = self._open()
        except BackendError as error:
            self._fail(error)
            return
        made.settimeout(0)
        self.socket, self.error = made, None
        self.drain()

    def drain(self, concerns: Collection[Concern] | None = None) -> bool:
        """Read all waiting reports; return whether one matters to one of these answers.

        A burst may have overflowed the buffer. A socket that fails is closed. Both matter.
        """
        heard = False
        while self.socket is not None:
            try:
                data = self.socket.recv(1 if heard or concerns is None else _ROOM)
                heard = heard or _matters(data, concerns)
            except BlockingIOError:
                return heard
            except OSError as error:
                heard = True
                if error.errno != errno.ENOBUFS:
                    self._fail(as_backend_error(error))
        return True

    def close(self) -> None:
        """Close the socket."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def _fail(self, error: BackendError) -> None:
        self.close()
        self.error = error
        self.again = time.monotonic() + _AGAIN


class NetlinkWatch:
    """A watch with a socket for each source, so that a full buffer of one does not affect the others."""

    def __init__(self, make: Callable[[Source], socket.socket]) -> None:
        """Begin to listen to routes; `make` opens the socket of a source, which has joined the groups.

        Raises BackendError if that cannot be opened now.
        """
        self._make = make
        self._closed = False
        # Whether something may have been missed; then the next wait returns at once.
        self._missed = False
        self._concerns: Collection[Concern] | None = None
        # Held while the ends of the pipe are used or changed; reentrant, because a signal handler may run in the same
        # thread.
        self._lock = threading.RLock()
        self._open(["routes"])
        if error := self._listeners["routes"].error:
            self.close()
            raise error

    def _open(self, sources: Iterable[Source]) -> None:
        # A pipe, so that wake() can be called before, during and between waits.
        try:
            wakened, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise why_not_opened(error) from error
        self._wakened, self._waker = FileIO(wakened), FileIO(waker, "w")
        self._pid = os.getpid()
        self._listeners = {source: _Listener(source, self._make) for source in sources}

    def _reopen_after_fork(self) -> None:
        """Open new sockets in a forked child: the parent reads the old ones, and changes may have been missed."""
        if self._pid != os.getpid():
            with self._lock:
                self._release()
                self._open(tuple(self._listeners))
                self._missed = True

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why the watch cannot listen to everything now."""
        errors = ((source, listener.error) for source, listener in self._listeners.items())
        return tuple(cannot_listen(source, error) for source, error in errors if error is not None)

    def heed(self, concerns: Collection[Concern] | None) -> None:
        """Report only what matters to one of these answers, or everything."""
        self._concerns = concerns

    def listen(self, *, nftables: bool) -> None:
        """Listen to nftables too, or no longer."""
        self._usable()
        self._reopen_after_fork()
        if not nftables and "nftables" in self._listeners:
            self._listeners.pop("nftables").close()
        elif nftables and "nftables" not in self._listeners:
            self._listeners["nftables"] = _Listener("nftables", self._make)

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:  # noqa: ARG002  it uses the machine's clock
        """Wait for a change since the last wait: True; False after `timeout` seconds or wake()."""
        self._usable()
        self._reopen_after_fork()
        deadline = time.monotonic() + timeout
        while True:
            self._reopen_if_failed()
            ready = self._ready(deadline)
            if self._wakened.fileno() in ready:
                self._drain_wakes()
                return False
            heard = [
                (source, listener)
                for source, listener in self._listeners.items()
                if listener.socket is not None and listener.socket.fileno() in ready
            ]
            # All of them are read.
            told = [listener.drain(self._concerns if source == "routes" else None) for source, listener in heard]
            if any(told) or self._missed:
                self._missed = False
                return True
            if time.monotonic() >= deadline:
                return False
            if heard:
                self._rest(deadline)

    def _reopen_if_failed(self) -> None:
        for listener in self._listeners.values():
            if listener.socket is None and listener.again <= time.monotonic():
                listener.open()
                self._missed |= listener.socket is not None

    def _ready(self, deadline: float) -> Collection[int]:
        """The readable descriptors, after waiting until the deadline or the next attempt to open."""
        poll, until = select.poll(), deadline
        poll.register(self._wakened, select.POLLIN)
        for listener in self._listeners.values():
            if listener.socket is None:
                until = min(until, listener.again)
            else:
                poll.register(listener.socket, select.POLLIN)
        left = 0.0 if self._missed else min(max(until - time.monotonic(), 0.0), _LONGEST)
        return dict(poll.poll(left * 1000))

    def _rest(self, deadline: float) -> None:
        """Wait for more messages before the next reading; wake() ends that."""
        poll = select.poll()
        poll.register(self._wakened, select.POLLIN)
        poll.poll(min(_REST, max(deadline - time.monotonic(), 0.0)) * 1000)

    def wake(self) -> None:
        """End the present or the next wait, from any thread."""
        with self._lock:
            if not self._closed:
                self._reopen_after_fork()
                self._waker.write(b"\0")  # a full pipe (65,536 wakes) ignores it

    def close(self) -> None:
        """Stop listening. May be called twice."""
        with self._lock:
            self._closed = True
            self._release()

    def _release(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        for end in (self._wakened, self._waker):
            end.close()

    def _usable(self) -> None:
        if self._closed:
            raise BackendError("this watch was closed", kind="unusable")

    def _drain_wakes(self) -> None:
        while self._wakened.read(1 << 12):
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
