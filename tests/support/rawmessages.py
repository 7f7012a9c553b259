"""Converts values to netlink messages and back, as far as the tests need them. No socket is used here."""

import socket
import struct
from typing import TypeAlias

from hostrouting.model.prefix import IP, Prefix, ip_at
from hostrouting.model.route import NextHop
from hostrouting.model.rule import Rule, RuleAction
from tests.support.rules import rule

AF = {4: socket.AF_INET, 6: socket.AF_INET6}
FAMILY = {int(number): family for family, number in AF.items()}
_ACTIONS: dict[RuleAction, int] = {"to_table": 1, "goto": 2, "nop": 3, "blackhole": 6, "unreachable": 7, "prohibit": 8}

_PROTOCOLS = {"tcp": 6, "udp": 17}

Attributes: TypeAlias = dict[int, memoryview]


def pack_rule(rule: Rule) -> bytes:
    """The body of a message about a rule."""
    table = rule.table if rule.table < 256 else 0
    found = [Prefix.parse(value) for name, value in rule.others if name == "source-of-route"]
    source = found[0] if found else rule.src
    lengths = [block.length if block else 0 for block in (rule.dst, source)]
    flags = 2 * rule.invert + 0x10000 * bool(found)
    tos = int(dict(rule.others).get("tos", "0"), 0)
    body = struct.pack("=8BI", AF[rule.family], *lengths, tos, table, 0, 0, _ACTIONS[rule.action], flags)
    numbers = {
        6: rule.priority,
        4: rule.target,
        15: rule.table or None,
        10: rule.fwmark if rule.fwmask else None,
        16: rule.fwmask or None,
        13: rule.suppress_ifgroup,
        14: rule.suppress_prefixlength,
    }
    body += b"".join(pack_attribute(kind, struct.pack("=I", it)) for kind, it in numbers.items() if it is not None)
    for kind, block in ((1, rule.dst), (2, source)):
        body += pack_attribute(kind, block.ip.packed) if block is not None else b""
    body += pack_text(3, rule.iif) if rule.iif else b""
    body += pack_attribute(21, bytes([rule.protocol])) if rule.protocol else b""
    return body + b"".join(_pack_other(name, value) for name, value in rule.others if name != "source-of-route")


def _pack_other(name: str, value: str) -> bytes:
    if name == "oif":
        return pack_text(17, value)
    if name == "ipproto":
        return pack_attribute(22, bytes([_PROTOCOLS[value]]))
    low, _, high = value.partition("-")
    if name == "uidrange":
        return pack_attribute(20, struct.pack("=II", int(low), int(high)))
    if name in {"sport", "dport"} and "/" not in value:
        return pack_attribute(23 + (name == "dport"), struct.pack("=HH", int(low), int(high or low)))
    number, _, mask = (int(it, 0) if it and it != "/" else 0 for it in value.partition("/"))
    if name == "tos":
        return b""  # in the header
    if name == "dscp":
        return pack_attribute(25, bytes([number])) + pack_attribute(30, bytes([mask or 0x3F]))
    if name == "tun_id":
        return pack_attribute(12, number.to_bytes(8, "big"))
    if name == "flowlabel":
        return pack_attribute(26, number.to_bytes(4, "big")) + pack_attribute(27, mask.to_bytes(4, "big"))
    ports, port_mask = {"sport": (23, 28), "dport": (24, 29)}[name]
    return pack_attribute(ports, struct.pack("=HH", number, number)) + pack_attribute(
        port_mask, struct.pack("=H", mask)
    )


def _read_others(attributes: Attributes) -> list[tuple[str, str]]:
    """The attributes that few rules have."""
    found = []
    if 12 in attributes:
        found.append(("tun_id", str(int.from_bytes(attributes[12], "big"))))
    if 26 in attributes:
        found.append(("flowlabel", "/".join(f"{int.from_bytes(attributes[kind], 'big'):#x}" for kind in (26, 27))))
    for name, ports, kind in (("sport", 23, 28), ("dport", 24, 29)):
        mask = struct.unpack("=H", attributes[kind])[0] if kind in attributes else 0xFFFF
        found += [(name, f"{struct.unpack_from('=H', attributes[ports])[0]:#x}/{mask:#x}")] if mask != 0xFFFF else []
    return found


def read_rule(body: memoryview) -> Rule:
    """The rule in a message body."""
    number, dst, src, tos, table, _, _, action, flags = struct.unpack_from("=8BI", body)
    family, attributes = FAMILY[number], read_attributes(body[12:])

    def block(kind: int, length: int) -> Prefix | None:
        return Prefix(family, int.from_bytes(attributes[kind], "big"), length) if kind in attributes else None

    def pair(kind: int, form: str) -> tuple[int, int] | None:
        return struct.unpack(form, attributes[kind]) if kind in attributes else None

    def name(kind: int) -> str | None:
        return bytes(attributes[kind]).rstrip(b"\0").decode() if kind in attributes else None

    numbers = {kind: read_number(value) for kind, value in attributes.items() if len(value) == 4}
    said: RuleAction = next(word for word, it in _ACTIONS.items() if it == action)
    uids = pair(20, "=II")
    others = _read_others(attributes)
    suppress = {kind: None if numbers.get(kind) == 0xFFFFFFFF else numbers.get(kind) for kind in (13, 14)}
    return rule(
        family=family,
        priority=numbers.get(6, 0),
        action=said,
        table=numbers.get(15, table),
        target=numbers.get(4),
        invert=bool(flags & 2),
        src=block(2, src),
        dst=block(1, dst),
        iif=name(3),
        oif=name(17),
        fwmark=numbers.get(10, 0),
        fwmask=numbers.get(16, 0),
        tos=tos,
        dscp=(attributes[25][0], attributes[30][0]) if 25 in attributes else None,
        uids=uids,
        ipproto=attributes[22][0] if 22 in attributes else 0,
        sports=None if "sport" in dict(others) else pair(23, "=HH"),
        dports=None if "dport" in dict(others) else pair(24, "=HH"),
        others=tuple(others),
        suppress_prefixlength=suppress[14],
        suppress_ifgroup=suppress[13],
        protocol=attributes[21][0] if 21 in attributes else 0,
    )


def pack_link(index: int = 0, *, flags: int = 0, change: int = 0) -> bytes:
    """The head of a message about a link."""
    return struct.pack("=BBHiII", 0, 0, 0, index, flags, change)


def pack_gateway(leg: NextHop, family: int) -> bytes:
    """The attribute for the gateway of a next hop, if it has one."""
    if leg.gateway is None:
        return b""
    if leg.gateway.version == family:
        return pack_attribute(5, leg.gateway.packed)
    return pack_attribute(18, struct.pack("=H", AF[leg.gateway.version]) + leg.gateway.packed)


def pack_attribute(kind: int, value: bytes) -> bytes:
    """One attribute."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def pack_nest(kind: int, value: bytes) -> bytes:
    """A nested attribute."""
    return pack_attribute(kind | 0x8000, value)


def pack_text(kind: int, value: str) -> bytes:
    """An attribute with a text value."""
    return pack_attribute(kind, value.encode() + b"\0")


def read_attributes(body: memoryview) -> Attributes:
    """The attributes of a body, by their numbers."""
    found: Attributes = {}
    while len(body) >= 4:
        length, kind = struct.unpack_from("=HH", body)
        found[kind & 0x3FFF] = body[4:length]
        body = body[(length + 3) & ~3 :]
    return found


def read_number(value: memoryview) -> int:
    """The value of an attribute as a number."""
    number: int = struct.unpack("=I", value)[0]
    return number


def read_ip(family: int, value: memoryview) -> IP:
    """The value of an attribute as an address."""
    return ip_at(family, int.from_bytes(value, "big"))
