"""A snapshot to JSON and from JSON.

Here: the format `hostrouting/snapshot/1`, derived from the fields of the values themselves, so that no field can be
forgotten. Not here: any other document.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

import attrs

from hostrouting.errors import SnapshotError
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.model.route_table import RouteTable
from hostrouting.model.rule import SELECTORS, Rule

__all__ = ["SCHEMA", "from_json", "to_json"]

T = TypeVar("T")

SCHEMA = "hostrouting/snapshot/1"
_SHOWN = 60  # a message shows at most this many characters of a key or a value
_LONGEST = 128  # the length of the kernel's longest device name; every other word in a snapshot is shorter
_HIGHEST = (1 << 32) - 1  # of every number in the kernel's routing
_MOST = {"protocol": 255, "scope": 255, "weight": 256, **{it.field: it.most for it in SELECTORS}}


def to_json(snapshot: Any, *, indent: int | None = None) -> str:
    """The snapshot as a JSON document."""
    return json.dumps({"schema": SCHEMA, **_encode_fields(snapshot)}, indent=indent, ensure_ascii=False)


def from_json(kind: type[T], text: str) -> T:
    """The snapshot in a JSON document; `kind` is its class."""
    if not isinstance(text, str | bytes | bytearray):
        raise SnapshotError(path="", problem="must be a string")
    try:
        document = json.loads(text, object_pairs_hook=_each_key_once)
    except SnapshotError:
        raise
    except ValueError as error:
        raise SnapshotError(path="", problem=f"this is not JSON: {error}") from error
    except RecursionError as error:
        raise SnapshotError(path="", problem="this is nested too deeply for a snapshot") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise SnapshotError(path="schema", problem=f"must be {SCHEMA!r}")
    del document["schema"]
    result: T = _decode_fields(kind, document, "")
    return result


def _encode_fields(value: Any) -> dict[str, Any]:
    return {
        field.name: _encode(held)
        for field in attrs.fields(type(value))
        if (held := getattr(value, field.name)) != field.default
    }


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Prefix):
        return str(value)
    if attrs.has(type(value)):
        return _encode_fields(value)
    if isinstance(value, Sequence):
        return [_encode(item) for item in value]
    return str(value)


def _decode_fields(cls: type, document: Any, path: str) -> Any:
    if not isinstance(document, dict):
        raise SnapshotError(path=path, problem="must be an object")
    fields = attrs.fields_dict(cls)
    for name in document:
        if name not in fields:
            raise SnapshotError(path=_under(path, name), problem=f"unknown key {name[:_SHOWN]!a} in a {cls.__name__}")
    for name, field in fields.items():
        if field.default is attrs.NOTHING and name not in document:
            raise SnapshotError(path=_under(path, name), problem="missing")
    found = cls(**{name: _decode(fields[name].type, value, _under(path, name)) for name, value in document.items()})
    for name, problem in _problems(found):
        raise SnapshotError(path=_under(path, name), problem=problem)
    return found


def _decode(kind: Any, value: Any, path: str) -> Any:
    if get_origin(kind) is UnionType:
        if value is None and NoneType in get_args(kind):
            return None
        members = [member for member in get_args(kind) if member is not NoneType]
        return _decode_text(as_ip, value, path) if len(members) > 1 else _decode(members[0], value, path)
    if kind is Prefix:
        return _decode_text(Prefix.parse, value, path)
    if attrs.has(kind):
        return _decode_fields(kind, value, path)
    if kind is RouteTable:
        return _decode_items((Route,), value, path)
    if get_origin(kind) is tuple:
        return _decode_items(get_args(kind), value, path)
    # The remaining kinds: int, str, bool (not accepted as an int here) and words from a fixed list.
    if not (value in get_args(kind) if get_origin(kind) is Literal else type(value) is kind):
        raise SnapshotError(path=path, problem=f"{_shown(value)} is not allowed here")
    if kind is int and not (least := _least(path)) <= value <= _HIGHEST:
        raise SnapshotError(path=path, problem=f"{value} is not in {least}..{_HIGHEST}")
    if kind is str and (problem := _text_problem(value)):
        raise SnapshotError(path=path, problem=problem)
    return value


def _least(path: str) -> int:
    """The smallest number that is allowed here: only the seconds until a route expires can be negative."""
    return -_HIGHEST if path.endswith(".expires") else 0


def _text_problem(text: str) -> str:
    """What is wrong with a name; empty if it is valid."""
    # The kernel allows nearly any character in a device name; code that prints a name escapes it for the terminal.
    if len(text) > _LONGEST:
        return f"{_shown(text)} has more than {_LONGEST} characters"
    # Names decoded by the backends never contain a surrogate, and text with one cannot be encoded again.
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        return f"{_shown(text)} has half of a surrogate pair, which is not a character"
    return ""


def _problems(value: Any) -> Iterator[tuple[str, str]]:
    """Faults in the combination of fields, and numbers that are too large for their field."""
    match value:
        case Rule(family=family) if family not in {IPV4, IPV6}:
            yield "family", f"{family} is not an address family: use 4 or 6"
        case Rule():
            yield from (fault for selector in SELECTORS if (fault := selector.fault(value)))
            if value.action == "goto" and value.target is None:
                yield "target", "missing: a goto needs the priority to jump to"
    for name, most in _MOST.items():
        number = getattr(value, name, 0)
        if isinstance(number, int) and number > most:
            yield name, f"{number} is not in 0..{most}"


def _shown(value: Any) -> str:
    """A value as shown in a message: printable and short."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _decode_text(parse: Callable[[str], Any], value: Any, path: str) -> Any:
    if not isinstance(value, str):
        raise SnapshotError(path=path, problem=f"{_shown(value)} is not a string")
    try:
        return parse(value)
    except ValueError as error:
        problem = (
            str(error) if str(error).isprintable() and len(value) <= _SHOWN else f"{_shown(value)} is not valid here"
        )
        raise SnapshotError(path=path, problem=problem) from error


def _decode_items(kinds: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    """A sequence of any length of one kind, or a pair such as a range of ports."""
    pair = len(kinds) > 1 and kinds[1] is not Ellipsis
    if not isinstance(value, list) or (pair and len(value) != len(kinds)):
        raise SnapshotError(path=path, problem=f"must be a list of {len(kinds) if pair else 'any number of'} items")
    return tuple(_decode(kinds[0], item, f"{path}[{place}]") for place, item in enumerate(value))


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dict. A key given twice is a fault, because it is unclear which value was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise SnapshotError(path=_under("", twice), problem="this key is given more than once")
    return found


def _under(path: str, name: str) -> str:
    # Text from a file must not control the terminal.
    shown = name if name.isascii() and name.isidentifier() and len(name) <= _SHOWN else ascii(name[:_SHOWN])
    return f"{path}.{shown}" if path else shown
