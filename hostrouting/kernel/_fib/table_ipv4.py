"""IPv4's choice among the routes around an address: the longest prefix, then tos, metric and place in the list.

Here: one table, and the default routes that Linux uses in turn. Not here: the index of a table (`table`), and rules.

A lookup finds the first default route in its table. While the neighbour behind its gateway is not known to be
reachable, Linux goes on to the next default route of the same metric, and from there to the next: two devices with DHCP
are enough, and each then carries half of the packets. Neighbour state changes all the time and is not in a snapshot, so
any of these routes may decide. (The kernel's `fib_select_default`; it does not run if the route found first has several
next hops.)
"""

from collections.abc import Callable, Sequence

from hostrouting.kernel._fib.packet import Sought, has_tos
from hostrouting.kernel._fib.table import BITS, Entry, Table
from hostrouting.kernel._route_table import RouteTable
from hostrouting.model.prefix import IPV4, width_of
from hostrouting.model.route import TABLE_LOCAL, NextHop, Route


class TableIPv4(Table):
    """The routes of one IPv4 table."""

    def __init__(self, routes: RouteTable, wary: frozenset[str], heeded: frozenset[str] = frozenset()) -> None:
        """Index nothing yet (`Table`)."""
        super().__init__(routes, width_of(IPV4), wary, heeded)
        self._entries: dict[int, tuple[Entry, ...]] = {}

    def best(self, address: int, sought: Sought) -> Entry | None:
        """The route that the kernel prefers for this packet."""
        first, entries, hidden = self.first, self._entries, None
        for host, length in self.shifts:
            key = address >> host << host + BITS | length
            if key in first and key >> BITS != hidden:
                for entry in entries.get(key) or self._read(key):
                    if entry.route.tos and not has_tos(sought.tos or 0, entry.route.tos):
                        continue
                    if not sought.oif or entry.leaves_by(sought.oif):
                        return entry
                    if entry.hides:
                        hidden = key >> BITS
                        break
        return None

    def _read(self, key: int) -> tuple[Entry, ...]:
        """The routes of this prefix that are in use, in the kernel's order of preference."""
        places = self.positions(key >> BITS, key & 255)
        entries = [self._entry(place, key & 255) for place in places]
        if len(entries) > 1:
            entries.sort(key=_rank)
            if not key & 255:
                routes = [entry.route for entry in entries]
                for place, entry in enumerate(entries):
                    entry.in_turn = taken_in_turn(routes, place, is_dead=self.is_dead)
        # A route without any next hop is kept: its path is unknown, but it does take packets.
        self._entries[key] = tuple(entry for entry in entries if entry.legs or not entry.route.legs)
        return self._entries[key]

    def _entry(self, place: int, length: int) -> Entry:
        route = self.routes[place]
        return Entry(route, *self.in_use(route), place, length)


def _rank(entry: Entry) -> tuple[bool, int, int, int]:
    # Table local comes first while the kernel keeps it merged with main (see `tables`).
    return entry.route.table != TABLE_LOCAL, -entry.route.tos, entry.route.metric, entry.position


def taken_in_turn(routes: Sequence[Route], place: int, *, is_dead: Callable[[NextHop], bool]) -> tuple[Route, ...]:
    """The default routes that Linux may use instead of the one at this place.

    `routes` are all IPv4 default routes of one table, in the order in which the kernel prefers them. A route that has
    lost its carrier may be used, even if a lookup would not find it; a route that `is_dead` may not.
    """
    chosen, others = routes[place], list[Route]()
    if chosen.type != "unicast" or len(chosen.legs) != 1 or chosen.legs[0].gateway is None:
        return ()
    metric, tos, met = chosen.metric, 0, False
    for route in routes:
        if route.table != chosen.table or route.tos not in {0, chosen.tos}:
            continue
        if route.metric > metric and route.tos == tos:
            if tos:
                continue
            break
        if route.legs and all(map(is_dead, route.legs)):
            continue
        metric, tos = route.metric, route.tos
        if route.scope != chosen.scope or route.type != "unicast" or not route.legs or route.legs[0].gateway is None:
            continue
        if route is chosen:
            met = True
        elif met:
            others.append(route)
        else:
            return ()  # a route that cannot be used precedes it
    return tuple(others)
