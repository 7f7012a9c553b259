"""IPv6 packets: the parts that the tests look at, and ICMPv6 messages to send."""

import struct
from ipaddress import IPv6Address
from typing import NamedTuple

UDP, _ICMPV6, _HOP_BY_HOP = 17, 58, 0
ECHO_REQUEST, ECHO_REPLY, ADVERTISED_NEIGHBOUR = 128, 129, 136


class Packet(NamedTuple):
    """An IPv6 packet without its hop-by-hop header."""

    source: str
    destination: str
    protocol: int
    payload: bytes

    @classmethod
    def read(cls, data: bytes) -> "Packet":
        """Parse a packet that begins with the IPv6 header."""
        protocol, payload = data[6], data[40:]
        if protocol == _HOP_BY_HOP:
            protocol, payload = payload[0], payload[8 + 8 * payload[1] :]
        source, destination = (str(IPv6Address(data[at : at + 16])) for at in (8, 24))
        return cls(source, destination, protocol, payload)

    def is_icmp(self, kind: int, *, to: str = "") -> bool:
        """Whether it is an ICMPv6 message of this type, to this address."""
        return self.protocol == _ICMPV6 and self.payload[0] == kind and to in {"", self.destination}


def echo_request(number: int) -> bytes:
    """An echo request with this identifier, without its checksum, which the kernel fills in."""
    return struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, number, 1) + b"is anybody there"


def router_advertisement(*, lifetime: int) -> bytes:
    """A router advertisement: the sender is a default router for this many seconds."""
    return struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, lifetime, 0, 0)


def neighbour_solicitation(target: str, hardware: bytes) -> bytes:
    """A neighbour solicitation for the address, from this hardware address."""
    return (
        struct.pack("!BBHI", 135, 0, 0, 0) + IPv6Address(target).packed + bytes([1, 1]) + hardware
    )
