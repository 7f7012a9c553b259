"""Reads the kernel's list of routes, of which there may be 100,000; a check of one CIDR needs few.

To decode a message takes long, and most messages of a list differ only in their destination, whose
bytes are at the same place in most of them. All other bytes are the kind of the message. The first
message of a kind is decoded; the routes of the others are copies of its route with another
destination, or are left out. By that, a check beside 50,000 routes takes 0.2 s instead of 0.8 s.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Collection, Mapping
from functools import cache

from hostrouting.kernel.netlink.numbers import RTM_GETROUTE
from hostrouting.kernel.netlink.routes import ROUTE_ATTRIBUTES_AT, RTA_DST, decode, question_rtmsg
from hostrouting.kernel.netlink.socket import ATTRIBUTE, NUMBER_ATTRIBUTE, Netlink
from hostrouting.model.prefix import Prefix, width_of
from hostrouting.model.route import OURS, Route

_DST_AT = ROUTE_ATTRIBUTES_AT + NUMBER_ATTRIBUTE.size + ATTRIBUTE.size
"""Where the destination is in most messages: in the second attribute, behind the table."""
_EVERYWHERE = [0]  # the borders of one range, which begins at 0 and does not end


def list_routes(
    netlink: Netlink,
    family: int,
    names: Mapping[int, str],
    near: Collection[Prefix] | None = None,
) -> list[Route]:
    """Return the routes of all tables, in the kernel's order; for `near`, see `RouteBackend`.

    Of messages that differ only in the destination, just the first is decoded. The others become
    copies of its route with another destination, or are left out if they are not `near`.
    """

    @cache
    def borders_near(length: int) -> list[int]:
        return _borders_of_overlapping(near or (), family, length)

    width = width_of(family) // 8
    dst_header = ATTRIBUTE.pack(ATTRIBUTE.size + width, RTA_DST)
    kinds: dict[bytes, tuple[Route, list[int]]] = {}
    """By kind, which is a message without its destination: its first route, and the borders between
    which a destination is `near` (see `_borders_of_overlapping`).
    """
    routes: list[Route] = []
    for size, run in netlink.dump_in_runs(RTM_GETROUTE, question_rtmsg(family)):
        for before, destination, after in _layout(size, width).iter_unpack(run):
            kind = before + after
            network = int.from_bytes(destination, "big")
            if kind in kinds:
                first, borders = kinds[kind]
                if bisect_right(borders, network) % 2 == 1:  # an odd place is inside a range
                    prefix = Prefix(family, network, first.prefix.length)
                    routes.append(first._replace(prefix=prefix))
                continue
            route = decode(before + destination + after, names)
            routes.append(route)
            # A message with its destination elsewhere has no kind: each of these is decoded.
            if before.endswith(dst_header):
                borders = _EVERYWHERE  # none is left out
                if near is not None and _may_be_left_out(route):
                    borders = borders_near(route.prefix.length)
                kinds[kind] = route, borders
    return routes


def _layout(size: int, width: int) -> struct.Struct:
    """The layout of messages of this size: what is before the destination, the destination of this
    width, and what is after it. All bytes of a message too short for that are in the first part.
    """
    after = size - _DST_AT - width
    if after < 0:
        return struct.Struct(f"{size}s 0s 0s")
    return struct.Struct(f"{_DST_AT}s {width}s {after}s")


def _may_be_left_out(route: Route) -> bool:
    """Whether routes that differ from this one only in their address, not in their length, may be
    left out. Callers need all routes of the lengths 0 and 1, all without gateway, and all of ours.
    """
    return route.prefix.length > 1 and route.has_gateway and route.protocol != OURS


def _borders_of_overlapping(blocks: Collection[Prefix], family: int, length: int) -> list[int]:
    """Return the ranges in which exactly those prefixes of this length begin that overlap a block.
    All ranges are one flat list, for bisect: the first address of a range, the address after its
    last one, the first address of the next range, and so on.
    """
    ranges: set[Prefix] = set()
    for block in blocks:
        if block.family == family:
            # A shorter prefix overlaps the block only if it contains it: there is one, `around`.
            # A longer prefix overlaps the block only if it begins in it.
            ranges.add(Prefix.around(family, block.first, min(length, block.length)))
    borders: list[int] = []
    # Of two prefixes that share addresses, one contains the other, and is sorted before it.
    for each in sorted(ranges):
        is_in_last_range = borders and each.first < borders[-1]
        if not is_in_last_range:
            borders += [each.first, each.last + 1]
    return borders
