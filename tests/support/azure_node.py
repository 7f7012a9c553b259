"""A node that azure-vnet has left to another CNI, built in private network namespaces, with real packets.

    fabric eth0 ───── eth0 node azure0 ─── azv… ───── eth0 pod of azure-vnet
    10.1.0.1               10.1.0.4    └── lxc… ───── eth0 pod of the other CNI
    fd00::1                fd00::4

In bridge mode eth0 is a port of azure0, which has the node's addresses and eth0's MAC address. The fabric works like a
cloud's: it does not resolve a pod's address, but sends every frame for it to the node's MAC address. ebtables on the node
rewrites that to the pod's MAC address. The other CNI's pods are not in a bridge: the node has a route to each. In
transparent mode there is no bridge, and azure-vnet's pods have routes as well.

The tests need not wait to see that a packet does not arrive: they send another one after it, and once that is answered,
the first has been handled.

Here: the hosts, the entries that azure-vnet adds for a pod, and packets. Not here: the text of rules (`azure_rules`), and
the clean-up.
"""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv6Interface
from typing import Any

import attrs

import phases
from hostrouting.config.azure_vnet import AzureVnetCleanupConfig
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from hostrouting.kernel.ebtables import EbtablesProgram, nat_rules
from hostrouting.kernel.neighbours import KernelLinkLayer
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.tasks.cleanup.azure_vnet import CleanStaleAzureVnet
from hostrouting.tasks.cleanup.plan import CleanupPlan
from hostrouting.tasks.results import CleanupResult
from hostrouting.testing import FakeFiles, FakeManager
from tests.support.azure_rules import NODE_RULES, add_rules, pod_rules
from tests.support.namespace import Namespace, private_namespace
from tests.support.waiting import wait_for

NODE_MAC = "0a:00:00:00:00:01"
_FABRIC_MAC = "0a:00:00:00:00:fe"
_NODE, _FABRIC = ("10.1.0.4", "fd00::4"), ("10.1.0.1", "fd00::1")
MANAGED = ("10.1.0.0/16", "fd00::/64")
_PORT = 4000
_PATIENCE = 10.0
_SO_RCVBUFFORCE = 33


def mac_of(number: int) -> str:
    """The MAC address of a pod."""
    return f"0a:00:00:01:{number >> 8:02x}:{number & 0xFF:02x}"


@attrs.frozen
class State:
    """Everything that a clean-up may change, as the host's programs print it."""

    rules: tuple[str, ...]
    neighbours: tuple[str, ...]
    routes: tuple[str, ...]


class AzureNode:
    """The hosts, and operations on them."""

    def __init__(self, stack: ExitStack, *, bridged: bool) -> None:
        """Connect the node to the fabric."""
        self._stack = stack
        self.fabric = self._namespace()
        self.node = self._namespace()
        self.pods: dict[str, Namespace] = {}
        self.files = FakeFiles()
        self.ebtables = EbtablesProgram("nft", words=self.node.enter)
        dev = "azure0" if bridged else "eth0"
        for path, value in (("ipv6/conf/default/accept_dad", 0), ("ipv6/conf/all/accept_dad", 0)):
            self.node.sysctl(path, value)
            self.fabric.sysctl(path, value)
        # A veth that is a port of the bridge counts as a pod's, so eth0 is a macvlan that receives all frames of a veth.
        # If both ends of a veth have the same index, Linux may take a second to notice that the other end is up.
        self.fabric.batch(
            [
                f"link add eth0 index 900 address {_FABRIC_MAC} type veth peer name wire netns {self.node.path}",
                *_up("eth0", *_FABRIC),
                *(f"neigh add {ip} lladdr {NODE_MAC} dev eth0 nud permanent" for ip in _NODE),
            ]
        )
        self.node.batch(
            ["link set wire up", f"link add link wire name eth0 address {NODE_MAC} type macvlan mode passthru"]
        )
        bridge = [f"link add azure0 address {NODE_MAC} type bridge forward_delay 0", "link set eth0 master azure0 up"]
        self.node.batch(
            [
                *(bridge if bridged else []),
                *_up(dev, *_NODE),
                *(f"neigh add {ip} lladdr {_FABRIC_MAC} dev {dev} nud permanent" for ip in _FABRIC),
                *(f"route add default via {ip} dev {dev}" for ip in _FABRIC),
            ]
        )
        self.node.sysctl("ipv4/ip_forward", 1)
        self.node.sysctl("ipv6/conf/all/forwarding", 1)
        if bridged:
            self.append(*NODE_RULES, *pod_rules(_NODE[0], NODE_MAC)[:1])

    # what azure-vnet and the other CNI add

    def append(self, *rules: str) -> None:
        """Add rules without reading the existing ones, as azure-vnet does."""
        add_rules(self.node, rules)

    def leave(self, mac: str, *ips: str, times: int = 1) -> None:
        """Add what azure-vnet adds in bridge mode for a pod with these addresses, except the veth."""
        self.append(*(rule for ip in ips for rule in pod_rules(ip, mac) * times))
        self.node.batch(f"neigh add {ip} lladdr {mac} dev azure0 nud permanent" for ip in ips if ":" not in ip)

    def bridge_pod(self, name: str, mac: str, *ips: str) -> Namespace:
        """Create a pod of azure-vnet in bridge mode, with its veth, rules and neighbours."""
        pod = self._pod(name, f"azv{name}", mac)
        self.node.batch([f"link set azv{name} master azure0 up"])
        pod.batch([*_up("eth0", *ips), *(f"neigh add {ip} lladdr {NODE_MAC} dev eth0 nud permanent" for ip in _FABRIC)])
        self.leave(mac, *ips)
        self._reachable(*ips)
        return pod

    def bridged_pod(self, name: str, mac: str, ip: str, *, bridge: str) -> Namespace:
        """Create a pod of another CNI as a port of its bridge; it resolves its neighbours by ARP."""
        pod = self._pod(name, f"lxc{name}", mac)
        self.node.batch([f"link set lxc{name} master {bridge} up"])
        pod.batch(_up("eth0", ip))
        return pod

    def routed_pod(self, name: str, mac: str, *ips: str, dev: str = "lxc") -> Namespace:
        """Create a pod with a route to each address and without a bridge, as the other CNI does; azure-vnet's dev is azv."""
        pod, dev = self._pod(name, f"{dev}{name}", mac), f"{dev}{name}"
        self.node.batch([f"link set {dev} address {mac_of(0xFFFF)} up", *(f"route add {ip} dev {dev}" for ip in ips)])
        self.node.batch(f"neigh replace {ip} lladdr {mac} dev {dev} nud permanent" for ip in ips)
        gateways = [f"neigh add {ip} lladdr {mac_of(0xFFFF)} dev eth0 nud permanent" for ip in _FABRIC]
        pod.batch([*_up("eth0", *ips), *gateways])
        self._reachable(*ips)
        return pod

    def _pod(self, name: str, dev: str, mac: str) -> Namespace:
        pod = self.pods[name] = self._namespace()
        pod.sysctl("ipv6/conf/default/accept_dad", 0)
        self.node.batch([f"link add {dev} type veth peer name eth0 address {mac} netns {pod.path}"])
        return pod

    def _reachable(self, *ips: str) -> None:
        """Make the fabric send packets for these addresses to the node."""
        self.fabric.batch(f"neigh replace {ip} lladdr {NODE_MAC} dev eth0 nud permanent" for ip in ips)

    def _namespace(self) -> Namespace:
        return self._stack.enter_context(private_namespace())

    # packets

    def listener(self, host: Namespace, ip: str) -> socket.socket:
        """A socket that receives the datagrams for this address of the host, with room for many at once."""
        with host.inside():
            made = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM)
        self._stack.enter_context(made)
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
        made.settimeout(_PATIENCE)
        made.bind((ip, _PORT))
        return made

    def sender(self, ip: str) -> socket.socket:
        """A socket that sends datagrams from the fabric to this address."""
        with self.fabric.inside():
            made = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM)
        self._stack.enter_context(made)
        made.connect((ip, _PORT))
        return made

    def arrives(self, name: str, ip: str, *, patience: float = _PATIENCE) -> bool:
        """Whether a datagram from the fabric to this address arrives at the pod, after so many seconds at most."""
        with self.listener(self.pods[name], ip) as receiver, self.sender(ip) as sender:
            sender.send(b"x")
            self.settle()
            receiver.settimeout(patience)
            try:
                return receiver.recv(10) == b"x"
            except TimeoutError:
                return False

    def settle(self) -> None:
        """Return once the node has handled everything that the fabric has sent."""
        for _ in range(2):
            with self.listener(self.node, _NODE[0]) as receiver, self.sender(_NODE[0]) as sender:
                sender.send(b"settled")
                assert receiver.recv(10) == b"settled"

    @contextmanager
    def stream(self, name: str, ip: str, *, rate: int = 1000) -> Iterator[dict[str, int]]:
        """Send `rate` datagrams per second to the pod until the block ends, then count those sent and arrived."""
        counted = {"sent": 0, "arrived": 0}
        receiver, sender, over = self.listener(self.pods[name], ip), self.sender(ip), threading.Event()

        def send() -> None:
            begun = time.monotonic()
            while not over.is_set():
                sender.send(b"x")
                counted["sent"] += 1
                time.sleep(max(0.0, begun + counted["sent"] / rate - time.monotonic()))

        thread = threading.Thread(target=send)
        thread.start()
        try:
            while not counted["sent"]:
                time.sleep(0.001)
            yield counted
        finally:
            over.set()
            thread.join()
        with suppress(TimeoutError):
            while counted["arrived"] < counted["sent"]:
                receiver.recv(10)
                counted["arrived"] += 1

    # the clean-up

    @property
    def host(self) -> Host:
        """The node as a Host: the kernel and ebtables of the calling thread's namespace, with files in memory."""
        return Host(
            backend=NetlinkBackend,
            files=self.files,
            manager=FakeManager(),
            ebtables=EbtablesProgram,
            link_layer=KernelLinkLayer,
        )

    def task(self, **settings: Any) -> CleanStaleAzureVnet:
        """The task, with these settings added to the usual ones."""
        given = {"managed": MANAGED, "dry_run": False, **settings}
        config = HostRoutingConfig(azure_vnet_cleanup=AzureVnetCleanupConfig(**given))
        return CleanStaleAzureVnet(config, host=self.host)

    def plan(self, **settings: Any) -> CleanupPlan:
        """What the task would delete."""
        with self.node.inside():
            return self.task(**settings).plan(phases.Context())

    def clean(self, **settings: Any) -> CleanupResult:
        """Run the task."""
        with self.node.inside():
            result = phases.execute(self.task(**settings))
        assert isinstance(result, CleanupResult)
        return result

    def undo(self, path: str) -> None:
        """Restore what was deleted: run the undo file."""
        done = self.node.run("sh", "-ec", self.files.texts[path])
        assert done.returncode == 0, done.stderr

    def rules(self) -> tuple[str, ...]:
        """The rules of the table nat."""
        return nat_rules(self.ebtables.save())

    def _has_routes_of_devices(self) -> bool:
        """Whether the node has the routes that Linux adds a little after a device comes up.

        For each IPv6 address these are several. As the node forwards packets, the last one is an anycast route to the
        first address of the network.
        """
        links = json.loads(self.node.ip("-6", "-j", "address", "show", "up").stdout or "[]")
        addresses = {
            link["ifname"]: {IPv6Interface(f"{it['local']}/{it['prefixlen']}") for it in link["addr_info"]}
            for link in links
            if "LOWER_UP" in link.get("flags", ())
        }
        devices = self.node.ip("-o", "link", "show", "up").stdout
        up = re.findall(r"^\d+: ([^:@]+)\S* <\S*\bLOWER_UP\b", devices, re.MULTILINE)
        shown = self.node.ip("-6", "route", "show", "table", "local", "type", "anycast").stdout
        there = set(re.findall(r"^anycast (\S+) dev (\S+)", shown, re.MULTILINE))
        return all(
            any(it.is_link_local for it in addresses.get(dev, ()))
            and all((str(address.network.network_address), dev) in there for address in addresses[dev])
            for dev in up
        )

    def state(self) -> State:
        """What the host's programs print, once the kernel's own routes are there."""
        wait_for("the kernel's own routes on the devices", self._has_routes_of_devices)
        neighbours = self.node.ip("neigh", "show", "nud", "permanent").stdout.splitlines()
        routes = [self.node.ip(f"-{family}", "route", "show", "table", "all").stdout for family in (4, 6)]
        return State(self.rules(), tuple(sorted(neighbours)), tuple("".join(routes).splitlines()))


@contextmanager
def azure_node(*, bridged: bool = True) -> Iterator[AzureNode]:
    """A node without pods, in bridge mode or in transparent mode."""
    with ExitStack() as stack:
        yield AzureNode(stack, bridged=bridged)


def _up(dev: str, *addresses: str) -> list[str]:
    return [
        f"link set {dev} up",
        *(f"address add {ip}/{64 if ':' in ip else 16} dev {dev}{' nodad' if ':' in ip else ''}" for ip in addresses),
    ]
