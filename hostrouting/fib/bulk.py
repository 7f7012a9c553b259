"""Where routes leave nothing to ask, told in bulk: the fast path of a check.

Why: of the cells that a check goes through, nearly all are welcome; to find each and to make the route that decides it
takes 10 µs, of which nothing is kept. Where every route that a packet could meet is plain, and one of them is for all
of the addresses, some plain route decides, whichever it is: no cell has to be found, and no route made. Plain is a
unicast route in use, for any tos, whose legs are to a check's liking. Of routes whose shapes are alike, one is looked
at. A property test has a check say the same with and without this.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias

from hostrouting.fib.ordered import Ordered
from hostrouting.fib.step import Span, Step
from hostrouting.model import NextHop, Route, route_shapes

__all__ = ["Liking", "Sieve", "joined"]

Liking: TypeAlias = Callable[[tuple[NextHop, ...]], bool]

# Of so few routes for each prefix that is asked about, it takes less to look at all of them than at some each time.
_FEW = 8
# Up to so many routes times prefixes, it takes less to find all cells.
_LITTLE = 512


class Sieve:
    """What is known of routes by their shapes: whether they are plain."""

    def __init__(self, routes: Sequence[Route], liking: Liking, *, prefixes: int) -> None:
        """Take the routes, which legs will do, and how many `prefixes` will be asked about."""
        self._few, self._little = _FEW * prefixes, prefixes * len(routes) <= _LITTLE
        self._routes, self._shapes, self._liking = routes, route_shapes(routes), liking
        self._plain: dict[Hashable, bool] = {}
        # Where in a small column some route is not plain: by its id, the ranges, and their last addresses.
        self._known: dict[int, tuple[list[Span], list[int]]] = {}

    def doubtful(self, steps: Iterable[Step], low: int, high: int) -> list[Span]:
        """The ranges, in low … high or around, outside of which a plain route decides for who takes these steps."""
        found: list[Span] = []
        for step in () if self._little else steps:
            if step.table is None or not step.simple:
                break
            covered = False
            for routes in step.table.columns:
                if len(routes.networks) <= self._few:
                    found += self._small(routes, low, high)
                    covered = covered or routes.everywhere or bool(routes.covering(low, high))
                    continue
                covering = routes.covering(low, high)
                if self._odd([routes.positions[at] for at in covering]):
                    return [(low, high)]
                found += self._large(routes, low, high)
                covered = covered or bool(covering)
            if covered:
                return found
        return [(low, high)]

    def _small(self, routes: Ordered, low: int, high: int) -> list[Span]:
        """Where routes of the column are not plain."""
        known = self._known.get(id(routes))
        if known is None:
            odd = self._odd(routes.positions)
            spans = list(joined(map(routes.span, odd)))
            known = self._known[id(routes)] = spans, [last for _, last in spans]
        spans, lasts = known
        begin = bisect_left(lasts, low)
        return spans[begin : bisect_left(spans, (high + 1,), begin)]

    def _large(self, routes: Ordered, low: int, high: int) -> list[Span]:
        """The same, of routes that nobody has looked at yet."""
        begin, end = routes.between(low, high)
        around = routes.around(low)
        spans = [routes.span(around[at]) for at in self._odd([routes.positions[at] for at in around])]
        return spans + [routes.span(begin + at) for at in self._odd(routes.positions[begin:end])]

    def _odd(self, positions: Sequence[int]) -> list[int]:
        """Which of the routes at these positions are not plain, by their place among them."""
        if not positions:
            return []
        plain, shapes = self._plain, list(self._shapes(positions))
        there = set(shapes)
        if not plain.keys() >= there:
            for shape, position in zip(shapes, positions, strict=True):
                if shape not in plain:
                    plain[shape] = self._is_plain(position)
        odd = {shape for shape in there if not plain[shape]}
        return [at for at, shape in enumerate(shapes) if shape in odd] if odd else []

    def _is_plain(self, position: int) -> bool:
        route = self._routes[position]
        in_use = not any(leg.dead or leg.linkdown for leg in route.legs)
        return route.type == "unicast" and not route.tos and in_use and self._liking(route.legs)


def joined(spans: Iterable[Span]) -> Iterator[Span]:
    """The same addresses in the fewest ranges, in order."""
    low, high = 0, -1
    for first, last in sorted(spans):
        if first > high + 1:
            if low <= high:
                yield low, high
            low = first
        high = max(high, last)
    if low <= high:
        yield low, high
