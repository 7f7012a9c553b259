"""A table of nftables: frozen values for its chains, rules and statements, their text, and nft's JSON for them.

Here: the table, its chains, its rules, and the statements that we use; anything else is an `Unknown`. Two tables are
equal if they mean the same: sets are sorted, networks that overlap or adjoin are joined as nft joins them, addresses
are compared by value, and the order of rules and statements is kept. Handles and packet counts are left out. Not here:
running nft (`nftables.program`).

The family is always ip6. A value may describe a table of another program, under any name, because a listing may contain
anything: unknown parts become an `Unknown`, so that a table changed by another program is never taken for ours.
Commands for nft contain only what this library creates, and anything else raises ValueError: nft reads "eth*" and
"@set" as more than names, and would do something different.
"""

from __future__ import annotations

import re
from ipaddress import (
    AddressValueError,
    IPv6Address,
    IPv6Network,
    NetmaskValueError,
    collapse_addresses,
    summarize_address_range,
)
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    "TableText",
    "Unknown",
    "Value",
    "Verdict",
    "listing",
    "read_table",
    "removing",
    "replacing",
    "require_name",
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
    return (*sorted(set(read), key=lambda value: (isinstance(value, str), value)), *collapse_addresses(networks))


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
        return sum(isinstance(statement, Counter) for statement in self.statements)

    def __str__(self) -> str:
        words = [str(statement) for statement in self.statements]
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
        parts += [str(part) for part in (*self.others, *self.chains)]
        body = "\n\n".join(parts).replace("\n", "\n\t").replace("\n\t\n", "\n\n")
        return f"table ip6 {self.name} {{\n\t{body}\n}}" if body else f"table ip6 {self.name} {{\n}}"


# nft's JSON

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_COMMENT = re.compile(r"[ !#-\[\]-~]{0,127}")
"""Printable characters without quote and backslash: nft cannot write these in its own text."""
_HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
_POLICIES = ("accept", "drop")
_FAMILY = "ip6"

_LEFT: dict[Field, Any] = {
    "iifname": {"meta": {"key": "iifname"}},
    "oifname": {"meta": {"key": "oifname"}},
    "ip6 saddr": {"payload": {"protocol": "ip6", "field": "saddr"}},
    "ip6 daddr": {"payload": {"protocol": "ip6", "field": "daddr"}},
    "icmpv6 type": {"payload": {"protocol": "icmpv6", "field": "type"}},
}
"""Each field as it is written in nft's JSON."""

_TYPES = {
    "destination-unreachable": 1,
    "packet-too-big": 2,
    "time-exceeded": 3,
    "parameter-problem": 4,
    "echo-request": 128,
    "echo-reply": 129,
    "mld-listener-query": 130,
    "mld-listener-report": 131,
    "mld-listener-done": 132,
    "mld-listener-reduction": 132,
    "nd-router-solicit": 133,
    "nd-router-advert": 134,
    "nd-neighbor-solicit": 135,
    "nd-neighbor-advert": 136,
    "nd-redirect": 137,
    "router-renumbering": 138,
    "ind-neighbor-solicit": 141,
    "ind-neighbor-advert": 142,
    "mld2-listener-report": 143,
}
"""nft's names of ICMPv6 types, as listed by `nft describe icmpv6 type`."""

_FLAGS = {"dormant", "owner", "persist"}


# Commands for nft


def listing(name: str) -> str:
    """The command that lists the table."""
    return _commands([{"list": {"table": _named(name)}}])


def replacing(table: Table, *, without: Sequence[str] = ()) -> str:
    """One transaction that makes the table exactly this and removes the others; ValueError if we would not create it.

    The table is added first, because only an existing table can be deleted: nft 1.0.6 has no `destroy`. Flushing it
    would keep its chains, and a chain keeps its priority.
    """
    _require_table(table)
    own = {"family": _FAMILY, "table": table.name}
    made: list[dict[str, Any]] = [{"table": _named(table.name)}]
    for chain in table.chains:
        hooked = {"type": chain.type, "hook": chain.hook, "prio": chain.priority, "policy": chain.policy}
        made.append({"chain": {**own, "name": chain.name, **(hooked if chain.hook is not None else {})}})
    for chain in table.chains:
        for rule in chain.rules:
            comment = {"comment": rule.comment} if rule.comment else {}
            expressions = [_expression(statement) for statement in rule.statements]
            made.append({"rule": {**own, "chain": chain.name, "expr": expressions, **comment}})
    gone = _gone([*(name for name in without if name != table.name), table.name])
    return _commands([*gone, *({"add": part} for part in made)])


def removing(names: Iterable[str]) -> str:
    """One transaction that removes these tables, whether they exist or not."""
    return _commands(_gone(names))


def require_name(name: str) -> None:
    """ValueError for a name that we would not give to a table or chain."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!a} is not a valid table or chain name: use [A-Za-z][A-Za-z0-9_]*, at most 64 characters"
        )


def _commands(commands: list[dict[str, Any]]) -> str:
    import json  # noqa: PLC0415  only loaded if nft is used

    return json.dumps({"nftables": commands})


def _named(name: str) -> dict[str, str]:
    require_name(name)
    return {"family": _FAMILY, "name": name}


def _gone(names: Iterable[str]) -> list[dict[str, Any]]:
    each = dict.fromkeys(names)
    return [{verb: {"table": _named(name)}} for name in each for verb in ("add", "delete")]


def _expression(statement: Statement) -> dict[str, Any]:
    if isinstance(statement, Match):
        values = [_spoken(value) for value in statement.values]
        right = values[0] if len(values) == 1 else {"set": values}
        return {"match": {"op": "!=" if statement.negated else "==", "left": _LEFT[statement.field], "right": right}}
    if isinstance(statement, Rewrite):
        return {"mangle": {"key": _LEFT[statement.field], "value": str(statement.address)}}
    if isinstance(statement, Counter):
        return {"counter": None}
    if isinstance(statement, Verdict):
        return {statement.verdict: None}
    raise ValueError(f"a rule has a statement that this library does not create: {statement.text}")


def _spoken(value: Value) -> Any:
    if not isinstance(value, IPv6Network):
        return value
    address = str(value.network_address)
    return address if value.prefixlen == value.max_prefixlen else {"prefix": {"addr": address, "len": value.prefixlen}}


def _require_table(table: Table) -> None:
    if table.flags or table.others or not table.is_readable:
        raise ValueError(
            f"table {table.name} has flags, sets or unreadable parts; only chains can be created: leave the rest out"
        )
    names = [chain.name for chain in table.chains]
    for chain in table.chains:
        require_name(chain.name)
        where = f"chain {table.name} {chain.name}"
        if names.count(chain.name) > 1:
            raise ValueError(f"{where} exists twice, and nft would merge the two; give them different names")
        _require_hook(chain, where)
        for number, rule in enumerate(chain.rules, start=1):
            _require_rule(rule, f"rule {number} of {where}")


def _require_hook(chain: Chain, where: str) -> None:
    if chain.hook is None:
        if chain != Chain(chain.name, chain.rules):
            raise ValueError(
                f"{where} has a type, a priority or a policy, but no hook; nft would ignore them: add a hook"
            )
        return
    for what, value, known in (
        ("hook", chain.hook, _HOOKS),
        ("policy", chain.policy, _POLICIES),
        ("type", chain.type, ("filter",)),
    ):
        if value not in known:
            raise ValueError(f"{where} has the {what} {value!a}; supported: {', '.join(known)}")
    if not -(2**31) <= chain.priority < 2**31:
        raise ValueError(f"{where} has the priority {chain.priority}; it must be a signed 32-bit number")


def _require_rule(rule: Rule, where: str) -> None:
    if not rule.statements:
        raise ValueError(f"{where} has no statements; leave it out")
    if any(isinstance(statement, Verdict) for statement in rule.statements[:-1]):
        raise ValueError(f"{where} has statements after its verdict, and nft refuses that; put the verdict last")
    if not _COMMENT.fullmatch(rule.comment):
        raise ValueError(
            f"{where} has the comment {rule.comment!a}; use printable ASCII without quotes and backslashes, "
            "at most 127 characters"
        )


# Listings from nft


@attrs.frozen
class TableText:
    """A table as listed by nft, with the number of packets that each counter in it has counted."""

    table: Table
    counters: tuple[int, ...] = ()


def read_table(text: str, name: str, *, flags: Sequence[str] = ()) -> TableText:
    """The table of this name from nft's JSON listing.

    If the JSON is truncated or names an unknown flag, as with nft 1.0.6 for every table with flags, the table is
    unreadable; `flags` are those known from elsewhere.
    """
    unreadable = TableText(Table(name, flags=tuple(flags), is_readable=False))
    import json  # noqa: PLC0415  only loaded if nft is used

    try:
        objects = [(kind, value) for entry in json.loads(text)["nftables"] for kind, value in entry.items()]
        own = next(value for kind, value in objects if kind == "table" and value["name"] == name)
        found = own.get("flags", [])
        found = [found] if isinstance(found, str) else list(found)
        if not set(found) <= _FLAGS:
            return unreadable
        return _read(own, found, [entry for entry in objects if entry[0] not in {"metainfo", "table"}])
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return unreadable


def _read(own: dict[str, Any], flags: list[str], objects: list[tuple[str, Any]]) -> TableText:
    counters: list[int] = []
    rules: dict[str, list[Rule]] = {}
    others = [_unknown({"table": key, "is": value}) for key, value in own.items() if key not in _OF_A_TABLE]
    # A listing has the rules chain by chain, in the order of the chains.
    for kind, value in objects:
        if kind == "rule":
            rules.setdefault(value["chain"], []).append(_rule(value, counters))
    chains = [_chain(value, rules.pop(value["name"], [])) for kind, value in objects if kind == "chain"]
    for kind, value in objects:
        if kind not in {"rule", "chain"}:
            others.append(_unknown({kind: {key: part for key, part in value.items() if key != "handle"}}))
        elif kind == "chain" and set(value) - _OF_A_CHAIN:
            others.append(_unknown({"chain": {key: part for key, part in value.items() if key != "handle"}}))
    others += [_unknown({"rules": name}) for name in rules]  # of a chain that is not listed
    return TableText(Table(own["name"], chains, flags, others=others), tuple(counters))


_OF_A_TABLE = {"family", "name", "handle", "flags"}
_OF_A_CHAIN = {"family", "table", "name", "handle", "type", "hook", "prio", "policy"}
_OF_A_RULE = {"family", "table", "chain", "handle", "comment", "expr"}


def _chain(value: dict[str, Any], rules: list[Rule]) -> Chain:
    if "hook" not in value:
        return Chain(value["name"], rules)
    return Chain(
        value["name"],
        rules,
        hook=value["hook"],
        priority=value["prio"],
        policy=value.get("policy", "accept"),
        type=value["type"],
    )


def _rule(value: dict[str, Any], counters: list[int]) -> Rule:
    statements = [_statement(expression, counters) for expression in value.get("expr", [])]
    statements += [_unknown({key: part}) for key, part in value.items() if key not in _OF_A_RULE]
    return Rule(statements, value.get("comment", ""))


def _statement(value: dict[str, Any], counters: list[int]) -> Statement:
    [(kind, content)] = value.items()
    known: Statement | None = None
    if kind == "counter" and isinstance(content, dict) and set(content) == {"packets", "bytes"}:
        counters.append(content["packets"])
        known = Counter()
    elif kind == "return" and content is None:
        known = Verdict("return")
    elif kind == "match":
        known = _match(content)
    elif kind == "mangle":
        known = _rewrite(content)
    return _unknown(value) if known is None else known


def _match(value: dict[str, Any]) -> Match | None:
    field = _field(value["left"])
    if field is None or set(value) != {"op", "left", "right"} or value["op"] not in {"==", "!="}:
        return None
    right = value["right"]
    members = right["set"] if isinstance(right, dict) and set(right) == {"set"} else [right]
    try:
        return Match(field, [single for member in members for single in _members(field, member)], value["op"] == "!=")
    except ValueError:
        return None


def _rewrite(value: dict[str, Any]) -> Rewrite | None:
    field = _field(value["key"])
    if set(value) != {"key", "value"} or not isinstance(value["value"], str):
        return None
    try:
        return Rewrite(field, IPv6Address(value["value"])) if field in {"ip6 saddr", "ip6 daddr"} else None
    except AddressValueError:
        return None


def _field(left: Any) -> Field | None:
    return next((field for field, spelling in _LEFT.items() if spelling == left), None)


def _members(field: Field, member: Any) -> Iterable[Value]:
    """The values of a member of a set; ValueError if we would not create it."""
    kind = FIELDS[field]
    if isinstance(member, dict) and set(member) == {"range"} and kind is not str:
        # nft joins adjacent values in a set that contains prefixes.
        first, last = member["range"]
        if kind is IPv6Network:
            return list(summarize_address_range(IPv6Address(first), IPv6Address(last)))
        return range(_type(first), _type(last) + 1)
    if kind is str and isinstance(member, str):
        return [member]
    if kind is int:
        return [_type(member)]
    if kind is IPv6Network and isinstance(member, str):
        return [IPv6Network(IPv6Address(member))]
    if isinstance(member, dict) and set(member) == {"prefix"} and kind is IPv6Network:
        try:
            return [IPv6Network((member["prefix"]["addr"], member["prefix"]["len"]))]
        except NetmaskValueError as error:
            raise ValueError(str(error)) from error
    raise ValueError(f"{field} has a value that this library does not create")


def _type(member: Any) -> int:
    if isinstance(member, int):
        return member
    if isinstance(member, str) and member in _TYPES:
        return _TYPES[member]
    raise ValueError("an ICMPv6 type without a known name")


def _unknown(value: dict[str, Any]) -> Unknown:
    import json  # noqa: PLC0415  only loaded if nft is used

    return Unknown(json.dumps(value, sort_keys=True))
