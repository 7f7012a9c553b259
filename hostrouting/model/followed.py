"""Routes that others follow: what a host would have with some more, without making those that it has.

Why: a repair is proved on the host as it would be; to make 100,000 routes for that takes longer than the whole check.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import overload

from hostrouting.model.door import Column, RouteKey, route_columns, route_keys, route_shapes
from hostrouting.model.lazy import LazyRoutes
from hostrouting.model.route import Route

__all__ = ["Followed"]


class Followed(LazyRoutes):
    """Routes, and others behind them."""

    def __init__(self, routes: Sequence[Route], added: Sequence[Route]) -> None:
        """Take the routes that come first, and those that come last; neither changes."""
        self._routes, self._added = routes, added

    def keys(self) -> Iterator[RouteKey]:
        """Where each route belongs, in order."""
        return chain(route_keys(self._routes), route_keys(self._added))

    def columns(self) -> Iterator[Column]:
        """Those of the first ones, and those of the last ones."""
        yield from route_columns(self._routes)
        for column in route_columns(self._added):
            yield column._replace(positions=[len(self._routes) + position for position in column.positions])

    def shapes(self, positions: Sequence[int]) -> Iterable[Hashable]:
        """What is equal only for routes of one type and tos whose legs are equal."""
        begin = len(self._routes)
        if not positions or max(positions) < begin:
            return route_shapes(self._routes)(positions)
        parts: list[Iterable[Hashable]] = []
        for last, some in groupby(positions, begin.__le__):
            part = list(some)
            if last:
                # A shape may be no more than a place, of which the first ones have the same.
                shapes = route_shapes(self._added)([position - begin for position in part])
                parts.append((begin, shape) for shape in shapes)
            else:
                parts.append(route_shapes(self._routes)(part))
        return chain.from_iterable(parts)

    def __len__(self) -> int:
        return len(self._routes) + len(self._added)

    @overload
    def __getitem__(self, place: int) -> Route: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Route, ...]: ...

    def __getitem__(self, place: int | slice) -> Route | tuple[Route, ...]:
        if isinstance(place, slice):
            return tuple([self[at] for at in range(len(self))[place]])
        at = range(len(self))[place]
        return self._routes[at] if at < len(self._routes) else self._added[at - len(self._routes)]

    def __iter__(self) -> Iterator[Route]:
        return chain(self._routes, self._added)
