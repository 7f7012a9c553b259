"""Listings of routes as tables: reading a thousand messages at once equals reading each."""

import struct
from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.kernel._route_table import Outline, RouteTable
from hostrouting.kernel.netlink import read as route_list
from hostrouting.kernel.netlink.channel import Listing, add_run
from hostrouting.kernel.netlink.read import RouteReader
from hostrouting.kernel.netlink.route_message import read_route
from hostrouting.model.prefix import IPV6, Prefix, width_of
from hostrouting.model.route import ROUTE_TYPES, NextHop, Route
from hostrouting.testing.strategies import DEVICES, blocks, routes
from tests.support.examples import scaled
from tests.support.rawmessages import pack_attribute

_NUMBERS = {dev: 300 + place for place, dev in enumerate(DEVICES)}
_NAMES = {number: dev for dev, number in _NUMBERS.items()}


def message_of(route: Route) -> bytes:
    """A route as the kernel lists it: the table first, then the destination, and a list of several next hops."""
    family, length = route.prefix.family, width_of(route.prefix.family) // 8
    attributes = pack_attribute(15, struct.pack("=I", route.table))
    if route.prefix.length:
        attributes += pack_attribute(1, route.prefix.network.to_bytes(length, "big"))
    if route.source is not None:
        attributes += pack_attribute(2, route.source.network.to_bytes(length, "big"))
    if route.metric:
        attributes += pack_attribute(6, struct.pack("=I", route.metric))
    if route.prefsrc is not None:
        attributes += pack_attribute(7, route.prefsrc.packed)
    flags = 0
    if len(route.legs) == 1:
        flags = route.legs[0].dead | 0x10 * route.legs[0].linkdown
        attributes += _way(route.legs[0])
    elif route.legs:
        hops = b""
        for leg in route.legs:
            way = _way(leg)
            state = leg.dead | 0x10 * leg.linkdown
            hops += struct.pack("=HBBI", 8 + len(way), state, leg.weight - 1, _NUMBERS[str(leg.dev)]) + way
        attributes += pack_attribute(9, hops)
    fixed = struct.pack(
        "=8BI",
        {4: 2, 6: 10}[family],
        *(
            route.prefix.length,
            route.source.length if route.source else 0,
            route.tos,
            min(route.table, 252),
            route.protocol,
            route.scope,
        ),
        ROUTE_TYPES.index(route.type),
        flags,
    )
    return struct.pack("=IHHII", 28 + len(attributes), 24, 2, 1, 0) + fixed + attributes


def _way(leg: NextHop) -> bytes:
    gateway = b"" if leg.gateway is None else pack_attribute(5, leg.gateway.packed)
    return gateway + pack_attribute(4, struct.pack("=I", _NUMBERS[str(leg.dev)]))


def table_of(pieces: Sequence[Sequence[Route]]) -> tuple[RouteTable, list[bytes]]:
    """The routes as if the kernel had listed each part; and the messages that were decoded."""
    read: list[bytes] = []

    def reading(message: bytes) -> Route:
        read.append(message)
        return read_route(message, _NAMES, {})

    reader = RouteReader(reading)
    for piece in pieces:
        data, runs = b"", list[range]()
        for message in map(message_of, piece):
            add_run(runs, len(data), len(message))
            data += message
        reader.take(Listing(data, runs))
    return reader.table(), read


@st.composite
def listed(draw: st.DrawFn) -> list[list[Route]]:
    """Parts of a listing: some with routes that differ only in their prefixes, and some with any."""
    found: list[list[Route]] = []
    for _ in range(draw(st.integers(1, 4))):
        block = draw(blocks(draw(st.sampled_from([4, 4, 4, 6]))))
        route = draw(routes(block))
        source = Prefix.parse("2001:db8::/32") if block.family == IPV6 and draw(st.booleans()) else None
        many = [
            attrs.evolve(
                Route.to(
                    Prefix.around(block.family, block.first + at, width_of(block.family) - at % 2),
                    dev="eth0",
                    gateway=None,
                    table=route.table,
                ),
                source=source,
            )
            for at in range(draw(st.integers(0, 20)))
        ]
        found.append([*many, *draw(st.lists(routes(block), max_size=4))])
    return found


class TestTable:
    """A listing is read as the routes in its messages."""

    @given(listed(), st.sampled_from([1, 8, 1024]))
    @settings(max_examples=scaled(200))
    def test_each_message_is_its_route(self, pieces: list[list[Route]], most: int) -> None:
        """However many are read at once, the table has the routes in their order."""
        with patch.object(route_list, "_MOST", most):
            table, _ = table_of(pieces)
        assert table.outlines == [Outline.of(table.shapes[number]) for number in range(len(table.shapes))]
        assert table == tuple(route for piece in pieces for route in piece)

    def test_of_what_differs_in_the_destination_one_is_read(self) -> None:
        """In a large table few messages are decoded in full, and the same number when read one by one."""
        many = [Route.to(f"20.0.{low}.0/{24 + low % 2}", dev="eth0", gateway="10.0.0.1") for low in range(200)]
        pieces = [[Route.to("0.0.0.0/0", dev="eth0")], many, [attrs.evolve(it, metric=7) for it in many]]
        for most in (1, 1024):
            with patch.object(route_list, "_MOST", most):
                table, read = table_of(pieces)
            assert (len(table), len(table.shapes), len(read)) == (401, 3, 1)
            assert list(table) == [route for piece in pieces for route in piece]
            assert len(read) == 3

    def test_whatever_tells_them_apart(self) -> None:
        """Routes that differ in their type, tos, device, gateway or next hop state have different shapes."""
        route = Route.to("20.0.0.0/24", dev="eth0", gateway="10.0.0.1")
        ways = (Route.to("20.0.0.0/24", dev="ib0", gateway=it) for it in ("10.0.0.1", "10.0.0.2"))
        (leg,) = route.legs
        legs = (attrs.evolve(leg, dead=True), attrs.evolve(leg, linkdown=True))
        states = (attrs.evolve(route, legs=(it,)) for it in legs)
        others = (attrs.evolve(route, tos=16), attrs.evolve(route, type="local"))
        # The gateway of the one is the source of the other, and all other bytes are equal.
        direct = attrs.evolve(Route.to("20.0.0.0/24", dev="eth0"), scope=route.scope)
        sourced = attrs.evolve(direct, prefsrc=leg.gateway)
        every = [route, *ways, *states, *others, sourced]
        table, _ = table_of([every])
        assert len(set(table.shape_numbers)) == len(every)

    @given(listed())
    def test_one_after_the_other(self, pieces: list[list[Route]]) -> None:
        """Messages outside a list, such as answers, are read as single routes."""
        reader = RouteReader(partial(read_route, names=_NAMES, nexthops={}))
        routes = [route for piece in pieces for route in piece]
        assert [reader.route(message_of(route)) for route in routes] == routes
