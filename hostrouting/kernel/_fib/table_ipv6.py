"""IPv6's choice among the matching routes: prefix and source, then metric and score, then the first usable one.

Here: one table. Not here: its index (`table`), and rules.

Four things are different from IPv4 (`fib6_node_lookup_1`, `rt6_select`, `rt6_score_route`, `fib6_backtrack`):

*Sources.* A route may be only for packets from one prefix (`from`). A destination prefix with such routes is skipped,
with all of its other routes, if none of these sources matches; the default prefix is never skipped.

*The first usable route.* Once a prefix is found, and if none of its routes is usable, the search goes on: at the same
destination prefix with shorter sources, then with its routes for any source; then at the next shorter destination
prefix. From here on, no prefix is skipped. An expired route is not usable, and for a bound socket no route by another
device is, and none that refuses packets.

*The score.* Among the routes of one prefix with the lowest metric, the preference of the router decides, then whether
the route leaves by the device that the packet came in by. If none of these is usable, all others are compared by their
score alone, whatever their metric. A route with a nexthop object that drops packets has no score: among the routes that
are compared, Linux takes it whatever the others are, and for a bound socket, too (`__find_rr_leaf`).

*Reachability.* While a host does not forward packets, Linux skips routes whose gateway it could not reach lately, as
long as any other route is left in the table. A snapshot does not show this, so such a route is a hit for packets "while
the gateway is reachable".
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from hostrouting.kernel._fib.packet import Ask, Sought, reachable_ask, source_ask
from hostrouting.kernel._fib.table import BITS, Entry, Hit, Legs, Table
from hostrouting.kernel._route_table import RouteTable
from hostrouting.model.prefix import IPV6, Prefix, width_of
from hostrouting.model.route import PATHLESS, PREFERENCES, Route

_HIGHEST = 100  # no other score is as high
_EVERYWHERE = Prefix(IPV6, 0, 0)


class _Way(NamedTuple):
    """A route, with the next hops of it that Linux ranks together."""

    entry: Entry
    legs: Legs

    @property
    def gateways(self) -> Legs:
        """The next hops, if Linux skips them while none of their gateways is reachable; else nothing."""
        is_direct = self.entry.route.type in PATHLESS or any(leg.gateway is None for leg in self.legs)
        return () if is_direct else self.legs


class _Node(NamedTuple):
    """The routes of one destination prefix for one prefix of sources, or for any source.

    `entries` has the routes in the order of their metrics; those that are not usable at all are None.
    """

    source: Prefix | None
    metrics: tuple[int, ...]
    entries: tuple[Entry | None, ...]

    def ranked(self, sought: Sought) -> list[_Way]:
        """The usable routes and next hops for this packet, in the order of Linux.

        Linux ranks each next hop: if only some of a route's are on the incoming device, the route comes twice.
        """
        ways: list[tuple[bool, int, _Way]] = []
        for metric, entry in zip(self.metrics, self.entries, strict=True):
            if entry is None or (sought.oif and not entry.leaves_by(sought.oif)):
                continue
            is_later, score = metric != self.metrics[0], 4 * PREFERENCES.index(entry.route.preference)
            score = _HIGHEST if entry.ends else score
            dev = sought.oif or sought.iif
            near = tuple(leg for leg in entry.bound if leg.dev == dev)
            far = () if sought.oif else tuple(leg for leg in entry.legs if leg.dev != dev)
            if near:
                ways.append((is_later, -score - 2, _Way(entry, near)))
            if far or not near:
                ways.append((is_later, -score, _Way(entry, far)))
        return [way for *_, way in sorted(ways, key=lambda ranked: ranked[:2])]


class _Nodes:
    """The routes of one destination prefix by their sources, usable or not."""

    def __init__(self, nodes: Sequence[_Node], *, skippable: bool) -> None:
        """Take them, longest sources first. A prefix that is not `skippable` is used for every source."""
        self.every, self._skippable = nodes, skippable and any(node.source for node in nodes)
        self._of = {node.source and (node.source.length, node.source.network): node for node in nodes}
        self._lengths = list(dict.fromkeys(node.source.length for node in nodes if node.source))

    def around(self, source: int) -> Iterator[_Node]:
        """The routes for packets from this source, longest prefix of sources first."""
        for length in self._lengths:
            host = width_of(IPV6) - length
            if (node := self._of.get((length, source >> host << host))) is not None:
                yield node
        if (node := self._of.get(None)) is not None:
            yield node

    def are_skipped(self, source: int) -> bool:
        """Whether all routes are for other sources than this one."""
        return self._skippable and all(node.source is None for node in self.around(source))


class TableIPv6(Table):
    """The routes of one IPv6 table."""

    def __init__(
        self, routes: RouteTable, wary: frozenset[str], heeded: frozenset[str] = frozenset(), *, forwarding: bool | None
    ) -> None:
        """Index nothing yet (`Table`). `forwarding`: whether the host forwards packets; None if that is not known."""
        super().__init__(routes, width_of(IPV6), wary, heeded)
        self._skips_unreachable = forwarding is not True
        self._nodes: dict[int, _Nodes] = {}

    @cached_property
    def _has_sources(self) -> bool:
        """Whether a route of the prefix is only for some sources; creates no route to find out."""
        outlines, numbers = self.routes.outlines, self.routes.shape_numbers
        if not any(outline.has_source for outline in outlines):
            return False
        return any(outlines[numbers[at]].has_source for column in self._columns for at in column.positions)

    def best(self, address: int, sought: Sought) -> tuple[Entry | None, bool]:
        """The route of a plain packet, and whether its source or an unreachable gateway could change it."""
        if not (self._has_sources or sought.oif or sought.iif or self._skips_unreachable):
            first, entries = self.first, self._entries
            for host, length in self.shifts:
                key = address >> host << host + BITS | length
                if key in first and (near := entries.get(key) or self._enter(key)):
                    return near[0], False
            return None, False
        found = list(islice(self._ordered(address, sought), 2))
        entry = found[0].entry if found else None
        unsure = (self._skips_unreachable and len(found) > 1 and bool(found[0].gateways)) or (
            sought.source is None and self._has_sources and any(self._sources(address))
        )
        return entry, unsure

    def chain(self, address: int, sought: Sought) -> tuple[Hit, ...]:
        """The routes for packets from each prefix of sources, then for all others."""
        sources = set(self._sources(address)) if sought.source is None else set()
        if not sources:
            return tuple(self._hits(address, sought, ()))
        found: list[Hit] = []
        beside = _beside({*sources, _EVERYWHERE})
        for source in sorted(beside, key=_by_length):
            if beside[source] <= source.last:
                asks = () if source == _EVERYWHERE else (source_ask(source),)
                found += self._hits(address, sought._replace(source=beside[source]), asks)
        return tuple(found)

    def skips(self, prefix: Prefix, sought: Sought) -> bool:
        """Whether all routes of the prefix are for other sources than this packet's."""
        key = prefix.network << BITS | prefix.length
        return self._has_sources and key in self.first and self._nodes_of(key).are_skipped(sought.source or 0)

    def _hits(self, address: int, sought: Sought, asks: tuple[Ask, ...]) -> Iterator[Hit]:
        """The routes for packets with a known source that answer yes to `asks`."""
        ordered = list(self._ordered(address, sought))
        if not self._skips_unreachable:
            del ordered[1:]
        for way in ordered:
            if not way.gateways:
                yield Hit(asks, way.entry)
                return
            if len(ordered) > 1:
                yield Hit((*asks, reachable_ask(way.gateways)), way.entry)
            else:
                yield Hit(asks, way.entry)
                return
        # If no gateway is reachable, the first route is used all the same.
        yield Hit(asks, ordered[0].entry if ordered else None)

    def _ordered(self, address: int, sought: Sought) -> Iterator[_Way]:
        """The usable routes for this packet, in the order in which Linux prefers them."""
        first, source, begun = self.first, sought.source or 0, False
        for host, length in self.shifts:
            key = address >> host << host + BITS | length
            if key not in first:
                continue
            nodes = self._nodes_of(key)
            if begun or not nodes.are_skipped(source):
                begun = True
                for node in nodes.around(source):
                    yield from node.ranked(sought)

    def _sources(self, address: int) -> Iterator[Prefix]:
        """The prefixes of sources for which the table has routes around this address."""
        for host, length in self.shifts:
            key = address >> host << host + BITS | length
            if key in self.first:
                yield from (node.source for node in self._nodes_of(key).every if node.source is not None)

    def _enter(self, key: int) -> tuple[Entry, ...]:
        places = self.positions(key >> BITS, key & 255)
        found: tuple[Entry, ...]
        if len(places) == 1:  # the case of nearly every prefix
            entry = self._entry(places[0], self.routes[places[0]], key & 255)
            found = () if entry is None else (entry,)
        else:
            found = tuple([way.entry for node in self._nodes_of(key).every for way in node.ranked(Sought())])
        self._entries[key] = found
        return found

    def _nodes_of(self, key: int) -> _Nodes:
        """All routes of this prefix, if it has any."""
        known = self._nodes.get(key)
        if known is not None:
            return known
        routes = [(place, self.routes[place]) for place in self.positions(key >> BITS, key & 255)]
        routes.sort(key=lambda placed: placed[1].metric)
        of_source: dict[Prefix | None, list[tuple[int, Entry | None]]] = {}
        for place, route in routes:
            of_source.setdefault(route.source, []).append((route.metric, self._entry(place, route, key & 255)))
        nodes = [_Node(source, *zip(*of_source[source], strict=True)) for source in sorted(of_source, key=_by_length)]
        found = self._nodes[key] = _Nodes(nodes, skippable=bool(key & 255))
        return found

    def _entry(self, place: int, route: Route, length: int) -> Entry | None:
        """The route with its next hops that are in use; None if it is not usable."""
        legs, bound = self.in_use(route)
        # A route without any next hop is kept: its path is unknown, but it does take packets.
        return None if route.expired or (route.legs and not legs) else Entry(route, legs, bound, place, length)


def _by_length(source: Prefix | None) -> tuple[int, ...]:
    """A key that sorts the longest prefix of sources first, and "any source" last."""
    return (1,) if source is None else (-source.length, source.network)


def _beside(sources: Iterable[Prefix]) -> dict[Prefix, int]:
    """The first address of each prefix that is outside the others inside it; one past its end if there is none."""
    found: dict[Prefix, int] = {}
    around: list[Prefix] = []
    for prefix in sorted(sources):  # a prefix before those inside it
        while around and around[-1].last < prefix.first:
            around.pop()
        if around and found[around[-1]] == prefix.first:
            found[around[-1]] = prefix.last + 1
        found[prefix] = prefix.first
        around.append(prefix)
    return found
