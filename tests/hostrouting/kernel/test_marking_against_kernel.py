"""What can mark packets, with real packets: a rule leads marked ones out by eth1, all others by eth0."""

import socket

import pytest

from hostrouting.kernel.marking import Effect, marking_of
from tests.support.commands import ports
from tests.support.namespace import Namespace, private_namespace
from tests.support.needs import require
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

TO = "172.16.5.5"
# Commands that are run in the namespace, and whether packets of the host or arriving ones leave by eth1 then.
WAYS: dict[str, tuple[str, Effect, bool]] = {
    "nft, type route": (
        "nft {table ip t {chain c {type route hook output priority 0; meta mark set 0x10;}}}",
        "own",
        True,
    ),
    "nft, type filter": (
        "nft {table ip t {chain c {type filter hook output priority 0; meta mark set 0x10;}}}",
        "own",
        False,
    ),
    "nft, another bit": (
        "nft {table ip t {chain c {type route hook output priority 0; meta mark set 0x20;}}}",
        "own",
        False,
    ),
    "nft, one bit more": (
        "nft {table inet t {chain c {type route hook output priority 0; meta mark set meta mark or 0x30;}}}",
        "own",
        True,
    ),
    "nft, by the connection": (
        "nft {table ip t {chain c {type route hook output priority 0; ct mark set 0x10; meta mark set ct mark;}}}",
        "own",
        True,
    ),
    "nft, another chain": (
        "nft {table ip t {chain s {meta mark set 0x10;}; chain c {type route hook output priority 0; jump s;}}}",
        "own",
        True,
    ),
    "nft, no chain leads there": ("nft {table ip t {chain s {meta mark set 0x10;}}}", "own", False),
    "nft, prerouting": (
        "nft {table ip t {chain c {type filter hook prerouting priority 0; meta mark set 0x10;}}}",
        "arriving",
        True,
    ),
    "nft, forward": (
        "nft {table ip t {chain c {type filter hook forward priority 0; meta mark set 0x10;}}}",
        "arriving",
        False,
    ),
    "iptables-nft": ("iptables-nft -t mangle -A OUTPUT -j MARK --set-mark 0x10", "own", True),
    "iptables-nft, raw": ("iptables-nft -t raw -A OUTPUT -j MARK --set-mark 0x10", "own", False),
    "iptables-nft, prerouting": ("iptables-nft -t mangle -A PREROUTING -j MARK --or-mark 0x11", "arriving", True),
    "iptables-nft, raw and DNAT": (
        (
            "iptables-nft -t raw -A OUTPUT -j MARK --set-mark 0x10; iptables-nft -t nat -A OUTPUT -d 172.16.5.5 -j DNAT --to"
            " 172.16.5.6"
        ),
        "own",
        True,
    ),
    "iptables-nft, raw and DSCP": (
        "iptables-nft -t raw -A OUTPUT -j MARK --set-mark 0x10; iptables-nft -t mangle -A OUTPUT -j DSCP --set-dscp 10",
        "own",
        True,
    ),
    "iptables-nft, two rules for it": (
        "iptables-nft -t mangle -A OUTPUT -j MARK --or-mark 0x1; iptables-nft -t mangle -A OUTPUT -j MARK --or-mark 0x10",
        "own",
        True,
    ),
    "iptables-legacy": ("iptables-legacy -t mangle -A OUTPUT -j MARK --set-mark 0x10", "own", True),
    "iptables-legacy, prerouting": (
        "iptables-legacy -t mangle -A PREROUTING -j MARK --set-mark 0x10",
        "arriving",
        True,
    ),
}


def furnish(node: Namespace, pod: Namespace) -> None:
    """A node with two uplinks, and a pod that sends by it."""
    node.batch(
        [
            *ports("eth0", "eth1"),
            f"link add pod1 type veth peer name eth0 netns {pod.pid}",
            *(f"link set {dev} up" for dev in ("lo", "pod1")),
            "address add 10.0.0.4/24 dev eth0",
            "address add 10.1.0.4/24 dev eth1",
            "address add 10.244.3.1/24 dev pod1",
            *(f"neighbour add 10.{at}.0.1 lladdr 02:00:00:00:00:01 dev eth{at}" for at in (0, 1)),
            "route add default via 10.0.0.1 dev eth0",
            "route add default via 10.1.0.1 dev eth1 table 100",
            "rule add fwmark 0x10/0x10 lookup 100",
        ]
    )
    for dev in ("all", "eth0", "eth1", "pod1"):
        node.sysctl(f"ipv4/conf/{dev}/rp_filter", 0)
        node.sysctl(f"ipv4/conf/{dev}/forwarding", 1)
    pod.batch(["link set eth0 up", "address add 10.244.3.2/24 dev eth0", "route add default via 10.244.3.1"])


def leaving(node: Namespace, sender: Namespace) -> str:
    """The uplink by which the packets of the sender leave."""

    def counts() -> dict[str, int]:
        text = node.run("cat", "/proc/net/dev").stdout.replace(":", " ")
        return {line.split()[0]: int(line.split()[10]) for line in text.splitlines()[2:]}

    before = counts()
    with sender.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for _ in range(20):
            client.sendto(b"x" * 100, (TO, 9))
    sent: dict[str, int] = {}

    def have_left() -> bool:
        sent.update((dev, number - before[dev]) for dev, number in counts().items())
        return sent["eth0"] + sent["eth1"] >= 20

    # A packet may arrive at the node, and leave it, only after sendto has returned.
    wait_for("the packets to leave", have_left)
    return max(("eth0", "eth1"), key=sent.__getitem__)


@pytest.mark.parametrize("name", WAYS)
def test_marked_packets(name: str) -> None:
    """Packets leave by the marked ones' device exactly if a rule is found that can set the mark in time."""
    command, kind, moves = WAYS[name]
    require(name.partition(",")[0])
    with private_namespace() as node, private_namespace() as pod:
        furnish(node, pod)
        program, _, rest = command.partition(" ")
        if program == "nft":
            rules = rest[1:-1].replace("{", "{\n").replace(";", ";\n").replace("}", "\n}\n").replace("\n;", "\n")
            done = node.run("nft", "-f", "-", text=rules)
        else:
            done = node.run("sh", "-ec", command)
        assert done.returncode == 0, done.stderr
        sender = node if kind == "own" else pod
        assert leaving(node, sender) == ("eth1" if moves else "eth0")
        found = marking_of(4, words=node.enter)
        assert found.unseen == ()
        effects = {effect for setter in found.setters if setter.can_set(0x10, 0x10) for effect in found.effects(setter)}
        assert bool(effects & {kind, f"{kind}-later"}) is moves
