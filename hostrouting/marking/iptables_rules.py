"""Rules of iptables that set marks, from the text of iptables-save.

Here: the targets that set a mark, and their options. Both backends of iptables (nft and legacy) print the same text.
"""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import TYPE_CHECKING

from hostrouting.marking.chains import hooks_of
from hostrouting.marking.setter import ALL_BITS, MarkSetter, effect_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["iptables_setters"]

# Of the base chains, only OUTPUT of the table mangle looks up the route again.
_HOOKS = {"PREROUTING": "prerouting", "INPUT": "input", "FORWARD": "forward", "OUTPUT": "output"}
_HOOKS["POSTROUTING"] = "postrouting"
_ROUTE = ("mangle", "OUTPUT")


def iptables_setters(text: str, *, program: str) -> tuple[MarkSetter, ...]:
    """The rules that set marks; `program` is the one that printed the text. Raises ValueError for other text."""
    setters: list[MarkSetter] = []
    table = ""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("*"):
            table, lines = line[1:].strip(), []
        elif line.startswith("-A "):
            lines.append(line)
        elif line.startswith("COMMIT"):
            setters += _setters(table, lines, program)
    return tuple(setters)


def _setters(table: str, lines: Sequence[str], program: str) -> Iterator[MarkSetter]:
    rules = [(line, shlex.split(line)) for line in lines]
    bases = {chain: ("route" if (table, chain) == _ROUTE else "filter", hook) for chain, hook in _HOOKS.items()}
    jumps = [(words[1], _after(words, "-j") or _after(words, "-g")) for _, words in rules]
    hooks = hooks_of(bases, jumps)
    for line, words in rules:
        mark = _mark(words)
        if mark is not None and words[1] in hooks:
            place = f"{program}, table {table}"
            yield MarkSetter(place, line, effect_of(hooks[words[1]]), *mark)


def _after(words: Sequence[str], option: str) -> str:
    """The value of an option; empty if the rule does not have it."""
    return next((value for name, value in pairwise(words) if name == option), "")


def _mark(words: Sequence[str]) -> tuple[int, int] | None:
    """The mark that the rule sets on a packet without one, and its bits that are not known; None if it sets none."""
    target = _after(words, "-j")
    option = _SETTING.get(target)
    if option is not None and (given := _after(words, option)):
        value = given.partition("/")[0]
        return int(value, 0) & ALL_BITS, 0
    if target == "CONNMARK" and "--restore-mark" in words:
        return 0, int(_after(words, "--nfmask") or hex(ALL_BITS), 0)
    return (0, ALL_BITS) if target in _COMPUTING else None


_SETTING: Mapping[str, str] = {"MARK": "--set-xmark", "TPROXY": "--tproxy-mark"}
_COMPUTING = frozenset({"HMARK"})
