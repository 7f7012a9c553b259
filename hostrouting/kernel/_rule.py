"""Every selector of a rule as a value: for the netlink reader, the fake kernel and the engine behind it.

A `model.Rule` has most selectors as text. `FullRule.of` reads that text, and `FullRule.rule` writes it. `SELECTORS` has
one entry for each condition of a rule on a packet: how it is read from the kernel's message, which packets match, and
how it is worded.
"""

import struct
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache
from sys import byteorder
from typing import Any

import attrs

from hostrouting.model.prefix import IPV4, IPV6, Prefix, width_of
from hostrouting.model.rule import Rule


@attrs.frozen(kw_only=True)
class FullRule(Rule):
    """A rule with a field for each selector; `others` are those that have no entry in `SELECTORS`."""

    oif: str | None = None
    tos: int = 0
    # A DSCP value (six bits), and the mask of the bits that are compared.
    dscp: tuple[int, int] | None = None
    uids: tuple[int, int] | None = None
    ipproto: int = 0
    sports: tuple[int, int] | None = None
    dports: tuple[int, int] | None = None

    @staticmethod
    @lru_cache(4096)
    def of(rule: Rule) -> "FullRule":
        """The rule with the selectors that its texts name; a text that cannot be read stays among the others."""
        values: dict[str, Any] = {name: getattr(rule, name) for name in _FIELDS_OF_RULE}
        others = []
        for word, text in rule.others:
            selector = _BY_WORD.get(word)
            if selector is None or selector.field in values or (value := selector.parsed(text)) is None:
                others.append((word, text))
            else:
                values[selector.field] = value
        return FullRule(**values | {"others": tuple(others)})

    @cached_property
    def rule(self) -> Rule:
        """The same rule with these selectors as text."""
        texts = [
            (selector.word, selector.text(self))
            for selector in SELECTORS
            if selector.field not in _FIELDS_OF_RULE and selector.says(self)
        ]
        values: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS_OF_RULE}
        return Rule(**values | {"others": (*texts, *self.others)})


_FIELDS_OF_RULE = frozenset(attrs.fields_dict(Rule))


class Selector:
    """One condition of a rule on a packet: this class compares a number; other kinds of value are subclasses.

    `field` is the rule's field, and `fields` all fields of the selector; `flow` is the field of a Flow with the
    packet's value. `attribute` and `mask` are the kernel's numbers (FRA_…). If `loose`, Linux treats two rules as equal
    even if only one of them has the selector. If not `worded`, the selector is not printed, because the rule's action
    already shows it.
    """

    most, worded = 0xFFFFFFFF, True

    def __init__(
        self, word: str, *fields: str, flow: str = "", attribute: int = 0, mask: int = 0, loose: bool = False
    ) -> None:
        """Give the word that `ip rule` uses, and the fields described in the class."""
        self.word, self.field, self.fields, self.flow = word, fields[0], fields, flow
        self.attribute, self.mask, self.loose = attribute, mask, loose

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  some need it
        """The values of the selector's fields in a kernel message, from the attributes and the fixed header."""
        return (int.from_bytes(raw.get(self.attribute, b""), byteorder),)

    def says(self, rule: FullRule) -> bool:
        """Whether the rule has this selector."""
        return bool(getattr(rule, self.field))

    def text(self, rule: FullRule) -> str:
        """The value in the rule, as text."""
        return str(getattr(rule, self.field))

    def parsed(self, text: str) -> Any:
        """The value in this text; None if there is none."""
        try:
            value = self.parse(text)
        except ValueError:
            return None
        numbers = value if isinstance(value, tuple) else (value,)
        return value if all(isinstance(number, str) or 0 <= number <= self.most for number in numbers) else None

    def parse(self, text: str) -> Any:
        """The value in a text as `text` writes it; raises ValueError."""
        return int(text, 0)

    def shown(self, rule: FullRule, devs: Collection[str]) -> str:  # noqa: ARG002  some need it
        """The selector as `ip rule` prints it on a host with these devices."""
        return f"{self.word} {self.text(rule)}"

    def bounds(self, rule: FullRule) -> tuple[int, int, int | None]:
        """The packets that match: numbers from the first to the second; or, with a mask, those bits of the first."""
        value = getattr(rule, self.field)
        return value, value, None

    def possible(self, rule: FullRule, devs: Collection[str]) -> bool:  # noqa: ARG002  some need it
        """Whether any packet on a host with these devices can match."""
        return True

    def number(self, said: Any, family: int) -> int:  # noqa: ARG002  some need it
        """The value in a flow, as the number to compare."""
        return int(said)

    def refusal(self, rule: FullRule) -> str:  # noqa: ARG002  some need it
        """The error text with which Linux refuses this value; empty if Linux accepts it."""
        return ""


class _Number(Selector):
    """An IP protocol, by its name if it has one."""

    most = 0xFFFF
    _names: Mapping[int, str] = {1: "icmp", 6: "tcp", 17: "udp", 58: "ipv6-icmp"}

    def text(self, rule: FullRule) -> str:
        return self._names.get(rule.ipproto) or str(rule.ipproto)

    def parse(self, text: str) -> int:
        return next((number for number, name in self._names.items() if name == text), None) or int(text)


class _Block(Selector):
    """A block of addresses."""

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        length = header[self.field]
        if not length or self.attribute not in raw:
            return (None,)
        return (Prefix.around(header["family"], int.from_bytes(raw[self.attribute], "big"), length),)

    def text(self, rule: FullRule) -> str:
        block: Prefix = getattr(rule, self.field)
        return str(block.ip if block.length == width_of(block.family) else block)

    def bounds(self, rule: FullRule) -> tuple[int, int, int | None]:
        block: Prefix = getattr(rule, self.field)
        return block.first, block.last, None

    def number(self, said: Any, family: int) -> int:
        return int(said) if said.version == family else -1


class _Device(Selector):
    """A device, by its name. A rule for a device that does not exist matches no packet."""

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  as above
        if self.attribute not in raw:
            return (None,)
        # Bytes that are not text are decoded anyway; the result is not the name of any device.
        return (raw[self.attribute].partition(b"\0")[0].decode(errors="backslashreplace"),)

    def parse(self, text: str) -> str:
        return text

    def shown(self, rule: FullRule, devs: Collection[str]) -> str:
        dev = getattr(rule, self.field)
        return f"{self.word} {dev}{'' if dev in devs else ' [detached]'}"

    def bounds(self, rule: FullRule) -> tuple[int, int, int | None]:
        number = self.number(getattr(rule, self.field), rule.family)
        return number, number, None

    def possible(self, rule: FullRule, devs: Collection[str]) -> bool:
        dev = getattr(rule, self.field)
        return dev == "lo" or dev in devs

    def number(self, said: Any, family: int) -> int:  # noqa: ARG002  as above
        return int.from_bytes(said.encode(), "big")


class _Mark(Selector):
    """Bits of a number; its second field is the mask."""

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        return (*super().decode(raw, header), int.from_bytes(raw.get(self.mask, b""), byteorder))

    def says(self, rule: FullRule) -> bool:
        return bool(rule.fwmask)

    def text(self, rule: FullRule) -> str:
        return f"{rule.fwmark:#x}/{rule.fwmask:#x}".removesuffix("/0xffffffff")

    def bounds(self, rule: FullRule) -> tuple[int, int, int | None]:
        return rule.fwmark, rule.fwmark, rule.fwmask


class _Tos(Selector):
    """A type of service."""

    most = 0xFF

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  as above
        return (header[self.field],)

    def text(self, rule: FullRule) -> str:
        return f"{rule.tos:#x}"

    def shown(self, rule: FullRule, devs: Collection[str]) -> str:  # noqa: ARG002  as above
        return f"{self.word} {tos_name(rule.tos)}"

    def bounds(self, rule: FullRule) -> tuple[int, int, int | None]:
        return tos_bits(rule.tos, rule.family)

    def possible(self, rule: FullRule, devs: Collection[str]) -> bool:  # noqa: ARG002  as above
        asked, _, seen = tos_bits(rule.tos, rule.family)
        return not asked & ~seen


class _Dscp(Selector):
    """Bits of a packet's DSCP, since Linux 6.13: all six, also in IPv4. A DSCP of 0 is a value like any other."""

    most = 0x3F

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  as above
        if self.attribute not in raw:
            return (None,)
        return ((raw[self.attribute][0], raw[self.mask][0] if self.mask in raw else self.most),)

    def says(self, rule: FullRule) -> bool:
        return rule.dscp is not None

    def text(self, rule: FullRule) -> str:
        value, mask = rule.dscp or (0, 0)
        return f"{value:#x}/{mask:#x}".removesuffix("/0x3f")

    def parse(self, text: str) -> tuple[int, int]:
        value, _, mask = text.partition("/")
        return int(value, 0), int(mask, 0) if mask else self.most

    def bounds(self, rule: FullRule) -> tuple[int, int, int | None]:
        value, mask = rule.dscp or (0, 0)
        return (value & mask) << 2, (value & mask) << 2, mask << 2


class _Users(Selector):
    """Users, by their numbers from one to another."""

    form = "=II"

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  as above
        return (struct.unpack(self.form, raw[self.attribute]) if self.attribute in raw else None,)

    def text(self, rule: FullRule) -> str:
        low, high = getattr(rule, self.field)
        return f"{low}-{high}"

    def parse(self, text: str) -> tuple[int, int]:
        low, _, high = text.partition("-")
        return int(low), int(high or low)

    def bounds(self, rule: FullRule) -> tuple[int, int, int | None]:
        low, high = getattr(rule, self.field)
        return low, high, None

    def refusal(self, rule: FullRule) -> str:
        low, high = getattr(rule, self.field) or (0, 0)
        return "" if low <= high else "Invalid uid range"


class _Ports(_Users):
    """Ports; with a mask (since Linux 6.17) they are among the others."""

    form, most = "=HH", 0xFFFF

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        return super().decode(raw, header) if raw.get(self.mask, _EVERY_PORT) == _EVERY_PORT else (None,)

    def text(self, rule: FullRule) -> str:
        low, high = getattr(rule, self.field)
        return str(low) if low == high else f"{low}-{high}"

    def refusal(self, rule: FullRule) -> str:
        ports = getattr(rule, self.field)
        return "" if ports is None or 0 < ports[0] <= ports[1] < 0xFFFF else "Invalid port range"


class _Vrf(Selector):
    """Packets in a VRF: no lookup here can specify a VRF, so no packet matches."""

    worded = False

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        return (bool(super().decode(raw, header)[0]),)

    def text(self, rule: FullRule) -> str:  # noqa: ARG002  as above
        return "a VRF"

    def possible(self, rule: FullRule, devs: Collection[str]) -> bool:  # noqa: ARG002  as above
        return False


_EVERY_PORT = b"\xff\xff"

TO = _Block("to", "dst", attribute=1, loose=True)
"""The only selector on the destination; the engine walks each range of destinations separately."""

SELECTORS: tuple[Selector, ...] = (
    _Vrf("in", "l3mdev", attribute=19),
    _Block("from", "src", flow="source", attribute=2, loose=True),
    TO,
    _Tos("tos", "tos", flow="tos", loose=True),
    _Dscp("dscp", "dscp", flow="tos", attribute=25, mask=30, loose=True),
    _Mark("fwmark", "fwmark", "fwmask", flow="mark", attribute=10, mask=16),
    _Device("iif", "iif", flow="iif", attribute=3),
    _Device("oif", "oif", flow="oif", attribute=17),
    _Users("uidrange", "uids", flow="uid", attribute=20),
    _Number("ipproto", "ipproto", flow="ipproto", attribute=22),
    _Ports("sport", "sports", flow="sport", attribute=23, mask=28),
    _Ports("dport", "dports", flow="dport", attribute=24, mask=29),
)
"""Every selector, in the order in which `ip rule` prints them."""

_BY_WORD = {selector.word: selector for selector in SELECTORS}


def selector_of(word: str) -> Selector:
    """The entry with this name."""
    return _BY_WORD[word]


# The two lowest bits of tos are for congestion notification, and IPv4 also ignores the three highest bits of a packet's
# tos. The tos of a rule or a route may still have these bits set: then it matches no packet.
_ASKED = 0xFC
_SEEN = {IPV4: 0x1C, IPV6: 0xFC}
# The named classes of differentiated services.
_CLASSES = {
    **{number << 5: f"CS{number}" for number in range(1, 8)},
    **{number << 5 | drop << 3: f"AF{number}{drop}" for number in range(1, 5) for drop in range(1, 4)},
    0xB8: "EF",
}


def tos_bits(tos: int, family: int = IPV4) -> tuple[int, int, int]:
    """The packets that match the tos of a rule or a route, in the form of `Selector.bounds`."""
    return tos & _ASKED, tos & _ASKED, _SEEN[family]


def tos_name(tos: int) -> str:
    """A tos as `ip` prints it."""
    return _CLASSES.get(tos) or f"{tos:#04x}"
