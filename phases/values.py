"""What tasks return and raise, in words, as JSON values, and for another process.

Any object can come here, and its code may raise. Then only its description is lost, never the run
or the report.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from typing import Any

from phases.arguments import misspelt
from phases.errors import PhasesError, ReportedError


class Results(tuple[object, ...]):
    """What a group returns: the results of its tasks. A report has each at the task's own step."""

    __slots__ = ()


def describe_error(error: BaseException) -> str:
    """The error in one line: its type, then its message. Lines that are indented are a list below
    the line before them.
    """
    if isinstance(error, ReportedError):
        return str(error)
    kind = type(error).__name__
    message = ""
    for line in printable(error).splitlines():
        words = " ".join(line.split())
        is_of_a_list = line.startswith(" ") and message and not message.endswith(":")
        if words:
            message += f"; {words}" if is_of_a_list else f" {words}"
    message = message.strip()
    if not message:
        return kind
    return f"{kind}: {message}"


def printable(value: object) -> str:
    """str(value), safe for any terminal: control characters and lone surrogates are escaped, and
    nothing is raised.
    """
    try:
        return "".join(map(_escaped, str(value)))
    except Exception:  # noqa: BLE001  a log or a report may contain any object
        return f"<{type(value).__name__} that cannot be printed>"


def _escaped(char: str) -> str:
    if char == "\n" or char.isprintable():
        return char
    return ascii(char)[1:-1]


def seconds_in_words(seconds: float | None) -> str:
    """A duration in words: `12 ms`, `325.00 s`; empty if there is none."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2f} s"


def as_data(value: object) -> object:
    """The value in JSON types. An object becomes the result of its `to_mapping()` or
    `log_fields()`, or its text.
    """
    try:
        return _plain(value)
    except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
        return f"<{type(value).__name__} that cannot be described: {describe_error(error)}>"


def _plain(value: object) -> object:
    for name in ("to_mapping", "log_fields"):
        describe = getattr(value, name, None)
        if callable(describe) and not isinstance(value, type):
            return _plain(describe())
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(member) for member in value]
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and math.isfinite(value):
        return value
    return printable(value)


def fields_of(result: object) -> dict[str, object]:
    """The log fields of a result, as JSON values. A result that cannot describe itself does not
    fail its task.
    """
    try:
        for name in ("log_fields", "to_mapping"):
            fault = misspelt(result, name, "(self)")
            if fault:
                return {"log_fields_error": fault}
        describe = getattr(result, "log_fields", None)
        if callable(describe):
            return {str(name): as_data(value) for name, value in dict(describe()).items()}
    except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
        return {"log_fields_error": describe_error(error)}
    return {}


def portable_result(result: object) -> object:
    """The result if another process can have it, or else its JSON value."""
    if isinstance(result, Results):
        return Results(map(portable_result, result))
    try:
        _as_received(result)
    except Exception:  # noqa: BLE001  code of others runs
        return as_data(result)
    return result


def portable_error(error: BaseException | None) -> BaseException | None:
    """The error if another process can have it, or else a PhasesError that describes it."""
    if error is None:
        return None
    words = describe_error(error)
    try:
        outcome = describe_error(_as_received(error))
    except Exception as refusal:  # noqa: BLE001  code of others runs
        outcome = describe_error(refusal)
    if outcome == words:
        return error
    return PhasesError(f"{words} (this error could not be pickled: it would become {outcome})")


def _as_received(value: object) -> Any:
    """What another process would receive. What can be pickled may still not be made again."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  our own bytes
