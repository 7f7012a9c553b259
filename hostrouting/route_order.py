"""Which changes bring the routes of one key back into the order in which they were, as far as they are ours.

Here: from the routes that are there and those that were, the changes in between. Not here: when that is wanted, and
carrying it out (`apply`). The kernel puts a route before all others of its key or behind them, never between two; so
not every order can be had back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.backends.base import Change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hostrouting.model import Route

__all__ = ["as_taken", "put_back", "take_away"]


def put_back(there: tuple[Route, ...], then: tuple[Route, ...], ours: Collection[int]) -> Iterator[Change]:
    """What is ours and missing of one key, put where it stood: ahead of what is there, or behind it."""
    while (wrong := _misplaced(there, then, ours)) is not None:
        yield Change("delete", wrong)
        there = tuple(it for it in there if it != wrong)
    missing = [place for place, it in enumerate(then) if it not in there and it.protocol in ours]
    ahead = _ahead(there, then, ours)
    for place in reversed([place for place in missing if place < ahead]):
        yield Change("prepend", then[place])
    for number, place in enumerate(place for place in missing if place >= ahead):
        yield Change("append" if there or number else "add", then[place])


def take_away(there: tuple[Route, ...], then: tuple[Route, ...], ours: Collection[int]) -> Iterator[Change]:
    """What is ours and was not there."""
    for route in there:
        if _is_new(route, then, ours):
            yield Change("delete", route)


def as_taken(routes: tuple[Route, ...]) -> object:
    """The routes of a key as far as their order can be restored: the one that the kernel takes, and those behind it."""
    return routes[:1], sorted(map(str, routes[1:]))


def _ahead(there: tuple[Route, ...], then: tuple[Route, ...], ours: Collection[int]) -> int:
    """How many of those that stood there stood ahead of what is first now; nothing of ours, of a newcomer's."""
    known = [then.index(it) for it in there if it in then]
    if not there or not (there[0] in then or _is_new(there[0], then, ours)):
        return 0
    return min(known, default=len(then))


def _misplaced(there: tuple[Route, ...], then: tuple[Route, ...], ours: Collection[int]) -> Route | None:
    """A route of ours that is first now, before one that it stood behind."""
    first = next((it for it in there if it in then), None)
    was_first = next((it for it in then if it in there), None)
    return first if first is not None and first != was_first and first.protocol in ours else None


def _is_new(route: Route, then: tuple[Route, ...], ours: Collection[int]) -> bool:
    return route.protocol in ours and route not in then
