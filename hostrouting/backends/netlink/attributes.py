"""Attributes of a message, each as its bytes under its number, and messages that are made of such.

Why by hand: pyroute2 takes 140 µs to read a device, and a tenth of a second to be loaded; a check reads ten devices and
asks a question or two. So what lists and asks goes through here, and what changes something through `codec`. What the
numbers mean is not known here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hostrouting.backends.netlink.framing import HEADER
from hostrouting.backends.netlink.numbers import NLM_F_REQUEST

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["attributes_of", "message"]

_ATTRIBUTE = struct.Struct("=HH")  # struct nlattr
_KIND = 0x3FFF  # without the marks that an attribute is nested, or in network order


def attributes_of(data: bytes, begin: int, wanted: Collection[int] | None = None) -> dict[int, bytes]:
    """The attributes from this place to the end: the wanted ones, or all, also those that nobody knows."""
    found: dict[int, bytes] = {}
    unpack, at, end = _ATTRIBUTE.unpack_from, begin, len(data) - _ATTRIBUTE.size
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
    packed = [_ATTRIBUTE.pack(4 + len(value), number) + value + bytes(-len(value) % 4) for number, value in attributes]
    content = body + b"".join(packed)
    return HEADER.pack(HEADER.size + len(content), kind, NLM_F_REQUEST | flags, sequence, 0) + content
