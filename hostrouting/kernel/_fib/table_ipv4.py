"""IPv4's choice among the routes around an address: the longest prefix, then tos, metric and place in the list.

Here: one table, and the default routes that Linux uses in turn. Not here: the index of a table (`table`), and rules.

A lookup finds the first default route in its table. While the neighbour behind its gateway is not known to be
reachable, Linux goes on to the next default route of the same metric, and from there to the next: two devices with DHCP
are enough, and each then carries half of the packets. Neighbour state changes all the time and is not in a snapshot, so
any of these routes may decide. (The kernel's `fib_select_default`; it does not run if the route found first has several
next hops.)
"""

from collections.abc import Callable, Iterator, Sequence

from hostrouting.kernel._fib.packet import Sought, has_tos, tos_ask
from hostrouting.kernel._fib.table import BITS, Entry, Hit, Table
from hostrouting.kernel._route_table import RouteTable
from hostrouting.kernel._rule import tos_bits
from hostrouting.model.prefix import IPV4, width_of
from hostrouting.model.route import TABLE_LOCAL, NextHop, Route


class TableIPv4(Table):
    """The routes of one IPv4 table."""

    def __init__(self, routes: RouteTable, wary: frozenset[str], heeded: frozenset[str] = frozenset()) -> None:
        """Index nothing yet (`Table`)."""
        super().__init__(routes, width_of(IPV4), wary, heeded)

    def chain(self, address: int, sought: Sought) -> tuple[Hit, ...]:
        """The routes for each tos that makes a difference, then the one for all other packets."""
        entry, passed = self.best(address, sought)
        rest = () if entry is None else (Hit((), entry),)
        if not passed:
            return rest
        asked: dict[int, None] = {}
        for met in self._covering(address):
            if met is entry:
                break
            bits, *_ = tos_bits(met.route.tos)
            if bits:
                asked[bits] = None
        found: list[Hit] = []
        for bits in asked:
            ask, possible = tos_ask(bits)
            taken = self.best(address, sought._replace(tos=bits))[0] if possible else entry
            if taken is not entry:
                found.append(Hit((ask,), taken))
        return (*found, *rest)

    def _covering(self, address: int) -> Iterator[Entry]:
        """The routes that cover the address and are in use, in the kernel's order of preference."""
        first, entries = self.first, self._entries
        for host, length in self.shifts:
            key = address >> host << host + BITS | length
            if key in first:
                yield from entries.get(key) or self._enter(key)

    def best(self, address: int, sought: Sought) -> tuple[Entry | None, bool]:
        """The route that the kernel prefers for this packet, and whether an unknown tos could change it."""
        tos, oif, _, _ = sought
        first, entries, passed, hidden = self.first, self._entries, False, None
        # The same as a loop over `_covering`, which takes twice as long; most lookups end here.
        for host, length in self.shifts:
            key = address >> host << host + BITS | length
            if key in first and key >> BITS != hidden:
                for entry in entries.get(key) or self._enter(key):
                    if entry.route.tos and not has_tos(tos or 0, entry.route.tos):
                        passed = tos is None
                    elif not oif or entry.leaves_by(oif):
                        return entry, passed
                    elif entry.hides:
                        hidden = key >> BITS
                        break
        return None, passed

    def _enter(self, key: int) -> tuple[Entry, ...]:
        places = self.positions(key >> BITS, key & 255)
        entries = [self._entry(place, key & 255) for place in places]
        if len(entries) > 1:
            entries.sort(key=_rank)
            if not key & 255:
                routes = [entry.route for entry in entries]
                for place, entry in enumerate(entries):
                    entry.in_turn = taken_in_turn(routes, place, is_dead=self.is_dead)
        # A route without any next hop is kept: its path is unknown, but it does take packets.
        found = self._entries[key] = tuple([entry for entry in entries if entry.legs or not entry.route.legs])
        return found

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
    found, others = routes[place], list[Route]()
    if found.type != "unicast" or len(found.legs) != 1 or found.legs[0].gateway is None:
        return ()
    metric, tos, met = found.metric, 0, False
    for route in routes:
        if route.table != found.table or route.tos not in {0, found.tos}:
            continue
        if route.metric > metric and route.tos == tos:
            if tos:
                continue
            break
        if route.legs and all(map(is_dead, route.legs)):
            continue
        metric, tos = route.metric, route.tos
        if route.scope != found.scope or route.type != "unicast" or not route.legs or route.legs[0].gateway is None:
            continue
        if route is found:
            met = True
        elif met:
            others.append(route)
        else:
            return ()  # a route that cannot be used precedes it
    return tuple(others)
