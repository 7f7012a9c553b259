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

from hostrouting.fib.met import RoutesMet
from hostrouting.fib.ordered import Ordered
from hostrouting.fib.step import Span, Step
from hostrouting.model import NextHop, Shapes

__all__ = ["Liking", "Sieve", "joined"]

Liking: TypeAlias = Callable[[tuple[NextHop, ...]], bool]

# Of so few routes it takes less to look at all of them once than at some for each of many prefixes.
_FEW = 1024


class Sieve:
    """What is known of routes by their shapes: whether they are plain."""

    def __init__(self, routes: RoutesMet, shapes: Shapes, liking: Liking) -> None:
        """Take the routes, what tells their shapes, and which legs will do."""
        self._routes, self._shapes, self._liking = routes, shapes, liking
        self._plain: dict[Hashable, bool] = {}
        # Where in a small column some route is not plain: by its id, the ranges, and their last addresses.
        self._known: dict[int, tuple[list[Span], list[int]]] = {}

    def doubtful(self, steps: Iterable[Step], low: int, high: int) -> list[Span]:
        """The ranges, in low … high or around, outside of which a plain route decides for who takes these steps."""
        found: list[Span] = []
        for step in steps:
            if step.table is None or not step.simple:
                break
            covered = False
            for routes in step.table.columns:
                found += (
                    self._small(routes, low, high) if len(routes.networks) <= _FEW else self._large(routes, low, high)
                )
                covered = covered or routes.covers(low, high)
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
