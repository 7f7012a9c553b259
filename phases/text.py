"""Times, trees, errors and other values as text. No tasks, no colours, no terminal."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from datetime import datetime

N = TypeVar("N")
_ASCII = str.maketrans(
    {"–": "-", "…": "...", "→": "->", "µ": "u", "│": "|", "─": "-", "├": "|", "└": "`"}  # noqa: RUF001  a dash between addresses
)


def seconds_in_words(seconds: float) -> str:
    """A duration with two or three digits: `850 µs`, `12 ms`, `3.25 s`, `2 min 05 s`, `1 h 02 min`."""
    if seconds < 0.000_999_5:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.999_5:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def moment_as_text(moment: datetime, *, digits: str = "seconds") -> str:
    """A moment in UTC as in ISO 8601: `2026-11-22T05:00:00Z`; `digits` may be "milliseconds"."""
    return moment.isoformat(timespec=digits).replace("+00:00", "Z")


def draw_tree(root: N, *, children: Callable[[N], Sequence[N]]) -> Iterator[tuple[str, str, N]]:
    """Every node from the root down, with the text before its first line and before its further lines."""
    yield "", "", root
    yield from _below(root, children, indent="")


def _below(node: N, children: Callable[[N], Sequence[N]], *, indent: str) -> Iterator[tuple[str, str, N]]:
    members = children(node)
    for place, child in enumerate(members, start=1):
        last = place == len(members)
        further = indent + ("   " if last else "│  ")
        yield indent + ("└─ " if last else "├─ "), further, child
        yield from _below(child, children, indent=further)


def escaped(text: str) -> str:
    """The text on one line, every unprintable character escaped: safe for any terminal and any encoding."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char, f"\\u{ord(char):04x}")


def in_ascii(text: str) -> str:
    """The text in ASCII: dashes and lines as similar characters, all others escaped."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def for_stdout(text: str) -> str:
    """The text, in ASCII if standard output is not for UTF-8, so that print does not fail."""
    is_open = getattr(sys.stdout, "encoding", None) is None or is_utf8(sys.stdout, os.environ)
    return text if is_open else in_ascii(text)


def is_utf8(stream: TextIO | None, environment: Mapping[str, str]) -> bool:
    """Whether the output can have more than ASCII. In the locale C it cannot, although Python writes UTF-8 there."""
    if (getattr(stream, "encoding", None) or "").lower().replace("-", "") != "utf8":
        return False
    names = [environment.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    # In the locale C, Python sets LC_CTYPE to one of these, for itself and its child processes.
    coerced = names[1] in {"C.UTF-8", "C.utf8", "UTF-8"} and names[2] in {"C", "POSIX"}
    said = next((name for at, name in enumerate(names) if name and not (at == 1 and coerced)), "")
    return said not in {"C", "POSIX"}


def describe_error(error: BaseException) -> str:
    """The error in one line: its type, then its message. If str() of the error raises, the type is still named."""
    kind = type(error).__name__
    try:
        words = escaped(" ".join(str(error).split()))
    except Exception:  # noqa: BLE001  str() of any exception may raise, and must not hide the error
        words = "(its text cannot be printed)"
    return f"{kind}: {words}" if words else kind


def printable(value: object) -> str:
    """str(value), or a placeholder if that raises."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  a log or a report may contain any object; the line must not be lost
        return f"<{type(value).__name__} that cannot be printed>"


def as_data(value: object) -> object:
    """The value in JSON types. Objects describe themselves by their methods; very deep values become text.

    An object becomes the result of `to_mapping()`, else of `log_fields()`, else its text; without any, its type name.
    """
    try:
        return _as_data(value, around=())
    except Exception:  # noqa: BLE001  as above
        return printable(value)


def _as_data(value: object, *, around: tuple[int, ...]) -> object:
    inside = (*around, id(value))
    if id(value) in around or len(around) >= 8:
        return value if isinstance(value, str) else printable(value)
    match value:
        case None | bool() | str():
            return value
        case int() if value.bit_length() <= 64:  # JSON parsers disagree about larger numbers
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping():
            return {printable(key): _as_data(member, around=inside) for key, member in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_as_data(member, around=inside) for member in value]
    for name in () if isinstance(value, type) else ("to_mapping", "log_fields"):
        offer = getattr(value, name, None)
        if callable(offer):
            try:
                return _as_data(offer(), around=inside)
            except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
                return {f"{name}_error": describe_error(error)}
    # str() inherited from `object` prints the address or, with attrs, every field.
    has_text = type(value).__str__ is not object.__str__ or type(value).__module__ == "builtins"
    return printable(value) if has_text else f"<{type(value).__name__}>"
