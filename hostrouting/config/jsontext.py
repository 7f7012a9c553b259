"""Text, bytes and files to JSON values; every failure is a ConfigError. What the values mean is decided elsewhere.

No message quotes the text, because an agent's larger file contains secrets.
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
"""A hundred thousand indented routes fill a quarter of this; a larger file is the wrong file."""

_DIGITS = 400

# How an error message of Python's JSON reader begins, and the remedy for it.
_REMEDIES = {
    "Expecting value": (
        "write a value here: {...}, [...], a string in double quotes, a number, true or false; JSON has no trailing"
        " comma"
    ),
    "Expecting property name": "write a key there, in double quotes; JSON has no trailing comma and no comments",
    "Illegal trailing comma": "remove the comma",
    "Expecting ':'": "write a colon there",
    "Expecting ','": "write a comma there, or the closing bracket",
    "Extra data": "the file must be one object: remove the text after its closing }",
    "Unterminated string": "end the string with a double quote",
    "Invalid control character": "write \\n for a line break and \\t for a tab, or end the string with a double quote",
    "Invalid \\": "write \\\\ for one backslash",
}
# Other file formats, recognised by the first line that is not a comment.
_KINDS = {
    "YAML": r"---|- |[\w.-]+:(\s|$)",
    "TOML or INI": r"\[[A-Za-z][\w.-]*\]\s*$|[\w.-]+\s*=",
    "XML or HTML": "<",
}
_EXAMPLE = '{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}}'


class JsonObject(dict[str, Any]):
    """A JSON object that records which keys were given more than once."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        """Keep the last value of each key, as JSON readers do, and the names of the repeated keys."""
        super().__init__(pairs)
        self.repeated: tuple[str, ...] = ()
        if len(self) < len(pairs):
            left = dict.fromkeys(self, 0)
            for name, _ in pairs:
                left[name] += 1
            self.repeated = tuple(name for name, times in left.items() if times > 1)


def parse(text: str | bytes, *, source: str | None = None) -> object:
    """The JSON value in the text; `source` is the file it comes from, for messages.

    Objects become `JsonObject`. Python's extensions to JSON (NaN, Infinity) become floats: the readers of our section
    refuse them, and other sections of the file are ignored.
    """
    import json  # noqa: PLC0415  only a program that reads a configuration needs it

    if isinstance(text, bytes):
        text = _decoded(text, source)
    if not isinstance(text, str):
        _fail(source, f"{show(text)} is not a string of JSON")
    if text.startswith("\ufeff"):
        _fail(source, "starts with a byte order mark", "save it as UTF-8 without BOM")
    if not text.strip():
        _fail(source, "is empty", "write {} for an empty configuration")
    try:
        return json.loads(text, object_pairs_hook=JsonObject, parse_int=_integer)
    except json.JSONDecodeError as error:
        _refuse(text, error, source)
    except RecursionError as error:
        _fail(source, "is nested too deeply to be read", "a configuration has at most five levels", cause=error)


def read(path: str) -> bytes:
    """The bytes of a configuration file. Any failure to read it raises a ConfigError that names the file."""
    name = printable(path)
    try:
        content = _content(path)
    except NotAFile as error:
        if error.kind == "a directory":
            _fail(name, "is a directory", "name the file in it", cause=error)
        # Reading a pipe without a writer would block the boot for ever.
        rule = f"is {error.kind}, not a regular file"
        _fail(name, rule, "name the file with the configuration", cause=error)
    except FileNotFoundError as error:
        _fail(name, "does not exist", "check the path", cause=error)
    except PermissionError as error:
        _fail(name, "cannot be read: permission denied", "run as root, or give this user read permission", cause=error)
    except OSError as error:
        _fail(name, f"cannot be read: {error.strerror}", "check the path", cause=error)
    except ValueError as error:
        _fail(name, "is not a path", "check it for stray characters", cause=error)
    if len(content) > SIZE_LIMIT:
        _fail(name, f"is larger than {SIZE_LIMIT // 1024 // 1024} MiB", "check that this is the configuration")
    return content


def printable(path: str) -> str:
    """The path for a message: unchanged, or quoted and escaped if it contains terminal control characters."""
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
    """Raise a ConfigError that says where the text is not JSON and how to fix it, or which format it seems to be."""
    import re  # noqa: PLC0415  only a fault needs it

    rule = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    for kind, begins in _KINDS.items():
        if re.match(begins, first, re.ASCII):
            _fail(source, f"looks like {kind} and {rule}", f"write it as {_EXAMPLE}", cause=error)
    remedy = next((remedy for begins, remedy in _REMEDIES.items() if error.msg.startswith(begins)), "")
    _fail(source, rule, remedy, cause=error)


def _integer(digits: str) -> int:
    # A longer number is out of every range, which the first digits also show; and Python raises its own error for
    # more than 4,300 digits.
    return int(digits[:_DIGITS])


def _fail(source: str | None, rule: str, remedy: str = "", *, cause: BaseException | None = None) -> NoReturn:
    raise ConfigError([Fault(source or WHOLE, "", rule, remedy)], source=source) from cause
