"""The common format of all netlink messages: a header, attributes, and several messages back to back.

Here: packing and parsing a message, finding where each begins in a part of a list, and replies without content: an
error, an end. The caller knows what the numbers mean; nothing is sent or received here. This is hand-written because
pyroute2 takes 140 µs to read a device, and a tenth of a second to be loaded; a check reads ten devices and sends one or
two requests.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from hostrouting.backends.netlink import numbers as n

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable, Iterator

__all__ = [
    "ATTRIBUTE",
    "HEADER",
    "ROOM_BEHIND",
    "SEQUENCE",
    "Interrupted",
    "KernelError",
    "Listing",
    "Lost",
    "Template",
    "attributes_of",
    "message",
    "numbered",
    "pack_attributes",
    "place_messages",
    "read_error",
]

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
    """The messages of a dump: all of the bytes, and where each message begins."""

    __slots__ = ("data", "offsets")

    def __init__(self, data: bytes, offsets: array[int]) -> None:
        """Store them; after the last message there is padding to read beyond it."""
        self.data, self.offsets = data, offsets

    def __iter__(self) -> Iterator[bytes]:
        """Each message."""
        for offset in self.offsets:
            (length,) = struct.unpack_from("=I", self.data, offset)
            yield self.data[offset : offset + length]


def place_messages(data: bytes, end: int, base: int, offsets: array[int]) -> bool:
    """Store where each message begins; return whether the list is complete."""
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
            if count := _same_outline(data, offset, end, size):
                if listed:
                    offsets.extend(range(base + offset, base + offset + count * size, size))
                offset += count * size
                continue
        if listed:
            place(base + offset)
        offset += size
    return False


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
