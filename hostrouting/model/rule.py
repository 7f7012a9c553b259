"""Policy rules: which table is looked up, for which packets, in which order; and everything about each selector.

Here: one rule as the kernel lists it, and `SELECTORS`, with one entry for each condition of a rule on a packet: how it
is read from the kernel's message, which packets match, how it is worded, and test values. Code that decodes, matches,
words, compares or generates rules uses these entries and does not name any selector. Not here: whether a rule matches
a packet when only some of its fields are known (`hostrouting.fib`).

To add a selector: add a field to Rule, a field to `hostrouting.fib.packet.Flow` if a lookup can specify it, an entry in
`SELECTORS`, and a row in `tests/hostrouting/model/test_rule.py`, which fails as long as one of them is missing.
"""

import struct
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from sys import byteorder
from typing import Any, Literal, TypeAlias

import attrs

from hostrouting.model.prefix import IPV4, IPV6, Prefix, width_of
from hostrouting.model.route import TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, protocol_name, table_name

RuleAction: TypeAlias = Literal["to_table", "goto", "nop", "blackhole", "unreachable", "prohibit"]


@attrs.frozen(kw_only=True)
class Rule:
    """A policy rule. A selector that is `None` or 0 matches every packet."""

    family: int
    priority: int
    action: RuleAction = "to_table"
    table: int = 0
    # The priority that a goto jumps to.
    target: int | None = None
    invert: bool = False
    src: Prefix | None = None
    dst: Prefix | None = None
    iif: str | None = None
    oif: str | None = None
    fwmark: int = 0
    fwmask: int = 0
    tos: int = 0
    # A DSCP value (six bits), and the mask of the bits that are compared.
    dscp: tuple[int, int] | None = None
    uids: tuple[int, int] | None = None
    ipproto: int = 0
    sports: tuple[int, int] | None = None
    dports: tuple[int, int] | None = None
    # Its other selectors, each by name and value: this library does not know which packets they match.
    others: tuple[tuple[str, str], ...] = ()
    # Looks up the table of the packet's VRF; it never matches a packet that is not in a VRF.
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
        return f"<Rule {'' if self.family == IPV4 else 'of IPv6, '}{self} proto {protocol_name(self.protocol)}>"

    def selectors(self) -> tuple[tuple[str, str], ...]:
        """The selectors with their values, in the words of `ip rule`."""
        said = [(one.word, one.text(self)) for one in SELECTORS if one.worded and one.says(self)]
        return (*said, *self.others)

    @property
    def selection(self) -> str:
        """The packets that the rule selects, as `ip rule` prints them, but without "from all"."""
        devs = {dev for dev in (self.iif, self.oif) if dev}
        said = [one.shown(self, devs) for one in SELECTORS if one.worded and one.says(self)]
        return " ".join([*(["not"] if self.invert else []), *said, *(" ".join(other) for other in self.others)])

    def looks_up(self, table: int) -> bool:
        """Whether the rule looks up the table for all packets, and uses each of its routes."""
        if self.table != table or self.action != "to_table" or self.selection:
            return False
        return self.suppress_prefixlength is None and self.suppress_ifgroup is None


class Selector:
    """One condition of a rule on a packet: this class compares a number; other kinds of value are subclasses.

    `field` is the rule's field, and `fields` all fields of the selector; `flow` is the field of a Flow with the
    packet's value. `attribute` and `mask` are the kernel's numbers (FRA_…). `examples` are test values, each for
    all fields together; a block has no examples, because any will do. If `loose`, Linux treats two rules as equal even
    if only one of them has the selector. If not `worded`, the selector is not printed, because the rule's action
    already shows it.
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
        """Give the word that `ip rule` uses, and the fields described in the class."""
        self.word, self.field, self.fields, self.flow = word, fields[0], fields, flow
        self.attribute, self.mask, self.loose, self.examples = attribute, mask, loose, tuple(examples)

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  some need it
        """The values of the selector's fields in a kernel message, from the attributes and the fixed header."""
        return (int.from_bytes(raw.get(self.attribute, b""), byteorder),)

    def says(self, rule: Rule) -> bool:
        """Whether the rule has this selector."""
        return bool(getattr(rule, self.field))

    def text(self, rule: Rule) -> str:
        """The value in the rule, as text that can be parsed again."""
        return str(getattr(rule, self.field))

    def shown(self, rule: Rule, devs: Collection[str]) -> str:  # noqa: ARG002  some need it
        """The selector as `ip rule` prints it on a host with these devices."""
        return f"{self.word} {self.text(rule)}"

    def bounds(self, rule: Rule) -> tuple[int, int, int | None]:
        """The packets that match: numbers from the first to the second; or, with a mask, those bits of the first."""
        value = getattr(rule, self.field)
        return value, value, None

    def possible(self, rule: Rule, devs: Collection[str]) -> bool:  # noqa: ARG002  some need it
        """Whether any packet on a host with these devices can match."""
        return True

    def number(self, said: Any, family: int) -> int:  # noqa: ARG002  some need it
        """The value in a flow, as the number to compare."""
        return int(said)

    def packets(self, text: str) -> tuple[str, str]:
        """Two phrases that follow the word "packets": for those that match, and for those that do not."""
        return f"with {self.word} {text}", f"without {self.word} {text}"

    def fault(self, rule: Rule) -> tuple[str, str] | None:  # noqa: ARG002  some need it
        """The name of an invalid field, and why it is invalid; None if all are valid."""
        return None

    def refusal(self, rule: Rule) -> str:  # noqa: ARG002  some need it
        """The error text with which Linux refuses this value; empty if Linux accepts it."""
        return ""


class _Number(Selector):
    """An IP protocol, printed by its name if it has one."""

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
    """A device, by its name. A rule for a device that does not exist matches no packet."""

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  as above
        if self.attribute not in raw:
            return (None,)
        # Bytes that are not text are decoded anyway; the result is not the name of any device.
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
            return "sent by this host", "forwarded by this host"
        return f"that arrive on {text}", f"that do not arrive on {text}"


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
    """A type of service."""

    most = 0xFF

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  as above
        return (header[self.field],)

    def text(self, rule: Rule) -> str:
        return f"{rule.tos:#x}"

    def shown(self, rule: Rule, devs: Collection[str]) -> str:  # noqa: ARG002  as above
        return f"{self.word} {tos_name(rule.tos)}"

    def bounds(self, rule: Rule) -> tuple[int, int, int | None]:
        return tos_bits(rule.tos, rule.family)

    def possible(self, rule: Rule, devs: Collection[str]) -> bool:  # noqa: ARG002  as above
        asked, _, seen = tos_bits(rule.tos, rule.family)
        return not asked & ~seen


class _Dscp(Selector):
    """Bits of a packet's DSCP, since Linux 6.13: all six, also in IPv4. A DSCP of 0 is a value like any other."""

    most = 0xFF

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:  # noqa: ARG002  as above
        if self.attribute not in raw:
            return (None,)
        return ((raw[self.attribute][0], raw[self.mask][0] if self.mask in raw else _EVERY_DSCP),)

    def says(self, rule: Rule) -> bool:
        return rule.dscp is not None

    def text(self, rule: Rule) -> str:
        value, mask = rule.dscp or (0, 0)
        return f"{value:#x}/{mask:#x}"

    def shown(self, rule: Rule, devs: Collection[str]) -> str:  # noqa: ARG002  as above
        return f"{self.word} {self.text(rule).removesuffix(_WHOLE_DSCP)}"

    def bounds(self, rule: Rule) -> tuple[int, int, int | None]:
        value, mask = rule.dscp or (0, 0)
        return (value & mask) << 2, (value & mask) << 2, mask << 2

    def packets(self, text: str) -> tuple[str, str]:
        return super().packets(text.removesuffix(_WHOLE_DSCP))

    def fault(self, rule: Rule) -> tuple[str, str] | None:
        if rule.dscp is None:
            return None
        value, mask = rule.dscp
        if (value | mask) & ~_EVERY_DSCP:
            return "dscp", f"{value:#x}/{mask:#x} has more than six bits"
        return None


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
        return self.field, f"{span[0]}-{span[1]} is not a range: it ends before it begins"


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
    """Packets in a VRF: no lookup here can specify a VRF, so no packet matches."""

    worded = False

    def decode(self, raw: Mapping[int, bytes], header: Mapping[str, int]) -> tuple[Any, ...]:
        return (bool(super().decode(raw, header)[0]),)

    def text(self, rule: Rule) -> str:  # noqa: ARG002  as above
        return "a VRF"

    def possible(self, rule: Rule, devs: Collection[str]) -> bool:  # noqa: ARG002  as above
        return False


_WHOLE_MASK, _EVERY_PORT, _WHOLE_DSCP, _EVERY_DSCP = "/0xffffffff", b"\xff\xff", "/0x3f", 0x3F

TO = _Block("to", "dst", attribute=1, loose=True)
"""The only selector on the destination; the engine walks each range of destinations separately."""

SELECTORS: tuple[Selector, ...] = (
    _Vrf("in", "l3mdev", attribute=19),
    _Block("from", "src", flow="source", attribute=2, loose=True),
    TO,
    _Tos("tos", "tos", flow="tos", loose=True, examples=[(0x10,)]),
    _Dscp("dscp", "dscp", flow="tos", attribute=25, mask=30, loose=True, examples=[((4, 0x3F),), ((0, 0x38),)]),
    _Mark("fwmark", "fwmark", "fwmask", flow="mark", attribute=10, mask=16, examples=[(1, 1), (0, 3), (2, 0xFF)]),
    _Device("iif", "iif", flow="iif", attribute=3, examples=[("lo",), ("eth0",), ("eth1",), ("ib0",), ("gone",)]),
    _Device("oif", "oif", flow="oif", attribute=17, examples=[("eth0",), ("eth1",), ("ib0",), ("wg0",)]),
    _Users("uidrange", "uids", flow="uid", attribute=20, examples=[((0, 0),), ((1000, 1999),)]),
    _Number("ipproto", "ipproto", flow="ipproto", attribute=22, examples=[(6,), (17,)]),
    _Ports("sport", "sports", flow="sport", attribute=23, mask=28, examples=[((1, 1023),)]),
    _Ports("dport", "dports", flow="dport", attribute=24, mask=29, examples=[((53, 53),)]),
)
"""Every selector, in the order in which `ip rule` prints them."""

_BY_WORD = {selector.word: selector for selector in SELECTORS}


def selector_of(word: str) -> Selector:
    """The entry with this name; for an unknown selector, an entry with only a name."""
    return _BY_WORD.get(word) or Selector(word, "others")


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


def _single(text: str) -> str:
    """A range as text; a range of a single number as that number."""
    first, _, last = text.partition("-")
    return first if first == last else text


def by_priority(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Rules in the order in which the kernel applies them; rules with equal priority stay in the given order."""
    return tuple(sorted(rules, key=lambda rule: rule.priority))


@cache
def default_rules(family: int) -> tuple[Rule, ...]:
    """The rules of every new namespace: local, main and, in IPv4, default."""
    local = Rule(family=family, priority=0, table=TABLE_LOCAL, protocol=2)
    main = Rule(family=family, priority=32766, table=TABLE_MAIN, protocol=2)
    default = Rule(family=family, priority=32767, table=TABLE_DEFAULT, protocol=2)
    return (local, main, default) if family == IPV4 else (local, main)


def missing_rules(rules: Iterable[Rule], family: int) -> tuple[Rule, ...]:
    """Each of Linux's own rules whose table no rule looks up for all packets.

    A rule with another priority is a decision: Cilium moves the rule for table local to 100, behind rules of its own.
    """
    standing = [rule for rule in rules if rule.family == family]
    return tuple(rule for rule in default_rules(family) if not any(other.looks_up(rule.table) for other in standing))


def reached_tables(rules: Iterable[Rule]) -> frozenset[int] | None:
    """The tables that a rule looks up, and always Linux's own: only by mistake do these lack a rule.

    None means any table: the rule for VRFs looks up that of a device.
    """
    found = {TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT}
    for rule in rules:
        if rule.l3mdev:
            return None
        if rule.action == "to_table":
            found.add(rule.table)
    return frozenset(found)


def command_adding(rule: Rule) -> str:
    """The command that adds one of Linux's own rules."""
    ip = "ip" if rule.family == IPV4 else "ip -6"
    return f"{ip} rule add pref {rule.priority} lookup {table_name(rule.table)}"
