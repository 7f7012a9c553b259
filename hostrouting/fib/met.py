"""The routes of a snapshot by their position, each made once.

Why: a snapshot of 100,000 routes makes them of the kernel's bytes, 3 µs each, whenever one is looked at; a check and a
plan look at some of them several times.
"""

from collections.abc import Sequence
from typing import TypeAlias

from hostrouting.model import Route

__all__ = ["RoutesMet", "routes_met"]


class _Made(dict[int, Route]):
    """Those that somebody has looked at; another is made when it is looked at."""

    def __init__(self, routes: Sequence[Route]) -> None:
        """Make none yet."""
        super().__init__()
        self._routes = routes

    def __missing__(self, position: int) -> Route:
        route = self[position] = self._routes[position]
        return route


RoutesMet: TypeAlias = tuple[Route, ...] | _Made


def routes_met(routes: Sequence[Route]) -> RoutesMet:
    """The routes by their position; those that are there already are what they are."""
    return routes if isinstance(routes, tuple) else _Made(routes)
