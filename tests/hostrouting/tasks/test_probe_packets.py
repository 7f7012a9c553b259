"""The probe rewrite, tested with packets: a balancer, a node and a pod, as described in `tests.support.balancer`."""

import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import attrs
import pytest

from hostrouting.boot.probe_table import TABLE
from hostrouting.host.effects import Effects
from hostrouting.kernel.nftables import NftProgram
from tests.support.balancer import (
    GLOBAL,
    HARDWARE,
    NODE,
    NODE_LINK_LOCAL,
    OWN,
    OWN_GLOBAL,
    POD,
    POD_GATEWAY,
    PROBE,
    SERVICE,
    Lab,
    capture,
    laboratory,
    make_room,
    nft,
    open_socket,
    ping,
    send_icmp,
)
from tests.support.packets import (
    ADVERTISED_NEIGHBOUR,
    ECHO_REPLY,
    ECHO_REQUEST,
    ICMPV6,
    LISTENER_REPORT,
    ROUTER_ALERT,
    TCP,
    UDP,
    Packet,
    echo_request,
    listener_query,
    neighbour_solicitation,
    reassembled,
    router_advertisement,
)
from tests.support.rewriting import Rewriting, rules

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]

PORT = 8080
RULES = rules()


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Three private hosts for a test, without the rewrite."""
    with laboratory() as made:
        yield made


def put_rules(lab: Lab, text: str = RULES) -> None:
    """Load the rules and the route that the task loads, but faster."""
    nft(lab.node, text)
    lab.node.batch([f"route add {GLOBAL}/128 dev eth0 proto 213"])


@attrs.frozen
class Way:
    """Hosts with the rewrite, the address that is probed, and the source address that the pod sees."""

    lab: Lab
    destination: str
    seen: str


DNAT = f"""
table ip6 translation {{
  chain prerouting {{ type nat hook prerouting priority -100; ip6 daddr {SERVICE} dnat to {POD}; }}
}}
"""
MASQUERADE = """
table ip6 translation {
  chain postrouting { type nat hook postrouting priority 100; oifname "pod0" ct status dnat masquerade; }
}
"""
WAYS = {
    "straight": (POD, GLOBAL, ""),
    "DNAT": (SERVICE, GLOBAL, DNAT),
    "DNAT and MASQUERADE": (SERVICE, POD_GATEWAY, DNAT + MASQUERADE),
}


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    """Each path from the balancer to the pod; the tests do not change it."""
    destination, seen, translation = WAYS[request.param]
    with laboratory() as made:
        Rewriting(made.node).apply()
        nft(made.node, translation)
        yield Way(made, destination, seen)


@attrs.frozen
class Exchange:
    """The packets of one protocol that the pod and the balancer received, with fragments reassembled."""

    by_pod: tuple[Packet, ...]
    by_balancer: tuple[Packet, ...]


def exchange(way: Way, protocol: int, work: Callable[[], object]) -> Exchange:
    """The packets that they received during the block; asserts that checksums and addresses are correct."""
    with capture(way.lab.pod) as pod, capture(way.lab.balancer) as balancer:
        work()
        seen = Exchange(*(data_of(protocol, reassembled(wire.packets())) for wire in (pod, balancer)))
    assert {(it.source, it.destination) for it in seen.by_pod} == {(way.seen, POD)}
    assert {(it.source, it.destination) for it in seen.by_balancer} == {(way.destination, PROBE)}
    assert all(it.is_checksum_right for it in (*seen.by_pod, *seen.by_balancer))
    return seen


def data_of(protocol: int, packets: Iterable[Packet]) -> tuple[Packet, ...]:
    """The packets of one protocol; of ICMPv6 only those of a ping."""
    echo = {ECHO_REQUEST, ECHO_REPLY}
    return tuple(
        packet for packet in packets if packet.protocol == protocol and (protocol != ICMPV6 or packet.icmp[0] in echo)
    )


def probe(lab: Lab) -> None:
    """Send a datagram to the pod and the reply to the balancer. Raises TimeoutError if one of them does not arrive."""
    with datagrams(lab) as (client, server):
        client.sendto(b"anybody?", (POD, PORT))
        server.sendto(*server.recvfrom(100))
        assert client.recv(100) == b"anybody?"


def is_lost(lab: Lab) -> bool:
    """Whether such a datagram, or the reply, is lost."""
    with datagrams(lab) as (client, server):
        client.sendto(b"anybody?", (POD, PORT))
        lab.settled()
        server.setblocking(False)
        client.setblocking(False)
        try:
            server.sendto(*server.recvfrom(100))
            ping(lab.pod, POD, OWN_GLOBAL)
            client.recv(100)
        except BlockingIOError:
            return True
        return False


@contextmanager
def datagrams(lab: Lab) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A socket with the balancer's probing address, and one with the pod's."""
    with (
        open_socket(lab.balancer, socket.SOCK_DGRAM, PROBE) as client,
        open_socket(lab.pod, socket.SOCK_DGRAM, POD, port=PORT) as server,
    ):
        yield client, server


def test_with_the_rewrite_the_same_probe_is_answered(lab: Lab) -> None:
    """The probe arrives, and the node counts no error."""
    assert is_lost(lab)
    before = lab.refused()
    Rewriting(lab.node).apply()
    probe(lab)
    assert lab.refused() == before


def test_a_ping(way: Way) -> None:
    """The pod sees an address that may be forwarded, the balancer sees its own; both checksums are correct."""
    seen = exchange(way, ICMPV6, lambda: ping(way.lab.balancer, PROBE, way.destination))
    assert (len(seen.by_pod), len(seen.by_balancer)) == (1, 1)


def test_a_connection(way: Way) -> None:
    """A megabyte in each direction arrives as it was sent."""
    data = os.urandom(1 << 20)

    def stream() -> None:
        with (
            open_socket(way.lab.pod, socket.SOCK_STREAM, POD, port=PORT) as listener,
            open_socket(way.lab.balancer, socket.SOCK_STREAM, PROBE) as client,
        ):
            make_room(listener)
            make_room(client)
            listener.listen()
            client.connect((way.destination, PORT))
            server, peer = listener.accept()
            with server:
                assert peer[0] == way.seen
                for sender, receiver in ((client, server), (server, client)):
                    sender.settimeout(10)
                    sender.sendall(data)
                    sender.shutdown(socket.SHUT_WR)
                    with receiver.makefile("rb") as received:
                        assert received.read() == data

    exchange(way, TCP, stream)


def test_a_datagram_that_takes_fragments(way: Way) -> None:
    """3,000 bytes and their echo arrive complete, in fragments on both devices."""
    data = os.urandom(3_000)
    with datagrams(way.lab) as (client, server), capture(way.lab.pod) as wire:

        def echo() -> None:
            client.sendto(data, (way.destination, PORT))
            server.sendto(*server.recvfrom(4_000))
            assert client.recv(4_000) == data

        seen = exchange(way, UDP, echo)
        assert [len(it.payload) for it in (*seen.by_pod, *seen.by_balancer)] == [3_008, 3_008]
        assert [(it.offset, it.more) for it in data_of(UDP, wire.packets())] == [
            (0, True),
            (1_448, True),
            (2_896, False),
        ]


def default_routes(lab: Lab) -> set[str]:
    """The gateways of the node's default routes."""
    return {str(leg.gateway) for route in lab.node.routes(6) if route.prefix.length == 0 for leg in route.legs}


def learns_the_router(lab: Lab) -> bool:
    """Whether a router advertisement from the probe's address, valid for 20 s, gives the node a default route."""
    send_icmp(lab.balancer, PROBE, "ff02::1", router_advertisement(lifetime=20))
    lab.settled()
    return default_routes(lab) == {OWN, PROBE}


def answers_a_neighbour(lab: Lab) -> bool:
    """Whether a unicast solicitation is answered, and the node has no neighbour entry for the global address."""
    ping(lab.balancer, OWN_GLOBAL, NODE)  # so that the balancer does not have to resolve the node's address itself
    with capture(lab.balancer) as wire:
        send_icmp(lab.balancer, PROBE, NODE, neighbour_solicitation(NODE, HARDWARE))
        lab.settled()
        answers = [
            packet
            for packet in wire.packets()
            if packet.icmp[0] == ADVERTISED_NEIGHBOUR and packet.destination == PROBE
        ]
    return [answer.source for answer in answers] == [NODE] and GLOBAL not in lab.node.ip("-6", "neighbour").stdout


def answers_on_the_link(lab: Lab) -> bool:
    """Whether a datagram to the node's link-local address keeps the probe's source address, and a ping is answered."""
    with (
        open_socket(lab.node, socket.SOCK_DGRAM, NODE_LINK_LOCAL, port=PORT) as server,
        open_socket(lab.balancer, socket.SOCK_DGRAM, PROBE) as client,
    ):
        client.sendto(b"anybody?", (NODE_LINK_LOCAL, PORT, 0, client.getsockname()[3]))
        _, peer = server.recvfrom(100)
    ping(lab.balancer, PROBE, NODE_LINK_LOCAL)
    return str(peer[0]).partition("%")[0] == PROBE


def leaves_others_on_the_link_alone(lab: Lab) -> bool:
    """Whether a packet from another link-local address is still refused."""
    with capture(lab.pod) as wire, open_socket(lab.balancer, socket.SOCK_DGRAM, OWN) as client:
        client.sendto(b"anybody?", (POD, PORT))
        lab.settled()
        return not data_of(UDP, wire.packets())


def leaves_other_links_alone(lab: Lab) -> bool:
    """Whether a packet from a pod that uses the probe's address is still refused."""
    lab.pod.batch([f"address add {PROBE}/64 dev eth0 nodad"])
    with capture(lab.balancer) as wire, open_socket(lab.pod, socket.SOCK_DGRAM, PROBE) as client:
        client.sendto(b"anybody?", (OWN_GLOBAL, PORT))
        ping(lab.pod, POD, OWN_GLOBAL)
        return not data_of(UDP, wire.packets())


def rewrites_nothing_that_leaves_elsewhere(lab: Lab) -> bool:
    """Whether a packet to the global address keeps its destination if it leaves by another device."""
    lab.node.batch([f"route delete {GLOBAL} dev eth0", f"route add {GLOBAL} via {POD} dev pod0"])
    lab.balancer.batch([f"route add {GLOBAL} via {NODE_LINK_LOCAL} dev eth0"])
    with capture(lab.pod) as wire, open_socket(lab.balancer, socket.SOCK_DGRAM, OWN_GLOBAL) as client:
        client.sendto(b"anybody?", (GLOBAL, PORT))
        return wire.first(lambda it: it.protocol == UDP).destination == GLOBAL


def is_translated(lab: Lab) -> bool:
    """Whether a ping to the service reaches the pod, and the reply reaches the balancer."""
    nft(lab.node, DNAT)
    with capture(lab.balancer) as wire:
        send_icmp(lab.balancer, PROBE, SERVICE, echo_request(1))
        lab.settled()
        ping(lab.pod, POD, OWN_GLOBAL)
        answers = [packet for packet in wire.packets() if packet.icmp[0] == ECHO_REPLY and packet.destination == PROBE]
    return [answer.source for answer in answers] == [SERVICE]


def has_right_checksums(lab: Lab) -> bool:
    """Whether the checksum of a datagram is correct for the address that the pod sees."""
    with capture(lab.pod) as wire, open_socket(lab.balancer, socket.SOCK_DGRAM, PROBE) as client:
        client.sendto(b"anybody?", (POD, PORT))
        return wire.first(lambda it: it.protocol == UDP).is_checksum_right


def without(*comments: str) -> str:
    """The rules without those that have these comments."""
    lines = RULES.splitlines(keepends=True)
    left = [line for line in lines if not any(f'comment "{comment}"' in line for comment in comments)]
    assert len(left) == len(lines) - len(comments)
    return "".join(left)


@pytest.mark.parametrize(
    ("holds", "crippled"),
    [
        (learns_the_router, without("stays on the link", "neighbour discovery and MLD")),
        (answers_a_neighbour, without("neighbour discovery and MLD")),
        (answers_on_the_link, without("stays on the link")),
        (leaves_others_on_the_link_alone, without("not a probe")),
        (leaves_other_links_alone, without("did not come in by an uplink")),
        (rewrites_nothing_that_leaves_elsewhere, RULES.replace('oifname { "eth0" } ', "")),
        (is_translated, RULES.replace("priority -300", "priority -150")),
        (
            has_right_checksums,
            RULES.replace(f"ip6 saddr set {GLOBAL}", f"@nh,64,128 set {int(IPv6Address(GLOBAL)):#x}"),
        ),
    ],
)
def test_each_part_of_the_rules_has_its_reason(holds: Callable[[Lab], bool], crippled: str) -> None:
    """The property holds with the rules as they are; it does not if that part of them is missing or different."""
    for text, expected in ((RULES, True), (crippled, False)):
        with laboratory() as made:
            put_rules(made, text)
            assert holds(made) is expected


def test_a_listener_query(lab: Lab) -> None:
    """An MLDv2 query from the probe's address is answered with a report."""
    put_rules(lab)
    with capture(lab.balancer) as wire:
        send_icmp(lab.balancer, PROBE, "ff02::1", listener_query(), hops=1, options=ROUTER_ALERT)
        assert wire.first(lambda it: it.icmp[0] == LISTENER_REPORT).is_checksum_right


def test_a_probe_of_the_node_itself(lab: Lab) -> None:
    """A probe also reaches a socket on the node, and the balancer receives the replies at its own address."""
    put_rules(lab)
    with (
        open_socket(lab.node, socket.SOCK_STREAM, NODE, port=PORT) as listener,
        open_socket(lab.balancer, socket.SOCK_STREAM, PROBE) as client,
        open_socket(lab.balancer, socket.SOCK_STREAM, PROBE) as refused,
    ):
        listener.listen()
        client.connect((NODE, PORT))
        accepted, peer = listener.accept()
        accepted.close()
        assert peer[0] == GLOBAL
        with pytest.raises(ConnectionRefusedError):
            refused.connect((NODE, PORT + 1))


def test_a_node_that_does_not_forward(lab: Lab) -> None:
    """Without forwarding, probes do not reach the pod, and the task names the setting."""
    rewriting = Rewriting(lab.node)
    rewriting.apply()
    lab.node.sysctl("ipv6/conf/all/forwarding", 0)
    assert is_lost(lab)
    [finding] = rewriting.plan().findings
    assert (finding.severity, finding.target) == ("warning", "net.ipv6.conf.all.forwarding")
    lab.node.sysctl("ipv6/conf/all/forwarding", 1)
    assert rewriting.plan().findings == ()
    probe(lab)


def test_an_uplink_in_a_bridge(lab: Lab) -> None:
    """Packets of a bridge port arrive on the bridge: the task reports it, and works if the bridge is configured."""
    rewriting = Rewriting(lab.node)
    rewriting.apply()
    lab.node.batch(
        [
            "link add br0 type bridge forward_delay 0 mcast_snooping 0",
            "link set eth0 master br0",
            "link set br0 addrgenmode none up",
            "address flush dev eth0",
            *(f"address add {it}/64 dev br0 nodad" for it in (NODE_LINK_LOCAL, NODE)),
        ]
    )
    before = lab.refused()
    assert is_lost(lab)
    assert lab.refused() == before + 1
    assert ["warning", "eth0"] in [[finding.severity, finding.target] for finding in rewriting.plan().findings]
    rewriting.changed(interfaces=["br0"])
    rewriting.apply()
    assert rewriting.plan().findings == ()
    probe(lab)


def listed(lab: Lab) -> list[dict[str, Any]]:
    """Our rules, as nft lists them."""
    said = lab.node.run("nft", "-j", "list", "table", "ip6", TABLE).stdout
    return [nftable["rule"] for nftable in json.loads(said)["nftables"] if "rule" in nftable]


def test_a_second_run_changes_nothing(lab: Lab, tmp_path: Path) -> None:
    """A second run changes nothing, nor does the script: every rule keeps its handle and its counter."""
    rewriting = Rewriting(lab.node)
    rewriting.apply()
    probe(lab)
    before = listed(lab)
    result = rewriting.apply()
    assert (result, listed(lab)) == (Effects(), before)
    assert rewriting.boot(tmp_path) == ""
    assert listed(lab) == before


def test_removed_twice(lab: Lab) -> None:
    """The first removal deletes the table and the route, the second has nothing to do; probes are refused again."""
    rewriting, before = Rewriting(lab.node), lab.node.routes(6)
    rewriting.apply()
    assert set(lab.node.routes(6)) > set(before)
    for _ in range(2):
        rewriting.remove()
        assert lab.node.run("nft", "list", "ruleset").stdout == ""
        assert lab.node.routes(6) == before
    assert is_lost(lab)


OTHERS = """
table inet filter {
  set known { type ipv6_addr; elements = { fe80::aa, fe80::bb } }
  chain input { type filter hook input priority 0; policy accept; ip6 saddr @known counter; }
}
table ip6 azureSLBProbe {
  chain prerouting { type filter hook prerouting priority -300; policy accept; ip6 saddr fe80::aa counter; }
}
"""


def test_the_tables_of_others(lab: Lab) -> None:
    """Other tables are the same byte for byte after all operations, also one for the same purpose."""
    tables = ("inet filter", "ip6 azureSLBProbe")

    def theirs() -> list[str]:
        return [lab.node.run("nft", "--handle", "list", "table", *table.split()).stdout for table in tables]

    nft(lab.node, OTHERS)
    rewriting, before = Rewriting(lab.node), theirs()
    rewriting.apply()
    assert theirs() == before
    rewriting.remove()
    assert theirs() == before
    assert "element" in before[0]


class Flood:
    """A continuous stream of probes, with the numbers of those sent and received."""

    def __init__(self, lab: Lab, client: socket.socket, server: socket.socket) -> None:
        """Send from the client to the server, starting with the next call."""
        self._lab, self._client, self._server = lab, client, server
        self.sent = self.received = 0

    def during(self, work: Callable[[], object]) -> None:
        """Send from just before this call starts until it has finished."""
        self._burst()
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(work)
            while not done.done():
                self._burst()
            done.result()
        self.receive(0)

    def receive(self, patience: float) -> None:
        """Count what has arrived, and wait so many seconds for each probe that has not."""
        self._server.settimeout(patience)
        with suppress(BlockingIOError, TimeoutError):
            while self.received < self.sent:
                self._server.recv(16)
                self.received += 1

    def _burst(self) -> None:
        """The number of probes on the way is limited, so that no queue between the hosts overflows."""
        for _ in range(50):
            self._client.send(b"probe")
        self.sent += 50
        self._lab.settled()


@pytest.fixture
def flood(lab: Lab) -> Iterator[Flood]:
    """A flood through a node with the rewrite."""
    put_rules(lab)
    ping(lab.balancer, PROBE, POD)
    with datagrams(lab) as (client, server):
        make_room(server)
        client.connect((POD, PORT))
        yield Flood(lab, client, server)


def load(lab: Lab, text: str) -> None:
    """Let nft load the text in the node."""
    with lab.node.inside():
        NftProgram().load(text)


def test_a_reload_loses_nothing(lab: Lab, flood: Flood) -> None:
    """The table is replaced 50 times, and every probe of a flood arrives."""
    for _ in range(50):
        flood.during(partial(load, lab, RULES))
    flood.receive(30)
    assert flood.received == flood.sent >= 50 * 50


def test_a_reload_in_two_steps_loses_probes(lab: Lab, flood: Flood) -> None:
    """If the table is removed and then loaded again, probes of the same flood are refused in between."""
    flood.during(partial(load, lab, f"delete table ip6 {TABLE}"))
    flood.during(partial(load, lab, RULES))
    assert 0 < flood.received < flood.sent
