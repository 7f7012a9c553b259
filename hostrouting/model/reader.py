"""JSON read into values of a class: one reader for configurations and snapshots, which reports every fault at once.

The annotations of a class say how its objects are read; this is worked out once for each class. A type may carry what
else has to hold: `Annotated[int, range(256)]`, or `Annotated[Network, network, must(...)]` with functions that take the
value (at first the text) and return another one, or raise `ValueError(rule, remedy)`. A faulty value raises `Invalid`,
whose paths begin at the value: the object or list around it adds its own key, and reads the other values.

A plain class is a NamedTuple; a `Section` of a configuration reads the arguments of its constructor in the same way.
Null is as good as absent, and so is an empty text for an optional one. A key that is unknown or given twice is a fault,
unless keys may be `skipped`: a newer version wrote it.
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
        return [fault._replace(path=path_of(key, fault.path)) for fault in self.faults]


def must(holds: Callable[[Any], bool], rule: str, remedy: str = "") -> Callable[[T], T]:
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


# From JSON to objects, and back.


class Section:
    """The base of the classes of a configuration: frozen values whose constructor reads its arguments.

    Each annotated attribute is an argument, in this order or by its name: a typed value, or as it is in JSON. None
    stands for the default. A key in JSON is the attribute in camelCase.
    """

    def __init__(self, *values: Any, **settings: Any) -> None:
        """Read all arguments. Raises a ConfigError with all their faults."""
        form = _form_of(type(self))
        settings |= zip(form.keys, values, strict=False)
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


def read(cls: type[T], value: object, skipped: Skipped = None) -> T:
    """The object of this class in a JSON object. Raises Invalid."""
    result: T = _form_of(cls).read(value, skipped)
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
        self.names = {key: name for name, key in self.keys.items()}
        self.readers = {self.keys[name]: _reader_of(kind) for name, kind in cls.__annotations__.items()}
        defaults = vars(cls) if self.is_section else cls._field_defaults
        self.defaults = {name: defaults[name] for name in self.keys if name in defaults}
        self.required = [key for key, name in self.names.items() if name not in defaults]

    def read(self, document: Any, skipped: Skipped) -> Any:
        """The object in this JSON object; a section is returned as it is."""
        if self.is_section:
            if isinstance(document, self.cls):
                return document
            section = object.__new__(self.cls)
            vars(section).update(self.values(document, skipped))
            return section
        values, faults = self._members(document, skipped)
        if faults:
            raise Invalid(faults)
        return self.cls(**values)

    def values(self, document: Any, skipped: Skipped = None) -> dict[str, Any]:
        """The values of all attributes of a section, in order."""
        members, faults = self._members(document, skipped)
        values = {name: members[key] if key in members else self.defaults[name] for name, key in self.keys.items()}
        faults += self.cls.faults_between(values)
        if faults:
            raise Invalid(faults)
        return values

    def _members(self, document: Any, skipped: Skipped) -> tuple[dict[str, Any], list[Fault]]:
        """The values in this JSON object by their keys, and the faults; of a value with faults what has none."""
        if type(document) is not dict and not isinstance(document, Mapping):
            remedy = f"write {{...}} with any of the keys {', '.join(self.names)}"
            raise _invalid(document, "is not an object", remedy)
        values: dict[str, Any] = {}
        faults: list[Fault] = []
        unknown: list[object] = []
        find_reader = self.readers.get
        for key, value in document.items():
            if value is None:
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
        for key in self.required:
            if key not in values:
                faults.append(Fault(key, "", "missing"))
                values[key] = None
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


# From the type of a value to the function that reads it.


def _remembering(parse: Callable[[str], Any], rule: str) -> Callable[[str], Any]:
    @lru_cache(_REMEMBERED)
    def read_text(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            raise ValueError(rule) from None

    return read_text


_ADDRESS = _remembering(as_ip, "is not an address")
_TEXTS: dict[Any, Callable[[str], Any]] = {
    IPv4Address: _ADDRESS,  # and where either family is allowed
    IPv6Address: _ADDRESS,
    Prefix: _remembering(Prefix.parse, "is not a network without host bits"),
}
"""The types that are text in JSON."""


def _reader_of(kind: Any, steps: tuple[Any, ...] = ()) -> Reader:
    """The reader for values of this type; `steps` are what the type carries."""
    if get_origin(kind) is Annotated:
        return _reader_of(kind.__origin__, kind.__metadata__)
    if get_origin(kind) in {Union, UnionType}:
        first, *others = get_args(kind)
        reader = _reader_of(first, steps)
        return _optional(reader) if NoneType in others and _is_text(first) else reader
    if get_origin(kind) is tuple:
        return _checked(_list_reader(*get_args(kind)), steps)
    if get_origin(kind) is Literal:
        return _member_reader(str, get_args(kind), "is not a known word")
    if kind is int:
        numbers = steps[0] if steps else _NUMBERS
        return _member_reader(int, numbers, f"is not an integer from {numbers[0]} to {numbers[-1]}")
    if kind is bool:
        return _member_reader(bool, (True, False), "is not true or false")
    if kind is str:
        return _checked(_read_word, steps)
    return _checked(_read_text, steps or (_TEXTS.get(kind, kind),)) if _is_text(kind) else _form_of(kind).read


def _is_text(kind: Any) -> bool:
    """Whether the values of a type are text in JSON."""
    kind = getattr(kind, "__origin__", kind)
    return kind in _TEXTS or not (isinstance(kind, type) and issubclass(kind, int | tuple | Section))


def _optional(reader: Reader) -> Reader:
    return lambda value, skipped: None if value == "" else reader(value, skipped)


def _checked(read_plain: Reader, steps: tuple[Callable[[Any], Any], ...]) -> Reader:
    if not steps:
        return read_plain

    def read_checked(value: Any, skipped: Skipped) -> Any:
        result = read_plain(value, skipped)
        try:
            for step in steps:
                result = step(result)
        except ValueError as error:
            rule, remedy, *_ = *error.args, ""
            raise _invalid(value, rule, remedy) from None
        return result

    return read_checked


def _invalid(value: object, rule: str, remedy: str = "") -> Invalid:
    return Invalid([Fault("", show(value), rule, remedy)])


def _list_reader(kind: Any, *others: Any) -> Reader:
    read_item, length = _reader_of(kind), None if others == (...,) else 1 + len(others)

    def read_list(values: Any, skipped: Skipped) -> tuple[Any, ...]:
        if type(values) is not list and (isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable)):
            raise _invalid(values, "is not a list", "write [...], even around a single item")
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
        if length not in {None, len(items)}:
            raise _invalid(values, "is not of the right length")
        return tuple(items)

    return read_list


def _member_reader(kind: type, members: Any, rule: str) -> Reader:
    def read_member(value: Any, _: Skipped) -> Any:
        if type(value) is kind and value in members:  # a bool is an int, too, but not accepted as one
            return value
        raise _invalid(value, rule)

    return read_member


def _read_text(value: Any, _: Skipped) -> str:
    """The text; an object of `ipaddress` stands for its text."""
    if isinstance(value, str) or type(value).__module__ == "ipaddress":
        return str(value)
    raise _invalid(value, "is not a text")


def _read_word(value: Any, skipped: Skipped) -> str:
    # The kernel allows nearly any character in a name; code that prints it escapes it. Half of a surrogate pair, which
    # only JSON can express, cannot be written again.
    text = value if type(value) is str else _read_text(value, skipped)
    if len(text) > _LONGEST or not (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise _invalid(value, f"is not a text of up to {_LONGEST} characters")
    return text
