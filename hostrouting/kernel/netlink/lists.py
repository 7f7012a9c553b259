"""The kernel's list of routes, of which few may be asked for: a check of one CIDR needs few of
100,000 routes.

To decode a message takes ten times as long as to skip it. Most messages of a list differ only in
their destination, whose bytes are at the same place in most of them. All other bytes are the kind
of the message. The first message of a kind is decoded, and says whether others of this kind may be
skipped. Of those, the ones whose destination overlaps an asked prefix are decoded, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from functools import cache

from hostrouting.kernel.netlink.numbers import RTM_GETROUTE
from hostrouting.kernel.netlink.routes import ROUTE_ATTRIBUTES_AT, RTA_DST, decode, question_rtmsg
from hostrouting.kernel.netlink.socket import ATTRIBUTE, NUMBER, Netlink
from hostrouting.model.prefix import Prefix, width_of
from hostrouting.model.route import OURS, Route

_DST_HEADER_AT = ROUTE_ATTRIBUTES_AT + ATTRIBUTE.size + NUMBER.size  # behind the table
_DST_AT = _DST_HEADER_AT + ATTRIBUTE.size
"""Where the destination is in most messages."""


def list_routes(
    netlink: Netlink,
    family: int,
    names: Mapping[int, str],
    near: Collection[Prefix] | None = None,
) -> list[Route]:
    """The routes of all tables, in the kernel's order; `near` as in `RouteBackend.snapshot`."""
    messages = netlink.dump(RTM_GETROUTE, question_rtmsg(family))
    if near is None:
        return [decode(message, names) for message in messages]

    @cache
    def borders_of(length: int) -> list[int]:
        return _borders_of_overlapping(near, family, length)

    width = width_of(family) // 8
    dst_end = _DST_AT + width
    dst_header = ATTRIBUTE.pack(ATTRIBUTE.size + width, RTA_DST)
    skippable: dict[bytes, list[int]] = {}
    """By kind: where those begin and end that are not skipped."""
    routes: list[Route] = []
    for message in messages:
        kind = message[:_DST_AT] + message[dst_end:]
        borders = skippable.get(kind)
        if borders is not None:
            network = int.from_bytes(message[_DST_AT:dst_end], "big")
            is_between = bisect_right(borders, network) % 2 == 1
            if not is_between:
                continue
        route = decode(message, names)
        routes.append(route)
        has_usual_place = message[_DST_HEADER_AT:_DST_AT] == dst_header
        if has_usual_place and _may_be_skipped(route):
            skippable[kind] = borders_of(route.prefix.length)
    return routes


def _may_be_skipped(route: Route) -> bool:
    """Whether routes that differ from this one only in their destination may be skipped.

    Default routes and their halves are not, routes without a gateway are not, and ours are not.
    """
    return route.prefix.length > 1 and route.has_gateway and route.protocol != OURS


def _borders_of_overlapping(blocks: Collection[Prefix], family: int, length: int) -> list[int]:
    """The first addresses of prefixes of this length that overlap a block lie in ranges: where the
    first range begins, where it ends, where the second begins, and so on.
    """
    ranges: set[Prefix] = set()
    for block in blocks:
        if block.family == family:
            ranges.add(Prefix.around(family, block.first, min(length, block.length)))
    borders: list[int] = []
    for each in sorted(ranges):
        is_inside_the_last = borders and each.first < borders[-1]
        if not is_inside_the_last:
            borders += [each.first, each.last + 1]
    return borders
