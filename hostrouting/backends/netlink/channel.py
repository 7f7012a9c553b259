"""The socket: questions out, answers in, each with a time-out. Bytes only; what they mean is known above.

Nothing of asyncio is used, so it makes no difference in which thread, or beside which loop, it is called. After a
fork the child makes a socket of its own, because two processes on one socket would read each other's answers.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.backends.netlink import numbers as n
from hostrouting.errors import BackendError, BackendTimeout, NetlinkUnavailable, NotPermitted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Channel", "Interrupted", "KernelError", "Listing", "Lost", "open_socket", "read_error"]

# A listing comes in pieces of up to 32 KiB if the reader has room for such.
_ROOM = 1 << 16
# Asked for; what an unprivileged process gets is limited by net.core.rmem_max.
_BUFFER = 1 << 22
_SO_RCVBUFFORCE = 33
# More messages at a time would gain nothing; an answer takes some 1,300 bytes of the buffer, its bookkeeping included.
_MESSAGES, _ANSWER = 128, 2048

_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_FLAGS, _FLAGS_AT = struct.Struct("=H"), 6
_INT, _LENGTH = struct.Struct("=i"), struct.Struct("=I")
# Length, kind, flags, and for a route its flags, which stand last in struct rtmsg.
_OUTLINE = struct.Struct("=IHH16xI")
_ATTRIBUTE = struct.Struct("=HH")


class KernelError(Exception):
    """The kernel's answer is an error: its number, and its own words. Never leaves this package."""

    def __init__(self, number: int, words: str = "") -> None:
        """Keep both; where the kernel says no more than the number, its name."""
        self.number = number
        self.explained = bool(words)
        self.words = words or os.strerror(number)
        super().__init__(number, self.words)


class Interrupted(Exception):  # noqa: N818  reads as what happened
    """A change came in between while the kernel was listing. Never leaves this package."""


class Lost(Exception):  # noqa: N818  reads as what happened
    """The receive buffer was full and answers were dropped. Never leaves this package."""


class Listing:
    """The messages of a dump: all of the bytes, and where each message begins."""

    __slots__ = ("data", "offsets")

    def __init__(self, data: bytes, offsets: array[int]) -> None:
        """Keep them; after the last message there is room to read beyond it."""
        self.data, self.offsets = data, offsets

    def __iter__(self) -> Iterator[bytes]:
        """Each message."""
        for offset in self.offsets:
            (length,) = struct.unpack_from("=I", self.data, offset)
            yield self.data[offset : offset + length]


def open_socket(groups: int = 0, *, buffer: int = _BUFFER) -> socket.socket:
    """A netlink socket for routing, which hears the groups, in the namespace of the calling thread."""
    try:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    except AttributeError as error:
        raise NetlinkUnavailable("there is no netlink here: it takes Linux to read or change its routing") from error
    except OSError as error:
        raise NetlinkUnavailable(
            "netlink cannot be used here: a sandbox or a kernel without it keeps this process from routing",
            errno=error.errno,
            kernel=error.strerror or "",
        ) from error
    try:
        try:
            made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer)
        except PermissionError:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        # Which of them an old kernel lacks makes a difference for words and speed only.
        for option in (n.NETLINK_EXT_ACK, n.NETLINK_CAP_ACK, n.NETLINK_GET_STRICT_CHK):
            with suppress(OSError):
                made.setsockopt(n.SOL_NETLINK, option, 1)
        made.bind((0, groups))
    except BaseException:
        made.close()
        raise
    return made


class Channel:
    """One conversation with the kernel. It is opened when it is first used, and after a fork, anew."""

    def __init__(self, make: Callable[[], socket.socket], timeout: float) -> None:
        """Open nothing yet."""
        self._make = make
        self.timeout = timeout
        self._socket: socket.socket | None = None
        self._pid = 0
        self._sequence = 0
        self._deadline = 0.0

    def open(self) -> socket.socket:
        """The socket of this process."""
        if self._pid != os.getpid():
            self.close()
        if self._socket is None:
            self._socket, self._pid = self._make(), os.getpid()
        return self._socket

    def close(self) -> None:
        """Let go of it; the next use opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def strict(self) -> bool:
        """Whether this kernel heeds what a listing is to be restricted to (Linux 4.20)."""
        try:
            return bool(self.open().getsockopt(n.SOL_NETLINK, n.NETLINK_GET_STRICT_CHK))
        except OSError:
            return False

    @property
    def capacity(self) -> int:
        """How many messages may be answered at once: their answers have to fit into the receive buffer."""
        room: int = self.open().getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        return max(1, min(_MESSAGES, room // _ANSWER))

    def begin(self) -> None:
        """From now on the time-out runs."""
        self._deadline = time.monotonic() + self.timeout

    def number(self, count: int = 1) -> int:
        """The first of so many sequence numbers that nobody has used."""
        first = self._sequence + 1
        if first + count > 0x7FFFFFFF:
            first = 1
        self._sequence = first + count - 1
        return first

    def send(self, data: bytes) -> None:
        """Hand messages to the kernel, which has dealt with them when this returns; its answers wait."""
        try:
            self.open().send(data)
        except OSError as error:
            raise _as_backend_error(error) from error

    def receive(self, *, wait: bool = True) -> bytes:
        """Answers; b"" when none are there and it is not to wait."""
        opened = self.open()
        while True:
            try:
                # Most answers are there already: one system call, not two.
                data = opened.recv(_ROOM, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if not wait:
                    return b""
                self._await_answer(opened)
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    raise Lost from error
                raise _as_backend_error(error) from error
            else:
                return data

    def _await_answer(self, opened: socket.socket) -> None:
        poll = select.poll()
        poll.register(opened, select.POLLIN)
        if not poll.poll(max(self._deadline - time.monotonic(), 0.0) * 1000):
            # What may still come would be taken for the answer to another question.
            self.close()
            raise BackendTimeout(f"the kernel did not answer within {self.timeout:g} s")

    def ask(self, request: Callable[[int], bytes]) -> bytes:
        """The one message that answers a question; KernelError when the answer is an error."""
        number = self.number()
        self.send(request(number))
        while True:
            data = self.receive()
            _, kind, _, sequence, _ = _HEADER.unpack_from(data)
            if sequence == number:
                if kind == n.NLMSG_ERROR:
                    raise read_error(data, 0)
                return data

    def submit(self, messages: list[bytes], first: int, errors: dict[int, KernelError]) -> bool:
        """Hand over consecutively numbered messages that change something; True if answers may have been lost.

        Errors are filed under their message's number. Only the last message is to be acknowledged: the kernel
        answers each of the others only when it refuses it, so that the answers have room.
        """
        last = first + len(messages) - 1
        (flags,) = _FLAGS.unpack_from(messages[-1], _FLAGS_AT)
        acknowledged = _FLAGS.pack(flags | n.NLM_F_ACK)
        messages[-1] = messages[-1][:_FLAGS_AT] + acknowledged + messages[-1][_FLAGS_AT + _FLAGS.size :]
        self.send(b"".join(messages))
        lost = False
        while True:
            try:
                # All answers were there when send returned: after a loss there is nothing to wait for.
                data = self.receive(wait=not lost)
            except Lost:
                lost = True
                continue
            if not data:
                return True
            _, kind, _, number, _ = _HEADER.unpack_from(data)
            if kind == n.NLMSG_ERROR and first <= number <= last:
                if (refused := read_error(data, 0)).number:
                    errors[number] = refused
                if number == last and not lost:
                    return False

    def inquire(self, messages: list[bytes], first: int) -> Iterator[tuple[int, bytes]]:
        """Hand over consecutively numbered questions; the answers that come, by number. Lost ones are missing."""
        self.send(b"".join(messages))
        wanting, last, lost = len(messages), first + len(messages) - 1, False
        while wanting:
            try:
                data = self.receive(wait=not lost)
            except Lost:
                lost = True
                continue
            if not data:
                return
            _, _, _, number, _ = _HEADER.unpack_from(data)
            if first <= number <= last:
                wanting -= 1
                yield number, data

    def listing(self, request: Callable[[int], bytes]) -> Listing:
        """The kernel's whole list of something; `request` makes the message, given its sequence number."""
        number = self.number()
        self.send(request(number))
        chunks: list[bytes] = []
        offsets: array[int] = array("I")
        base, done = 0, False
        try:
            while not done:
                data = self.receive()
                if _HEADER.unpack_from(data)[3] != number:
                    continue  # an answer to what was asked before and not waited for
                end = len(data)
                data += bytes(_OUTLINE.size)  # so that the outline of a short message can be read as well
                done = _place(data, end, base, offsets)
                chunks.append(data)
                base += len(data)
        except (Interrupted, Lost):
            self.close()  # only one listing can be under way on a socket, and this one is not at its end
            raise Interrupted from None
        chunks.append(bytes(_OUTLINE.size * 2))
        return Listing(b"".join(chunks), offsets)


def _place(data: bytes, end: int, base: int, offsets: array[int]) -> bool:
    """File where each message begins; whether the list is at its end."""
    unpack, place, offset = _OUTLINE.unpack_from, offsets.append, 0
    while offset < end:
        length, kind, flags, route_flags = unpack(data, offset)
        if flags & n.NLM_F_DUMP_INTR:
            raise Interrupted
        if kind <= n.NLMSG_DONE:
            _check(data, offset, kind)
            return True
        if not route_flags & n.RTM_F_CLONED or kind != n.RTM_NEWROUTE:
            place(base + offset)
        offset += (length + 3) & ~3
    return False


def _check(data: bytes, offset: int, kind: int) -> None:
    if kind == n.NLMSG_ERROR:
        raise read_error(data, offset)
    if kind == n.NLMSG_DONE and (number := -_INT.unpack_from(data, offset + 16)[0]) > 0:
        raise KernelError(number)


def read_error(data: bytes, offset: int) -> KernelError:
    """The error of the message at the offset (0 is the kernel's "done")."""
    length, _, flags, _, _ = _HEADER.unpack_from(data, offset)
    (code,) = _INT.unpack_from(data, offset + 16)
    words = ""
    if flags & n.NLM_F_ACK_TLVS:
        # struct nlmsgerr: the number, and what was refused; of that the header alone where CAP_ACK is heeded.
        (refused,) = _LENGTH.unpack_from(data, offset + 20)
        at = offset + 20 + (_HEADER.size if flags & n.NLM_F_CAPPED else (refused + 3) & ~3)
        end = offset + length
        while at + 4 <= end:
            size, kind = _ATTRIBUTE.unpack_from(data, at)
            if kind == n.NLMSGERR_ATTR_MSG:
                words = data[at + 4 : at + size].rstrip(b"\0").decode(errors="replace")
            at += max((size + 3) & ~3, 4)
    return KernelError(-code, words)


def _as_backend_error(error: OSError) -> BackendError:
    words = error.strerror or str(error)
    if isinstance(error, PermissionError):
        return NotPermitted("this process may not speak netlink", errno=error.errno, kernel=words)
    return BackendError("netlink failed", errno=error.errno, kernel=words)
