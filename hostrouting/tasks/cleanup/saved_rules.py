"""Parses the output of ebtables-save into rules. What a rule means to a clean-up is decided in `judge`."""

from __future__ import annotations

import shlex
from collections import Counter

import attrs


@attrs.frozen
class SavedRule:
    """A rule as ebtables-save prints it."""

    table: str
    chain: str
    number: int
    """The place in the chain; the first rule has 1."""
    line: str
    """The text without the leading -A: the chain, then the options."""
    options: tuple[tuple[str, str], ...] = attrs.field(eq=False, repr=False)
    """Each option with its values, in order; a negated value begins with `!`."""


def read_saved(text: str) -> tuple[tuple[SavedRule, ...], tuple[str, ...]]:
    """Every rule in the text, in order; and every line that is not a rule, a chain, a table or a comment."""
    rules: list[SavedRule] = []
    unreadable: list[str] = []
    table, counts = "", Counter[tuple[str, str]]()
    for line in map(str.strip, text.split("\n")):
        if line.startswith("*"):
            table = line[1:]
        elif line and not line.startswith(("#", ":")) and line != "COMMIT":
            command, chain, rest = [*line.split(None, 2), "", ""][:3]
            counts[table, chain] += 1
            options = _options(rest)
            if command == "-A" and table and chain and chain[0] != "-" and options is not None:
                rules.append(SavedRule(table, chain, counts[table, chain], line.removeprefix("-A ").strip(), options))
            else:
                unreadable.append(line)
    return tuple(rules), tuple(unreadable)


def _options(text: str) -> tuple[tuple[str, str], ...] | None:
    """Each option with its values; None if this is not a list of options. A `!` may stand before or after an option."""
    try:
        # Quotes are rare, and parsing them takes ten times as long.
        words = shlex.split(text) if {'"', "'", "\\"} & set(text) else text.split()
    except ValueError:
        return None
    options: list[list[str]] = []
    negation: list[str] = []
    for word in words:
        if word == "!":
            negation = ["!"]
        elif word.startswith("-"):
            options.append([word, *negation])
            negation = []
        elif options:
            options[-1] += [*negation, word]
            negation = []
        else:
            return None
    return None if negation else tuple((option, " ".join(values)) for option, *values in options)
