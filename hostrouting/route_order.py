"""The changes that restore the former order of the routes with one key, as far as our routes are concerned.

Here: from the present and the former routes, the changes between them. Not here: when to restore, and carrying it out
(`apply`). The kernel can add a route before or after all others with the same key, never between two of them, so some
orders cannot be restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.backends.base import Change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hostrouting.model import Route

__all__ = ["as_taken", "put_back", "take_away"]


def put_back(there: tuple[Route, ...], then: tuple[Route, ...], ours: Collection[int]) -> Iterator[Change]:
    """Add our missing routes of one key where they were: before the present routes, or after them."""
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
    """Delete our routes that were not there before."""
    for route in there:
        if _is_new(route, then, ours):
            yield Change("delete", route)


def as_taken(routes: tuple[Route, ...]) -> object:
    """The routes of a key as far as their order can be restored: the one that the kernel uses, and those behind it."""
    return routes[:1], sorted(map(str, routes[1:]))


def _ahead(there: tuple[Route, ...], then: tuple[Route, ...], ours: Collection[int]) -> int:
    """How many former routes were ahead of the present first one; 0 if that is new and not ours."""
    known = [then.index(it) for it in there if it in then]
    if not there or not (there[0] in then or _is_new(there[0], then, ours)):
        return 0
    return min(known, default=len(then))


def _misplaced(there: tuple[Route, ...], then: tuple[Route, ...], ours: Collection[int]) -> Route | None:
    """Return our route that is first now, if a route that was ahead of it is still there."""
    first = next((it for it in there if it in then), None)
    was_first = next((it for it in then if it in there), None)
    return first if first is not None and first != was_first and first.protocol in ours else None


def _is_new(route: Route, then: tuple[Route, ...], ours: Collection[int]) -> bool:
    return route.protocol in ours and route not in then
