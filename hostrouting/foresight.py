"""Wanted routes that occupy the key of one of the kernel's own routes: they work now, but not after a boot.

Here: which wanted routes this affects, and what to configure instead. Not here: conflicts that exist already (`plan`),
and the messages (`wording`).

The kernel adds the route of an address behind the route that holds its key. So a static route with that key stays in
use, even after the device was set down and up. But a boot, or setting down the static route's own device, deletes it,
and then the kernel's route holds the key first. A route that is not ours is never replaced: from then on our route
cannot be added, and no machine starts. The route that an address adds is known beforehand (`connected`), so this can be
reported beforehand.
"""

from collections.abc import Collection, Iterator

import attrs

from hostrouting.connected import connected_routes
from hostrouting.fib import Fib
from hostrouting.model import Address, Prefix, Route
from hostrouting.uplink import DesiredRoute, Uplink
from hostrouting.way_round import is_held, way_round

__all__ = ["Foreseen", "foresee"]


@attrs.frozen
class Foreseen:
    """A route that will not last, and the addresses whose kernel routes will take its key."""

    wanted: Route
    addresses: tuple[Address, ...]
    instead: tuple[DesiredRoute, ...]
    """Routes that win without touching the kernel's route; empty if that takes more than two routes."""
    lacking: tuple[DesiredRoute, ...]
    """Those of them that are not configured yet."""


def foresee(
    desired: Collection[DesiredRoute], fib: Fib, uplink: Uplink, *, ours: Collection[int], refused: Collection[object]
) -> Iterator[Foreseen]:
    """The wanted routes that will not last, in order; `refused` are the keys of routes that cannot be added anyway."""
    brought = connected_routes(fib.snapshot)
    networks = {route.prefix.network for route in brought.values()}
    # Few wanted routes begin where a network does; hashing each one would take longer.
    near = {wish.key: wish for wish in desired if wish.destination.network in networks}
    keys = {route.key for route in brought.values() if route.key in near and route.key not in refused}

    def is_taken(prefix: Prefix, metric: int) -> bool:
        coming = any(route.prefix == prefix and route.metric <= metric for route in brought.values())
        return coming or is_held(prefix, metric, fib, ours)

    for key in sorted(keys):
        wish = near[key]
        wanted = uplink.resolve(wish)
        if isinstance(wanted, Route):
            others = way_round(wish.destination, is_taken)
            instead = tuple(attrs.evolve(wish, destination=prefix, metric=metric) for prefix, metric in others)
            lacking = tuple(it for it in instead if all(it.key != other.key for other in desired))
            addresses = tuple(address for address, route in brought.items() if route.key == key)
            yield Foreseen(wanted, addresses, instead, lacking)
