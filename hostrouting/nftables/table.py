"""The parts of an nftables table as we create it: frozen values, and their text in nft's own syntax.

Here: the table, its chains, its rules, and the statements that we use; anything else is an `Unknown`. Two tables are
equal if they mean the same: sets are sorted, networks that overlap or adjoin are joined as nft joins them, addresses
are compared by value, and the order of rules and statements is kept. Handles and packet counts are left out. Not here:
nft's JSON (`listing`).

The family is always ip6. A value may describe a table of another program, under any name; which tables we would create
is checked where they become commands for nft (`listing.replacing`).
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, IPv6Network, collapse_addresses
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "FIELDS",
    "Chain",
    "Counter",
    "Field",
    "Match",
    "Rewrite",
    "Rule",
    "Statement",
    "Table",
    "Unknown",
    "Value",
    "Verdict",
]

Field: TypeAlias = Literal["iifname", "oifname", "ip6 saddr", "ip6 daddr", "icmpv6 type"]
"""A field of a packet, as nft names it."""

Value: TypeAlias = str | int | IPv6Network
"""The name of a device, the number of an ICMPv6 type, or addresses."""

FIELDS: dict[Field, type[Value]] = {
    "iifname": str,
    "oifname": str,
    "ip6 saddr": IPv6Network,
    "ip6 daddr": IPv6Network,
    "icmpv6 type": int,
}
"""Each field with the type of its values."""

_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,15}", re.ASCII)
_ADDRESS_BITS = 128


def _values(given: Iterable[str | int | IPv6Address | IPv6Network]) -> tuple[Value, ...]:
    """The values as they are stored; text with a colon is an address, because device names have no colon."""
    read: list[Value] = []
    networks: list[IPv6Network] = []
    for value in given:
        if isinstance(value, IPv6Address | IPv6Network) or (isinstance(value, str) and ":" in value):
            if "%" in str(value):
                raise ValueError(f"{str(value)!a} has a zone; leave it out and match the device by name")
            networks.append(IPv6Network(value))
        else:
            read.append(value)
    return (*sorted(set(read), key=lambda it: (isinstance(it, str), it)), *collapse_addresses(networks))


def _address(given: str | IPv6Address) -> IPv6Address:
    address = IPv6Address(given)
    if address.scope_id is not None:
        raise ValueError(f"{str(address)!a} has a zone, but addresses in packets do not: leave it out")
    return address


@attrs.frozen
class Match:
    """Matches packets whose field has one of these values; with `negated`, packets whose field has none of them.

    Match("ip6 daddr", ["fe80::/10", "ff00::/8"])
    """

    field: Field
    values: tuple[Value, ...] = attrs.field(converter=_values)
    negated: bool = False

    def __attrs_post_init__(self) -> None:
        """Check that there is at least one value, and that all of them fit the field."""
        if self.field not in FIELDS:
            raise ValueError(f"{self.field!a} is not a supported field; use one of {', '.join(FIELDS)}")
        if not self.values:
            raise ValueError(
                f"{self.field} has no values, and nft does not allow empty sets in rules: leave the match out"
            )
        for value in self.values:
            if not _fits(self.field, value):
                rule = (
                    "a name that matches [A-Za-z0-9_.-]{1,15}" if FIELDS[self.field] is str else _EXPECTED[self.field]
                )
                raise ValueError(f"{self.field} cannot be {_spelled(value)}: use {rule}")

    def __str__(self) -> str:
        texts = [_worded(value) for value in self.values]
        among = texts[0] if len(texts) == 1 else f"{{ {', '.join(texts)} }}"
        return f"{self.field} {'!= ' * self.negated}{among}"


_EXPECTED = {
    "ip6 saddr": "an IPv6 address, or a network such as fe80::/10",
    "ip6 daddr": "an IPv6 address, or a network such as fe80::/10",
    "icmpv6 type": "a number in 0..255",
}


def _fits(field: Field, value: Value) -> bool:
    if isinstance(value, bool) or not isinstance(value, FIELDS[field]):
        return False
    if isinstance(value, str):
        return _DEVICE.fullmatch(value) is not None and value not in {".", ".."}
    return not isinstance(value, int) or 0 <= value <= 255


def _spelled(value: Value) -> str:
    return ascii(value) if isinstance(value, str | int) else str(value)


def _worded(value: Value) -> str:
    if isinstance(value, IPv6Network):
        return str(value.network_address) if value.prefixlen == _ADDRESS_BITS else str(value)
    return f'"{value}"' if isinstance(value, str) else str(value)


@attrs.frozen
class Rewrite:
    """Change an address of the packet; nft updates the checksum that covers it."""

    field: Literal["ip6 saddr", "ip6 daddr"]
    address: IPv6Address = attrs.field(converter=_address)

    def __attrs_post_init__(self) -> None:
        """Check that the field holds an address."""
        if FIELDS.get(self.field) is not IPv6Network:
            raise ValueError(f"{self.field!a} cannot be rewritten; use ip6 saddr or ip6 daddr")

    def __str__(self) -> str:
        return f"{self.field} set {self.address}"


@attrs.frozen
class Counter:
    """Count the packet."""

    def __str__(self) -> str:
        return "counter"


@attrs.frozen
class Verdict:
    """The end of a rule: `return` leaves the chain."""

    verdict: Literal["return"] = "return"

    def __attrs_post_init__(self) -> None:
        """Check that it is `return`, the only verdict used here."""
        if self.verdict != "return":
            raise ValueError(f"{self.verdict!a} is not a supported verdict; use return")

    def __str__(self) -> str:
        return self.verdict


@attrs.frozen
class Unknown:
    """A statement, or a part of a table, that we do not create: its JSON, with sorted keys."""

    text: str

    def __str__(self) -> str:
        return f"# {self.text}"


Statement: TypeAlias = Match | Rewrite | Counter | Verdict | Unknown


def _statements(given: Iterable[Statement]) -> tuple[Statement, ...]:
    return tuple(given)


@attrs.frozen
class Rule:
    """Statements that are applied to a packet in this order, until a match fails or a verdict is reached."""

    statements: tuple[Statement, ...] = attrs.field(converter=_statements)
    comment: str = ""

    @property
    def counts(self) -> int:
        """The number of counters in it."""
        return sum(isinstance(it, Counter) for it in self.statements)

    def __str__(self) -> str:
        words = [str(it) for it in self.statements]
        return " ".join([*words, f'comment "{self.comment}"'] if self.comment else words)


def _rules(given: Iterable[Rule]) -> tuple[Rule, ...]:
    return tuple(given)


@attrs.frozen
class Chain:
    """Rules in order. A chain with a hook is a base chain: the kernel runs it for packets, in order of its priority."""

    name: str
    rules: tuple[Rule, ...] = attrs.field(converter=_rules)
    hook: str | None = None
    """None for a chain that is not a base chain; then it has no type, priority or policy."""
    priority: int = 0
    policy: str = "accept"
    type: str = "filter"

    def __str__(self) -> str:
        head = []
        if self.hook is not None:
            head = [f"type {self.type} hook {self.hook} priority {self.priority}; policy {self.policy};"]
        lines = [*head, *(str(rule) for rule in self.rules)]
        return "\n".join([f"chain {self.name} {{", *(f"\t{line}" for line in lines), "}"])


def _chains(given: Iterable[Chain]) -> tuple[Chain, ...]:
    return tuple(given)


def _flags(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(given))


def _unknowns(given: Iterable[Unknown]) -> tuple[Unknown, ...]:
    return tuple(given)


@attrs.frozen
class Table:
    """One table of the family ip6."""

    name: str
    chains: tuple[Chain, ...] = attrs.field(default=(), converter=_chains)
    flags: tuple[str, ...] = attrs.field(default=(), converter=_flags)
    """As nft names them: "dormant" for an inactive table, "owner" for one that only its owning process may change."""
    is_readable: bool = True
    """Whether nft could list its content; if not, there are no chains here."""
    others: tuple[Unknown, ...] = attrs.field(default=(), converter=_unknowns)
    """Its content apart from chains: sets, maps, and anything else that we do not create."""

    @property
    def counts(self) -> int:
        """The number of counters in its rules."""
        return sum(rule.counts for chain in self.chains for rule in chain.rules)

    def __str__(self) -> str:
        """As `nft -n -s list table` prints it; nft can read the text of any table that we would create."""
        flags = [f"flags {','.join(self.flags)}"] if self.flags else []
        unread = [] if self.is_readable else ["# nft cannot tell what is in it"]
        parts = ["\n".join([*flags, *unread])] if flags or unread else []
        parts += [str(it) for it in (*self.others, *self.chains)]
        body = "\n\n".join(parts).replace("\n", "\n\t").replace("\n\t\n", "\n\n")
        return f"table ip6 {self.name} {{\n\t{body}\n}}" if body else f"table ip6 {self.name} {{\n}}"
