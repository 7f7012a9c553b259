"""Which changes can change an answer about a host, so that a watch can leave out the others.

An answer, such as the verdict on an expected CIDR, depends on little of what changes on a busy host:

1. A route matters if it is ours, or if a rule looks up its table and its destination overlaps a network that the answer
   is about. A default route overlaps every network of its family.
2. These networks are those that were asked about; the gateways and source addresses of the routes that overlap them;
   the sources and destinations of rules; and the prefixes of those routes that refuse packets, because the routes
   inside such a prefix tell why it is refused.
3. Linux takes routes away without a report when their device goes down or loses an address. So a device counts if one
   of these routes leaves by it, or if it has an address in these networks; if a rule names it, or its name is like one
   that was asked about; and if it is the master of such a device. Everything about it matters.
4. Everything else matters: rules, next hop objects, and the settings of all devices together.

A change that does not matter changes neither the answer nor this value. So the value holds until a change matters,
however many others come before. It is made from what the answer was made from: a change after that reading is judged by
it, even if it is older than the answer.

Here: the value. Not here: reading what changes from a message (`kernel.netlink.watch`).
"""

from __future__ import annotations

from bisect import bisect_right
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

import attrs

from hostrouting.model import IPV4, IPV6, REFUSING, Prefix, reached_tables, spans_of, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Self

    from hostrouting.model import IP, Route, RouteTable, Snapshot

__all__ = ["Concern"]

_Spans: TypeAlias = "Mapping[int, tuple[Sequence[int], Sequence[int]]]"
"""By family, the first and the last addresses of ranges, in order; no two ranges touch."""


@attrs.frozen
class Concern:
    """What one answer depends on."""

    _spans: _Spans
    _tables: frozenset[int] | None
    _protocol: int
    _devices: frozenset[int]
    _names: frozenset[str]
    _patterns: tuple[str, ...]
    expires: int | None
    """In how many seconds the first of the routes ends: Linux then ignores it, and reports that much later."""

    @classmethod
    def of(cls, snapshot: Snapshot, networks: Iterable[Prefix], *, names: Iterable[str] = (), protocol: int) -> Self:
        """What an answer about these networks depends on, if it was made from this snapshot.

        `names` are patterns of devices that it is about, whether they exist or not; `protocol` is ours.
        """
        told = (prefix for rule in snapshot.rules for prefix in (rule.src, rule.dst) if prefix is not None)
        asked = [*networks, *(prefix for prefix in told if prefix.length)]
        tables = reached_tables(snapshot.rules)
        near = _overlapping(snapshot.routes, _spans_of(asked), tables)
        for route in near:
            asked += (_alone(end) for end in (route.prefsrc, *(leg.gateway for leg in route.legs)) if end is not None)
            asked += [route.prefix] if route.type in REFUSING and route.prefix.length else []
        spans, patterns = _spans_of(asked), tuple(names)
        counting = {"lo", *(dev for route in near for dev in route.devs)}
        counting |= {dev for rule in snapshot.rules for dev in (rule.iif, rule.oif) if dev}
        for address in snapshot.addresses:
            if any(_overlaps(spans, one.family, one.first, one.last) for one in (address.network, _alone(address.ip))):
                counting.add(address.dev)
        counting |= {link.name for link in snapshot.links if _is_like(link.name, patterns)}
        counting |= {link.master for link in snapshot.links if link.name in counting and link.master}
        return cls(
            spans,
            tables,
            protocol,
            frozenset(link.index for link in snapshot.links if link.name in counting),
            frozenset(counting),
            patterns,
            min((route.expires for route in near if route.expires is not None and route.expires >= 0), default=None),
        )

    def is_about(self, family: int) -> bool:
        """Whether any route of this family can matter, except ours."""
        return bool(self._spans[family][0])

    def has_route(self, family: int, table: int, protocol: int, network: int, length: int) -> bool:
        """Whether a change of a route like this matters."""
        if protocol == self._protocol:
            return True
        return (self._tables is None or table in self._tables) and self._is_near(family, network, length)

    def has_address(self, device: int, prefix: Prefix) -> bool:
        """Whether a change of an address, which is in this prefix, on the device with this number matters."""
        return device in self._devices or self._is_near(prefix.family, prefix.network, prefix.length)

    def has_device(self, number: int, name: str = "") -> bool:
        """Whether a change of the device matters; a negative number stands for all devices."""
        return number < 0 or number in self._devices or name in self._names or _is_like(name, self._patterns)

    def _is_near(self, family: int, network: int, length: int) -> bool:
        last = network | ((1 << width_of(family) - length) - 1)
        return _overlaps(self._spans, family, network, last)


def _spans_of(prefixes: Iterable[Prefix]) -> _Spans:
    spans = spans_of(prefixes)
    return {
        family: ([first for of, first, _ in spans if of == family], [last for of, _, last in spans if of == family])
        for family in (IPV4, IPV6)
    }


def _overlaps(spans: _Spans, family: int, first: int, last: int) -> bool:
    firsts, lasts = spans[family]
    place = bisect_right(firsts, last)
    return place > 0 and lasts[place - 1] >= first


def _overlapping(routes: RouteTable, spans: _Spans, tables: frozenset[int] | None) -> list[Route]:
    """A route of each shape that overlaps one of the ranges, and each of those that refuse packets."""
    found: dict[object, Route] = {}
    for column in routes.columns:
        if tables is not None and column.table not in tables:
            continue
        firsts, lasts = spans[column.family]
        width = width_of(column.family)
        hosts = [(1 << width - length) - 1 for length in range(width + 1)]
        for at, network, length in zip(column.positions, column.networks, column.lengths, strict=True):
            place = bisect_right(firsts, network | hosts[length])
            if place and lasts[place - 1] >= network:
                number = routes.shape_numbers[at]
                found.setdefault((number, at) if routes.shapes[number].type in REFUSING else number, routes[at])
    return [*found.values()]


def _alone(address: IP) -> Prefix:
    return Prefix(address.version, int(address), width_of(address.version))


def _is_like(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
