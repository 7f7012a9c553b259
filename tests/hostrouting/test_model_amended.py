"""A list of routes, changed one after the other, against a plain list that is changed the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.model import Prefix, Route, RouteKey, Snapshot, route_columns, route_keys
from hostrouting.model.followed import Followed
from hostrouting.plan import RoutePlan, Step

ROUTES = [
    Route.to(prefix, dev=dev, protocol=protocol)
    for prefix in ("10.0.0.0/8", "10.1.0.0/16")
    for dev in ("eth0", "ib0")
    for protocol in (2, 213)
]
SOME = st.lists(st.sampled_from(ROUTES), max_size=8)


class Lazy(Sequence[Route]):
    """Routes that a backend makes when they are looked at; it counts."""

    def __init__(self, routes: Sequence[Route]) -> None:
        """Take those that are going to be made."""
        self._routes, self.made = tuple(routes), 0

    def __len__(self) -> int:
        return len(self._routes)

    @overload
    def __getitem__(self, place: int) -> Route: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Route, ...]: ...

    def __getitem__(self, place: int | slice) -> Route | tuple[Route, ...]:
        self.made += 1
        return self._routes[place]

    def __eq__(self, other: object) -> bool:
        return self._routes == other

    def __hash__(self) -> int:
        return hash(self._routes)

    def keys(self) -> Iterator[RouteKey]:
        """Where each belongs."""
        yield from route_keys(self._routes)


def columns(routes: Sequence[Route]) -> list[tuple[int, ...]]:
    """What the columns say of each route, in order."""
    return sorted(
        (place, family, table, network, length)
        for family, table, *column in route_columns(routes)
        for place, network, length in zip(*column, strict=True)
    )


@given(base=SOME, doings=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(ROUTES), st.sampled_from(ROUTES))))
def test_it_is_what_becomes_of_a_list(base: list[Route], doings: list[tuple[int, Route, Route]]) -> None:
    """Whatever is done: the routes, their keys and their number are those of a list that is searched and copied."""
    lazy = Lazy(base)
    amendments = [Snapshot(routes=it).amended(about=ROUTES) for it in (tuple(base), lazy)]
    plainly = list(base)
    for number, route, new in doings:
        there = route in plainly
        if number == 0:
            plainly.append(route)
        elif number == 1:
            plainly.insert(0, route)
        elif there and number == 2:
            plainly[plainly.index(route)] = new
        elif there and number == 3:
            plainly.remove(route)
        elif there:
            del plainly[len(plainly) - 1 - plainly[::-1].index(route)]
        for amendment in amendments:
            if number < 2:
                amendment.put(route, first=number == 1)
            elif there:
                amendment.change(route, new if number == 2 else None, last=number == 4)
            else:
                with pytest.raises(ValueError, match="is not there"):
                    amendment.change(route, new)
            near = [it for it in plainly if it.prefix == route.prefix]
            assert amendment.near(route) == near
    for amendment in amendments:
        routes = amendment.routes()
        assert (tuple(routes), len(routes)) == (tuple(plainly), len(plainly))
        assert [routes[at] for at in range(-len(plainly), len(plainly))] == [*plainly, *plainly]
        assert tuple(routes[1:-1]) == tuple(plainly[1:-1])
        assert list(route_keys(routes)) == list(route_keys(tuple(plainly)))
        assert columns(routes) == columns(tuple(plainly))
        assert routes == tuple(plainly) != (*plainly, ROUTES[0])
        assert hash(routes) == hash(tuple(plainly))
        with pytest.raises(IndexError):
            routes[len(plainly)]


def test_what_does_not_change_is_not_made() -> None:
    """Of a lazy list only the routes that may be meant are looked at."""
    lazy = Lazy([Route.to(Prefix(4, number << 8, 24), dev="eth0", protocol=3) for number in range(1000)])
    old, new = (Route.to(Prefix(4, 7 << 8, 24), dev=dev, protocol=3) for dev in ("eth0", "ib0"))
    after = Snapshot(routes=lazy).with_routes([new], without=[old]).with_replaced(new, old)
    assert len(list(route_keys(after.routes))) == 1000
    assert (after.routes[-1], lazy.made) == (old, 1)
    assert repr(after.routes) == "<_Changed of 1000 routes>"


def test_a_plan_looks_at_what_it_is_about() -> None:
    """A plan of many steps on many routes makes each route that it is about once, and no other."""
    routes = [Route.to(Prefix(4, number << 8, 24), dev="eth0", protocol=213) for number in range(1000)]
    lazy = Lazy(routes)
    gone, come = routes[:500], [Route.to(Prefix(4, number << 8, 24), dev="ib0") for number in range(1000, 1500)]
    plan = RoutePlan((*(Step("delete", it, "") for it in gone), *(Step("add", it, "") for it in come)))
    after = plan.apply_to(Snapshot(routes=lazy))
    assert lazy.made == len(gone)
    assert after.routes == (*routes[500:], *come)


def test_shapes_of_two_parts_are_not_taken_for_one_another() -> None:
    """Where a part tells no more than a place, the places of both parts are told apart."""
    first, last = (Lazy([Route.to("10.0.0.0/8", dev=dev)]) for dev in ("eth0", "ib0"))
    one, other = Followed(first, last).shapes([0, 1])
    assert one != other
    assert len(set(Followed(first, Followed(last, last)).shapes([0, 1, 2]))) == 3
