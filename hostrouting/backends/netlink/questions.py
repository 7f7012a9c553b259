"""Questions to the kernel as messages: for a list, for one device, and for what it would do with a packet.

Nothing here changes anything. A property test has pyroute2 make the same messages of the same words.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.messages import SEQUENCE, Template, message
from hostrouting.backends.netlink.numbers import AF_OF
from hostrouting.backends.netlink.route_message import DESTINATION_AT, RTMSG
from hostrouting.model import IPV4, IPV6, ip_at, width_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.fib import Flow

__all__ = ["ask_device", "ask_list", "encode_lookup", "lookup_template"]

_SKIP_STATS = struct.pack("=I", 8)  # RTEXT_FILTER_SKIP_STATS: counters of packets are half of what is said of a device
# Attributes by their numbers (IFLA_… and RTA_…).
_IFNAME, _EXT_MASK = 3, 29
_DST, _SRC, _IIF, _OIF, _TABLE, _MARK, _UID, _IP_PROTO, _SPORT, _DPORT = 1, 2, 3, 4, 15, 16, 25, 27, 28, 29
_LINK = struct.Struct("=BxHiII")  # struct ifinfomsg
_WORD = struct.Struct("=I")
# The fixed part of a question, which is but a family and zeros.
_SIZES = {n.RTM_GETADDR: 8, n.RTM_GETRULE: 12, n.RTM_GETNETCONF: 4, n.RTM_GETNEXTHOP: 8}
# Without it IPv4 names the table main whichever it was; IPv6 names the right one and refuses the flag.
_EXTRA = {IPV4: n.RTM_F_LOOKUP_TABLE, IPV6: 0}


@cache
def ask_list(kind: int, family: int, table: int = 0, protocol: int = 0) -> bytes:
    """The question for all of a kind (RTM_GET…); of routes those of a table and a protocol, 0 is any."""
    if kind == n.RTM_GETLINK:
        return message(kind, _LINK.pack(family, 0, 0, 0, 0), [(_EXT_MASK, _SKIP_STATS)], flags=n.NLM_F_DUMP)
    if kind == n.RTM_GETROUTE:
        body = RTMSG.pack(family, 0, 0, 0, 0, protocol, 0, 0, 0)
        return message(kind, body, [(_TABLE, _WORD.pack(table))] if table else [], flags=n.NLM_F_DUMP)
    return message(kind, family.to_bytes(1, "big").ljust(_SIZES[kind], b"\0"), flags=n.NLM_F_DUMP)


def ask_device(name: bytes) -> bytes:
    """The question for one device, by its name."""
    said = [(_IFNAME, name + b"\0"), (_EXT_MASK, _SKIP_STATS)]
    return message(n.RTM_GETLINK, _LINK.pack(0, 0, 0, 0, 0), said)


def encode_lookup(
    family: int, flow: Flow, index_of: Callable[[str], int], *, entry: int = 1, sequence: int = 0, dst: int = 0
) -> bytes:
    """The question which entry decides for the destination `dst`.

    Without `entry` it is the question what becomes of one packet, whose answer is always small. struct.error where the
    flow has a number that does not fit.
    """
    source = None if flow.source is None or int(flow.source) == 0 else flow.source
    asked: list[tuple[int, bytes | None]] = [
        (_DST, ip_at(family, dst).packed),
        (_SRC, None if source is None else source.packed),
        (_IIF, _WORD.pack(index_of(flow.iif)) if flow.iif not in {None, "lo"} and flow.iif else None),
        (_OIF, _WORD.pack(index_of(flow.oif)) if flow.oif else None),
        (_MARK, _WORD.pack(flow.mark) if flow.mark else None),
        (_UID, None if flow.uid is None else _WORD.pack(flow.uid)),
        (_IP_PROTO, struct.pack("=B", flow.ipproto) if flow.ipproto else None),
        # Ports are as they are in a packet.
        (_SPORT, struct.pack(">H", flow.sport) if flow.sport else None),
        (_DPORT, struct.pack(">H", flow.dport) if flow.dport else None),
    ]
    bits = width_of(family)
    flags = n.RTM_F_FIB_MATCH * entry | _EXTRA[family]
    return message(
        n.RTM_GETROUTE,
        RTMSG.pack(AF_OF[family], bits, bits if source else 0, flow.tos or 0, 0, 0, 0, 0, flags),
        [(number, value) for number, value in asked if value is not None],
        sequence=sequence,
    )


def lookup_template(family: int, flow: Flow, index_of: Callable[[str], int]) -> Template:
    """The same question for any destination: its sequence number and the destination, packed, are to be filled in."""
    return Template(encode_lookup(family, flow, index_of), SEQUENCE, (DESTINATION_AT, f"{width_of(family) // 8}s"))
