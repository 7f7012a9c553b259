"""A snapshot as JSON, there and back.

Here: the form `hostrouting/snapshot/1`, derived from the fields of the values themselves, so that no field is
ever forgotten. Not here: any other document.
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
_SHOWN = 60  # so much of a key or a value is shown in a message
_LONGEST = 128  # the kernel's longest name of a device, and longer than any other word in a snapshot
_NUMBERS = 1 << 32  # no number of the kernel's routing is as large
_MOST = {"protocol": 255, "scope": 255, "weight": 256, **{it.field: it.most for it in SELECTORS}}


def to_json(snapshot: Any, *, indent: int | None = None) -> str:
    """The snapshot as a JSON document."""
    return json.dumps({"schema": SCHEMA, **_encode_fields(snapshot)}, indent=indent, ensure_ascii=False)


def from_json(kind: type[T], text: str) -> T:
    """The snapshot that a JSON document holds; `kind` is its class."""
    if not isinstance(text, str | bytes | bytearray):
        raise SnapshotError(path="", problem="text belongs here")
    try:
        document = json.loads(text, object_pairs_hook=_each_key_once)
    except SnapshotError:
        raise
    except ValueError as error:
        raise SnapshotError(path="", problem=f"this is not JSON: {error}") from error
    except RecursionError as error:
        raise SnapshotError(path="", problem="this is nested deeper than any snapshot is") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise SnapshotError(path="schema", problem=f"a snapshot says {SCHEMA!r} here")
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
        raise SnapshotError(path=path, problem="an object belongs here")
    fields = attrs.fields_dict(cls)
    for name in document:
        if name not in fields:
            raise SnapshotError(path=_under(path, name), problem=f"there is no {name[:_SHOWN]!a} in a {cls.__name__}")
    for name, field in fields.items():
        if field.default is attrs.NOTHING and name not in document:
            raise SnapshotError(path=_under(path, name), problem="this is missing")
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
    # What is left are int, str, bool (which is no int here) and words from a fixed list.
    if not (value in get_args(kind) if get_origin(kind) is Literal else type(value) is kind):
        raise SnapshotError(path=path, problem=f"{_shown(value)} is not what belongs here")
    if kind is int and not 0 <= value < _NUMBERS:
        raise SnapshotError(path=path, problem=f"{value} is not in 0..{_NUMBERS - 1}")
    if kind is str and (problem := _text_problem(value)):
        raise SnapshotError(path=path, problem=problem)
    return value


def _text_problem(text: str) -> str:
    """What is wrong with a name; empty where nothing is."""
    # The kernel allows nearly any letter in a device's name; whoever shows one sees to it that no terminal obeys it.
    if len(text) > _LONGEST:
        return f"{_shown(text)} has more than {_LONGEST} letters"
    # The backends decode names such that none is ever in one, and a text that has one cannot be encoded again.
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        return f"{_shown(text)} has half of a surrogate pair, which is not a letter"
    return ""


def _problems(value: Any) -> Iterator[tuple[str, str]]:
    """What is wrong between the fields of a value, or with one that has fewer numbers than most."""
    match value:
        case Rule(family=family) if family not in {IPV4, IPV6}:
            yield "family", f"{family} is no address family: 4 and 6 are"
        case Rule():
            yield from (fault for selector in SELECTORS if (fault := selector.fault(value)))
            if value.action == "goto" and value.target is None:
                yield "target", "this is missing: a goto leads to a priority"
    for name, most in _MOST.items():
        number = getattr(value, name, 0)
        if isinstance(number, int) and number > most:
            yield name, f"{number} is not in 0..{most}"


def _shown(value: Any) -> str:
    """A value in a message: printable, and not long."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _decode_text(parse: Callable[[str], Any], value: Any, path: str) -> Any:
    if not isinstance(value, str):
        raise SnapshotError(path=path, problem=f"{_shown(value)} is no text")
    try:
        return parse(value)
    except ValueError as error:
        problem = (
            str(error) if str(error).isprintable() and len(value) <= _SHOWN else f"{_shown(value)} is no such thing"
        )
        raise SnapshotError(path=path, problem=problem) from error


def _decode_items(kinds: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    """A sequence of any length of one kind, or a pair such as a range of ports."""
    pair = len(kinds) > 1 and kinds[1] is not Ellipsis
    if not isinstance(value, list) or (pair and len(value) != len(kinds)):
        raise SnapshotError(
            path=path, problem=f"a list of {len(kinds) if pair else 'any number of'} items belongs here"
        )
    return tuple(_decode(kinds[0], item, f"{path}[{place}]") for place, item in enumerate(value))


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of which no key is there twice: of two values, nobody knows which was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise SnapshotError(path=_under("", twice), problem="this key is given more than once")
    return found


def _under(path: str, name: str) -> str:
    # What is in a file may not steer the terminal that shows it.
    shown = name if name.isascii() and name.isidentifier() and len(name) <= _SHOWN else ascii(name[:_SHOWN])
    return f"{path}.{shown}" if path else shown
