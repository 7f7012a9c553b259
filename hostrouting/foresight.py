"""A route that is wanted, and had, where a route of the kernel's own belongs: for how long it is had.

Here: which of the wanted routes that is true of, and what to write in their place. Not here: conflicts that are there
already (`plan`), and the words (`wording`).

The kernel puts the route of an address behind what holds its key. So a route in its place goes on deciding, even after
the device was set down and up; but a boot, or its own link going down, takes it away, and then the kernel's route
holds the key first. A route that is not ours is not replaced: from then on ours cannot be had, and no machine starts.
Which route an address brings is known beforehand (`connected`), and so is this.
"""

from collections.abc import Collection, Iterator

import attrs

from hostrouting.connected import connected_routes
from hostrouting.fib import Fib
from hostrouting.model import DEFAULT_METRIC, Address, Prefix, Route
from hostrouting.uplink import DesiredRoute, Uplink
from hostrouting.way_round import is_held, way_round

__all__ = ["Foreseen", "foresee"]


@attrs.frozen
class Foreseen:
    """A route that does not last, and the addresses that bring the kernel's own route in its place."""

    wanted: Route
    addresses: tuple[Address, ...]
    instead: tuple[DesiredRoute, ...]
    """What wins without touching the kernel's route; empty where that takes more than two routes."""
    lacking: tuple[DesiredRoute, ...]
    """Those of them that are not wanted yet."""


def foresee(
    desired: Collection[DesiredRoute], fib: Fib, uplink: Uplink, *, ours: Collection[int], refused: Collection[object]
) -> Iterator[Foreseen]:
    """Which of the wanted routes do not last, in order; `refused` are the keys of those that are not had anyway."""
    brought = connected_routes(fib.snapshot)
    networks = {route.prefix.network for route in brought.values()}
    # Few wishes begin where a network does, and to hash each would take longer.
    near = {wish.key: wish for wish in desired if wish.destination.network in networks}
    keys = {route.key for route in brought.values() if route.key in near and route.key not in refused}

    def is_taken(prefix: Prefix) -> bool:
        best = DEFAULT_METRIC[prefix.family]
        coming = any(route.prefix == prefix and route.metric <= best for route in brought.values())
        return coming or is_held(prefix, fib, ours)

    for key in sorted(keys):
        wish = near[key]
        wanted = uplink.resolve(wish)
        if isinstance(wanted, Route):
            others = way_round(wish.destination, wish.metric, is_taken)
            instead = tuple(attrs.evolve(wish, destination=prefix, metric=0) for prefix in others)
            lacking = tuple(it for it in instead if all(it.key != other.key for other in desired))
            addresses = tuple(address for address, route in brought.items() if route.key == key)
            yield Foreseen(wanted, addresses, instead, lacking)
