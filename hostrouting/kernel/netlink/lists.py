"""Lists of routes: they are long, and few of their routes are asked for.

The plain way to read a list is to `decode` each message, and then to keep the routes that were
asked for (`Near`). `RouteReader` has the same result, and decodes few messages, because of three
facts:

1. Most routes of a list differ only in the destination. The kernel writes the table first, then
   the destination, so its bytes are at the same place in most messages. The other bytes of a
   message say everything else about the route: they are its template. One message of each template
   is decoded. The route of each other one is a copy, with the destination that is at this place.
2. Whether a route of a template was asked for depends on its first address alone. So for each
   template it is decided once between which addresses, the borders, the routes are wanted.
3. Where many messages of one template follow each other, their destinations ascend: they are a run.
   All messages between two borders are kept or skipped together, and bisection finds their end.

For 10,000 routes by one gateway, of which 100 are wanted, the plain way takes 100 ms. Templates and
borders take 5 ms, and with runs it is 1 ms.
"""

from __future__ import annotations

import errno
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from hostrouting.kernel.base import Near, is_wanted
from hostrouting.kernel.netlink.numbers import FAMILY_OF, RTM_GETROUTE
from hostrouting.kernel.netlink.routes import ROUTE_ATTRIBUTES_AT, RTA_DST, RTA_TABLE, decode, rtmsg
from hostrouting.kernel.netlink.socket import (
    ATTRIBUTE,
    HEADER,
    NUMBER,
    KernelError,
    NetlinkSocket,
    attribute,
)
from hostrouting.model.prefix import Prefix, width_of
from hostrouting.model.route import Route

_TABLE_HEADER = ATTRIBUTE.pack(ATTRIBUTE.size + NUMBER.size, RTA_TABLE)
_DST_AT = ROUTE_ATTRIBUTES_AT + len(_TABLE_HEADER) + NUMBER.size + ATTRIBUTE.size
"""Where the destination is in most messages: in the second attribute, after the table."""

_AT_ONCE = 256  # messages: more would seldom have one template


def list_routes(
    netlink: NetlinkSocket, family: int, tables: Collection[int] | None, reader: RouteReader
) -> list[Route]:
    """The routes of these tables, in the kernel's order; None means all tables."""
    question = rtmsg(family)
    questions = [question]
    if tables is not None:
        questions = [question + _of_table(table) for table in sorted(tables)]

    routes: list[Route] = []
    for question in questions:
        try:
            for part in netlink.parts(RTM_GETROUTE, question):
                routes += reader.read(part, netlink.size_at)
        except KernelError as error:
            if error.number != errno.ENOENT:  # there is no such table
                raise
    return routes


def _of_table(table: int) -> bytes:
    return attribute(RTA_TABLE, NUMBER.pack(table))


class RouteReader:
    """Converts messages to routes, and skips those that were not asked for."""

    def __init__(self, names: Mapping[int, str], near: Collection[Prefix] | None = None) -> None:
        """`names` are those of devices; `near` is as in `RouteBackend.snapshot`."""
        self._names = names
        self._near = Near(near)
        self._templates: dict[bytes, _Template] = {}

    def read(self, part: bytes, size_at: Callable[[bytes, int], int]) -> list[Route]:
        """The wanted routes in a part of a list; `size_at` is the method of its socket."""
        routes: list[Route] = []
        at = 0
        while size := size_at(part, at):
            layout = _layout_of(size, family=FAMILY_OF[part[at + HEADER.size]])
            # The next messages, if all of them have this size: that is found out below.
            count = min((len(part) - at) // size, _AT_ONCE)
            messages = memoryview(part)[at : at + count * size]
            run = layout.run_of(messages)
            if run is not None and run.template in self._templates:
                routes += self._templates[run.template].wanted_in(run)
                at += len(messages)
                continue
            if run is not None:
                messages = messages[:size]  # this one makes the template known
            at += self._read_each(messages, layout, routes)
        return routes

    def _read_each(self, messages: memoryview, layout: _Layout, routes: list[Route]) -> int:
        """Read one message after the other, and append the wanted routes.

        Ends before the first message that has another header, because it may have another size.
        Returns the number of bytes that were read.
        """
        header = bytes(messages[: HEADER.size])
        read = 0
        for before, destination, after in layout.split(messages):
            template = self._templates.get(before + after)
            if template is not None:
                network = _network_of(destination)
                if is_wanted(network, template.borders):
                    routes.append(template.route_to(network))
            elif before.startswith(header):
                route = decode(before + destination + after, self._names)
                if layout.is_usual(before):
                    self._templates[before + after] = self._template_of(route)
                if self._near.keeps(route):
                    routes.append(route)
            else:
                break
            read += layout.size
        return read

    def _template_of(self, route: Route) -> _Template:
        borders = self._near.borders_for(route)
        if borders is None:
            borders = [0]  # wanted from the first address on
        return _Template(route, borders)

    def is_about(self, message: bytes, tables: Collection[int] | None) -> bool:
        """Whether a change of the route in a message can change what is read from these tables.

        Linux keeps IPv4 routes with the same first address in one list, and counts how many of them
        it has sent. So a change affects every prefix that begins at this address.
        """
        route = decode(message, self._names)
        if tables is not None and route.table not in tables:
            return False
        widest = route._replace(prefix=_widest_from(route.prefix))
        borders = self._near.borders_for(widest)
        return borders is None or is_wanted(route.prefix.first, borders)


def _widest_from(prefix: Prefix) -> Prefix:
    """The widest prefix with the same first address."""
    family, network, _ = prefix
    if not network:
        return Prefix(family, 0, 0)
    zeros_at_the_end = (network & -network).bit_length() - 1
    return Prefix(family, network, width_of(family) - zeros_at_the_end)


class _Template:
    """A route, from which others are made that differ only in the destination."""

    def __init__(self, route: Route, borders: Sequence[int]) -> None:
        """`borders` are where wanted destinations begin and end, in turn."""
        prefix, *self._all_but_prefix = route
        self._family, _, self._length = prefix
        self.borders = borders

    def route_to(self, network: int) -> Route:
        """The route to this destination."""
        prefix = Prefix(self._family, network, self._length)
        return Route._make((prefix, *self._all_but_prefix))

    def wanted_in(self, run: _Run) -> list[Route]:
        """The wanted routes of a run of this template: from border to border, all or none."""
        routes: list[Route] = []
        destinations = run.destinations
        place = 0
        while place < len(destinations):
            index = bisect_right(self.borders, _network_of(destinations[place]))
            end = len(destinations)
            if index < len(self.borders):
                end = bisect_left(destinations, self.borders[index], place, key=_network_of)
            is_after_a_beginning = index % 2 == 1
            if is_after_a_beginning:
                routes += [self.route_to(_network_of(each)) for each in destinations[place:end]]
            place = end
        return routes


class _Run(NamedTuple):
    """Messages of one template, whose destinations ascend."""

    template: bytes
    destinations: Sequence[bytes]


class _Layout:
    """Where the destination is in messages of one size and family."""

    def __init__(self, size: int, family: int) -> None:
        width = width_of(family) // 8
        self.size = size
        self._dst_end = _DST_AT + width
        self._dst_header = ATTRIBUTE.pack(ATTRIBUTE.size + width, RTA_DST)
        self._is_too_short = size < self._dst_end
        after = max(size - self._dst_end, 0)
        layout = f"{size}s 0s 0s" if self._is_too_short else f"{_DST_AT}s {width}s {after}s"
        self._message = struct.Struct(layout)
        self._only_destination = f"{_DST_AT}x {width}s {after}x"

    def split(self, messages: memoryview) -> Iterator[tuple[bytes, bytes, bytes]]:
        """For each message, the bytes before, in and after the destination."""
        return self._message.iter_unpack(messages)

    def is_usual(self, before: bytes) -> bool:
        """Whether the bytes before the destination say that it is one, and comes after a table."""
        has_table = before.startswith(_TABLE_HEADER, ROUTE_ATTRIBUTES_AT)
        return has_table and before.endswith(self._dst_header)

    def run_of(self, messages: memoryview) -> _Run | None:
        """The messages as a run; None if they are not one.

        They have one template if they are equal once the destinations are blanked. To blank a
        column of bytes in 256 messages takes one step, so the proof costs less than to look at each
        message: 10,000 routes are read in 1 ms, and without this function in 5.
        """
        size = self.size
        last = messages[-size:]
        has_last_header_of_first = last[: HEADER.size] == messages[: HEADER.size]
        if self._is_too_short or not has_last_header_of_first:
            return None
        count = len(messages) // size
        blanked = bytearray(messages)
        for column in range(_DST_AT, self._dst_end):
            blanked[column::size] = bytes(count)
        first = bytes(blanked[:size])
        if blanked != first * count:
            return None
        destinations = list(struct.unpack(self._only_destination * count, messages))
        if destinations != sorted(destinations):
            return None
        return _Run(first[:_DST_AT] + first[self._dst_end :], destinations)


@lru_cache
def _layout_of(size: int, family: int) -> _Layout:
    return _Layout(size, family)


def _network_of(destination: bytes) -> int:
    return int.from_bytes(destination, "big")
