"""Ranges that a check can skip, because every route that may decide there is fine.

Nearly all cells of a check are fine, and computing each takes 10 µs. So first find the plain routes: unicast routes in
use, for any tos, with next hops that the check accepts. If every route that a packet could match is plain, and one of
them covers all of the addresses, some plain route decides: no cell has to be computed there. Whether a route is plain
depends on its shape, and there are few shapes.

This is a second path beside the one with cells: a check of 100 CIDRs among 100,000 routes takes 4 ms with it and 300 ms
without it. A property test compares checks with and without it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from hostrouting.fib.ordered import Ordered
from hostrouting.fib.walk import Span, Stage
from hostrouting.model import NextHop, Route, RouteTable

__all__ = ["Liking", "Sieve", "joined"]

Liking: TypeAlias = Callable[[tuple[NextHop, ...]], bool]


class Sieve:
    """Finds the routes that are not plain, and their ranges."""

    def __init__(self, routes: RouteTable, liking: Liking) -> None:
        """Take the routes, and a function that accepts or rejects next hops."""
        self._numbers = routes.shape_numbers
        self._odd = {number for number, shape in enumerate(routes.shapes) if not _is_plain(shape, liking)}
        # For the routes of a table, by their id: the ranges of the routes that are not plain, and the last address of
        # each.
        self._known: dict[int, tuple[list[Span], list[int]]] = {}

    def doubtful(self, stages: Iterable[Stage], low: int, high: int) -> list[Span]:
        """The ranges, in low … high or around, outside of which a plain route decides for packets at these stages."""
        found: list[Span] = []
        for stage in stages:
            if stage.table is None or not stage.simple:
                break
            for routes in stage.table.columns:
                found += self._odd_ones(routes, low, high)
            if any(routes.covers(low, high) for routes in stage.table.columns):
                return found
        return [(low, high)]

    def _odd_ones(self, routes: Ordered, low: int, high: int) -> list[Span]:
        """The ranges that overlap low … high and belong to a route that is not plain."""
        known = self._known.get(id(routes))
        if known is None:
            spans = list(joined(map(routes.span, self._places(routes.column.positions))))
            known = self._known[id(routes)] = spans, [last for _, last in spans]
        spans, lasts = known
        begin = bisect_left(lasts, low)
        return spans[begin : bisect_left(spans, (high + 1,), begin)]

    def _places(self, positions: Sequence[int]) -> list[int]:
        """Indexes of the positions whose routes are not plain."""
        odd, numbers = self._odd, self._numbers
        return [at for at, position in enumerate(positions) if numbers[position] in odd] if odd else []


def _is_plain(shape: Route, liking: Liking) -> bool:
    in_use = not any(leg.dead or leg.linkdown for leg in shape.legs)
    for_all = not (shape.tos or shape.source) and shape.expires is None
    return shape.type == "unicast" and for_all and in_use and liking(shape.legs)


def joined(spans: Iterable[Span]) -> Iterator[Span]:
    """The same addresses as the fewest ranges, in order."""
    low, high = 0, -1
    for first, last in sorted(spans):
        if first > high + 1:
            if low <= high:
                yield low, high
            low = first
        high = max(high, last)
    if low <= high:
        yield low, high
