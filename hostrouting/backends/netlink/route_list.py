"""Routes from messages, many at a time: 100,000 routes are read by decoding only a few of them.

A message is struct nlmsghdr and struct rtmsg, then attributes; the kernel puts the table and the destination first. The
bytes of a message without its destination identify its shape: the first such message is decoded in full, the others
refer to it by number. Neighbours of one size are read together, because the same field of all of them is a slice of the
bytes. A message with a different layout is decoded in full.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.messages import ATTRIBUTE, HEADER
from hostrouting.backends.netlink.numbers import AF_OF, FAMILY_OF
from hostrouting.backends.netlink.route_message import RTMSG
from hostrouting.model import IPV4, IPV6, Outline, Prefix, RouteTable, Shapes, routes_like

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostrouting.model import Route

__all__ = ["RouteReader"]

# The offsets of the family, of the destination's length, and of the other fields before the destination; the first of
# these is the length of the sources.
_FAMILY, _LENGTH, _SAID = HEADER.size, HEADER.size + 1, HEADER.size + 2
_HEADS = struct.Struct("=HHIHH")  # the table, and the header of the destination
_DST = HEADER.size + RTMSG.size + _HEADS.size
# The offset within the fields before the destination.
_HEADS_AT = _DST - _HEADS.size - _SAID
_NEXTHOP = ATTRIBUTE.pack(8, n.RTA_NH_ID)  # the first bytes of an attribute with a next hop object
_WIDTHS = {AF_OF[IPV4]: 4, AF_OF[IPV6]: 16}
# Size, family, and the length of the destination.
_OUTLINE = struct.Struct("=I12xBB")
# At most this many neighbours are read together; if there are fewer than the second number, each separately.
_MOST, _FEW = 4096, 64


class _Layout(NamedTuple):
    """Where the fields of messages of one size and family are."""

    said: struct.Struct
    network: struct.Struct
    width: int


@cache
def _layout(size: int, width: int) -> _Layout:
    rest = size - _DST - width
    words = "I" if width == 4 else "QQ"
    return _Layout(
        struct.Struct(f"={_SAID}x{_DST - _SAID}s{width}x{rest}s"), struct.Struct(f">{_DST}x{words}{rest}x"), width
    )


class RouteReader:
    """Reads routes; of those whose messages differ only in the destination, it decodes one in full."""

    def __init__(self, read: Callable[[bytes], Route], *, read_now: Callable[[bytes], Route] | None = None) -> None:
        """`read` decodes a message at any later time; `read_now` at once, for one with a next hop object."""
        self._read, self._read_now, self._shapes = read, read_now or read, Shapes()
        self._outlines: list[Outline] = []
        self._makers: dict[int, Callable[[Prefix], Route]] = {}
        # By the bytes before and after the destination of a message with the usual layout: the number of its shape.
        self._known: dict[tuple[bytes, bytes], int] = {}
        self._networks: list[int] = []
        self._lengths = bytearray()
        self._numbers = array("I")

    def table(self) -> RouteTable:
        """The routes taken so far. Must be the last call, because the table uses these columns."""
        return RouteTable(self._networks, bytes(self._lengths), self._numbers, self._shapes, outlines=self._outlines)

    def route(self, message: bytes) -> Route:
        """The route of one message, which is not added to the table."""
        number, network, length = self._look(message, 0)
        make = self._makers.get(number)
        if make is not None:
            return make(Prefix(FAMILY_OF[message[_FAMILY]], network, length))
        shape = self._shapes[number]
        self._makers[number] = routes_like(shape)
        return shape

    def take(self, data: bytes, offsets: Sequence[int]) -> None:
        """Take the messages that begin at these offsets."""
        at = 0
        while at < len(offsets):
            begin = offsets[at]
            size, _, _ = _OUTLINE.unpack_from(data, begin)
            count = _neighbours(offsets, at, size)
            if count < _FEW or not self._take_all(data[begin : begin + size * count], size, count):
                for offset in offsets[at : at + count]:
                    number, network, length = self._look(data, offset)
                    self._networks.append(network)
                    self._lengths.append(length)
                    self._numbers.append(number)
            at += count

    def _take_all(self, piece: bytes, size: int, count: int) -> bool:
        """Take adjacent messages if all of them have this size, the same family and the usual layout."""
        width = _WIDTHS.get(piece[_FAMILY], 0)
        if not width or size % 4 or size < _DST + width:
            return False
        layout, known = _layout(size, width), self._known
        if _differ_in_destination_only(piece, size, count, width):
            [said] = layout.said.iter_unpack(piece[:size])
            if said not in known and not self._learn(said, piece[:size], width):
                return False
            numbers = [known[said]] * count
        elif any(piece[at::size] != piece[at : at + 1] * count for at in (0, 1, 2, 3, _FAMILY)):
            return False
        else:
            every = list(layout.said.iter_unpack(piece))
            if not known.keys() >= set(every):
                for at, said in enumerate(every):
                    if said not in known and not self._learn(said, piece[at * size : (at + 1) * size], width):
                        return False
            numbers = list(map(known.__getitem__, every))
        self._numbers.extend(numbers)
        self._lengths += piece[_LENGTH::size]
        networks = layout.network.iter_unpack(piece)
        self._networks += chain.from_iterable(networks) if width == 4 else [high << 64 | low for high, low in networks]
        return True

    def _look(self, data: bytes, offset: int) -> tuple[int, int, int]:
        """The number of the shape of a message, and the network and length of its destination."""
        size, family, length = _OUTLINE.unpack_from(data, offset)
        width = _WIDTHS.get(family, 0)
        dst, rest = offset + _DST, offset + _DST + width
        said = (data[offset + _SAID : dst], data[rest : offset + size])
        number = self._known.get(said)
        if number is None:
            number = len(self._shapes)
            if not self._learn(said, data[offset : offset + size], width):
                prefix = self._shapes[number].prefix
                return number, prefix.network, prefix.length
        return number, int.from_bytes(data[dst:rest], "big"), length

    def _learn(self, said: tuple[bytes, bytes], message: bytes, width: int) -> bool:
        """Store a new shape; return whether its message has the usual layout."""
        if width and len(message) >= _DST + width:
            head, number, table, size, kind = _HEADS.unpack_from(said[0], _HEADS_AT)
            if (head, number, size, kind) == (8, n.RTA_TABLE, 4 + width, n.RTA_DST):
                self._known[said] = len(self._shapes)
                named = _NEXTHOP in said[1]  # or a value that looks like one, which does no harm
                self._shapes.add(self._read_now(message) if named else partial(self._read, message))
                self._outlines.append(Outline(FAMILY_OF[message[_FAMILY]], table, message[_SAID] != 0))
                return True
        route = self._read_now(message)
        self._shapes.add(route)
        self._outlines.append(Outline.of(route))
        return False


def _neighbours(offsets: Sequence[int], at: int, size: int) -> int:
    """How many messages of this size may be adjacent from here on, judged by their offsets.

    It may be too many if different sizes add up: the caller compares the size of each.
    """
    begin, size = offsets[at], size + 3 & ~3
    return bisect_left(range(min(_MOST, len(offsets) - at)), 1, key=lambda it: offsets[at + it] != begin + size * it)


def _differ_in_destination_only(piece: bytes, size: int, count: int, width: int) -> bool:
    """Whether the messages are equal without their destinations, as most are in large tables.

    This takes 2 ms for 100,000 routes; looking up the shape of each takes 20 ms.
    """
    blank = bytearray(piece)
    for at in (_LENGTH, *range(_DST, _DST + width)):
        blank[at::size] = bytes(count)
    return blank == blank[:size] * count
