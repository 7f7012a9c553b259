"""One routing table, indexed: which routes cover an address, in the order in which the kernel would take them.

Here: longest prefix, then tos, metric and place in the list. Not here: rules.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

from hostrouting.fib.flow import has_tos, tos_ask
from hostrouting.fib.ordered import BITS, Ordered, pack
from hostrouting.model import IPV4, TABLE_LOCAL, Column, NextHop, Route, tos_bits

__all__ = ["ERRORS", "Entry", "Table"]

# Types that end a lookup, each with an error of its own.
ERRORS = frozenset({"blackhole", "unreachable", "prohibit"})
_PATHLESS = ERRORS | {"throw"}


class Entry:
    """A route as a lookup meets it: in use, with the legs that are."""

    __slots__ = ("hides", "legs", "length", "position", "route", "throws")

    def __init__(self, route: Route, legs: tuple[NextHop, ...], position: int, length: int) -> None:
        """Take the route at this position of the snapshot, and the length of its prefix."""
        self.route, self.legs, self.position, self.length = route, legs, position, length
        self.throws = route.type == "throw"
        # What IPv4 does where a bound socket cannot use a route by a nexthop object: it looks at no other route whose
        # network has the same address (`fib_table_lookup`: goto miss).
        self.hides = route.nexthop_id is not None and route.prefix.family == IPV4

    def leaves_by(self, dev: str) -> bool:
        """Whether a socket bound to the device can use it."""
        return self.route.type in _PATHLESS or any(leg.dev == dev for leg in self.legs)


class Table:
    """The routes of one table, by prefix. Routes are only looked at where a lookup comes by."""

    def __init__(self, routes: Sequence[Route], width: int, wary: frozenset[str]) -> None:
        """Index nothing yet; `wary` are the devices whose routes are ignored when they lose their carrier."""
        self.routes, self._width, self._wary = routes, width, wary
        self._columns: list[Column] = []
        self._entries: dict[int, tuple[Entry, ...]] = {}

    def add(self, column: Column) -> None:
        """Take some routes; all of them are there before anything is asked."""
        self._columns.append(column)

    @cached_property
    def columns(self) -> tuple[Ordered, ...]:
        """The routes by the order of their networks."""
        return tuple([Ordered(column, self._width) for column in self._columns])

    @cached_property
    def first(self) -> dict[int, int]:
        """The position of a route of each prefix."""
        found: dict[int, int] = {}
        for column in self._columns:
            found.update(zip(pack(column.networks, column.lengths), column.positions, strict=True))
        return found

    @cached_property
    def more(self) -> dict[int, list[int]]:
        """The positions of all routes of a prefix where there are several."""
        several: dict[int, list[int]] = {}
        if len(self.first) < sum(len(column.positions) for column in self._columns):
            for column in self._columns:
                packed = pack(column.networks, column.lengths)
                for key, position in zip(packed, column.positions, strict=True):
                    if self.first[key] != position:
                        several.setdefault(key, [self.first[key]]).append(position)
        return {key: sorted(places) for key, places in several.items()}

    def positions(self, network: int, length: int) -> list[int]:
        """Where the routes of exactly this prefix stand in the snapshot."""
        if "first" in self.__dict__:
            key = network << BITS | length
            return self.more.get(key) or ([self.first[key]] if key in self.first else [])
        # For a few prefixes there is no need to index all.
        return sorted([position for column in self.columns for position in column.of(network, length)])

    @cached_property
    def shifts(self) -> list[tuple[int, int]]:
        """The lengths of the prefixes, the longest first, each behind how many bits it leaves to the host."""
        lengths = {length for column in self._columns for length in set(column.lengths)}
        return [(self._width - length, length) for length in sorted(lengths, reverse=True)]

    def chain(self, address: int, tos: int | None, oif: str | None) -> tuple[tuple[int, Entry | None], ...]:
        """What is taken, for a bound device: by packets of each tos that makes a difference, and by all that are left.

        Those have the tos 0 here. For a tos that is known there is one at most.
        """
        entry, passed = self.best(address, tos or 0, oif)
        rest = () if entry is None else ((0, entry),)
        if tos is not None or not passed:
            return rest
        asked: dict[int, None] = {}
        for met in self._covering(address):
            if met is entry:
                break
            if bits := tos_bits(met.route.tos)[0]:
                asked[bits] = None
        each = [(bits, self.best(address, bits, oif)[0]) for bits in asked if tos_ask(bits)[1]]
        return (*[(bits, taken) for bits, taken in each if taken is not entry], *rest)

    def _covering(self, address: int) -> Iterator[Entry]:
        """The routes that cover the address and are in use, the one that the kernel prefers first."""
        first, entries = self.first, self._entries
        for host, length in self.shifts:
            key = address >> host << host + BITS | length
            if key in first:
                yield from entries.get(key) or self._enter(key)

    def best(self, address: int, tos: int, oif: str | None) -> tuple[Entry | None, bool]:
        """The route that the kernel prefers for this tos and bound device, and whether tos ruled out others."""
        first, entries, passed, hidden = self.first, self._entries, False, -1
        # The same as going through `_covering`, which would take twice as long; most of all lookups end here.
        for host, length in self.shifts:
            key = address >> host << host + BITS | length
            if key in first and key >> BITS != hidden:
                for entry in entries.get(key) or self._enter(key):
                    if entry.route.tos and not has_tos(tos, entry.route.tos):
                        passed = True
                    elif not oif or entry.leaves_by(oif):
                        return entry, passed
                    elif entry.hides:
                        hidden = key >> BITS
                        break
        return None, passed

    def of(self, network: int, length: int) -> tuple[Entry, ...]:
        """The routes of exactly this prefix that are in use, the one that the kernel prefers first."""
        key = network << BITS | length
        return self._entries.get(key) or self._enter(key)

    def runs(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The places in low … high at which the longest prefix around an address becomes another, with its key.

        The first is low itself; a key of -1 stands for no prefix at all. Prefixes nest, so that a stack tells them.
        """
        around = [(self._width - length, length) for _, length in reversed(self.shifts)]
        covering = [low >> host << host + BITS | length for host, length in around]
        stack = [(1 << self._width + 1, -1)]
        stack += [self._until(key) for key in covering if key in self.first and key >> BITS < low]
        place, longest = low, stack[-1][1]
        for key in sorted({key for column in self.columns for key in column.packed(low, high)}):
            network = key >> BITS
            while stack[-1][0] <= network:
                after, _ = stack.pop()
                if after > place:
                    yield place, longest
                place, longest = after, stack[-1][1]
            if network > place:
                yield place, longest
            place, longest = network, key
            stack.append(self._until(key))
        while stack[-1][0] <= high:
            after, _ = stack.pop()
            if after > place:
                yield place, longest
            place, longest = after, stack[-1][1]
        yield place, longest

    def _until(self, key: int) -> tuple[int, int]:
        """The first place after a prefix, and its key."""
        return (key >> BITS) + (1 << self._width - (key & 255)), key

    def _enter(self, key: int) -> tuple[Entry, ...]:
        places = self.positions(key >> BITS, key & 255)
        entries = [Entry(route := self.routes[place], self._in_use(route), place, key & 255) for place in places]
        if len(entries) > 1:
            # The table local comes first where the kernel keeps it and main in one (see the engine).
            entries.sort(key=lambda it: (it.route.table != TABLE_LOCAL, -it.route.tos, it.route.metric, it.position))
        # What has no leg at all goes some way that nobody told us, and takes packets there all the same.
        found = self._entries[key] = tuple([entry for entry in entries if entry.legs or not entry.route.legs])
        return found

    def _in_use(self, route: Route) -> tuple[NextHop, ...]:
        for leg in route.legs:
            if leg.dead or leg.linkdown:
                break
        else:
            return route.legs
        return tuple(leg for leg in route.legs if not (leg.dead or (leg.linkdown and leg.dev in self._wary)))
