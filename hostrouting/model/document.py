"""The bytes of a document, and the JSON value in them. Not here: what the value means (`model.reader`)."""

import sys
from collections import Counter
from typing import Any

from hostrouting.errors import Fault
from hostrouting.model.reader import Invalid, invalid
from hostrouting.text import show

STANDARD_INPUT = "-"
_LARGEST = 64 << 20  # bytes; a configuration or a snapshot of 100,000 routes has a quarter of this


class _Repeated(dict[str, Any]):
    """A JSON object in which keys were given more than once; the last value of each counts."""

    repeated: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        members = _Repeated(members)
        members.repeated = tuple(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    return members


def parse(text: str | bytes) -> Any:
    """The JSON value in the text. A message never quotes the text: an agent's file has secrets."""
    import json  # noqa: PLC0415  a check on the host reads none

    if not isinstance(text, str | bytes):
        raise invalid(text, "is not a text of JSON")
    if not text.strip():
        raise Invalid([Fault("", "", "is empty", "write {} for an empty configuration")])
    try:
        # Without the codec utf-8-sig, which Debian's python3-minimal lacks.
        plain = text.removeprefix(b"\xef\xbb\xbf").decode() if isinstance(text, bytes) else text
        return json.loads(plain, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise Invalid([Fault("", "", f"is not UTF-8 at byte {error.start}", "save it as UTF-8")]) from error
    except RecursionError as error:
        raise Invalid([Fault("", "", "is nested too deeply to be read")]) from error
    except ValueError as error:
        remedy = (
            "JSON has double quotes, no comments and no trailing comma; a file that ends early was not copied whole"
        )
        raise Invalid([Fault("", "", f"is not JSON: {error}", remedy)]) from error


def read_bytes(path: str) -> bytes:
    """The bytes of a file or a pipe; `-` is standard input."""
    try:
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with open(path, "rb") as stream:
                data = stream.read(_LARGEST + 1)
    except OSError as error:
        remedy = "run as root, or give this user read permission" if isinstance(error, PermissionError) else ""
        raise Invalid([Fault("", "", f"cannot be read: {error.strerror}", remedy)]) from error
    except ValueError as error:
        raise Invalid([Fault("", "", "is not a path")]) from error
    if len(data) > _LARGEST:
        raise Invalid([Fault("", "", f"is larger than {_LARGEST >> 20} MiB")])
    return data


def name_of(path: str) -> str:
    """The name of the file in messages; it cannot control the terminal."""
    return "standard input" if path == STANDARD_INPUT else path if path and path.isprintable() else show(path)
