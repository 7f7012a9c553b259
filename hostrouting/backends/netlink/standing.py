"""What stands in the tables before a route is deleted.

To the kernel what a request to delete does not say, or says with a zero, matches anything: to delete a route of
metric 0 can take away one of metric 100, and one without a gateway another that has one. So the very route is looked
for first; where the kernel would take another one, it is not asked.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from hostrouting.backends.netlink.disturbance import Wanted
from hostrouting.backends.netlink.reading import list_names, list_routes
from hostrouting.errors import NoSuchRoute, RouteRefused
from hostrouting.model import DEFAULT_METRIC, IPV4, IPV6

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostrouting.backends.netlink.channel import Channel
    from hostrouting.backends.netlink.routedump import RouteDump
    from hostrouting.model import NextHop, Prefix, Route

__all__ = ["Standing", "metric_of", "same"]

# Of which routes: family, table and protocol (None for those of all).
_Which = tuple[int, int, int | None]


class Standing:
    """The routes that are there, read when first asked for and kept up to date with what is done."""

    def __init__(self, channel: Channel, *, before_reading: Callable[[], None] = lambda: None) -> None:
        """Read nothing yet; what is still to be done comes first, with `before_reading`."""
        self._channel = channel
        self._before_reading = before_reading
        self._names: dict[int, str] | None = None
        self._routes: dict[_Which, _Shelf] = {}
        self._touched: set[tuple[int, Prefix]] = set()

    def touch(self, route: Route) -> None:
        """Something else than a delete is about to be done with this prefix."""
        if self._routes:
            self._touched.add((route.table, route.prefix))

    def stale(self, route: Route) -> bool:
        """Whether what is known of this prefix is no longer so."""
        return (route.table, route.prefix) in self._touched

    def forget(self) -> None:
        """Read again when next asked."""
        self._names = None
        self._routes.clear()
        self._touched.clear()

    def take(self, route: Route) -> RouteRefused | None:
        """Take note that this very route is deleted; the refusal if it is not there, or cannot be told apart."""
        candidates = self.of_prefix(route, protocol=route.protocol or None)
        exact = [one for one in candidates if same(one, route)]
        if not exact:
            return NoSuchRoute(f"there is no route {route} to delete", route=str(route), errno=errno.ESRCH)
        taken = exact[0]
        if len(candidates) > 1:
            taken = next((one for one in candidates if _matches(one, route)), taken)
        if not same(taken, route):
            return RouteRefused(f"cannot delete {route}: the kernel would take {taken} away instead", route=str(route))
        candidates.remove(exact[0])
        return None

    def of_prefix(self, route: Route, *, protocol: int | None = None) -> list[Route]:
        """The routes of the same table and prefix, in the kernel's order."""
        which = (route.prefix.family, route.table, protocol)
        shelf = self._routes.get(which)
        if shelf is None:
            shelf = self._routes[which] = self._read(which)
        return shelf.of(route.prefix)

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


def same(one: Route, other: Route) -> bool:
    """Whether the two are the same route in all that one can ask for; the kernel's own remarks do not count."""
    if one == other:
        return True
    if (one.table, one.prefix, one.tos, metric_of(one), one.type, one.protocol) != (
        other.table,
        other.prefix,
        other.tos,
        metric_of(other),
        other.type,
        other.protocol,
    ):
        return False
    if one.prefix.family == IPV4 and one.scope != other.scope:
        return False
    if other.nexthop_id is not None:
        return one.nexthop_id == other.nexthop_id
    return list(_ways(one)) == list(_ways(other))


def metric_of(route: Route) -> int:
    """Its metric, as the kernel has it."""
    return route.metric or DEFAULT_METRIC[route.prefix.family]


def _ways(route: Route) -> Iterator[tuple[object, ...]]:
    # The weight of an only way is of no consequence.
    several = len(route.legs) > 1
    return ((leg.dev, leg.gateway, leg.weight if several else 1, leg.onlink) for leg in route.legs)


def _matches(standing: Route, asked: Route) -> bool:
    """Whether the kernel would take `standing` for what is asked to be deleted, as far as we can know."""
    said: list[tuple[object, object]] = [
        (standing.metric, asked.metric),
        (standing.protocol, asked.protocol),
        (standing.nexthop_id, asked.nexthop_id),
    ]
    if asked.prefix.family != IPV6:
        said += [
            (standing.prefsrc, asked.prefsrc),
            (standing.mtu, asked.mtu),
            (standing.advmss, asked.advmss),
        ]
        if (standing.tos, standing.type, standing.scope) != (asked.tos, asked.type, asked.scope):
            return False
    if any(wanted and found != wanted for found, wanted in said):
        return False
    if asked.nexthop_id is not None or not asked.legs:
        return True
    if asked.prefix.family == IPV4 and len(asked.legs) != len(standing.legs):
        return False
    return all(_hop_matches(found, wanted) for found, wanted in zip(standing.legs, asked.legs, strict=False))


def _hop_matches(found: NextHop, wanted: NextHop) -> bool:
    return wanted.dev in {None, found.dev} and wanted.gateway in {None, found.gateway}
