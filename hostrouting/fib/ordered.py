"""Routes of one table in the order of their networks.

Here: the routes inside a range of addresses, and those around an address. Not here: which of several routes wins.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from hostrouting.model import Column

__all__ = ["BITS", "Ordered", "pack"]

BITS = 8  # a prefix is packed as its network, shifted by this, plus its length


def pack(networks: Iterable[int], lengths: Iterable[int]) -> list[int]:
    """Prefixes as one number each; a block sorts before the blocks inside it."""
    return [network << BITS | length for network, length in zip(networks, lengths, strict=True)]


class Ordered:
    """A column in order; equal networks keep the order of the column."""

    __slots__ = ("_everywhere", "_hosts", "_there", "_width", "lengths", "networks", "positions")

    def __init__(self, column: Column, width: int) -> None:
        """Sort the column unless it is sorted, as the kernel's lists are; `width` is the number of address bits."""
        networks = list(column.networks)
        in_order = sorted(networks)
        self.networks: Sequence[int] = column.networks
        self.lengths, self.positions, self._width = column.lengths, column.positions, width
        if in_order != networks:
            places = sorted(range(len(networks)), key=networks.__getitem__)
            self.networks = in_order
            self.lengths = [column.lengths[at] for at in places]
            self.positions = [column.positions[at] for at in places]
        self._there = frozenset(column.lengths)
        self._hosts = [width - length for length in sorted(self._there)]
        # Whether one of them is a default route.
        self._everywhere = 0 in self._there

    def between(self, low: int, high: int) -> tuple[int, int]:
        """The index of the first network from `low` on, and that of the first network after `high`."""
        begin = bisect_left(self.networks, low)
        return begin, bisect_right(self.networks, high, begin)

    def packed(self, low: int, high: int) -> list[int]:
        """The prefixes that begin in low … high."""
        begin, end = self.between(low, high)
        return pack(self.networks[begin:end], self.lengths[begin:end])

    def of(self, network: int, length: int) -> list[int]:
        """The positions of the routes of exactly this prefix, in the order of the column."""
        if length not in self._there:
            return []
        begin, end = self.between(network, network)
        return [self.positions[at] for at in range(begin, end) if self.lengths[at] == length]

    def span(self, place: int) -> tuple[int, int]:
        """The first and the last address of a prefix."""
        network = self.networks[place]
        return network, network | (1 << self._width - self.lengths[place]) - 1

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
                    if self.span(place)[1] >= address:
                        found.append(place)
                    place += 1
        return found

    def covers(self, low: int, high: int) -> bool:
        """Whether one prefix contains all of low … high."""
        begin, end = self.between(low, low)
        return self._everywhere or any(self.span(at)[1] >= high for at in (*self.around(low), *range(begin, end)))
