"""NetlinkBackend against `ip`, in private network namespaces: the same kernel, changed by another program."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.errors import BackendError
from hostrouting.kernel._fib.packet import PLAIN, Flow
from hostrouting.kernel.base import KIND_OF_ERRNO, RouteRequest, Verb
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import NextHop, Route, RouteType
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing.contract import BackendContract
from hostrouting.testing.strategies import DEVICES, blocks, routes, rules
from tests.support.commands import furnish, lose_carriers, ports, query, route_command, rule_command
from tests.support.namespace import Namespace, private_namespace
from tests.support.rawkernel import raw_kernel
from tests.support.rules import rule
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

PATHLESS: tuple[RouteType, ...] = ("blackhole", "unreachable", "prohibit", "throw")
LINKS = tuple(Link(name=name, index=0, group=7 * (name == "eth1")) for name in DEVICES)
ERRNO: dict[str, int] = {
    "gateway-not-on-link": errno.ENETUNREACH,
    "no-such-device": errno.ENODEV,
    "device-down": errno.ENETDOWN,
    "exists": errno.EEXIST,
    "invalid": errno.EINVAL,
}
ERRNO_OF = {
    "Invalid argument": errno.EINVAL,
    "No route to host": errno.EHOSTUNREACH,
    "Permission denied": errno.EACCES,
    "Network is unreachable": errno.ENETUNREACH,
}


def to(
    prefix: str,
    gateway: str | None = "10.0.0.1",
    dev: str = "eth0",
    *,
    metric: int = 0,
    table: int = 254,
    protocol: int = 213,
    scope: int | None = None,
) -> Route:
    """One of our routes."""
    route = Route.to(prefix, dev=dev, gateway=gateway, metric=metric, table=table, protocol=protocol)
    return route if scope is None else attrs.evolve(route, scope=scope)


def change(backend: NetlinkBackend, *wanted: tuple[Verb, Route]) -> list[str | None]:
    """Carry out the changes, and return the error of each."""
    outcomes = backend.change([RouteRequest(verb, route) for verb, route in wanted])
    assert [(outcome.change.verb, outcome.change.route) for outcome in outcomes] == list(wanted)
    return [None if outcome.error is None else outcome.error.kind for outcome in outcomes]


def refusal(backend: NetlinkBackend, verb: Verb, route: Route) -> BackendError:
    """The error with which one change is refused."""
    (outcome,) = backend.change([RouteRequest(verb, route)])
    assert outcome.error is not None
    return outcome.error


def ours(backend: NetlinkBackend) -> list[Route]:
    """The routes with our protocol."""
    return list(backend.snapshot(protocol=213).routes)


class TestSnapshot:
    """Links, addresses, rules and routes, as `ip` lists them."""

    @settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def test_of_any_host_is_what_ip_lists(self, data: st.DataObject) -> None:
        """On any host, everything in the snapshot is what `ip` prints, in the same order."""
        wanted = []
        for family in (4, 6):
            block = data.draw(blocks(family))
            batch = [*map(route_command, data.draw(st.lists(routes(block), max_size=12)))]
            batch += map(rule_command, data.draw(st.lists(rules(block), max_size=4, unique_by=lambda it: it.priority)))
            wanted.append((family, batch))
        lost = data.draw(st.sets(st.sampled_from(["ib0", "wg0"])))
        with private_namespace() as namespace:
            furnish(namespace, LINKS, lost)
            for family, batch in wanted:
                namespace.batch(batch, force=True, family=family)
            with NetlinkBackend(netns=namespace.path) as backend:
                snapshot = backend.snapshot()
            assert Snapshot.from_json(snapshot.to_json()) == snapshot
            assert snapshot.links == namespace.links()
            assert sorted(snapshot.addresses, key=str) == sorted(namespace.addresses(), key=str)
            assert snapshot.rules == namespace.rules(4) + namespace.rules(6)
            assert snapshot.routes == namespace.routes(4) + namespace.routes(6)

    def test_says_what_ip_route_says_in_detail(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """Weights, metrics, gateways of the other family, sources and next hop objects are read as `ip` reads them."""
        namespace.batch(
            [
                "nexthop add id 5 via 10.0.0.9 dev eth0",
                "nexthop add id 6 via 10.0.0.8 dev eth0",
                "nexthop add id 7 group 5,3/6,40",
                "route add 1.0.0.0/8 nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0 weight 256",
                "route add 2.0.0.0/8 via inet6 fe80::1 dev eth0 mtu 1400 advmss 1300",
                "route add 3.0.0.0/8 nhid 7",
                "route add 4.0.0.0/8 via 8.8.8.8 dev ib0 onlink src 10.0.0.4 metric 4294967295 tos 0x10 table 70000",
                "route add blackhole 5.0.0.0/8 proto 213",
            ]
        )
        namespace.batch(["route add 2001::/16 via fd00:99::1 dev eth0 mtu 1280"], family=6)
        snapshot = backend.snapshot()
        assert snapshot.routes == namespace.routes(4) + namespace.routes(6)
        by_prefix = {str(route.prefix): route for route in snapshot.routes}
        assert [leg.weight for leg in by_prefix["1.0.0.0/8"].legs] == [1, 256]
        assert by_prefix["2.0.0.0/8"].legs == (NextHop("eth0", gateway=as_ip("fe80::1")),)
        assert (by_prefix["2.0.0.0/8"].mtu, by_prefix["2.0.0.0/8"].advmss) == (1400, 1300)
        assert by_prefix["3.0.0.0/8"].nexthop_id == 7
        # With this sysctl the kernel only names the object, and its next hops must be looked up.
        namespace.sysctl("ipv4/nexthop_compat_mode", 0)
        (route,) = (route for route in backend.snapshot().routes if route.nexthop_id)
        assert route == by_prefix["3.0.0.0/8"]
        assert [(str(leg.gateway), leg.weight) for leg in route.legs] == [("10.0.0.9", 3), ("10.0.0.8", 40)]

    def test_knows_masters_and_point_to_point_addresses(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """A bridge's port names its bridge, and an address its peer."""
        namespace.batch(
            [
                "link add br0 type bridge",
                "link set eth1 master br0",
                "address add 10.9.9.9 peer 10.9.9.10/32 dev ib0",
                "address add 10.1.0.1/24 brd + dev ib0",
                "address add fd00::9 peer fd00::10/128 dev ib0 nodad",
            ]
        )
        snapshot = backend.snapshot()
        assert snapshot.links == namespace.links()
        assert sorted(snapshot.addresses, key=str) == sorted(namespace.addresses(), key=str)
        eth1, br0 = (snapshot.link(name) for name in ("eth1", "br0"))
        assert (eth1 and eth1.master, eth1 and eth1.group, br0 and br0.kind) == ("br0", 7, "bridge")

    @pytest.mark.parametrize("family", [4, 6])
    def test_tells_what_else_a_rule_selects_on(self, family: int) -> None:
        """Tunnels, full DSCP, flow labels and masks: such a rule is never read as one for all packets."""
        others = [("tun_id", "5"), ("sport", "0x5/0xff"), ("dport", "0x100/0xff00")]
        others += [("flowlabel", "0x0/0xff"), ("flowlabel", "0x12345/0xfffff")] if family == 6 else []
        others += [("source-of-route", "fd00::/64")] if family == 6 else []
        rules = [
            Rule(family=family, priority=100 + at, table=100, protocol=3, others=(other,))
            for at, other in enumerate(others)
        ]
        rules += [
            rule(family=family, priority=200, table=100, protocol=3, tos=0x18),
            rule(family=family, priority=201, table=100, protocol=3, sports=(5, 5), dports=(6, 9)),
            rule(
                family=family, priority=202, table=100, protocol=3, iif="lo", dscp=(0, 0x3F), others=tuple(others[:3])
            ),
            rule(family=family, priority=203, table=100, protocol=3, dscp=(2, 3)),
        ]
        with raw_kernel() as kernel:
            assert [kernel.add_rule(added).errno for added in rules] == [0] * len(rules)
            with NetlinkBackend(netns=kernel.path) as backend:
                snapshot = backend.snapshot(family=family)
        assert [listed for listed in snapshot.rules if listed.table == 100] == rules
        assert Snapshot.from_json(snapshot.to_json()) == snapshot

    @pytest.mark.parametrize("where", ["ib0", "all"])
    def test_tells_whether_lost_carriers_count(self, namespace: Namespace, backend: NetlinkBackend, where: str) -> None:
        """A device is reported to ignore routes without carrier exactly if the kernel's lookup ignores them."""
        namespace.batch(["address add 172.16.0.4/16 dev ib0"])
        lose_carriers(namespace, ["ib0"])
        for value in (1, 0):
            namespace.sysctl(f"ipv4/conf/{where}/ignore_routes_with_linkdown", value)
            link = backend.snapshot().link("ib0")
            assert link is not None
            assert not link.carrier
            (answer,) = backend.lookup([as_ip("172.16.9.9")])
            assert link.ignore_routes_with_linkdown == (answer.kind == "no-route")


class TestChange:
    """A batch of changes, with an outcome for each."""

    def test_installs_what_a_snapshot_then_shows(self, backend: NetlinkBackend) -> None:
        """Routes of every shape are in the tables as requested."""
        eth0 = NextHop("eth0", gateway=as_ip("10.0.0.1"))
        wanted = [
            to("1.0.0.0/8"),
            to("1.0.0.0/8", metric=4294967295),
            to("2.0.0.0/8", None, "ib0"),
            to("3.0.0.0/8", table=70000),
            Route(Prefix.parse("4.0.0.0/8"), (eth0, NextHop("ib0", weight=4)), protocol=213, mtu=1400, advmss=1300),
            Route(Prefix.parse("5.0.0.0/8"), (NextHop("ib0", gateway=as_ip("8.8.8.8"), onlink=True),), protocol=213),
            Route(Prefix.parse("6.0.0.0/8"), (NextHop("eth0", gateway=as_ip("fe80::1")),), protocol=213),
            Route(Prefix.parse("7.0.0.0/8"), (eth0,), protocol=213, prefsrc=as_ip("10.0.0.4"), tos=0x10),
            *(Route(Prefix.parse("8.0.0.0/8"), protocol=213, type=it, metric=at) for at, it in enumerate(PATHLESS)),
            to("2001::/16", "fd00:99::1", metric=7),
            Route(
                Prefix.parse("2002::/16"),
                (NextHop("eth0", gateway=as_ip("fd00:99::1")), NextHop("eth0", gateway=as_ip("fd00:99::2"), weight=3)),
                protocol=213,
                metric=1024,
            ),
        ]
        assert change(backend, *(("add", route) for route in wanted)) == [None] * len(wanted)
        assert sorted(map(str, ours(backend))) == sorted(map(str, wanted))
        assert change(backend, *(("delete", route) for route in wanted)) == [None] * len(wanted)
        assert ours(backend) == []

    def test_deletes_none_that_it_cannot_tell_apart(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """If the kernel would delete a different route that comes first, no request is sent."""
        namespace.batch(
            [
                "route add 1.0.0.0/8 via 10.0.0.1 dev eth0 proto 213",
                "route append 1.0.0.0/8 dev eth0 scope global proto 213",
            ]
        )
        first, second = standing = ours(backend)
        error = refusal(backend, "delete", second)
        assert (error.kind, error.errno) == ("refused", errno.ENOTUNIQ)
        assert str(error) == f"cannot delete {second}: Linux would delete {first} instead"
        assert ours(backend) == standing
        assert change(backend, ("delete", first), ("delete", second)) == [None, None]

    @pytest.mark.parametrize(
        ("route", "kind", "words"),
        [
            (
                to("1.0.0.0/8", "203.0.113.1"),
                "gateway-not-on-link",
                "gateway 203.0.113.1 is not on-link on eth0 (10.0.0.4/24) (kernel: Nexthop has invalid gateway)",
            ),
            (
                to("1.0.0.0/8", "203.0.113.1", "ib0"),
                "gateway-not-on-link",
                "gateway 203.0.113.1 is not on-link on ib0 (no address)",
            ),
            (to("1.0.0.0/8", None, "nope"), "no-such-device", "device nope does not exist"),
            (to("1.0.0.0/8", None, "a-name-of-16-byte"), "no-such-device", "a-name-of-16-byte"),
            (to("1.0.0.0/8", None, "enp9s0"), "no-such-device", "enp9s0 is an alternative name of eth0: use eth0"),
            (to("1.0.0.0/8", None, "wg0"), "device-down", "wg0 is down"),
            (to("10.0.0.0/24", protocol=2), "exists", "destination and metric: [10.0.0.0/24 dev eth0 proto kernel"),
            (to("1.0.0.0/8", "10.0.0.255"), "invalid", "gateway 10.0.0.255 is a broadcast address"),
            (
                attrs.evolve(to("1.0.0.0/8"), prefsrc=as_ip("9.9.9.9")),
                "invalid",
                "9.9.9.9 is not an address of this host (kernel: Invalid prefsrc address)",
            ),
        ],
    )
    def test_says_what_is_wrong(
        self, namespace: Namespace, backend: NetlinkBackend, route: Route, kind: str, words: str
    ) -> None:
        """A refusal names the cause, with what was found there and the kernel's own text."""
        namespace.batch(["link set wg0 down", "link property add dev eth0 altname enp9s0"])
        error = refusal(backend, "add", route)
        assert (error.kind, error.errno, error.route) == (kind, ERRNO[kind], str(route))
        assert words in str(error)
        assert str(error).startswith(f"cannot add {route}")

    def test_says_what_is_wrong_in_ipv6(self, backend: NetlinkBackend) -> None:
        """In this case the kernel has a different errno for an unreachable gateway; the error is the same."""
        error = refusal(backend, "add", to("2001::/16", "fd01::1"))
        assert (error.kind, error.errno) == ("gateway-not-on-link", errno.EHOSTUNREACH)
        assert "gateway fd01::1 is not on-link on eth0 (fd00:99::4/64)" in str(error)

    def test_resolves_devices_when_it_applies(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """A device created again with the same name is found; a deleted one is an error, and the rest is done."""
        namespace.batch(["link del ib0", "link add filler type veth", "link add ib0 type veth", "link set ib0 up"])
        namespace.batch(["link del wg0"])
        assert change(
            backend,
            ("add", to("1.0.0.0/8", None, "ib0")),
            ("add", to("2.0.0.0/8", None, "wg0")),
            ("add", to("3.0.0.0/8")),
        ) == [None, "no-such-device", None]
        assert [route.devs for route in ours(backend)] == [("ib0",), ("eth0",)]

    def test_a_device_without_ipv6(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """If IPv6 is disabled on a device, the route is refused, and the message does not mention privilege."""
        namespace.sysctl("ipv6/conf/eth0/disable_ipv6", 1)
        [outcome] = backend.change([RouteRequest("add", to("fd00:9::/64", None, metric=1024))])
        assert isinstance(outcome.error, BackendError)
        assert outcome.error.kernel == "IPv6 is disabled on nexthop device"
        assert "IPv6 is disabled on eth0" in str(outcome.error)


class TestLookup:
    """The deciding entry for each destination."""

    @pytest.mark.parametrize("family", [4, 6])
    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def test_is_what_ip_route_get_says(self, family: int, data: st.DataObject) -> None:
        """For every address of any host the answer is that of `ip route get fibmatch`."""
        block = data.draw(blocks(family))
        batch = [*map(route_command, data.draw(st.lists(routes(block), min_size=1, max_size=12)))]
        batch += map(rule_command, data.draw(st.lists(rules(block), max_size=3, unique_by=lambda it: it.priority)))
        flow = attrs.evolve(
            PLAIN,
            mark=data.draw(st.integers(0, 3)),
            tos=data.draw(st.sampled_from([0, 16])),
            ipproto=6,
            sport=22,
            dport=53,
        )
        addresses = [ip_at(family, number) for number in range(block.first, block.last + 1)]
        with private_namespace() as namespace:
            furnish(namespace, LINKS, set())
            namespace.batch(batch, force=True, family=family)
            expected = namespace.get(family, [query(str(address), flow) for address in addresses])
            with NetlinkBackend(netns=namespace.path) as backend:
                answers = backend.lookup(addresses, flow)
        for address, said, answer in zip(addresses, expected, answers, strict=True):
            if isinstance(said, str):
                assert (answer.kind, answer.route) == (KIND_OF_ERRNO[ERRNO_OF[said]], None), address
            else:
                # IPv6 answers with any next hop of ECMP first.
                assert answer.route is not None
                assert (answer.kind, answer.route.prefix, answer.route.metric) == (said.type, said.prefix, said.metric)
                assert set(answer.route.legs) == set(said.legs) or family == 6

    @pytest.mark.parametrize("count", [100, 300, 600])
    def test_of_very_many_legs(self, namespace: Namespace, backend: NetlinkBackend, count: int) -> None:
        """An entry that is too large for an answer of the kernel is still found, and does not affect other answers."""
        legs = tuple(NextHop("eth0", gateway=ip_at(4, (10 << 24) + 5 + at % 200)) for at in range(count))
        large = Route(Prefix.parse("1.2.0.0/16"), legs, protocol=213, table=100)
        small = to("1.2.3.0/24")
        wide = attrs.evolve(large, prefix=Prefix.parse("1.0.0.0/8"), legs=tuple(reversed(legs)))
        assert change(backend, ("add", large), ("add", small), ("add", wide)) == [None, None, None]
        namespace.batch(["rule add pref 40000 lookup 100"])
        places = ("1.2.3.4", "1.2.4.4", "9.9.9.9", "1.1.1.1", "1.2.4.5")
        answers = backend.lookup([as_ip(place) for place in places])
        assert [answer.route for answer in answers] == [small, large, None, wide, large]

    def test_refuses_questions_that_make_no_sense(self, backend: NetlinkBackend) -> None:
        """A mix of families, a source of the other family, a foreign source and an unknown device are errors."""
        four, six = as_ip("1.2.3.4"), as_ip("fd00::1")
        with pytest.raises(ValueError, match="the same address family"):
            backend.lookup([four, six])
        with pytest.raises(ValueError, match="different address families"):
            backend.lookup([four], Flow(source=six))
        with pytest.raises(BackendError, match=r"9\.9\.9\.9 is not an address of this host"):
            backend.lookup([as_ip("10.0.0.1")], Flow(source="9.9.9.9"))
        with pytest.raises(BackendError, match="device nope does not exist"):
            backend.lookup([four], Flow(oif="nope"))


class TestWatch:
    """Listening for changes."""

    @pytest.mark.parametrize(
        ("family", "command"),
        [
            (4, "link set ib0 down"),
            (4, "address add 10.7.0.1/24 dev ib0"),
            (4, "rule add pref 77 lookup 100"),
            (4, "route add 9.0.0.0/8 via 10.0.0.1"),
            (4, "nexthop add id 5 via 10.0.0.9 dev eth0"),
            (6, "address add fd00:7::1/64 dev ib0"),
            (6, "rule add pref 77 lookup 100"),
            (6, "route add 2001::/16 via fd00:99::1"),
        ],
    )
    def test_hears_of_every_kind_of_change(
        self, namespace: Namespace, backend: NetlinkBackend, family: int, command: str
    ) -> None:
        """Changes of devices, addresses, rules, routes and next hops, in both families, are one True each."""
        with backend.watch() as watch:
            assert not watch.wait(0)
            namespace.batch([command], family=family)
            assert watch.wait(60)
            wait_for("the last word about an IPv6 address", lambda: not watch.wait(0.02))


# The promises of RouteBackend, on Linux itself, in a private network namespace for each


HOST = [
    "link set lo up",
    *ports("eth0", "ib0", "idle0"),
    "link set idle0 down",
    "address add 10.0.0.4/24 dev eth0",
    "address add 172.16.1.10/16 dev ib0",
    "address add 2001:db8::4/64 dev eth0 nodad",
]


class TestNetlinkBackend(BackendContract):
    """Every promise, on the real kernel."""

    @contextmanager
    def make(self) -> Iterator[NetlinkBackend]:
        """The host that the contract is about, made of veth pairs."""
        with private_namespace() as namespace:
            namespace.batch(HOST)
            with NetlinkBackend(netns=namespace.path) as backend:
                yield backend
