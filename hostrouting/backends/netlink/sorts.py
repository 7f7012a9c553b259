"""Routes that say the same but for their destination, found by their bytes: the fast path of knowing what is there.

Why: to see that ten thousand routes are as they are wanted, each would have to be made, 3 µs each, and compared. Most
of them are neighbours in the kernel's list whose messages are the same, byte for byte, apart from the destination. So
a piece of the list is taken at once: with the destinations blanked it has to be one message repeated. Where it is
not, its messages are told apart one by one; those of another outline than the usual one of IPv4 belong to no sort.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

__all__ = ["DST", "FAMILY", "LENGTH", "REST", "is_usual", "sort_out"]

# Where in a message the family, the prefix length and the destination stand, when attributes come in their usual order.
FAMILY, LENGTH, DST, REST = 16, 17, 40, 44
_WORD = struct.Struct("=I")
_AF_INET = 2
# The heads of the first two attributes (RTA_TABLE, RTA_DST) behind struct rtmsg: their sizes and kinds.
_FIRST_AT, _SECOND_AT = 28, 36
_FIRST, _SECOND = struct.pack("=HH", 8, 15), struct.pack("=HH", 8, 1)
_PROTOCOL = 3  # in what a message says apart from its destination
_MOST = 1 << 11  # in one piece; more routes never come in one piece of the kernel's
_FEW = 32  # which are told apart one by one

# Where the routes of a sort stand in the list, and the length and the network of each.
Sort: TypeAlias = tuple[list[int], list[tuple[int, int]]]


def sort_out(data: bytes, offsets: array[int], protocol: int) -> list[Sort]:
    """The sorts of the routes of this protocol in a listing."""
    found: dict[bytes, Sort] = {}
    pieces = list(_pieces(data, offsets))
    while pieces:
        first, count, size = pieces.pop()
        begin = offsets[first]
        if is_usual(data, begin) and _is_one_repeated(data[begin : begin + count * size], size):
            places, prefixes = found.setdefault(_all_but_destination(data, begin, size), ([], []))
            places.extend(range(first, first + count))
            prefixes.extend(struct.iter_unpack(f">17xB22xI{size - REST}x", data[begin : begin + count * size]))
        elif count > _FEW:
            half = count // 2
            pieces += (first, half, size), (first + half, count - half, size)
        else:
            for place in range(first, first + count):
                at = offsets[place]
                if is_usual(data, at):
                    says = _all_but_destination(data, at, *_WORD.unpack_from(data, at))
                    places, prefixes = found.setdefault(says, ([], []))
                    places.append(place)
                    prefixes.append((data[at + LENGTH], int.from_bytes(data[at + DST : at + REST], "big")))
    return [sort for says, sort in found.items() if says[_PROTOCOL] == protocol]


def _pieces(data: bytes, offsets: array[int]) -> Iterator[tuple[int, int, int]]:
    """Neighbours of one size that stand back to back: the place of the first, how many, and the size."""
    first, end = 0, len(offsets)
    while first < end:
        begin = offsets[first]
        (size,) = _WORD.unpack_from(data, begin)
        # Behind a message that does not fill its four bytes, or at the end of a piece, others begin further on.
        low, high = 1, min(_MOST, end - first)
        while low < high:
            middle = (low + high + 1) // 2
            if offsets[first + middle - 1] == begin + (middle - 1) * size:
                low = middle
            else:
                high = middle - 1
        yield first, low, size
        first += low


def is_usual(data: bytes, at: int) -> bool:
    """Whether the message there is one of IPv4 of the usual outline, with the destination where it is expected."""
    return (
        data[at + FAMILY] == _AF_INET
        and data[at + _FIRST_AT : at + _FIRST_AT + 4] == _FIRST
        and data[at + _SECOND_AT : at + _SECOND_AT + 4] == _SECOND
    )


def _is_one_repeated(piece: bytes, size: int) -> bool:
    if _WORD.unpack_from(piece)[0] != size:
        return False
    blank = bytearray(piece)
    for at in (LENGTH, *range(DST, REST)):
        blank[at::size] = bytes(len(blank[at::size]))
    return blank == blank[:size] * (len(blank) // size)


def _all_but_destination(data: bytes, at: int, size: int) -> bytes:
    return data[at + LENGTH + 1 : at + DST] + data[at + REST : at + size]
