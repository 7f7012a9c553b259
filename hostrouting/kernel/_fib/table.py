"""One routing table, indexed: its prefixes, and the routes of each; the same for both families.

Not here: which of the routes around an address the kernel takes (`table_ipv4`, `table_ipv6`), and rules.

A table is a few columns of the snapshot, and a lookup reads a route only when it needs it: it tries the networks
around the address in a dictionary of all prefixes, the longest first.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import TypeAlias

from hostrouting.kernel._fib.packet import Sought
from hostrouting.kernel._route_table import Column, RouteTable
from hostrouting.model.prefix import IPV4
from hostrouting.model.route import PATHLESS, NextHop, Route

BITS = 8  # a prefix is packed as its network, shifted by this, plus its length


def pack(networks: Iterable[int], lengths: Iterable[int]) -> list[int]:
    """Prefixes as one number each; a block sorts before the blocks inside it."""
    return [network << BITS | length for network, length in zip(networks, lengths, strict=True)]


def _first_of(columns: Iterable[Column]) -> dict[int, int]:
    positions: dict[int, int] = {}
    for column in columns:
        positions.update(zip(pack(column.networks, column.lengths), column.positions, strict=True))
    return positions


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


class Table(ABC):
    """The routes of one table, by prefix. A route is read only when a lookup reaches it."""

    def __init__(self, routes: RouteTable, width: int, wary: frozenset[str], heeded: frozenset[str]) -> None:
        """Index nothing yet; `width` is the number of address bits.

        `wary` are the devices with ignore_routes_with_linkdown set, `heeded` those of them that are up.
        """
        self.routes, self._width, self._wary, self._heeded = routes, width, wary, heeded
        self._columns: list[Column] = []

    def add(self, column: Column) -> None:
        """Take some routes; all must be added before the first lookup."""
        self._columns.append(column)

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
        key = network << BITS | length
        return self.more.get(key) or ([self.first[key]] if key in self.first else [])

    @cached_property
    def shifts(self) -> list[tuple[int, int]]:
        """The prefix lengths, longest first, each after the number of its host bits."""
        lengths: set[int] = set().union(*(column.lengths for column in self._columns))
        return [(self._width - length, length) for length in sorted(lengths, reverse=True)]

    @abstractmethod
    def best(self, address: int, sought: Sought) -> Entry | None:
        """The route for this packet; None if the table has none."""

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
