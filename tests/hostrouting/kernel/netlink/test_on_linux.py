"""NetlinkBackend and Pyroute2Backend against `ip`, in private network namespaces: the same kernel,
another program.
"""

import asyncio
import ctypes
import errno
import os
import platform
import re
import struct
from collections.abc import Iterable
from typing import Any

import pyroute2
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostrouting.kernel.base import (
    KIND_OF_ERRNO,
    Answer,
    Near,
    Outcome,
    RouteRequest,
    Verb,
    part_of,
)
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink.lists import RouteReader
from hostrouting.kernel.netlink.routes import decode
from hostrouting.kernel.netlink.socket import attribute, message
from hostrouting.kernel.pyroute2 import Pyroute2Backend
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import OURS, SCOPE_LINK, NextHop, Route, RouteKey, RouteType
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing.strategies import blocks, prefixes, routes, rules
from tests.support.commands import furnish, route_command, rule_command
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

ERRNO_OF = {
    "Invalid argument": errno.EINVAL,
    "No route to host": errno.EHOSTUNREACH,
    "Permission denied": errno.EACCES,
    "Network is unreachable": errno.ENETUNREACH,
}
properties = settings(
    max_examples=scaled(12), deadline=None, suppress_health_check=list(HealthCheck)
)


def built(
    namespace: Namespace, data: st.DataObject, *, lost: Iterable[str] = ()
) -> dict[int, Prefix]:
    """Build a random host of both families in the namespace; return the block of each in which its
    routes lie.
    """
    furnish(namespace, lost=lost)
    within = {family: data.draw(blocks(family)) for family in (4, 6)}
    for family, block in within.items():
        batch = [*map(route_command, data.draw(st.lists(routes(block), max_size=12)))]
        batch += map(
            rule_command,
            data.draw(st.lists(rules(block), max_size=4, unique_by=lambda each: each.priority)),
        )
        namespace.batch(batch, force=True, family=family)
    return within


@properties
@given(data=st.data())
def test_a_snapshot_is_what_ip_lists(data: st.DataObject) -> None:
    """On any host everything is what `ip` lists, in its order; and pyroute2 sees the same, as far
    as it can.

    `family`, `reached` and `near` leave out what they leave out of the whole snapshot.
    """
    lost = data.draw(st.sets(st.sampled_from(["ib0", "wg0"])))
    with private_namespace() as namespace, namespace.inside():
        within = built(namespace, data, lost=lost)
        near = data.draw(st.lists(prefixes(within[4]) | prefixes(within[6]), max_size=3))
        asked: dict[str, Any] = {
            "family": data.draw(st.sampled_from([None, 4, 6])),
            "reached": data.draw(st.booleans()),
            "near": data.draw(st.sampled_from([None, near, near])),
        }
        with (
            NetlinkBackend() as backend,
            pyroute2.IPRoute() as handle,
            Pyroute2Backend(handle) as other,
        ):
            snapshot, part = backend.snapshot(), backend.snapshot(**asked)
            by_pyroute2 = other.snapshot()
        assert snapshot.links == namespace.links()
        assert sorted(snapshot.addresses, key=str) == sorted(namespace.addresses(), key=str)
        assert snapshot.rules == namespace.rules(4) + namespace.rules(6)
        assert snapshot.routes == namespace.routes(4) + namespace.routes(6)
    assert not snapshot.restless
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    assert by_pyroute2._replace(ipv6_forwarding=snapshot.ipv6_forwarding) == snapshot
    assert part == part_of(snapshot, **asked)


def test_a_few_of_many_routes(backend: NetlinkBackend) -> None:
    """Among routes of another kind, ours are read, and of the others those in one of the blocks,
    and the first.
    """
    wanted = [
        Route.to(
            f"20.0.{place}.0/24", dev="eth0", gateway="10.0.0.1", protocol=12 if place % 8 else OURS
        )
        for place in range(64)
    ]
    wanted[20] = Route.to(
        "20.0.20.0/24", dev="eth0", gateway="10.0.0.2", protocol=12
    )  # the only one by this gateway
    backend.change(RouteRequest("add", route) for route in wanted)
    near = [
        *map(
            Prefix.parse,
            ("20.0.4.0/23", "20.0.7.0/24", "20.0.14.0/24", "20.0.35.0/24", "240.0.0.0/4"),
        )
    ]
    read = [route for route in backend.snapshot(family=4, near=near).routes if route in wanted]
    assert read == [
        route
        for place, route in enumerate(wanted)
        if not place % 8 or place in {1, 4, 5, 7, 14, 20, 35}
    ]


def listed_message(family: int, number: int, kind: tuple[int, int, int, int]) -> bytes:
    """A route as the kernel lists it; one of length 0 has no destination."""
    length, protocol, metric, device = kind
    network = (20 << 24 | number << 8) << (family == 6) * 96
    destination = attribute(1, Prefix.around(family, network, length).ip.packed) if length else b""
    numbers = ((6, metric), (4, device)) if metric else ((4, device),)
    others = b"".join(attribute(each, struct.pack("=I", value)) for each, value in numbers)
    gateway = attribute(5, as_ip("10.0.0.1" if family == 4 else "fd00::1").packed)
    fixed = bytes([{4: 2, 6: 10}[family], length, 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0])
    return message(
        24, 2, fixed + attribute(15, struct.pack("=I", 254)) + destination + gateway + others
    )


@pytest.mark.parametrize("family", [4, 6])
@settings(properties, max_examples=scaled(60))
@given(data=st.data())
def test_a_list_in_any_order(backend: NetlinkBackend, family: int, data: st.DataObject) -> None:
    """Whatever kinds follow each other, in whatever order and number, what is read of a list is
    what it promises.
    """
    kinds = st.tuples(*map(st.sampled_from, ([0, 20, 24, 28], [12, OURS], [0, 7], [1, 9])))
    stretches = st.lists(
        st.tuples(kinds, st.integers(0, 255), st.sampled_from([1, 1, 3, -1, 0])), max_size=4
    )
    messages: list[bytes] = []
    for mixed, count in data.draw(st.lists(st.tuples(stretches, st.integers(1, 400)), max_size=4)):
        for place in range(count):
            messages += (
                listed_message(family, start + place * step & 255, kind)
                for kind, start, step in mixed
            )
    around = st.builds(
        lambda number: (20 << 24 | number << 8) << (family == 6) * 96, st.integers(0, 255)
    )
    some = st.lists(
        st.builds(Prefix.around, st.just(family), around, st.integers(8, 30)), max_size=4
    )
    near = data.draw(st.none() | some)
    names, left = {1: "eth0", 9: "eth1"}, Near(near)
    expected = [route for route in (decode(each, names) for each in messages) if left.keeps(route)]
    reader, size_at = RouteReader(names, near), backend._netlink.size_at
    cut = data.draw(st.integers(0, len(messages)))
    parts = (b"".join(messages[:cut]), b"".join(messages[cut:]))
    assert [route for part in parts for route in reader.read(part, size_at)] == expected


def test_what_random_hosts_do_not_have(namespace: Namespace, backend: NetlinkBackend) -> None:
    """Masters, peers, weights, metrics, gateways of the other family, sources, ends, nexthop
    objects and encaps are read.
    """
    namespace.batch(
        [
            "link add br0 type bridge",
            "link set eth1 master br0",
            "address add 10.9.9.9 peer 10.9.9.10/32 dev ib0",
            "address add 10.1.0.1/24 brd + dev ib0 metric 7",
            "address add fd00::9 peer fd00::10/128 dev ib0 nodad",
            "nexthop add id 5 via 10.0.0.9 dev eth0",
            "nexthop add id 6 encap seg6 mode encap segs fd00:99::9 via 10.0.0.9 dev eth0",
            "nexthop add id 7 group 5/6",
            "route add 1.0.0.0/8 nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0 weight 256",
            "route add 2.0.0.0/8 via inet6 fe80::1 dev eth0 mtu 1400 advmss 1300",
            "route add 3.0.0.0/8 nhid 5",
            "route add 6.0.0.0/8 nhid 6",
            "route add 7.0.0.0/8 nhid 7",
            (
                "route add 8.0.0.0/8 nexthop encap ip id 7 dst 10.0.0.9 via 10.0.0.1 dev eth0 "
                "nexthop encap seg6 mode encap segs fd00:99::9 via 10.0.0.2 dev eth0"
            ),
            "route add 4.0.0.0/8 via 8.8.8.8 dev ib0 onlink src 10.0.0.4 metric 4294967295 tos 0x10 table 70000",
        ]
    )
    namespace.batch(
        [
            "route add 2001::/16 via fd00:99::1 dev eth0 mtu 1280 pref high",
            "route add 2002::/16 from 2001:db8::/32 dev eth0",
            "route add 2003::/16 dev eth0 expires 1000",
            "route add 2004::/16 encap seg6local action End.X nh6 fd00:99::1 via fd00:99::1 dev eth0",
            (
                "route add 2005::/16 nexthop encap ip6 id 7 dst fd00:99::9 via fd00:99::1 dev eth0 "
                "nexthop via fd00:99::2 dev eth0"
            ),
        ],
        family=6,
    )
    snapshot = backend.snapshot()
    assert snapshot.links == namespace.links()
    assert sorted(snapshot.addresses, key=str) == sorted(namespace.addresses(), key=str)
    assert snapshot.routes == namespace.routes(4) + namespace.routes(6)
    encaps = {str(route.prefix): route.unread for route in snapshot.routes if route.unread}
    assert encaps == {
        "6.0.0.0/8": ("encap seg6",),
        "7.0.0.0/8": ("encap seg6",),
        "8.0.0.0/8": ("encap ip", "encap seg6"),
        "2004::/16": ("encap seg6local",),
        "2005::/16": ("encap ip6",),
    }
    namespace.batch(["route add 5.0.0.0/8 via 10.0.0.1 initcwnd 10 quickack 1 realm 7"])
    [unread] = [
        route.unread for route in backend.snapshot().routes if str(route.prefix) == "5.0.0.0/8"
    ]
    assert unread == ("initcwnd 10", "quickack 1", "realm 7")
    words = "default via fe80::1 dev eth0 proto ra metric 1024 hoplimit 64"
    namespace.batch([f"route add {words} expires 1800"], family=6)
    [advertised] = [route for route in backend.snapshot(family=6).routes if route.protocol == 9]
    [shown] = namespace.ip("-6", "-o", "route", "show", "default").stdout.splitlines()
    assert (
        re.sub(" expires .*sec| pref medium", "", shown).split()
        == str(advertised).split()
        == words.split()
    )
    assert not snapshot.ipv6_forwarding
    namespace.sysctl("ipv6/conf/all/forwarding", 1)
    # With this sysctl, the kernel only names the object.
    namespace.sysctl("ipv4/nexthop_compat_mode", 0)
    by_object = [route for route in backend.snapshot().routes if route.nexthop_id]
    assert [(route.nexthop_id, route.next_hops) for route in by_object] == [
        (5, ()),
        (6, ()),
        (7, ()),
    ]
    assert backend.snapshot().ipv6_forwarding


@pytest.mark.parametrize("family", [4, 6])
def test_what_else_a_rule_selects_by(
    namespace: Namespace, backend: NetlinkBackend, family: int
) -> None:
    """Such a rule is never read as one for all packets."""
    with pyroute2.IPRoute() as handle:
        for priority, tunnel in ((100, 5), (101, 6)):
            handle.rule(
                "add", family={4: 2, 6: 10}[family], table=100, priority=priority, tun_id=tunnel
            )
    namespace.batch(
        [
            "rule add pref 200 ipproto tcp dport 80-90 sport 5 uidrange 3-4 table 100",
            "rule add pref 201 iif lo oif eth0 fwmark 3/0xff tos 0x10 table 100",
            "rule add pref 202 not from all to fd00::/8 table 100"
            if family == 6
            else "rule add pref 202 not to 9.0.0.0/8 table 100",
        ],
        family=family,
    )
    listed = [each for each in backend.snapshot(family=family).rules if each.table == 100]
    to = Prefix.parse("fd00::/8" if family == 6 else "9.0.0.0/8")
    users, device = (("uidrange", "3-4"), ("ipproto", "tcp")), (("tos", "0x10"), ("oif", "eth0"))
    assert listed == [
        Rule(
            family=family, priority=100, table=100, others=(("attribute-12", "0000000000000005"),)
        ),
        Rule(
            family=family, priority=101, table=100, others=(("attribute-12", "0000000000000006"),)
        ),
        Rule(
            family=family,
            priority=200,
            table=100,
            others=(*users, ("sport", "5"), ("dport", "80-90")),
        ),
        Rule(
            family=family, priority=201, table=100, iif="lo", fwmark=3, fwmask=0xFF, others=device
        ),
        Rule(family=family, priority=202, table=100, invert=True, dst=to),
    ]


# Changes.

GATEWAYS = {
    4: ("10.0.0.1", "10.0.0.2", "203.0.113.1", "10.0.0.255"),
    6: ("fd00:99::1", "fd00:99::2", "fd01::1"),
}
VERBS: tuple[Verb, ...] = ("add", "append", "delete")
TYPES: tuple[RouteType, ...] = ("unicast", "unicast", "unicast", "blackhole", "throw")


@st.composite
def requests(draw: st.DrawFn, family: int) -> RouteRequest:
    """Any request for a route that a message can express."""
    count = draw(st.sampled_from([1, 1, 1, 2]))
    gateways = [
        as_ip(draw(st.sampled_from(GATEWAYS[draw(st.sampled_from([family, family, 6]))])))
        for _ in range(count)
    ]
    devs = [draw(st.sampled_from(["eth0", "eth0", "ib0"])) for _ in range(count)]
    has_gateway, onlink = count > 1 or draw(st.booleans()), draw(st.booleans())
    kind = draw(st.sampled_from(TYPES))
    next_hops = tuple(
        NextHop(
            dev,
            gateway=gateway if has_gateway else None,
            weight=draw(st.integers(1, 256)) if count > 1 else 1,
            onlink=onlink and has_gateway,
        )
        for dev, gateway in zip(devs, gateways, strict=True)
    )
    route = Route(
        draw(prefixes(Prefix.parse("192.0.2.0/30" if family == 4 else "2001:db8:9::/126"))),
        next_hops if kind == "unicast" else (),
        type=kind,
        scope=0 if family == 6 or has_gateway or kind != "unicast" else SCOPE_LINK,
        table=draw(st.sampled_from([254, 254, 100, 70000])),
        metric=draw(st.sampled_from([5, 5, 4294967295])),
        protocol=draw(st.sampled_from([OURS, OURS, 4])),
        mtu=draw(st.sampled_from([None, None, 1400])),
        prefsrc=draw(
            st.sampled_from([None, None, as_ip("10.0.0.4" if family == 4 else "fd00:99::4")])
        ),
    )
    return RouteRequest(draw(st.sampled_from(VERBS)), route)


def command_of(request: RouteRequest) -> str:
    """The same request for `ip`."""
    route = request.route
    onlink = " onlink" if any(hop.onlink for hop in route.next_hops) else ""
    words = route_command(route._replace(mtu=None), onlink=onlink).replace(
        "route append", f"route {request.verb}"
    )
    words = words.replace("via fd", "via inet6 fd") if route.prefix.family == 4 else words
    options = f"proto {route.protocol}" + (
        f" scope {route.scope}" if route.prefix.family == 4 else ""
    )
    options += f" src {route.prefsrc}" if route.prefsrc is not None else ""
    options += f" mtu {route.mtu}" if route.mtu else ""
    if (
        request.verb == "delete"
        and route.prefix.family == 6
        and not any(hop.gateway for hop in route.next_hops)
    ):
        options += " via ::"  # the one without a gateway, and not all next hops of a device
    if request.verb == "delete" and route.prefix.family == 4 and len(route.next_hops) == 1:
        words = re.sub(
            "(?= via | dev )", " nexthop", words, count=1
        )  # and not a route that begins with this next hop
    return words.replace(f"proto {route.protocol}", options)


@pytest.mark.parametrize("family", [4, 6])
@properties
@given(data=st.data())
def test_a_change_does_what_ip_does(family: int, data: st.DataObject) -> None:
    """Any requests leave the tables as `ip` leaves them, and those that `ip` refuses are refused;
    also by pyroute2.
    """
    wanted = data.draw(st.lists(requests(family), min_size=1, max_size=8))
    results = []
    for way in ("ip", "netlink", "pyroute2"):
        with private_namespace() as namespace, namespace.inside():
            furnish(namespace)
            with (
                NetlinkBackend() as backend,
                pyroute2.IPRoute() as handle,
                Pyroute2Backend(handle) as other,
            ):
                if way == "ip":
                    commands = [command_of(request).split() for request in wanted]
                    done = [
                        namespace.ip(f"-{family}", *words).returncode == 0 for words in commands
                    ]
                else:
                    outcomes = (backend if way == "netlink" else other).change(wanted)
                    done = [outcome.ok for outcome in outcomes]
                results.append(
                    (
                        done,
                        [
                            route
                            for route in backend.snapshot(family=family).routes
                            if route.protocol != 2
                        ],
                    )
                )
    assert results[0] == results[1] == results[2]


def test_a_long_list_of_changes(backend: NetlinkBackend) -> None:
    """Of a list that takes many messages, each refusal is that of its own request, and all others
    are done.
    """
    wanted = [
        Route.to(
            f"20.{place >> 8}.{place & 255}.0/24",
            dev="eth0",
            gateway="203.0.113.1" if place % 7 == 3 else f"10.0.0.{place % 3 + 1}",
            metric=place % 2,
            protocol=OURS,
        )
        for place in range(1000)
    ]
    outcomes = backend.change(RouteRequest("add", route) for route in wanted)
    assert [outcome.ok for outcome in outcomes] == [place % 7 != 3 for place in range(1000)]
    assert outcomes[0] == Outcome(RouteRequest("add", wanted[0]))
    present = {route for route in backend.snapshot().routes if route.protocol == OURS}
    assert present == {route for place, route in enumerate(wanted) if place % 7 != 3}


@pytest.mark.parametrize(
    ("route", "kind", "words"),
    [
        (
            Route.to("1.0.0.0/8", dev="eth0", gateway="9.9.9.9"),
            "gateway-not-on-link",
            "Nexthop has invalid gateway",
        ),
        (
            Route.to("1.0.0.0/8", dev="a-name-of-16-byte"),
            "no-such-device",
            "device a-name-of-16-byte does not exist",
        ),
        (
            Route.to("2001::/16", dev="eth0")._replace(preference="high"),
            "invalid",
            "cannot be requested",
        ),
        (
            Route.to("2001::/16", dev="eth0")._replace(expired=False),
            "invalid",
            "cannot be requested",
        ),
        (Route.to("1.0.0.0/8")._replace(nexthop_id=5), "invalid", "cannot be requested"),
        (
            Route.to("1.0.0.0/8", dev="eth0", metric=-1),
            "invalid",
            "metric -1 is not in 0..4294967295",
        ),
        (
            Route.to("2001::/16", dev="eth0", gateway="10.0.0.1"),
            "invalid",
            "cannot have an IPv4 gateway",
        ),
        (
            Route(Prefix.parse("1.0.0.0/8"), (NextHop("eth0", weight=0), NextHop("ib0"))),
            "invalid",
            "not in 1..256",
        ),
        (
            Route(Prefix.parse("1.0.0.0/8"), (NextHop("eth0"),) * 3000),
            "invalid",
            "3000 next hops do not fit",
        ),
        (
            Route.to("fd00:9::/64", dev="ib0", metric=1024),
            "refused",
            "IPv6 is disabled on nexthop device",
        ),
    ],
    ids=str,
)
def test_a_refusal_says_why(
    namespace: Namespace, backend: NetlinkBackend, route: Route, kind: str, words: str
) -> None:
    """A refusal has its kind, and a sentence with the route and the kernel's own words."""
    namespace.sysctl("ipv6/conf/ib0/disable_ipv6", 1)
    [outcome] = backend.change([RouteRequest("add", route)])
    assert outcome.error is not None
    assert outcome.error.kind == kind
    assert str(outcome.error).startswith(f"cannot add {route}")
    assert words in str(outcome.error)


def test_a_device_with_an_xdp_program(namespace: Namespace, backend: NetlinkBackend) -> None:
    """It is known to have one, and other devices are known to have none."""
    code = struct.pack("<BBhi", 0xB7, 0, 0, 2) + struct.pack(
        "<BBhi", 0x95, 0, 0, 0
    )  # r0 = XDP_PASS; exit
    code_at, license_at = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    fields = struct.pack(
        "<IIQQ", 6, 2, ctypes.addressof(code_at), ctypes.addressof(license_at)
    ).ljust(128, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    program = libc.syscall(
        {"x86_64": 321}.get(platform.machine(), 280), 5, ctypes.create_string_buffer(fields), 128
    )
    assert program >= 0, os.strerror(ctypes.get_errno())
    with namespace.inside(), pyroute2.IPRoute() as handle, Pyroute2Backend(handle) as other:
        handle.link("set", index=handle.link_lookup(ifname="eth0")[0], xdp_fd=program)
        os.close(program)
        for snapshot in (backend.snapshot(), other.snapshot()):
            assert {link.name for link in snapshot.links if link.xdp} == {"eth0"}


# Lookups.


@pytest.mark.parametrize("family", [4, 6])
@properties
@given(data=st.data())
def test_a_lookup_is_what_ip_route_get_says(family: int, data: st.DataObject) -> None:
    """For every address of any host the answer is that of `ip route get fibmatch`; and pyroute2 has
    the same.
    """
    with private_namespace() as namespace, namespace.inside():
        block = built(namespace, data)[family]
        addresses = [ip_at(family, number) for number in range(block.first, block.last + 1)]
        expected = namespace.get(family, [f"{address} ipproto udp uid 0" for address in addresses])
        with (
            NetlinkBackend() as backend,
            pyroute2.IPRoute() as handle,
            Pyroute2Backend(handle) as other,
        ):
            answers = backend.lookup(addresses)
            if family == 4 or not has_a_rule_for_protocols(backend.snapshot()):
                assert in_short(other.lookup(addresses)) == in_short(answers)
    for address, said, answer in zip(addresses, expected, answers, strict=True):
        if isinstance(said, str):
            assert (answer.kind, answer.route) == (KIND_OF_ERRNO[ERRNO_OF[said]], None), address
            continue
        route = answer.route
        assert route is not None, address
        assert (answer.kind, route.prefix, route.metric) == (said.type, said.prefix, said.metric)
        if family == 4:  # IPv6 answers with any next hop of ECMP first
            assert set(route.next_hops) == set(said.next_hops), address


def has_a_rule_for_protocols(snapshot: Snapshot) -> bool:
    """Whether a rule selects by the protocol of packets."""
    words = [word for rule in snapshot.rules for word, _ in rule.others]
    return "ipproto" in words


def in_short(answers: Iterable[Answer]) -> list[tuple[str, RouteKey | None]]:
    """The kind and the key of each answer."""
    return [(answer.kind, answer.route and answer.route.key) for answer in answers]


def test_inside_a_running_event_loop(namespace: Namespace) -> None:
    """Both backends work where an event loop runs, which pyroute2 alone does not."""
    expected = namespace.routes(4)

    async def read() -> list[Snapshot]:
        with NetlinkBackend() as backend, Pyroute2Backend(handle) as other:
            return [each.snapshot(family=4) for each in (backend, other)]

    with namespace.inside(), pyroute2.IPRoute() as handle:
        assert [snapshot.routes for snapshot in asyncio.run(read())] == [expected, expected]
