"""The fake kernel's route tables: which routes are in them, and in which order.

Here: storage, the order in which Linux lists routes, and the search for those that cover an address. Not here:
whether a route may be there at all, and what comes and goes with devices and addresses (`ipv4`, `ipv6`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import attrs

from hostrouting.model import IPV4, Prefix, Route, width_of

__all__ = ["Installed", "Tables", "as_kept", "bare"]

# A prefix, packed as its network, shifted by this, and its length.
_BITS = 8
# The largest packet, and what is left of it for TCP.
_MAX_MTU, _MAX_ADVMSS = 65535 - 15, 65535 - 40


@attrs.define(eq=False)
class Installed:
    """A route that is in a table. Its legs show what has become of them: linkdown, dead."""

    route: Route
    # How far away each leg's next hop is, as a scope; IPv4 tells twins apart by it.
    reach: tuple[int, ...] = ()
    # Every leg is gone: the next flush takes it.
    dead: bool = False

    def mark(self, dev: str, *, linkdown: bool, dead: bool | None = None) -> None:
        """Set what has become of its legs by a device; None leaves it as it is."""
        self.route = attrs.evolve(
            self.route,
            legs=tuple(
                attrs.evolve(leg, linkdown=linkdown, dead=leg.dead if dead is None else dead) if leg.dev == dev else leg
                for leg in self.route.legs
            ),
        )

    def twin_of(self, other: "Installed") -> bool:
        """Whether Linux would keep one and the same description for both."""
        return self.reach == other.reach and bare(self.route) == bare(other.route)


def as_kept(route: Route) -> Route:
    """The route with its metrics as Linux keeps them: cut down to the largest packet, and none for 0."""
    return attrs.evolve(
        bare(route),
        mtu=min(route.mtu, _MAX_MTU) if route.mtu else None,
        advmss=min(route.advmss, _MAX_ADVMSS) if route.advmss else None,
    )


def bare(route: Route) -> Route:
    """The route as one would ask for it: without the state that its legs have come to."""
    if not any(leg.linkdown or leg.dead or leg.pervasive for leg in route.legs):
        return route
    legs = tuple(attrs.evolve(leg, linkdown=False, dead=False, pervasive=False) for leg in route.legs)
    return attrs.evolve(route, legs=legs)


S = TypeVar("S", bound=Installed)


class Tables(Generic[S]):
    """All tables of one family. A table that was once there stays, also when it is empty."""

    def __init__(self, family: int) -> None:
        """Start without any table."""
        self._family = family
        self._width = width_of(family)
        self._tables: dict[int, dict[int, list[S]]] = {}

    def __contains__(self, table: int) -> bool:
        return table in self._tables

    def __iter__(self) -> Iterator[int]:
        return iter(self._tables)

    def create(self, table: int) -> None:
        """Make the table, if it is not there."""
        self._tables.setdefault(table, {})

    def at(self, table: int, prefix: Prefix) -> list[S]:
        """The routes of exactly this prefix, in order; a copy."""
        return list(self._tables.get(table, {}).get(prefix.network << _BITS | prefix.length, ()))

    def put(self, table: int, prefix: Prefix, installed: Sequence[S]) -> None:
        """Set the routes of exactly this prefix."""
        by_prefix, key = self._tables[table], prefix.network << _BITS | prefix.length
        if installed:
            by_prefix[key] = list(installed)
        else:
            by_prefix.pop(key, None)

    def drop(self, gone: Iterable[S]) -> None:
        """Take these out, wherever they are."""
        for one in gone:
            route = one.route
            kept = [it for it in self.at(route.table, route.prefix) if it is not one]
            self.put(route.table, route.prefix, kept)

    def covering(self, address: int, tables: Iterable[int]) -> Iterator[S]:
        """What covers the address: longest prefix first, and of one prefix the tables in the order given."""
        searched = [by_prefix for table in tables if (by_prefix := self._tables.get(table))]
        for host in range(self._width + 1):
            key = (address >> host << host + _BITS) | (self._width - host)
            for by_prefix in searched:
                yield from by_prefix.get(key, ())

    def everything(self) -> Iterator[S]:
        """All of it, in no particular order; safe while the tables change."""
        for by_prefix in list(self._tables.values()):
            for installed in list(by_prefix.values()):
                yield from list(installed)

    def by_device(self, dev: str) -> Iterator[S]:
        """Those with a leg by the device."""
        return (it for it in self.everything() if dev in it.route.devs)

    def listed(self) -> Iterator[S]:
        """All of it, in the order of `ip route show table all`.

        Linux hashes tables by the low byte of their number, the youngest first. In a table IPv4 goes by the first
        address and then by the longest prefix; IPv6 puts what is inside a prefix before it.
        """
        ages = {table: age for age, table in enumerate(self._tables)}
        for table in sorted(self._tables, key=lambda it: (it & 255, -ages[it])):
            by_prefix = self._tables[table]
            for key in sorted(by_prefix, key=_by_first if self._family == IPV4 else _by_last):
                yield from by_prefix[key]


def _by_first(key: int) -> int:
    # With all bits of the length turned over, the longest comes first.
    return key ^ 255


def _by_last(key: int) -> tuple[int, int]:
    network, length = key >> _BITS, key & 255
    return (network | ((1 << (128 - length)) - 1), -length)
