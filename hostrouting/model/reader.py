"""JSON read into values of a class: one reader for configurations and snapshots, which reports every fault at once.

The annotations of a class say how its objects are read; this is worked out once for each class. A type may carry what
else has to hold: the numbers that an integer can be, as in `Annotated[int, range(256)]`, and functions that take the
value and return it or another one, as in `Annotated[str, must(...)]`. A faulty value raises `ValueError(rule, remedy)`;
the object or list around it makes a Fault of it with the path, reads the other values, and raises all their faults.

A plain class is a NamedTuple; a `Section` of a configuration reads the arguments of its constructor in the same way.
Null is as good as absent; so is an empty text for what may be None. A key that is unknown or given twice is a fault.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from hostrouting.errors import ConfigError, Fault
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.text import SHOWN, nearest, show

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
Reader: TypeAlias = Callable[[Any], Any]

STANDARD_INPUT = "-"
_LONGEST = 255  # characters of a word: a unit has the longest name, and a device one of at most 127
_REPEATED = object()  # stands for the values of a key that is given more than once, and no type has it
_GIVEN_TWICE = ("", "this key is given more than once", "keep one of them")


# From a file to JSON.


def read_bytes(path: str) -> bytes:
    """The bytes of a file or a pipe; `-` is standard input. Raises a ConfigError that names it."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else open(path, "rb") as stream:
            return stream.read()
    except (OSError, ValueError) as error:
        rule = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else "is not a path"
        raise ConfigError([Fault("", "", rule)], name_of(path)) from error


def name_of(path: str) -> str:
    """The name of the file in messages; it cannot control the terminal."""
    return "standard input" if path == STANDARD_INPUT else path if path and path.isprintable() else show(path)


def parse(text: str | bytes, remedy: str, rule: str = "") -> Any:
    """The JSON value in the text; the remedy, and perhaps a rule, are for a text that has none."""
    import json  # noqa: PLC0415  a check on the host reads none

    if not text.strip():
        raise refused("is empty", remedy)
    try:
        # Without the codec utf-8-sig, which Debian's python3-minimal lacks.
        plain = text.removeprefix(b"\xef\xbb\xbf").decode() if isinstance(text, bytes) else text
        return json.loads(plain, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise refused(rule or f"is not JSON: {error}", remedy) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        members |= {key: _REPEATED for key, times in Counter(key for key, _ in pairs).items() if times > 1}
    return members


# From JSON to objects, and back.


class Section:
    """The base of the classes of a configuration: frozen values whose constructor reads its arguments.

    Each annotated attribute is an argument, in this order or by its name: a typed value, or as it is in JSON. None
    stands for the default. A key in JSON is the attribute in camelCase.
    """

    def __init__(self, *values: Any, **settings: Any) -> None:
        keys = _form_of(type(self)).keys
        names = [*keys][: len(values)]
        if len(names) < len(values) or not settings.keys().isdisjoint(names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(keys)}, each of them once")
        settings |= zip(names, values, strict=True)
        vars(self).update(_form_of(type(self)).values({keys.get(name, name): settings[name] for name in settings}))

    @staticmethod
    def faults_between(values: Mapping[str, Any]) -> Iterable[Fault]:  # noqa: ARG004  for those that override it
        """The faults of several values together; one that has a fault of its own is None."""
        return ()

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object, without what has its default value."""
        mapping: dict[str, Any] = written(self)
        return mapping

    def _replace(self, **changes: Any) -> "Self":
        """The same section with other values, like that of a NamedTuple."""
        return type(self)(**{**vars(self), **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: use _replace")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def read(cls: type[T], document: object, *, key: str | None = None, required: Sequence[str] = ()) -> T:
    """The object of this class in a JSON object; it may have other required keys than the class. Raises ConfigError.

    The object may be the value of a key: the paths begin with this.
    """
    try:
        result: T = _form_of(cls).read(document, required)
    except ValueError as error:
        raise ConfigError(_faults_at(key, document, error)) from None
    return result


def written(value: Any) -> Any:
    """A value as JSON, without what has its default value."""
    if value is None or type(value) in {bool, int, str}:
        return value
    if type(value) is tuple:
        return [*map(written, value)]
    is_section = isinstance(value, Section)
    if isinstance(value, Prefix) or not (is_section or isinstance(value, tuple)):
        return str(value)
    form = _form_of(type(value))
    held = vars(value).values() if is_section else value
    members = zip(form.keys.values(), held, form.defaults.values(), strict=True)
    return {key: written(member) for key, member, default in members if member != default}


class _Form:
    """How the objects of one class are read."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls, self.is_section = cls, issubclass(cls, Section)
        self.keys = {name: camel(name) if self.is_section else name for name in cls.__annotations__}
        defaults = vars(cls) if self.is_section else cls._field_defaults
        self.defaults = {name: defaults.get(name) for name in self.keys}
        self.required = [key for name, key in self.keys.items() if name not in defaults]
        self.readers = {self.keys[name]: (name, _reader_of(kind)) for name, kind in cls.__annotations__.items()}

    def read(self, document: Any, required: Sequence[str] = ()) -> Any:
        """The object in this JSON object; an object of the class is returned as it is."""
        if isinstance(document, self.cls):
            return document
        values = self.values(document, required)
        if not self.is_section:
            return self.cls(**values)
        section = object.__new__(self.cls)
        vars(section).update(values)
        return section

    def values(self, document: Any, required: Sequence[str] = ()) -> dict[str, Any]:
        """The values of all attributes, in order."""
        if type(document) is not dict and not isinstance(document, Mapping):
            remedy = f"write {{...}} with any of the keys {', '.join(self.readers)}"
            raise ValueError("is not an object", remedy)
        values = dict(self.defaults)
        faults: list[Fault] = []
        for key, value in document.items():
            if value is None:
                continue
            if key not in self.readers:
                near = nearest(str(key), self.readers)
                remedy = f"did you mean {near}?" if near else f"the known keys are {', '.join(self.readers)}"
                faults.append(Fault(path_of(key), "", "unknown key", remedy))
                continue
            name, read_value = self.readers[key]
            try:
                values[name] = read_value(value)
            except ValueError as error:
                faults += _faults_at(key, value, error)
                values[name] = getattr(error, "rest", None)
        faults += [Fault(key, "", "missing") for key in required or self.required if document.get(key) is None]
        faults += self.cls.faults_between(values) if self.is_section else ()
        if faults:
            raise ConfigError(faults)
        return values


_form_of: Callable[[Any], _Form] = lru_cache(None)(_Form)


def camel(attribute: str) -> str:
    """The JSON key of a section's attribute."""
    first, *words = attribute.split("_")
    return first + "".join(map(str.capitalize, words))


# The values of an object or a list, and their faults.


class _ListError(ConfigError):
    """Some members of a list have faults. `rest` is the list with None for these: rules about several values use it."""

    rest: tuple[Any, ...]


def refused(rule: str, remedy: str = "") -> ConfigError:
    """The error for a whole value, which is never quoted: an agent's file has secrets."""
    return ConfigError([Fault("", "", rule, remedy)])


def path_of(key: object, below: str = "") -> str:
    """The path of what is below a key or the place in a list: `routes[0].dev`; without a key, what is below."""
    if key is None:
        return below
    is_plain = isinstance(key, str) and key.isascii() and key.isidentifier() and len(key) <= SHOWN
    return f"{key if is_plain else f'[{show(key)}]'}{'.' if below and below[0] != '[' else ''}{below}"


def _faults_at(key: object, value: object, error: ValueError) -> list[Fault]:
    """The faults of the value of a key or of a place in a list."""
    if isinstance(error, ConfigError):
        return [fault._replace(path=path_of(key, fault.path)) for fault in error.faults]
    words = _GIVEN_TWICE if value is _REPEATED else (show(value), *error.args)
    return [Fault(path_of(key), *words)]


# From the type of a value to the function that reads it.


def must(holds: Callable[[Any], object], rule: str, remedy: str = "") -> Reader:
    """A rule for one value, for `Annotated`: what holds for it, what is said if it does not, and what to do then."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(rule, remedy)
        return value

    return check


def _within(numbers: Any) -> Reader:
    rule = f"is not an integer from {numbers[0]} to {numbers[-1]}"
    return must(lambda value: type(value) is int and value in numbers, rule)  # a bool is an int for Python only


def _reader_of(kind: Any) -> Reader:
    """The reader for the values of a type."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _READERS:
        return _READERS[kind]
    if origin is Annotated:
        rules = kind.__metadata__
        return _in_turn(_reader_of(kind.__origin__), *rules) if callable(rules[0]) else _within(rules[0])
    if origin in {Union, UnionType}:
        read_plain = _reader_of(parts[0])  # for addresses of either family, the first stands for both
        return (lambda value: None if value == "" else read_plain(value)) if NoneType in parts else read_plain
    if origin is Literal:
        return must(lambda value: isinstance(value, str) and value in parts, f"is not one of {', '.join(parts)}")
    if origin is tuple:
        return _list_reader(*parts)
    return _form_of(kind).read if issubclass(kind, tuple | Section) else _in_turn(_read_text, kind)


def _in_turn(*steps: Reader) -> Reader:
    def read_in_turn(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return read_in_turn


def _list_reader(kind: Any, *others: Any) -> Reader:
    read_item, length = _reader_of(kind), None if others == (...,) else 1 + len(others)

    def read_list(values: Any) -> tuple[Any, ...]:
        if not isinstance(values, list | tuple):
            raise ValueError("is not a list", "write [...], even around a single item")  # noqa: TRY004  as all faults are
        items: list[Any] = []
        faults: list[Fault] = []
        for place, value in enumerate(values):
            try:
                items.append(read_item(value))
            except ValueError as error:
                faults += _faults_at(place, value, error)
                items.append(None)
        if faults:
            failure = _ListError(faults)
            failure.rest = tuple(items)
            raise failure
        if length not in {None, len(items)}:
            raise ValueError("is not of the right length")
        return tuple(items)

    return read_list


def _read_text(value: Any) -> str:
    """The text; an object of `ipaddress` stands for its text."""
    if isinstance(value, str) or type(value).__module__ == "ipaddress":
        return str(value)
    raise ValueError("is not a string")


def _read_word(value: Any) -> str:
    # The kernel allows nearly any character in a name; code that prints it escapes it. Half of a surrogate pair, which
    # only JSON can express, cannot be written again.
    text = _read_text(value)
    if len(text) > _LONGEST or not (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise ValueError(f"is not a string of up to {_LONGEST} characters")
    return text


def _text_as(make: Callable[[str], Any], rule: str) -> Reader:
    """The reader of a text as an address or a prefix. Many routes share a few, so the last texts are remembered."""

    @lru_cache(4096)
    def read_made(text: str) -> Any:
        try:
            return make(text)
        except ValueError:
            raise ValueError(rule) from None

    return _in_turn(_read_text, read_made)


_READERS: dict[Any, Reader] = {
    bool: must(lambda value: isinstance(value, bool), "is not true or false"),
    int: _within(range(1 << 32)),  # all that the kernel's routing has
    str: _read_word,
    Prefix: _text_as(Prefix.parse, "is not a network without host bits"),
    **dict.fromkeys((IPv4Address, IPv6Address), _text_as(as_ip, "is not an address")),
    **dict.fromkeys((IPv4Network, IPv6Network), _read_text),  # each setting has its own rules for them
}
