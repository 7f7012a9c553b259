"""The routes of a snapshot as the kernel sent them: raw bytes, of which Route objects are made where one is looked at.

Why: 100,000 Route objects take half a second to make and some 100 MB to keep; the bytes take 7 MB. What is looked at
by its place is kept, for a check and a plan look at some routes several times; what is gone through is not.
"""

from __future__ import annotations

import struct
from array import array
from functools import cached_property, partial
from typing import TYPE_CHECKING, overload

from hostrouting.backends.netlink import columns
from hostrouting.backends.netlink.alike import Alike
from hostrouting.backends.netlink.route_message import read_route
from hostrouting.backends.netlink.sorts import sort_out
from hostrouting.model import LazyRoutes, Sort

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from hostrouting.backends.netlink.columns import Section
    from hostrouting.model import Column, NextHop, Route, RouteKey

__all__ = ["RouteDump"]


class RouteDump(LazyRoutes):
    """The routes of a listing, in its order."""

    def __init__(
        self,
        data: bytes,
        offsets: array[int],
        names: Mapping[int, str],
        nexthops: Mapping[int, tuple[NextHop, ...]],
    ) -> None:
        """Messages, where each begins, the names of devices by number, and the legs of next hop objects."""
        self._data, self._offsets, self._names, self._nexthops = data, offsets, names, nexthops
        self._alike = Alike(partial(read_route, names=names, nexthops=nexthops))
        # Those that somebody has looked at, by where their message begins.
        self._made: dict[int, Route] = {}

    def keys(self) -> Iterator[RouteKey]:
        """Where each route belongs, in order, without making the routes."""
        return columns.keys(self._data, self._offsets)

    def sorts(self, protocol: int) -> list[Sort]:
        """The routes that say the same but for their destination, as far as they are told apart by their bytes."""
        found = sort_out(self._data, self._offsets, protocol)
        return [Sort(self[places[0]], places, prefixes) for places, prefixes in found]

    def part(self, places: Iterable[int]) -> RouteDump:
        """The routes at these places only."""
        offsets = array("I", map(self._offsets.__getitem__, places))
        return RouteDump(self._data, offsets, self._names, self._nexthops)

    def columns(self) -> tuple[Column, ...]:
        """The same, and more than one route at a time."""
        return self._columns

    def shapes(self, positions: Sequence[int]) -> Iterable[Hashable]:
        """What is equal only for routes of one type and tos whose legs are equal."""
        return columns.shapes(self._data, self._offsets, self._sections, positions)

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        # A repair is proved on the same routes and a few more.
        return tuple(columns.columns(self._data, self._offsets, self._sections))

    @cached_property
    def _sections(self) -> list[Section]:
        return columns.sections(self._data, self._offsets)

    def _at(self, offset: int) -> Route:
        (length,) = struct.unpack_from("=I", self._data, offset)
        return self._alike.read(self._data[offset : offset + length])

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, place: int) -> Route: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Route, ...]: ...

    def __getitem__(self, place: int | slice) -> Route | tuple[Route, ...]:
        if isinstance(place, slice):
            return tuple(map(self._at, self._offsets[place]))
        offset = self._offsets[place]
        return self._made.get(offset) or self._made.setdefault(offset, self._at(offset))

    def __iter__(self) -> Iterator[Route]:
        return map(self._at, self._offsets)
