"""Routes of a snapshot, changed one after the other: a change costs what it touches, not the length of the list.

Why: a plan of ten thousand steps on ten thousand routes would copy and search the list a hundred million times; and of
routes that a backend makes when they are looked at, the others need not be made.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

from hostrouting.model.door import RouteKey, route_keys
from hostrouting.model.followed import Followed
from hostrouting.model.lazy import LazyRoutes
from hostrouting.model.route import Route

__all__ = ["Amendment"]


class Amendment:
    """What became of the routes of a list. Each has a place; those before all others have negative ones."""

    def __init__(self, routes: Sequence[Route], *, about: Iterable[Route]) -> None:
        """Take the list, and which routes are going to be looked for in it."""
        self._base = routes
        self._changed: dict[int, Route | None] = {}
        self._before: list[Route] = []
        self._after: list[Route] = []
        self._near: dict[tuple[int, ...], list[int]] = {_where(route): [] for route in about}
        if near := self._near:
            for place, (family, table, network, length, _) in enumerate(route_keys(routes)):
                if (where := (family, table, network, length)) in near:
                    near[where].append(place)

    def near(self, route: Route) -> list[Route]:
        """The routes of the same table and prefix as they are now, in order."""
        return [it for place in self._near[_where(route)] if (it := self._at(place)) is not None]

    def put(self, route: Route, *, first: bool = False) -> None:
        """Add a route behind all others, or before them."""
        if first:
            self._before.append(route)
            place = -len(self._before)
        else:
            self._after.append(route)
            place = len(self._base) + len(self._after) - 1
        places = self._near.get(_where(route), [])
        places.insert(0 if first else len(places), place)

    def change(self, old: Route, new: Route | None, *, last: bool = False) -> None:
        """Have another route, or none, in the place of the first that is `old`, or of the last; ValueError for none."""
        places = self._near[_where(old)]
        place = next((it for it in (reversed(places) if last else places) if self._at(it) == old), None)
        if place is None:
            raise ValueError(f"{old} is not there")
        self._changed[place] = new
        places.remove(place)
        if new is not None and (there := self._near.get(_where(new))) is not None:
            insort(there, place)

    def _at(self, place: int) -> Route | None:
        if place in self._changed:
            return self._changed[place]
        if place < 0:
            return self._before[-place - 1]
        size = len(self._base)
        return self._base[place] if place < size else self._after[place - size]

    def routes(self) -> Sequence[Route]:
        """All of them as they are now."""
        size = len(self._base)
        before = self._left(range(-len(self._before), 0))
        after = self._left(range(size, size + len(self._after)))
        changed = {place: route for place, route in self._changed.items() if 0 <= place < size}
        found = _Changed(self._base, changed) if changed else self._base
        if isinstance(self._base, tuple):
            return (*before, *found, *after)
        found = Followed(found, after) if after else found
        return Followed(before, found) if before else found

    def _left(self, places: range) -> tuple[Route, ...]:
        return tuple(route for place in places if (route := self._at(place)) is not None)


def _where(route: Route) -> tuple[int, ...]:
    prefix = route.prefix
    return (prefix.family, route.table, prefix.network, prefix.length)


class _Changed(LazyRoutes):
    """A list of routes some of which have changed, or are gone."""

    def __init__(self, base: Sequence[Route], changed: dict[int, Route | None]) -> None:
        """Take the list, and what became of the routes at some of its places."""
        self._base, self._changed = base, changed

    def keys(self) -> Iterator[RouteKey]:
        """Where each route belongs, in order, without making those that have not changed."""
        changed = self._changed
        for place, key in enumerate(route_keys(self._base)):
            if place not in changed:
                yield key
            elif (route := changed[place]) is not None:
                yield from route_keys((route,))

    @cached_property
    def _kept(self) -> Sequence[int]:
        """The places of the list that still have a route."""
        gone = {place for place, route in self._changed.items() if route is None}
        every = range(len(self._base))
        return [place for place in every if place not in gone] if gone else every

    def _made(self, place: int) -> Route:
        return self._changed.get(place) or self._base[place]

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, place: int) -> Route: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Route, ...]: ...

    def __getitem__(self, place: int | slice) -> Route | tuple[Route, ...]:
        if isinstance(place, slice):
            return tuple(map(self._made, self._kept[place]))
        return self._made(self._kept[place])

    def __iter__(self) -> Iterator[Route]:
        return map(self._made, self._kept)
