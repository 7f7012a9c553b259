"""Many routes as columns, against the plain list of the same routes."""

import pickle
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.kernel._route_table import RouteTable
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.testing.strategies import blocks
from hostrouting.testing.strategies import routes as any_routes

ROUTES = [
    Route.to(prefix, dev=dev, protocol=protocol)
    for prefix in ("10.0.0.0/8", "10.1.0.0/16")
    for dev in ("eth0", "ib0")
    for protocol in (2, 213)
]
MANY = [Route.to(Prefix(4, number << 8, 24), dev="eth0", protocol=213) for number in range(1000)]


@st.composite
def some(draw: st.DrawFn) -> list[Route]:
    """Routes of both families, several tables and protocols; some are equal, and some differ in one field."""
    found: list[Route] = []
    for family in draw(st.lists(st.sampled_from([4, 6]), max_size=3)):
        found += draw(st.lists(any_routes(draw(blocks(family, bits=2))), max_size=6))
    others = [attrs.evolve(it, protocol=213, table=100) for it in found if draw(st.booleans())]
    return draw(st.permutations([*found, *others]))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions for which a Route was created, in that order."""
    places: list[int] = []
    make = RouteTable._make

    def noted(table: RouteTable, place: int) -> Route:
        places.append(place)
        return make(table, place)

    monkeypatch.setattr(RouteTable, "_make", noted)
    return places


def as_read(routes: Sequence[Route]) -> RouteTable:
    """A table from a backend, without any Route created yet."""
    table = RouteTable.of(routes)
    return RouteTable(table.networks, table.lengths, table.shape_numbers, table.shapes)


class TestSequence:
    """A table behaves like the tuple of its routes."""

    @given(some(), st.data())
    def test_it_is_the_tuple_of_its_routes(self, routes: list[Route], data: st.DataObject) -> None:
        """Length, positions, slices, order, equality and hash are those of the tuple, however the table was made."""
        plainly = tuple(routes)
        begin, end = data.draw(st.integers(-9, 9)), data.draw(st.integers(-9, 9))
        for table in (RouteTable.of(routes), as_read(routes), pickle.loads(pickle.dumps(as_read(routes)))):  # noqa: S301  our own
            assert (tuple(table), len(table), table[begin:end]) == (plainly, len(plainly), plainly[begin:end])
            assert [table[at] for at in range(-len(plainly), len(plainly))] == [*plainly, *plainly]
            assert table == plainly == table == RouteTable.of(plainly) != (*plainly, ROUTES[0])
            assert table != [*plainly]
            assert (hash(table), RouteTable.of(table) is table) == (hash(plainly), True)
            for at in (len(plainly), len(plainly) + 1, -len(plainly) - 1, -len(plainly) - 2):
                with pytest.raises(IndexError):
                    table[at]

    def test_few_are_shown_and_many_are_counted(self) -> None:
        """A table in an error message shows its routes, unless there are too many."""
        assert repr(RouteTable.of(MANY[:2])) == repr(tuple(MANY[:2]))
        assert repr(RouteTable.of(MANY)) == "<1000 routes>"


class TestColumns:
    """Queries about many routes at once."""

    @given(some())
    def test_each_route_is_in_one_column(self, routes: list[Route]) -> None:
        """In the columns, each position has the family, table, network and length of its route; columns are in order."""
        told = {
            place: (column.family, column.table, network, length)
            for column in as_read(routes).columns
            for place, network, length in zip(*column[2:5], strict=True)
        }
        assert [told[place] for place in range(len(routes))] == [
            (route.prefix.family, route.table, route.prefix.network, route.prefix.length) for route in routes
        ]
        columns = as_read(routes).columns
        assert sum(len(column.positions) for column in columns) == len(routes)
        assert all(list(column.positions) == sorted(column.positions) for column in columns)
        assert len({column[:2] for column in columns}) == len(columns)

    @given(some(), st.permutations(range(4)), st.sampled_from(ROUTES))
    def test_tables_one_after_the_other(self, routes: list[Route], order: list[int], sought: Route) -> None:
        """Joined in any order, they are the routes of all, with columns and answers like those of one table."""
        homes = [*dict.fromkeys((route.prefix.family, route.table) for route in routes)]
        parts = [as_read([route for route in routes if (route.prefix.family, route.table) == home]) for home in homes]
        for few in (parts, [parts[at] for at in order if at < len(parts)]):  # in the second, positions differ
            table, plainly = RouteTable.joined(few), tuple(route for part in few for route in part)
            assert table == plainly
            assert [tuple(column)[:5] for column in table.columns] == [
                tuple(column)[:5] for column in RouteTable.of(plainly).columns
            ]
            for asked in (sought.prefix, *(route.prefix for route in plainly[:2])):
                assert [*table.leading_to([asked])] == [at for at, it in enumerate(plainly) if it.prefix == asked]
            assert [*table.places(lambda outline: outline.protocol == 213)] == [
                at for at, route in enumerate(plainly) if route.protocol == 213
            ]

    @given(some())
    def test_a_shape_is_all_but_the_destination(self, routes: list[Route]) -> None:
        """Two routes have the same number exactly if they differ only in their destination."""
        table = RouteTable.of(routes)
        for at, route in enumerate(routes):
            for other, number in zip(routes, table.shape_numbers, strict=True):
                alike = route.prefix.family == other.prefix.family
                alike = alike and attrs.evolve(other, prefix=route.prefix) == route
                assert (table.shape_numbers[at] == number) is alike

    @given(some(), st.data())
    def test_some_of_them(self, routes: list[Route], data: st.DataObject) -> None:
        """Selecting by shape, by destination or by both gives the same routes as searching a list."""
        table = as_read(routes)
        here = data.draw(st.sets(st.sampled_from([route.prefix for route in routes]))) if routes else set()
        here |= {Prefix(4, 0, 0), Prefix(6, 0, 0)} if data.draw(st.booleans()) else set()
        family = data.draw(st.sampled_from([None, 4, 6]))
        number, protocol = data.draw(st.sampled_from([None, 254, 100, 0])), data.draw(st.sampled_from([None, 213, 0]))
        plainly = [
            route
            for route in routes
            if family in {None, route.prefix.family}
            and number in {None, route.table}
            and protocol in {None, route.protocol}
        ]
        assert list(table.only(family=family, table=number, protocol=protocol)) == plainly
        found = table.only(family=family, table=number, protocol=protocol, prefixes=here)
        assert list(found) == [it for it in plainly if it.prefix in here]
        assert list(table.leading_to(here)) == [at for at, it in enumerate(routes) if it.prefix in here]
        ours = table.places(lambda outline: outline.protocol == 213)
        assert list(ours) == [at for at, it in enumerate(routes) if it.protocol == 213]
        assert list(table.part(ours)) == [route for route in routes if route.protocol == 213]
