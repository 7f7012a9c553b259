"""One routing table, indexed: the routes that cover an address, in the order in which the kernel prefers them.

Here: longest prefix, then tos, metric and place in the list. Not here: rules.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from hostrouting.fib.flow import has_tos, tos_ask
from hostrouting.fib.in_turn import taken_in_turn
from hostrouting.fib.ordered import BITS, Ordered, pack
from hostrouting.model import IPV4, TABLE_LOCAL, Column, NextHop, Route, tos_bits, width_of

__all__ = ["ERRORS", "Entry", "Table"]

# Types that end a lookup, each with its own error.
ERRORS = frozenset({"blackhole", "unreachable", "prohibit"})
_PATHLESS = ERRORS | {"throw"}
_Legs: TypeAlias = tuple[NextHop, ...]


class Entry:
    """A route as a lookup finds it, with its next hops that are in use."""

    __slots__ = ("bound", "hides", "in_turn", "legs", "length", "position", "route", "throws")

    def __init__(self, route: Route, legs: _Legs, bound: _Legs, position: int, length: int) -> None:
        """Take the route at this position of the snapshot, and the length of its prefix.

        `legs` are the next hops that may have a share of its packets, `bound` those that a bound socket can use.
        """
        self.route, self.legs, self.bound, self.position, self.length = route, legs, bound, position, length
        self.throws = route.type == "throw"
        # If a bound socket cannot use a route with a nexthop object, IPv4 skips all other routes whose network has the
        # same address (`fib_table_lookup`: goto miss).
        self.hides = route.nexthop_id is not None and route.prefix.family == IPV4
        # The default routes that Linux also uses, in alternation with this one.
        self.in_turn: tuple[Route, ...] = ()

    def leaves_by(self, dev: str) -> bool:
        """Whether a socket bound to the device can use it."""
        return self.route.type in _PATHLESS or any(leg.dev == dev for leg in self.bound)


class Table:
    """The routes of one table, by prefix. A route is read only when a lookup reaches it."""

    def __init__(
        self, routes: Sequence[Route], width: int, wary: frozenset[str], heeded: frozenset[str] = frozenset()
    ) -> None:
        """Index nothing yet; `wary` are the devices with ignore_routes_with_linkdown set.

        `heeded` are those of them that are up.
        """
        self.routes, self._width, self._wary, self._heeded = routes, width, wary, heeded
        self._columns: list[Column] = []
        self._entries: dict[int, tuple[Entry, ...]] = {}

    def add(self, column: Column) -> None:
        """Take some routes; all must be added before the first lookup."""
        self._columns.append(column)

    @cached_property
    def columns(self) -> tuple[Ordered, ...]:
        """The routes in the order of their networks."""
        return tuple([Ordered(column, self._width) for column in self._columns])

    @cached_property
    def first(self) -> dict[int, int]:
        """The position of one route of each prefix."""
        found: dict[int, int] = {}
        for column in self._columns:
            found.update(zip(pack(column.networks, column.lengths), column.positions, strict=True))
        return found

    @cached_property
    def more(self) -> dict[int, list[int]]:
        """The positions of all routes of a prefix that has several."""
        several: dict[int, list[int]] = {}
        if len(self.first) < sum(len(column.positions) for column in self._columns):
            for column in self._columns:
                packed = pack(column.networks, column.lengths)
                for key, position in zip(packed, column.positions, strict=True):
                    if self.first[key] != position:
                        several.setdefault(key, [self.first[key]]).append(position)
        return {key: sorted(places) for key, places in several.items()}

    def positions(self, network: int, length: int) -> list[int]:
        """The positions of the routes of exactly this prefix in the snapshot."""
        if "first" in self.__dict__:
            key = network << BITS | length
            return self.more.get(key) or ([self.first[key]] if key in self.first else [])
        # For a few prefixes, a full index is not worth its cost.
        return sorted([position for column in self.columns for position in column.of(network, length)])

    @cached_property
    def shifts(self) -> list[tuple[int, int]]:
        """The prefix lengths, longest first, each after the number of its host bits."""
        lengths = {length for column in self._columns for length in set(column.lengths)}
        return [(self._width - length, length) for length in sorted(lengths, reverse=True)]

    def chain(self, address: int, tos: int | None, oif: str | None) -> tuple[tuple[int, Entry | None], ...]:
        """The routes used for each tos that makes a difference, and for all other packets; for a bound device.

        The other packets have tos 0 here. For a known tos there is at most one route.
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
        """The routes that cover the address and are in use, in the kernel's order of preference."""
        first, entries = self.first, self._entries
        for host, length in self.shifts:
            key = address >> host << host + BITS | length
            if key in first:
                yield from entries.get(key) or self._enter(key)

    def best(self, address: int, tos: int, oif: str | None) -> tuple[Entry | None, bool]:
        """The route that the kernel prefers for this tos and bound device, and whether tos ruled out others."""
        first, entries, passed, hidden = self.first, self._entries, False, -1
        # The same as a loop over `_covering`, which takes twice as long; most lookups end here.
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
        """The routes of exactly this prefix that are in use, in the kernel's order of preference."""
        key = network << BITS | length
        return self._entries.get(key) or self._enter(key)

    def runs(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The places in low … high where the longest prefix around an address changes, with its key.

        The first is low itself; the key is -1 without any prefix. Prefixes nest, so a stack is enough.
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
        entries = [self._entry(place, key & 255) for place in places]
        if len(entries) > 1:
            # Table local comes first while the kernel keeps it merged with main (see `tables`).
            entries.sort(key=lambda it: (it.route.table != TABLE_LOCAL, -it.route.tos, it.route.metric, it.position))
            if not key & 255 and self._width == width_of(IPV4):
                routes = [it.route for it in entries]
                for place, entry in enumerate(entries):
                    entry.in_turn = taken_in_turn(routes, place, is_dead=self._is_dead)
        # A route without any next hop is kept: its path is unknown, but it does take packets.
        found = self._entries[key] = tuple([entry for entry in entries if entry.legs or not entry.route.legs])
        return found

    def _entry(self, place: int, length: int) -> Entry:
        route = self.routes[place]
        return Entry(route, *self._in_use(route), place, length)

    def _in_use(self, route: Route) -> tuple[_Legs, _Legs]:
        """The next hops that may have a share, and those that a bound socket can use."""
        for leg in route.legs:
            if leg.dead or leg.linkdown:
                break
        else:
            return route.legs, route.legs
        used = tuple(leg for leg in route.legs if not (leg.dead or (leg.linkdown and leg.dev in self._wary)))
        if not used or self._width != width_of(IPV4):
            return used, used
        # When the state of a device changes, IPv4 computes the shares of the next hops again, but it does not when
        # ignore_routes_with_linkdown is set. A snapshot does not show which came first, so a next hop without a carrier
        # may still have its share.
        return tuple(leg for leg in route.legs if not self._is_dead(leg)), used

    def _is_dead(self, leg: NextHop) -> bool:
        """Whether a next hop is really dead: Linux also reports dead while ignore_routes_with_linkdown applies."""
        return leg.dead and not (leg.linkdown and leg.dev in self._heeded)
