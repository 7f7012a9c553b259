"""NetlinkBackend reads what `ip` lists, in private network namespaces."""

import errno
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from itertools import product

import pyroute2
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostrouting.kernel.base import KIND_OF_ERRNO, RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink.numbers import RTM_GETRULE
from hostrouting.kernel.netlink.socket import Netlink, attribute
from hostrouting.model.prefix import Prefix, as_ip, ip_at, width_of
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.snapshot import Snapshot
from tests.support.commands import furnish, route_command, rule_command
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.near import kept_near
from tests.support.routing import routes, rules, small_block

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

ERRNO_OF = {
    "Invalid argument": errno.EINVAL,
    "No route to host": errno.EHOSTUNREACH,
    "Permission denied": errno.EACCES,
    "Network is unreachable": errno.ENETUNREACH,
}
properties = settings(max_examples=scaled(12), suppress_health_check=list(HealthCheck))


def built(
    namespace: Namespace, data: st.DataObject, *, lost: Iterable[str] = ()
) -> dict[int, Prefix]:
    """Build a random host in the namespace; return the block of its routes by family."""
    furnish(namespace, lost=lost)
    within = {family: small_block(family) for family in (4, 6)}
    for family, block in within.items():
        drawn_routes = data.draw(st.lists(routes(block), max_size=12))
        drawn_rules = data.draw(
            st.lists(rules(block), max_size=4, unique_by=lambda each: each.priority)
        )
        batch = [*map(route_command, drawn_routes), *map(rule_command, drawn_rules)]
        namespace.batch(batch, force=True, family=family)
    return within


def assert_that_ip_lists(snapshot: Snapshot, namespace: Namespace) -> None:
    """`ip` lists the same in this namespace, in the same order; of addresses, in any order."""
    assert snapshot.links == namespace.links()
    assert sorted(snapshot.addresses, key=str) == sorted(namespace.addresses(), key=str)
    assert snapshot.rules == namespace.rules(4) + namespace.rules(6)
    assert snapshot.routes == namespace.routes(4) + namespace.routes(6)


@properties
@given(data=st.data())
def test_a_snapshot_is_what_ip_lists(data: st.DataObject) -> None:
    lost = data.draw(st.sets(st.sampled_from(["ib0", "wg0"])))
    with private_namespace() as namespace, namespace.inside():
        built(namespace, data, lost=lost)
        with NetlinkBackend() as backend:
            whole = backend.snapshot()

        assert_that_ip_lists(whole, namespace)
    assert not whole.restless
    assert Snapshot.from_json(whole.to_json()) == whole


OF_EACH_KIND = """
link add br0 type bridge
link set eth1 master br0
address add 10.9.9.9 peer 10.9.9.10/32 dev ib0
address add 10.1.0.1/24 brd + dev ib0 metric 7
address add fd00::9 peer fd00::10/128 dev ib0 nodad
nexthop add id 5 via 10.0.0.9 dev eth0
nexthop add id 6 encap seg6 mode encap segs fd00:99::9 via 10.0.0.9 dev eth0
nexthop add id 7 group 5/6
route add 1.0.0.0/8 nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0 weight 256
route add 2.0.0.0/8 via inet6 fe80::1 dev eth0 mtu 1400 advmss 1300
route add 3.0.0.0/8 nhid 5
route add 6.0.0.0/8 nhid 6
route add 7.0.0.0/8 nhid 7
route add 9.0.0.0/8 nexthop via 10.0.0.1 dev eth0 nexthop via 9.9.9.9 dev wg0 onlink
link set wg0 down
route add blackhole default table 100
route add 8.0.0.0/8 nexthop encap ip id 7 dst 10.0.0.9 via 10.0.0.1 dev eth0 \
nexthop encap seg6 mode encap segs fd00:99::9 via 10.0.0.2 dev eth0
route add 4.0.0.0/8 via 8.8.8.8 dev ib0 onlink src 10.0.0.4 metric 4294967295 tos 0x10 table 70000
"""
OF_EACH_KIND_IN_IPV6 = """
route add 2001::/16 via fd00:99::1 dev eth0 mtu 1280 pref high
route add 2002::/16 from 2001:db8::/32 dev eth0
route add 2003::/16 dev eth0 expires 1000
route add blackhole 2006::/16
route add 2004::/16 encap seg6local action End.X nh6 fd00:99::1 via fd00:99::1 dev eth0
route add 2005::/16 nexthop encap ip6 id 7 dst fd00:99::9 via fd00:99::1 dev eth0 \
nexthop via fd00:99::2 dev eth0
"""


def test_what_random_hosts_do_not_have(namespace: Namespace, backend: NetlinkBackend) -> None:
    """Masters, peers, weights, metrics, sources, ends, nexthop objects, encaps are read."""
    namespace.batch(OF_EACH_KIND.split("\n"))
    namespace.batch(OF_EACH_KIND_IN_IPV6.split("\n"), family=6)
    namespace.sysctl("ipv6/conf/all/forwarding", 1)

    snapshot = backend.snapshot()

    assert_that_ip_lists(snapshot, namespace)
    assert snapshot.ipv6_forwarding is True
    [dead] = [route for route in snapshot.routes if route.usable_devs != route.devs]
    assert (str(dead.prefix), dead.usable_devs) == ("9.0.0.0/8", ("eth0",))
    assert {str(route.prefix): route.unread for route in snapshot.routes if route.unread} == {
        "6.0.0.0/8": ("encap seg6",),
        "7.0.0.0/8": ("encap seg6",),
        "8.0.0.0/8": ("encap ip", "encap seg6"),
        "2004::/16": ("encap seg6local",),
        "2005::/16": ("encap ip6",),
    }


def test_an_order_that_linux_does_not_promise(
    backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices, and the addresses of each family, are sorted by the numbers of the devices."""
    dump = Netlink.dump
    monkeypatch.setattr(Netlink, "dump", lambda *arguments: [*dump(*arguments)][::-1])
    snapshot = backend.snapshot()
    indexes = [link.index for link in snapshot.links]
    assert indexes == sorted(indexes)
    assert [address.dev for address in snapshot.addresses] == ["lo", "eth0", "lo", "eth0"]


@pytest.mark.parametrize("family", [4, 6])
def test_what_else_a_rule_selects_by(
    namespace: Namespace, backend: NetlinkBackend, family: int
) -> None:
    """Such a rule is never read as one for all packets, nor for all devices."""
    families = {4: socket.AF_INET, 6: socket.AF_INET6}
    to = "fd00::/8" if family == 6 else "9.0.0.0/8"
    invert = "not from all to" if family == 6 else "not to"
    with pyroute2.IPRoute() as handle:  # `ip` cannot say tun_id
        handle.rule("add", family=families[family], table=100, priority=100, tun_id=5)
        handle.rule("add", family=families[family], table=100, priority=101, tun_id=6)
    namespace.batch(
        [
            "rule add pref 200 ipproto tcp dport 80-90 sport 5 uidrange 3-4 table 100",
            "rule add pref 201 iif lo oif eth0 fwmark 3/0xff tos 0x10 ipproto 132 table 100",
            f"rule add pref 202 {invert} {to} table 100 suppress_ifgroup 7",
            "rule add pref 203 l3mdev",
            "rule add pref 204 table 100 realms 3/4 protocol static",  # they select no packets
            "rule add pref 205 not iif absent0 table 100",
            "rule add pref 206 nop",
        ],
        family=family,
    )

    snapshot = backend.snapshot()

    assert [str(rule) for rule in snapshot.rules if 100 <= rule.priority <= 206] == [
        "100: from all attribute-12 0000000000000005 lookup 100",
        "101: from all attribute-12 0000000000000006 lookup 100",
        "200: from all uidrange 3-4 ipproto tcp sport 5 dport 80-90 lookup 100",
        "201: from all tos 0x10 fwmark 0x3/0xff iif lo oif eth0 ipproto 132 lookup 100",
        f"202: not from all to {to} lookup 100 suppress_ifgroup 7",
        "203: from all lookup [l3mdev-table]",
        "204: from all lookup 100",
        "205: not from all iif absent0 lookup 100",
        "206: from all nop",
    ]


@pytest.mark.parametrize(
    ("listed", "others"),
    [
        ({23: "50505050", 28: "ffff"}, {"sport": "20560"}),
        ({25: "0a", 30: "0f"}, {"dscp": "0xa", "attribute-30": "0f"}),
        ({40: "02", 39: "01"}, {"attribute-39": "01", "attribute-40": "02"}),
    ],
)
def test_a_mask_beside_its_value(
    namespace: Namespace,
    backend: NetlinkBackend,
    monkeypatch: pytest.MonkeyPatch,
    listed: dict[int, str],
    others: dict[str, str],
) -> None:
    """Linux 6.15 and later list it, too; one with every bit selects nothing more."""
    namespace.batch(["rule add pref 9 table 100"])
    more = b"".join(attribute(number, bytes.fromhex(value)) for number, value in listed.items())
    dump = Netlink.dump

    def longer(self: Netlink, kind: int, body: bytes) -> Iterator[bytes]:
        for answer in dump(self, kind, body):
            yield answer + more if kind == RTM_GETRULE else answer

    monkeypatch.setattr(Netlink, "dump", longer)
    [rule] = [each for each in backend.snapshot().rules if each.table == 100]
    assert rule.others == tuple(others.items())


@pytest.mark.parametrize("family", [4, 6])
@properties
@given(data=st.data())
def test_a_lookup_is_what_ip_route_get_says(family: int, data: st.DataObject) -> None:
    """For every address of any host the answer is that of `ip route get fibmatch`."""
    with private_namespace() as namespace, namespace.inside():
        block = built(namespace, data)[family]
        addresses = [ip_at(family, number) for number in range(block.first, block.last + 1)]
        protocol = "icmp" if family == 4 else "ipv6-icmp"
        plain = f"ipproto {protocol} uid 0"
        by_ip = namespace.get(family, [f"{address} {plain}" for address in addresses])

        with NetlinkBackend() as backend:
            answers = backend.lookup(addresses)
    for address, said, answer in zip(addresses, by_ip, answers, strict=True):
        if isinstance(said, str):
            assert answer.kind == KIND_OF_ERRNO[ERRNO_OF[said]], address
            assert answer.route is None, address
        else:
            assert answer.route is not None, address
            assert answer.kind == said.type, address
            assert answer.route.prefix == said.prefix, address
            assert answer.route.metric == said.metric, address
            if family == 4:  # IPv6 answers with any next hop of ECMP first
                assert set(answer.route.next_hops) == set(said.next_hops), address


def test_a_lookup_by_an_object_that_two_routes_use(
    namespace: Namespace, backend: NetlinkBackend
) -> None:
    """IPv6 caches what it found by object, on each CPU. So fibmatch answers a lookup with the route
    that used the object first there; the answer here has the object's own next hop. IPv4 answers
    with the right route.
    """
    hops = {10: "fd00:99::1 dev eth0", 11: "fe80::2 dev ib0", 12: "10.0.0.1 dev eth0"}
    namespace.batch(f"nexthop add id {number} via {hop}" for number, hop in hops.items())
    namespace.batch(["nexthop add id 20 group 10/11", "route add 10.244.0.0/24 nhid 12"])
    by_object = ["route add default nhid 20", "route add fd00:244::/64 nhid 11"]
    namespace.batch(by_object, family=6)
    may_run_on = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(may_run_on)])
    try:
        backend.lookup([ip_at(6, 2**125 + at) for at in range(64)])
        asked = ("fd00:244::5", "10.244.0.5", "fd00:99::5")
        answers = backend.lookup([as_ip(each) for each in asked])
    finally:
        os.sched_setaffinity(0, may_run_on)
    in_ipv6, *others = [answer.route for answer in answers]
    assert in_ipv6 is not None
    assert in_ipv6.next_hops == (NextHop("ib0", as_ip("fe80::2")),)
    assert [route and str(route.prefix) for route in others] == ["10.244.0.0/24", "fd00:99::/64"]


GATEWAYS = {4: ("10.0.0.1", "10.0.0.2"), 6: ("fd00:99::1", "fd00:99::2")}
NUMBERS = st.integers(0, 15)


def network(family: int, number: int, length: int) -> Prefix:
    """The network around an address that begins with the four bits of the number."""
    width = width_of(family)
    return Prefix.around(family, number << width - 4, min(length, width))


@pytest.mark.parametrize("family", [4, 6])
@settings(properties, max_examples=scaled(40))
@given(data=st.data())
def test_the_routes_near_some_prefixes(
    backend: NetlinkBackend, family: int, data: st.DataObject
) -> None:
    """Each route that has to be kept is, as it is in the list of all."""
    hops = tuple(NextHop("eth0", as_ip(gateway)) for gateway in GATEWAYS[family])
    ways = [hops[:1], hops, (NextHop("ib0"),)]
    added: list[RouteRequest] = []
    for metric, (way, protocol) in enumerate(product(ways, (12, 12, OURS)), start=1):
        for length in (0, 1, 2, 4, 6, 128):
            for number in data.draw(st.sets(NUMBERS)):
                route = Route(network(family, number, length), way, 254, metric, protocol=protocol)
                added.append(RouteRequest("add", route))
    places = st.tuples(NUMBERS, st.sampled_from([2, 3, 4, 4, 5, 6, 128]))
    near = [network(family, *place) for place in data.draw(st.sets(places, max_size=5))]
    near.append(Prefix.parse("::/0" if family == 4 else "0.0.0.0/0"))
    backend.change(added)
    try:
        few, all_ = backend.snapshot(near=near).routes, backend.snapshot().routes
    finally:
        backend.change(request._replace(verb="delete") for request in added)
    assert list(few) == kept_near(all_, near)


WITHOUT_IPV6 = """
from hostrouting.kernel.netlink import numbers

numbers.AF_OF[6] = 12  # DECnet, which Linux does not have any more

from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import as_ip

with NetlinkBackend() as backend:
    there = backend.snapshot()
    [answer] = backend.lookup([as_ip("2001:db8::1")])
assert {route.prefix.family for route in there.routes} == {4}
assert {rule.family for rule in there.rules} == {4}
assert {address.ip.version for address in there.addresses} == {4}
assert there.ipv6_forwarding is None
assert answer == ("no-route", None)
"""


def test_a_kernel_without_ipv6(namespace: Namespace) -> None:
    """As with ipv6.disable=1: Linux sends the lists of other families then."""
    done = namespace.run(sys.executable, "-c", WITHOUT_IPV6)
    assert done.stderr == ""
    assert done.returncode == 0
