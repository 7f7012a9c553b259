"""A route as a message and back: every field of it, compared with pyroute2."""

import struct
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.kernel._fib.packet import Flow
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink import route_message
from hostrouting.kernel.netlink.lookup import encode_lookup, lookup_template
from hostrouting.kernel.netlink.route_message import LEG, ROUTE, ChangeEncoder, encode_change, read_route
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import PATHLESS, NextHop, Route
from hostrouting.testing.strategies import DEVICES, blocks
from tests.support.asked_routes import NAMES, VERBS, number_of, wanted
from tests.support.pyroute2messages import encode, parse, route_of

PLAIN = Route.to("1.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=213)
PLAIN_IPV6 = Route.to("fd00:1::/64", dev="eth0", gateway="fd00:99::1", protocol=213)
[LEG_OF_PLAIN] = PLAIN.legs
TWO = (LEG_OF_PLAIN, NextHop("wg0", weight=3))
NEXTHOPS = {5: PLAIN.legs}
# A different value for each field; a new field needs one here, and a row in ROUTE or LEG.
OTHERS: dict[str, Any] = {
    "prefix": Prefix.parse("2.0.0.0/9"),
    "legs": TWO,
    "table": 70000,
    "metric": 7,
    "tos": 0x10,
    "type": "local",
    "scope": 253,
    "protocol": 4,
    "prefsrc": as_ip("10.0.0.4"),
    "mtu": 1400,
    "advmss": 1300,
    "nexthop_id": 5,
    "source": Prefix.parse("fd00:9::/48"),
    "preference": "low",
    "expires": 600,
    "unread": ("realm",),
}
# IPv4 routes do not have these.
ONLY_IPV6 = ("source", "preference", "expires")
OTHERS_OF_LEG: dict[str, Any] = {
    "dev": "ib0",
    "gateway": as_ip("10.0.0.2"),
    "weight": 256,
    "onlink": True,
    "linkdown": True,
    "dead": True,
    "pervasive": True,
}
# What only the kernel sets for a next hop, by its flag (RTNH_F_…).
REMARKS = {"dead": 1, "pervasive": 2, "linkdown": 16}


def there_and_back(route: Route) -> Route:
    """The route read from the message that requests it."""
    return read_route(encode_change("add", route, number_of), NAMES, NEXTHOPS)


class TestFields:
    """No field is forgotten. A field of Route or NextHop without a row fails here."""

    def test_each_has_a_row(self) -> None:
        """Each field has one row, and a different value here."""
        assert sorted(row.field for row in ROUTE) == sorted(OTHERS) == sorted(attrs.fields_dict(Route))
        assert sorted(row.field for row in LEG) == sorted(OTHERS_OF_LEG) == sorted(attrs.fields_dict(NextHop))

    @pytest.mark.parametrize("field", [field.name for field in attrs.fields(Route) if field.name != "unread"])
    def test_of_a_route(self, field: str) -> None:
        """A different value gives a different message, also from an encoder that knows the first, and is read back."""
        first = PLAIN_IPV6 if field in ONLY_IPV6 else PLAIN
        encoder, other = ChangeEncoder(number_of), attrs.evolve(first, **{field: OTHERS[field]})
        assert there_and_back(first) == first
        assert there_and_back(other) == other != first
        messages = [encoder.message(RouteRequest("add", route), 0) for route in (first, other)]
        assert messages == [encode_change("add", route, number_of) for route in (first, other)]
        assert messages[0] != messages[1]

    @pytest.mark.parametrize("field", ONLY_IPV6)
    def test_that_is_not_in_its_family(self, field: str) -> None:
        """A field that only IPv6 has is not written for IPv4: Linux would ignore it there."""
        with pytest.raises(struct.error, match="only IPv6 routes have "):
            encode_change("add", attrs.evolve(PLAIN, **{field: OTHERS[field]}), number_of)

    @pytest.mark.parametrize("field", [field.name for field in attrs.fields(NextHop)])
    @pytest.mark.parametrize("legs", [PLAIN.legs, TWO], ids=["only", "several"])
    def test_of_a_leg(self, legs: tuple[NextHop, ...], field: str) -> None:
        """The same for a next hop; flags of the kernel, and the weight of a single next hop, are not sent."""
        encoder, leg = ChangeEncoder(number_of), attrs.evolve(LEG_OF_PLAIN, **{field: OTHERS_OF_LEG[field]})
        first, other = (attrs.evolve(PLAIN, legs=(it, *legs[1:])) for it in (LEG_OF_PLAIN, leg))
        asked = field not in REMARKS and (field != "weight" or len(legs) > 1)
        assert there_and_back(other) == (other if asked else first)
        messages = [encoder.message(RouteRequest("add", route), 0) for route in (first, other)]
        assert messages == [encode_change("add", route, number_of) for route in (first, other)]
        assert (messages[0] != messages[1]) is asked

    @pytest.mark.parametrize(
        ("attributes", "unread"),
        [
            (
                [("RTA_METRICS", {"attrs": [("RTAX_MTU", 1400), ("RTAX_LOCK", 4), ("RTAX_INITCWND", 9)]})],
                ("lock", "initcwnd"),
            ),
            ([("RTA_METRICS", {"attrs": [("RTAX_MTU", 1400), ("RTAX_HOPLIMIT", 0)]})], ()),
            ([("RTA_FLOW", 7)], ("realm",)),
        ],
    )
    def test_what_has_no_field(self, attributes: list[tuple[str, Any]], unread: tuple[str, ...]) -> None:
        """Attributes of a route that we do not know are named, and never requested."""
        told = encode("route", n.RTM_NEWROUTE, fields={"family": 2, "type": 1}, attributes=attributes)
        assert read_route(told, NAMES, {}).unread == unread
        assert there_and_back(attrs.evolve(PLAIN, unread=("realm",))) == PLAIN

    @pytest.mark.parametrize(("number", "word"), [(0, "medium"), (1, "high"), (2, "medium"), (3, "low"), (9, "medium")])
    def test_of_a_preference(self, number: int, word: str) -> None:
        """The two numbers that RFC 4191 reserves, and any other one, mean medium."""
        told = encode("route", n.RTM_NEWROUTE, fields={"family": 10, "type": 1}, attributes=[("RTA_PREF", number)])
        assert read_route(told, NAMES, {}).preference == word

    @pytest.mark.parametrize(("ticks", "seconds"), [(0, None), (1, 0), (250, 2), (-1, -1), (-250, -3)])
    def test_of_an_end(self, ticks: int, seconds: int | None) -> None:
        """Seconds are rounded down, so that a route that has just expired has a negative number."""
        info = {"rta_expires": ticks}
        told = encode("route", n.RTM_NEWROUTE, fields={"family": 10, "type": 1}, attributes=[("RTA_CACHEINFO", info)])
        assert read_route(told, NAMES, {}).expires == seconds

    @pytest.mark.parametrize("field", REMARKS)
    def test_of_a_remark(self, field: str) -> None:
        """The kernel's flags are read for a single next hop and for one of several."""
        hop = {"oif": 300, "hops": 0, "flags": REMARKS[field], "attrs": []}
        fields, marked = {"family": 2, "type": 1}, {"flags": REMARKS[field]}
        only = encode("route", n.RTM_NEWROUTE, fields=fields | marked, attributes=[("RTA_OIF", 300)])
        several = encode("route", n.RTM_NEWROUTE, fields=fields, attributes=[("RTA_MULTIPATH", [hop, hop])])
        said: dict[str, Any] = {field: True}
        leg = NextHop("eth0", **said)
        assert read_route(only, NAMES, {}).legs == (leg,)
        assert read_route(several, NAMES, {}).legs == (leg, leg)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *((name, -1) for name in ("tos", "scope", "protocol", "table", "metric", "mtu", "advmss", "nexthop_id")),
            *((name, 1 << 8) for name in ("tos", "scope", "protocol")),
            *((name, 1 << 32) for name in ("table", "metric", "mtu", "advmss", "nexthop_id")),
            pytest.param("legs", (LEG_OF_PLAIN, NextHop("wg0", weight=0)), id="light"),
            pytest.param("legs", (LEG_OF_PLAIN, NextHop("wg0", weight=257)), id="heavy"),
            pytest.param("legs", TWO * 5000, id="many"),
            pytest.param("prefsrc", as_ip("fd00::1"), id="source"),
        ],
    )
    def test_what_does_not_fit(self, field: str, value: Any) -> None:
        """A number that does not fit, or an address of the other family, raises an error."""
        with pytest.raises(struct.error):
            encode_change("add", attrs.evolve(PLAIN, **{field: value}), number_of)


class TestPyroute2:
    """pyroute2 reads the same from a message."""

    @settings(deadline=None)  # pyroute2 is loaded in one of them
    @given(data=st.data())
    def test_of_a_change(self, data: st.DataObject) -> None:
        """The encoded message has the requested content, for any route and verb."""
        block = data.draw(blocks(data.draw(st.sampled_from([4, 6]))))
        route, number = data.draw(wanted(block)), data.draw(st.sampled_from([None, None, None, 5, 6]))
        route = attrs.evolve(route, nexthop_id=number)
        verb, sequence = data.draw(st.sampled_from(VERBS)), data.draw(st.integers(1, 0x7FFFFFFF))
        message = encode_change(verb, route, number_of, sequence=sequence)
        legs = route.legs if number is None else NEXTHOPS.get(number, ())
        expected = attrs.evolve(route, legs=() if route.type in PATHLESS else legs)
        assert route_of(message, NAMES, NEXTHOPS) == expected == read_route(message, NAMES, NEXTHOPS)
        flags = {"add": 0x601, "append": 0xC01, "prepend": 0x401, "replace": 0x501, "delete": 0x001}
        header = parse("route", message)["header"]
        assert header["length"] == len(message)
        assert header["type"] == (25 if verb == "delete" else 24)
        assert (header["flags"], header["sequence_number"]) == (flags[verb], sequence)

    @settings(deadline=None)  # as above
    @given(family=st.sampled_from([4, 6]), data=st.data())
    def test_of_what_is_read(self, family: int, data: st.DataObject) -> None:
        """With attributes of any kind in any order, known here or not, both read the same route."""
        word = st.sampled_from([0, 1, 255, 70000, 0xFFFFFFFF])
        address = st.integers(1, 2**32 - 1).map(lambda number: str(ip_at(family, number)))
        via = st.just({"family": n.AF_OF[10 - family], "addr": "10.0.0.9" if family == 6 else "fe80::1"})
        way = {"RTA_GATEWAY": address, "RTA_VIA": via}
        hops = st.builds(
            lambda oif, hops, flags, said: {"oif": oif, "hops": hops, "flags": flags, "attrs": said},
            *(st.sampled_from([0, 300, 301, 999]), st.integers(0, 255), st.integers(0, 31), any_of(way)),
        )
        metrics = any_of({"RTAX_MTU": word, "RTAX_ADVMSS": word, "RTAX_HOPLIMIT": word, "RTAX_CC_ALGO": st.just("bbr")})
        said = data.draw(
            any_of(
                way
                | {
                    "RTA_DST": address,
                    "RTA_OIF": st.sampled_from([0, 300, 301, 999]),
                    "RTA_PRIORITY": word,
                    "RTA_PREFSRC": address,
                    "RTA_METRICS": metrics.map(lambda said: {"attrs": said}),
                    "RTA_MULTIPATH": st.lists(hops, max_size=3),
                    "RTA_TABLE": word,
                    "RTA_NH_ID": st.sampled_from([0, 5, 6]),
                    "RTA_PREF": st.integers(0, 3),
                    "RTA_FLOW": word,
                    "RTA_MARK": word,
                    "RTA_SRC": address,
                }
            )
        )
        byte = st.integers(0, 255)
        fields = {name: data.draw(byte) for name in ("tos", "table", "proto", "scope")}
        fields |= {"family": n.AF_OF[family], "dst_len": data.draw(st.integers(0, 32))}
        fields |= {"type": data.draw(st.integers(0, 11)), "flags": data.draw(st.sampled_from([0, 4, 21, 0x2017]))}
        message = encode("route", n.RTM_NEWROUTE, fields=fields, attributes=said)
        expected = route_of(message, NAMES, NEXTHOPS)
        assert read_route(message, NAMES, NEXTHOPS) == expected
        future = data.draw(st.binary(max_size=9))
        message += struct.pack("=HH", 4 + len(future), 4711) + future + bytes(-len(future) % 4)
        assert read_route(struct.pack("=I", len(message)) + message[4:], NAMES, NEXTHOPS) == expected


def any_of(said: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Any of these attributes, in any order."""
    return st.fixed_dictionaries({}, optional=said).flatmap(lambda chosen: st.permutations(list(chosen.items())))


class TestFillingIn:
    """A filled-in message equals an encoded one."""

    @given(data=st.data())
    def test_a_change(self, data: st.DataObject) -> None:
        """One encoder, used for any changes in a row, makes the messages of the plain path."""
        encoder = ChangeEncoder(number_of)
        block = data.draw(blocks(data.draw(st.sampled_from([4, 6]))))
        asked = data.draw(st.lists(wanted(block), min_size=1, max_size=4))
        # Others of the same shapes: they differ in the destination, or in a single next hop's gateway or its family.
        other = st.sampled_from([as_ip("10.0.0.7"), as_ip("8.0.5.0"), as_ip("::1"), None])
        asked += [attrs.evolve(route, prefix=data.draw(wanted(block)).prefix) for route in asked]
        asked += [
            attrs.evolve(route, legs=tuple(attrs.evolve(leg, gateway=data.draw(other)) for leg in route.legs))
            for route in asked
        ]
        asked += [attrs.evolve(route, nexthop_id=5) for route in asked[:2]]
        for route in asked:
            for verb in VERBS:
                sequence = data.draw(st.integers(1, 0x7FFFFFFF))
                plain = encode_change(verb, route, number_of, sequence=sequence)
                assert encoder.message(RouteRequest(verb, route), sequence) == plain
                assert len(plain) == struct.unpack_from("=I", plain)[0]

    @given(data=st.data())
    def test_a_question(self, data: st.DataObject) -> None:
        """For any flow, a filled-in request equals that of the plain path."""
        family = data.draw(st.sampled_from([4, 6]))
        number = st.integers(0, 255)
        flow = data.draw(
            st.builds(Flow, mark=number, tos=number, uid=number, ipproto=number, sport=number, dport=number)
        )
        flow = attrs.evolve(flow, oif=data.draw(st.sampled_from([None, "", *DEVICES])))
        destination, sequence = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(1, 0x7FFFFFFF))
        filled = lookup_template(family, flow, number_of).fill(sequence, ip_at(family, destination).packed)
        assert filled == encode_lookup(family, flow, number_of, sequence=sequence, dst=destination)

    def test_shapes_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With any number of shapes, only a limited number is kept."""
        monkeypatch.setattr(route_message, "_MOST_SHAPES", 3)
        encoder = ChangeEncoder(number_of)
        for metric in (*range(9), *range(9)):
            route = attrs.evolve(PLAIN, metric=metric)
            assert encoder.message(RouteRequest("add", route), 0) == encode_change("add", route, number_of)
            assert len(encoder._shapes) <= 3  # noqa: SLF001 RUF100

    def test_another_order_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """If attributes were written in a different order, an error would be raised."""
        monkeypatch.setattr(route_message, "ROUTE", ROUTE[::-1])
        with pytest.raises(AssertionError, match="not at its expected offset"):
            ChangeEncoder(number_of).message(RouteRequest("add", PLAIN), 0)
