"""From a type to the function that reads its values from JSON, and the faults of these values.

A reader is a function that takes a value from JSON and returns the value that the type has; for any
other value it raises `ValueError(rule, remedy)`. The reader of an object or a list reads all of its
values, adds their paths, and raises all faults at once. `reader_of` is the only way from a type to
its reader:

- a type that was registered (`register`) has the reader that it was registered with;
- `Annotated[int, range(256)]` is an integer of these; `Annotated[str, must(...)]` is read as a
  `str` first, and then passes through rules, which return the value or another one;
- `X | None` is read as X, and `IPv4Address | IPv6Address` as the first, whose reader reads both;
- a `Literal` is one of these words, in any case;
- a `tuple[X, ...]` is a list, and a `tuple[X, X]` one of that length;
- any other class is a NamedTuple, which is an object; its annotations, which may be texts, say how
  its values are read.
  Its method `faults_between`, if it has one, finds what is wrong with several values together;
  there, a value with a fault of its own is None, and so is such an item of a list.

This is worked out once for each class. Null counts as absent, and so does an empty text where the
default is None or a word. A key that is unknown or given twice is a fault.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from hostrouting.errors import Fault
from hostrouting.text import SHOWN, nearest, show

Reader: TypeAlias = Callable[[Any], Any]

REPEATED = object()
"""Stands for the values of a key that is given more than once; no type has it."""
_TEXTS = (str, IPv4Address, IPv6Address, IPv4Network, IPv6Network)
_GIVEN_TWICE = ("", "this key is given more than once", "keep one of them")


# Single values.


class Rule:
    """A function through which a value goes: it returns the value, or another one, or raises
    `ValueError(rule, remedy)`. Any other error that it raises is a fault of the value, too.
    """

    def __init__(self, function: Reader) -> None:
        self._function = function

    def __call__(self, value: Any) -> Any:
        """Return the value that the type has, or raise ValueError."""
        try:
            return self._function(value)
        except ValueError:
            raise
        except Exception as error:
            broken = f"cannot be read: its rule raised {type(error).__name__}: {error}"
            remedy = "write another value, or mend the rule: it raises ValueError(rule, remedy)"
            raise ValueError(broken, remedy) from error


def must(condition: Callable[[Any], object], rule: str, remedy: str = "") -> Rule:
    """A rule for one value, for `Annotated`: its condition, what is said if that fails, and the
    remedy.
    """
    given: object = condition  # not every author checks types
    if not callable(given):
        known = "a function that returns a bool, such as matches('[a-z]+')"
        raise TypeError(f"must: condition is {given!r:.80}; it must be {known}")
    if not rule:
        raise ValueError("must: rule is empty; say what is wrong: 'is not a free port'")

    def check(value: Any) -> Any:
        if not condition(value):
            raise ValueError(rule, remedy)
        return value

    return Rule(check)


def matches(pattern: str) -> Callable[[str], object]:
    """The condition for `must` that the whole text matches a pattern, compiled when it is used."""
    return partial(re.fullmatch, pattern, flags=re.ASCII)


def text_as(make: Callable[[str], Any], rule: str) -> Rule:
    """A reader, and a rule, that returns what `make` makes of a text; an object of `ipaddress`
    stands for its text.

    Many routes share a few addresses and devices, so the results for the last texts are kept.
    """
    cached = lru_cache(4096)(make)

    def read_text(value: Any) -> Any:
        is_text = isinstance(value, _TEXTS)
        if not is_text:
            raise ValueError(rule)
        try:
            return cached(str(value))
        except (ValueError, KeyError):
            raise ValueError(rule) from None

    return Rule(read_text)


def _integer_in(numbers: Any) -> Reader:
    if isinstance(numbers, range):
        rule = f"is not an integer from {numbers[0]} to {numbers[-1]}"
    else:
        rule = f"is not {' or '.join(map(str, numbers))}"
    # For Python alone, True is an integer, too.
    return must(lambda value: type(value) is int and value in numbers, rule)


def _one_of(words: tuple[str, ...]) -> Reader:
    spelled = {word.lower(): word for word in words}
    return text_as(lambda text: spelled[text.lower()], f"is not one of {', '.join(words)}")


# From a type to its reader.

# The kernel allows nearly any character in a name; code that prints a name escapes it. Half of a
# surrogate pair, which only JSON can express, cannot be written out again. The longest names are
# those of units.
_TEXT_RULE = "is not a string of up to 255 characters"
_text = must(matches(r"[^\ud800-\udfff]{0,255}"), _TEXT_RULE)

READERS: dict[Any, Reader] = {
    bool: must(lambda value: isinstance(value, bool), "is not true or false"),
    int: _integer_in(range(1 << 32)),  # every integer of the kernel's routing
    str: text_as(_text, _TEXT_RULE),
}
"""By type: the reader that it was registered with."""


def register(kind: Any, reader: Reader) -> None:
    """Have this reader read the values of a type. The module that defines the type calls this."""
    given: object = reader  # not every author checks types
    if isinstance(given, type) or not callable(given):
        known = "a function that returns the value, or raises ValueError(rule, remedy)"
        raise TypeError(f"register: reader is {given!r:.80}; it must be {known}")
    if not isinstance(kind, type) and get_origin(kind) is None:
        raise TypeError(f"register: kind is {kind!r:.80}; it must be a type, and the reader second")
    READERS[kind] = Rule(reader)


def reader_of(kind: Any) -> Reader:
    """The function that reads a value of this type."""
    if kind in READERS:
        return READERS[kind]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(*parts)
    if origin in {Union, UnionType}:
        return reader_of(parts[0])
    if origin is Literal:
        return _one_of(parts)
    if origin is tuple:
        return _list_of(*parts)
    if not hasattr(kind, "_fields"):
        name = kind.__name__ if type(kind) is type else kind
        known = (
            "bool, int, str, tuple[X, ...], X | None, Literal, Annotated and NamedTuples are read"
        )
        raise TypeError(
            f"nothing reads {name} from JSON; {known}; for another type, call "
            f"register({name}, reader) before this class"
        )
    return form_of(kind).read


def _annotated(kind: Any, *rules: Any) -> Reader:
    """The reader of `kind`, and then the rules; or, with numbers in their place, that of an integer
    which is one of these.
    """
    if isinstance(rules[0], range | tuple):
        return _integer_in(rules[0])
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError(f"{rule!r:.80} is not a rule; write must(condition, 'is not …')")
    read_plain = reader_of(kind)

    def read_with_rules(value: Any) -> Any:
        value = read_plain(value)
        for rule in rules:
            value = rule(value)
        return value

    return read_with_rules


# Lists and objects.


class _FaultyError(ValueError):
    """The faults of an object or a list, and what stands in for its value in `faults_between`."""

    def __init__(self, faults: list[Fault], stand_in: tuple[Any, ...] | None = None) -> None:
        super().__init__(faults, stand_in)
        self.faults = faults
        self.stand_in = stand_in


def read_member(reader: Reader, key: object, value: object, faults: list[Fault]) -> Any:
    """The value of a key or of a place in a list. If it has faults, they are added to `faults`,
    and what stands in for it in `faults_between` is returned.
    """
    try:
        return reader(value)
    except _FaultyError as error:
        faults += [fault._replace(path=path_of(key, fault.path)) for fault in error.faults]
        return error.stand_in
    except ValueError as error:
        if value is REPEATED:
            faults.append(Fault(path_of(key), *_GIVEN_TWICE))
        else:
            faults.append(Fault(path_of(key), show(value), *error.args))
        return None


def path_of(key: object, below: str = "") -> str:
    """The path of `below` under a key or a place in a list: `routes[0].dev`. Without a key, it is
    `below` itself.
    """
    if key is None:
        return below
    here = f"[{show(key)}]"
    if isinstance(key, str) and key.isascii() and key.isidentifier() and len(key) <= SHOWN:
        here = key
    if below and not below.startswith("["):
        return f"{here}.{below}"
    return f"{here}{below}"


def _list_of(kind: Any, *others: Any) -> Reader:
    """A list of any length for `tuple[X, ...]`; for `tuple[X, X]`, one of as many items as there
    are types, which are all the same.
    """
    read_item = reader_of(kind)
    length = None if others == (...,) else 1 + len(others)

    def read_list(values: Any) -> tuple[Any, ...]:
        # A NamedTuple is a tuple, too, and an object.
        if not isinstance(values, list) and type(values) is not tuple:
            raise ValueError("is not a list", "write [...], even around a single item")
        faults: list[Fault] = []
        items: list[Any] = []
        for place, value in enumerate(values):
            items.append(read_member(read_item, place, value, faults))
        if faults:
            raise _FaultyError(faults, tuple(items))  # with None for each faulty item
        if length is not None and length != len(items):
            raise ValueError("is not of the right length")
        return tuple(items)

    return read_list


class Form:
    """How the objects of one class are read: by key, in the order of their attributes."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        self.readers: dict[str, Reader] = {}
        self.defaults: dict[str, Any] = {}
        """None for a key that is required."""
        self._required: list[str] = []
        self._may_be_empty: set[str] = set()
        """The keys for which an empty text counts as absent: their default is None or a word."""
        keys = getattr(cls, "json_keys", cls._fields)  # a section has other keys than attributes
        kinds = get_type_hints(cls, include_extras=True)
        for name, value in vars(cls).items():
            if name.startswith("_") or name == "faults_between" or not callable(value):
                continue  # to compare a name takes 40 µs
            if nearest(name, ["faults_between"]):
                raise TypeError(f"{cls.__name__} has {name}; write faults_between, or rename it")
        for key, (name, kind) in zip(keys, kinds.items(), strict=True):
            try:
                self.readers[key] = reader_of(kind)
            except TypeError as error:
                raise TypeError(f"{cls.__name__}.{name}: {error}") from None
            self.defaults[key] = cls._field_defaults.get(name)
            default = self.defaults[key]
            if default not in (None, ""):
                try:
                    self.readers[key](default)
                except ValueError as error:
                    raise TypeError(
                        f"{cls.__name__}.{name}: its default {default!r:.80} {error.args[0]}; give "
                        "another default, or None"
                    ) from None
            if name not in cls._field_defaults:
                self._required.append(key)
            elif isinstance(self.defaults[key], str | None):
                self._may_be_empty.add(key)

    def read(self, document: Any) -> Any:
        """The object in this JSON object; an object of the class is returned as it is."""
        if isinstance(document, self.cls):
            return document
        if not isinstance(document, Mapping):
            remedy = f"write {{...}} with any of the keys {', '.join(self.readers)}"
            raise ValueError("is not an object", remedy)  # noqa: TRY004  a fault of the input
        faults: list[Fault] = []
        values = self._values_in(document, faults)
        result = tuple.__new__(self.cls, values)  # the constructor of a section calls this method
        if hasattr(result, "faults_between"):
            faults += result.faults_between()
        if faults:
            raise _FaultyError(faults)
        return result

    def _values_in(self, document: Mapping[Any, Any], faults: list[Fault]) -> Iterable[Any]:
        """The values in the order of the attributes. Each fault is added to `faults`, and the value
        that has it is None.
        """
        values = dict(self.defaults)
        for key, value in document.items():
            if value is None or (value == "" and key in self._may_be_empty):
                continue
            if key in self.readers:
                values[key] = read_member(self.readers[key], key, value, faults)
            else:
                faults.append(self._unknown(key))
        faults += [Fault(key, "", "missing") for key in self._required if document.get(key) is None]
        return values.values()

    def _unknown(self, key: object) -> Fault:
        near = nearest(str(key), self.readers)
        remedy = f"the known keys are {', '.join(self.readers)}"
        if near is not None:
            remedy = f"did you mean {near}?"
        return Fault(path_of(key), "", "unknown key", remedy)


form_of: Callable[[Any], Form] = lru_cache(None)(Form)
