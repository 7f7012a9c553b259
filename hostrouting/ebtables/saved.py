"""The text of ebtables-save, as far as an edge has to read it: which lines are rules of nat.

Here: lines. Not here: the meaning of a rule, which the caller reads.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

from hostrouting.errors import AmbiguousRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "batch",
    "has_nat",
    "is_incomplete",
    "listed",
    "missing_from",
    "nat_rules",
    "require_distinct",
    "require_lines",
]

_TABLE = "*nat"
_INCOMPATIBLE = "# Table `nat' is incompatible"
_LINE = re.compile(r"[^\s:#*-][^\s]*(?: [^\s].*)?")
_ANY_MAC = re.compile(r" -[sd] (?:! )?(?:Unicast|0{1,2}(?::0{1,2}){5})(?:/\S+)?(?= |$)")
_MASK = re.compile(r"( -[sd] (?:! )?[^ /]+)/\S+")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_CHAIN = re.compile(r"Bridge chain: (\S+), entries: \d+, policy: (\S+)")


def nat_rules(text: str) -> tuple[str, ...]:
    """The rules of table nat, in order, without the leading "-A"."""
    rules, table = [], ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line.strip()
        elif table == _TABLE and line.startswith("-A "):
            rules.append(line.removeprefix("-A ").strip())
    return tuple(rules)


def has_nat(text: str) -> bool:
    """Whether the text contains table nat, with rules or without."""
    return any(line.strip() == _TABLE for line in text.splitlines())


def is_incomplete(text: str) -> bool:
    """Whether it reports that nat has chains or rules that were created with nft and that ebtables cannot show."""
    return any(line.startswith(_INCOMPATIBLE) for line in text.splitlines())


def missing_from(text: str, lines: Iterable[str]) -> tuple[str, ...]:
    """The lines that are not among the rules of nat, each as often as it is missing."""
    return tuple((Counter(lines) - Counter(nat_rules(text))).elements())


def require_distinct(text: str, lines: Sequence[str]) -> None:
    """AmbiguousRule if nat has other rules that ebtables might delete instead of these.

    When ebtables-nft 1.8.9 searches for a rule, it compares MAC addresses without their masks, and treats a missing one
    as zeros. "Unicast" is zeros with a mask: a rule for any source and one for "-s Unicast" look the same to it.
    """
    seen: dict[str, set[str]] = {}
    for rule in (*nat_rules(text), *lines):
        seen.setdefault(_without_masks(rule), set()).add(rule)
    unclear = [it for it in lines if len(seen[_without_masks(it)]) > 1]
    if unclear:
        twin, *_ = sorted(seen[_without_masks(unclear[0])] - {unclear[0]})
        raise AmbiguousRule(unclear, twin=twin)


def _without_masks(line: str) -> str:
    return _MASK.sub(r"\1", _ANY_MAC.sub("", line))


def require_lines(lines: Sequence[str]) -> None:
    """ValueError for text that ebtables-restore would not read as a single rule."""
    for line in lines:
        if not _LINE.fullmatch(line) or _UNPRINTABLE.search(line):
            raise ValueError(
                f"{line!a} is not a rule: write one line that begins with a chain, as in 'PREROUTING -p ARP'"
            )


def batch(verb: Literal["-A", "-D"], lines: Iterable[str]) -> str:
    """The input with which ebtables-restore does this to each of the rules."""
    return "\n".join([_TABLE, *(f"{verb} {line}" for line in lines), ""])


def listed(listing: str) -> str:
    """The output of `ebtables -t nat -L`, in the format of ebtables-save."""
    chains, rules, chain = [], [], ""
    for line in listing.splitlines():
        if found := _CHAIN.fullmatch(line.strip()):
            chain = found[1]
            chains.append(f":{chain} {found[2]}")
        elif chain and line.strip():
            rules.append(f"-A {chain} {line.strip()}")
    return "\n".join([_TABLE, *chains, *rules, ""])
