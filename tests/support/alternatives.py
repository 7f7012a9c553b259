"""A text that stands for several: `either` writes the alternatives into it, and `each` reads the texts out of it.

Here: the notation, which only lives in memory. Not here: where alternatives are found (tests.support.sentences and
tests.support.awk_texts).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MARKS", "each", "either"]

_BEGIN, _OR, _END = MARKS = "\ue000\ue001\ue002"
"""Around and between the alternatives; characters that no message has."""


def either(texts: Iterable[str]) -> str:
    """One text that stands for any of these; it can be a part of a longer text, or of another alternative."""
    return f"{_BEGIN}{_OR.join(texts)}{_END}"


def each(text: str) -> Iterator[str]:
    """The texts that it stands for."""
    begin = text.find(_BEGIN)
    if begin < 0:
        yield text
        return
    # The outermost alternatives first: those inside of one do not multiply the others.
    depth, cuts = 0, [begin]
    for at in range(begin, len(text)):
        depth += (text[at] == _BEGIN) - (text[at] == _END)
        if (depth == 1 and text[at] == _OR) or not depth:
            cuts.append(at)
        if not depth:
            break
    for first, last in pairwise(cuts):
        yield from each(text[:begin] + text[first + 1 : last] + text[cuts[-1] + 1 :])
