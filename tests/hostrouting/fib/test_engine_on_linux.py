"""The engine against Linux, in private network namespaces: for every address, both name the same
route or refusal.
"""

from itertools import permutations, product
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, event, given, settings, strategies as st

from hostrouting.fib.engine import FROM_HOST, Decision, Fib, PacketKind
from hostrouting.kernel.base import Answer
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IP, Prefix, ip_at
from hostrouting.model.route import Route
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

BLOCK = {4: Prefix.parse("10.9.0.0/26"), 6: Prefix.parse("fd09::/122")}
DEVS = ("eth0", "eth1", "ib0")
HOST = (
    "link set lo up",
    *ports(*DEVS),
    "address add 10.0.0.4/24 dev eth0",
    "address add 10.9.0.33/28 dev ib0",
    "address add fd00::4/64 dev eth0 nodad",
    "address add fd09::21/124 dev ib0 nodad",
)
GATEWAY = {4: "10.0.0.1", 6: "fd00::1"}
ON_LINK = {4: "", 6: "via fe80::1"}
"""How a next hop by a device without an address is written: IPv6 wants a gateway for each of
several.
"""
SOURCE = {4: "10.0.0.0/24", 6: "fd00::/64"}
UNBOUND = {4: ["0.0.0.0/32", "0.0.0.0/8", "0.0.0.0/1"], 6: ["::/128", "::/8", "::/1"]}
"""Sources around the address that IPv4 compares while a packet has no source."""
PATHLESS = ["blackhole", "unreachable", "prohibit", "throw"]
MOST = {4: 26, 6: 122}
WIDTH = {4: 32, 6: 128}


@st.composite
def prefixes(draw: st.DrawFn, family: int) -> str:
    """A prefix in the block or around it, as text."""
    block, width = BLOCK[family], WIDTH[family]
    length = draw(st.sampled_from([0, MOST[family] - 4, *range(MOST[family], width + 1)]))
    return str(Prefix.around(family, block.first + draw(st.integers(0, 63)), length))


@st.composite
def routes(draw: st.DrawFn, family: int) -> str:
    """A route as `ip route add` takes it."""
    kind = draw(st.sampled_from(["", "", "", "multicast", "anycast", "broadcast", *PATHLESS]))
    by_device = f"dev {draw(st.sampled_from(DEVS))}"
    by_gateway = f"via {GATEWAY[family]} dev eth0"
    second = f"{ON_LINK[family]} dev {draw(st.sampled_from(DEVS[1:]))}"
    by_both = f"nexthop {by_gateway} nexthop {second}"
    way = ""
    if kind not in PATHLESS:
        way = draw(st.sampled_from([by_device, by_device, by_gateway, by_both]))
    table = draw(st.sampled_from(["main", "main", "100", "101"]))
    metric = draw(st.sampled_from([0, 10, 100, 1024]))
    verb = draw(st.sampled_from(["add", "append"]))  # with `append`, several have one key
    # What comes after the first `nexthop` belongs to a next hop.
    return f"route {verb} {kind} {draw(prefixes(family))} table {table} metric {metric} {way}"


@st.composite
def rules(draw: st.DrawFn, family: int) -> str:
    """A rule as `ip rule add` takes it."""
    words = draw(st.sampled_from(["", "", "not "]))
    words += draw(
        st.sampled_from(
            [
                "from all",
                f"to {draw(prefixes(family))}",
                f"to {draw(prefixes(family))} fwmark 0x0/0xff",
                f"from {SOURCE[family]}",
                *(f"from {block}" for block in UNBOUND[family]),
                *(f"from {block} iif lo" for block in UNBOUND[family]),
                f"from {UNBOUND[family][0]} to {draw(prefixes(family))}",
                "fwmark 0x200/0xf00",
                "fwmark 0x0/0xff",
                "iif lo",
                "iif eth1",
                "oif eth1",
                "uidrange 0-99",
                "uidrange 1000-1999",
            ]
        )
    )
    words += f" priority {draw(st.integers(1, 40_000))}"
    refusal = draw(st.sampled_from(["", "", "", "", *PATHLESS[:3]]))
    if refusal:
        return f"rule add {words} {refusal}"
    suppress = draw(st.sampled_from(["", "", " suppress_prefixlength 0"]))
    return f"rule add {words} lookup {draw(st.sampled_from(['main', '100', '101']))}{suppress}"


@pytest.mark.parametrize("family", [4, 6])
@settings(
    max_examples=scaled(40),
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    deadline=None,
)
@given(data=st.data())
def test_every_address_of_a_random_host(family: int, data: st.DataObject) -> None:
    """For every address of the block, the plain decision is what Linux answers, also if a device is
    down, so that a next hop of several is dead.
    """
    some_routes = data.draw(st.lists(routes(family), max_size=8))
    some_rules = data.draw(st.lists(rules(family), max_size=4))
    down = data.draw(st.sampled_from(["", "", "link set eth1 down", "link set ib0 down"]))
    default = f"route add default via {GATEWAY[family]} dev eth0 metric 1024"
    # A rule that was ever added lets Linux look up table local before main; a snapshot cannot show
    # that.
    a_rule = "rule add priority 50000 lookup 200"
    block = BLOCK[family]
    addresses = [ip_at(family, number) for number in range(block.first, block.last + 1)]
    with private_namespace() as namespace, namespace.inside(), NetlinkBackend() as backend:
        namespace.batch(HOST)
        commands = [a_rule, default, *some_routes, *some_rules, down]
        namespace.batch(commands, force=True, family=family)
        fib = Fib(backend.snapshot(), family)
        answers = backend.lookup(addresses)
    for address, answer in zip(addresses, answers, strict=True):
        decision = fib.lookup(address)
        event(decision.kind)
        assert agree(answer, decision), f"{address}: Linux {answer}, the engine {decision}"


# Three default routes of one metric, each by a device of its own. IPv6 has no next hop without a
# gateway among several, does not list a route without one between two with one, and never uses the
# second without one.
BY_WHAT: dict[int, list[tuple[str, ...]]] = {
    4: [
        *product(["gateway", "device"], repeat=3),
        *product(["both"], ["gateway", "device"], ["gateway", "both"]),
        *dict.fromkeys(permutations(["gateway", "gateway", "lo"])),
    ],
    6: [
        ("gateway", "gateway", "gateway"),
        ("gateway", "gateway", "device"),
        *product(["device"], ["gateway", "device"], ["gateway", "device"]),
    ],
}


@pytest.mark.parametrize("family", [4, 6])
def test_equal_default_routes_while_gateways_do_not_answer(family: int) -> None:
    """Linux uses each that the engine names in some state of the gateways, and no other in any."""
    destinations = [ip_at(family, BLOCK[family].first + number) for number in range(8)]
    with private_namespace() as namespace, namespace.inside(), NetlinkBackend() as backend:
        namespace.batch(HOST)
        for kinds in BY_WHAT[family]:
            routes = [default_route(family, *way) for way in zip(DEVS, kinds, strict=True)]
            namespace.batch(routes, family=family)

            fib = Fib(backend.snapshot(), family)
            possible = fib.possible_devs(fib.lookup(destinations[0]))
            used = devices_in_any_state(namespace, family, backend, destinations)

            assert used == {*possible}, f"{kinds}: Linux {used}, the engine {possible}"
            namespace.batch(["route del default"] * len(DEVS), force=True, family=family)


def devices_in_any_state(
    namespace: Namespace, family: int, backend: NetlinkBackend, destinations: list[IP]
) -> set[str]:
    """The devices by which Linux leads packets to these, while any of the gateways answer."""
    used: set[str] = set()
    for states in product(["permanent", "failed"], repeat=len(DEVS)):
        gateways: list[str] = []
        for dev, state in zip(DEVS, states, strict=True):
            gateways.append(neighbour(family, dev, state))
        namespace.batch(gateways, family=family)
        for answer in backend.lookup(destinations):
            assert answer.route is not None
            used.update(answer.route.devs)
    return used


def default_route(family: int, dev: str, kind: str) -> str:
    """The command that appends a default route by the device."""
    by_gateway = f"via {gateway_on(family, dev)} dev {dev} onlink"
    ways = {
        "gateway": by_gateway,
        "device": f"dev {dev}",
        "lo": "dev lo",
        "both": f"nexthop {by_gateway} nexthop dev {dev}",
    }
    return f"route append default metric 7 {ways[kind]}"


def neighbour(family: int, dev: str, state: str) -> str:
    """The command that gives the gateway on the device this state."""
    address = "lladdr 02:00:00:00:00:01 " if state == "permanent" else ""
    return f"neigh replace {gateway_on(family, dev)} dev {dev} {address}nud {state}"


def gateway_on(family: int, dev: str) -> str:
    """The gateway on the device."""
    place = DEVS.index(dev) + 1
    return f"10.7.{place}.1" if family == 4 else f"fe80::{place}"


OWN = {4: "10.0.0.4", 6: "fd00::4"}
"""An address of this host."""
SENDER = {4: "10.77.0.5", 6: "fd77::5"}
"""An address of another host, which sends through this one."""


class Sent(NamedTuple):
    """Packets of one kind, as `ip route get` and as the engine have them."""

    words: str
    packet: PacketKind


def packets_of_each_kind(family: int) -> dict[str, Sent]:
    """The host's own packets, those of its connections, and what others send through it by each
    device.
    """
    own = Prefix.parse(OWN[family])
    sender = Prefix.parse(SENDER[family])
    return {
        "own": Sent("", FROM_HOST),
        "connected": Sent(f"from {own.ip}", PacketKind(own)),
        "eth1": Sent(f"from {sender.ip} iif eth1", PacketKind(sender, "eth1")),
        "ib0": Sent(f"from {sender.ip} iif ib0", PacketKind(sender, "ib0")),
    }


SELECTED = {
    "iif lo": {"own", "connected"},
    "not iif lo": {"eth1", "ib0"},
    "iif eth1": {"eth1"},
    "not iif eth1": {"own", "connected", "ib0"},
    "from {sender}": {"eth1", "ib0"},
    "not from {sender}": {"own", "connected"},
    "from {sender} iif lo": set[str](),
    "not from {sender} iif lo": {"own", "connected", "eth1", "ib0"},
    "from {sender} iif ib0": {"ib0"},
    "not from {sender} iif ib0": {"own", "connected", "eth1"},
    "from {own}": {"connected"},
    "not from {own}": {"own", "eth1", "ib0"},
    "from {own} iif lo": {"connected"},
    "from {own} iif eth1": set[str](),
    "not oif eth1": {"own", "connected", "eth1", "ib0"},
}
"""The kinds of packets that a rule selects."""


@pytest.mark.parametrize("family", [4, 6])
def test_what_a_host_sends_and_forwards(family: int) -> None:
    """A rule leads the same packets to eth1 for Linux and for the engine; others leave by eth0."""
    target = ip_at(family, BLOCK[family].first)
    packets = packets_of_each_kind(family)
    commands = ["route add default dev eth0", "route add default dev eth1 table 100"]
    with private_namespace() as namespace:
        namespace.batch(HOST)
        namespace.sysctl("ipv4/ip_forward", 1)
        namespace.sysctl("ipv6/conf/all/forwarding", 1)
        namespace.batch(commands, family=family)
        for selector, selected in SELECTED.items():
            rule = f"priority 50 {selector.format(own=OWN[family], sender=SENDER[family])}"
            namespace.batch([f"rule add {rule} lookup 100"], family=family)
            fib = Fib(namespace.snapshot(), family)
            answers = namespace.get(family, [f"{target} {sent.words}" for sent in packets.values()])
            namespace.batch(["rule del priority 50"], family=family)

            for (kind, sent), answer in zip(packets.items(), answers, strict=True):
                dev = "eth1" if kind in selected else "eth0"
                assert isinstance(answer, Route), answer
                assert answer.devs == (dev,), f"Linux, {kind}: {rule}"
                assert fib.lookup(target, sent.packet).devs == (dev,), f"{kind}: {rule}"


def agree(answer: Answer, decision: Decision) -> bool:
    """Whether both are the same; a lookup that fails has one error for a rule's `unreachable` and
    for no route.
    """
    if answer.route is None or decision.route is None:
        failed = {"no-route", "unreachable"}
        return decision.kind == answer.kind or {decision.kind, answer.kind} <= failed
    return what_is_compared(decision.route) == what_is_compared(answer.route)


def what_is_compared(route: Route) -> tuple[object, ...]:
    """The route, and the devices by which it leads in any order."""
    return route.prefix, route.table, route.metric, set(route.devs)
