"""JSON read into values of a class: one reader for configurations and snapshots, which reports every fault at once.

The fields of a class say how its objects are read; this is worked out once for each class. A field is read by its type,
with the rules in its metadata: `read` reads one value instead, `in` has the numbers that are allowed, `must` what else
has to hold; a list that is `filled` has an item, and an `empty` text is as good as null. A faulty value raises
`Invalid`, whose paths begin at the value: the object or list around it adds its own key, and reads the other values.

A plain class (`Route`) is only made from a document; the constructor of a `Section` reads its arguments. Null is as
good as absent. A key that is unknown or given twice is a fault, unless keys may be `skipped`: a newer version wrote it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import nullcontext
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args, get_origin

import attrs

from hostrouting.errors import ConfigError, Fault
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.text import SHOWN, nearest, show

T = TypeVar("T")
Skipped: TypeAlias = set[str] | None
Reader: TypeAlias = Callable[[Any, Skipped], Any]

STANDARD_INPUT = "-"
_LARGEST = 64 << 20  # bytes; a configuration or a snapshot of 100,000 routes has a quarter of this
_LONGEST = 255  # characters of a word: a unit has the longest name, and a device one of at most 127
_NUMBERS = range(1 << 32)  # all that the kernel's routing has
_REMEMBERED = 4096  # texts of addresses that were read last: many routes share a few


class Invalid(Exception):  # noqa: N818  control flow, until a caller knows what the document is
    """A value has faults. `rest` is what of it has none, for the rules about several values."""

    def __init__(self, faults: Iterable[Fault], rest: object = None) -> None:
        self.faults, self.rest = tuple(faults), rest
        super().__init__(*self.faults)

    def under(self, key: object) -> list[Fault]:
        """The faults with paths that begin at the object or list that has the value."""
        return [attrs.evolve(fault, path=path_of(key, fault.path)) for fault in self.faults]


class Must(NamedTuple):
    """A rule for one value: what holds for it, what is said if it does not, and what to do then."""

    holds: Callable[[Any], bool]
    rule: str
    remedy: str = ""


def invalid(value: object, rule: str, remedy: str = "") -> Invalid:
    """The error for a value that breaks a rule."""
    return Invalid([Fault("", show(value), rule, remedy)])


def path_of(key: object, below: str = "") -> str:
    """The path of what is below a key or the place in a list: `routes[0].dev`."""
    is_plain = isinstance(key, str) and key.isascii() and key.isidentifier() and len(key) <= SHOWN
    return f"{key if is_plain else f'[{show(key)}]'}{'.' if below and below[0] != '[' else ''}{below}"


def camel(attribute: str) -> str:
    """The JSON key of a section's attribute."""
    first, *words = attribute.split("_")
    return first + "".join(map(str.capitalize, words))


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

    if not text.strip():
        raise Invalid([Fault("", "", "is empty", "write {} for an empty configuration")])
    try:
        # Without the codec utf-8-sig, which Debian's python3-minimal lacks.
        plain = text.removeprefix(b"\xef\xbb\xbf").decode() if isinstance(text, bytes) else text
        return json.loads(plain, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        remedy = "JSON has double quotes, no comments and no trailing comma, and this file has to be UTF-8"
        raise Invalid([Fault("", "", f"is not JSON: {error}", remedy)]) from error


def read_bytes(path: str) -> bytes:
    """The bytes of a file or a pipe; `-` is standard input."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else open(path, "rb") as stream:
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


class Section:
    """The base of attrs classes whose constructor reads its arguments: typed values, or as they are in JSON.

    None stands for the default. A key in JSON is the attribute in camelCase.
    """

    __slots__ = ()

    def __attrs_post_init__(self) -> None:
        """Read all arguments. Raises a ConfigError with all their faults."""
        form = _form_of(type(self))
        try:
            form.read({key: getattr(self, name) for key, name in form.names.items()}, None, self)
        except Invalid as error:
            raise ConfigError(error.faults) from None

    @staticmethod
    def faults_between(values: Mapping[str, Any]) -> Iterable[Fault]:  # noqa: ARG004  for those that override it
        """The faults of several values together; one that has a fault of its own is None."""
        return ()

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object, with every setting; an empty text stands for None."""
        held = {key: getattr(self, name) for key, name in _form_of(type(self)).names.items()}
        return {key: "" if value is None else written(value) for key, value in held.items()}

    def __repr__(self) -> str:
        """As attrs would write it: to have attrs compile one for each section takes 1 ms of every start."""
        pairs = (f"{name}={getattr(self, name)!r}" for name in _form_of(type(self)).names.values())
        return f"{type(self).__name__}({', '.join(pairs)})"


def given(value: Any) -> Any:
    """For a section's field whose argument may have another type: its constructor reads it."""
    return value


def written(value: Any) -> Any:
    """A value as JSON; of a plain class without the fields that have their default value."""
    if value is None or type(value) in {bool, int, str}:
        return value
    if isinstance(value, Section):
        return value.to_mapping()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [*map(written, value)]
    if not attrs.has(type(value)) or isinstance(value, Prefix):
        return str(value)
    pairs = [(field, getattr(value, field.name)) for field in attrs.fields(type(value))]
    return {field.name: written(held) for field, held in pairs if held != field.default}


def read(cls: type[T], value: object, skipped: Skipped = None) -> T:
    """The object of this class in a JSON object. Raises Invalid."""
    result: T = _form_of(cls).read(value, skipped)
    return result


class _Form:
    """How the objects of one class are read."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls, self.is_section = cls, issubclass(cls, Section)
        fields = {camel(field.name) if self.is_section else field.name: field for field in attrs.fields(cls)}
        self.names = {key: field.name for key, field in fields.items()}
        self.readers = {key: _reader_of(field.type, field.metadata) for key, field in fields.items()}
        self.defaults = {field.name: field.default for field in fields.values() if field.default is not attrs.NOTHING}
        self.empties = {key for key, field in fields.items() if "empty" in field.metadata}
        self.required = {key: None for key, name in self.names.items() if name not in self.defaults}.keys()

    def read(self, document: Any, skipped: Skipped, section: Section | None = None) -> Any:
        """The object in this JSON object, put into the section if there is one; a section is returned as it is."""
        if self.is_section and isinstance(document, self.cls):
            return document
        values, faults = self._members(document, skipped)
        if self.is_section:
            values = {**self.defaults, **{self.names[key]: value for key, value in values.items()}}
            faults += self.cls.faults_between(values)
        if faults:
            raise Invalid(faults)
        if not self.is_section:
            return self.cls(**values)
        section = section or object.__new__(self.cls)
        for name, value in values.items():
            object.__setattr__(section, name, value)
        return section

    def _members(self, document: Any, skipped: Skipped) -> tuple[dict[str, Any], list[Fault]]:
        """The values in this JSON object by their keys, and the faults; of a value with faults what has none."""
        if type(document) is not dict and not isinstance(document, Mapping):
            raise invalid(document, "is not an object", f"write {{...}} with any of the keys {', '.join(self.names)}")
        values: dict[str, Any] = {}
        faults: list[Fault] = []
        unknown: list[object] = []
        find_reader, empties = self.readers.get, self.empties
        for key, value in document.items():
            if value is None or (empties and value == "" and key in empties):
                continue
            if (reader := find_reader(key)) is None:
                unknown.append(key)
                continue
            try:
                values[key] = reader(value, skipped)
            except Invalid as error:
                faults += error.under(key)
                values[key] = error.rest
        if unknown or type(document) is not dict:
            faults += self._misfits(unknown, getattr(document, "repeated", ()), skipped)
        if not self.required <= values.keys():
            faults += [Fault(key, "", "missing") for key in self.required if key not in values]
            values = {**dict.fromkeys(self.required), **values}
        return values, faults

    def _misfits(self, unknown: list[object], repeated: Iterable[str], skipped: Skipped) -> Iterable[Fault]:
        """The faults of keys that are unknown or given more than once, unless these may be skipped."""
        if skipped is not None:
            skipped |= {f"{path_of(key)} in a {self.cls.__name__}" for key in unknown}
            skipped |= {f"{path_of(key)}, given more than once in a {self.cls.__name__}" for key in repeated}
            return
        for key in unknown:
            near = nearest(str(key), self.names)
            advice = f"did you mean {near}?" if near else f"the known keys are {', '.join(self.names)}"
            yield Fault(path_of(key), "", "unknown key", advice)
        yield from (Fault(path_of(key), "", "this key is given more than once", "keep one of them") for key in repeated)


_FORMS: dict[Any, _Form] = {}


def _form_of(cls: Any) -> _Form:
    if cls not in _FORMS:
        _FORMS[cls] = _Form(cls)
    return _FORMS[cls]


_TEXTS: dict[Any, tuple[Callable[[str], Any], str]] = {
    IPv4Address: (as_ip, "is not an address"),  # and where either family is allowed
    IPv6Address: (as_ip, "is not an address"),
    Prefix: (Prefix.parse, "is not a network without host bits"),
}
"""The types that are text in JSON."""


def _reader_of(kind: Any, rules: Mapping[str, Any]) -> Reader:
    """The reader for values of this type, which may be optional, by the rules of the field."""
    if get_origin(kind) is UnionType:
        kind = next(member for member in get_args(kind) if member is not NoneType)
    if get_origin(kind) in {tuple, Sequence}:
        first, *others = get_args(kind)
        lengths = range("filled" in rules, sys.maxsize) if others in ([], [...]) else (1 + len(others),)
        return _list_reader(_reader_of(first, rules), lengths)
    reader, musts = _value_reader(kind, rules), rules.get("must", ())
    if not musts:
        return reader

    def read_checked(value: Any, skipped: Skipped) -> Any:
        result = reader(value, skipped)
        for must in musts:
            if not must.holds(result):
                raise invalid(value, must.rule, must.remedy)
        return result

    return read_checked


def _value_reader(kind: Any, rules: Mapping[str, Any]) -> Reader:
    if "read" in rules:
        return lambda value, _: rules["read"](value)
    if kind in _TEXTS:
        return _text_reader(*_TEXTS[kind])
    if attrs.has(kind):
        return _form_of(kind).read
    if get_origin(kind) is Literal:
        return _member_reader(str, get_args(kind), "is not a known word")
    if issubclass(kind, Enum):
        words = {word.value.lower(): word for word in kind}
        return _text_reader(lambda text: kind(words.get(text.lower())), f"is not one of {', '.join(kind)}")
    if kind is int:
        numbers = rules.get("in", _NUMBERS)
        return _member_reader(int, numbers, f"is not an integer from {numbers[0]} to {numbers[-1]}")
    return _read_word if kind is str else _member_reader(bool, (True, False), "is not true or false")


def _text_reader(parse: Callable[[str], Any], rule: str) -> Reader:
    parse = lru_cache(_REMEMBERED)(parse)

    def read_text(value: Any, _: Skipped) -> Any:
        try:
            return parse(value if type(value) is str else text_of(value))
        except ValueError:
            raise invalid(value, rule) from None

    return read_text


def text_of(value: object) -> str:
    """The text; an object of `ipaddress` stands for its text."""
    if isinstance(value, str) or type(value).__module__ == "ipaddress":
        return str(value)
    raise invalid(value, "is not a text")


def _list_reader(read_item: Reader, lengths: Container[int]) -> Reader:
    def read_list(values: Any, skipped: Skipped) -> tuple[Any, ...]:
        if type(values) is not list and (isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable)):
            raise invalid(values, "is not a list", "write [...], even around a single item")
        items: list[Any] = []
        faults: list[Fault] = []
        for place, value in enumerate(values):
            try:
                items.append(read_item(value, skipped))
            except Invalid as error:
                faults += error.under(place)
                items.append(None)
        if faults:
            raise Invalid(faults, tuple(items))
        if len(items) not in lengths:
            raise invalid(values, "is not of the right length")
        return tuple(items)

    return read_list


def _member_reader(kind: type, members: Any, rule: str) -> Reader:
    def read_member(value: Any, _: Skipped) -> Any:
        if type(value) is kind and value in members:  # a bool is an int, too, but not accepted as one
            return value
        raise invalid(value, rule)

    return read_member


def _read_word(value: Any, _: Skipped) -> str:
    # The kernel allows nearly any character in a name; code that prints it escapes it. Half of a surrogate pair, which
    # only JSON can express, cannot be written again.
    text = value if type(value) is str else text_of(value)
    if len(text) > _LONGEST or not (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise invalid(value, f"is not a text of up to {_LONGEST} characters")
    return text
