"""JSON read into values of a class: one reader for configurations and snapshots, which reports every fault at once.

The annotations of a class say how its values are read; this is worked out once for each class. A type may carry further
rules: the numbers that an integer can be, as in `Annotated[int, range(256)]`, and functions that take the value and
return it or another one, as in `Annotated[str, must(...)]`. The reader of a faulty value raises `ValueError(rule,
remedy)`. The reader of the object or list around it adds the path, reads the other values, and raises all their faults.

A class is a NamedTuple. If it is a `section` of a configuration, its constructor reads its arguments in the same way.
Null counts as absent, and so does an empty text where the default is None or a word. A key that is unknown or given
twice is a fault.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import lru_cache, partial, reduce, wraps
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from hostrouting.errors import ConfigError, Fault
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.text import SHOWN, nearest, show

T = TypeVar("T")
_SECTIONS: set[type[Any]] = set()
Reader: TypeAlias = Callable[[Any], Any]

_REPEATED = object()  # stands for the values of a key that is given more than once, and no type has it
_GIVEN_TWICE = ("", "this key is given more than once", "keep one of them")


# From a file to JSON.


def load(place: str | os.PathLike[str], make: Callable[[bytes], T]) -> T:
    """What `make` returns for the text of a file or a pipe (`-` is standard input). A ConfigError names the file."""
    path = os.fspath(place)
    # The name of a file must not control the terminal.
    source = "standard input" if path == "-" else path if path and path.isprintable() else show(path)
    if path == "-" and not sys.stdin:
        raise ConfigError([Fault("", "", "is closed")], source)
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream:
            text = stream.read()
    except (OSError, ValueError) as error:
        rule = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else "is not a path"
        raise ConfigError([Fault("", "", rule)], source) from error
    try:
        return make(text)
    except ConfigError as error:
        raise ConfigError(error.faults, source) from error


def parse(text: str | bytes, remedy: str, rule: str = "") -> Any:
    """The JSON value of the text. If the text is not JSON, the fault has this remedy, and this rule if one is given.

    No fault quotes the text: an agent's file contains secrets.
    """
    import json  # noqa: PLC0415  a check on the host reads none

    try:
        # Without the codec utf-8-sig, which Debian's python3-minimal lacks.
        plain = text.removeprefix(b"\xef\xbb\xbf").decode() if isinstance(text, bytes) else text
        return json.loads(plain, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        rule = (rule or f"is not JSON: {error}") if text.strip() else "is empty"
        raise ConfigError([Fault("", "", rule, remedy)]) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        members |= {key: _REPEATED for key, times in Counter(key for key, _ in pairs).items() if times > 1}
    return members


# From JSON to objects, and back.


def section(cls: type[T]) -> type[T]:
    """Make a NamedTuple a section of a configuration, whose keys in JSON are its attributes in camelCase.

    The constructor and `_replace` read each argument, which is a typed value or a value as in JSON. None stands for the
    default. If several values can be wrong together, the method `faults_between` of the class returns these faults; a
    value that has a fault of its own is None there.
    """
    kind: Any = cls
    unchecked = kind.__new__
    unchecked.__annotations__ = get_type_hints(cls)  # help() shows these, without the rules

    @wraps(unchecked)
    def checked(cls: Any, *values: Any, **settings: Any) -> Any:
        return read(cls, dict(zip(map(camel, cls._fields), unchecked(cls, *values, **settings), strict=True)))

    kind.__new__, kind._make = checked, classmethod(lambda cls, values: cls(*values))  # `_replace` calls `_make`
    _SECTIONS.add(cls)
    return cls


def read(cls: type[T], document: object, *, key: str | None = None) -> T:
    """The object of this class from a JSON object; `key` is the key with this value, if any. Raises ConfigError."""
    faults: list[Fault] = []
    result: T = _member(_form_of(cls).read, key, document, faults)
    if faults:
        raise ConfigError(faults)
    return result


def written(value: Any) -> Any:
    """A value as JSON; members that have their default value are left out."""
    if value is None or type(value) in {bool, int, str}:
        return value
    if type(value) is tuple:
        return [*map(written, value)]
    if isinstance(value, Prefix) or not isinstance(value, tuple):
        return str(value)
    form = _form_of(type(value))
    members = zip(form.members, value, form.defaults.values(), strict=True)
    return {key: written(member) for key, member, default in members if member != default}


def camel(attribute: str) -> str:
    """The JSON key of a section's attribute."""
    first, *words = attribute.split("_")
    return first + "".join(map(str.capitalize, words))


class _Form:
    def __init__(self, cls: type[Any]) -> None:
        self.cls, kinds, defaults = cls, cls.__annotations__, cls._field_defaults
        keys = {name: camel(name) if cls in _SECTIONS else name for name in kinds}
        self.defaults = {name: defaults.get(name) for name in kinds}
        self.required = [keys[name] for name in kinds if name not in defaults]
        # Those whose default is None or a word; every setting that is a word has one.
        self.may_be_empty = {keys[name] for name in kinds if isinstance(defaults.get(name, 0), str | None)}
        self.members = {keys[name]: (name, _reader_of(kind)) for name, kind in kinds.items()}

    def read(self, document: Any) -> Any:
        """The object in this JSON object; an object of the class is returned as it is."""
        if isinstance(document, self.cls):
            return document
        if type(document) is not dict and not isinstance(document, Mapping):
            raise ValueError("is not an object", f"write {{...}} with any of the keys {', '.join(self.members)}")
        values = dict(self.defaults)
        faults: list[Fault] = []
        for key, value in document.items():
            if value is None or (value == "" and key in self.may_be_empty):
                continue
            if key not in self.members:
                near = nearest(str(key), self.members)
                remedy = f"did you mean {near}?" if near else f"the known keys are {', '.join(self.members)}"
                faults.append(Fault(path_of(key), "", "unknown key", remedy))
                continue
            name, reader = self.members[key]
            values[name] = _member(reader, key, value, faults)
        faults += [Fault(key, "", "missing") for key in self.required if document.get(key) is None]
        result = tuple.__new__(self.cls, values.values())
        faults += result.faults_between() if hasattr(result, "faults_between") else ()
        if faults:
            raise _FaultyError(faults, None)
        return result


_form_of: Callable[[Any], _Form] = lru_cache(None)(_Form)


# The members of an object or a list, and their faults.


class _FaultyError(ValueError):
    """The faults of an object or a list; and the list with None for faulty members, for rules about several."""


def _member(reader: Reader, key: object, value: object, faults: list[Fault]) -> Any:
    """The value of a key or of a place in a list; its faults are added to `faults`."""
    try:
        return reader(value)
    except _FaultyError as error:
        own, rest = error.args
        faults += [fault._replace(path=path_of(key, fault.path)) for fault in own]
        return rest
    except ValueError as error:
        words = _GIVEN_TWICE if value is _REPEATED else (show(value), *error.args)
        faults.append(Fault(path_of(key), *words))
        return None


def path_of(key: object, below: str = "") -> str:
    """The path of `below` under a key or a place in a list: `routes[0].dev`. Without a key, it is `below` itself."""
    if key is None:
        return below
    is_plain = isinstance(key, str) and key.isascii() and key.isidentifier() and len(key) <= SHOWN
    return f"{key if is_plain else f'[{show(key)}]'}{'.' if below and below[0] != '[' else ''}{below}"


# From the type of a value to the function that reads it.


def must(holds: str | Callable[[Any], object], rule: str, remedy: str = "") -> Reader:
    """A rule for one value, for `Annotated`: its pattern or condition, what is said if that fails, and the remedy."""
    is_right = partial(re.fullmatch, holds, flags=re.ASCII) if isinstance(holds, str) else holds

    def check(value: Any) -> Any:
        if not is_right(value):
            raise ValueError(rule, remedy)
        return value

    return check


def _within(numbers: Any) -> Reader:
    rule = f"is not an integer from {numbers[0]} to {numbers[-1]}"
    return must(lambda value: type(value) is int and value in numbers, rule)  # a bool is an int for Python only


def _reader_of(kind: Any) -> Reader:
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _READERS:
        return _READERS[kind]
    if origin is Annotated:
        rules = kind.__metadata__
        if not callable(rules[0]):
            return _within(rules[0])
        steps = (_reader_of(kind.__origin__), *rules)
        return lambda value: reduce(lambda result, step: step(result), steps, value)
    if origin in {Union, UnionType}:
        return _reader_of(parts[0])  # for addresses of either family, the first stands for both
    if origin is Literal:
        words = {word.lower(): word for word in parts}
        return _text_as(lambda text: words[text.lower()], f"is not one of {', '.join(parts)}")
    return _list_reader(*parts) if origin is tuple else _form_of(kind).read


def _list_reader(kind: Any, *others: Any) -> Reader:
    read_item, length = _reader_of(kind), None if others == (...,) else 1 + len(others)

    def read_list(values: Any) -> tuple[Any, ...]:
        if not isinstance(values, list) and type(values) is not tuple:
            raise ValueError("is not a list", "write [...], even around a single item")
        faults: list[Fault] = []
        items = tuple(_member(read_item, place, value, faults) for place, value in enumerate(values))
        if faults:
            raise _FaultyError(faults, items)
        if length not in {None, len(items)}:
            raise ValueError("is not of the right length")
        return items

    return read_list


def _text_as(make: Callable[[str], Any], rule: str) -> Reader:
    """A reader that returns what `make` makes of a text; an object of `ipaddress` stands for its text.

    Many routes share a few addresses and devices, so the results for the last texts are kept.
    """
    cached = lru_cache(4096)(make)

    def read_text(value: Any) -> Any:
        if not isinstance(value, str) and type(value).__module__ != "ipaddress":
            raise ValueError(rule)
        try:
            return cached(str(value))
        except (ValueError, KeyError):
            raise ValueError(rule) from None

    return read_text


_READERS: dict[Any, Reader] = {
    bool: must(lambda value: isinstance(value, bool), "is not true or false"),
    int: _within(range(1 << 32)),  # every integer of the kernel's routing
    # The kernel allows nearly any character in a name; code that prints a name escapes it. Half of a surrogate pair,
    # which only JSON can express, cannot be written out again. The longest names are those of units.
    str: _text_as(must(r"[^\ud800-\udfff]{0,255}", ""), "is not a string of up to 255 characters"),
    Prefix: _text_as(Prefix.parse, "is not a network without host bits"),
    **dict.fromkeys((IPv4Address, IPv6Address), _text_as(as_ip, "is not an address")),
    # Each setting has its own rules for a network.
    **dict.fromkeys((IPv4Network, IPv6Network), _text_as(str, "is not a string")),
}
