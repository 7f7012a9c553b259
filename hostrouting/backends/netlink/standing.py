"""What stands in the tables, read when first asked for and then kept up to date with what is done.

Here: the routes of one prefix in the kernel's order, also in the middle of a batch. What a delete means by them is in
`hostrouting.backends.deletion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.backends.deletion import Obstacle, find_exactly
from hostrouting.backends.netlink.reading import list_names, list_routes
from hostrouting.backends.netlink.watching import Wanted
from hostrouting.model import IPV4

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hostrouting.backends.base import Change
    from hostrouting.backends.netlink.channel import Channel
    from hostrouting.backends.netlink.routedump import RouteDump
    from hostrouting.model import Prefix, Route

__all__ = ["Standing"]

# Of which routes: family, table and protocol (None for those of all).
_Which = tuple[int, int, int | None]


class Standing:
    """The routes that are there."""

    def __init__(self, channel: Channel, *, before_reading: Callable[[], None] = lambda: None) -> None:
        """Read nothing yet; what is still to be done comes first, with `before_reading`."""
        self._channel = channel
        self._before_reading = before_reading
        self._names: dict[int, str] | None = None
        self._routes: dict[_Which, _Shelf] = {}
        # What was done at a prefix since it was read, by places in the batch.
        self._touched: dict[tuple[int, Prefix], list[int]] = {}

    def touch(self, route: Route, place: int) -> None:
        """Something else than a delete is about to be done with this prefix, in this place of the batch."""
        if self._routes:
            self._touched.setdefault((route.table, route.prefix), []).append(place)

    def touched(self, route: Route) -> list[int]:
        """What was done with this prefix since it was read; asked once."""
        return self._touched.pop((route.table, route.prefix), [])

    def catch_up(self, done: Iterable[Change]) -> None:
        """Take note of what was done with a prefix, or read all again if it cannot be told what came of it."""
        for change in done:
            if not _is_plain(change):
                self.forget()
                return
            for routes in self._lists_of(change.route):
                _insert(routes, change)

    def forget(self) -> None:
        """Read again when next asked."""
        self._names = None
        self._routes.clear()
        self._touched.clear()

    def take(self, route: Route) -> Route | Obstacle:
        """Take note that this very route is deleted, if it can be; the route as it stands, or what is in the way."""
        found = find_exactly(route, self.of_prefix(route, protocol=route.protocol or None))
        if not isinstance(found, Obstacle):
            for routes in self._lists_of(found):
                if found in routes:  # the lists are not read at one moment
                    routes.remove(found)
        return found

    def of_prefix(self, route: Route, *, protocol: int | None = None) -> list[Route]:
        """The routes of the same table and prefix, in the kernel's order."""
        which = (route.prefix.family, route.table, protocol)
        shelf = self._routes.get(which)
        if shelf is None:
            shelf = self._routes[which] = self._read(which)
        return shelf.of(route.prefix)

    def _lists_of(self, route: Route) -> list[list[Route]]:
        """Each list that was read in which such a route belongs: there is one for its protocol, and one for any."""
        return [
            shelf.of(route.prefix)
            for (family, table, protocol), shelf in self._routes.items()
            if (family, table) == (route.prefix.family, route.table) and protocol in {None, route.protocol}
        ]

    def _read(self, which: _Which) -> _Shelf:
        family, table, protocol = which
        self._before_reading()
        if self._names is None:
            self._names = list_names(self._channel)
        return _Shelf(list_routes(self._channel, (family,), self._names, Wanted(table=table, protocol=protocol)))


class _Shelf:
    """Routes by prefix, each made when it is looked at."""

    def __init__(self, routes: RouteDump) -> None:
        self._routes = routes
        self._places: dict[tuple[int, int], list[int]] = {}
        for place, (_, _, network, length, _) in enumerate(routes.keys()):
            self._places.setdefault((network, length), []).append(place)
        self._made: dict[Prefix, list[Route]] = {}

    def of(self, prefix: Prefix) -> list[Route]:
        made = self._made.get(prefix)
        if made is None:
            places = self._places.get((prefix.network, prefix.length), ())
            made = self._made[prefix] = [self._routes[place] for place in places]
        return made


def _is_plain(change: Change) -> bool:
    """Whether it is known what stands where afterwards.

    IPv6 makes legs of routes, `replace` may take another's place, and sizes of packets are cut down, or dropped when 0.
    """
    route = change.route
    said = all(leg.dev is not None for leg in route.legs) and route.mtu is route.advmss is None
    return route.prefix.family == IPV4 and change.verb != "replace" and said


def _insert(routes: list[Route], change: Change) -> None:
    """Put a new route among those of its prefix: by tos, the highest first, then by metric, the lowest first."""
    rank = (-change.route.tos, change.route.metric)
    ranks = [(-it.tos, it.metric) for it in routes]
    ahead = [it for it in ranks if it < rank or (it == rank and change.verb != "prepend")]
    routes.insert(len(ahead), change.route)
