"""Where one message ends and the next begins, and what an answer says that is no message of its own: an error, an end.

Nothing is sent or received here.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from hostrouting.backends.netlink import numbers as n

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

__all__ = ["HEADER", "ROOM_BEHIND", "Interrupted", "KernelError", "Listing", "Lost", "place_messages", "read_error"]

HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
# Length, kind, flags, and for a route its flags, which stand last in struct rtmsg.
_OUTLINE = struct.Struct("=IHH16xI")
_OUTLINE_AT = (*range(8), *range(24, 28))
_MANY = 16  # messages, from which on it pays to look at all of them at once
# A short last message is read as if it were longer: behind it there have to be so many bytes more.
ROOM_BEHIND = 64
_INT, _LENGTH = struct.Struct("=i"), struct.Struct("=I")
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


def place_messages(data: bytes, end: int, base: int, offsets: array[int]) -> bool:
    """File where each message begins; whether the list is at its end."""
    unpack, place, offset, hopeless = _OUTLINE.unpack_from, offsets.append, 0, 0
    while offset < end:
        length, kind, flags, route_flags = unpack(data, offset)
        if flags & n.NLM_F_DUMP_INTR:
            raise Interrupted
        if kind <= n.NLMSG_DONE:
            _check(data, offset, kind)
            return True
        size = (length + 3) & ~3
        listed = not route_flags & n.RTM_F_CLONED or kind != n.RTM_NEWROUTE
        if offset >= hopeless:
            hopeless = offset + size * _MANY
            if count := _alike(data, offset, end, size):
                if listed:
                    offsets.extend(range(base + offset, base + offset + count * size, size))
                offset += count * size
                continue
        if listed:
            place(base + offset)
        offset += size
    return False


def _alike(data: bytes, offset: int, end: int, size: int) -> int:
    """How many messages have the outline of this one, itself and those behind it: the fast path of large tables.

    Why: to look at each takes a third of the time in which the kernel makes it, and a piece of a large list is hundreds
    of one outline. Where they are but few it is 0. A property test has both ways file the same.
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
    """The error of the message at the offset (0 is the kernel's "done")."""
    length, _, flags, _, _ = HEADER.unpack_from(data, offset)
    (code,) = _INT.unpack_from(data, offset + 16)
    words = ""
    if flags & n.NLM_F_ACK_TLVS:
        # struct nlmsgerr: the number, and what was refused; of that the header alone where CAP_ACK is heeded.
        (refused,) = _LENGTH.unpack_from(data, offset + 20)
        at = offset + 20 + (HEADER.size if flags & n.NLM_F_CAPPED else (refused + 3) & ~3)
        end = offset + length
        while at + 4 <= end:
            size, kind = _ATTRIBUTE.unpack_from(data, at)
            if kind == n.NLMSGERR_ATTR_MSG:
                words = data[at + 4 : at + size].rstrip(b"\0").decode(errors="replace")
            at += max((size + 3) & ~3, 4)
    return KernelError(-code, words)
