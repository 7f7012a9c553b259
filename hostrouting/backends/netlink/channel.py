"""The socket: questions out, answers in, all within the time-out. Bytes only; what they mean is known above.

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

# A listing comes in pieces of up to 32 KiB if the reader has room for such.
_ROOM = 1 << 16
# More messages at a time would gain nothing; an answer takes some 1,300 bytes of the buffer, its bookkeeping included.
_MESSAGES, _ANSWER = 128, 2048
# What the kernel takes in one piece is bounded by the send buffer; larger pieces than this gain nothing.
_PIECE = 1 << 16
_FLAGS, _FLAGS_AT = struct.Struct("=H"), 6


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

    def _left(self) -> float:
        """The seconds that are left; when there are none, the conversation ends here."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            # What may still come would be taken for the answer to another question.
            self.close()
            raise BackendTimeout(f"the kernel was not done with what it was asked within {self.timeout:g} s")
        return left

    def number(self, count: int = 1) -> int:
        """The first of so many sequence numbers that nobody has used."""
        first = self._sequence + 1
        if first + count > 0x7FFFFFFF:
            first = 1
        self._sequence = first + count - 1
        return first

    def send(self, data: bytes) -> None:
        """Hand messages to the kernel, which has dealt with them when this returns; its answers wait."""
        self._left()
        try:
            self.open().send(data)
        except OSError as error:
            raise as_backend_error(error) from error

    def receive(self, *, wait: bool = True) -> bytes:
        """Answers; b"" when none are there and it is not to wait."""
        opened = self.open()
        while True:
            left = self._left()
            try:
                # Most answers are there already: one system call, not two.
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
        """The one message that answers a question; KernelError when the answer is an error."""
        number = self.number()
        self.send(request(number))
        while True:
            try:
                data = self.receive()
            except Lost:
                self.send(request(number))  # the answer may have been among what was lost
                continue
            _, kind, _, sequence, _ = HEADER.unpack_from(data)
            if sequence == number:
                if kind == n.NLMSG_ERROR:
                    raise read_error(data, 0)
                return data

    def submit(self, messages: list[bytes], first: int, errors: dict[int, KernelError]) -> bool:
        """Hand over consecutively numbered messages that change something; True if answers may have been lost.

        Errors are filed under their message's number. Only the last message is to be acknowledged: the kernel
        answers each of the others only when it refuses it, so that the answers have room.
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
                # All answers were there when send returned: after a loss there is nothing to wait for.
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
        """Hand over consecutively numbered questions; the answers that came, by number. Lost ones are missing."""
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
                # All answers were there when send returned: after a loss there is nothing to wait for.
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
        """So many answers at most of those that are there; what came before an error is kept."""
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
        """Whether they are sent in more than one piece."""
        if len(messages) < 2:
            return False
        room: int = self.open().getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        return len(messages) * max(map(len, messages)) > min(_PIECE, room // 2)

    def listing(self, request: Callable[[int], bytes]) -> Listing:
        """The kernel's whole list of something; `request` makes the message, given its sequence number."""
        number = self.number()
        chunks: list[bytes] = []
        offsets: array[int] = array("I")
        base, done = 0, False
        try:
            self.send(request(number))
            while not done:
                data = self.receive()
                if HEADER.unpack_from(data)[3] != number:
                    continue  # an answer to what was asked before and not waited for
                end = len(data)
                data += bytes(ROOM_BEHIND)  # so that the outline of a short message can be read as well
                done = place_messages(data, end, base, offsets)
                chunks.append(data)
                base += len(data)
        except KernelError:
            raise  # with it the listing is at its end
        except BaseException as error:
            # Only one listing can be under way on a socket, and this one, whatever ended it, may not be at its end.
            self.close()
            if isinstance(error, Lost):
                raise Interrupted from None
            raise
        chunks.append(bytes(ROOM_BEHIND))
        return Listing(b"".join(chunks), offsets)


def _not_received(error: OSError) -> Exception:
    """What it means that no answer can be received: answers were lost, or the socket does not do its work."""
    return Lost() if error.errno == errno.ENOBUFS else as_backend_error(error)
