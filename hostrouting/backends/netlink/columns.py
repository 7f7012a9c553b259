"""Columns and shapes out of raw messages, a thousand routes at a stroke: the fast path of an index.

Why: to go through 100,000 messages one by one takes 30 ms, of which an index wants no more than two numbers each. A
large table is mostly messages of one size and one build, one behind the other: then what all of them have in the same
place is a slice of the bytes. Messages are looked at in sections; one of which not all are alike is read one by one.
A property test has all say the same as the routes themselves.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from functools import cache
from itertools import chain, groupby, pairwise
from socket import ntohl
from typing import TYPE_CHECKING, TypeAlias

from hostrouting.backends.netlink.numbers import FAMILY_OF
from hostrouting.model import IPV4, IPV6, Column

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, MutableSequence, Sequence

    from hostrouting.model import RouteKey

__all__ = ["Section", "columns", "keys", "sections", "shapes"]

# The first position of some routes, and the size of each of their messages if those are alike and one behind the other;
# 0 where they are not, or not of the usual build.
Section: TypeAlias = tuple[int, int]

# No section has more messages than the first; and where fewer are alike, so many are read one by one.
_MOST, _FEWEST = 1024, 64
# A message of the usual build: its size, family and prefix length, then table and destination, each after what says the
# size and kind of such an attribute.
_BUILD = struct.Struct("=I12xB11xIII")
# Bytes that are alike in a section: those of the size, the family, the table, and the size and kind of the destination.
_ALIKE = (0, 1, 2, 3, 16, *range(28, 40))
_LENGTH = 17
# What tells of the route is before its destination (after its prefix length) and behind.
_BEFORE, _DST, _BEHIND = 18, 40, 44
_RTA_DST, _RTA_TABLE = 1, 15
_START = struct.Struct("=I12x8BI")  # the length of the message, then struct rtmsg
_ATTRIBUTES = _START.size
# An attribute's length and kind, and its value where that is a number or an address of IPv4.
_ATTRIBUTE_AND_NUMBER = struct.Struct("=HHI")
# Family, prefix length and protocol; then, when they come in their usual order, table and destination.
_KEY = struct.Struct("=16xBB3xB6xIIII")


def _as_word(length: int, kind: int) -> int:
    (word,) = struct.unpack("=I", struct.pack("=HH", length, kind))
    return int(word)


_TABLE_FIRST, _DST4_NEXT, _DST6_NEXT = _as_word(8, _RTA_TABLE), _as_word(8, _RTA_DST), _as_word(20, _RTA_DST)
_AF_INET, _AF_INET6 = 2, 10


def keys(data: bytes, offsets: Iterable[int]) -> Iterator[RouteKey]:
    """Where each of the routes belongs; no object is made of any."""
    unpack = _KEY.unpack_from
    for offset in offsets:
        af, length, protocol, first, table, following, network = unpack(data, offset)
        if first != _TABLE_FIRST:
            yield _key(data, offset)
        elif af == _AF_INET and following == _DST4_NEXT:
            yield (IPV4, table, ntohl(network), length, protocol)
        elif af == _AF_INET6 and following == _DST6_NEXT:
            yield (IPV6, table, int.from_bytes(data[offset + _DST : offset + _DST + 16], "big"), length, protocol)
        elif length == 0:
            yield (FAMILY_OF[af], table, 0, 0, protocol)
        else:
            yield _key(data, offset)


def _key(data: bytes, offset: int) -> RouteKey:
    """The same for attributes in any order."""
    size, af, length, _, _, table, protocol, _, _, _ = _START.unpack_from(data, offset)
    network, at, end = 0, offset + _ATTRIBUTES, offset + size
    while at < end:
        length_of, kind, number = _ATTRIBUTE_AND_NUMBER.unpack_from(data, at)
        if kind == _RTA_TABLE:
            table = number
        elif kind == _RTA_DST:
            network = int.from_bytes(data[at + 4 : at + length_of], "big")
        at += length_of + 3 & ~3 or 4
    return (FAMILY_OF[af], table, network, length, protocol)


def sections(data: bytes, offsets: array[int]) -> list[Section]:
    """The messages in sections; the last one begins where they end."""
    found: list[Section] = []
    at = 0
    while at < len(offsets):
        size, count = _alike(data, offsets, at)
        found.append((at, size))
        at += count
    return [*found, (len(offsets), 0)]


def _alike(data: bytes, offsets: array[int], at: int) -> Section:
    """The size of the messages from this position on, and how many are of that size and build."""
    begin, left = offsets[at], min(_MOST, len(offsets) - at)
    size, family, attribute, _, following = _BUILD.unpack_from(data, begin)
    # The first that is not where it would be, if all were of one size: at most pieces of a listing there is a gap.
    count = bisect_left(range(left), 1, key=lambda number: offsets[at + number] != begin + size * number)
    few, end = (0, min(_FEWEST, left)), begin + size * count
    if count < few[1] or (family, attribute, following) != (_AF_INET, _TABLE_FIRST, _DST4_NEXT) or size % 4:
        return few
    alike = all(data[begin + at : end : size] == data[begin + at : begin + at + 1] * count for at in _ALIKE)
    return (size, count) if alike else few


class _Gathered:
    """A column in the making; neighbours among its positions are one range."""

    def __init__(self, family: int) -> None:
        self.networks: MutableSequence[int] = array("I") if family == IPV4 else []
        self.lengths = bytearray()
        self._positions: list[range] = []

    def add(self, begin: int, end: int) -> None:
        if self._positions and self._positions[-1].stop == begin:
            begin = self._positions.pop().start
        self._positions.append(range(begin, end))

    @property
    def positions(self) -> Sequence[int]:
        """A range if they are without a gap: of that, a part is a range too."""
        return self._positions[0] if len(self._positions) == 1 else array("I", chain.from_iterable(self._positions))


def columns(data: bytes, offsets: array[int], known: Sequence[Section]) -> Iterator[Column]:
    """The routes of the messages by family and table; `known` are their sections."""
    found: dict[tuple[int, int], _Gathered] = {}

    def gathered(family: int, table: int, begin: int, end: int) -> _Gathered:
        column = found.get((family, table)) or found.setdefault((family, table), _Gathered(family))
        column.add(begin, end)
        return column

    for (at, size), (stop, _) in pairwise(known):
        if not size:
            some = enumerate(keys(data, offsets[at:stop]), at)
            for (family, table), neighbours in groupby(some, lambda it: it[1][:2]):
                places, them = zip(*neighbours, strict=True)
                column = gathered(family, table, places[0], places[-1] + 1)
                column.networks.extend([network for _, _, network, _, _ in them])
                column.lengths.extend([length for _, _, _, length, _ in them])
            continue
        begin, end = offsets[at], offsets[stop - 1] + size
        _, _, _, table, _ = _BUILD.unpack_from(data, begin)
        column = gathered(IPV4, table, at, stop)
        column.networks.extend(_words([data[begin + _DST + byte : end : size] for byte in range(4)]))
        column.lengths += data[begin + _LENGTH : end : size]
    for (family, table), column in found.items():
        yield Column(family, table, column.positions, column.networks, column.lengths)


def _words(of_bytes: Sequence[bytes]) -> array[int]:
    """Numbers by all of their first bytes, all of their second ones, and so on."""
    joined = bytearray(len(of_bytes) * len(of_bytes[0]))
    for at, part in enumerate(of_bytes):
        joined[at :: len(of_bytes)] = part
    words = array("I", bytes(joined))
    if sys.byteorder == "little":
        words.byteswap()
    return words


def shapes(data: bytes, offsets: array[int], known: Sequence[Section], positions: Sequence[int]) -> Iterable[Hashable]:
    """Of each route what tells it from others, its destination apart; where that is not simple, its position."""
    if not isinstance(positions, range):
        return _one_by_one(data, offsets, positions)
    parts: list[Iterable[Hashable]] = []
    at, number = positions.start, bisect_left(known, (positions.start + 1,)) - 1
    while at < positions.stop:
        size, begin = known[number][1], offsets[at]
        number += 1
        stop = min(positions.stop, known[number][0])
        if size:
            parts.append(_shape(size).iter_unpack(memoryview(data)[begin : begin + size * (stop - at)]))
        else:
            parts.append(_one_by_one(data, offsets, range(at, stop)))
        at = stop
    return chain.from_iterable(parts)


def _one_by_one(data: bytes, offsets: array[int], positions: Sequence[int]) -> Iterator[Hashable]:
    for position in positions:
        begin = offsets[position]
        size, family, attribute, _, following = _BUILD.unpack_from(data, begin)
        if (family, attribute, following) == (_AF_INET, _TABLE_FIRST, _DST4_NEXT):
            yield (data[begin + _BEFORE : begin + _DST], data[begin + _BEHIND : begin + size])
        else:
            yield position


@cache
def _shape(size: int) -> struct.Struct:
    return struct.Struct(f"={_BEFORE}x{_DST - _BEFORE}s{_BEHIND - _DST}x{size - _BEHIND}s")
