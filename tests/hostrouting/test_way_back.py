"""What the reverse path filter does to answers, with real packets between private namespaces."""

import json
import os

import attrs
import pytest

from hostrouting.backends.netlink import NetlinkBackend
from hostrouting.config import HostRoutingConfig
from hostrouting.examination import examine_snapshot
from hostrouting.testing import h200
from hostrouting.wording import filtered_line
from tests.support.namespace import Namespace, private_namespace

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="a private network namespace requires root"),
]

CONFIG = HostRoutingConfig.from_mapping({"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}})


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
                "link add eth0 type veth peer name peer-eth0",
                f"link add ib0 type veth peer name far netns {peer.pid}",
                *(f"link set {dev} up" for dev in ("lo", "eth0", "peer-eth0", "ib0")),
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
        node.batch([f"route add {route.destination} via {route.gateway} dev {route.dev}" for route in found.routes])
        assert [it.dev for it in found.filtered] == ([] if arrives() else ["ib0"])
    assert bool(found.filtered) is (rp_filter == 1 and not own_table)
    for it in found.filtered:
        assert filtered_line(it) == (
            "after the repair, packets from 172.16.0.0/16 that arrive on ib0 are dropped (rp_filter 1: the way back leaves "
            "by another device then)"
        )


def test_what_was_dropped_before_is_not_a_cost() -> None:
    """Of eight devices with one network, the way back is by the first; the filter of the others drops everything."""
    kernel = h200()
    links = [attrs.evolve(it, rp_filter=1) for it in kernel.snapshot().links]
    found = examine_snapshot(attrs.evolve(kernel.snapshot(family=4), links=tuple(links)), CONFIG)
    assert [it.dev for it in found.filtered] == ["ib0"]
