"""Whether Linux takes a packet that arrives: each reason once, and against Linux.

For the second, a random node is furnished in a private namespace. The kernel is asked for packets between a few
addresses, on each device, with `ip route get DST from SRC iif DEV mark M`: that is the code which a real packet meets.
"""

from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostrouting.fib.arrival import find_drop, forwarding_clause, reverse_flow
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import REFUSING, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.testing import plain_vm
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace

if TYPE_CHECKING:
    from hostrouting.model.prefix import IP

DEVICES = ["eth0", "ib0", "cni0", "pod1"]
ADDRESSES = ["10.0.0.4/24 dev eth0", "172.16.0.4/16 dev ib0", "10.244.3.1/24 dev cni0"]
WAYS = ["dev ib0", "dev cni0", "dev pod1", "via 10.0.0.1 dev eth0", "via 172.16.0.1 dev ib0"]
BOTH = "nexthop via 10.0.0.1 dev eth0 nexthop via 172.16.0.1 dev ib0"
PREFIXES = ["default", "10.244.3.0/24", "10.244.3.2/32", "172.16.0.0/16", "172.16.5.0/24", "8.8.8.0/24", "10.0.0.4/32"]
# A peer of each device, addresses and broadcast addresses of the host, one that nothing knows, and the special ones.
SOURCES = ["10.0.0.9", "172.16.5.5", "10.244.3.2", "8.8.8.8", "10.0.0.4", "172.16.0.4", "10.0.0.255", "127.0.0.1"]
SOURCES += ["127.0.0.9", "192.0.2.5", "224.0.0.1", "255.255.255.255", "0.1.2.3", "240.0.0.1"]
DESTINATIONS = ["10.0.0.4", "172.16.0.4", "10.244.3.2", "172.16.5.5", "8.8.8.8", "10.0.0.255", "127.0.0.1"]
# What a rule can see of a packet: its mark, and its port; a reply has the ports the other way round.
PACKETS = [{"mark": 0, "dport": 0}, {"mark": 0x10, "dport": 53}]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, int], list[str]]:
    """The settings of a node that are not 0, and its rules and routes as `ip` takes them."""
    on: dict[str, int] = {}
    for dev in ["all", *DEVICES]:
        on[f"{dev}/rp_filter"] = draw(st.sampled_from([0, 0, 1, 2] if dev == "all" else [0, 1, 2]))
        for name in ("accept_local", "src_valid_mark", "route_localnet"):
            on[f"{dev}/{name}"] = int(draw(st.integers(0, 4)) == 0)
        if dev != "all":
            on[f"{dev}/forwarding"] = int(draw(st.integers(0, 4)) != 0)
    lines = draw(st.lists(_routes(), max_size=8)) + draw(st.lists(_rules(), max_size=4))
    return on, lines


@st.composite
def _routes(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["", "", "", "", "", "blackhole ", "unreachable ", "throw "]))
    way = "" if kind else draw(st.sampled_from([*WAYS, BOTH]))
    table = draw(st.sampled_from(["main", "100", "100"]))
    return f"route append {kind}{draw(st.sampled_from(PREFIXES))} table {table} metric {draw(st.integers(5, 6))} {way}"


@st.composite
def _rules(draw: st.DrawFn) -> str:
    words = draw(st.sampled_from(["", "", "not "]))
    words += f"from {draw(st.sampled_from(['all', 'all', '10.244.3.0/24', '10.0.0.4', '172.16.0.0/16']))}"
    to = draw(st.sampled_from(["", "", "10.244.3.0/24", "172.16.0.0/16"]))
    iif = draw(st.sampled_from(["", "", "cni0", "eth0", "lo"]))
    mark = draw(st.sampled_from(["", "", "0x10/0x10"]))
    port = draw(st.sampled_from(["", "", "sport 53", "dport 53"]))
    user = draw(st.sampled_from(["", "", "", "0-0", "1000-2000"]))
    words += f" to {to}" * bool(to) + f" iif {iif}" * bool(iif) + f" fwmark {mark}" * bool(mark)
    words += f" uidrange {user}" * bool(user) + f" ipproto udp {port}" * bool(port)
    return (
        f"rule add {words} priority {draw(st.integers(100, 104))} {draw(st.sampled_from(['lookup 100', 'prohibit']))}"
    )


def furnish(namespace: Namespace, on: dict[str, int], lines: list[str]) -> None:
    """A node with these settings, rules and routes, as far as Linux takes them."""
    namespace.batch(
        ["link set lo up", *ports(*DEVICES)]
        + [f"address add {address}" for address in ADDRESSES]
        + ["route add default via 10.0.0.1 dev eth0 metric 100"]
    )
    namespace.batch(lines, family=4, force=True)
    said = "".join(f"echo {value} >/proc/sys/net/ipv4/conf/{name}\n" for name, value in on.items())
    namespace.run("sh", "-ec", said)


STRICT = {**{f"{dev}/rp_filter": 1 for dev in DEVICES}, **{f"{dev}/forwarding": 1 for dev in DEVICES}}
# A rule by device counts for the device by which the packet leaves; a packet to a broadcast address has no address to
# come back from.
BY_DEVICE = ["route append 10.244.3.0/24 dev pod1 table 100", "rule add iif eth0 priority 100 lookup 100"]
# Only a rule for arriving packets makes Linux read the ports of one, for the way back, too.
BY_PORT = ["rule add iif lo ipproto udp sport 53 priority 100 prohibit"]
BY_NETWORK = ["route append 10.0.0.0/24 dev ib0 table 100", "rule add from 10.0.0.0/24 priority 100 lookup 100"]


# Linux looks up the way back once a rule was added or deleted, or a local route was added.
OPEN = {**{f"{dev}/forwarding": 1 for dev in DEVICES}, **{f"{dev}/route_localnet": 1 for dev in DEVICES}}


@example(world=({f"{dev}/forwarding": 0 for dev in DEVICES}, ["rule add from 10.244.3.0/24 priority 100 prohibit"]))
@example(world=(OPEN, []))
@example(world=(OPEN, ["rule del priority 32767"]))
@example(world=(OPEN, ["route add local 192.0.2.0/24 dev lo"]))
@example(world=(OPEN, ["route add local 192.0.2.0/24 dev lo table 100"]))
@example(world=(STRICT, BY_DEVICE))
@example(world=(STRICT, BY_NETWORK))
@example(world=(STRICT, BY_PORT))
@example(world=(STRICT, [*BY_PORT, "rule add iif eth0 ipproto tcp priority 101 prohibit"]))
@pytest.mark.linux
@pytest.mark.needs("root")
@settings(max_examples=scaled(150), suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(world=worlds())
def test_what_linux_drops(world: tuple[dict[str, int], list[str]]) -> None:
    """A packet is dropped exactly if Linux drops it; otherwise it leaves as the tables say."""
    on, lines = world
    with private_namespace() as namespace:
        furnish(namespace, on, lines)
        with NetlinkBackend(netns=namespace.path) as backend:
            fib = Fib(backend.snapshot(family=4), merged=not any(line.startswith("rule") for line in lines))
            destinations: list[IP] = [IPv4Address(it) for it in DESTINATIONS]
            for dev in DEVICES:
                for source in map(IPv4Address, SOURCES):
                    for packet in PACKETS:
                        flow = attrs.evolve(PLAIN, source=source, iif=dev, mark=packet["mark"], dport=packet["dport"])
                        for destination, answer in zip(destinations, backend.lookup(destinations, flow), strict=True):
                            drop, way = find_drop(fib, destination, flow), fib.lookup(destination, flow)
                            told = (dev, source, destination, packet, drop, way, answer, on, lines)
                            if drop is not None and drop.out:
                                continue  # it depends on the device that this connection takes
                            if drop is not None:
                                kind = "unreachable" if drop.reason == "forwarding" else "blackhole"
                                assert (answer.kind, answer.route) == (kind, None), told
                            elif way.route is None or way.kind in REFUSING:
                                assert (answer.kind, answer.route) == (way.kind, None), told
                            else:
                                assert answer.route is not None, told
                                assert answer.route.prefix == way.route.prefix, told


def told(words: str, rules: tuple[Rule, ...], routes: tuple[Route, ...], mark: int, settings: dict[str, Any]) -> str:
    """The reason and the clause about this packet, "FROM on DEVICE to DESTINATION"; empty if it is not dropped.

    eth0 has the default route. ib0 has an address, pod1 has none. They all forward; the device has the settings.
    """
    source, _, dev, _, destination = words.split()
    kernel = plain_vm()
    kernel.add_link("ib0")
    kernel.add_link("pod1")
    kernel.add_address("ib0", "172.16.0.4/16")
    kernel.add_address("ib0", "fd16::4/64")
    snapshot = kernel.snapshot()
    links = [
        attrs.evolve(link, **{"forwarding": True, **settings} if link.name == dev else {}) for link in snapshot.links
    ]
    own = tuple(rule for rule in snapshot.rules if rule.family == 4)
    snapshot = attrs.evolve(
        snapshot,
        links=tuple(links),
        rules=(own[0], *rules, *own[1:], *default_rules(6)),
        routes=(*snapshot.routes, *routes, Route.to("10.244.3.2/32", dev="pod1")),
        ipv6_forwarding=settings.get("forwarding", True),
    )
    flow = attrs.evolve(PLAIN, source=as_ip(source), iif=dev, mark=mark)
    drop = find_drop(Fib(snapshot), as_ip(destination), flow)
    return "" if drop is None else f"{drop.reason}: {drop}"


BACK_BY_IB0 = Route.to("10.0.0.0/24", dev="ib0", table=100)
FROM_NETWORK = Rule(family=4, priority=100, table=100, src=Prefix.parse("10.0.0.0/24"))
MARKED = Rule(family=4, priority=100, table=100, fwmark=16, fwmask=16)
ALL_LOCAL = Route.to("192.0.2.0/24", dev="lo", type="local", table=255, protocol=2)


@pytest.mark.parametrize(
    ("words", "more", "reason"),
    [
        ("0.0.0.0 on eth0 to 255.255.255.255", {}, ""),
        ("0.0.0.0 on eth0 to 10.0.0.4", {}, "bad-source"),
        ("224.0.0.1 on eth0 to 10.0.0.4", {}, "bad-source"),
        ("255.255.255.255 on eth0 to 10.0.0.4", {}, "bad-source"),
        ("127.0.0.9 on eth0 to 10.0.0.4", {}, "loopback"),
        # The host's own address, without the filter: looked for in any case, until a rule makes Linux look up the route.
        ("10.0.0.4 on ib0 to 10.244.3.2", {}, "own-source"),
        ("10.0.0.4 on ib0 to 10.244.3.2", {"accept_local": True}, ""),
        ("192.0.2.9 on ib0 to 10.244.3.2", {"routes": (ALL_LOCAL,)}, ""),
        ("192.0.2.9 on ib0 to 10.244.3.2", {"routes": (ALL_LOCAL,), "rules": (MARKED,)}, "own-source"),
        ("172.16.255.255 on eth0 to 10.244.3.2", {}, ""),
        ("172.16.255.255 on eth0 to 10.244.3.2", {"rules": (MARKED,)}, "bad-source"),
        ("172.16.255.255 on eth0 to 10.244.3.2", {"rules": (MARKED,), "accept_local": True}, ""),
        ("172.16.255.255 on eth0 to 10.0.0.9", {}, "bad-source"),
        # Forwarding matters for what leaves again, and hides why an IPv4 packet is refused.
        ("10.0.0.9 on eth0 to 10.0.0.4", {"forwarding": False}, ""),
        ("10.0.0.9 on eth0 to 8.8.8.8", {"forwarding": False}, "forwarding"),
        (
            "10.0.0.9 on eth0 to 8.8.8.8",
            {"forwarding": False, "routes": (Route.to("8.8.8.8/32", type="blackhole"),)},
            "forwarding",
        ),
        ("fd16::9 on ib0 to fd99::9", {"forwarding": False}, ""),
        ("fd16::9 on ib0 to fd16::8", {"forwarding": False}, "forwarding"),
        ("fd16::9 on ib0 to fd16::8", {}, ""),
        (":: on ib0 to fd16::8", {}, "bad-source"),
        (":: on ib0 to fd16::4", {}, ""),
        ("fd16::9 on ib0 to ::1", {}, "loopback: ::1 stays inside a host"),
        # What no route takes is not dropped by the filter.
        ("10.0.0.9 on ib0 to 8.8.8.8", {"rp_filter": 1, "routes": (Route.to("8.8.8.8/32", type="blackhole"),)}, ""),
        (
            "10.0.0.9 on ib0 to 8.8.8.8",
            {
                "rp_filter": 1,
                "rules": (
                    Rule(family=4, priority=1, table=999),
                    Rule(family=4, priority=2, action="goto", target=32767, dst=Prefix.parse("8.8.8.8/32")),
                ),
            },
            "",
        ),
        ("10.0.0.9 on ib0 to 8.8.8.8", {"rp_filter": 1}, "strict"),
        ("10.0.0.9 on pod1 to 8.8.8.8", {"rp_filter": 2}, "no-address"),
        ("10.0.0.9 on ib0 to 8.8.8.8", {"rp_filter": 2}, ""),
        (
            "9.9.9.9 on ib0 to 10.0.0.4",
            {
                "rp_filter": 2,
                "rules": (Rule(family=4, priority=1, action="goto", target=32767, dst=Prefix.parse("9.9.9.9/32")),),
            },
            "loose: its rp_filter is 2, and the route back to 9.9.9.9 does not exist",
        ),
        # The route back is looked up with the destination as its source, but a broadcast address cannot be one.
        (
            "10.0.0.9 on eth0 to 10.0.0.4",
            {"rp_filter": 1, "rules": (FROM_NETWORK,), "routes": (BACK_BY_IB0,)},
            "strict",
        ),
        ("10.0.0.9 on eth0 to 10.0.0.255", {"rp_filter": 1, "rules": (FROM_NETWORK,), "routes": (BACK_BY_IB0,)}, ""),
        (
            "10.0.0.9 on eth0 to 10.0.0.4",
            {"rp_filter": 1, "mark": 16, "rules": (MARKED,), "routes": (BACK_BY_IB0,)},
            "",
        ),
        (
            "10.0.0.9 on eth0 to 10.0.0.4",
            {"rp_filter": 1, "mark": 16, "src_valid_mark": True, "rules": (MARKED,), "routes": (BACK_BY_IB0,)},
            "strict",
        ),
    ],
)
def test_each_reason(words: str, more: dict[str, Any], reason: str) -> None:
    """The first reason that holds; Linux agrees, for the test below asks it about each kind of these packets."""
    settings = dict(more)
    said = told(words, settings.pop("rules", ()), settings.pop("routes", ()), settings.pop("mark", 0), settings)
    assert said.startswith(reason)
    assert bool(said) is bool(reason)


@pytest.mark.parametrize(
    ("rule", "seen"),
    [
        (Rule(family=4, priority=9, table=100, sports=(1, 9)), (0, 0, 6, 2, 1)),
        (Rule(family=4, priority=9, table=100, ipproto=6), (0, 0, 6, 2, 1)),
        (Rule(family=4, priority=9, table=100, dports=(1, 9), iif="lo"), (0, 0, 0, 0, 0)),
        (Rule(family=6, priority=9, table=100, dports=(1, 9)), (0, 0, 0, 0, 0)),
    ],
    ids=str,
)
def test_what_a_lookup_of_the_route_back_sees(rule: Rule, seen: tuple[int, ...]) -> None:
    """Neither mark nor user; protocol and ports the other way round, if an IPv4 rule for arriving packets selects on them."""
    snapshot = plain_vm().snapshot()
    fib = Fib(attrs.evolve(snapshot, rules=(*snapshot.rules, rule)))
    back = reverse_flow(fib, attrs.evolve(PLAIN, mark=16, uid=1000, ipproto=6, sport=1, dport=2), None)
    assert (back.mark, back.uid, back.ipproto, back.sport, back.dport) == seen


def test_several_devices_that_do_not_forward() -> None:
    """They have one clause, which names none of them."""
    assert forwarding_clause(4, ("eth0", "eth1")).startswith("these devices do not forward")
