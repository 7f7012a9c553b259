"""Rules of iptables that set marks, from the text of iptables-save.

Here: the targets that set a mark, and their options. Both backends of iptables (nft and legacy) print the same text.
"""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import TYPE_CHECKING

from hostrouting.marking.chains import hooks_of
from hostrouting.marking.setter import ALL_BITS, Hook, MarkingRules, MarkSetter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["iptables_rules"]

_PRIORITIES = {"raw": -300, "mangle": -150, "nat": -100, "filter": 0, "security": 50}
_CHAINS = ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")
# By target: the option with the mark and the mask.
_SETTING = {"MARK": "--set-xmark", "TPROXY": "--tproxy-mark"}


def iptables_rules(text: str, *, program: str) -> MarkingRules:
    """The rules in this text, which `program` printed. Raises ValueError for a rule that cannot be read."""
    setters: list[MarkSetter] = []
    hooks: set[Hook] = set()
    table = ""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("*"):
            table, lines = line[1:].strip(), []
        elif line.startswith("-A "):
            lines.append(line)
        elif line.startswith("COMMIT"):
            rules = [(line, shlex.split(line)) for line in lines]
            bases = {chain: _hook(table, chain) for chain in _CHAINS}
            setters += _setters(rules, bases, f"{program}, table {table}")
            hooks |= {bases[words[1]] for _, words in rules if words[1] in bases}
    return MarkingRules(tuple(setters), frozenset(hooks))


def _hook(table: str, chain: str) -> Hook:
    kind = "route" if (table, chain) == ("mangle", "OUTPUT") else "nat" if table == "nat" else "filter"
    return Hook(kind, chain.lower(), _PRIORITIES.get(table, 0))


def _setters(rules: Sequence[tuple[str, list[str]]], bases: dict[str, Hook], place: str) -> Iterator[MarkSetter]:
    hooks = hooks_of(bases, [(words[1], _after(words, "-j") or _after(words, "-g")) for _, words in rules])
    for line, words in rules:
        bits = _bits(words)
        if bits is not None and words[1] in hooks:
            value, writes, unknown = bits
            yield MarkSetter(place, line, hooks[words[1]], value, writes, unknown)


def _after(words: Sequence[str], option: str) -> str:
    """The value of an option; empty if the rule does not have it."""
    return next((value for name, value in pairwise(words) if name == option), "")


def _bits(words: Sequence[str]) -> tuple[int, int, int] | None:
    """The bits that the rule sets, all that it writes, and of these those that are unknown; None if it sets none."""
    target = _after(words, "-j")
    if target == "HMARK" or "--map-mark" in words or "--restore-skmark" in words:
        return 0, ALL_BITS, ALL_BITS
    if given := _after(words, _SETTING.get(target, "")):
        mark, _, mask = given.partition("/")
        # Bits of the mark outside the mask are inverted.
        value, replaced = int(mark, 0) & ALL_BITS, int(mask or hex(ALL_BITS), 0)
        return value & replaced, value | replaced, value & ~replaced
    if target == "CONNMARK" and "--restore-mark" in words:
        taken, cleared = (int(_after(words, f"--{name}mask") or hex(ALL_BITS), 0) for name in ("ct", "nf"))
        taken = ALL_BITS if "--left-shift-mark" in words or "--right-shift-mark" in words else taken
        return 0, cleared | taken, taken
    return None
