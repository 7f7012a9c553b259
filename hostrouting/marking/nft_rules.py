"""Rules of nftables that set marks, from the JSON of `nft -j list ruleset`.

Rules of iptables-nft are in this list without their arguments (`xt`); `iptables_rules` reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.marking.chains import hooks_of
from hostrouting.marking.setter import ALL_BITS, MarkSetter, effect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["nft_setters"]

_MARK = {"meta": {"key": "mark"}}
_OF_FAMILY = {4: {"ip", "inet", "netdev", "bridge"}, 6: {"ip6", "inet", "netdev", "bridge"}}
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "|": int.__or__,
    "&": int.__and__,
    "^": int.__xor__,
    "<<": lambda left, right: left << right & ALL_BITS if right < ALL_BITS.bit_length() else 0,
    ">>": int.__rshift__,
}


def nft_setters(text: str, *, family: int) -> tuple[MarkSetter, ...]:
    """The rules that set the mark of packets of a family. Raises ValueError for text that nft does not print."""
    import json  # noqa: PLC0415  only loaded if it is needed

    try:
        entries = [(kind, it) for entry in json.loads(text)["nftables"] for kind, it in entry.items()]
        its = [(kind, it) for kind, it in entries if isinstance(it, dict) and it.get("family") in _OF_FAMILY[family]]
        return tuple(_setters([it for kind, it in its if kind == "chain"], [it for kind, it in its if kind == "rule"]))
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"nft printed something unexpected: {error}") from error


def _setters(chains: list[dict[str, Any]], rules: list[dict[str, Any]]) -> Iterator[MarkSetter]:
    bases = {(it["family"], it["table"], it["name"]): (it["type"], it["hook"]) for it in chains if "hook" in it}
    jumps = [
        ((it["family"], it["table"], it["chain"]), (it["family"], it["table"], target))
        for it in rules
        for target in _targets(it.get("expr", []))
    ]
    hooks = hooks_of(bases, jumps)
    for rule in rules:
        family, table, chain = rule["family"], rule["table"], rule["chain"]
        at = hooks.get((family, table, chain))
        for statement in rule.get("expr", []):
            change = statement.get("mangle") if isinstance(statement, dict) else None
            if at is not None and change is not None and change["key"] == _MARK:
                value, unknown = _mark(change["value"])
                place = f"nftables table {family} {table}, chain {chain}, rule with handle {rule['handle']}"
                what = f"{value:#x}" if not unknown else "a mark that depends on the packet"
                yield MarkSetter(place, f"sets {what}", effect_of(at), value, unknown)


def _targets(value: Any) -> Iterator[str]:
    """The chains that a rule can jump to, wherever it names them: also in a map of verdicts."""
    if isinstance(value, dict):
        for key, it in value.items():
            if key in {"jump", "goto"} and isinstance(it, dict) and isinstance(it.get("target"), str):
                yield it["target"]
            else:
                yield from _targets(it)
    elif isinstance(value, list):
        for it in value:
            yield from _targets(it)


def _mark(value: Any) -> tuple[int, int]:
    """The mark that an expression sets on a packet without a mark, and the bits of it that are not known."""
    if type(value) is int:
        return value & ALL_BITS, 0
    if value == _MARK:
        return 0, 0
    if isinstance(value, dict) and len(value) == 1:
        [(sign, parts)] = value.items()
        if sign in _OPERATIONS and isinstance(parts, list) and len(parts) > 1:
            found = _mark(parts[0])
            for part in parts[1:]:
                found = _combined(sign, found, _mark(part))
            return found
    return 0, ALL_BITS


def _combined(sign: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """The result of an operation, and the bits of it that are not known."""
    (one, unsure), (other, unsure_too) = left, right
    if sign in {"<<", ">>"}:
        return (0, ALL_BITS) if unsure_too else (_OPERATIONS[sign](one, other), _OPERATIONS[sign](unsure, other))
    unknown = unsure | unsure_too
    if sign == "&":  # a known 0 on either side decides
        unknown &= (one | unsure) & (other | unsure_too)
    if sign == "|":  # so does a known 1
        unknown &= ~(one & ~unsure) & ~(other & ~unsure_too)
    return _OPERATIONS[sign](one, other) & ~unknown, unknown
