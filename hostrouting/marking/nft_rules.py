"""Rules of nftables that set marks, from the JSON of `nft -j list ruleset`.

Rules of iptables-nft are in this list without their arguments (`xt`); `iptables_rules` reads them. With `-t` the list
has no elements of maps: a rule with a map of verdicts may lead to every chain of its table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.marking.chains import hooks_of
from hostrouting.marking.setter import ALL_BITS, Hook, MarkingRules, MarkSetter

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["nft_rules"]

_MARK = {"meta": {"key": "mark"}}
_OF_FAMILY = {4: {"ip", "inet", "netdev", "bridge"}, 6: {"ip6", "inet", "netdev", "bridge"}}


def nft_rules(text: str, *, family: int) -> MarkingRules:
    """The rules for packets of a family. Raises ValueError for text that nft does not print."""
    import json  # noqa: PLC0415  only loaded if it is needed

    try:
        entries = [(kind, it) for entry in json.loads(text)["nftables"] for kind, it in entry.items()]
        its = [(kind, it) for kind, it in entries if isinstance(it, dict) and it.get("family") in _OF_FAMILY[family]]
        return _rules([it for kind, it in its if kind == "chain"], [it for kind, it in its if kind == "rule"])
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"nft printed something unexpected: {error}") from error


def _rules(chains: list[dict[str, Any]], rules: list[dict[str, Any]]) -> MarkingRules:
    tables: dict[tuple[str, str], list[str]] = {}
    bases = {}
    for it in chains:
        tables.setdefault((it["family"], it["table"]), []).append(it["name"])
        if "hook" in it:
            bases[it["family"], it["table"], it["name"]] = Hook(
                it["type"], it["hook"], it["prio"], of_bridge=it["family"] == "bridge"
            )
    jumps = [
        ((it["family"], it["table"], it["chain"]), (it["family"], it["table"], target))
        for it in rules
        for target in _targets(it.get("expr", []), tables.get((it["family"], it["table"]), []))
    ]
    hooks = hooks_of(bases, jumps)
    with_rules = {(it["family"], it["table"], it["chain"]) for it in rules}
    return MarkingRules(
        tuple(_setters(rules, hooks)), frozenset(hook for chain, hook in bases.items() if chain in with_rules)
    )


def _setters(rules: list[dict[str, Any]], hooks: dict[tuple[str, str, str], frozenset[Hook]]) -> Iterator[MarkSetter]:
    for rule in rules:
        family, table, chain = rule["family"], rule["table"], rule["chain"]
        at = hooks.get((family, table, chain))
        for statement in rule.get("expr", []) if at is not None else ():
            change = statement.get("mangle") if isinstance(statement, dict) else None
            if at is not None and change is not None and change["key"] == _MARK:
                bits = _bits(change["value"])
                place = f"nftables table {family} {table}, chain {chain}, rule with handle {rule['handle']}"
                yield MarkSetter(place, _worded(bits), at, bits.value, ~bits.kept & ALL_BITS, bits.unknown)


def _targets(value: Any, chains: list[str]) -> Iterator[str]:
    """The chains that a rule can jump to, wherever it names them."""
    if isinstance(value, dict):
        for key, it in value.items():
            if key in {"jump", "goto"} and isinstance(it, dict) and isinstance(it.get("target"), str):
                yield it["target"]
            elif key == "vmap" and isinstance(it, dict) and isinstance(it.get("data"), str):
                yield from chains
            else:
                yield from _targets(it, chains)
    elif isinstance(value, list):
        for it in value:
            yield from _targets(it, chains)


class _Bits(NamedTuple):
    """What is known of a number that a rule computes, bit by bit.

    A bit is in `kept` if it is that of the packet's own mark, in `known` if it is that of `value`, or else unknown.
    """

    value: int
    known: int
    kept: int

    @property
    def unknown(self) -> int:
        return ALL_BITS & ~self.known & ~self.kept


_ANYTHING = _Bits(0, 0, 0)


def _worded(bits: _Bits) -> str:
    if bits.unknown:
        return "sets a mark that depends on the packet"
    written = ~bits.kept & ALL_BITS
    return f"sets {bits.value:#x}" + (f", and keeps the bits outside {written:#x}" if bits.kept else "")


def _bits(value: Any) -> _Bits:
    """What an expression computes."""
    if type(value) is int:
        return _Bits(value & ALL_BITS, ALL_BITS, 0)
    if value == _MARK:
        return _Bits(0, 0, ALL_BITS)
    if isinstance(value, dict) and len(value) == 1:
        [(sign, parts)] = value.items()
        if sign in {"|", "&", "^", "<<", ">>"} and isinstance(parts, list) and len(parts) > 1:
            found = _bits(parts[0])
            for part in parts[1:]:
                found = _combined(sign, found, _bits(part))
            return found
    return _ANYTHING


def _combined(sign: str, one: _Bits, other: _Bits) -> _Bits:
    """The result of an operation."""
    ones = [it.value & it.known for it in (one, other)]
    zeros = [~it.value & it.known for it in (one, other)]
    both_known, both_kept = one.known & other.known, one.kept & other.kept
    if sign == "&":
        known = both_known | zeros[0] | zeros[1]
        kept = both_kept | (one.kept & ones[1]) | (other.kept & ones[0])
        return _Bits(ones[0] & ones[1] & known, known, kept & ~known)
    if sign == "|":
        known = both_known | ones[0] | ones[1]
        kept = both_kept | (one.kept & zeros[1]) | (other.kept & zeros[0])
        return _Bits((ones[0] | ones[1]) & known, known, kept & ~known)
    if sign == "^":
        known = both_known | both_kept
        kept = (one.kept & zeros[1]) | (other.kept & zeros[0])
        return _Bits((ones[0] ^ ones[1]) & both_known, known, kept & ~known)
    if other.known != ALL_BITS:
        return _ANYTHING
    by = min(other.value, ALL_BITS.bit_length())
    if sign == "<<":
        return _Bits(one.value << by & ALL_BITS, (one.known << by | (1 << by) - 1) & ALL_BITS, 0 if by else one.kept)
    return _Bits(one.value >> by, one.known >> by | (ALL_BITS & ~(ALL_BITS >> by)), 0 if by else one.kept)
