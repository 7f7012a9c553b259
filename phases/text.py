"""How times, trees, errors and arbitrary values read. Pure text: no tasks, no colours, no terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["as_data", "describe_error", "draw_tree", "escaped", "plain", "printable", "seconds_in_words"]

N = TypeVar("N")


def seconds_in_words(seconds: float) -> str:
    """A duration with as many digits as anyone reads: `850 µs`, `12 ms`, `3.25 s`, `2 min 05 s`, `1 h 02 min`."""
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


def draw_tree(root: N, *, children: Callable[[N], Sequence[N]]) -> Iterator[tuple[str, str, N]]:
    """Every node from the root down, with what is drawn before its own line and before further lines of it."""
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
    """The text on one line that no terminal obeys and every encoding can write: what is not printable is escaped."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char, f"\\u{ord(char):04x}")


def describe_error(error: BaseException) -> str:
    """The error in one line: its type, then its words. An error that cannot print itself is named all the same."""
    kind = type(error).__name__
    try:
        words = escaped(" ".join(str(error).split()))
    except Exception:  # noqa: BLE001  str() of a foreign exception may raise anything, and must not hide it
        words = "(its text cannot be printed)"
    return f"{kind}: {words}" if words else kind


def printable(value: object) -> str:
    """str(value), also where the value cannot print itself."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  any object may be offered to a log or report; the line must not be lost for it
        return f"<{type(value).__name__} that cannot be printed>"


def plain(value: object) -> object:
    """The value as JSON can hold it: what JSON has no word for becomes text, and so does what is nested too deep."""
    return _in_json(value, _as_text)


def as_data(value: object) -> object:
    """The value as JSON can hold it, objects by what they say of themselves.

    That is what `to_mapping()` gives, or else `log_fields()`, or else their text; what has none is named by its type.
    """
    return _in_json(value, _as_told)


def _in_json(value: object, word: Callable[[object, tuple[int, ...]], object]) -> object:
    try:
        return _plain(value, word, around=())
    except Exception:  # noqa: BLE001  as above
        return printable(value)


def _plain(value: object, word: Callable[[object, tuple[int, ...]], object], *, around: tuple[int, ...]) -> object:
    inside = (*around, id(value))
    deep = id(value) in around or len(around) >= 8
    match value:
        case None | bool() | str():
            return value
        case int() if value.bit_length() <= 64:  # beyond that, readers of JSON disagree
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping() if not deep:
            return {printable(key): _plain(member, word, around=inside) for key, member in value.items()}
        case list() | tuple() | set() | frozenset() if not deep:
            return [_plain(member, word, around=inside) for member in value]
        case _:
            return printable(value) if deep else word(value, inside)


def _as_text(value: object, _inside: tuple[int, ...]) -> object:
    return printable(value)


def _as_told(value: object, inside: tuple[int, ...]) -> object:
    for name in () if isinstance(value, type) else ("to_mapping", "log_fields"):
        offer = getattr(value, name, None)
        if callable(offer):
            try:
                return _plain(offer(), _as_told, around=inside)
            except Exception as error:  # noqa: BLE001  foreign code, and only its description is lost
                return {f"{name}_error": describe_error(error)}
    # The text that an object has from `object` is its address or, with attrs, each of its fields.
    has_text = type(value).__str__ is not object.__str__ or type(value).__module__ == "builtins"
    return printable(value) if has_text else f"<{type(value).__name__}>"
