"""JSON read into values of a class: one reader for configurations and snapshots, which reports every fault at once.

The annotations of a class say how its objects are read; this is worked out once for each class. A type may carry what
else has to hold: `Annotated[int, range(256)]`, or `Annotated[Network, network, must(...)]` with functions that take the
value (at first the text) and return another one. A faulty value raises `ValueError(rule, remedy)`; the object or list
around it makes a Fault of it with the path, reads the other values, and raises all their faults as `Invalid`.

A plain class is a NamedTuple; a `Section` of a configuration reads the arguments of its constructor in the same way.
Null is as good as absent, and so is an empty text for an optional one. A key that is unknown or given twice is a fault.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
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
_LARGEST = 64 << 20  # bytes; a configuration or a snapshot of 100,000 routes has a quarter of this
_LONGEST = 255  # characters of a word: a unit has the longest name, and a device one of at most 127
_NUMBERS = range(1 << 32)  # all that the kernel's routing has
_REMEMBERED = 4096  # texts of addresses that were read last: many routes share a few


class Invalid(ValueError):  # noqa: N818  control flow, until a caller knows what the document is
    """An object or a list has faults. `rest` is what of it has none, for the rules about several values."""

    def __init__(self, *faults: Fault, rest: object = None) -> None:
        self.faults, self.rest = faults, rest
        super().__init__(*faults)


def invalid(rule: str, remedy: str = "") -> Invalid:
    """The error for a whole document, which is never quoted: an agent's file has secrets."""
    return Invalid(Fault("", "", rule, remedy))


def faults_at(key: object, value: object, error: ValueError) -> list[Fault]:
    """The faults of a value, with paths that begin at the object or list that has it."""
    if isinstance(error, Invalid):
        return [fault._replace(path=path_of(key, fault.path)) for fault in error.faults]
    rule, remedy, *_ = *error.args, ""
    return [Fault(path_of(key), show(value), rule, remedy)]


def must(holds: Callable[[Any], object], rule: str, remedy: str = "") -> Callable[[T], T]:
    """A rule for one value, for `Annotated`: what holds for it, what is said if it does not, and what to do then."""

    def check(value: T) -> T:
        if not holds(value):
            raise ValueError(rule, remedy)
        return value

    return check


def path_of(key: object, below: str = "") -> str:
    """The path of what is below a key or the place in a list: `routes[0].dev`."""
    is_plain = isinstance(key, str) and key.isascii() and key.isidentifier() and len(key) <= SHOWN
    return f"{key if is_plain else f'[{show(key)}]'}{'.' if below and below[0] != '[' else ''}{below}"


# From a file to JSON.


_REPEATED = object()  # stands for the values of a key that is given more than once


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        members |= {key: _REPEATED for key, times in Counter(key for key, _ in pairs).items() if times > 1}
    return members


def parse(text: str | bytes) -> Any:
    """The JSON value in the text."""
    import json  # noqa: PLC0415  a check on the host reads none

    if not text.strip():
        raise invalid("is empty", "write {} for an empty configuration")
    try:
        # Without the codec utf-8-sig, which Debian's python3-minimal lacks.
        plain = text.removeprefix(b"\xef\xbb\xbf").decode() if isinstance(text, bytes) else text
        return json.loads(plain, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        remedy = "JSON has double quotes, no comments and no trailing comma, and this file has to be UTF-8"
        raise invalid(f"is not JSON: {error}", remedy) from error


def read_bytes(path: str) -> bytes:
    """The bytes of a file or a pipe; `-` is standard input."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else open(path, "rb") as stream:
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        remedy = "run as root, or give this user read permission" if isinstance(error, PermissionError) else ""
        raise invalid(f"cannot be read: {error.strerror}", remedy) from error
    except ValueError as error:
        raise invalid("is not a path") from error
    if len(data) > _LARGEST:
        raise invalid(f"is larger than {_LARGEST >> 20} MiB")
    return data


def name_of(path: str) -> str:
    """The name of the file in messages; it cannot control the terminal."""
    return "standard input" if path == STANDARD_INPUT else path if path and path.isprintable() else show(path)


# From JSON to objects, and back.


class Section:
    """The base of the classes of a configuration: frozen values whose constructor reads its arguments.

    Each annotated attribute is an argument, in this order or by its name: a typed value, or as it is in JSON. None
    stands for the default. A key in JSON is the attribute in camelCase.
    """

    def __init__(self, *values: Any, **settings: Any) -> None:
        """Read all arguments. Raises a ConfigError with all their faults."""
        form = _form_of(type(self))
        names = [*form.keys][: len(values)]
        if len(names) < len(values) or not settings.keys().isdisjoint(names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(form.keys)}, each of them once")
        settings |= zip(names, values, strict=True)
        try:
            vars(self).update(form.values({form.keys.get(name, name): value for name, value in settings.items()}))
        except Invalid as error:
            raise ConfigError(error.faults) from None

    @staticmethod
    def faults_between(values: Mapping[str, Any]) -> Iterable[Fault]:  # noqa: ARG004  for those that override it
        """The faults of several values together; one that has a fault of its own is None."""
        return ()

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object, with every setting; an empty text stands for None."""
        keys = _form_of(type(self)).keys
        return {keys[name]: "" if value is None else written(value) for name, value in vars(self).items()}

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


def written(value: Any) -> Any:
    """A value as JSON; of a plain class without the fields that have their default value."""
    if value is None or type(value) in {bool, int, str}:
        return value
    if isinstance(value, Section):
        return value.to_mapping()
    if not isinstance(value, tuple) or isinstance(value, Prefix):
        return str(value)
    if not (defaults := getattr(value, "_field_defaults", None)):
        return [*map(written, value)]
    pairs = zip(value._fields, value, strict=True)  # type: ignore[attr-defined]  # it is a NamedTuple
    return {name: written(held) for name, held in pairs if name not in defaults or held != defaults[name]}


def _single(value: Any) -> Any:
    if value is _REPEATED:
        raise invalid("this key is given more than once", "keep one of them")
    return value


def read(cls: type[T], value: object) -> T:
    """The object of this class in a JSON object. Raises Invalid."""
    try:
        result: T = _form_of(cls).read(_single(value))
    except Invalid:
        raise
    except ValueError as error:
        raise Invalid(*(fault._replace(path="") for fault in faults_at("", value, error))) from None
    return result


def camel(attribute: str) -> str:
    """The JSON key of a section's attribute."""
    first, *words = attribute.split("_")
    return first + "".join(map(str.capitalize, words))


class _Form:
    """How the objects of one class are read."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls, self.is_section = cls, issubclass(cls, Section)
        self.keys = {name: camel(name) if self.is_section else name for name in cls.__annotations__}
        defaults = vars(cls) if self.is_section else cls._field_defaults
        self.defaults = {name: defaults.get(name) for name in self.keys}
        self.required = [key for name, key in self.keys.items() if name not in defaults]
        self.fields = {self.keys[name]: (name, _reader_of(kind)) for name, kind in cls.__annotations__.items()}

    def read(self, document: Any) -> Any:
        """The object in this JSON object; a section is returned as it is."""
        if not self.is_section:
            return self.cls(**self.values(document))
        if isinstance(document, self.cls):
            return document
        section = object.__new__(self.cls)
        vars(section).update(self.values(document))
        return section

    def values(self, document: Any) -> dict[str, Any]:
        """The values of all attributes, in order."""
        if type(document) is not dict and not isinstance(document, Mapping):
            remedy = f"write {{...}} with any of the keys {', '.join(self.fields)}"
            raise ValueError("is not an object", remedy)
        values = dict(self.defaults)
        faults: list[Fault] = []
        for key, value in document.items():
            if value is None:
                continue
            if key not in self.fields:
                near = nearest(str(key), self.fields)
                remedy = f"did you mean {near}?" if near else f"the known keys are {', '.join(self.fields)}"
                faults.append(Fault(path_of(key), "", "unknown key", remedy))
                continue
            name, read_value = self.fields[key]
            try:
                values[name] = read_value(_single(value))
            except ValueError as error:
                faults += faults_at(key, value, error)
                values[name] = getattr(error, "rest", None)
        faults += [Fault(key, "", "missing") for key in self.required if document.get(key) is None]
        faults += self.cls.faults_between(values) if self.is_section else ()
        if faults:
            raise Invalid(*faults)
        return values


_FORMS: dict[Any, _Form] = {}


def _form_of(cls: Any) -> _Form:
    if cls not in _FORMS:
        _FORMS[cls] = _Form(cls)
    return _FORMS[cls]


# From the type of a value to the function that reads it.


def _reader_of(kind: Any, steps: tuple[Reader, ...] = ()) -> Reader:
    """The reader for values of this type; `steps` are what the type carries."""
    if get_origin(kind) is Annotated:
        return _reader_of(kind.__origin__, kind.__metadata__)
    if get_origin(kind) in {Union, UnionType}:
        first, *others = get_args(kind)
        read_plain = _reader_of(first, steps)
        is_optional = NoneType in others and _is_text(first)
        return (lambda value: None if value == "" else read_plain(value)) if is_optional else read_plain
    if kind is int:
        numbers: Any = steps[0] if steps else _NUMBERS
        return _one_of(int, numbers, f"is not an integer from {numbers[0]} to {numbers[-1]}")
    if kind is bool:
        return _one_of(bool, (True, False), "is not true or false")
    if get_origin(kind) is Literal:
        return _one_of(str, get_args(kind), f"is not one of {', '.join(get_args(kind))}")
    if get_origin(kind) is tuple:
        return _in_turn(_list_reader(*get_args(kind)), *steps)
    if not _is_text(kind):
        return _form_of(kind).read
    return _in_turn(_read_word, *steps) if kind is str else _in_turn(_read_text, *(steps or (_TEXTS.get(kind, kind),)))


def _is_text(kind: Any) -> bool:
    """Whether the values of a type are text in JSON."""
    kind = getattr(kind, "__origin__", kind)
    return kind in _TEXTS or not (isinstance(kind, type) and issubclass(kind, int | tuple | Section))


def _in_turn(*steps: Reader) -> Reader:
    def read_in_turn(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return read_in_turn if len(steps) > 1 else steps[0]


def _one_of(kind: type, members: Any, rule: str) -> Reader:
    # A bool is an int, too, but not accepted as one.
    return must(lambda value: type(value) is kind and value in members, rule)


def _list_reader(kind: Any, *others: Any) -> Reader:
    read_item, length = _reader_of(kind), None if others == (...,) else 1 + len(others)

    def read_list(values: Any) -> tuple[Any, ...]:
        if type(values) is not list and (isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable)):
            raise ValueError("is not a list", "write [...], even around a single item")
        items: list[Any] = []
        faults: list[Fault] = []
        for place, value in enumerate(values):
            try:
                items.append(read_item(value))
            except ValueError as error:
                faults += faults_at(place, value, error)
                items.append(None)
        if faults:
            raise Invalid(*faults, rest=tuple(items))
        if length not in {None, len(items)}:
            raise ValueError("is not of the right length")
        return tuple(items)

    return read_list


def _read_text(value: Any) -> str:
    """The text; an object of `ipaddress` stands for its text."""
    if isinstance(value, str) or type(value).__module__ == "ipaddress":
        return str(value)
    raise ValueError("is not a text")


def _read_word(value: Any) -> str:
    # The kernel allows nearly any character in a name; code that prints it escapes it. Half of a surrogate pair, which
    # only JSON can express, cannot be written again.
    text = _read_text(value)
    if len(text) > _LONGEST or not (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise ValueError(f"is not a text of up to {_LONGEST} characters")
    return text


@lru_cache(_REMEMBERED)
def read_address(text: str) -> IPv4Address | IPv6Address:
    """The address in a text."""
    try:
        return as_ip(text)
    except ValueError:
        raise ValueError("is not an address") from None


@lru_cache(_REMEMBERED)
def _read_prefix(text: str) -> Prefix:
    try:
        return Prefix.parse(text)
    except ValueError:
        raise ValueError("is not a network without host bits") from None


# Where either family of addresses is allowed, the first stands for both.
_TEXTS: dict[Any, Reader] = {IPv4Address: read_address, IPv6Address: read_address, Prefix: _read_prefix}
