"""Events of nftables: the kernel tells on a socket that something was changed, by whatever program.

Here: hearing that there was a change. Not here: what it was, for which the tables are read again. It is one function,
which a test replaces.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from hostrouting.errors import NftNotPermitted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = ["Hearing", "hearing_nftables", "open_events"]

_NETLINK_NETFILTER = 12
_GROUP_NFTABLES = 7
_ROOM = 1 << 16
_AGAIN = 1.0  # seconds until a socket that failed is opened again


class Hearing(Protocol):
    """Calls a function after changes of the host's nftables, from any thread, while a block runs."""

    def __call__(self, heard: Callable[[], object], /) -> AbstractContextManager[None]:
        """The block. One call may stand for many changes, and there may be one without a change."""
        ...


def open_events() -> socket.socket:
    """A socket that gets all events of nftables in the network namespace of this thread."""
    found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
    try:
        found.bind((0, 1 << _GROUP_NFTABLES - 1))
    except OSError:
        found.close()
        raise
    return found


@contextmanager
def hearing_nftables(
    heard: Callable[[], object], *, open_socket: Callable[[], socket.socket] = open_events
) -> Iterator[None]:
    """See Hearing. Raises NftNotPermitted if the process may not listen. A socket that fails is opened again."""
    try:
        first = open_socket()
    except PermissionError as error:
        raise NftNotPermitted("this process may not listen to nftables; run it as root") from error
    reader, writer = os.pipe2(os.O_CLOEXEC)

    def listen() -> None:
        source: socket.socket | None = first
        while source is not None:
            with closing(source):
                while reader not in _ready(source.fileno(), reader) and _drain(source):
                    heard()
            source = _opened_again(open_socket, reader)
            if source is not None:
                heard()

    thread = threading.Thread(target=listen, name="nftables events", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.write(writer, b"\0")
        thread.join()
        os.close(reader)
        os.close(writer)


def _ready(*numbers: int, seconds: float | None = None) -> list[int]:
    """Those of these descriptors that can be read, after waiting for one of them."""
    poll = select.poll()
    for number in numbers:
        poll.register(number, select.POLLIN)
    return [number for number, _ in poll.poll(None if seconds is None else seconds * 1000)]


def _drain(source: socket.socket) -> bool:
    """Read everything that has come. What did not fit into the buffer counts as heard. False if the socket failed."""
    source.settimeout(0)
    while True:
        try:
            source.recv(_ROOM)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                return False


def _opened_again(open_socket: Callable[[], socket.socket], reader: int) -> socket.socket | None:
    """A new socket, as soon as one can be opened; None if the block ends before that."""
    while not _ready(reader, seconds=_AGAIN):
        with suppress(OSError):
            return open_socket()
    return None
