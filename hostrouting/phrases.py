"""Counts and lists of names in words, for every text that an operator reads.

Here: words. Not here: sentences about routing (`wording`), and how they are laid out (`cli.page`). The help loads this
module, so it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["counted", "spoken"]


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 route`, `1,000 routes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def spoken(words: Sequence[str], *, most: int = 4, last: str = "and") -> str:
    """The words as a phrase, with `last` before the last one; the first `most` are named, the others counted."""
    shown = list(words[:most]) + ([f"{len(words) - most:,} more"] if len(words) > most else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}" if shown else ""
