"""Routes out of messages, many at a time: what a hundred thousand say, learned from reading few of them.

A message is struct nlmsghdr and struct rtmsg, then attributes; the kernel puts the table and the destination first.
What is left of a message when its destination is cut out tells its shape: the first such message is read whole, the
others have its number. Neighbours of one size are taken at once, for what each of them has in the same place is a slice
of the bytes. A message that is built in another way is read whole.
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
from hostrouting.model import IPV4, IPV6, Prefix, RouteTable, Shapes, routes_like

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostrouting.model import Route

__all__ = ["RouteReader"]

# Where the family is, the length of the destination, what else is said before the destination, and the destination.
_FAMILY, _LENGTH, _SAID = HEADER.size, HEADER.size + 1, HEADER.size + 2
_HEADS = struct.Struct("=HHIHH")  # the table, and the head of the destination
_DST = HEADER.size + RTMSG.size + _HEADS.size
# Within what is said before the destination.
_HEADS_AT = _DST - _HEADS.size - _SAID
_NEXTHOP = ATTRIBUTE.pack(8, n.RTA_NH_ID)  # what an attribute begins with that names a next hop object
_WIDTHS = {AF_OF[IPV4]: 4, AF_OF[IPV6]: 16}
# Its size, family, and the length of its destination.
_OUTLINE = struct.Struct("=I12xBB")
# So many neighbours are looked for at once; and where there are fewer, each is taken by itself.
_MOST, _FEW = 4096, 64


class _Layout(NamedTuple):
    """Where messages of one size and family have what."""

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
    """Reads routes; of those whose messages differ by the destination only, it reads one whole."""

    def __init__(self, read: Callable[[bytes], Route], *, read_now: Callable[[bytes], Route] | None = None) -> None:
        """`read` makes the route of a message, at any time; `read_now` at once, of one that names a next hop object."""
        self._read, self._read_now, self._shapes = read, read_now or read, Shapes()
        self._homes: list[tuple[int, int]] = []
        self._makers: dict[int, Callable[[Prefix], Route]] = {}
        # By what a message of the usual build says before and behind its destination, the number of its shape.
        self._known: dict[tuple[bytes, bytes], int] = {}
        self._networks: list[int] = []
        self._lengths = bytearray()
        self._numbers = array("I")

    def table(self) -> RouteTable:
        """The routes of all that was taken; the last call, for the table has these very columns."""
        return RouteTable(self._networks, bytes(self._lengths), self._numbers, self._shapes, homes=self._homes)

    def route(self, message: bytes) -> Route:
        """The route of one message, which is not taken."""
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
        """Take messages that are one behind the other, if all of them are of this size, one family and usual."""
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
        """Take note of a shape that has not come by; whether its message is of the usual build."""
        if width and len(message) >= _DST + width:
            head, number, table, size, kind = _HEADS.unpack_from(said[0], _HEADS_AT)
            if (head, number, size, kind) == (8, n.RTA_TABLE, 4 + width, n.RTA_DST):
                self._known[said] = len(self._shapes)
                named = _NEXTHOP in said[1]  # or a value that looks like it, which does no harm
                self._shapes.add(self._read_now(message) if named else partial(self._read, message))
                self._homes.append((FAMILY_OF[message[_FAMILY]], table))
                return True
        route = self._read_now(message)
        self._shapes.add(route)
        self._homes.append((route.prefix.family, route.table))
        return False


def _neighbours(offsets: Sequence[int], at: int, size: int) -> int:
    """How many messages of this size may be one behind the other from here on, by where they begin.

    It may be too many, where sizes differ and add up: whoever takes them compares the size of each.
    """
    begin, size = offsets[at], size + 3 & ~3
    return bisect_left(range(min(_MOST, len(offsets) - at)), 1, key=lambda it: offsets[at + it] != begin + size * it)


def _differ_in_destination_only(piece: bytes, size: int, count: int, width: int) -> bool:
    """Whether with the destinations blanked the messages are one and the same, as in large tables they mostly are.

    To know it of 100,000 routes takes 2 ms, and to look up the shape of each takes 20.
    """
    blank = bytearray(piece)
    for at in (_LENGTH, *range(_DST, _DST + width)):
        blank[at::size] = bytes(count)
    return blank == blank[:size] * count
