"""Text, bytes and files to JSON values, each failure a ConfigError. What the values mean belongs elsewhere.

No message quotes the text: an agent's larger file holds secrets.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from hostrouting.config.objects import WHOLE, show
from hostrouting.errors import ConfigError, Fault
from hostrouting.opening import NotAFile, open_file

if TYPE_CHECKING:
    import json

__all__ = ["SIZE_LIMIT", "JsonObject", "parse", "printable", "read"]

SIZE_LIMIT = 64 * 1024 * 1024
"""A hundred thousand routes, spaced out, fill a quarter of this; what is larger is the wrong file."""

_DIGITS = 400

# What Python's reader says of a text, by how it begins, and what JSON has there instead.
_REMEDIES = {
    "Expecting value": (
        "a value belongs here: {...}, [...], a text in double quotes, a number, true, false;"
        " a last comma is one too many"
    ),
    "Expecting property name": (
        "a key belongs there: keys stand in double quotes, no comma follows the last, and JSON has no comments"
    ),
    "Illegal trailing comma": "take the comma away",
    "Expecting ':'": "a colon belongs there",
    "Expecting ','": "a comma belongs there, or the bracket that closes",
    "Extra data": "the file is one object, from the first { to the } that closes it",
    "Unterminated string": "end the text with a double quote",
    "Invalid control character": "end the text on its line, with a double quote",
    "Invalid \\": "write a backslash twice",
}
# Other kinds of text, by the first line that is no comment.
_KINDS = {
    "YAML": r"---|- |[\w.-]+:(\s|$)",
    "TOML or INI": r"\[[A-Za-z][\w.-]*\]\s*$|[\w.-]+\s*=",
    "XML or HTML": "<",
}
_EXAMPLE = '{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}}'


class JsonObject(dict[str, Any]):
    """A JSON object that remembers the keys that were written more than once."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        """Keep the last value of each key, as JSON readers do, and the names of the repeated ones."""
        super().__init__(pairs)
        self.repeated: tuple[str, ...] = ()
        if len(self) < len(pairs):
            left = dict.fromkeys(self, 0)
            for name, _ in pairs:
                left[name] += 1
            self.repeated = tuple(name for name, times in left.items() if times > 1)


def parse(text: str | bytes, *, source: str | None = None) -> object:
    """The JSON value that the text holds; `source` is the file that it comes from, for messages.

    Objects come as `JsonObject`. Python's extensions to JSON (NaN, Infinity) come as floats, which have no
    place anywhere in our part, and are none of our business outside it.
    """
    import json  # noqa: PLC0415  a program that never reads a configuration never pays for it

    if isinstance(text, bytes):
        text = _decoded(text, source)
    if not isinstance(text, str):
        _fail(source, f"{show(text)} where JSON text belongs")
    if text.startswith("\ufeff"):
        _fail(source, "starts with a byte order mark", "save it as UTF-8 without BOM")
    if not text.strip():
        _fail(source, "is empty", "write {} for a configuration that asks for nothing")
    try:
        return json.loads(text, object_pairs_hook=JsonObject, parse_int=_integer)
    except json.JSONDecodeError as error:
        _refuse(text, error, source)
    except RecursionError as error:
        _fail(source, "is nested too deeply to be read", "a configuration needs five levels", cause=error)


def read(path: str) -> bytes:
    """The bytes of a configuration file; whatever keeps them from being read is a ConfigError naming it."""
    name = printable(path)
    try:
        content = _content(path)
    except NotAFile as error:
        if error.kind == "a folder":
            _fail(name, "is a directory", "name the file in it", cause=error)
        # A pipe without a writer would hold a booting machine for ever.
        rule = f"is {error.kind}, not a regular file"
        _fail(name, rule, "name the file that holds the configuration", cause=error)
    except FileNotFoundError as error:
        _fail(name, "does not exist", "check the path", cause=error)
    except PermissionError as error:
        _fail(name, "may not be read by this user", "run as root, or give this user the right to", cause=error)
    except OSError as error:
        _fail(name, f"cannot be read: {error.strerror}", cause=error)
    except ValueError as error:
        _fail(name, "is not a path", "check it for stray characters", cause=error)
    if len(content) > SIZE_LIMIT:
        _fail(name, f"is larger than {SIZE_LIMIT // 1024 // 1024} MiB", "check that this is the configuration")
    return content


def printable(path: str) -> str:
    """The path as a message shows it: itself, or quoted and escaped when it could steer a terminal."""
    return path if path and path.isprintable() else show(path)


def _content(path: str) -> bytes:
    with os.fdopen(open_file(path), "rb") as stream:
        return stream.read(SIZE_LIMIT + 1)


def _decoded(data: bytes, source: str | None) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        rule = f"is not UTF-8 (byte 0x{data[error.start]:02x} at offset {error.start})"
        _fail(source, rule, "save it as UTF-8", cause=error)


def _refuse(text: str, error: json.JSONDecodeError, source: str | None) -> NoReturn:
    """Say where the text is no JSON and what belongs there, or of what other kind it seems to be."""
    import re  # noqa: PLC0415  only a fault needs it

    rule = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    for kind, begins in _KINDS.items():
        if re.match(begins, first, re.ASCII):
            _fail(source, f"looks like {kind} and {rule}", f"write it as {_EXAMPLE}", cause=error)
    remedy = next((remedy for begins, remedy in _REMEDIES.items() if error.msg.startswith(begins)), "")
    _fail(source, rule, remedy, cause=error)


def _integer(digits: str) -> int:
    # Longer than this is out of every range; the first digits show that as well, and Python refuses more
    # than 4,300 of them with an error of its own.
    return int(digits[:_DIGITS])


def _fail(source: str | None, rule: str, remedy: str = "", *, cause: BaseException | None = None) -> NoReturn:
    raise ConfigError([Fault(source or WHOLE, "", rule, remedy)], source=source) from cause
