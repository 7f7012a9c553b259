"""Reads JSON into NamedTuples, and writes it: for configurations, snapshots, and an agent's own
settings. Every fault of a document is reported at once, each with its path.

How a value is read follows from the type of its field:

- `bool`, `int`, `str`, and a `Literal`, which is one of its words in any case;
- `X | None` is read as X, and an empty text as None, unless X is an object; `tuple[X, ...]` is a
  list, and a NamedTuple is an object;
- `Annotated[int, range(256)]` is one of these integers; `Annotated[X, rule, ...]` is read as X, and
  then passes through the rules: functions that return the value, or another one, or raise
  `ValueError(rule, remedy)`, as `must` makes them;
- a type that was registered has the reader that it was registered with.

Null counts as absent. A class may have a method `faults_between_fields`, which finds what
is wrong with several of its values together, once each is right.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial, wraps
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from hostrouting.errors import ConfigError, Fault
from hostrouting.text import show

T = TypeVar("T")
Reader: TypeAlias = Callable[[Any], Any]

_TEXTS = (str, IPv4Address, IPv6Address, IPv4Network, IPv6Network)
_REQUIRED = object()
"""In place of the default of a field that has none."""


class _FaultyError(ValueError):
    """An object or a list with these faults; their paths begin inside it."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(faults)
        self.faults = faults


# Single values.


def must(condition: Callable[[Any], object], rule: str, remedy: str = "") -> Reader:
    """Make a rule for `Annotated`: a value has to meet the condition. If it does not, the fault has
    the text `rule`, which says what is wrong ("is not a device name"), and the `remedy`.
    """

    def check(value: Any) -> Any:
        if not condition(value):
            raise ValueError(rule, remedy)
        return value

    return check


def matches(pattern: str) -> Callable[[str], object]:
    """The condition for `must` that the whole text matches a pattern."""
    return partial(re.fullmatch, pattern, flags=re.ASCII)


def text_as(make: Callable[[str], Any], rule: str) -> Reader:
    """Make a reader that turns a text into a value with `make`. If `make` refuses the text, `rule`
    says what is wrong with it. An object of `ipaddress` is read as its text. The last results are
    cached, because many routes share a few addresses and devices.
    """
    cached = lru_cache(4096)(make)

    def read_text(value: Any) -> Any:
        if not isinstance(value, _TEXTS):
            raise ValueError(rule)  # noqa: TRY004  a fault of the input
        try:
            return cached(str(value))
        except (ValueError, KeyError):  # KeyError: a word that is not in the table of `make`
            raise ValueError(rule) from None

    return read_text


def _integer_in(numbers: range) -> Reader:
    # A reader of the integers of this range.
    rule = f"is not an integer from {numbers[0]} to {numbers[-1]}"
    # `type` and not isinstance, because for Python, True is an integer, too.
    return must(lambda value: type(value) is int and value in numbers, rule)


# The kernel allows nearly any character in a name; code that prints a name escapes it. Half of a
# surrogate pair, which only JSON can express, cannot be written out again.
_TEXT_RULE = "is not a string of whole characters"
_READERS: dict[Any, Reader] = {
    bool: must(lambda value: isinstance(value, bool), "is not true or false"),
    int: _integer_in(range(1 << 32)),  # every integer of the kernel's routing
    str: text_as(must(matches(r"[^\ud800-\udfff]*"), _TEXT_RULE), _TEXT_RULE),
}


def register(kind: Any, reader: Reader) -> None:
    """Have this reader read the values of a type. The module that defines the type calls this."""
    _READERS[kind] = reader


def reader_of(kind: Any) -> Reader:
    """The function that reads a value of this type from JSON. It raises ValueError if the value is
    faulty.
    """
    if kind in _READERS:
        return _READERS[kind]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _reader_with_rules(*parts)
    if origin in {Union, UnionType}:  # X | None; null is never read, because it counts as absent
        reader = reader_of(parts[0])
        # A union without None is of the types for IPv4 and IPv6, which have the same reader. A
        # NamedTuple is read from an object.
        if NoneType not in parts or hasattr(parts[0], "_fields"):
            return reader
        return partial(_read_unless_empty, reader)  # an empty text stands for None
    if origin is Literal:
        words = {word.lower(): word for word in parts}
        return text_as(lambda text: words[text.lower()], f"is not one of {', '.join(parts)}")
    if origin is tuple:  # all of one type: tuple[X, ...], or tuple[X, X]
        length = None if parts[-1] is ... else len(parts)
        return partial(_read_list, reader_of(parts[0]), length)
    if not hasattr(kind, "_fields"):  # no NamedTuple either, so a class that nobody registered
        raise TypeError(f"nothing reads {kind} from JSON; call register({kind}, reader)")
    return partial(_read_object, kind)


def _read_unless_empty(reader: Reader, text: Any) -> Any:
    # Reads a value that may be None (X | None) by the reader of X. An empty text becomes None,
    # because configurations of the Go original can have one in place of a gateway or device.
    return None if text == "" else reader(text)


def _reader_with_rules(kind: Any, *rules: Any) -> Reader:
    # The reader of Annotated[kind, *rules]: each rule checks or changes what the one before it has
    # returned. For an integer, a range can be the only rule.
    if isinstance(rules[0], range):
        return _integer_in(rules[0])
    readers = (reader_of(kind), *rules)

    def read_with_rules(value: Any) -> Any:
        for reader in readers:
            value = reader(value)
        return value

    return read_with_rules


# Lists and objects.


class _Field(NamedTuple):
    reader: Reader
    default: Any


def _make_fields(cls: Any) -> dict[str, _Field]:
    # The reader and the default of each field of the class, by its key in JSON. Call `fields_of`,
    # which caches them.
    kinds = get_type_hints(cls, include_extras=True)
    keys = getattr(cls, "json_keys", cls._fields)  # `section` gives a class keys in camelCase
    fields: dict[str, _Field] = {}
    for key, name in zip(keys, cls._fields, strict=True):
        fields[key] = _Field(reader_of(kinds[name]), cls._field_defaults.get(name, _REQUIRED))
    return fields


fields_of: Callable[[Any], dict[str, _Field]] = lru_cache(None)(_make_fields)
"""For each key in JSON, in the order of the fields of a class: how its value is read."""


@lru_cache(None)
def _defaults_of(cls: Any) -> dict[str, Any]:
    return {key: field.default for key, field in fields_of(cls).items()}


def _read_member(reader: Reader, key: str, value: object, faults: list[Fault]) -> Any:
    """Read the value of a key, or of a place in a list ("[1]"). Return None if it is faulty, and
    add its faults to `faults`, with the key in front of their paths ("[1].gateway").
    """
    try:
        return reader(value)
    except _FaultyError as error:  # an object or a list, which may have several faults
        for fault in error.faults:
            separator = "." if fault.path and not fault.path.startswith("[") else ""
            faults.append(fault._replace(path=f"{key}{separator}{fault.path}"))
    except ValueError as error:  # its arguments are the broken rule and the remedy
        faults.append(Fault(key, show(value), *error.args))
    return None


def _read_list(read_item: Reader, length: int | None, values: Any) -> tuple[Any, ...]:
    # Reads each item of a list, and raises all faults at once. `length` is the number of items that
    # the list must have; with None, any.
    # The constructor of a section may have a tuple for a list. A NamedTuple stands for an object.
    if not isinstance(values, list) and type(values) is not tuple:
        raise ValueError("is not a list", "write [...], even around a single item")
    if length is not None and length != len(values):
        raise ValueError("is not of the right length")
    faults: list[Fault] = []
    items: list[Any] = []
    for place, value in enumerate(values):
        items.append(_read_member(read_item, f"[{place}]", value, faults))
    if faults:
        raise _FaultyError(faults)
    return tuple(items)


def _read_object(cls: Any, document: Any) -> Any:
    """Make an object of the class from a JSON object, or raise all of its faults at once. If
    `document` is already an object of the class, it is returned as it is.
    """
    if isinstance(document, cls):
        return document
    fields = fields_of(cls)
    if not isinstance(document, Mapping):
        remedy = f"write {{...}} with any of the keys {', '.join(fields)}"
        raise ValueError("is not an object", remedy)  # noqa: TRY004  a fault of the input
    faults: list[Fault] = []
    values = _defaults_of(cls).copy()
    repeated = getattr(document, "repeated", ())  # keys given more than once, noted by `parse`
    for key, value in document.items():
        if key in repeated:
            faults.append(Fault(key, "", "given more than once"))
        if key not in fields:
            faults.append(_unknown(key, fields))
        elif value is not None:  # null counts as absent: the default stays
            values[key] = _read_member(fields[key].reader, key, value, faults)
    faults += [Fault(key, "", "missing") for key, value in values.items() if value is _REQUIRED]
    if faults:
        raise _FaultyError(faults)
    # Not `cls(…)`, because the constructor of a section calls this function.
    result = tuple.__new__(cls, values.values())
    if hasattr(result, "faults_between_fields"):
        # The method needs values that are right by themselves, so it comes last.
        faults += result.faults_between_fields()
    if faults:
        raise _FaultyError(faults)
    return result


def _unknown(key: object, known: Iterable[str]) -> Fault:
    # The fault of an unknown key. The remedy names the known key that is most similar, whatever
    # its case. If none is 80 % similar, the sentence lists all known keys instead.
    from difflib import get_close_matches  # noqa: PLC0415  only a fault needs it

    is_plain = re.fullmatch(r"[A-Za-z_]\w*", str(key), re.ASCII)
    path = str(key) if is_plain else f"[{show(key)}]"  # readable, whatever the key is
    by_lower_case = {known_key.lower(): known_key for known_key in known}
    similar = get_close_matches(str(key).lower(), by_lower_case, 1, 0.8)
    if similar:
        return Fault(path, "", "unknown key", f"did you mean {by_lower_case[similar[0]]}?")
    return Fault(path, "", f"unknown key; the known keys are {', '.join(known)}")


# Documents.


def section(cls: type[T]) -> type[T]:
    """Make a NamedTuple a section of a configuration. Its constructor and `_replace` then check and
    convert each argument by the same rules as a value from JSON. Its keys in JSON are the names
    of its fields in camelCase.
    """
    made: Any = cls
    made.json_keys = tuple(map(_camel, made._fields))
    plain_new = made.__new__

    @wraps(plain_new)
    def new_section(subclass: Any, *values: Any, **settings: Any) -> Any:
        # `plain_new` brings the arguments into the order of the fields, and fills in the defaults.
        given = plain_new(subclass, *values, **settings)
        return read(subclass, dict(zip(made.json_keys, given, strict=True)))

    made.__new__ = new_section
    # This is not an endless recursion, because `read` makes the object with `tuple.__new__`.
    # `_replace` makes its result with `_make`, which would check nothing.
    made._make = classmethod(lambda subclass, values: subclass(*values))
    return cls


def _camel(attribute: str) -> str:
    # `expected_cidrs` becomes `expectedCidrs`.
    first, *words = attribute.split("_")
    return first + "".join(map(str.capitalize, words))


def read(cls: type[T], document: object, *, key: str = "") -> T:
    """Make an object of this class from a JSON object. Raises a ConfigError with all faults. If the
    JSON object is the value of a key in a larger one, its faults are shown under that `key`:
    `read(Agent, whole["agent"], key="agent")`.
    """
    faults: list[Fault] = []
    result: T = _read_member(reader_of(cls), key, document, faults)
    if faults:  # with an empty key, `_read_member` has begun their paths with a dot
        raise ConfigError(fault._replace(path=fault.path.removeprefix(".")) for fault in faults)
    return result


def parse(text: str | bytes) -> Any:
    """Parse a JSON text; ConfigError if it is not JSON. Each object in it notes the keys that are
    given more than once (`_members`).
    """
    import json  # noqa: PLC0415  a check on the host reads no JSON

    try:
        if isinstance(text, bytes):
            # Take off a byte order mark by hand, because Debian's python3-minimal lacks the codec
            # utf-8-sig.
            text = text.removeprefix(b"\xef\xbb\xbf").decode()
        return json.loads(text, object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        rule = f"is not JSON: {error}" if text else "is empty"
        raise ConfigError([Fault("", "", rule)]) from error


class _Repeating(dict[str, Any]):
    """A JSON object in which keys are given more than once."""

    repeated: set[str]


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make the dict of a JSON object, and note in it the keys that are given more than once.
    `_read_object` reports those later, because only it knows their path.
    """
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    repeating = _Repeating(members)
    # The subtraction leaves the keys that were given more than once.
    repeating.repeated = set(Counter(key for key, _ in pairs) - Counter(members.keys()))
    return repeating


def load(path: str | os.PathLike[str], make: Callable[[bytes], T]) -> T:
    """Call `make` with the content of a file or a pipe (`-` is standard input), and return the
    result. If the file cannot be read, or `make` finds a fault, a ConfigError names the file.
    """
    source = "standard input" if path == "-" else os.fspath(path) or "''"
    try:
        if path == "-":
            text = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as stream:
                text = stream.read()
        return make(text)
    except OSError as error:
        raise ConfigError([Fault("", "", f"cannot be read: {error.strerror}")], source) from error
    except ConfigError as error:
        raise ConfigError(error.faults, source) from error


def read_file(cls: type[T], path: str | os.PathLike[str]) -> T:
    """The object of this class in a JSON file; `-` is standard input."""
    return load(path, lambda text: read(cls, parse(text)))


def json_value(value: Any) -> Any:
    """The value as JSON, from which `read` makes an equal value. Members with their default value
    are left out.
    """
    if type(value) in {bool, int, str}:
        return value
    if type(value) is tuple:
        return [json_value(item) for item in value]
    if type(value) in _READERS:  # an address, a network or a prefix
        return str(value)
    # What is left is a NamedTuple: an object in JSON.
    members: dict[str, Any] = {}
    for member, (key, field) in zip(value, fields_of(type(value)).items(), strict=True):
        if member != field.default:
            members[key] = json_value(member)
    return members
