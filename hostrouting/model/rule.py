"""Policy rules: which table is asked, for which packets, in which order; and all that is known of each selector.

Here: one rule as the kernel lists it, and `SELECTORS`, with one entry for each thing that a rule can ask of a packet:
how it is read from the kernel's message, which packets have it, how it is worded, and values to try. Who decodes,
matches, words, compares or generates rules goes through the entries and names no selector. Not here: whether a rule
matches a packet of which this much is known (`hostrouting.fib`).

To add a selector: a field of Rule, a field of `hostrouting.fib.Flow` where a lookup can be told it, an entry in
`SELECTORS`, and a row in `tests/hostrouting/test_selectors.py`, which fails while one of them is missing.
"""

import struct
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from sys import byteorder
from typing import Any, Literal, TypeAlias

import attrs

from hostrouting.model.prefix import IPV4, IPV6, Prefix, width_of
from hostrouting.model.route import TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, table_name

__all__ = [
    "SELECTORS",
    "TO",
    "Rule",
    "RuleAction",
    "Selector",
    "by_priority",
    "default_rules",
    "selector_of",
    "tos_bits",
    "tos_name",
]


RuleAction: TypeAlias = Literal["to_table", "goto", "nop", "blackhole", "unreachable", "prohibit"]


@attrs.frozen(kw_only=True)
class Rule:
    """A policy rule. What a selector does not say, it does not look at; `None` and 0 say nothing."""

    family: int
    priority: int
    action: RuleAction = "to_table"
    table: int = 0
    # The priority at which a goto goes on.
    target: int | None = None
    invert: bool = False
    src: Prefix | None = None
    dst: Prefix | None = None
    iif: str | None = None
    oif: str | None = None
    fwmark: int = 0
    fwmask: int = 0
    tos: int = 0
    uids: tuple[int, int] | None = None
    ipproto: int = 0
    sports: tuple[int, int] | None = None
    dports: tuple[int, int] | None = None
    # What else it selects on, each by its name and value: this library cannot tell which packets those are.
    others: tuple[tuple[str, str], ...] = ()
    # Asks the table of the VRF that the packet is in; it never matches a packet outside of every VRF.
    l3mdev: bool = False
    suppress_prefixlength: int | None = None
    suppress_ifgroup: int | None = None
    protocol: int = 0

    def __str__(self) -> str:
        words = ["not"] if self.invert else []
        words += [] if self.src else ["from all"]
        words += [f"{name} {value}" for name, value in self.selectors()]
        if self.action == "goto":
            words.append(f"goto {self.target}")
        elif self.action != "to_table":
            words.append(self.action)
        else:
            words.append("lookup [l3mdev-table]" if self.l3mdev else f"lookup {table_name(self.table)}")
        if self.suppress_prefixlength is not None:
            words.append(f"suppress_prefixlength {self.suppress_prefixlength}")
        if self.suppress_ifgroup is not None:
            words.append(f"suppress_ifgroup {self.suppress_ifgroup}")
        return f"{self.priority}: {' '.join(words)}"

    def __repr__(self) -> str:
        return f"<Rule {'' if self.family == IPV4 else 'of IPv6, '}{self}>"

    def selectors(self) -> tuple[tuple[str, str], ...]:
        """What it selects on, each with its value, in the words of `ip rule`."""
        said = [(it.word, it.text(self)) for it in SELECTORS if it.worded and it.says(self)]
        return (*said, *self.others)


class Selector:
    """One thing that a rule can ask of a packet: here, a number that it has. A kind of value is a subclass.

    `field` is the rule's field, and `fields` are all that belong to it; `flow` is the field of a Flow that says it
    of a packet. `attribute` and `mask` are the numbers of the kernel's (FRA_…). `examples` are values to try, those of
    all fields together; a block has none, and may be any. Where `loose`, Linux takes two rules for the same one even
    if only one of them says it. What is not `worded` is told by what the rule does.
    """

    most, worded = 0xFFFFFFFF, True

    def __init__(
        self,
        word: str,
        *fields: str,
        flow: str = "",
        attribute: int = 0,
        mask: int = 0,
        loose: bool = False,
        examples: Iterable[tuple[Any, ...]] = (),
    ) -> None:
        """Give the word of `ip rule`, and what the class says."""
        self.word, self.field, self.fields, self.flow = word, fields[0], fields, flow
        self.attribute, self.mask, self.loose, self.examples = attribute, mask, loose, tuple(examples)

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  some need it
        """The values of its fields in a message of the kernel's: from its attributes, and from its fixed part."""
        return (int.from_bytes(raw.get(self.attribute, b""), byteorder),)

    def says(self, rule: Rule) -> bool:
        """Whether the rule asks for it."""
        return bool(getattr(rule, self.field))

    def text(self, rule: Rule) -> str:
        """What it asks for, as a value that can be read again."""
        return str(getattr(rule, self.field))

    def shown(self, rule: Rule, devs: Collection[str]) -> str:  # noqa: ARG002  some need it
        """What it asks for, as `ip rule` prints it on a host with these devices."""
        return f"{self.word} {self.text(rule)}"

    def bounds(self, rule: Rule) -> tuple[int, int, int | None]:
        """Which packets have it: those with a number between the two; or, with a mask, with those bits of the first."""
        value = getattr(rule, self.field)
        return value, value, None

    def possible(self, rule: Rule, devs: Collection[str]) -> bool:  # noqa: ARG002  some need it
        """Whether any packet of a host with these devices can have it."""
        return True

    def number(self, said: Any, family: int) -> int:  # noqa: ARG002  some need it
        """What a flow says of a packet, as the number that is compared."""
        return int(said)

    def packets(self, text: str) -> tuple[str, str]:
        """Which packets are meant, and which are the others, to stand behind "packets"."""
        return f"with {self.word} {text}", f"without {self.word} {text}"

    def fault(self, rule: Rule) -> tuple[str, str] | None:  # noqa: ARG002  some need it
        """The field that cannot be as it is, and why."""
        return None

    def refusal(self, rule: Rule) -> str:  # noqa: ARG002  some need it
        """The words with which Linux refuses the rule for it; empty where it does not."""
        return ""


class _Number(Selector):
    """An IP protocol, which some print by its name."""

    most = 0xFFFF
    _names: Mapping[int, str] = {1: "icmp", 6: "tcp", 17: "udp", 58: "ipv6-icmp"}

    def shown(self, rule: Rule, devs: Collection[str]) -> str:  # noqa: ARG002  as above
        number = getattr(rule, self.field)
        return f"{self.word} {self._names.get(number) or f'{self.word}-{number}'}"


class _Block(Selector):
    """A block of addresses."""

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        length = header[self.field]
        if not length or self.attribute not in raw:
            return (None,)
        return (Prefix.around(header["family"], int.from_bytes(raw[self.attribute], "big"), length),)

    def shown(self, rule: Rule, devs: Collection[str]) -> str:  # noqa: ARG002  as above
        block: Prefix = getattr(rule, self.field)
        return f"{self.word} {block.ip if block.length == width_of(block.family) else block}"

    def bounds(self, rule: Rule) -> tuple[int, int, int | None]:
        block: Prefix = getattr(rule, self.field)
        return block.first, block.last, None

    def number(self, said: Any, family: int) -> int:
        return int(said) if said.version == family else -1

    def packets(self, text: str) -> tuple[str, str]:
        phrase = f"{self.word} {text.removesuffix('/128' if ':' in text else '/32')}"
        return phrase, f"not {phrase}"

    def fault(self, rule: Rule) -> tuple[str, str] | None:
        block = getattr(rule, self.field)
        wrong = block is not None and block.family != rule.family
        return (self.field, f"{block} in a rule of IPv{rule.family}") if wrong else None


class _Device(Selector):
    """A device, by its name. A rule for one that is not there is for no packet."""

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  as above
        if self.attribute not in raw:
            return (None,)
        # What is no text can be read, and is not a name by which a device is found.
        return (raw[self.attribute].partition(b"\0")[0].decode(errors="backslashreplace"),)

    def shown(self, rule: Rule, devs: Collection[str]) -> str:
        dev = getattr(rule, self.field)
        return f"{self.word} {dev}{'' if dev in devs else ' [detached]'}"

    def bounds(self, rule: Rule) -> tuple[int, int, int | None]:
        number = self.number(getattr(rule, self.field), rule.family)
        return number, number, None

    def possible(self, rule: Rule, devs: Collection[str]) -> bool:
        dev = getattr(rule, self.field)
        return dev == "lo" or dev in devs

    def number(self, said: Any, family: int) -> int:  # noqa: ARG002  as above
        return int.from_bytes(said.encode(), "big")

    def packets(self, text: str) -> tuple[str, str]:
        if self.word == "oif":
            return f"from sockets bound to {text}", f"not from sockets bound to {text}"
        if text == "lo":
            return "of this host's own", "forwarded by this host"
        return f"that come in by {text}", f"that do not come in by {text}"


class _Mark(Selector):
    """Bits of a number; its second field is the mask."""

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        return (*super().decode(raw, header), int.from_bytes(raw.get(self.mask, b""), byteorder))

    def says(self, rule: Rule) -> bool:
        return bool(rule.fwmask)

    def text(self, rule: Rule) -> str:
        return f"{rule.fwmark:#x}/{rule.fwmask:#x}"

    def shown(self, rule: Rule, devs: Collection[str]) -> str:  # noqa: ARG002  as above
        return f"{self.word} {self.text(rule).removesuffix(_WHOLE_MASK)}"

    def bounds(self, rule: Rule) -> tuple[int, int, int | None]:
        return rule.fwmark, rule.fwmark, rule.fwmask

    def packets(self, text: str) -> tuple[str, str]:
        return super().packets(text.removesuffix(_WHOLE_MASK))


class _Tos(Selector):
    """A type of service; since Linux 6.13 a rule can give all six bits of the DSCP instead."""

    most = 0xFF

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        whole = self.attribute in raw and raw.get(self.mask, _EVERY_DSCP) == _EVERY_DSCP
        return ((raw[self.attribute][0] << 2 if whole else 0) or header[self.field],)

    def text(self, rule: Rule) -> str:
        return f"{rule.tos:#x}"

    def shown(self, rule: Rule, devs: Collection[str]) -> str:  # noqa: ARG002  as above
        return f"{self.word} {tos_name(rule.tos)}"

    def bounds(self, rule: Rule) -> tuple[int, int, int | None]:
        return tos_bits(rule.tos, rule.family)

    def possible(self, rule: Rule, devs: Collection[str]) -> bool:  # noqa: ARG002  as above
        asked, _, seen = tos_bits(rule.tos, rule.family)
        return not asked & ~seen


class _Range(Selector):
    """Numbers from one to another."""

    form = "=II"

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  as above
        return (struct.unpack(self.form, raw[self.attribute]) if self.attribute in raw else None,)

    def text(self, rule: Rule) -> str:
        low, high = getattr(rule, self.field)
        return f"{low}-{high}"

    def bounds(self, rule: Rule) -> tuple[int, int, int | None]:
        low, high = getattr(rule, self.field)
        return low, high, None

    def fault(self, rule: Rule) -> tuple[str, str] | None:
        span = getattr(rule, self.field)
        if span is None or span[0] <= span[1]:
            return None
        return self.field, f"{span[0]}-{span[1]} is no range: it ends before it begins"


class _Users(_Range):
    """Users, by their numbers."""

    def packets(self, text: str) -> tuple[str, str]:
        first, _, last = text.partition("-")
        phrase = f"of user {first}" if first == last else f"of users {text}"
        return phrase, f"not {phrase}"

    def refusal(self, rule: Rule) -> str:
        return "Invalid uid range" if self.fault(rule) else ""


class _Ports(_Range):
    """Ports; with a mask (since Linux 6.17) they are among `Rule.others`."""

    form = "=HH"

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        return super().decode(raw, header) if raw.get(self.mask, _EVERY_PORT) == _EVERY_PORT else (None,)

    def shown(self, rule: Rule, devs: Collection[str]) -> str:  # noqa: ARG002  as above
        return f"{self.word} {_single(self.text(rule))}"

    def packets(self, text: str) -> tuple[str, str]:
        return super().packets(_single(text))

    def refusal(self, rule: Rule) -> str:
        ports = getattr(rule, self.field)
        return "" if ports is None or 0 < ports[0] <= ports[1] < 0xFFFF else "Invalid port range"


class _Vrf(Selector):
    """Packets in a VRF: no lookup here is told of one, so that no packet has it."""

    worded = False

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        return (bool(super().decode(raw, header)[0]),)

    def text(self, rule: Rule) -> str:  # noqa: ARG002  as above
        return "a VRF"

    def possible(self, rule: Rule, devs: Collection[str]) -> bool:  # noqa: ARG002  as above
        return False


_WHOLE_MASK, _EVERY_PORT, _EVERY_DSCP = "/0xffffffff", b"\xff\xff", b"\x3f"

TO = _Block("to", "dst", attribute=1, loose=True)
"""The one selector that is about the destination; the engine walks each range of destinations by itself."""

SELECTORS: tuple[Selector, ...] = (
    _Vrf("in", "l3mdev", attribute=19),
    _Block("from", "src", flow="source", attribute=2, loose=True),
    TO,
    _Tos("tos", "tos", flow="tos", attribute=25, mask=30, loose=True, examples=[(0x10,)]),
    _Mark("fwmark", "fwmark", "fwmask", flow="mark", attribute=10, mask=16, examples=[(1, 1), (0, 3), (2, 0xFF)]),
    _Device("iif", "iif", flow="iif", attribute=3, examples=[("lo",), ("eth0",), ("eth1",), ("ib0",), ("gone",)]),
    _Device("oif", "oif", flow="oif", attribute=17, examples=[("eth0",), ("eth1",), ("ib0",), ("wg0",)]),
    _Users("uidrange", "uids", flow="uid", attribute=20, examples=[((0, 0),), ((1000, 1999),)]),
    _Number("ipproto", "ipproto", flow="ipproto", attribute=22, examples=[(6,), (17,)]),
    _Ports("sport", "sports", flow="sport", attribute=23, mask=28, examples=[((1, 1023),)]),
    _Ports("dport", "dports", flow="dport", attribute=24, mask=29, examples=[((53, 53),)]),
)
"""Each thing that a rule can ask of a packet, in the order of `ip rule`."""

_BY_WORD = {selector.word: selector for selector in SELECTORS}


def selector_of(word: str) -> Selector:
    """The entry of this name; for what is not known here, one that only has a name."""
    return _BY_WORD.get(word) or Selector(word, "others")


# The two lowest bits of tos belong to congestion notification; of a packet's, IPv4 does not look at the three highest
# either. What a rule or a route asks for may have them all the same: then it is for no packet.
_ASKED = 0xFC
_SEEN = {IPV4: 0x1C, IPV6: 0xFC}
# The classes of differentiated services that have names.
_CLASSES = {
    **{number << 5: f"CS{number}" for number in range(1, 8)},
    **{number << 5 | drop << 3: f"AF{number}{drop}" for number in range(1, 5) for drop in range(1, 4)},
    0xB8: "EF",
}


def tos_bits(tos: int, family: int = IPV4) -> tuple[int, int, int]:
    """Which packets have the tos that a rule or a route asks for, as `Selector.bounds` says it."""
    return tos & _ASKED, tos & _ASKED, _SEEN[family]


def tos_name(tos: int) -> str:
    """A tos as `ip` prints it."""
    return _CLASSES.get(tos) or f"{tos:#04x}"


def _single(text: str) -> str:
    """A range as text; one of a single number as that number."""
    first, _, last = text.partition("-")
    return first if first == last else text


def by_priority(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Rules in the order in which they are asked; those of one priority as they were given."""
    return tuple(sorted(rules, key=lambda rule: rule.priority))


@cache
def default_rules(family: int) -> tuple[Rule, ...]:
    """The rules that every namespace starts with: local, main and, in IPv4, default."""
    local = Rule(family=family, priority=0, table=TABLE_LOCAL, protocol=2)
    main = Rule(family=family, priority=32766, table=TABLE_MAIN, protocol=2)
    default = Rule(family=family, priority=32767, table=TABLE_DEFAULT, protocol=2)
    return (local, main, default) if family == IPV4 else (local, main)
