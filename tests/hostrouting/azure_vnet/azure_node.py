"""A node in bridge mode that azure-vnet has left to another CNI, in private network namespaces,
with real packets.

    fabric eth0 ───── eth0 node azure0 ─── azv… ───── eth0 pod of azure-vnet
    10.1.0.1, fd00::1      10.1.0.4    └── lxc… ───── eth0 pod of the other CNI

The fabric works like a cloud's: it sends every frame for a pod to the node's MAC address, that of
eth0 and azure0. ebtables rewrites that to the pod's. To the other CNI's pods the node has routes.
"""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import phases
from hostrouting.azure_vnet.task import CleanStaleAzureVnet, CleanupResult
from hostrouting.host.host import Host
from hostrouting.testing import FakeFiles, FakeManager
from tests.support.azure_leftovers import config
from tests.support.azure_rules import NODE_RULES, add_rules, pod_rules
from tests.support.namespace import Namespace, private_namespace
from tests.support.waiting import wait_for

NODE_MAC, _FABRIC_MAC = "0a:00:00:00:00:01", "0a:00:00:00:00:fe"
_GATEWAY_MAC = "0a:00:00:01:ff:ff"  # of the node, for a pod of the other CNI
_NODE, _FABRIC = ("10.1.0.4", "fd00::4"), ("10.1.0.1", "fd00::1")
_PORT, _PATIENCE, _SO_RCVBUFFORCE = 4000, 1.0, 33


class State(NamedTuple):
    """What a clean-up may change, as programs print it, without the kernel's own routes."""

    rules: tuple[str, ...]
    neighbours: tuple[str, ...]
    routes: tuple[str, ...]


class AzureNode:
    """The hosts, and operations on them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.fabric, self.node = (stack.enter_context(private_namespace()) for _ in range(2))
        self.pods: dict[str, Namespace] = {}
        self.files = FakeFiles()
        # A veth that is a port of the bridge counts as a pod's, so eth0 is a macvlan that receives
        # all frames of a veth. If both ends of a veth have the same index, Linux may take a second
        # to notice that the other end is up.
        self.fabric.batch(
            [
                (
                    f"link add eth0 index 900 address {_FABRIC_MAC} type veth "
                    f"peer name wire netns {self.node.path}"
                ),
                *_up("eth0", *_FABRIC),
                *_neighbours("eth0", NODE_MAC, *_NODE),
            ]
        )
        self.node.batch(
            [
                "link set wire up",
                f"link add link wire name eth0 address {NODE_MAC} type macvlan mode passthru",
                f"link add azure0 address {NODE_MAC} type bridge forward_delay 0",
                "link set eth0 master azure0 up",
                *_up("azure0", *_NODE),
                *_neighbours("azure0", _FABRIC_MAC, *_FABRIC),
                *(f"route add default via {ip} dev azure0" for ip in _FABRIC),
            ]
        )
        self.node.sysctl("ipv4/ip_forward", 1)
        self.node.sysctl("ipv6/conf/all/forwarding", 1)
        add_rules(self.node, [*NODE_RULES, *pod_rules(_NODE[0], NODE_MAC)[:1]])

    def leave(self, mac: str, *ips: str, times: int = 1) -> None:
        """Add what azure-vnet adds in bridge mode for a pod, except the veth."""
        for ip in ips:
            add_rules(self.node, pod_rules(ip, mac) * times)
        self.node.batch(_neighbours("azure0", mac, *(ip for ip in ips if ":" not in ip)))

    def bridge_pod(self, name: str, mac: str, *ips: str) -> None:
        """Create a pod of azure-vnet in bridge mode, with its veth, rules and neighbours."""
        self._pod(name, f"azv{name}", mac, NODE_MAC, *ips)
        self.node.batch([f"link set azv{name} master azure0"])
        self.leave(mac, *ips)

    def routed_pod(self, name: str, mac: str, *ips: str) -> None:
        """Create a pod of the other CNI, with a route to each address."""
        self._pod(name, f"lxc{name}", mac, _GATEWAY_MAC, *ips)
        self.node.batch([f"link set lxc{name} address {_GATEWAY_MAC}"])
        self.node.batch(f"route add {ip} dev lxc{name}" for ip in ips)
        self.node.batch(_neighbours(f"lxc{name}", mac, *ips))

    def _pod(self, name: str, dev: str, mac: str, gateway: str, *ips: str) -> None:
        """Create a pod behind this device; the fabric sends its packets to the node."""
        pod = self.pods[name] = self._stack.enter_context(private_namespace())
        self.node.batch([f"link add {dev} type veth peer name eth0 address {mac} netns {pod.path}"])
        self.node.batch([f"link set {dev} up"])
        pod.batch([*_up("eth0", *ips), *_neighbours("eth0", gateway, *_FABRIC)])
        self.fabric.batch(_neighbours("eth0", NODE_MAC, *ips))

    def _socket(self, host: Namespace, ip: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        with host.inside():
            return self._stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))

    @contextmanager
    def stream(self, name: str, ip: str) -> Iterator[Counter[str]]:
        """Send a datagram a millisecond to the pod; at the end, count what arrived."""
        receiver, sender = self._socket(self.pods[name], ip), self._socket(self.fabric, ip)
        receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
        receiver.settimeout(_PATIENCE)
        receiver.bind((ip, _PORT))
        sender.connect((ip, _PORT))
        counted, over = Counter[str](), threading.Event()

        def send() -> None:
            while not over.wait(0.001):
                counted["sent"] += sender.send(b"x")

        with ThreadPoolExecutor(1) as pool:
            pool.submit(send)
            try:
                wait_for("the first packets", lambda: counted["sent"] > 9)
                yield counted
            finally:
                over.set()
        with receiver, sender, suppress(TimeoutError):
            while counted["arrived"] < counted["sent"]:
                counted["arrived"] += len(receiver.recv(10))

    def arrives(self, name: str, ip: str) -> bool:
        """Whether all packets to this address of the pod arrive, or none."""
        with self.stream(name, ip) as counted:
            pass
        assert counted["arrived"] in {0, counted["sent"]}
        return bool(counted["arrived"])

    def clean(self, **settings: Any) -> CleanupResult:
        """Run the task, with the kernel and ebtables of the node, and files in memory."""
        host = Host(files=self.files, manager=FakeManager())
        with self.node.inside():
            result = phases.execute(CleanStaleAzureVnet(config(**settings), host=host))
        assert isinstance(result, CleanupResult)
        return result

    def state(self) -> State:
        rules = self.node.run("ebtables-nft-save").stdout.splitlines()
        neighbours = self.node.ip("neigh", "show", "nud", "permanent").stdout.splitlines()
        routes = self.node.ip("-4", "route").stdout.splitlines()
        routes += self.node.ip("-6", "route").stdout.splitlines()
        return State(
            tuple(rule.removeprefix("-A ") for rule in rules if rule.startswith("-A ")),
            tuple(sorted(line.strip() for line in neighbours)),
            tuple(route.strip() for route in routes if "proto kernel" not in route),
        )


def _up(dev: str, *addresses: str) -> list[str]:
    commands = [f"link set {dev} up"]
    for ip in addresses:
        options = f"/64 dev {dev} nodad" if ":" in ip else f"/16 dev {dev}"
        commands.append(f"address add {ip}{options}")
    return commands


def _neighbours(dev: str, mac: str, *ips: str) -> list[str]:
    return [f"neigh replace {ip} lladdr {mac} dev {dev} nud permanent" for ip in ips]
