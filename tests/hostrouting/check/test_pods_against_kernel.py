"""What pods send, against Linux: every packet of a class goes where the check of the class says.

A random node with rules by source and incoming device is furnished in a private namespace. Then the kernel is asked for
each destination, from each address of a pod, on each device, with `ip route get DST from SRC iif DEV`.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.check.exceptions import PodBlocks
from hostrouting.check.overlap import Judge, check_overlap
from hostrouting.check.packets import find_pod_packets, with_devices_of
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.kernel.base import Answer
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import REFUSING
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

# The expected CIDR, the addresses of pods, and what else occurs in rules and routes; in both families.
CIDR = {4: "10.9.0.0/28", 6: "fd09::/124"}
PODS = {4: "10.244.3.0/29", 6: "fd44:3::/125"}
SOURCES = {
    4: ["10.244.3.0/30", "10.244.3.2/32", "10.244.3.4/31", "10.244.0.0/16", "10.9.0.0/16"],
    6: ["fd44:3::/126", "fd44:3::2/128", "fd44:3::4/127", "fd44::/16", "fd09::/16"],
}
PARTS = {
    4: ["10.9.0.0/28", "10.9.0.0/29", "10.9.0.4/31", "10.9.0.15/32", "10.0.0.0/8", "default"],
    6: ["fd09::/124", "fd09::/125", "fd09::4/127", "fd09::f/128", "fd00::/8", "default"],
}
ADDRESSES = {
    4: ["10.0.0.4/24 dev eth0", "172.16.0.4/16 dev ib0", "10.244.3.254/24 dev cni0"],
    6: ["fd00::4/64 dev eth0", "fd16::4/64 dev ib0", "fd44:3::fe/64 dev cni0"],
}
GATEWAYS = {4: "via 10.0.0.1 dev eth0", 6: "via fd00::1 dev eth0"}
OTHERS = {4: "via 172.16.0.1 dev ib0", 6: "via fd16::1 dev ib0"}
DEVICES = ["eth0", "ib0", "cni0", "pod1", "pod2"]
LATE = "pod9"  # created after the snapshot
PATTERNS = ("cni0", "pod*")


@st.composite
def rules(draw: st.DrawFn, family: int) -> str:
    """A rule as `ip rule add` takes it."""
    words = draw(st.sampled_from(["", "not "]))
    words += f"from {draw(st.sampled_from([*SOURCES[family], 'all', 'all']))}"
    iif = draw(st.sampled_from(["", "", "cni0", "pod1", "pod9", "lo", "eth0"]))
    words += f" iif {iif}" if iif else ""
    dst = draw(st.sampled_from(["", "", PARTS[family][1], PARTS[family][2]]))
    words += f" to {dst}" if dst else ""
    words += f" priority {draw(st.integers(100, 104))}"
    action = draw(st.sampled_from(["lookup 100", "lookup 101", "lookup main", "unreachable", "prohibit"]))
    if action.startswith("lookup"):
        action += draw(st.sampled_from(["", "", " suppress_prefixlength 0"]))
    return f"rule add {words} {action}"


@st.composite
def routes(draw: st.DrawFn, family: int) -> str:
    """A route as `ip route add` takes it."""
    kind = draw(st.sampled_from(["", "", "", "", "unreachable ", "throw "]))
    way = "" if kind else draw(st.sampled_from(["dev ib0", "dev cni0", "dev pod1", GATEWAYS[family], OTHERS[family]]))
    table = draw(st.sampled_from(["main", "100", "101"]))
    metric = draw(st.sampled_from([5, 6]))
    return f"route append {kind}{draw(st.sampled_from(PARTS[family]))} {way} table {table} metric {metric}"


def furnish(namespace: Namespace, family: int, wanted: list[str]) -> None:
    """A node that forwards, with those of the rules and routes that Linux accepts."""
    namespace.batch(["link set lo up", *ports(*DEVICES)])
    namespace.sysctl(f"ipv{family}/conf/all/forwarding", 1)
    options = " nodad" if family != IPV4 else ""
    namespace.batch([f"address add {address}{options}" for address in ADDRESSES[family]], family=family)
    namespace.batch([f"route add default {GATEWAYS[family]} metric 100", *wanted], family=family, force=True)


def escapes(answer: Answer) -> bool:
    """Whether a packet with this answer from the kernel does not leave by eth0 or a pod's device."""
    if answer.route is None or answer.kind in REFUSING:
        return True
    return answer.kind == "unicast" and not all(
        dev in {"eth0", "cni0"} or dev.startswith("pod") for dev in answer.route.devs
    )


def compare(family: int, wanted: list[str]) -> None:
    """Ask Linux about each packet of each class, and compare with the check of the class."""
    cidr, pods = Prefix.parse(CIDR[family]), Prefix.parse(PODS[family])
    with private_namespace() as namespace:
        furnish(namespace, family, wanted)
        with NetlinkBackend(netns=namespace.path) as backend:
            snapshot = backend.snapshot(family=family)
            packets = find_pod_packets(snapshot, [pods], PATTERNS, expected=[cidr])
            namespace.batch(ports(LATE))
            fib = with_devices_of(Fib(snapshot), packets)
            # Linux does not say by which route it refuses a packet.
            is_own_block = Judge(("eth0",), PATTERNS, blocks=PodBlocks(fib, (cidr,), PATTERNS)).is_own_block
            asked: set[tuple[str, str]] = set()
            for its in packets:
                report = check_overlap(fib, [cidr], expected_devs=["eth0"], allowed_devs=PATTERNS, flow=its.flow)
                escaping = {place for escape in report.escapes for place in range(escape.first, escape.last + 1)}
                for dev in its.devs:
                    for source in [address for block in its.sources for address in _network(block)]:
                        flow = attrs.evolve(PLAIN, source=source, iif=dev)
                        answers = backend.lookup(list(_network(cidr)), flow)
                        told = {
                            int(at)
                            for at, it in zip(_network(cidr), answers, strict=True)
                            if escapes(it) and not is_own_block(fib.lookup(str(at), its.flow))
                        }
                        assert told == escaping, (its, dev, source, wanted)
                        for at, it in zip(_network(cidr), answers, strict=True):
                            route = fib.lookup(str(at), its.flow).route
                            if it.route is not None and route is not None:
                                assert (it.route.prefix, it.route.metric) == (route.prefix, route.metric), (at, wanted)
                                assert set(it.route.devs) <= set(route.devs), (its, dev, source, at, wanted)
                        asked.add((dev, str(source)))
    devs = {dev for dev, _ in asked}
    assert devs >= {"cni0", "pod1", "pod2"}
    assert asked == {(dev, str(source)) for dev in devs for source in _network(pods)}


@pytest.mark.parametrize("family", [4, 6])
@settings(max_examples=scaled(15), suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(data=st.data())
def test_every_packet_of_a_class_goes_the_same_way(family: int, data: st.DataObject) -> None:
    """For every source and device of a class, Linux sends the same destinations elsewhere as the check says."""
    compare(family, data.draw(st.lists(routes(family), max_size=8)) + data.draw(st.lists(rules(family), max_size=6)))


def test_ipv6_prefers_a_route_by_the_device_that_a_packet_arrived_on() -> None:
    """Of two IPv6 routes with the same prefix and metric, packets from pod1 take the one by pod1, others the first."""
    compare(6, ["route add fd09::/125 dev ib0 metric 5", "route append fd09::/125 dev pod1 metric 5"])


def _network(prefix: Prefix) -> IPv4Network | IPv6Network:
    return ip_network(str(prefix))
