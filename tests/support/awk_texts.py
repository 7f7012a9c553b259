"""Finds the texts in a program of awk: strings and values that stand next to each other are one text.

Here: how a line of awk is read. Not here: which of the texts are messages (tests.support.sentences).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.support.alternatives import either

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["statements", "texts_in"]

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|#|\$\w+|[A-Za-z_]\w*\(?|\d+|\S')
_KEYWORDS = {"print", "printf", "return", "if", "else", "for", "while", "in", "delete", "next", "exit", "function"}


def statements(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; a line that ends with a backslash is joined with the next one."""
    begin, joined = 0, ""
    for number, line in lines:
        begin, joined = begin or number, joined + line.removesuffix("\\")
        if not line.endswith("\\"):
            yield begin, joined
            begin, joined = 0, ""


def texts_in(statement: str) -> list[str]:
    """Every text in a statement, with each value as `{name}`.

    Subscripts and the arguments of `split` are left out: they are words that the program reads, not words that it says.
    """
    found: list[str] = []
    _chains(iter(_PIECE.findall(statement)), found)
    return [re.sub(r"\}(?=[a-z])", "} ", text) for text in found]


def _chains(pieces: Iterator[str], found: list[str]) -> list[str]:
    """Read up to the closing bracket and add the texts to `found`; return what stands between commas and operators."""
    chains: list[str] = []
    parts: list[str] = []
    said = False

    def end() -> None:
        nonlocal said
        if parts:
            chains.append("".join(parts))
            if said:
                found.append(chains[-1])
        parts.clear()
        said = False

    for piece in pieces:
        if piece == "#" or piece in ")]":
            break
        if piece.startswith('"'):
            parts.append(piece[1:-1].replace("\\047", "'"))
            said = True
        elif piece in "([" or piece.endswith("("):
            inner: list[str] = []
            within = _chains(pieces, inner)
            name = piece[:-1]
            if name in _KEYWORDS or name == "split":
                end()
                found += [] if name == "split" else inner
            elif piece == "(":
                parts.append(either(inner) if len(inner) > 1 and all(" " in it for it in inner) else _value(within))
            elif name:
                parts.append(_value(within, name))
                found += inner
        elif piece in _KEYWORDS or not re.match(r"\w|\$", piece):
            end()
        else:
            parts.append(_value((), piece))
    end()
    return chains


def _value(chains: Iterable[str], name: str = "…") -> str:
    """A placeholder with the name of the first value in these chains; otherwise with this name."""
    named = next((it[1] for it in map(re.compile(r"\{(\w+)\}").match, chains) if it), name)
    return f"{{{named if not named.startswith('$') else '…'}}}"
