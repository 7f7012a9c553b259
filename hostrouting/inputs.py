"""Open and read the file that an argument names: a regular file, a pipe or standard input (`-`), never a device.

Here: the check of a file's type, the names of the types, the wait for the writer of a pipe, and why something cannot be
read. Not here: the files of a host (`host.files`), and the meaning of the bytes.

Opening a fifo waits for the process at its other end, perhaps forever, and Python cannot handle a signal meanwhile;
opening a device may have side effects. So the type of the file is checked before it is opened, and again when it is
open, because it may have been replaced in between. A fifo is opened without waiting; then the wait for its writer has a
limit, and the wait for its bytes has none, because a signal can end that.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress

STANDARD_INPUT = "-"

_PATIENCE = 10.0  # seconds to wait until a program opens a fifo for writing
_AT_ONCE = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = (
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotAFile(OSError):  # noqa: N818  the name says what is wrong
    """The path is not a regular file; `kind` says what it is, such as "a fifo"."""

    def __init__(self, kind: str, path: str) -> None:
        """Build the error like an OSError of the system, with a number, a text and the path."""
        self.kind = kind
        super().__init__(errno.EINVAL, f"there is {kind} in its place", path)


class Unreadable(Exception):  # noqa: N818  reads as what is wrong
    """An argument's file cannot be read: `rule` says why, and `remedy` what to do; empty if this is not known."""

    def __init__(self, rule: str, remedy: str = "") -> None:
        """Keep the arguments."""
        self.rule, self.remedy = rule, remedy
        super().__init__(f"{rule}; {remedy}" if remedy else rule)


def kind_of(mode: int) -> str:
    """The name of the file type in this mode, such as "a fifo"; empty for a regular file and for a link."""
    return next((kind for is_one, kind in _KINDS if is_one(mode)), "")


def require_file(path: str, mode: int) -> None:
    """Raise NotAFile if the mode is neither that of a regular file nor that of a link."""
    if kind := kind_of(mode):
        raise NotAFile(kind, path)


def open_file(path: str, flags: int = os.O_RDONLY, *, fifo: bool = False) -> int:
    """Open the regular file at the path and return the descriptor; os.O_CREAT creates it with mode 0600.

    Raises NotAFile if it is not a regular file, and any other OSError of the system. If `fifo`, a fifo is accepted too:
    opening and reading it do not wait for its writer.
    """

    def require(mode: int) -> None:
        if not (fifo and stat.S_ISFIFO(mode)):
            require_file(path, mode)

    try:
        require(os.lstat(path).st_mode if flags & os.O_NOFOLLOW else os.stat(path).st_mode)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | _AT_ONCE, 0o600)
    try:
        require(os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def name_of(path: str) -> str:
    """The name of the file in messages."""
    return "standard input" if path == STANDARD_INPUT else path


def is_piped(path: str) -> bool:
    """Whether the path can be read only once: standard input, or a pipe that a shell makes for <(...)."""
    if path == STANDARD_INPUT:
        return True
    with suppress(OSError, ValueError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def read_bytes(path: str, *, what: str, limit: int, piped: bool = True) -> bytes:
    """The contents of a regular file or a pipe. Raises Unreadable for anything else, such as a directory or a device.

    `what` names the expected contents, as in "a snapshot"; more than `limit` bytes are Unreadable. Unless `piped`, so
    is a pipe, and `-` is the name of a file.
    """
    is_input = piped and path == STANDARD_INPUT
    if is_input and sys.stdin is None:
        raise Unreadable("is closed", f"pipe {what} into it, or name a file")
    try:
        data = sys.stdin.buffer.read(limit + 1) if is_input else _bytes_of(path, limit, piped=piped)
    except NotAFile as error:
        if error.kind == "a directory":
            raise Unreadable("is a directory", "name the file in it") from error
        raise Unreadable(f"is {error.kind}, not a regular file") from error
    except OSError as error:
        is_denied = isinstance(error, PermissionError)
        remedy = "run as root, or give this user read permission" if is_denied else "check the path"
        raise Unreadable(f"cannot be read: {error.strerror}", remedy) from error
    except ValueError as error:
        raise Unreadable("is not a path", "check it for stray characters") from error
    if len(data) > limit:
        size = f"{limit >> 30} GiB" if limit >> 30 else f"{limit >> 20} MiB"
        raise Unreadable(f"is larger than {size}, so it is not {what}")
    return data


def _bytes_of(path: str, limit: int, *, piped: bool) -> bytes:
    descriptor = open_file(path, fifo=piped)
    with os.fdopen(descriptor, "rb") as stream:
        first = _first_of(descriptor)
        # The writer of a pipe may take any time; Ctrl-C and SIGTERM end the wait.
        os.set_blocking(descriptor, True)
        return first + stream.read(limit + 1)


def _first_of(descriptor: int) -> bytes:
    """The byte that had to be read to see that a fifo has a writer. Raises Unreadable if there is no writer."""
    import select  # noqa: PLC0415  only a fifo or a terminal needs it

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(_PATIENCE * 1000):  # a regular file is always ready
        return b""
    with suppress(BlockingIOError):  # there is a writer, which has not written yet
        if first := os.read(descriptor, 1):
            return first
        rule = f"is a fifo that no program has opened for writing within {_PATIENCE:g} s"
        raise Unreadable(rule, "start the program that writes it first")
    return b""
