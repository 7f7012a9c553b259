"""A load balancer, a node and a pod: three private network namespaces in a row, real sockets and
real packets.

    balancer eth0 ──────────── eth0 node pod0 ──────────── eth0 pod
    fe80::1234:5678:9abc            fe80::4                2001:db8:2::9
    fe80::b                         2001:db8:1::4
    2001:db8:1::b                   2001:db8:2::1

The balancer probes from its first address. The node forwards; its default route is the balancer's
second address, and the pod's is the node. Checksums are not left to hardware, so the receiver drops
a packet with a wrong checksum.
"""

import ctypes
import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv6Address
from typing import NamedTuple

import attrs

from hostrouting.kernel.nftables import NftProgram
from tests.support.commands import up
from tests.support.namespace import Namespace, private_namespace

PROBE, GLOBAL = "fe80::1234:5678:9abc", "2603:1062:0:1:fe80:1234:5678:9abc"
OWN, OWN_GLOBAL, HARDWARE = "fe80::b", "2001:db8:1::b", bytes([2, 0, 0, 0, 0, 11])
NODE_LINK_LOCAL, NODE = "fe80::4", "2001:db8:1::4"
POD_GATEWAY, POD = "2001:db8:2::1", "2001:db8:2::9"
SERVICE = "2001:db8:3::1"
"""No host has this address: the node's rules decide what becomes of packets to it."""

UDP, _ICMPV6 = 17, 58
ECHO_REQUEST, ECHO_REPLY, ADVERTISED_NEIGHBOUR = 128, 129, 136

_PATIENCE = 60.0
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17
_ETH_P_IPV6 = 0x86DD
_SO_RCVBUFFORCE = 33


@attrs.frozen
class Lab:
    balancer: Namespace
    node: Namespace
    pod: Namespace

    def settled(self) -> None:
        """Return once all that the balancer has sent is handled: a ping after it is answered."""
        ping(self.balancer, OWN, NODE_LINK_LOCAL)


@contextmanager
def laboratory() -> Iterator[Lab]:
    """The connected hosts, without nftables rules."""
    with ExitStack() as stack:
        made = Lab(*(stack.enter_context(private_namespace()) for _ in range(3)))
        far = f"type veth peer name eth0 address {HARDWARE.hex(':')} netns {made.balancer.path}"
        made.node.batch(
            [
                f"link add eth0 {far}",
                f"link add pod0 type veth peer name eth0 netns {made.pod.path}",
                *_with_addresses("eth0", NODE_LINK_LOCAL, NODE),
                *_with_addresses("pod0", POD_GATEWAY, "fe80::1"),
                f"route add default via {OWN} dev eth0",
            ]
        )
        made.balancer.batch(
            [
                *_with_addresses("eth0", PROBE, OWN, OWN_GLOBAL),
                *(
                    f"route add {there} via {NODE_LINK_LOCAL} dev eth0"
                    for there in (f"{POD}/64", SERVICE)
                ),
            ]
        )
        made.pod.batch(
            [*_with_addresses("eth0", POD, "fe80::9"), f"route add default via {POD_GATEWAY}"]
        )
        made.node.settle()  # its devices got their carriers when the other ends were set up
        for host, devices in (
            (made.balancer, ["eth0"]),
            (made.node, ["eth0", "pod0"]),
            (made.pod, ["eth0"]),
        ):
            for dev in devices:
                _compute_checksums(host, dev)
        made.node.sysctl("ipv6/conf/all/forwarding", 1)
        made.node.sysctl("ipv6/icmp/ratelimit", 0)
        yield made


def _with_addresses(dev: str, *addresses: str) -> list[str]:
    return [*up(dev), *(f"address add {address}/64 dev {dev} nodad" for address in addresses)]


def _compute_checksums(host: Namespace, dev: str) -> None:
    """Make the kernel compute the checksums of sent packets (`ethtool -K DEV tx off`)."""
    value = ctypes.create_string_buffer(struct.pack("=II", _ETHTOOL_STXCSUM, 0))
    with host.inside(), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sP16x", dev.encode(), ctypes.addressof(value))
        fcntl.ioctl(any_socket, _SIOCETHTOOL, request)


def nft(host: Namespace, commands: str) -> None:
    with host.inside():
        NftProgram().load(commands)


def open_socket(
    host: Namespace, kind: socket.SocketKind, address: str, *, port: int = 0, protocol: int = 0
) -> socket.socket:
    """A socket of the host with this address, by eth0 if it is link-local."""
    with host.inside():
        made = socket.socket(socket.AF_INET6, kind, protocol)
        scope = socket.if_nametoindex("eth0") if address.startswith("fe80:") else 0
    try:
        made.settimeout(_PATIENCE)
        made.bind((address, port, 0, scope))
    except BaseException:
        made.close()
        raise
    return made


def make_room(receiver: socket.socket) -> None:
    """Make the receive queue large enough for everything that a test sends."""
    receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)


def send_icmp(host: Namespace, source: str, destination: str, message: bytes) -> None:
    """Send an ICMPv6 message; the kernel fills in its checksum."""
    with open_socket(host, socket.SOCK_RAW, source, protocol=socket.IPPROTO_ICMPV6) as raw:
        for option in (socket.IPV6_UNICAST_HOPS, socket.IPV6_MULTICAST_HOPS):
            raw.setsockopt(socket.IPPROTO_IPV6, option, 255)
        raw.sendto(message, (destination, 0, 0, raw.getsockname()[3]))


def ping(host: Namespace, source: str, destination: str) -> None:
    """Send an echo request and wait for the reply. Raises TimeoutError if there is none."""
    with open_socket(host, socket.SOCK_RAW, source, protocol=socket.IPPROTO_ICMPV6) as raw:
        number = raw.fileno()
        raw.connect((destination, 0, 0, raw.getsockname()[3]))  # so that only its replies count
        # The kernel fills in the checksum.
        raw.send(struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, number, 1) + b"is anybody there")
        wanted = struct.pack("!H", number)
        while True:
            answer = raw.recv(2048)
            if answer[0] == ECHO_REPLY and answer[4:6] == wanted:
                return


class Packet(NamedTuple):
    source: str
    destination: str
    protocol: int
    payload: bytes

    @classmethod
    def read(cls, data: bytes) -> "Packet":
        source, destination = (str(IPv6Address(data[at : at + 16])) for at in (8, 24))
        return cls(source, destination, data[6], data[40:])

    def is_icmp(self, kind: int, *, to: str = "") -> bool:
        """Whether it is an ICMPv6 message of this type, to this address."""
        return self.protocol == _ICMPV6 and self.payload[0] == kind and to in {"", self.destination}


def neighbour_solicitation(target: str, hardware: bytes) -> bytes:
    """A neighbour solicitation for the address, from this hardware address."""
    return (
        struct.pack("!BBHI", 135, 0, 0, 0) + IPv6Address(target).packed + bytes([1, 1]) + hardware
    )


def packets_of(wire: socket.socket) -> list[Packet]:
    packets: list[Packet] = []
    wire.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            packets.append(Packet.read(wire.recv(1 << 16)))
    return packets


@contextmanager
def capture(host: Namespace) -> Iterator[socket.socket]:
    with host.inside():
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    with wire:
        make_room(wire)
        wire.bind(("eth0", _ETH_P_IPV6))
        yield wire
