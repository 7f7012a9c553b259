"""What was probably meant by a word that is not known: the one that is spelled nearly like it. No message is made here.

Here: one measure for keys of a configuration, commands, options and devices. Not here: which words are known.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs as much as parsing a command line does
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["nearest"]

_LONGEST = 60  # so much of a word is compared: to compare takes the square of its length


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    from difflib import get_close_matches  # noqa: PLC0415  only a mistake needs it

    # Compared without case: that is the commonest slip, and other readers of JSON let it pass.
    by_letters = {key.lower(): key for key in known}
    near = get_close_matches(word.lower()[:_LONGEST], by_letters, n=1)
    return by_letters[near[0]] if near else None
