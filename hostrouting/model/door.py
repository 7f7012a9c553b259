"""The narrow doors through which the routes of a snapshot are indexed.

Here: what can be told of many routes without looking at any. Not here: how a backend comes to know it, and the index.

A backend that decodes lazily offers `keys`, so that 100,000 routes can be indexed when only a handful is ever looked
at, each of them several times; if it can, it offers `columns` and `shapes` too, or `sorts`. What a sequence does not
offer is made of what it does.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeAlias, TypeGuard, runtime_checkable

from hostrouting.model.route import Route

__all__ = [
    "Column",
    "Keyed",
    "RouteKey",
    "Shapes",
    "Sort",
    "Sorted",
    "is_keyed",
    "route_columns",
    "route_keys",
    "route_shapes",
]

# Family, table, network, length, protocol.
RouteKey: TypeAlias = tuple[int, int, int, int, int]
# Of the routes at these positions, in order, something that is equal only for routes of one type and tos whose legs are
# equal. It need not be equal for all of those.
Shapes: TypeAlias = Callable[[Sequence[int]], Iterable[Hashable]]


class Column(NamedTuple):
    """Routes of one family and table, in their order: where they stand in the snapshot, and where they lead."""

    family: int
    table: int
    positions: Sequence[int]
    networks: Sequence[int]
    lengths: Sequence[int]


class Keyed(Protocol):
    """A sequence of routes that knows where each belongs without making the routes.

    `keys()` goes through the same routes in the same order as the sequence itself.
    """

    def keys(self) -> Iterable[RouteKey]:
        """Where each route belongs."""


class _Columned(Protocol):
    """A sequence of routes that knows its columns and its shapes without making the routes."""

    def columns(self) -> Iterable[Column]:
        """Each route, in one of them."""

    def shapes(self, positions: Sequence[int]) -> Iterable[Hashable]:
        """See `Shapes`."""


class Sort(NamedTuple):
    """Routes that say the same but for their destination: one of them, where they stand, and where they lead to."""

    like: Route
    places: Sequence[int]
    prefixes: Sequence[tuple[int, int]]
    """The length and the network of each."""


@runtime_checkable
class Sorted(Protocol):
    """A sequence of routes that knows which of them are of one sort without making the routes.

    Not every route is of one, and two sorts may say the same.
    """

    def sorts(self, protocol: int) -> Sequence[Sort]:
        """The sorts of the routes of this protocol."""
        ...

    def part(self, places: Iterable[int]) -> Sequence[Route]:
        """The routes at these places only."""
        ...


# To ask isinstance about a Protocol takes longer than to index the routes of an ordinary host.


def is_keyed(routes: object) -> TypeGuard[Keyed]:
    """Whether the routes know their keys."""
    return hasattr(routes, "keys")


def _is_columned(routes: object) -> TypeGuard[_Columned]:
    return hasattr(routes, "columns") and hasattr(routes, "shapes")


def route_keys(routes: Sequence[Route]) -> Iterable[RouteKey]:
    """Where each of the routes belongs, in their order."""
    if is_keyed(routes):
        return routes.keys()
    return (
        (prefix.family, route.table, prefix.network, prefix.length, route.protocol)
        for route in routes
        for prefix in (route.prefix,)
    )


def route_columns(routes: Sequence[Route]) -> Iterable[Column]:
    """All of the routes, each in one column."""
    return routes.columns() if _is_columned(routes) else _columns(route_keys(routes))


def route_shapes(routes: Sequence[Route]) -> Shapes:
    """What tells the shapes of these routes."""
    if _is_columned(routes):
        return routes.shapes
    if is_keyed(routes):
        return iter  # to tell more than the position, the routes would have to be made

    def shapes(positions: Sequence[int]) -> Iterable[Hashable]:
        # Legs are told apart by identity, for to compare them takes as long as to judge them.
        return ((route.type, route.tos, *map(id, route.legs)) for route in map(routes.__getitem__, positions))

    return shapes


def _columns(keys: Iterable[RouteKey]) -> Iterator[Column]:
    found: dict[tuple[int, int], tuple[list[int], list[int], list[int]]] = {}
    end = 0
    for where, some in groupby(keys, itemgetter(0, 1)):
        neighbours = list(some)
        begin, end = end, end + len(neighbours)
        positions, networks, lengths = found.setdefault(where, ([], [], []))
        positions += range(begin, end)
        networks += [network for _, _, network, _, _ in neighbours]
        lengths += [length for _, _, _, length, _ in neighbours]
    for (family, table), column in found.items():
        yield Column(family, table, *column)
