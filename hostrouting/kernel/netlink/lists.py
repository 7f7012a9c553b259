"""Lists of routes: they are long, and few of their routes are asked for.

The plain way to read a list is to `decode` each message, and then to keep the routes that were
asked for (`Near`). `RouteReader` has the same result, and decodes few messages, because of two
facts:

1. Most routes of a list differ only in the destination. The kernel writes the table first, then
   the destination, so its bytes are at the same place in most messages. The other bytes of a
   message say everything else about the route: they are its template. One message of each template
   is decoded. For the others, its route is copied, and gets the destination at this place. The
   header, which says the size of the message, belongs to the template. So one message is read in
   the plain way, and then those behind it, while their templates are known. Then again one.
   (The mark of a list that changed is in the header, too: the first message that has the mark has
   no template yet, so it is read in the plain way, which sees the mark.)
2. Whether a route of a template was asked for depends on its first address alone. So for each
   template it is worked out once where the wanted addresses begin and end: these are its borders.

For 10,000 routes by one gateway, of which 100 are wanted, the plain way takes 100 ms, and this one
takes 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

from hostrouting.kernel.netlink.numbers import RTM_GETROUTE
from hostrouting.kernel.netlink.routes import (
    ROUTE_ATTRIBUTES_AT,
    RTA_DST,
    decode,
    question_rtmsg,
)
from hostrouting.kernel.netlink.socket import (
    ATTRIBUTE,
    NUMBER,
    Netlink,
)
from hostrouting.kernel.part import Near, is_wanted
from hostrouting.model.prefix import IPV4, IPV6, Prefix, width_of
from hostrouting.model.route import Route

_DST_AT = ROUTE_ATTRIBUTES_AT + ATTRIBUTE.size + NUMBER.size + ATTRIBUTE.size
"""Where the destination is in most messages: in the second attribute, after the table."""
_DST_HEADERS = {
    family: ATTRIBUTE.pack(ATTRIBUTE.size + width_of(family) // 8, RTA_DST)
    for family in (IPV4, IPV6)
}


def list_routes(netlink: Netlink, family: int, reader: RouteReader) -> list[Route]:
    """The routes of all tables, in the kernel's order."""
    routes: list[Route] = []
    for part in netlink.parts(RTM_GETROUTE, question_rtmsg(family)):
        routes += reader.read(part, netlink.size_at)
    return routes


class RouteReader:
    """Converts messages to routes, and skips those that were not asked for.

    The templates that it has found in one list also serve the next one.
    """

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
            message = part[at : at + size]
            route = decode(message, self._names)
            if self._near.keeps(route):
                routes.append(route)
            layout = _layout(size, width_of(route.prefix.family) // 8)
            before, _, after = layout.unpack(message)
            self._add_template(route, before, after)
            at += size

            count = (len(part) - at) // size  # if all behind it have this size
            rest = memoryview(part)[at : at + count * size]
            for before, destination, after in layout.iter_unpack(rest):
                template = self._templates.get(before + after)
                if template is None:
                    break
                network = int.from_bytes(destination, "big")
                if is_wanted(network, template.borders):
                    routes.append(template.route_to(network))
                at += size
        return routes

    def _add_template(self, route: Route, before: bytes, after: bytes) -> None:
        """Remember the route by its template: the bytes before and after the destination, if that
        is at its usual place.
        """
        if before.endswith(_DST_HEADERS[route.prefix.family]):
            self._templates[before + after] = _Template(route, self._near.borders_for(route))


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


@lru_cache
def _layout(size: int, width: int) -> struct.Struct:
    after = size - _DST_AT - width
    if after < 0:  # the message is too short for a destination at this place
        return struct.Struct(f"{size}s 0s 0s")
    return struct.Struct(f"{_DST_AT}s {width}s {after}s")
