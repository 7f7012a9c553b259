"""Routes of one table in the order of their networks.

Here: the routes inside a range of addresses, and those around an address. Not here: which of several routes wins.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from operator import le

from hostrouting.model import Column, Prefix

__all__ = ["BITS", "Ordered", "pack"]

BITS = 8  # a prefix is packed as its network, shifted by this, plus its length


def pack(networks: Iterable[int], lengths: Iterable[int]) -> list[int]:
    """Prefixes as one number each; a block sorts before the blocks inside it."""
    return [network << BITS | length for network, length in zip(networks, lengths, strict=True)]


class Ordered:
    """A column in order; equal networks keep the order of the column.

    Only the networks are put into order, because a check reads few of the lengths and positions. They are sorted when
    that is first needed: with a default route, most checks of many routes do not need it.
    """

    def __init__(self, column: Column, width: int) -> None:
        """Sort nothing yet; `width` is the number of address bits."""
        self.column, self._width = column, width
        self._there = frozenset(column.lengths)
        self._hosts = [width - length for length in sorted(self._there)]
        # The places of the default routes.
        self._defaults = list(_places_of(0, column.lengths)) if 0 in self._there else []

    @cached_property
    def networks(self) -> list[int]:
        """The networks in order."""
        networks = self.column.networks
        return [networks[place] for place in self._order]

    @cached_property
    def _order(self) -> Sequence[int]:
        """The places in the column, in the order of the networks.

        In a list of IPv4 routes that is their own order. Linux lists an IPv6 prefix after the prefixes inside it.
        """
        networks = self.column.networks
        places = range(len(networks))
        if all(map(le, networks, islice(networks, 1, None))):
            return places
        return sorted(places, key=networks.__getitem__)

    def between(self, low: int, high: int) -> tuple[int, int]:
        """The index of the first network from `low` on, and that of the first network after `high`."""
        begin = bisect_left(self.networks, low)
        return begin, bisect_right(self.networks, high, begin)

    def packed(self, low: int, high: int) -> list[int]:
        """The prefixes that begin in low … high."""
        begin, end = self.between(low, high)
        return pack(self.networks[begin:end], [self.column.lengths[place] for place in self._order[begin:end]])

    def inside(self, prefix: Prefix) -> list[int]:
        """The positions of the routes whose prefix is this one or lies inside it."""
        begin, end = self.between(prefix.first, prefix.last)
        _, _, positions, _, lengths = self.column
        return [positions[place] for place in self._order[begin:end] if lengths[place] >= prefix.length]

    def of(self, network: int, length: int) -> list[int]:
        """The positions of the routes of exactly this prefix, in the order of the column."""
        if length not in self._there:
            return []
        if length == 0:
            return [self.column.positions[place] for place in self._defaults]
        begin, end = self.between(network, network)
        _, _, positions, _, lengths = self.column
        return [positions[place] for place in self._order[begin:end] if lengths[place] == length]

    def span(self, place: int) -> tuple[int, int]:
        """The first and the last address of the prefix at this place in the column."""
        network = self.column.networks[place]
        return network, network | (1 << self._width - self.column.lengths[place]) - 1

    def around(self, address: int) -> list[int]:
        """The indexes of the prefixes that contain the address and begin before it."""
        networks, found, before = self.networks, [], -1
        for host in self._hosts:
            network = address >> host << host
            if network == address:
                break  # the same is true for every longer prefix
            if network != before:
                before, place = network, bisect_left(networks, network)
                while place < len(networks) and networks[place] == network:
                    if self.span(self._order[place])[1] >= address:
                        found.append(place)
                    place += 1
        return found

    def covers(self, low: int, high: int) -> bool:
        """Whether one prefix contains all of low … high."""
        if self._defaults:
            return True
        begin, end = self.between(low, low)
        places = (self._order[at] for at in (*self.around(low), *range(begin, end)))
        return any(self.span(place)[1] >= high for place in places)


def _places_of(length: int, lengths: Sequence[int]) -> Iterator[int]:
    """Where this length is."""
    place = -1
    with suppress(ValueError):
        while True:
            place = lengths.index(length, place + 1)
            yield place
