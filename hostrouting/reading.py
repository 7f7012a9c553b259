"""The bytes of what an argument names: a regular file, a pipe, or standard input (`-`).

Here: waiting for the writer of a pipe, and the messages for what cannot be read. Not here: the meaning of the bytes
(`saved_snapshot` for a snapshot).
"""

from __future__ import annotations

import os
import select
import stat
import sys
from contextlib import suppress

from hostrouting.opening import NotAFile, open_file

__all__ = ["STANDARD_INPUT", "Unreadable", "is_piped", "name_of", "read_bytes"]

STANDARD_INPUT = "-"

_PATIENCE = 10.0  # seconds to wait until a program opens a fifo for writing


class Unreadable(Exception):  # noqa: N818  reads as what is wrong
    """An argument's file cannot be read: `rule` says why, and `remedy` what to do; empty if this is not known."""

    def __init__(self, rule: str, remedy: str = "") -> None:
        """Keep both."""
        self.rule, self.remedy = rule, remedy
        super().__init__(f"{rule}; {remedy}" if remedy else rule)


def name_of(path: str) -> str:
    """The name of the file in messages."""
    return "standard input" if path == STANDARD_INPUT else path


def is_piped(path: str) -> bool:
    """Whether it is standard input, or a pipe that a shell makes for <(...): read only once, without a lasting name."""
    if path == STANDARD_INPUT:
        return True
    with suppress(OSError, ValueError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def read_bytes(path: str, *, what: str, limit: int) -> bytes:
    """The contents of a regular file or a pipe. Raises Unreadable for anything else, such as a directory or a device.

    `what` names the expected contents, as in "a snapshot"; more than `limit` bytes are Unreadable.
    """
    if path == STANDARD_INPUT and sys.stdin is None:
        raise Unreadable("is closed", f"pipe {what} into it, or name a file")
    try:
        data = sys.stdin.buffer.read(limit + 1) if path == STANDARD_INPUT else _bytes_of(path, limit)
    except NotAFile as error:
        if error.kind == "a directory":
            raise Unreadable("is a directory", "name the file in it") from error
        raise Unreadable(f"is {error.kind}, not a regular file") from error
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}", "check the path") from error
    except ValueError as error:
        raise Unreadable("is not a path", "check it for stray characters") from error
    if len(data) > limit:
        size = f"{limit >> 30} GiB" if limit >> 30 else f"{limit >> 20} MiB"
        raise Unreadable(f"is larger than {size}, so it is not {what}")
    return data


def _bytes_of(path: str, limit: int) -> bytes:
    descriptor = open_file(path, fifo=True)
    with os.fdopen(descriptor, "rb") as stream:
        first = _first_of(descriptor)
        # The writer of a pipe may take any time; Ctrl-C and SIGTERM end the wait.
        os.set_blocking(descriptor, True)
        return first + stream.read(limit + 1)


def _first_of(descriptor: int) -> bytes:
    """The byte that had to be read to see that a fifo has a writer, if any. Raises Unreadable if it has no writer."""
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
