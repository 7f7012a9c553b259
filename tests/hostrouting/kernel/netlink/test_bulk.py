"""NetlinkBackend with many routes: the table that they are read into, and many changes at a time."""

import struct
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.kernel._route_table import RouteTable
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import Channel, Interrupted, Listing, add_run, open_socket
from hostrouting.kernel.netlink.read import RouteReader, list_addresses, list_routes
from hostrouting.kernel.netlink.route_message import encode_change, read_route
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.model.snapshot import Link
from hostrouting.testing.strategies import DEVICES, blocks
from tests.support.asked_routes import VERBS, number_of, wanted
from tests.support.commands import furnish
from tests.support.namespace import Namespace, private_namespace
from tests.support.pyroute2messages import encode

LINKS = tuple(Link(name=name, index=0) for name in DEVICES)
RTM_NEWADDR, RTM_NEWRULE = 20, 32


def listing_of(messages: Iterable[bytes]) -> Listing:
    """One part of a list, with these messages."""
    data, runs = b"", list[range]()
    for message in messages:
        add_run(runs, len(data), len(message) + 3 & ~3)
        data += message
    return Listing(data + bytes(64), runs)


def tables_of(message: bytes, names: dict[int, str]) -> RouteTable:
    """The routes read from a listing of one message."""
    reader = RouteReader(partial(read_route, names=names, nexthops={}))
    reader.take(listing_of([message]))
    return reader.table()


@pytest.mark.linux
@pytest.mark.needs("root")
class TestReading:
    """The table of routes."""

    def test_many_take_little_memory(self, namespace: Namespace) -> None:
        """20,000 routes, read and indexed, take less than a tenth of 120 MB, including working memory."""
        lines = (f"route add 20.{middle}.{low}.0/24 via 10.0.0.1" for middle in range(80) for low in range(250))
        namespace.batch(lines)
        with NetlinkBackend(netns=namespace.path) as backend:
            backend.snapshot(protocol=99)  # what is loaded once does not count
            tracemalloc.start()
            try:
                snapshot = backend.snapshot(family=4)
                assert sum(len(column.networks) for column in RouteTable.of(snapshot.routes).columns) >= 20_000
                _, most = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert most < 120e6 / 10

    def test_a_list_that_changed_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """If a list is interrupted, its parts that were read before are forgotten. Kills: one reader for all attempts."""
        messages = [encode_change("add", Route.to(f"{at}.0.0.0/8", dev="eth0"), number_of) for at in (1, 2)]
        attempts: list[bytes] = []

        def listing(_: Channel, request: Callable[[int], bytes]) -> Iterator[Listing]:
            attempts.append(request(1))
            yield listing_of(messages[:1])
            if len(attempts) == 1:
                raise Interrupted
            yield listing_of(messages[1:])

        monkeypatch.setattr(Channel, "listing", listing)
        monkeypatch.setattr(Channel, "strict", True)
        found = list_routes(Channel(open_socket, 1.0), (4,), {number_of("eth0"): "eth0"})
        assert ([str(route.prefix) for route in found], len(attempts)) == (["1.0.0.0/8", "2.0.0.0/8"], 2)


class TestUnknown:
    """Unknown data is harmless."""

    def test_attributes_in_any_order(self) -> None:
        """A route is read correctly even if the kernel lists attributes in a different order than now."""
        fields = {"family": 2, "dst_len": 8, "table": 252, "proto": 213, "type": 1}
        for attributes in (
            [("RTA_DST", "1.0.0.0"), ("RTA_TABLE", 70000)],
            [("RTA_TABLE", 70000), ("RTA_OIF", 1), ("RTA_DST", "1.0.0.0")],
        ):
            data = encode("route", n.RTM_NEWROUTE, 2, fields=fields, attributes=attributes)
            (route,) = tables_of(data, {})
            assert (route.prefix, route.table, route.protocol) == (Prefix.parse("1.0.0.0/8"), 70000, 213)

    def test_a_kernel_without_ipv6(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A kernel without IPv6, asked for IPv6, lists what it has of every other family; nothing of it is used."""
        route, names = Route.to("1.0.0.0/8", dev="eth0", protocol=213), {number_of("eth0"): "eth0"}
        address = [("IFA_ADDRESS", "192.0.2.1")]
        lists = {
            n.RTM_GETROUTE: [
                encode_change("add", route, number_of),
                encode("route", n.RTM_NEWROUTE, 2, fields={"family": 28, "dst_len": 20}),
            ],
            n.RTM_GETADDR: [
                encode("address", RTM_NEWADDR, fields={"family": 2, "index": 1}, attributes=address),
                encode("address", RTM_NEWADDR, fields={"family": 45, "index": 1}) + struct.pack("=HHB3x", 5, 2, 8),
            ],
        }

        def listing(_: Channel, request: Callable[[int], bytes]) -> Iterator[Listing]:
            asked = request(1)
            (kind,) = struct.unpack_from("=H", asked, 4)
            yield listing_of(one for one in lists[kind] if asked[16] in {10, one[16]})

        monkeypatch.setattr(Channel, "listing", listing)
        monkeypatch.setattr(Channel, "strict", True)
        channel = Channel(open_socket, 1.0)
        assert list(list_routes(channel, (6,), names)) == []
        assert list(list_routes(channel, (4, 6), names)) == [route]
        assert [len(list_addresses(channel, family, names)) for family in (4, 6)] == [1, 0]

    def test_a_device_that_came_later(self) -> None:
        """A device that is not in the list is named by its number, as in `ip`."""
        data = encode_change("add", Route.to("1.0.0.0/8", dev="eth0"), number_of)
        (route,) = tables_of(data, {})
        assert route.devs == (f"if{number_of('eth0')}",)


@pytest.mark.linux
@pytest.mark.needs("root")
class TestBatches:
    """Many changes at a time."""

    @pytest.mark.parametrize("family", [4, 6])
    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def test_a_batch_is_what_its_changes_are_one_by_one(self, family: int, data: st.DataObject) -> None:
        """Together or one by one, the changes give the same outcomes and tables."""
        block = data.draw(blocks(family, bits=2))
        asked = st.builds(RouteRequest, st.sampled_from(VERBS), wanted(block, other=False))
        changes = data.draw(st.lists(asked, min_size=1, max_size=10))
        # A deleted route should sometimes exist.
        changes += [RouteRequest("delete", change.route) for change in changes if data.draw(st.booleans())]
        found = []
        for size in (len(changes), 1):
            with private_namespace() as namespace:
                furnish(namespace, LINKS, set())
                with NetlinkBackend(netns=namespace.path) as backend:
                    outcomes = [
                        outcome
                        for begin in range(0, len(changes), size)
                        for outcome in backend.change(changes[begin : begin + size])
                    ]
                    found.append(
                        (
                            [(outcome.change, outcome.error and outcome.error.errno) for outcome in outcomes],
                            # Linux adds those for multicast when a device has its carrier, in any order.
                            [route for route in backend.snapshot(family=family).routes if route.type != "multicast"],
                        )
                    )
        assert found[0] == found[1]

    def test_messages_may_be_large(self, namespace: Namespace) -> None:
        """Routes with many next hops are sent in calls that the kernel accepts, each with its outcome."""
        namespace.batch(["route add 20.0.0.7/32 via 10.0.0.1"])
        legs = tuple(NextHop("eth0", gateway=as_ip(f"10.0.0.{low}")) for low in range(5, 205))
        asked = [RouteRequest("add", Route(Prefix(4, (20 << 24) + low, 32), legs, protocol=213)) for low in range(200)]
        with NetlinkBackend(netns=namespace.path) as backend:
            outcomes = backend.change(asked)
            assert [place for place, outcome in enumerate(outcomes) if not outcome.ok] == [7]
            assert backend.snapshot(protocol=213).routes[3] == asked[3].route

    def test_thousands_with_some_refused(self, namespace: Namespace) -> None:
        """In a large batch every refusal is at its own place, and everything else is done."""
        namespace.batch([f"route add 20.0.{high}.7/32 via 10.0.0.1" for high in range(20)])
        asked = [
            RouteRequest("add", Route.to(f"20.0.{high}.{low}/32", dev="eth0", gateway="10.0.0.1", protocol=213))
            for high in range(20)
            for low in range(200)
        ]
        with NetlinkBackend(netns=namespace.path) as backend:
            outcomes = backend.change(asked)
            assert [place for place, outcome in enumerate(outcomes) if not outcome.ok] == [*range(7, 4000, 200)]
            assert len(backend.snapshot(protocol=213).routes) == 4000 - 20
            deleted = backend.change([RouteRequest("delete", change.route) for change in asked])
            assert [outcome.ok for outcome in deleted] == [outcome.ok for outcome in outcomes]
            assert len(backend.snapshot(protocol=213).routes) == 0
