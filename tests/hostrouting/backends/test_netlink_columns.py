"""Columns and shapes of raw messages: what is told of a thousand at a stroke is what each of them says."""

import struct
from array import array
from collections.abc import Sequence
from unittest.mock import patch

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.backends.netlink import columns
from hostrouting.backends.netlink.routedump import RouteDump
from hostrouting.model import ROUTE_TYPES, NextHop, Prefix, Route, route_columns, route_shapes, width_of
from tests.support.examples import scaled
from tests.support.rawmessages import pack_attribute
from tests.support.strategies import DEVICES, blocks, routes

_NUMBERS = {dev: 300 + place for place, dev in enumerate(DEVICES)}


def message_of(route: Route) -> bytes:
    """A route as the kernel lists it: the table first, then where it leads, and a list of legs if there are several."""
    family, length = route.prefix.family, width_of(route.prefix.family) // 8
    attributes = pack_attribute(15, struct.pack("=I", route.table))
    if route.prefix.length:
        attributes += pack_attribute(1, route.prefix.network.to_bytes(length, "big"))
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
        *(route.prefix.length, 0, route.tos, min(route.table, 252), route.protocol, route.scope),
        ROUTE_TYPES.index(route.type),
        flags,
    )
    return struct.pack("=IHHII", 28 + len(attributes), 24, 2, 1, 0) + fixed + attributes


def _way(leg: NextHop) -> bytes:
    gateway = b"" if leg.gateway is None else pack_attribute(5, leg.gateway.packed)
    return gateway + pack_attribute(4, struct.pack("=I", _NUMBERS[str(leg.dev)]))


def dump_of(pieces: Sequence[Sequence[Route]]) -> RouteDump:
    """The routes as if the kernel had listed them, with room behind each piece."""
    data, offsets = b"", array("I")
    for piece in pieces:
        for route in piece:
            offsets.append(len(data))
            data += message_of(route)
        data += bytes(64)
    return RouteDump(data, offsets, {number: dev for dev, number in _NUMBERS.items()}, {})


@st.composite
def listed(draw: st.DrawFn) -> list[list[Route]]:
    """Pieces of a listing: some of routes that differ in their prefixes alone, and some of any."""
    found: list[list[Route]] = []
    for _ in range(draw(st.integers(1, 4))):
        block = draw(blocks(draw(st.sampled_from([4, 4, 4, 6]))))
        route = draw(routes(block))
        many = [
            Route.to(
                Prefix.around(block.family, block.first + at, width_of(block.family) - at % 2),
                dev="eth0",
                gateway=None,
                table=route.table,
            )
            for at in range(draw(st.integers(0, 20)))
        ]
        found.append([*many, *draw(st.lists(routes(block), max_size=4))])
    return found


class TestColumns:
    """Columns have each route once, and each where it is."""

    @given(listed())
    def test_messages_say_what_they_should(self, pieces: list[list[Route]]) -> None:
        """The messages of these tests are read as the routes that they were made of."""
        dump = dump_of(pieces)
        assert list(dump) == [route for piece in pieces for route in piece]

    @given(listed(), st.sampled_from([(2, 8), (2, 1024), (64, 1024)]))
    @settings(max_examples=scaled(200), deadline=None)
    def test_they_are_the_keys(self, pieces: list[list[Route]], sizes: tuple[int, int]) -> None:
        """By columns, each position has the family, table, network and length of its route."""
        dump = dump_of(pieces)
        with patch.multiple(columns, _FEWEST=sizes[0], _MOST=sizes[1]):
            found = list(dump.columns())
        told = {
            position: (column.family, column.table, network, length)
            for column in found
            for position, network, length in zip(column.positions, column.networks, column.lengths, strict=True)
        }
        assert [told[position] for position in range(len(dump))] == [key[:4] for key in dump.keys()]  # noqa: SIM118  no mapping
        assert sum(len(column.positions) for column in found) == len(dump)
        assert all(list(column.positions) == sorted(column.positions) for column in found)
        # What is told of routes that are there already is the same, and in the same order.
        plainly = [(*it[:2], *map(list, it[2:])) for it in route_columns(tuple(dump))]
        assert sorted(plainly) == sorted((*it[:2], *map(list, it[2:])) for it in found)

    def test_messages_that_are_alike_are_not_read_one_by_one(self) -> None:
        """Of a large table all is told by slices, but for where the kernel's pieces end."""
        many = [Route.to(f"20.0.{low}.0/24", dev="eth0", gateway="10.0.0.1") for low in range(200)]
        dump = dump_of([[Route.to("0.0.0.0/0", dev="eth0")], many, many])
        with patch("hostrouting.backends.netlink.columns.keys", wraps=columns.keys) as keys:
            (column,) = dump.columns()
        assert list(column.networks[1:201]) == [route.prefix.network for route in many]
        assert column.positions == range(401)
        assert sum(len(call.args[1]) for call in keys.call_args_list) == columns._FEWEST


class TestShapes:
    """Shapes tell apart what has to be told apart."""

    @given(listed(), st.sampled_from([(2, 8), (64, 1024)]), st.data())
    @settings(max_examples=scaled(200), deadline=None)
    def test_one_shape_is_one_decision(
        self, pieces: list[list[Route]], sizes: tuple[int, int], data: st.DataObject
    ) -> None:
        """Routes of one shape have one type and tos and equal legs, from wherever and however they are asked for."""
        dump = dump_of(pieces)
        within = sorted(data.draw(st.tuples(st.integers(0, len(dump)), st.integers(0, len(dump)))))
        with patch.multiple(columns, _FEWEST=sizes[0], _MOST=sizes[1]):
            for routes_of in (dump, tuple(dump)):
                everywhere = list(route_shapes(routes_of)(list(range(len(dump)))))
                assert list(route_shapes(routes_of)(range(*within))) == everywhere[slice(*within)]
                assert len(everywhere) == len(dump)
                seen: dict[object, tuple[object, ...]] = {}
                for shape, route in zip(everywhere, routes_of, strict=True):
                    told = (route.type, route.tos, route.legs)
                    assert seen.setdefault(shape, told) == told

    def test_routes_that_differ_in_their_prefix_have_one(self) -> None:
        """Of routes that all leave by one gateway there is one shape, whatever their prefixes."""
        many = [Route.to(f"20.0.{low}.0/{24 + low % 2}", dev="eth0", gateway="10.0.0.1") for low in range(200)]
        assert len(set(dump_of([many]).shapes(range(200)))) == 1

    def test_whatever_tells_them_apart(self) -> None:
        """Routes that differ in their type, tos, device, gateway or the state of a leg have each another shape."""
        route = Route.to("20.0.0.0/24", dev="eth0", gateway="10.0.0.1")
        ways = (Route.to("20.0.0.0/24", dev="ib0", gateway=it) for it in ("10.0.0.1", "10.0.0.2"))
        (leg,) = route.legs
        legs = (attrs.evolve(leg, dead=True), attrs.evolve(leg, linkdown=True))
        states = (attrs.evolve(route, legs=(it,)) for it in legs)
        others = (attrs.evolve(route, tos=16), attrs.evolve(route, type="local"))
        # What is a gateway in the one is a source in the other, and all else is alike, byte for byte.
        direct = Route.to("20.0.0.0/24", dev="eth0", scope=route.scope)
        sourced = attrs.evolve(direct, prefsrc=leg.gateway)
        every = [route, *ways, *states, *others, sourced]
        assert len(set(dump_of([every]).shapes(range(len(every))))) == len(every)
