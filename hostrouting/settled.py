"""What is there as it is wanted, set aside before a plan is made of the rest: the fast path of having nothing to do.

Why: of ten thousand wishes all are kept, as a rule, and to make each route, compare it and make a step of it takes ten
times as long as to read the table. Where the backend knows which routes are of one sort (`hostrouting.model.Sorted`), a
wish is settled by its destination alone: it is among those of the sort that is wanted, and no other route of the table
leads there. Whatever is not as plain as that is left to the plan; a property test has it plan the same without this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from hostrouting.fib import Fib
from hostrouting.model import IPV4, TABLE_MAIN, Route, Snapshot, Sort, Sorted, route_keys
from hostrouting.uplink import Pending, Uplink

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hostrouting.uplink import DesiredRoute

__all__ = ["Aside", "set_aside"]

# The length and the network of a prefix.
Block: TypeAlias = tuple[int, int]


@attrs.frozen
class Aside:
    """The places of the routes that are kept, the wishes that are left, and the host without what is kept."""

    kept: tuple[int, ...]
    desired: tuple[DesiredRoute, ...]
    snapshot: Snapshot


def set_aside(desired: Iterable[DesiredRoute], snapshot: Snapshot, *, protocol: int, former: Collection[int]) -> Aside:
    """Which routes of ours are there as they are wanted, each alone with its prefix."""
    wishes, routes = tuple(desired), snapshot.routes
    nothing = Aside((), wishes, snapshot)
    # What is a small part of a host is planned as fast as all of it is sorted out.
    if not isinstance(routes, Sorted) or len(wishes) * 2 < len(routes):
        return nothing

    def without(gone: Collection[int]) -> Snapshot:
        return attrs.evolve(snapshot, routes=routes.part(it for it in range(len(routes)) if it not in gone))

    ours = [sort for sort in routes.sorts(protocol) if _may_be_wanted(sort.like)]
    blocks = _Blocks(ours)
    if not ours or not blocks.is_each_once:
        return nothing
    rest = without({place for sort in ours for place in sort.places})
    blocks.leave_out(rest)
    # Nothing is concluded from routes of ours, so these need not be there.
    uplink = Uplink(Fib(rest), protocol=protocol, former=former)
    known: dict[tuple[object, ...], dict[Block, int]] = {}
    kept: dict[int, DesiredRoute] = {}
    left: list[DesiredRoute] = []
    for wish in wishes:
        destination, gateway = wish.destination, wish.gateway
        # Addresses are slow to hash.
        way = (destination.family, wish.dev, wish.metric, None if gateway is None else int(gateway), type(gateway))
        standing = known.get(way)
        if standing is None:
            standing = known[way] = blocks.of(uplink.resolve(wish))
        place = standing.get((destination.length, destination.network))
        if place is None:
            left.append(wish)
            continue
        other = kept.setdefault(place, wish)
        if other is not wish and other != wish:
            return nothing  # two different wishes for one key: whoever plans says so
    for wish in tuple(left):
        # What another wish for the same prefix becomes is told beside the one that is kept.
        place = blocks.places.get((wish.destination.length, wish.destination.network), -1)
        if place in kept and wish.destination.family == IPV4:
            left.append(kept.pop(place))
    return Aside(tuple(kept), tuple(left), rest if len(kept) == len(blocks.places) else without(kept))


class _Blocks:
    """Where the routes of some sorts lead to."""

    def __init__(self, sorts: Sequence[Sort]) -> None:
        self._sorts = [(sort.like, dict(zip(sort.prefixes, sort.places, strict=True))) for sort in sorts]
        self.places: dict[Block, int] = {}
        for _, places in self._sorts:
            self.places |= places
        self.is_each_once = len(self.places) == sum(len(sort.places) for sort in sorts)

    def leave_out(self, rest: Snapshot) -> None:
        """Have none of those to which another route leads too."""
        for family, table, network, length, _ in route_keys(rest.routes):
            if family == IPV4 and table == TABLE_MAIN and (length, network) in self.places:
                for _, places in self._sorts:
                    places.pop((length, network), None)

    def of(self, wanted: Route | Pending) -> dict[Block, int]:
        """Those to which a route leads as it is wanted, but for its destination."""
        if isinstance(wanted, Pending) or wanted.prefix.family != IPV4:
            return {}
        alike = [places for like, places in self._sorts if attrs.evolve(like, prefix=wanted.prefix) == wanted]
        return {block: place for places in alike for block, place in places.items()} if alike[1:] else (*alike, {})[0]


def _may_be_wanted(like: Route) -> bool:
    return like.prefix.family == IPV4 and like.table == TABLE_MAIN and like.type == "unicast"
