"""From a file to its text, and from a text to a JSON value. No fault quotes the text: an agent's
file has secrets.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from hostrouting.errors import ConfigError, Fault
from hostrouting.reading.types import REPEATED
from hostrouting.text import show

T = TypeVar("T")


def load(place: str | os.PathLike[str], make: Callable[[bytes], T]) -> T:
    """What `make` returns for the text of a file or a pipe (`-` is standard input).

    A ConfigError names the file.
    """
    given: object = place  # not every caller checks types
    if not isinstance(given, str | os.PathLike):
        kind = type(given).__name__
        raise TypeError(f"path must be a str or a Path, not a {kind}: load reads a file")
    path = os.fspath(place)
    source = _source_of(path)
    text = _text_of(path, source)
    if path == "-" and not text.strip():
        remedy = "the command before the pipe says why it has printed nothing"
        raise ConfigError([Fault("", "", "is empty", remedy)], source)
    try:
        return make(text)
    except ConfigError as error:
        raise ConfigError(error.faults, source) from error


def _source_of(path: str) -> str:
    """The file as messages name it; its name must not control the terminal."""
    if path == "-":
        return "standard input"
    if path and path.isprintable():
        return path
    return show(path)


def _text_of(path: str, source: str) -> bytes:
    if path == "-" and (not sys.stdin or sys.stdin.closed):
        raise ConfigError([Fault("", "", "is closed")], source)
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise ConfigError([Fault("", "", f"cannot be read: {error.strerror}")], source) from error
    except ValueError as error:
        raise ConfigError([Fault("", "", "is not a path")], source) from error


_WRITE_JSON = (
    "write one JSON object in UTF-8, with double quotes and no comments or trailing commas"
)


def parse(text: str | bytes, remedy: str = _WRITE_JSON, rule: str = "") -> Any:
    """The JSON value of the text.

    If the text is not JSON, the fault has this remedy, and this rule if one is given.
    """
    import json  # noqa: PLC0415  a check on the host reads no JSON

    try:
        if isinstance(text, bytes):
            # Without the codec utf-8-sig, which Debian's python3-minimal lacks.
            text = text.removeprefix(b"\xef\xbb\xbf").decode()
        return json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        broken = rule or f"is not JSON: {error}"
        if isinstance(error, json.JSONDecodeError) and not rule and error.pos < len(error.doc):
            # One character shows a comment or a Python quote, and no secret of an agent's file.
            broken += f", where {error.doc[error.pos]!a} is"
        if not text.strip():
            broken = "is empty"
        raise ConfigError([Fault("", "", broken, remedy)]) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a key that is given more than once has a value that no type has."""
    members = dict(pairs)
    if len(members) < len(pairs):
        for key, times in Counter(key for key, _ in pairs).items():
            if times > 1:
                members[key] = REPEATED
    return members
