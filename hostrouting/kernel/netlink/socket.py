"""A conversation with the kernel over netlink: messages, the socket that carries them, its errors.

A message is a header, a fixed part and attributes; several messages stand back to back. The codec
is our own because to load pyroute2 takes a tenth of a second, which is more than a whole check, and
to decode a device with it takes 140 µs.

The kernel processes a request while it is being sent, so afterwards the answers are in the receive
buffer. Only so many requests are sent at once that their answers fit into a buffer of the default
size. Of several changes, only the last asks for an acknowledgement; the kernel answers the others
only if it refuses them.

A conversation is a request and its answers. There is one at a time, and after one that fails the
socket is not used again. A process with CAP_NET_ADMIN can send messages to the groups that a socket
has joined, too: only those of the kernel count as answers and as reports.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from hostrouting.errors import BackendError

# The structures and numbers of the kernel's header linux/netlink.h, by their names there.

HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence number, port
ATTRIBUTE = struct.Struct("=HH")  # struct nlattr: length with this header, number
NUMBER_ATTRIBUTE = struct.Struct("=HHI")  # struct nlattr, and its value
_ERROR = struct.Struct("=i")  # the beginning of struct nlmsgerr: an errno below zero, or 0

_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP_INTR = 0x10
NLM_F_DUMP = 0x300
_NLMSGERR_ATTR_MSG = 1
_NLA_TYPE_MASK = 0x3FFF  # without the flags for nesting and byte order

_KERNEL = 0  # its port
_SOL_NETLINK = 270
_NETLINK_CAP_ACK = 10
_NETLINK_EXT_ACK = 11
_NETLINK_GET_STRICT_CHK = 12
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33

# Sizes.

# To receive lists and bursts of reports; without privilege, the host's limit is used. And to send
# requests, of which only changes are long, and these need privilege.
_BUFFER = 1 << 22
_LONGEST_PART = 1 << 16  # the kernel sends a list in parts of up to 32 KiB
_CHANGES_AT_ONCE = 128  # one takes up to 64 KiB, and the error that answers it up to 1 KiB
_QUESTIONS_AT_ONCE = 32  # an answer takes up to 5 KiB
# More reports than fit into the buffer. Who sends faster than they are read does not hold us up.
_READS_AT_ONCE = 1 << 14

_TIMEOUT = struct.pack("=qq", 30, 0)  # struct timeval: how long an answer may take

_NEEDS_NEWER = ("unavailable", "hostrouting needs Linux 5.14 or newer")
_EXPLANATIONS: dict[int, tuple[str, str]] = {
    errno.EPERM: ("not-permitted", "run this as root, or with the capability CAP_NET_ADMIN"),
    errno.EACCES: ("not-permitted", "a sandbox may forbid it"),
    errno.EAGAIN: ("timeout", "the kernel did not answer in time"),
    errno.ENOBUFS: ("unsettled", "answers were lost"),
    errno.EINTR: ("unsettled", "the tables kept changing"),
    errno.EMSGSIZE: ("failed", "a route has more next hops than fit into an answer"),
    errno.EAFNOSUPPORT: _NEEDS_NEWER,
    errno.EPROTONOSUPPORT: _NEEDS_NEWER,
    errno.ENOPROTOOPT: _NEEDS_NEWER,
}
"""By errno: the kind of the BackendError, and what the number means here."""


# Errors.


class KernelError(Exception):
    """The kernel answered with an error."""

    def __init__(self, number: int, words: str = "") -> None:
        """`number` is an errno, and `words` the kernel's explanation; empty if it gave none."""
        self.number = number
        self.words = words
        super().__init__(number, words or os.strerror(number))


@contextmanager
def kernel_errors(attempt: str) -> Iterator[None]:
    """Turn a KernelError or OSError that leaves the block into a BackendError. Its text is
    "cannot", the attempt, such as "change routes", and the reason if it is known.
    """
    try:
        yield
    except KernelError as error:
        raise _backend_error(attempt, error.number, error.words) from error
    except OSError as error:
        raise _backend_error(attempt, error.errno or errno.EIO) from error


def _backend_error(attempt: str, number: int, words: str = "") -> BackendError:
    """Make the error for an attempt, such as "change routes", that failed with the errno `number`.
    `words` are the kernel's own; without any, the error has the usual words for this errno.
    """
    kind, reason = _EXPLANATIONS.get(number, ("failed", ""))
    message = f"cannot {attempt}"
    if reason:
        message += f": {reason}"
    return BackendError(message, kind=kind, errno=number, kernel=words or os.strerror(number))


# Messages and their attributes.


def aligned(length: int) -> int:
    """The length with padding: messages, attributes and next hops begin at a multiple of four."""
    return (length + 3) & ~3


def attributes_of(data: bytes, at: int = 0) -> dict[int, bytes]:
    """Split the attributes in `data`, from the offset `at` to the end: the bytes of each value by
    the number of the attribute. If the last bytes are too few for an attribute, they are ignored.
    """
    attributes: dict[int, bytes] = {}
    unpack = ATTRIBUTE.unpack_from
    header_size = ATTRIBUTE.size
    last_start = len(data) - header_size
    while at <= last_start:
        length, number = unpack(data, at)
        number &= _NLA_TYPE_MASK  # without its flags
        attributes[number] = data[at + header_size : at + length]
        # This is `aligned`, inlined for speed. A faulty length of 0 must not make an endless loop.
        at += ((length + 3) & ~3) or header_size
    return attributes


def attribute(number: int, value: bytes) -> bytes:
    """An attribute, padded with zeros; struct.error if the value is too large."""
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(value), number) + value + bytes(-len(value) % 4)


def number_attribute(number: int, value: int) -> bytes:
    """An attribute whose value is a number of 32 bits; struct.error if it is too large."""
    return NUMBER_ATTRIBUTE.pack(NUMBER_ATTRIBUTE.size, number, value)


def message(type_: int, flags: int, body: bytes, sequence: int = 0) -> bytes:
    """Pack a request to the kernel; the answers have the same sequence number. `type_` says what
    is asked, and `body` has the details: a fixed part and attributes.
    """
    # The last field, the sender's port, may be 0: Linux knows it by the socket.
    header = HEADER.pack(HEADER.size + len(body), type_, _NLM_F_REQUEST | flags, sequence, 0)
    return header + body


def _sequence_of(message: bytes) -> int:
    sequence: int = HEADER.unpack_from(message)[3]
    return sequence


def error_of(data: bytes, at: int = 0) -> KernelError:
    """Read how a request has ended, from the message at this offset: an acknowledgement, or the
    message that ends a list. An error with the number 0 means success.
    """
    length, type_, _, _, _ = HEADER.unpack_from(data, at)
    (negative_errno,) = _ERROR.unpack_from(data, at + HEADER.size)
    attributes_at = at + HEADER.size + _ERROR.size
    if type_ == _NLMSG_ERROR:
        # An acknowledgement repeats the request here, of which NETLINK_CAP_ACK leaves the header.
        attributes_at += HEADER.size
    attributes = attributes_of(data[attributes_at : at + length])
    words = attributes.get(_NLMSGERR_ATTR_MSG, b"").rstrip(b"\0")
    return KernelError(-negative_errno, words.decode())


# The socket.


class Netlink:
    """A socket to the kernel, in the network namespace of the thread that opens it.

    A socket that has joined `groups` also receives reports of changes.
    """

    def __init__(self, *, groups: int = 0) -> None:
        """Open the socket; OSError if that is not possible. It receives the reports of the kernel's
        multicast groups in the bit mask `groups`.
        """
        self.list_has_changed = False
        """Whether a list changed while the kernel sent it (NLM_F_DUMP_INTR), so that an entry may
        be missing, or be there twice. The caller sets it to false before it asks for lists.
        """
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC)
        set_option = self._socket.setsockopt
        set_option(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        with suppress(OSError):  # a buffer above the host's limit needs privilege
            set_option(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
            set_option(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER)
        # Short acknowledgements, errors with the kernel's words, and strictly checked requests.
        for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK):
            set_option(_SOL_NETLINK, option, 1)
        # With this time-out, an answer takes one system call; with Python's own, it takes two.
        set_option(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT)
        self._socket.bind((0, groups))
        # Linux refuses what other processes send to the port of a connected socket.
        self._socket.connect((_KERNEL, 0))

    def close(self) -> None:
        """Close the socket; may be called twice."""
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor, to wait for reports."""
        return self._socket.fileno()

    def take_reports(self) -> bool:
        """Discard the reports of changes that have come since the last call, without waiting.
        Return whether there were any. Reports that were lost, because there were too many, count,
        too, but messages of other processes do not.
        """
        has_reports = False
        for _ in range(_READS_AT_ONCE):  # bounded, because others may send faster than this reads
            try:
                # Netlink discards what does not fit, here all but the first byte.
                _, (sender, _) = self._socket.recvfrom(1, socket.MSG_DONTWAIT)
            except BlockingIOError:  # there are no more
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                sender = _KERNEL  # reports of the kernel were lost
            if sender == _KERNEL:
                has_reports = True
        return has_reports

    def ask(self, type_: int, bodies: Sequence[bytes]) -> Iterator[bytes | KernelError]:
        """Ask the kernel a question for each body, and yield the answers in this order: a message
        each, or the error with which the kernel refuses the question.
        """
        # Only so many are asked at once that their answers fit into the receive buffer.
        for begin in range(0, len(bodies), _QUESTIONS_AT_ONCE):
            batch = bodies[begin : begin + _QUESTIONS_AT_ONCE]
            self._send([message(type_, 0, body) for body in batch])
            for _ in batch:
                answer = self.receive()
                _, answer_type, _, _, _ = HEADER.unpack_from(answer)
                yield error_of(answer) if answer_type == _NLMSG_ERROR else answer

    def send_changes(self, messages: Sequence[bytes]) -> dict[int, KernelError]:
        """Send messages that change something, each with a sequence number of its own; return the
        errors of those that the kernel refuses, by sequence number.
        """
        errors: dict[int, KernelError] = {}
        # Only so many are sent at once that their answers fit into the receive buffer.
        for begin in range(0, len(messages), _CHANGES_AT_ONCE):
            *others, last = messages[begin : begin + _CHANGES_AT_ONCE]
            # The kernel answers the last message in any case, and the others only if it refuses
            # them. It answers in order, so the answer to the last one ends the loop.
            self._send([*others, _with_acknowledgement(last)])
            sequence = None
            while sequence != _sequence_of(last):
                answer = self.receive()
                sequence = _sequence_of(answer)
                error = error_of(answer)
                if error.number:
                    errors[sequence] = error
        return errors

    def dump(self, type_: int, body: bytes) -> Iterator[bytes]:
        """Ask the kernel for one of its lists, such as that of devices, and yield the messages of
        the list one by one. `type_` says which list, and `body` has the details.
        """
        for size, run in self.dump_in_runs(type_, body):
            for at in range(0, len(run), size):
                yield run[at : at + size]

    def dump_in_runs(self, type_: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        """Ask the kernel for one of its lists, as `dump` does, but yield (size, run): a run is
        several messages of this size, one after another. The caller can unpack a run at once, which
        is faster. KernelError if the kernel refuses to list, or cannot finish.
        """
        self._send([message(type_, NLM_F_DUMP, body)])
        while True:
            part = self.receive()  # the kernel sends a list in several parts
            at = 0
            while at + HEADER.size <= len(part):
                length, message_type, flags, _, _ = HEADER.unpack_from(part, at)
                if flags & NLM_F_DUMP_INTR:
                    self.list_has_changed = True
                if message_type in {_NLMSG_ERROR, _NLMSG_DONE}:
                    error = error_of(part, at)
                    if error.number:
                        raise error
                    return
                size = aligned(length)
                header = part[at : at + HEADER.size]
                end_of_run = at + size
                # The next message belongs to the run if its header, which has its size, is equal.
                while part[end_of_run : end_of_run + HEADER.size] == header:
                    end_of_run += size
                yield size, part[at:end_of_run]
                at = end_of_run

    def _send(self, messages: Sequence[bytes]) -> None:
        self._socket.send(b"".join(messages))

    def receive(self) -> bytes:
        """Wait for the next answer of the kernel: a message, or several of a list, all complete.
        OSError if no answer comes in time (EAGAIN), or if answers were lost (ENOBUFS).
        """
        while True:
            answer, (sender, _) = self._socket.recvfrom(_LONGEST_PART)
            if sender == _KERNEL:  # another process can send to a group, too
                break
        if len(answer) == _LONGEST_PART:  # the buffer is full, so there may have been more
            raise KernelError(errno.EBADMSG, "the answer was cut short")
        return answer


def _with_acknowledgement(request: bytes) -> bytes:
    """A copy of the request that the kernel answers even if the request succeeds."""
    _, type_, flags, sequence, _ = HEADER.unpack_from(request)
    return message(type_, flags | NLM_F_ACK, request[HEADER.size :], sequence)
