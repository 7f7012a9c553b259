"""Attributes of a message, each as its bytes under its number, and messages that are made of such.

Why by hand: pyroute2 takes 140 µs to read a device, and a tenth of a second to be loaded; a check reads ten devices and
asks a question or two. What the numbers mean is not known here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hostrouting.backends.netlink.framing import HEADER
from hostrouting.backends.netlink.numbers import NLM_F_REQUEST

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["ATTRIBUTE", "SEQUENCE", "Template", "attributes_of", "message", "pack_attributes"]

ATTRIBUTE = struct.Struct("=HH")  # struct nlattr: its length with this head, its number
SEQUENCE = (8, "I")
"""The place of a message's sequence number, for a Template."""
_KIND = 0x3FFF  # without the marks that an attribute is nested, or in network order


def attributes_of(data: bytes, begin: int, wanted: Collection[int] | None = None) -> dict[int, bytes]:
    """The attributes from this place to the end: the wanted ones, or all, also those that nobody knows."""
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
    return HEADER.pack(HEADER.size + len(content), kind, NLM_F_REQUEST | flags, sequence, 0) + content


def pack_attributes(attributes: Iterable[tuple[int, bytes]]) -> bytes:
    """Attributes one behind the other; struct.error where one is too large."""
    return b"".join(
        [ATTRIBUTE.pack(4 + len(value), number) + value + bytes(-len(value) % 4) for number, value in attributes]
    )


class Template:
    """A message of which some places are filled in for each of many."""

    __slots__ = ("between", "pack")

    def __init__(self, encoded: bytes, *places: tuple[int, str]) -> None:
        """Take a message, and where each place begins, in order, with what it is in the words of `struct`."""
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
