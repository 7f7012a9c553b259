"""Words for every text that an operator reads: counts, lists of names, and values.

The help and every start of a gated unit load this module, so it imports nothing that takes time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeVar

    T = TypeVar("T")
    U = TypeVar("U")

MOST_CHARACTERS = 60
"""A message shows at most this many characters of a value."""


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 route`, `1,000 routes`."""
    ending = "" if count == 1 else "s"
    return f"{count:,} {noun}{ending}"


def spoken(words: Sequence[str], *, most: int = 4, last: str = "and") -> str:
    """The words as a phrase, with "and" or another word before the last one; the first `most` are
    named, the others counted.
    """
    named = first_of(words, most, conjunction="")
    if len(named) < 2:
        return "".join(named)
    *others, final = named
    return f"{', '.join(others)} {last} {final}"


def grouped(pairs: Iterable[tuple[T, U]]) -> dict[T, list[U]]:
    """The values of each label, each once, in their order."""
    groups: dict[T, dict[U, None]] = {}
    for label, value in pairs:
        groups.setdefault(label, {})[value] = None
    return {label: list(values) for label, values in groups.items()}


def printable(line: str) -> str:
    """The line with its control characters, and bytes that are not text, escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def command_of(*words: str) -> str:
    """The command of these words for a shell. A device may be called `a;b`, and the unit of a
    machine has a backslash in its name.
    """
    from shlex import join  # noqa: PLC0415  only what is printed needs it

    return join(" ".join(words).split(" "))


def first_of(texts: Sequence[str], most: int = 10, *, conjunction: str = "and ") -> list[str]:
    """The first texts, and a text that counts the others: "and 3 more"."""
    shown = list(texts[:most])
    if len(texts) > most:
        shown.append(f"{conjunction}{len(texts) - most:,} more")
    return shown


def show(value: object) -> str:
    """The value in one printable line, for a message: a long text is cut, and a list or an object
    is only called that.
    """
    from collections.abc import Mapping  # noqa: PLC0415  only a fault needs it
    from json import dumps  # noqa: PLC0415  as above

    if type(value).__module__ == "ipaddress":  # without its import, which takes long
        value = str(value)
    if isinstance(value, Mapping):
        return "an object" if value else "{}"
    if isinstance(value, list) or type(value) is tuple:  # not a NamedTuple
        return "a list" if value else "[]"
    if value is not None and not isinstance(value, str | int | float):
        return f"a Python {type(value).__name__}"
    # JSON escapes everything beyond ASCII: a value from a file does not control the terminal, and
    # look-alike letters are seen.
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return f"{dumps(value[:MOST_CHARACTERS])}... ({len(value)} characters)"
    return dumps(value)
