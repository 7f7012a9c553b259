"""The probe rewrite with the packets of a balancer, a node and a pod."""

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig
from hostrouting.host.host import Host
from hostrouting.host.interpreter import NodeInterpreter
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.probe.table import TABLE, render_probe_table
from hostrouting.tasks.configure import Remove
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.testing import FakeFiles, FakeManager
from hostrouting.upkeep.passes import Done, PassOutcome, run_pass
from tests.hostrouting.tasks import balancer
from tests.hostrouting.tasks.balancer import (
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
)
from tests.support.namespace import Namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]

PORT = 8080
CONFIG = HostRoutingConfig(probe_rewrite=ProbeRewriteConfig(enabled=True, interfaces=("eth0",)))
RULES = render_probe_table(CONFIG.probe_rewrite)


@pytest.fixture
def lab() -> Iterator[Lab]:
    with balancer.laboratory() as made:
        yield made


def put_rules(lab: Lab, text: str = RULES) -> None:
    """Load the rules and the route that the task loads, but faster."""
    balancer.nft(lab.node, text)
    lab.node.batch([f"route add {GLOBAL}/128 dev eth0 proto 213"])


@contextmanager
def datagrams(lab: Lab, destination: str = POD) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A socket with the balancer's probing address, and one with the pod's."""
    with (
        balancer.open_socket(lab.balancer, socket.SOCK_DGRAM, PROBE) as client,
        balancer.open_socket(lab.pod, socket.SOCK_DGRAM, POD, port=PORT) as server,
    ):
        client.connect((destination, PORT))
        yield client, server


def arrives(lab: Lab, sender: Namespace, source: str, destination: str) -> bool:
    """Whether a datagram is forwarded to the other side of the node."""
    receiver = lab.pod if sender is lab.balancer else lab.balancer
    with (
        balancer.capture(receiver) as wire,
        balancer.open_socket(sender, socket.SOCK_DGRAM, source) as client,
    ):
        client.sendto(b"anybody?", (destination, PORT))
        balancer.ping(lab.balancer, OWN_GLOBAL, POD)  # there and back, so after the datagram
        return any(
            packet.protocol == balancer.UDP and packet.destination == destination
            for packet in balancer.packets_of(wire)
        )


def is_answered(lab: Lab) -> bool:
    """Whether a datagram reaches the pod, and the reply comes back, with its checksum."""
    with datagrams(lab) as (client, server):
        client.send(b"anybody?")
        lab.settled()
        server.setblocking(False)
        client.setblocking(False)
        with suppress(BlockingIOError):
            server.sendto(*server.recvfrom(100))
            balancer.ping(lab.pod, POD, OWN_GLOBAL)
            return client.recv(100) == b"anybody?"
        return False


DNAT = f"""
table ip6 translation {{
  chain prerouting {{ type nat hook prerouting priority -100; ip6 daddr {SERVICE} dnat to {POD}; }}
}}
"""
MASQUERADE = """
table ip6 translation {
  chain postrouting {
    type nat hook postrouting priority 100
    oifname "pod0" ct status dnat masquerade
  }
}
"""


@pytest.mark.parametrize(
    ("destination", "seen", "translation"),
    [(POD, GLOBAL, ""), (SERVICE, GLOBAL, DNAT), (SERVICE, POD_GATEWAY, DNAT + MASQUERADE)],
    ids=["straight", "DNAT", "DNAT and MASQUERADE"],
)
def test_each_way_to_the_pod(lab: Lab, destination: str, seen: str, translation: str) -> None:
    """All arrive and come back, and the pod sees an address that may be forwarded."""
    assert not is_answered(lab)
    put_rules(lab)
    balancer.nft(lab.node, translation)
    balancer.ping(lab.balancer, PROBE, destination)
    assert source_of_fragments(lab, destination) == seen
    assert source_of_a_stream(lab, destination) == seen


def source_of_fragments(lab: Lab, destination: str) -> str:
    """Send a datagram in fragments, which comes back; the source that the pod sees."""
    data = os.urandom(3_000)
    with datagrams(lab, destination) as (client, server):
        client.send(data)
        received, peer = server.recvfrom(4_000)
        server.sendto(received, peer)
        assert client.recv(4_000) == data
    return str(peer[0])


def source_of_a_stream(lab: Lab, destination: str) -> str:
    """Send a segment by TCP, which comes back; the source that the pod sees."""
    with (
        balancer.open_socket(lab.pod, socket.SOCK_STREAM, POD, port=PORT) as listener,
        balancer.open_socket(lab.balancer, socket.SOCK_STREAM, PROBE) as stream,
    ):
        listener.listen()
        stream.connect((destination, PORT))
        accepted, peer = listener.accept()
        with accepted:
            stream.send(b"probe")
            accepted.send(accepted.recv(100))
            assert stream.recv(100) == b"probe"
    return str(peer[0])


def answers_a_neighbour(lab: Lab) -> bool:
    """Whether a unicast solicitation is answered, and leaves no neighbour entry."""
    # The balancer does not have to resolve the node's address itself then.
    balancer.ping(lab.balancer, OWN_GLOBAL, NODE)
    with balancer.capture(lab.balancer) as wire:
        balancer.send_icmp(
            lab.balancer, PROBE, NODE, balancer.neighbour_solicitation(NODE, HARDWARE)
        )
        lab.settled()
        answers = [
            packet.source
            for packet in balancer.packets_of(wire)
            if packet.is_icmp(balancer.ADVERTISED_NEIGHBOUR, to=PROBE)
        ]
    return answers == [NODE] and GLOBAL not in lab.node.ip("-6", "neighbour").stdout


def source_seen_at(lab: Lab, address: str, destination: str) -> str:
    """The source that a socket of the node with this address sees of a probe to the destination."""
    with (
        balancer.open_socket(lab.node, socket.SOCK_DGRAM, address, port=PORT) as server,
        balancer.open_socket(lab.balancer, socket.SOCK_DGRAM, PROBE) as client,
    ):
        client.sendto(b"anybody?", (destination, PORT, 0, client.getsockname()[3]))
        _, peer = server.recvfrom(100)
    return str(peer[0]).partition("%")[0]


def answers_on_the_link(lab: Lab) -> bool:
    """Whether one to the node keeps the probe's source, and a ping is answered."""
    balancer.ping(lab.balancer, PROBE, NODE_LINK_LOCAL)
    return source_seen_at(lab, NODE_LINK_LOCAL, NODE_LINK_LOCAL) == PROBE


def reaches_a_group(lab: Lab) -> bool:
    """Whether a datagram to all nodes of the link keeps the probe's source address."""
    return source_seen_at(lab, "::", "ff02::1") == PROBE


def leaves_others_on_the_link_alone(lab: Lab) -> bool:
    """Whether a packet from another link-local address is still refused."""
    return not arrives(lab, lab.balancer, OWN, POD)


def leaves_other_links_alone(lab: Lab) -> bool:
    """Whether a packet from a pod that uses the probe's address is still refused."""
    lab.pod.batch([f"address add {PROBE}/64 dev eth0 nodad"])
    return not arrives(lab, lab.pod, PROBE, OWN_GLOBAL)


def rewrites_nothing_that_leaves_elsewhere(lab: Lab) -> bool:
    """Whether a packet keeps its destination if it leaves through another device."""
    lab.node.batch([f"route delete {GLOBAL} dev eth0", f"route add {GLOBAL} via {POD} dev pod0"])
    lab.balancer.batch([f"route add {GLOBAL} via {NODE_LINK_LOCAL} dev eth0"])
    return arrives(lab, lab.balancer, OWN_GLOBAL, GLOBAL)


@pytest.mark.parametrize(
    "holds",
    [
        answers_a_neighbour,
        answers_on_the_link,
        reaches_a_group,
        leaves_others_on_the_link_alone,
        leaves_other_links_alone,
        rewrites_nothing_that_leaves_elsewhere,
    ],
)
def test_what_holds_with_the_rules(lab: Lab, holds: Callable[[Lab], bool]) -> None:
    """What the rules leave alone, and what they must not break."""
    put_rules(lab)
    assert holds(lab)


OTHERS = """
table inet filter {
  set known { type ipv6_addr; elements = { fe80::aa, fe80::bb } }
  chain input { type filter hook input priority 0; policy accept; ip6 saddr @known counter; }
}
table ip6 azureSLBProbe {
  chain prerouting {
    type filter hook prerouting priority -300; policy accept
    ip6 saddr fe80::aa counter
  }
}
"""


def test_the_task(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run keeps every handle and count; two removals leave what was there."""

    def listed(*words: str) -> str:
        return lab.node.run("nft", "--handle", "list", *words).stdout

    balancer.nft(lab.node, OTHERS)
    rules_before = listed("ruleset")
    routes_before = lab.node.routes(6)
    files = FakeFiles()
    host = Host(backend=NetlinkBackend, files=files, manager=FakeManager(files=files))
    monkeypatch.setattr(NodeInterpreter, "why_not_run", lambda *_: "")  # its files are not here
    with lab.node.inside():
        phases.execute(RewriteProbeSource(CONFIG, host=host))
        assert is_answered(lab)
        ours = listed("table", "ip6", TABLE)

        again = phases.execute(RewriteProbeSource(CONFIG, host=host))
        with host.open_kernel() as kernel:
            outcome = run_pass(host, kernel, CONFIG, done=Done())

        assert again == phases.Skip("everything is as it should be")
        assert outcome == PassOutcome(config=CONFIG)
        assert listed("table", "ip6", TABLE) == ours
        assert listed("ruleset").replace(ours, "").startswith(rules_before)

        for _ in range(2):
            phases.execute(Remove(host=host))
            assert listed("ruleset") == rules_before
            assert lab.node.routes(6) == routes_before
    assert not is_answered(lab)


def test_a_reload_loses_nothing(lab: Lab) -> None:
    """The table is replaced 25 times, and every probe of a flood arrives."""

    def lost(*texts: str) -> int:
        """How many probes are lost while nft loads these texts, one after the other."""
        sent = received = 0
        server.setblocking(False)
        for text in texts:
            done, is_over = pool.submit(balancer.nft, lab.node, text), False
            while not is_over:
                is_over = done.done()
                for _ in range(50):  # so few are on their way that no queue overflows
                    client.send(b"probe")
                sent += 50
                lab.settled()
                with suppress(BlockingIOError):
                    while server.recv(16):
                        received += 1
            done.result()
        server.settimeout(0.5)
        with suppress(TimeoutError):
            while received < sent:
                server.recv(16)
                received += 1
        return sent - received

    put_rules(lab)
    balancer.ping(lab.balancer, PROBE, POD)
    with datagrams(lab) as (client, server), ThreadPoolExecutor(1) as pool:
        balancer.make_room(server)
        assert lost(*[RULES] * 25) == 0
        assert lost(f"delete table ip6 {TABLE}", RULES) > 0
