"""IPv6 packets as bytes: parsed, checked and reassembled; and ICMPv6 messages to send.

Here: bytes to values and back. Not here: sockets and hosts (`balancer`).
"""

import struct
from collections.abc import Iterable, Sequence
from ipaddress import IPv6Address

import attrs

TCP, UDP, ICMPV6 = 6, 17, 58
_HOP_BY_HOP, _FRAGMENT = 0, 44
ECHO_REQUEST, ECHO_REPLY, ADVERTISED_NEIGHBOUR, LISTENER_REPORT = 128, 129, 136, 143
# A hop-by-hop header (whose first byte the kernel fills in) with the option "router alert: MLD", and two bytes of padding.
ROUTER_ALERT = bytes([0, 0, 5, 2, 0, 0, 1, 0])


@attrs.frozen
class Packet:
    """An IPv6 packet without its extension headers; `offset` and `more` are those of a fragment."""

    source: str
    destination: str
    protocol: int
    payload: bytes = attrs.field(repr=False)
    ident: int = 0
    offset: int = 0
    more: bool = False

    @classmethod
    def read(cls, data: bytes) -> "Packet":
        """Parse a packet that begins with the IPv6 header."""
        length, protocol = struct.unpack_from("!4xHB", data)
        payload, ident, offset, more = data[40 : 40 + length], 0, 0, False
        while protocol in {_HOP_BY_HOP, _FRAGMENT}:
            size = 8
            if protocol == _FRAGMENT:
                place, ident = struct.unpack_from("!2xHI", payload)
                offset, more = place & 0xFFF8, bool(place & 1)
            else:
                size += 8 * payload[1]
            protocol, payload = payload[0], payload[size:]
        source, destination = (str(IPv6Address(data[at : at + 16])) for at in (8, 24))
        return cls(source, destination, protocol, payload, ident=ident, offset=offset, more=more)

    @property
    def is_checksum_right(self) -> bool:
        """Whether the checksum of TCP, UDP or ICMPv6 is correct for the payload and the two addresses."""
        ends = IPv6Address(self.source).packed + IPv6Address(self.destination).packed
        data = ends + struct.pack("!II", len(self.payload), self.protocol) + self.payload
        data += bytes(len(data) % 2)
        # Adding the carries does not change a sum modulo 0xffff; the sum of a correct packet is 0 or 0xffff.
        total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
        return total % 0xFFFF == 0

    @property
    def icmp(self) -> tuple[int, int]:
        """Type and code; (-1, -1) if it is not ICMPv6."""
        return (self.payload[0], self.payload[1]) if self.protocol == ICMPV6 else (-1, -1)


def reassembled(packets: Iterable[Packet]) -> tuple[Packet, ...]:
    """The packets, with complete fragmented packets reassembled in the place of their last fragment."""
    whole: list[Packet] = []
    parts: dict[tuple[str, str, int], list[Packet]] = {}
    for packet in packets:
        if not (packet.more or packet.offset):
            whole.append(packet)
            continue
        key = (packet.source, packet.destination, packet.ident)
        parts.setdefault(key, []).append(packet)
        if (joined := _joined(parts[key])) is not None:
            whole.append(joined)
    return tuple(whole)


def _joined(parts: Sequence[Packet]) -> Packet | None:
    payload = b""
    for part in sorted(parts, key=lambda it: it.offset):
        if part.offset != len(payload):
            return None
        payload += part.payload
        if not part.more:
            return attrs.evolve(part, payload=payload, ident=0, offset=0)
    return None


def echo_request(number: int) -> bytes:
    """An echo request with this identifier, without its checksum, which the kernel fills in."""
    return struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, number, 1) + b"is anybody there"


def router_advertisement(*, lifetime: int) -> bytes:
    """A router advertisement: the sender is a default router for this many seconds."""
    return struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, lifetime, 0, 0)


def neighbour_solicitation(target: str, hardware: bytes) -> bytes:
    """A neighbour solicitation for the address, from this hardware address."""
    return struct.pack("!BBHI", 135, 0, 0, 0) + IPv6Address(target).packed + bytes([1, 1]) + hardware


def listener_query() -> bytes:
    """An MLDv2 query for all multicast groups, to be answered within a millisecond."""
    return struct.pack("!BBHHH16sBBH", 130, 0, 0, 1, 0, bytes(16), 2, 10, 0)
