"""The changes that can change an answer about a host; a watch leaves out the others.

An answer, such as the verdict on an expected CIDR, depends on little of what changes on a busy host:

1. A route matters if it is ours, or if a rule looks up its table and its destination overlaps a network that the answer
   is about. A default route overlaps every network of its family.
2. These networks are those that were asked about; the gateways and source addresses of the routes that overlap them,
   except gateways that every link has (fe80::/10); and the sources that rules and these routes select. If a packet can
   be sent away before table local is looked up, they include the addresses of this host.
3. An address matters if it is in these networks. In two cases, every address of the family does: if table local is not
   looked up first, or if 0.0.0.0, the source of a packet that does not have one yet, is in a source that is selected.
4. Linux takes routes away without a report when their device goes down or loses an address. So a device counts if one
   of these routes leaves by it, or if it has an address in these networks; if a rule names it, or its name is like one
   that was asked about; and if it is the master of such a device. Everything about it matters.
5. Everything else matters: rules, next hop objects, and the settings of all devices together.

A change that does not matter changes neither the answer nor this value. So the value holds until a change matters,
however many others come before. It is made from what the answer was made from: a change after that reading is judged by
it, even if it is older than the answer.

Here: the value. Not here: reading what changes from a message (`kernel.netlink.watch`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import attrs

from hostrouting.kernel._route_table import Column, RouteTable
from hostrouting.model.prefix import IP, IPV4, IPV6, LINK_LOCAL, Prefix, spans_of, width_of
from hostrouting.model.route import TABLE_LOCAL, Route
from hostrouting.model.rule import by_priority, reached_tables

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.model.snapshot import Snapshot

_BOTH = (IPV4, IPV6)

_Spans: TypeAlias = "Mapping[int, tuple[Sequence[int], Sequence[int]]]"
"""By family, the first and the last addresses of ranges, in order; no two ranges touch."""


@attrs.frozen
class Concern:
    """What one answer depends on."""

    _spans: _Spans
    _tables: frozenset[int] | None
    _protocols: frozenset[int]
    _families: frozenset[int]
    """Those in which every address matters."""
    _devices: frozenset[int]
    _names: frozenset[str]
    _patterns: tuple[str, ...]
    expires: int | None
    """In how many seconds the first of the routes ends: Linux then ignores it, and reports that much later."""

    @classmethod
    def of(
        cls, snapshot: Snapshot, networks: Iterable[Prefix], *, names: Iterable[str] = (), protocols: Collection[int]
    ) -> Self:
        """What this snapshot's answer about these networks depends on.

        `names` are patterns of devices that it is about, whether they exist or not; `protocols` are ours.
        """
        rules = {family: [rule for rule in by_priority(snapshot.rules) if rule.family == family] for family in _BOTH}
        families = {family for family in _BOTH if rules[family] and not rules[family][0].looks_up(TABLE_LOCAL)}
        told = [rule.src for rule in snapshot.rules if rule.src is not None and rule.src.length]
        own = [_alone(address.ip) for address in snapshot.addresses if address.ip.version in families]
        asked, tables = [*networks, *told, *own], reached_tables(snapshot.rules)
        near = _overlapping(RouteTable.of(snapshot.routes), _spans_of(asked), tables)
        told += [route.source for route in near if route.source is not None]
        families |= {prefix.family for prefix in told if not prefix.network}
        asked += told
        for route in near:
            ends = (route.prefsrc, *(leg.gateway for leg in route.legs))
            asked += (_alone(end) for end in ends if end is not None and end not in LINK_LOCAL)
        spans, patterns = _spans_of(asked), tuple(names)
        counting = {"lo", *(dev for route in near for dev in route.devs)}
        counting |= {dev for rule in snapshot.rules for dev in (rule.iif, dict(rule.others).get("oif")) if dev}
        for address in snapshot.addresses:
            both = (address.network, _alone(address.ip))
            if address.ip.version in families or any(_overlaps(spans, one.family, one.first, one.last) for one in both):
                counting.add(address.dev)
        counting |= {link.name for link in snapshot.links if _is_like(link.name, patterns)}
        counting |= {link.master for link in snapshot.links if link.name in counting and link.master}
        return cls(
            spans,
            tables,
            frozenset(protocols),
            frozenset(families),
            frozenset(link.index for link in snapshot.links if link.name in counting),
            frozenset(counting),
            patterns,
            min((route.expires for route in near if route.expires is not None and route.expires >= 0), default=None),
        )

    def loses_place(self, prefix: Prefix) -> bool:
        """Whether a change of a route to this prefix can make a list, read meanwhile, miss a route that matters.

        IPv6 counts the routes of a table, and IPv4 those that begin at one address.
        """
        if prefix.family == IPV6:
            return bool(self._spans[IPV6][0])
        end = prefix.network | 1 << 32
        return self._is_near(IPV4, prefix.network, 33 - (end & -end).bit_length())

    def has_route(self, family: int, table: int, protocol: int, network: int, length: int) -> bool:
        """Whether a change of a route like this matters."""
        if protocol in self._protocols:
            return True
        return (self._tables is None or table in self._tables) and self._is_near(family, network, length)

    def has_address(self, device: int, prefix: Prefix) -> bool:
        """Whether a change of an address, which is in this prefix, on the device with this number matters."""
        if device in self._devices or prefix.family in self._families:
            return True
        return self._is_near(prefix.family, prefix.network, prefix.length)

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
        for family in _BOTH
    }


def _overlaps(spans: _Spans, family: int, first: int, last: int) -> bool:
    firsts, lasts = spans[family]
    place = bisect_right(firsts, last)
    return place > 0 and lasts[place - 1] >= first


def _overlapping(routes: RouteTable, spans: _Spans, tables: frozenset[int] | None) -> list[Route]:
    """One route of each shape that has a route in one of the ranges."""
    found: dict[int, Route] = {}
    for column in routes.columns:
        if tables is not None and column.table not in tables:
            continue
        firsts, lasts = spans[column.family]
        for place in column.once((*firsts, *lasts), partial(_places_in, column, firsts, lasts)):
            at = column.positions[place]
            if routes.shape_numbers[at] not in found:
                found[routes.shape_numbers[at]] = routes[at]
    return [*found.values()]


def _places_in(column: Column, firsts: Sequence[int], lasts: Sequence[int]) -> list[int]:
    """The places in the column with prefixes that overlap one of the ranges."""
    width, places = width_of(column.family), []
    hosts = [(1 << width - length) - 1 for length in range(width + 1)]
    for at, (network, length) in enumerate(zip(column.networks, column.lengths, strict=True)):
        place = bisect_right(firsts, network | hosts[length])
        if place and lasts[place - 1] >= network:
            places.append(at)
    return places


def _alone(address: IP) -> Prefix:
    return Prefix(address.version, int(address), width_of(address.version))


def _is_like(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
