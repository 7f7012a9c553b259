"""What a host drops as it arrives, with real packets between private namespaces."""

import json
import socket
from contextlib import ExitStack

import attrs
import pytest

from hostrouting.check.examine import Examination, examine_snapshot, repair_routes
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.testing import h200
from tests.support.commands import ports
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CONFIG = HostRoutingConfig.from_mapping({"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}})


def filtered(found: Examination) -> list[str]:
    """The devices that drop what their neighbours send once the repair is in place."""
    return [cost.target for cost in found.costs if "rp_filter" in cost.sentence]


def counted(namespace: Namespace, file: str, protocol: str, name: str) -> int:
    """A counter of the namespace, from a file such as /proc/net/snmp: a line of names, then a line of values."""
    lines = [line.split() for line in namespace.run("cat", f"/proc/net/{file}").stdout.splitlines()]
    names, values = [line for line in lines if line[0] == f"{protocol}:"]
    return int(values[names.index(name)])


@pytest.mark.parametrize("own_table", [False, True], ids=["main", "a table for each address"])
@pytest.mark.parametrize("rp_filter", [0, 1, 2])
def test_what_peers_send_after_a_repair(rp_filter: int, *, own_table: bool) -> None:
    """The repair says which devices then drop what their neighbours send, and Linux drops exactly that."""
    with private_namespace() as node, private_namespace() as peer:
        node.batch(
            [
                *ports("eth0"),
                f"link add ib0 type veth peer name far netns {peer.pid}",
                *(f"link set {dev} up" for dev in ("lo", "ib0")),
                "address add 10.0.0.4/24 dev eth0",
                "address add 172.16.1.10/16 dev ib0",
                "route add default via 10.0.0.1 dev eth0",
            ]
        )
        if own_table:
            node.batch(["route add 172.16.0.0/16 dev ib0 table 101", "rule add from 172.16.1.10 lookup 101"])
        node.sysctl("ipv4/conf/all/rp_filter", 0)
        node.sysctl("ipv4/conf/ib0/rp_filter", rp_filter)
        [link] = json.loads(node.ip("-j", "link", "show", "ib0").stdout)
        # With a strict filter, the node does not answer the peer's ARP either.
        known = f"neighbour add 172.16.1.10 lladdr {link['address']} dev far nud permanent"
        peer.batch(["link set far up", "address add 172.16.5.5/16 dev far", known])

        def arrives() -> bool:
            """Whether a datagram of the peer is delivered; if not, the filter has counted it."""
            before = counted(node, "snmp", "Udp", "NoPorts"), counted(node, "netstat", "TcpExt", "IPReversePathFilter")
            peer.run("bash", "-c", "echo hello >/dev/udp/172.16.1.10/9")
            after = counted(node, "snmp", "Udp", "NoPorts"), counted(node, "netstat", "TcpExt", "IPReversePathFilter")
            delivered, dropped = (now - then for now, then in zip(after, before, strict=True))
            assert (delivered, dropped) in {(1, 0), (0, 1)}
            return delivered == 1

        with NetlinkBackend(netns=node.path) as backend:
            found = examine_snapshot(backend.snapshot(family=4), CONFIG)
        assert arrives()
        node.batch(
            [
                f"route add {route.prefix} {' '.join(route.ways)}"
                for route in repair_routes(found, protocol=CONFIG.protocol)
            ]
        )
        assert ("ib0" in filtered(found)) is not arrives()
    assert bool(filtered(found)) is (rp_filter == 1 and not own_table)


def test_what_was_dropped_before_is_not_a_cost() -> None:
    """If eight devices have one network, the route back is by the first; rp_filter of the others drops packets."""
    kernel = h200()
    links = [attrs.evolve(link, rp_filter=1) for link in kernel.snapshot().links]
    found = examine_snapshot(attrs.evolve(kernel.snapshot(family=4), links=tuple(links)), CONFIG)
    assert filtered(found) == ["ib0"]


PEER, POD = "172.16.5.5", "10.244.3.2"
# What is changed on a node on which everything arrives, and whether an answer still reaches the sender.
WITH_PODS = {
    "as it should be": ([], [], True),
    "the pod's device does not forward": (["pod1/forwarding 0"], [], False),
    "the uplink does not forward": (["eth0/forwarding 0"], [], False),
    "the way back to the pod leaves by another device": (["pod1/rp_filter 1"], ["route add POD dev other"], False),
    "a strict filter": (["all/rp_filter 1"], [], True),
}
MARKED = {
    "no filter": (["eth1/rp_filter 0"], True),
    "strict": (["eth1/rp_filter 1"], False),
    "loose": (["eth1/rp_filter 2"], True),
    "strict for all": (["all/rp_filter 1"], False),
}


def uplinks(node: Namespace, peer: Namespace) -> None:
    """A node with two uplinks to a peer that has the address PEER; table 100 is for eth1."""
    node.batch(
        [
            *(f"link add eth{at} type veth peer name far{at} netns {peer.pid}" for at in (0, 1)),
            *ports("other"),
            *(f"link set {dev} up" for dev in ("lo", "eth0", "eth1")),
            *(f"address add 10.{at}.0.4/24 dev eth{at}" for at in (0, 1)),
            "route add default via 10.0.0.1 dev eth0",
            "route add default via 10.1.0.1 dev eth1 table 100",
        ]
    )
    for at in (0, 1):
        node.sysctl(f"ipv4/conf/eth{at}/rp_filter", 0)
    node.sysctl("ipv4/conf/all/rp_filter", 0)
    peer.batch(
        [
            *(f"link set {dev} up" for dev in ("lo", "far0", "far1")),
            *(f"address add 10.{at}.0.1/24 dev far{at}" for at in (0, 1)),
            f"address add {PEER}/32 dev lo",
            f"route add {POD} via 10.0.0.4",
        ]
    )


def is_answered(sender: Namespace, peer: Namespace, *, mark: int = 0, expected: bool = True) -> bool:
    """Whether a datagram of the sender reaches the peer, and the answer the sender; if it is expected, there is more time."""
    patience = 60 if expected else 1
    with ExitStack() as stack:
        with peer.inside():
            server = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            server.bind((PEER, 7))
        with sender.inside():
            client = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            client.setsockopt(socket.SOL_SOCKET, 36, mark)  # SO_MARK
        client.sendto(b"asked", (PEER, 7))
        server.settimeout(patience)
        client.settimeout(patience)
        try:
            asked, address = server.recvfrom(100)
            server.sendto(asked, address)
            return client.recv(100) == b"asked"
        except TimeoutError:
            return False


def told(node: Namespace, **check: object) -> tuple[list[str], str]:
    """What the check says about dropped packets, and its verdict."""
    its = {"expectedCidrs": ["172.16.0.0/16"], "expectedDevs": ["eth0", "eth1"], **check}
    with NetlinkBackend(netns=node.path) as backend:
        found = examine_snapshot(backend.snapshot(), HostRoutingConfig.from_mapping({"routeOverlap": its}))
    return [
        f"{it['kind']} {it['devs'][0]} {it['reason']}"
        for it in (finding.facts for finding in found.families[0].dropped)
    ], found.verdict


@pytest.mark.parametrize("name", WITH_PODS)
def test_what_pods_send_and_what_comes_back(name: str) -> None:
    """If the check says that something is dropped, a pod gets no answer; else it gets one."""
    settings, lines, answered = WITH_PODS[name]
    with private_namespace() as node, private_namespace() as peer, private_namespace() as pod:
        uplinks(node, peer)
        node.batch(
            [
                f"link add pod1 type veth peer name eth0 netns {pod.pid}",
                "link set pod1 up",
                "address add 10.244.3.1/24 dev pod1",
                *(line.replace("POD", POD) for line in lines),
            ]
        )
        pod.batch(["link set eth0 up", f"address add {POD}/24 dev eth0", "route add default via 10.244.3.1"])
        for dev in ("eth0", "pod1"):
            node.sysctl(f"ipv4/conf/{dev}/forwarding", 1)
        for setting in settings:
            path, value = setting.split()
            node.sysctl(f"ipv4/conf/{path}", int(value))
        assert is_answered(pod, peer, expected=answered) is answered
        dropped, verdict = told(node, expectedDevs=["eth0"], podCidrs=[f"{POD}/32"], podDevs=["pod*"])
    assert verdict == "ok"
    assert dropped == {
        "the pod's device does not forward": ["sent pod1 forwarding"],
        "the uplink does not forward": ["replies eth0 forwarding"],
        "the way back to the pod leaves by another device": ["sent pod1 strict"],
    }.get(name, [])


@pytest.mark.parametrize("name", MARKED)
def test_answers_to_marked_packets(name: str) -> None:
    """A rule leads marked packets out by eth1, where a strict filter drops the answers."""
    settings, answered = MARKED[name]
    with private_namespace() as node, private_namespace() as peer:
        uplinks(node, peer)
        node.batch(["rule add fwmark 0x10 lookup 100"])
        for setting in settings:
            path, value = setting.split()
            node.sysctl(f"ipv4/conf/{path}", int(value))
        assert is_answered(node, peer)
        assert is_answered(node, peer, mark=0x10, expected=answered) is answered
        assert told(node) == ([] if answered else ["replies eth1 strict"], "ok")
