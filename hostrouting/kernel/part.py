"""The part of a snapshot that was asked for: `family` and `near` of `RouteBackend.snapshot`.

A backend that has read everything takes the part with `part_of`. One that reads messages leaves out
early what is not `near`: see `Near`.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

from hostrouting.model.prefix import Prefix, width_of
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Snapshot


def part_of(
    snapshot: Snapshot,
    *,
    family: int | None = None,
    near: Collection[Prefix] | None = None,
) -> Snapshot:
    """The requested part of a snapshot, as `RouteBackend.snapshot` promises it."""
    addresses = snapshot.addresses
    rules = snapshot.rules
    routes = snapshot.routes
    if family is not None:
        addresses = tuple(address for address in addresses if address.ip.version == family)
        rules = tuple(rule for rule in rules if rule.family == family)
        routes = tuple(route for route in routes if route.prefix.family == family)
    if near is not None:
        routes = tuple(filter(Near(near).keeps, routes))
    return snapshot._replace(family=family, addresses=addresses, rules=rules, routes=routes)


_EVERYWHERE = (0,)
"""The borders of the one range of all addresses: it begins at 0, and does not end."""


class Near:
    """The routes that `near` keeps; without blocks, all.

    Of routes that differ only in the first address of their prefix (its `network`), the first one
    is kept, and each that overlaps a block. Such a route begins in one of certain ranges. These are
    a list of borders: where the first range begins, where it ends, where the next one begins, and
    so on.
    """

    def __init__(self, blocks: Collection[Prefix] | None) -> None:
        self._blocks = blocks
        self._borders: dict[tuple[int, int], Sequence[int]] = {}
        """By family and length of the routes."""
        self._seen: set[tuple[object, ...]] = set()
        """The routes so far, without their first addresses."""

    def keeps(self, route: Route) -> bool:
        """Whether this route, the next one of a list, is kept."""
        borders = self.borders_for(route)
        if borders is _EVERYWHERE:
            return True
        family, network, length = route.prefix
        all_but_network = (family, length, *route[1:])
        is_first = all_but_network not in self._seen
        self._seen.add(all_but_network)
        return is_first or is_wanted(network, borders)

    def borders_for(self, route: Route) -> Sequence[int]:
        """The borders for routes that differ from this one only in their first address.

        Default routes, their halves (/1), routes without a gateway and our own are always kept.
        """
        family, _, length = route.prefix
        can_be_left_out = length > 1 and route.has_gateway and route.protocol != OURS
        if self._blocks is None or not can_be_left_out:
            return _EVERYWHERE
        if (family, length) not in self._borders:
            self._borders[family, length] = _borders_near(self._blocks, family, length)
        return self._borders[family, length]


def is_wanted(network: int, borders: Sequence[int]) -> bool:
    """Whether this first address lies inside one of the ranges: behind an odd number of borders."""
    return bisect_right(borders, network) % 2 == 1


def _borders_near(blocks: Iterable[Prefix], family: int, length: int) -> list[int]:
    """The borders of the ranges in which networks of this length overlap one of the blocks."""
    size = 1 << width_of(family) - length
    ranges: list[tuple[int, int]] = []
    for block in blocks:
        if block.family == family:
            first = block.first - block.first % size
            end = block.last - block.last % size + size
            ranges.append((first, end))

    borders: list[int] = []
    for first, end in sorted(ranges):
        if borders and first <= borders[-1]:  # this range continues the one before
            borders[-1] = max(borders[-1], end)
        else:
            borders += [first, end]
    return borders
