"""Finds the known word that an unknown word probably means, by its spelling. Messages are made elsewhere.

Here: one measure for keys of a configuration, commands, options and devices. Not here: which words are known.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` takes as long as parsing a command line
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["nearest"]

_LONGEST = 60  # at most this many characters are compared: the cost grows with the square of the length


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word with the most similar spelling; None if no word is similar enough."""
    from difflib import get_close_matches  # noqa: PLC0415  only an error message needs it

    # Compared without case: wrong case is the most common mistake, and other JSON readers accept it.
    by_letters = {key.lower(): key for key in known}
    near = get_close_matches(word.lower()[:_LONGEST], by_letters, n=1)
    return by_letters[near[0]] if near else None
