"""Parses the output of ebtables-save into rules: each with its table, its text, and its options with their values.

Here: from text to values. Not here: which rules are stale (a module for each CNI), and running ebtables
(`kernel.ebtables`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import attrs

from hostrouting.model.prefix import IP, as_ip

_DESTINATIONS = ("--arp-ip-dst", "--ip-dst", "--ip6-dst")
_OTHER_NAMES = {"--to-destination": "--to-dst", "--ip-destination": "--ip-dst", "--ip6-destination": "--ip6-dst"}


@attrs.frozen
class SavedRule:
    """A rule as ebtables-save prints it."""

    table: str
    line: str
    """The text without the leading -A: the chain, then the options."""
    options: tuple[tuple[str, str], ...] = attrs.field(eq=False, repr=False)
    """Each option with its values, in order; a negated value begins with `!`."""

    @property
    def chain(self) -> str:
        """The chain that contains the rule."""
        return self.line.partition(" ")[0]

    @property
    def address(self) -> IP | None:
        """The IP address that the rule matches, or the address of the network; None if it does not match one."""
        for option, value in self.options:
            if option in _DESTINATIONS:
                try:
                    return as_ip(value.removeprefix("! ").partition("/")[0])
                except ValueError:
                    return None
        return None


@attrs.frozen
class SavedRules:
    """All rules of a host, and the lines that could not be parsed."""

    rules: tuple[SavedRule, ...] = ()
    unreadable: tuple[str, ...] = ()


def read_saved(text: str) -> SavedRules:
    """Every rule in the text, in order. A line that is not a rule, chain, table or comment is kept as unreadable."""
    rules, unreadable, table = [], [], ""
    for line in map(str.strip, text.split("\n")):
        if not line or line.startswith(("#", ":")) or line == "COMMIT":
            continue
        if line.startswith("*"):
            table = line[1:]
            continue
        found = _rule(table, line)
        if found is None:
            unreadable.append(line)
        else:
            rules.append(found)
    return SavedRules(tuple(rules), tuple(unreadable))


def _rule(table: str, line: str) -> SavedRule | None:
    if not (table and line.startswith("-A ")):
        return None
    try:
        # Quotes are rare, and parsing them takes ten times as long.
        words = shlex.split(line) if {'"', "'", "\\"} & set(line) else line.split()
    except ValueError:
        return None
    chain, options = words[1], words[2:]
    if chain.startswith("-") or (options and not options[0].startswith(("-", "!"))):
        return None
    return SavedRule(table, line.removeprefix("-A ").strip(), tuple(_options(options)))


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with its values; a `!` before the option is treated like one after it."""
    at = 0
    while at < len(words):
        values = []
        if words[at] == "!":
            values.append("!")
            at += 1
        option = words[at] if at < len(words) else ""
        at += 1
        while at < len(words) and not _begins(words, at):
            values.append(words[at])
            at += 1
        yield _OTHER_NAMES.get(option, option), " ".join(values)


def _begins(words: Sequence[str], at: int) -> bool:
    """Whether an option begins at this word."""
    if words[at] == "!":
        return at + 1 < len(words) and words[at + 1].startswith("-")
    return words[at].startswith("-")
