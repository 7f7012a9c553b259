"""Whether Linux takes a packet that arrives, against Linux: its settings, its rules, and the way back.

A random node is furnished in a private namespace. The kernel is asked for packets between a few addresses, on each
device, with `ip route get DST from SRC iif DEV mark M`: that is the code which a real packet meets.
"""

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostrouting.fib.arrival import find_drop
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.route import REFUSING
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace

if TYPE_CHECKING:
    from hostrouting.model.prefix import IP

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

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
