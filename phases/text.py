"""Durations, trees, errors and other values as text or as JSON types. No tasks, no colours, no terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

N = TypeVar("N")


def seconds_in_words(seconds: float) -> str:
    """A duration with some digits: `12 ms`, `3.25 s`, `2 min 05 s`."""
    if seconds < 0.999_5:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    return f"{round(seconds) // 60} min {round(seconds) % 60:02} s"


def draw_tree(
    root: N, children: Callable[[N], Sequence[N]], *, indent: str = "", branch: str = ""
) -> Iterator[tuple[str, str, N]]:
    """Every node from the root down, with the text before its first line and before its further lines."""
    further = indent + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    yield indent + branch, further, root
    members = children(root)
    for place, child in enumerate(members, start=1):
        yield from draw_tree(child, children, indent=further, branch="└─ " if place == len(members) else "├─ ")


def for_stdout(text: str) -> str:
    """The text, with what standard output cannot encode escaped, so that print does not fail."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def escaped(text: str) -> str:
    """The text on one line, every unprintable character escaped: safe for any terminal and any encoding."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def describe_error(error: BaseException) -> str:
    """The error in one line: its type, then its message. If str() of the error raises, the type is still named."""
    words = escaped(" ".join(printable(error).split()))
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def printable(value: object) -> str:
    """str(value), or a placeholder if that raises: a log or a report may contain any object."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  the line must not be lost
        return f"<{type(value).__name__} that cannot be printed>"


def as_data(value: object) -> object:
    """The value in JSON types. An object becomes the result of its `to_mapping()` or `log_fields()`, or its text."""
    try:
        return _as_data(value)
    except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
        return f"<{type(value).__name__} that cannot be described: {describe_error(error)}>"


def _as_data(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping():
            return {str(key): as_data(member) for key, member in value.items()}
        case list() | tuple() | set() | frozenset() if not hasattr(value, "to_mapping"):
            return [as_data(member) for member in value]
    for name in () if isinstance(value, type) else ("to_mapping", "log_fields"):
        offer = getattr(value, name, None)
        if callable(offer):
            return as_data(offer())
    # str() inherited from `object` prints the address or, with attrs, every field.
    has_text = type(value).__str__ is not object.__str__ or type(value).__module__ == "builtins"
    return str(value) if has_text else f"<{type(value).__name__}>"
