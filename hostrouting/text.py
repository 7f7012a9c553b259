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
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def spoken(words: Sequence[str], *, most: int = 4, last: str = "and") -> str:
    """The words as a phrase: "a, b and c". The word `last` stands before the last one. If there are
    more than `most` words, only the first ones are named, and the others are counted.
    """
    named = first_few(words, most, conjunction="")  # `last` comes before "3 more", too
    if len(named) < 2:
        return "".join(named)
    *others, final = named
    return f"{', '.join(others)} {last} {final}"


def grouped(pairs: Iterable[tuple[T, U]]) -> dict[T, list[U]]:
    """Group the pairs (label, value) by their label: for each label its values, each once, in the
    order of the pairs.
    """
    groups: dict[T, dict[U, None]] = {}
    for label, value in pairs:
        groups.setdefault(label, {})[value] = None
    return {label: list(values) for label, values in groups.items()}


def printable(line: str) -> str:
    """The line as a terminal can show it: control characters, and bytes that are not text, are
    escaped.
    """
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def command_of(*words: str) -> str:
    """The command of these words, as it has to be typed: each word is quoted if the shell needs it.
    The name of a device can be `a;b`, and the unit of a machine has a backslash in its name.
    """
    from shlex import join  # noqa: PLC0415  only what is printed needs it

    # One of `words` can have several words of the command, separated by spaces: "ip link set".
    return join(" ".join(words).split(" "))


def first_few(texts: Sequence[str], most: int = 10, *, conjunction: str = "and ") -> list[str]:
    """The first texts, and a text that counts the others: "and 3 more"."""
    shown = list(texts[:most])
    if len(texts) > most:
        shown.append(f"{conjunction}{len(texts) - most:,} more")
    return shown


def show(value: object) -> str:
    """The value in one printable line, for a message. A long text is cut off. Of a list or an
    object, which can be long, only the kind is shown ("a list").
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
    # `dumps` escapes all characters beyond ASCII, so that no value from a file controls the
    # terminal, and a letter that only looks like another one is seen.
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return f"{dumps(value[:MOST_CHARACTERS])}... ({len(value)} characters)"
    return dumps(value)
