"""The socket: requests out, replies in, all within the timeout. Bytes only; the modules above interpret them.

asyncio is not used, so it can be called in any thread and inside any event loop. After a fork the child opens a socket
of its own, because two processes on one socket would read each other's replies.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from array import array
from typing import TYPE_CHECKING

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.messages import (
    HEADER,
    ROOM_BEHIND,
    Interrupted,
    KernelError,
    Listing,
    Lost,
    place_messages,
    read_error,
)
from hostrouting.backends.netlink.sockets import as_backend_error
from hostrouting.errors import BackendTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Channel"]

# The kernel sends a list in parts of up to 32 KiB if the reader's buffer has room for them.
_ROOM = 1 << 16
# More messages at a time gain nothing. An answer occupies some 1,300 bytes of the buffer, with its bookkeeping.
_MESSAGES, _ANSWER = 128, 2048
# The send buffer bounds what the kernel accepts in one call; larger calls than this gain nothing.
_PIECE = 1 << 16
_FLAGS, _FLAGS_AT = struct.Struct("=H"), 6


class Channel:
    """One connection to the kernel. It is opened on first use, and opened again after a fork."""

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
        """Close the socket; the next use opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def strict(self) -> bool:
        """Whether this kernel filters lists as requested (Linux 4.20 and later)."""
        try:
            return bool(self.open().getsockopt(n.SOL_NETLINK, n.NETLINK_GET_STRICT_CHK))
        except OSError:
            return False

    @property
    def capacity(self) -> int:
        """How many messages may be answered at once: their answers must fit into the receive buffer."""
        room: int = self.open().getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        return max(1, min(_MESSAGES, room // _ANSWER))

    def begin(self) -> None:
        """Start the timeout."""
        self._deadline = time.monotonic() + self.timeout

    def _left(self) -> float:
        """The remaining seconds; if there are none, close the socket and raise BackendTimeout."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            # A late answer would be taken for the answer to another request.
            self.close()
            raise BackendTimeout(f"the kernel did not finish the request within {self.timeout:g} s")
        return left

    def number(self, count: int = 1) -> int:
        """The first of `count` unused sequence numbers."""
        first = self._sequence + 1
        if first + count > 0x7FFFFFFF:
            first = 1
        self._sequence = first + count - 1
        return first

    def send(self, data: bytes) -> None:
        """Send messages to the kernel. It has processed them when this returns; its answers wait in the buffer."""
        self._left()
        try:
            self.open().send(data)
        except OSError as error:
            raise as_backend_error(error) from error

    def receive(self, *, wait: bool = True) -> bytes:
        """Answers; b"" if there are none and `wait` is false."""
        opened = self.open()
        while True:
            left = self._left()
            try:
                # Usually an answer is there already: then this takes one system call, not two.
                data = opened.recv(_ROOM, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if not wait:
                    return b""
                poll = select.poll()
                poll.register(opened, select.POLLIN)
                poll.poll(left * 1000)
            except OSError as error:
                raise _not_received(error) from error
            else:
                return data

    def ask(self, request: Callable[[int], bytes]) -> bytes:
        """The single reply to a request; KernelError if the reply is an error."""
        number = self.number()
        self.send(request(number))
        while True:
            try:
                data = self.receive()
            except Lost:
                self.send(request(number))  # the reply may have been among the lost ones
                continue
            _, kind, _, sequence, _ = HEADER.unpack_from(data)
            if sequence == number:
                if kind == n.NLMSG_ERROR:
                    raise read_error(data, 0)
                return data

    def submit(self, messages: list[bytes], first: int, errors: dict[int, KernelError]) -> bool:
        """Send consecutively numbered messages that change something; True if answers may have been lost.

        Errors are stored under their message's number. Only the last message asks for an acknowledgement: the kernel
        answers each of the others only if it refuses it, so that the answers fit into the buffer.
        """
        if self._too_large(messages):
            half = len(messages) // 2
            lost = self.submit(messages[:half], first, errors)
            return self.submit(messages[half:], first + half, errors) or lost
        last = first + len(messages) - 1
        (flags,) = _FLAGS.unpack_from(messages[-1], _FLAGS_AT)
        acknowledged = _FLAGS.pack(flags | n.NLM_F_ACK)
        messages[-1] = messages[-1][:_FLAGS_AT] + acknowledged + messages[-1][_FLAGS_AT + _FLAGS.size :]
        self.send(b"".join(messages))
        lost = False
        while True:
            try:
                # All answers were there when send returned, so after a loss there is nothing to wait for.
                data = self.receive(wait=not lost)
            except Lost:
                lost = True
                continue
            if not data:
                return True
            _, kind, _, number, _ = HEADER.unpack_from(data)
            if kind == n.NLMSG_ERROR and first <= number <= last:
                if (refused := read_error(data, 0)).number:
                    errors[number] = refused
                if number == last and not lost:
                    return False

    def inquire(self, messages: list[bytes], first: int) -> list[tuple[int, bytes]]:
        """Send consecutively numbered requests; return the replies that came, by number. Lost ones are missing."""
        if self._too_large(messages):
            half = len(messages) // 2
            return self.inquire(messages[:half], first) + self.inquire(messages[half:], first + half)
        self.send(b"".join(messages))
        answers: list[tuple[int, bytes]] = []
        last, lost = first + len(messages) - 1, False
        while (wanting := len(messages) - len(answers)) > 0:
            came: list[bytes] = []
            try:
                self._take(came, wanting)
                # All answers were there when send returned, so after a loss there is nothing to wait for.
                if not came:
                    came = [self.receive(wait=not lost)]
            except Lost:
                lost = True
            for data in came:
                if not data:
                    return answers
                _, _, _, number, _ = HEADER.unpack_from(data)
                if first <= number <= last:
                    answers.append((number, data))
        return answers

    def _take(self, came: list[bytes], most: int) -> None:
        """Take at most this many of the waiting answers; those received before an error are kept."""
        self._left()
        receive = self.open().recv
        try:
            for _ in range(most):
                came.append(receive(_ROOM, socket.MSG_DONTWAIT))  # noqa: PERF401  each is kept if the next fails
        except BlockingIOError:
            return
        except OSError as error:
            raise _not_received(error) from error

    def _too_large(self, messages: list[bytes]) -> bool:
        """Whether they must be sent in several calls."""
        if len(messages) < 2:
            return False
        room: int = self.open().getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        return len(messages) * max(map(len, messages)) > min(_PIECE, room // 2)

    def listing(self, request: Callable[[int], bytes]) -> Listing:
        """The kernel's complete list of something; `request` creates the message for a sequence number."""
        number = self.number()
        chunks: list[bytes] = []
        offsets: array[int] = array("I")
        base, done = 0, False
        try:
            self.send(request(number))
            while not done:
                data = self.receive()
                if HEADER.unpack_from(data)[3] != number:
                    continue  # a late answer to an earlier request
                end = len(data)
                data += bytes(ROOM_BEHIND)  # padding, so that the fixed fields of a short message can be read
                done = place_messages(data, end, base, offsets)
                chunks.append(data)
                base += len(data)
        except KernelError:
            raise  # an error ends the list
        except BaseException as error:
            # A socket can carry one list at a time, and this list may not have ended.
            self.close()
            if isinstance(error, Lost):
                raise Interrupted from None
            raise
        chunks.append(bytes(ROOM_BEHIND))
        return Listing(b"".join(chunks), offsets)


def _not_received(error: OSError) -> Exception:
    """The error when receiving fails: answers were lost, or the socket failed."""
    return Lost() if error.errno == errno.ENOBUFS else as_backend_error(error)
