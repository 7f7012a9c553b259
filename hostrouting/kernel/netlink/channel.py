"""A conversation with the kernel by netlink: messages, the socket that carries them, and requests with their replies.

Here: packing and parsing any message, opening a socket in any namespace, and sending and receiving within a timeout.
Not here: what a message is about, which the caller knows: attributes are bytes here.

A message is a header and attributes, and several messages stand back to back. This is hand-written because pyroute2
takes 140 µs to read a device, and a tenth of a second to be loaded; a check reads ten devices and sends one or two
requests.

A socket stays in the namespace in which it was created. For another namespace, which is given by its name or path, a
separate thread enters it, opens the socket there, and ends. So neither the caller's process nor its thread ever leaves
its namespace. No namespace is ever created here.

A Channel does not use asyncio, so it can be called in any thread and inside any event loop. After a fork the child
opens a socket of its own, because two processes on one socket would read each other's replies.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import suppress
from io import FileIO
from typing import TypeVar

from hostrouting.errors import BackendError
from hostrouting.kernel.netlink import numbers as n

# Messages

HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, kind, flags, sequence number, port
ATTRIBUTE = struct.Struct("=HH")  # struct nlattr: its length including this header, its number
SEQUENCE = (8, "I")
"""The place of a message's sequence number, for a Template."""
_KIND = 0x3FFF  # without the flags for nested attributes and network byte order
# Length, kind, flags, and for a route its flags, which are last in struct rtmsg.
_OUTLINE = struct.Struct("=IHH16xI")
_OUTLINE_AT = (*range(8), *range(24, 28))
_MANY = 16  # messages: from this number on, comparing all of them at once is faster
# A short last message is read as if it were longer, so this many bytes must follow it.
ROOM_BEHIND = 64
_INT, _WORD = struct.Struct("=i"), struct.Struct("=I")


def attributes_of(data: bytes, begin: int, wanted: Collection[int] | None = None) -> dict[int, bytes]:
    """The attributes from `begin` to the end: the wanted ones, or all, including unknown ones."""
    found: dict[int, bytes] = {}
    unpack, at, end = ATTRIBUTE.unpack_from, begin, len(data) - ATTRIBUTE.size
    while at <= end:
        length, kind = unpack(data, at)
        kind &= _KIND
        if wanted is None or kind in wanted:
            found[kind] = data[at + 4 : at + length]
        at += (length + 3 & ~3) or 4
    return found


def attribute_of(data: bytes, number: int) -> bytes:
    """The value of one attribute among those in these bytes; empty if it is missing."""
    unpack, at, end = ATTRIBUTE.unpack_from, 0, len(data) - ATTRIBUTE.size
    while at <= end:
        length, kind = unpack(data, at)
        if kind & _KIND == number:
            return data[at + 4 : at + length]
        at += (length + 3 & ~3) or 4
    return b""


def message(
    kind: int, body: bytes, attributes: Iterable[tuple[int, bytes]] = (), *, flags: int = 0, sequence: int = 0
) -> bytes:
    """A request of this kind (RTM_…), with its header; `body` is its fixed part."""
    content = body + pack_attributes(attributes)
    return HEADER.pack(HEADER.size + len(content), kind, n.NLM_F_REQUEST | flags, sequence, 0) + content


def pack_attributes(attributes: Iterable[tuple[int, bytes]]) -> bytes:
    """Attributes one after the other; struct.error if one is too large."""
    return b"".join(
        [ATTRIBUTE.pack(4 + len(value), number) + value + bytes(-len(value) % 4) for number, value in attributes]
    )


class Template:
    """A message with places to fill in, for many messages that differ only there."""

    __slots__ = ("between", "pack")

    def __init__(self, encoded: bytes, *places: tuple[int, str]) -> None:
        """Take a message, and where each place begins, in order, with its format as in `struct`."""
        layout, end, between = ["="], 0, []
        for begin, form in places:
            between.append(encoded[end:begin])
            layout.append(f"{begin - end}s{form}")
            end = begin + struct.calcsize(f"={form}")
        self.between = (*between, encoded[end:])
        self.pack = struct.Struct("".join([*layout, f"{len(encoded) - end}s"])).pack

    def fill(self, *values: int | bytes) -> bytes:
        """The message with these values in its places."""
        parts: list[int | bytes] = [b""] * (2 * len(values) + 1)
        parts[::2] = self.between
        parts[1::2] = values
        return self.pack(*parts)


def numbered(asked: bytes, sequence: int) -> bytes:
    """The message with this sequence number."""
    return asked[:8] + _WORD.pack(sequence) + asked[12:]


class KernelError(Exception):
    """The kernel's answer is an error: its number, and the kernel's text. Never leaves this package."""

    def __init__(self, number: int, words: str = "") -> None:
        """Store both; without text from the kernel, the name of the number."""
        self.number = number
        self.explained = bool(words)
        self.words = words or os.strerror(number)
        super().__init__(number, self.words)


class Interrupted(Exception):  # noqa: N818  reads as what happened
    """Something changed while the kernel was listing. Never leaves this package."""


class Lost(Exception):  # noqa: N818  reads as what happened
    """The receive buffer was full and answers were dropped. Never leaves this package."""


class Listing:
    """Messages of a dump: the bytes of all, and where each begins.

    Messages back to back are one run if they take the same number of bytes each, with the zeros that fill them up. Most
    parts of a large table are one run: to store where each message begins takes a quarter of the time of a dump.
    """

    __slots__ = ("data", "runs")

    def __init__(self, data: bytes, runs: list[range]) -> None:
        """Store the messages, with padding after the last one, so that a read beyond it is safe."""
        self.data, self.runs = data, runs

    def __iter__(self) -> Iterator[bytes]:
        """Each message."""
        for run in self.runs:
            for offset in run:
                (length,) = _WORD.unpack_from(self.data, offset)
                yield self.data[offset : offset + length]


def add_run(runs: list[range], begin: int, size: int, count: int = 1) -> None:
    """Add messages, to the last run if they follow it and take as many bytes each."""
    end = begin + size * count
    if runs and runs[-1].stop == begin and runs[-1].step == size:
        begin = runs.pop().start
    runs.append(range(begin, end, size))


def place_messages(part: bytes) -> tuple[Listing, bool]:
    """The messages of a part, and whether the list is complete."""
    data, runs = part + bytes(ROOM_BEHIND), list[range]()  # so that the fixed fields of a short message can be read
    unpack, offset, hopeless, end = _OUTLINE.unpack_from, 0, 0, len(part)
    while offset < end:
        length, kind, flags, route_flags = unpack(data, offset)
        if flags & n.NLM_F_DUMP_INTR:
            raise Interrupted
        if kind <= n.NLMSG_DONE:
            _check(data, offset, kind)
            return Listing(data, runs), True
        size = (length + 3) & ~3
        listed = not route_flags & n.RTM_F_CLONED or kind != n.RTM_NEWROUTE
        if offset >= hopeless:
            hopeless = offset + size * _MANY
            if count := _same_outline(data, offset, end, size):
                if listed:
                    add_run(runs, offset, size, count)
                offset += count * size
                continue
        if listed:
            add_run(runs, offset, size)
        offset += size
    return Listing(data, runs), False


def _same_outline(data: bytes, offset: int, end: int, size: int) -> int:
    """The number of messages with the same outline as this one, from here on: the fast path for large tables.

    Reading each message takes a third of the time that the kernel needs to create it, and a part of a large list has
    hundreds of messages with the same outline. Returns 0 if there are only a few. A property test compares both paths.
    """
    count = (end - offset) // size if size >= _OUTLINE.size else 0
    if count < _MANY or data[offset : offset + size * _MANY : size] != data[offset : offset + 1] * _MANY:
        return 0
    for at in _OUTLINE_AT:
        column = data[offset + at : offset + count * size : size]
        if column != column[:1] * count:
            count -= len(column.lstrip(column[:1]))
            if count < _MANY:
                return 0
    return count


def _check(data: bytes, offset: int, kind: int) -> None:
    if kind == n.NLMSG_ERROR:
        raise read_error(data, offset)
    if kind == n.NLMSG_DONE and (number := -_INT.unpack_from(data, offset + 16)[0]) > 0:
        raise KernelError(number)


def read_error(data: bytes, offset: int) -> KernelError:
    """The error of the message at the offset (0 means success)."""
    length, _, flags, _, _ = HEADER.unpack_from(data, offset)
    (code,) = _INT.unpack_from(data, offset + 16)
    words = ""
    if flags & n.NLM_F_ACK_TLVS:
        # struct nlmsgerr: the number and the refused message; only its header if CAP_ACK is supported.
        (refused,) = _WORD.unpack_from(data, offset + 20)
        at = offset + 20 + (HEADER.size if flags & n.NLM_F_CAPPED else (refused + 3) & ~3)
        said = attributes_of(data[: offset + length], at).get(n.NLMSGERR_ATTR_MSG, b"")
        words = said.rstrip(b"\0").decode(errors="replace")
    return KernelError(-code, words)


# Sockets and namespaces

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_NAMED = "/run/netns"  # where `ip netns` keeps named namespaces
# Requested sizes; an unprivileged process is limited by net.core.rmem_max and wmem_max.
_RECEIVE, _SEND = 1 << 22, 1 << 17
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33


def open_socket(groups: int = 0, *, protocol: int = n.NETLINK_ROUTE, buffer: int = _RECEIVE) -> socket.socket:
    """A netlink socket, joined to the groups of its protocol, in the namespace of the calling thread."""
    try:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    except AttributeError as error:
        raise BackendError(
            "netlink does not exist on this system; reading and changing routes requires Linux", kind="unavailable"
        ) from error
    except OSError as error:
        raise why_not_opened(error) from error
    try:
        _set_buffer(made, _SO_RCVBUFFORCE, socket.SO_RCVBUF, buffer)
        _set_buffer(made, _SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND)
        # An old kernel may lack some of these; that only affects error texts and speed.
        for option in (n.NETLINK_EXT_ACK, n.NETLINK_CAP_ACK, n.NETLINK_GET_STRICT_CHK):
            with suppress(OSError):
                made.setsockopt(n.SOL_NETLINK, option, 1)
        made.bind((0, groups))
    except BaseException as error:
        made.close()
        if isinstance(error, OSError):
            raise why_not_opened(error) from error
        raise
    return made


def _set_buffer(made: socket.socket, forced: int, limited: int, size: int) -> None:
    """Set the buffer size: by force if possible, else up to the limit, else leave it."""
    try:
        made.setsockopt(socket.SOL_SOCKET, forced, size)
    except OSError:
        with suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, limited, size)


def why_not_opened(error: OSError) -> BackendError:
    """Why no socket could be opened."""
    number, words = error.errno, error.strerror or ""
    if number in {errno.EMFILE, errno.ENFILE}:
        who = "this process" if number == errno.EMFILE else "the host"
        return BackendError(f"{who} has too many open files, so no socket can be opened", errno=number, kernel=words)
    if number in {errno.ENOMEM, errno.ENOBUFS}:
        return BackendError("not enough memory to open a socket", errno=number, kernel=words)
    if isinstance(error, PermissionError):
        return BackendError(
            "a sandbox does not allow this process to open a netlink socket",
            errno=number,
            kernel=words,
            kind="not-permitted",
        )
    return BackendError(
        "netlink is not available: a sandbox forbids it, or the kernel was built without it",
        errno=number,
        kernel=words,
        kind="unavailable",
    )


def as_backend_error(error: OSError) -> BackendError:
    """Why an open socket failed."""
    words = error.strerror or str(error)
    if isinstance(error, PermissionError):
        return BackendError("this process may not use netlink", errno=error.errno, kernel=words, kind="not-permitted")
    return BackendError("netlink failed", errno=error.errno, kernel=words)


def here() -> tuple[int, int] | None:
    """The namespace of the calling thread; None if it cannot be determined."""
    try:
        found = os.stat("/proc/thread-self/ns/net")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def namespace_path(netns: str | os.PathLike[str]) -> str:
    """The path of a namespace that is given by path or by its `ip netns` name."""
    text = os.fspath(netns)
    return text if "/" in text else f"{_NAMED}/{text}"


def open_namespace(netns: str | os.PathLike[str]) -> FileIO:
    """An existing namespace, held open: by its path, or by its `ip netns` name."""
    text, path = os.fspath(netns), namespace_path(netns)
    try:
        # Do not block, whatever kind of file this is.
        return FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except (OSError, ValueError) as error:
        problem = f"{path}: {error.strerror}" if isinstance(error, OSError) else "a path cannot contain a null byte"
        raise BackendError(
            f"network namespace {text!r} does not exist: {problem}; `ip netns` lists the named ones",
            errno=getattr(error, "errno", None),
            kind="unavailable",
        ) from error


def inside(namespace: FileIO, make: Callable[[], T]) -> T:
    """Call `make` in the namespace and return its result."""
    made: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            _enter(namespace)
            made.append(make())
        except BaseException as error:  # noqa: BLE001  raised again below, in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=work, name="hostrouting-netns")
    try:
        thread.start()
    except RuntimeError as error:
        raise BackendError(f"cannot start a thread to enter the network namespace: {error}") from error
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _enter(namespace: FileIO) -> None:
    import ctypes  # noqa: PLC0415  rarely needed; os.setns exists from Python 3.12 on

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace.fileno(), _CLONE_NEWNET):
        number = ctypes.get_errno()
        text = os.strerror(number)
        if isinstance(OSError(number, text), PermissionError):
            raise BackendError(
                "this process may not enter another network namespace", errno=number, kernel=text, kind="not-permitted"
            )
        raise BackendError("the given file is not a network namespace", errno=number, kernel=text, kind="unavailable")


# Requests and replies

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
        """The remaining seconds; if there are none, close the socket and raise BackendError (timeout)."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            # A late answer would be taken for the answer to another request.
            self.close()
            raise BackendError(f"the kernel did not finish the request within {self.timeout:g} s", kind="timeout")
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
        """Send consecutively numbered requests; return the replies by number, without those that were lost."""
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
        """Whether the messages must be sent in several calls."""
        if len(messages) < 2:
            return False
        room: int = self.open().getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        return len(messages) * max(map(len, messages)) > min(_PIECE, room // 2)

    def listing(self, request: Callable[[int], bytes]) -> Generator[Listing, None, None]:
        """The kernel's list of something, part by part; `request` creates the message for a sequence number.

        The channel is used for nothing else until the last part has come. After Interrupted, no part is of any use.
        """
        number, done = self.number(), False
        try:
            self.send(request(number))
            while not done:
                part = self.receive()
                if HEADER.unpack_from(part)[3] != number:
                    continue  # a late answer to an earlier request
                listing, done = place_messages(part)
                yield listing
        except KernelError:
            raise  # an error ends the list
        except BaseException as error:
            # A socket can carry one list at a time, and this list may not have ended.
            self.close()
            if isinstance(error, Lost):
                raise Interrupted from None
            raise


def _not_received(error: OSError) -> Exception:
    """The error when receiving fails: answers were lost, or the socket failed."""
    return Lost() if error.errno == errno.ENOBUFS else as_backend_error(error)
