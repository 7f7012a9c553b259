"""One routing table, indexed: its prefixes, and the routes of each; the same for both families.

Here: which prefixes lie in a range, which cover an address, and where the longest one changes. Not here: which of the
routes around an address the kernel takes (`table_ipv4`, `table_ipv6`), and rules.

A table is a few columns of the snapshot, and a lookup reads a route only when it needs it. There are two indexes, each
made when it is first needed. `Ordered` has a column in the order of its networks: enough for the routes in a range, and
for a few prefixes. A dictionary of all prefixes is faster for many lookups, which try each length, the longest
first.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

from hostrouting.kernel._fib.packet import Ask, Sought
from hostrouting.kernel._route_table import Column, RouteTable
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import PATHLESS, NextHop, Route

BITS = 8  # a prefix is packed as its network, shifted by this, plus its length


def pack(networks: Iterable[int], lengths: Iterable[int]) -> list[int]:
    """Prefixes as one number each; a block sorts before the blocks inside it."""
    return [network << BITS | length for network, length in zip(networks, lengths, strict=True)]


class Ordered:
    """A column sorted by network; equal networks keep the column's order.

    Only the networks are put into order, because a check reads few of the lengths and positions. Sorting happens
    on first use: with a default route, most checks of many routes do not need it.
    """

    def __init__(self, column: Column, width: int) -> None:
        """Sort nothing yet; `width` is the number of address bits."""
        self.column, self._width = column, width
        # The lengths of the prefixes.
        self.there: frozenset[int] = column.once("lengths", partial(frozenset, column.lengths))
        self._hosts = [width - length for length in sorted(self.there)]
        # The places of the default routes.
        self._defaults = list(_places_of(0, column.lengths)) if 0 in self.there else []

    @cached_property
    def networks(self) -> list[int]:
        """The networks in order."""
        return self.column.once("ordered", partial(sorted, self.column.networks))

    @cached_property
    def _order(self) -> Sequence[int]:
        """The places in the column, in the order of the networks.

        In a list of IPv4 routes that is their own order. Linux lists an IPv6 prefix after the prefixes inside it.
        """
        return self.column.once("order", self._find_order)

    def _find_order(self) -> Sequence[int]:
        networks = self.column.networks
        places = range(len(networks))
        return places if self.networks == networks else sorted(places, key=networks.__getitem__)

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
        positions, lengths = self.column.positions, self.column.lengths
        return [positions[place] for place in self._order[begin:end] if lengths[place] >= prefix.length]

    def of(self, network: int, length: int) -> list[int]:
        """The positions of the routes of exactly this prefix, in the order of the column."""
        if length not in self.there:
            return []
        if length == 0:
            return [self.column.positions[place] for place in self._defaults]
        begin, end = self.between(network, network)
        positions, lengths = self.column.positions, self.column.lengths
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


def _first_of(columns: Iterable[Column]) -> dict[int, int]:
    found: dict[int, int] = {}
    for column in columns:
        found.update(zip(pack(column.networks, column.lengths), column.positions, strict=True))
    return found


def _places_of(length: int, lengths: Sequence[int]) -> Iterator[int]:
    """The places of the prefixes with this length."""
    place = -1
    with suppress(ValueError):
        while True:
            place = lengths.index(length, place + 1)
            yield place


Legs: TypeAlias = tuple[NextHop, ...]


class Entry:
    """A route as a lookup finds it, with its next hops that are in use."""

    __slots__ = ("bound", "ends", "hides", "in_turn", "legs", "length", "position", "route", "throws")

    def __init__(self, route: Route, legs: Legs, bound: Legs, position: int, length: int) -> None:
        """Take the route at this position of the snapshot, and the length of its prefix.

        `legs` are the next hops that may have a share of its packets, `bound` those that a bound socket can use.
        """
        self.route, self.legs, self.bound, self.position, self.length = route, legs, bound, position, length
        self.throws = route.type == "throw"
        # If a bound socket cannot use a route with a nexthop object, IPv4 skips all other routes whose network has the
        # same address (`fib_table_lookup`: goto miss).
        self.hides = route.nexthop_id is not None and route.prefix.family == IPV4
        # A nexthop object that drops packets takes all of them as soon as IPv6 reaches it in the list.
        self.ends = route.nexthop_id is not None and route.type == "blackhole"
        # The default routes that Linux also uses, in alternation with this one.
        self.in_turn: tuple[Route, ...] = ()

    def leaves_by(self, dev: str) -> bool:
        """Whether a socket bound to the device can use the route."""
        if self.route.type in PATHLESS:
            # IPv6 stores such a route on lo, which no other socket uses.
            return self.route.prefix.family == IPV4 or self.ends
        return any(leg.dev == dev for leg in self.bound)

    def through(self, legs: Legs) -> "Entry":
        """The same route for the packets that take one of these next hops."""
        return Entry(self.route, legs, legs, self.position, self.length)


class Hit(NamedTuple):
    """A route for the packets that answer yes to all of `asks`, unless an earlier hit takes them.

    Without an entry, the table has no route for these packets.
    """

    asks: tuple[Ask, ...]
    entry: Entry | None


class Table(ABC):
    """The routes of one table, by prefix. A route is read only when a lookup reaches it."""

    def __init__(self, routes: RouteTable, width: int, wary: frozenset[str], heeded: frozenset[str]) -> None:
        """Index nothing yet; `width` is the number of address bits.

        `wary` are the devices with ignore_routes_with_linkdown set, `heeded` those of them that are up.
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
        """One route of each prefix, by its position."""
        if len(self._columns) == 1:
            [column] = self._columns
            return column.once(("first", *column.positions[:1]), lambda: _first_of(self._columns))
        return _first_of(self._columns)

    @cached_property
    def more(self) -> dict[int, list[int]]:
        """The positions of a prefix's routes, if it has several."""
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
        lengths: set[int] = set().union(*(column.there for column in self.columns))
        return [(self._width - length, length) for length in sorted(lengths, reverse=True)]

    @abstractmethod
    def best(self, address: int, sought: Sought) -> tuple[Entry | None, bool]:
        """The route that a plain packet gets, and whether an unknown field could change it."""

    @abstractmethod
    def chain(self, address: int, sought: Sought) -> tuple[Hit, ...]:
        """The routes for a packet with unknown fields, each with its questions; the route for all others is last."""

    def skips(self, prefix: Prefix, sought: Sought) -> bool:  # noqa: ARG002  IPv6 needs both
        """Whether this packet skips a prefix and all its routes, a new one for any source included."""
        return False

    def in_use(self, route: Route) -> tuple[Legs, Legs]:
        """The next hops that may get packets, and those that a bound socket can use."""
        for leg in route.legs:
            if leg.dead or leg.linkdown:
                break
        else:
            return route.legs, route.legs
        used = tuple(leg for leg in route.legs if not (leg.dead or (leg.linkdown and leg.dev in self._wary)))
        if not used:
            return used, used
        # When the state of a device changes, Linux computes the shares of the next hops again, but it does not when
        # ignore_routes_with_linkdown is set. A snapshot does not show which came first, so a next hop without a carrier
        # may still have its share.
        return tuple(leg for leg in route.legs if not self.is_dead(leg)), used

    def is_dead(self, leg: NextHop) -> bool:
        """Whether a next hop is dead. Linux also reports dead while ignore_routes_with_linkdown applies."""
        return leg.dead and not (leg.linkdown and leg.dev in self._heeded)

    def of(self, network: int, length: int) -> tuple[Entry, ...]:
        """The routes of exactly this prefix that are in use, in the kernel's order of preference."""
        key = network << BITS | length
        return self._entries.get(key) or self._enter(key)

    def runs(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The places in low … high where the longest matching prefix changes, each with that prefix's key.

        The first is low itself; the key is -1 without any prefix. Prefixes nest, so a stack is enough.
        """
        around = [(self._width - length, length) for _, length in reversed(self.shifts)]
        covering = [low >> host << host + BITS | length for host, length in around]
        stack = [(high + 1, -1)]
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

    @abstractmethod
    def _enter(self, key: int) -> tuple[Entry, ...]:
        """Read the routes of this prefix that are in use, in the kernel's order of preference."""
