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
long as any other route is left in the table. A snapshot does not show this: here every gateway is reachable.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from hostrouting.kernel._fib.packet import Sought
from hostrouting.kernel._fib.table import BITS, Entry, Table
from hostrouting.kernel._route_table import RouteTable
from hostrouting.model.prefix import IPV6, Prefix, width_of
from hostrouting.model.route import PREFERENCES, Route

_HIGHEST = 100  # no other score is as high
_EVERYWHERE = Prefix(IPV6, 0, 0)


class _Node(NamedTuple):
    """The routes of one destination prefix for one prefix of sources, or for any source.

    `entries` has the routes in the order of their metrics; those that are not usable at all are None.
    """

    source: Prefix | None
    metrics: tuple[int, ...]
    entries: tuple[Entry | None, ...]

    def best(self, sought: Sought) -> Entry | None:
        """The usable route that Linux prefers for this packet."""
        ranked: list[tuple[bool, int, Entry]] = []
        for metric, entry in zip(self.metrics, self.entries, strict=True):
            if entry is None or (sought.oif and not entry.leaves_by(sought.oif)):
                continue
            is_later, score = metric != self.metrics[0], 4 * PREFERENCES.index(entry.route.preference)
            score = _HIGHEST if entry.ends else score
            is_near = any(leg.dev == (sought.oif or sought.iif) for leg in entry.bound)
            ranked.append((is_later, -score - 2 * is_near, entry))
        return min(ranked, key=itemgetter(0, 1))[2] if ranked else None


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

    def __init__(self, routes: RouteTable, wary: frozenset[str], heeded: frozenset[str] = frozenset()) -> None:
        """Index nothing yet (`Table`)."""
        super().__init__(routes, width_of(IPV6), wary, heeded)
        self._nodes: dict[int, _Nodes] = {}

    def best(self, address: int, sought: Sought) -> Entry | None:
        """The route that the kernel prefers for this packet, if every gateway is reachable."""
        first, source, begun = self.first, sought.source or 0, False
        for host, length in self.shifts:
            key = address >> host << host + BITS | length
            if key not in first:
                continue
            nodes = self._nodes_of(key)
            if begun or not nodes.are_skipped(source):
                begun = True
                for node in nodes.around(source):
                    if (entry := node.best(sought)) is not None:
                        return entry
        return None

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
        self._nodes[key] = _Nodes(nodes, skippable=bool(key & 255))
        return self._nodes[key]

    def _entry(self, place: int, route: Route, length: int) -> Entry | None:
        """The route with its next hops that are in use; None if it is not usable."""
        legs, bound = self.in_use(route)
        # A route without any next hop is kept: its path is unknown, but it does take packets.
        return None if route.expired or (route.legs and not legs) else Entry(route, legs, bound, place, length)


def _by_length(source: Prefix | None) -> tuple[int, ...]:
    """A key that sorts the longest prefix of sources first, and "any source" last."""
    return (1,) if source is None else (-source.length, source.network)
