"""Many routes: a prefix each, and what they say apart from it.

A table of 100,000 routes says about ten different things: by which devices and gateways, with which metric, from whom.
That is a route's shape: all of it but its destination. So a RouteTable has three columns, one item for each route: the
network and the length of its prefix, and the number of its shape. Beside them are the shapes, each as the first route
that has it. To read, index, compare or judge many routes takes their columns; a Route is made where one is looked at.

Here: the columns, and a table after some routes were added, changed or taken away. Not here: how a backend fills the
columns, and which of several routes wins (`hostrouting.fib`).
"""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, compress, groupby
from operator import attrgetter
from typing import NamedTuple, Self, TypeAlias, overload

import attrs

from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route

__all__ = ["Column", "RouteEdits", "RouteTable", "Shapes", "routes_like", "shape_of"]

# What the kernel tells routes apart by, as in Route.key.
_Key: TypeAlias = tuple[int, Prefix, int, int]
_SAID = tuple(field.name for field in attrs.fields(Route) if field.name != "prefix")
_says = attrgetter(*_SAID)


class Shapes(Sequence[Route]):
    """Shapes by their numbers, some of which are made when somebody looks at them.

    Why: most routes of a small host have a shape of their own, and few of them are looked at.
    """

    def __init__(self, known: Iterable[Route | Callable[[], Route]] = ()) -> None:
        """Take the shapes, or what makes them."""
        self._known = list(known)
        self._numbers: dict[tuple[object, ...], int] = {}

    def number_of(self, route: Route) -> int:
        """The number of this route's shape, which is added if it was not asked for before.

        Those that came by another way are not searched: a shape that is among them gets a second number.
        """
        number = self._numbers.setdefault(shape_of(route), len(self._known))
        if number == len(self._known):
            self._known.append(route)
        return number

    def add(self, shape: Route | Callable[[], Route]) -> None:
        """Take one more, which has the next number."""
        self._known.append(shape)

    def copy(self) -> "Shapes":
        """The same ones, to which others can be added."""
        return Shapes(self._known)

    def __len__(self) -> int:
        return len(self._known)

    @overload
    def __getitem__(self, number: int) -> Route: ...
    @overload
    def __getitem__(self, number: slice) -> list[Route]: ...

    def __getitem__(self, number: int | slice) -> Route | list[Route]:
        if isinstance(number, slice):
            return [self[at] for at in range(len(self))[number]]
        shape = self._known[number]
        if not isinstance(shape, Route):
            shape = self._known[number] = shape()
        return shape


def shape_of(route: Route) -> tuple[object, ...]:
    """What is equal for routes that differ in nothing but their destination."""
    return (route.prefix.family, *_says(route))


def _home(shape: Route) -> tuple[int, int]:
    return (shape.prefix.family, shape.table)


def routes_like(shape: Route) -> Callable[[Prefix], Route]:
    """What makes routes of this shape, in a third of the time that attrs.evolve takes."""
    return partial(Route, **dict(zip(_SAID, _says(shape), strict=True)))


class Column(NamedTuple):
    """Routes of one family and table, in their order: where they stand in the whole, and where they lead."""

    family: int
    table: int
    positions: Sequence[int]
    networks: Sequence[int]
    lengths: Sequence[int]


class RouteTable(Sequence[Route]):
    """Routes in the kernel's order, which do not change; equal to a tuple of equal routes."""

    def __init__(
        self,
        networks: Sequence[int],
        lengths: Sequence[int],
        numbers: Sequence[int],
        shapes: Shapes,
        *,
        homes: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Take the columns, of one length, and the shapes by their numbers; nobody may change them afterwards.

        `homes` are the shapes' families and tables, for those who know them without looking at a shape.

        Two shapes may be equal, and then two routes of equal shape have different numbers.
        """
        self.networks, self.lengths, self.shape_numbers, self.shapes = networks, lengths, numbers, shapes
        self._homes = homes
        # Those that somebody has looked at by their place, for a check and a plan look at some several times.
        self._made: dict[int, Route] = {}
        self._routes_likes: dict[int, Callable[[Prefix], Route]] = {}

    @classmethod
    def of(cls, routes: Iterable[Route]) -> Self:
        """A table of these routes; a table is itself."""
        if isinstance(routes, cls):
            return routes
        kept = tuple(routes)
        shapes = Shapes()
        numbers = [shapes.number_of(route) for route in kept]
        prefixes = [route.prefix for route in kept]
        networks, lengths = [it.network for it in prefixes], [it.length for it in prefixes]
        table = cls(networks, lengths, numbers, shapes)
        table._made = dict(enumerate(kept))
        return table

    def places(self, is_wanted: Callable[[Route], bool]) -> Sequence[int]:
        """Where the routes stand whose shape is wanted: asked once for each shape, in order."""
        wanted = {number for number, shape in enumerate(self.shapes) if is_wanted(shape)}
        if len(wanted) == len(self.shapes):
            return range(len(self))
        return [at for at, number in enumerate(self.shape_numbers) if number in wanted] if wanted else ()

    def leading_to(self, prefixes: Iterable[Prefix]) -> Sequence[int]:
        """Where the routes to exactly these prefixes stand, in order."""
        wanted = set(prefixes)
        near = {(prefix.network, prefix.length) for prefix in wanted}
        found = compress(range(len(self)), map(near.__contains__, zip(self.networks, self.lengths, strict=True)))
        return [at for at in found if self._prefix(at) in wanted]

    def only(
        self,
        *,
        family: int | None = None,
        table: int | None = None,
        protocol: int | None = None,
        prefixes: Collection[Prefix] | None = None,
    ) -> "RouteTable":
        """The routes of this family, table and protocol, and to these prefixes; None stands for any."""
        asked = (family, table, protocol)

        def is_wanted(shape: Route) -> bool:
            its = (shape.prefix.family, shape.table, shape.protocol)
            return all(one in {None, it} for one, it in zip(asked, its, strict=True))

        # To ask nothing of a shape leaves it unread.
        found = self.part(self.places(is_wanted)) if any(one is not None for one in asked) else self
        return found if prefixes is None else found.part(found.leading_to(prefixes))

    def part(self, places: Sequence[int]) -> "RouteTable":
        """The routes at these places only, which are in order, each once."""
        if len(places) == len(self):
            return self
        networks, lengths, numbers = (
            [column[at] for at in places] for column in (self.networks, self.lengths, self.shape_numbers)
        )
        return RouteTable(networks, lengths, numbers, self.shapes, homes=self._homes)

    @property
    def homes(self) -> Sequence[tuple[int, int]]:
        """The family and the table of each shape."""
        if self._homes is None:
            self._homes = list(map(_home, self.shapes))
        return self._homes

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All of the routes, those of each family and table in one column."""
        if not len(self):
            return ()
        homes = self.homes
        if len(set(homes)) == 1:
            return (Column(*homes[0], range(len(self)), self.networks, self.lengths),)
        runs: dict[tuple[int, int], list[range]] = {}
        end = 0
        for home, run in groupby(map(homes.__getitem__, self.shape_numbers)):
            begin, end = end, end + len(list(run))
            runs.setdefault(home, []).append(range(begin, end))
        return tuple(self._column(*home, places) for home, places in runs.items())

    def _column(self, family: int, table: int, runs: list[range]) -> Column:
        if len(runs) == 1:
            [run] = runs
            return Column(family, table, run, self.networks[run.start : run.stop], self.lengths[run.start : run.stop])
        places = list(chain.from_iterable(runs))
        return Column(family, table, places, [self.networks[at] for at in places], [self.lengths[at] for at in places])

    def _prefix(self, place: int) -> Prefix:
        return Prefix(self.homes[self.shape_numbers[place]][0], self.networks[place], self.lengths[place])

    def _make(self, place: int) -> Route:
        number, network, length = self.shape_numbers[place], self.networks[place], self.lengths[place]
        shape = self.shapes[number]
        if (shape.prefix.network, shape.prefix.length) == (network, length):
            return shape
        make = self._routes_likes.get(number) or self._routes_likes.setdefault(number, routes_like(shape))
        return make(Prefix(shape.prefix.family, network, length))

    def __len__(self) -> int:
        return len(self.shape_numbers)

    @overload
    def __getitem__(self, place: int) -> Route: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Route, ...]: ...

    def __getitem__(self, place: int | slice) -> Route | tuple[Route, ...]:
        if isinstance(place, slice):
            return tuple([self._made.get(at) or self._make(at) for at in range(len(self))[place]])
        place = range(len(self))[place]
        return self._made.get(place) or self._made.setdefault(place, self._make(place))

    def __iter__(self) -> Iterator[Route]:
        made = self._made
        return (made.get(at) or self._make(at) for at in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | RouteTable):
            return NotImplemented
        if self is other:
            return True
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self)) if len(self) <= _SHOWN else f"<{len(self)} routes>"


_SHOWN = 100  # more routes than these are not spelled out


class RouteEdits:
    """A table to which changes are made one after the other; a change costs what it touches.

    To begin and to end goes through the whole table once. Each route has a place; those that were put before all others
    have negative ones.
    """

    def __init__(self, base: RouteTable, *, about: Iterable[Route]) -> None:
        """Take the table, and which routes are going to be looked for in it; no other one is found."""
        self._base = base
        self._changed: dict[int, Route | None] = {}
        self._before: list[Route] = []
        self._after: list[Route] = []
        # The places of those that hold a key, in order.
        self._holding: dict[_Key, list[int]] = {route.key: [] for route in about}
        if self._holding:
            for place in base.leading_to({prefix for _, prefix, _, _ in self._holding}):
                if (holding := self._holding.get(base[place].key)) is not None:
                    holding.append(place)

    def holders(self, route: Route) -> list[Route]:
        """The routes of the same key as they are now, in order."""
        return [it for place in self._holding.get(route.key, ()) if (it := self._at(place)) is not None]

    def put(self, route: Route, *, first: bool = False) -> None:
        """Add a route behind all others, or before them."""
        if first:
            self._before.append(route)
            place = -len(self._before)
        else:
            self._after.append(route)
            place = len(self._base) + len(self._after) - 1
        places = self._holding.get(route.key, [])
        places.insert(0 if first else len(places), place)

    def change(self, old: Route, new: Route | None, *, last: bool = False) -> None:
        """Have another route, or none, in the place of the first that is `old`, or of the last; ValueError for none."""
        places = self._holding.get(old.key, [])
        place = next((it for it in (reversed(places) if last else places) if self._at(it) == old), None)
        if place is None:
            raise ValueError(f"{old} is not there")
        self._changed[place] = new
        places.remove(place)
        if new is not None and (there := self._holding.get(new.key)) is not None:
            insort(there, place)

    def _at(self, place: int) -> Route | None:
        if place in self._changed:
            return self._changed[place]
        if place < 0:
            return self._before[-place - 1]
        size = len(self._base)
        return self._base[place] if place < size else self._after[place - size]

    def table(self) -> RouteTable:
        """All of the routes as they are now."""
        base, size = self._base, len(self._base)
        shapes = base.shapes.copy()
        columns = [list(base.networks), list(base.lengths), list(base.shape_numbers)]
        changed = {place: route for place, route in self._changed.items() if 0 <= place < size}
        for place, route in changed.items():
            if route is not None:
                for column, value in zip(columns, _row(route, shapes), strict=True):
                    column[place] = value
        if gone := {place for place, route in changed.items() if route is None}:
            stays = [place not in gone for place in range(size)]
            columns = [list(compress(column, stays)) for column in columns]
        for route in self._left(range(size, size + len(self._after))):
            for column, value in zip(columns, _row(route, shapes), strict=True):
                column.append(value)
        before = [_row(route, shapes) for route in self._left(range(-len(self._before), 0))]
        if before:
            columns = [[*new, *column] for new, column in zip(zip(*before, strict=True), columns, strict=True)]
        networks, lengths, numbers = columns
        homes = [*base.homes, *map(_home, shapes[len(base.shapes) :])]
        return RouteTable(networks, lengths, numbers, shapes, homes=homes)

    def _left(self, places: range) -> list[Route]:
        return [route for place in places if (route := self._at(place)) is not None]


def _row(route: Route, shapes: Shapes) -> tuple[int, int, int]:
    return (route.prefix.network, route.prefix.length, shapes.number_of(route))
