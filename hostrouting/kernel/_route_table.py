"""Many routes in compact form: the prefix of each, and the number of its shape.

Here: the columns, and a table after some routes were added, changed or deleted. Not here: how a backend fills the
columns, and which of several routes wins (`hostrouting.kernel._fib`).

The shape of a route is everything except its destination: devices, gateways, metric, protocol and so on. A table of
100,000 routes has about ten different shapes. So a RouteTable has three columns with one item for each route: the
network and the length of its prefix, and the number of its shape. The shapes are kept separately, each as the first
route with that shape. Code that reads, indexes, compares or checks many routes uses the columns; a Route is only
created when a single route is accessed.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, compress, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import attrs

from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_SAID = tuple(field.name for field in attrs.fields(Route) if field.name != "prefix")
_says = attrgetter(*_SAID)


class Shapes(Sequence[Route]):
    """Shapes by their numbers; some are only created on first access.

    Why: on a small host nearly every route has a different shape, and few of them are accessed.
    """

    def __init__(self, known: Iterable[Route | Callable[[], Route]] = ()) -> None:
        """Start with these shapes, or functions that create them."""
        self._known = list(known)
        self._numbers: dict[tuple[object, ...], int] = {}

    def number_of(self, route: Route) -> int:
        """The number of this route's shape; a shape that this method has not seen before is added.

        Shapes added in other ways are not searched: such a shape gets a second number here.
        """
        number = self._numbers.setdefault(shape_of(route), len(self._known))
        if number == len(self._known):
            self._known.append(route)
        return number

    def add(self, shape: Route | Callable[[], Route]) -> None:
        """Add one more shape with the next number."""
        self._known.append(shape)

    def extend(self, others: "Shapes") -> None:
        """Add these shapes with the next numbers."""
        self._known += others._known

    def copy(self) -> "Shapes":
        """A copy with the same shapes and numbers."""
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
    """The fields of the shape: equal for two routes that differ only in their destination."""
    return (route.prefix.family, *_says(route))


class Outline(NamedTuple):
    """What is known of a shape before it is created."""

    family: int
    table: int
    protocol: int
    has_source: bool
    """Whether its routes are only for packets from one prefix of sources."""
    is_unicast: bool

    @classmethod
    def of(cls, shape: Route) -> "Outline":
        """The outline of a shape that is there."""
        return cls(shape.prefix.family, shape.table, shape.protocol, shape.source is not None, shape.type == "unicast")


def _places_of(column: "Column", near: Collection[tuple[int, int]]) -> list[int]:
    """The places of these networks and lengths in the column."""
    found = map(near.__contains__, zip(column.networks, column.lengths, strict=True))
    return list(compress(range(len(column.networks)), found))


def routes_like(shape: Route) -> Callable[[Prefix], Route]:
    """A function that makes routes of this shape, in a third of the time of attrs.evolve."""
    return partial(Route, **dict(zip(_SAID, _says(shape), strict=True)))


class Column(NamedTuple):
    """Routes of one family and table, in order: their positions in the RouteTable, and their prefixes."""

    family: int
    table: int
    positions: Sequence[int]
    networks: Sequence[int]
    lengths: Sequence[int]
    known: dict[object, Any]
    """What was worked out from networks and lengths, for every table with these routes: they may be many."""

    def once(self, key: object, make: Callable[[], T]) -> T:
        """What `make` returns; it is called once for a key."""
        if key not in self.known:
            self.known[key] = make()
        found: T = self.known[key]
        return found

    def moved(self, by: int) -> "Column":
        """The same routes, so many positions later."""
        at = self.positions
        return self._replace(
            positions=range(at.start + by, at.stop + by) if isinstance(at, range) else [place + by for place in at]
        )


class RouteTable(Sequence[Route]):
    """Immutable routes in the kernel's order; equal to a tuple of equal routes."""

    def __init__(
        self,
        networks: Sequence[int],
        lengths: Sequence[int],
        numbers: Sequence[int],
        shapes: Shapes,
        *,
        outlines: Sequence[Outline] | None = None,
    ) -> None:
        """Use these columns, all of one length, and these shapes; the caller must not change them afterwards.

        `outlines` are those of the shapes, for a caller that knows them without creating a shape.

        Two shapes may be equal; then two routes with equal shapes have different numbers.
        """
        self.networks, self.lengths, self.shape_numbers, self.shapes = networks, lengths, numbers, shapes
        self._outlines = outlines
        # Runs of shapes, and the positions of the routes that have them.
        self._runs = [(range(len(shapes)), range(len(numbers)))]
        # Routes already created, by position: a check and a plan access some of them several times.
        self._made: dict[int, Route] = {}
        self._routes_likes: dict[int, Callable[[Prefix], Route]] = {}

    @classmethod
    def of(cls, routes: Iterable[Route]) -> "Self":
        """A table of these routes; a RouteTable is returned unchanged."""
        if isinstance(routes, cls):
            return routes
        kept = tuple(routes)
        shapes = Shapes()
        numbers = [shapes.number_of(route) for route in kept]
        prefixes = [route.prefix for route in kept]
        networks, lengths = [prefix.network for prefix in prefixes], [prefix.length for prefix in prefixes]
        table = cls(networks, lengths, numbers, shapes)
        table._made = dict(enumerate(kept))
        return table

    @classmethod
    def joined(cls, tables: Iterable["RouteTable"]) -> "RouteTable":
        """The routes of these tables, one after the other."""
        parts = [table for table in tables if len(table)]
        if len(parts) == 1:
            return parts[0]
        networks, lengths, numbers, shapes = list[int](), bytearray(), array("I"), Shapes()
        outlines, columns, runs = list[Outline](), list[Column](), list[tuple[range, range]]()
        for part in parts:
            begin, first = len(networks), len(shapes)
            runs.append((range(first, first + len(part.shapes)), range(begin, begin + len(part))))
            networks += part.networks
            lengths += bytes(part.lengths)
            numbers.extend([number + first for number in part.shape_numbers] if first else part.shape_numbers)
            shapes.extend(part.shapes)
            outlines += part.outlines
            columns += (column.moved(begin) for column in part.columns)
        table = cls(networks, bytes(lengths), numbers, shapes, outlines=outlines)
        table.__dict__["columns"] = tuple(columns)  # those of the parts, which need not be looked for again
        table._runs = runs
        return table

    def places(self, is_wanted: Callable[[Outline], bool]) -> Sequence[int]:
        """The positions of the routes whose outline satisfies the predicate, in order; called once for each shape."""
        wanted = {number for number, outline in enumerate(self.outlines) if is_wanted(outline)}
        if len(wanted) == len(self.shapes):
            return range(len(self))
        found: list[int] = []
        for numbers, run in self._runs:
            if not wanted.isdisjoint(numbers):
                found += compress(run, map(wanted.__contains__, self.shape_numbers[run.start : run.stop]))
        return found

    def leading_to(self, prefixes: Iterable[Prefix]) -> Sequence[int]:
        """The positions of the routes to exactly these prefixes, in order."""
        wanted = set(prefixes)
        near = {(prefix.network, prefix.length) for prefix in wanted}
        return sorted(
            at
            for column in self.columns
            for at in map(column.positions.__getitem__, column.once(frozenset(near), partial(_places_of, column, near)))
            if self._prefix(at) in wanted
        )

    def only(
        self,
        *,
        family: int | None = None,
        table: int | None = None,
        protocol: int | None = None,
        prefixes: Collection[Prefix] | None = None,
    ) -> "RouteTable":
        """The routes with this family, table and protocol, and to these prefixes; None means any."""
        asked = (family, table, protocol)

        def is_wanted(outline: Outline) -> bool:
            return all(one in {None, its} for one, its in zip(asked, outline[:3], strict=True))

        found = self if asked == (None, None, None) else self.part(self.places(is_wanted))
        return found if prefixes is None else found.part(found.leading_to(prefixes))

    def part(self, places: Sequence[int]) -> "RouteTable":
        """Only the routes at these positions, which must be sorted and unique."""
        if len(places) == len(self):
            return self
        networks, lengths, numbers = (
            [column[at] for at in places] for column in (self.networks, self.lengths, self.shape_numbers)
        )
        return RouteTable(networks, lengths, numbers, self.shapes, outlines=self._outlines)

    @property
    def outlines(self) -> Sequence[Outline]:
        """The outline of each shape."""
        if self._outlines is None:
            self._outlines = list(map(Outline.of, self.shapes))
        return self._outlines

    @cached_property
    def ends(self) -> frozenset[object]:
        """The devices and the source addresses of the routes."""
        return frozenset(chain.from_iterable((shape.prefsrc, *shape.devs) for shape in self.shapes)) - {None}

    @cached_property
    def expires(self) -> bool:
        """Whether one of the routes expires."""
        return any(shape.expires is not None for shape in self.shapes)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All routes, with one column for each family and table."""
        if not len(self):
            return ()
        homes = [(outline.family, outline.table) for outline in self.outlines]
        if len(set(homes)) == 1:
            return (Column(*homes[0], range(len(self)), self.networks, self.lengths, {}),)
        runs: dict[tuple[int, int], list[range]] = {}
        end = 0
        for home, run in groupby(map(homes.__getitem__, self.shape_numbers)):
            begin, end = end, end + len(list(run))
            runs.setdefault(home, []).append(range(begin, end))
        return tuple(self._column(*home, places) for home, places in runs.items())

    def _column(self, family: int, table: int, runs: list[range]) -> Column:
        if len(runs) == 1:
            [run] = runs
            return Column(
                family, table, run, self.networks[run.start : run.stop], self.lengths[run.start : run.stop], {}
            )
        places = list(chain.from_iterable(runs))
        return Column(
            family, table, places, [self.networks[at] for at in places], [self.lengths[at] for at in places], {}
        )

    def _prefix(self, place: int) -> Prefix:
        return Prefix(self.outlines[self.shape_numbers[place]].family, self.networks[place], self.lengths[place])

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
        found = self._made.get(place)
        if found is None:
            place = range(len(self))[place]
            found = self._made.get(place) or self._made.setdefault(place, self._make(place))
        return found

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


_SHOWN = 100  # a longer table only prints its length


def _row(route: Route, shapes: Shapes) -> tuple[int, int, int]:
    return (route.prefix.network, route.prefix.length, shapes.number_of(route))
