"""JSON as checked values: a file, its text, objects and lists, with every fault at once. No rules about routing.

Here: reading a file as JSON, and the paths, keys and faults of what is in it. Not here: which keys there are, and what
a value must be (`values`, `settings` and the other sections).

There are two kinds of failure. A file that is not JSON cannot be read any further: a ConfigError says why, and does not
quote the text, because an agent's larger file contains secrets. What is in the JSON is read to its end: a reader takes
a raw value and its spot, and returns the parsed value. If it cannot, it records the fault and raises `InvalidValue`;
the reader of the enclosing object or list continues with the rest, so that one reading finds every fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from hostrouting.errors import ConfigError, Fault
from hostrouting.inputs import Unreadable, read_bytes
from hostrouting.text import SHOWN, nearest, show

if TYPE_CHECKING:
    import json

WHOLE = "configuration"
"""The path of the top level, as shown in messages."""

SIZE_LIMIT = 64 * 1024 * 1024
"""A hundred thousand indented routes fill a quarter of this; a larger file is the wrong file."""

_DIGITS = 400

# How an error message of Python's JSON reader begins, and the remedy for it.
_REMEDIES = {
    "Expecting value": (
        "write a value here: {...}, [...], a string in double quotes, a number, true or false; JSON has no trailing"
        " comma"
    ),
    "Expecting property name": "write a key there, in double quotes; JSON has no trailing comma and no comments",
    "Illegal trailing comma": "remove the comma",
    "Expecting ':'": "write a colon there",
    "Expecting ','": "write a comma there, or the closing bracket",
    "Extra data": "the file must be one object: remove the text after its closing }",
    "Unterminated string": "end the string with a double quote",
    "Invalid control character": "write \\n for a line break and \\t for a tab, or end the string with a double quote",
    "Invalid \\": "write \\\\ for one backslash",
}
# Other file formats, recognised by the first line that is not a comment.
_KINDS = {"YAML": r"---|- |[\w.-]+:(\s|$)", "TOML or INI": r"\[[A-Za-z][\w.-]*\]\s*$|[\w.-]+\s*=", "XML or HTML": "<"}
_EXAMPLE = '{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}}'


class JsonObject(dict[str, Any]):
    """A JSON object that records which keys were given more than once."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        """Keep the last value of each key, as JSON readers do, and the names of the repeated keys."""
        super().__init__(pairs)
        self.repeated: tuple[str, ...] = ()
        if len(self) < len(pairs):
            left = dict.fromkeys(self, 0)
            for name, _ in pairs:
                left[name] += 1
            self.repeated = tuple(name for name, times in left.items() if times > 1)


def parse(text: str | bytes, *, source: str | None = None) -> object:
    """The JSON value in the text; `source` is the file it comes from, for messages.

    Objects become `JsonObject`. Python's extensions to JSON (NaN, Infinity) become floats: the readers of our section
    refuse them, and other sections of the file are ignored.
    """
    import json  # noqa: PLC0415  only a program that reads a configuration needs it

    if isinstance(text, bytes):
        text = _decoded(text, source)
    if not isinstance(text, str):
        _fail(source, f"{show(text)} is not a string of JSON")
    if text.startswith("\ufeff"):
        _fail(source, "starts with a byte order mark", "save it as UTF-8 without BOM")
    if not text.strip():
        _fail(source, "is empty", "write {} for an empty configuration")
    try:
        return json.loads(text, object_pairs_hook=JsonObject, parse_int=_integer)
    except json.JSONDecodeError as error:
        _refuse(text, error, source)
    except RecursionError as error:
        _fail(source, "is nested too deeply to be read", "a configuration has at most five levels", cause=error)


def read(path: str) -> bytes:
    """The bytes of a configuration file. Any failure to read it raises a ConfigError that names the file.

    A pipe is refused: reading one without a writer would block the boot.
    """
    try:
        return read_bytes(path, what="a configuration", limit=SIZE_LIMIT, piped=False)
    except Unreadable as error:
        _fail(printable(path), error.rule, error.remedy, cause=error.__cause__)


def printable(path: str) -> str:
    """The path for a message: unchanged, or quoted and escaped if it contains terminal control characters."""
    return path if path and path.isprintable() else show(path)


def _decoded(data: bytes, source: str | None) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        rule = f"is not UTF-8 (byte 0x{data[error.start]:02x} at offset {error.start})"
        _fail(source, rule, "save it as UTF-8", cause=error)


def _refuse(text: str, error: json.JSONDecodeError, source: str | None) -> NoReturn:
    """Raise a ConfigError that says where the text is not JSON and how to fix it, or which format it seems to be."""
    import re  # noqa: PLC0415  only a fault needs it

    rule = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    for kind, begins in _KINDS.items():
        if re.match(begins, first, re.ASCII):
            _fail(source, f"looks like {kind} and {rule}", f"write it as {_EXAMPLE}", cause=error)
    remedy = next((remedy for begins, remedy in _REMEDIES.items() if error.msg.startswith(begins)), "")
    _fail(source, rule, remedy, cause=error)


def _integer(digits: str) -> int:
    # A longer number is out of every range, which the first digits also show; and Python raises its own error for
    # more than 4,300 digits.
    return int(digits[:_DIGITS])


def _fail(source: str | None, rule: str, remedy: str = "", *, cause: BaseException | None = None) -> NoReturn:
    raise ConfigError([Fault(source or WHOLE, "", rule, remedy)], source=source) from cause


Reader = Callable[[object, "Spot"], Any]


class InvalidValue(Exception):  # noqa: N818  control flow inside the reader only
    """The faults of the value are recorded; the enclosing reader continues with the rest."""


class Spot:
    """A position in the configuration: its path, and the record of faults, shared by the whole configuration."""

    __slots__ = ("_above", "_key", "faults")

    def __init__(self, above: Spot | None = None, key: object = "") -> None:
        """Make the top spot with an empty record, or a spot below another one that shares its record."""
        self._above = above
        self._key = key
        self.faults: list[Fault] = [] if above is None else above.faults

    @property
    def path(self) -> str:
        """The path from the top, computed only when a message needs it."""
        if self._above is None:
            return ""
        above, key = self._above.path, self._key
        if isinstance(key, str) and key.isascii() and key.isidentifier() and len(key) <= SHOWN:
            return f"{above}.{key}" if above else key
        return f"{above}[{show(key)}]"

    def below(self, key: object) -> Spot:
        """The spot of a key's value, or of a list item."""
        return Spot(self, key)

    def note(self, value: object, rule: str, remedy: str = "") -> None:
        """Record a fault of this value."""
        self.faults.append(Fault(self.path or WHOLE, show(value), rule, remedy))

    def note_absence(self, rule: str, remedy: str = "") -> None:
        """Record a fault that is not about a single value, such as a missing key."""
        self.faults.append(Fault(self.path or WHOLE, "", rule, remedy))

    def note_repeated(self) -> None:
        """Record that this key is given more than once."""
        self.note_absence("this key is given more than once", "keep one of them")

    def faulty(self, value: object, rule: str, remedy: str = "") -> InvalidValue:
        """Record a fault and return the exception to raise."""
        self.note(value, rule, remedy)
        return InvalidValue()

    def raise_faults(self, source: str | None = None) -> None:
        """Raise a ConfigError with every recorded fault, if there are any."""
        if self.faults:
            raise ConfigError(self.faults, source)


class Section:
    """One object of the configuration: an attrs class whose constructor ends in `Keys.fill`."""

    __slots__ = ()
    _keys: ClassVar[Keys]

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object of this section."""
        return self._keys.write(self)

    def __repr__(self) -> str:
        """As attrs would write it: to have attrs compile one for each section takes 1 ms of every start."""
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._keys.readers)})"


class Keys:
    """The keys of one kind of JSON object, and how each is read and written.

    Keys are attribute names here and camelCase in JSON. `required` has the remedy for each key that must be present.
    `together` checks rules about several values; it receives only valid values, and `absent` has the values it
    receives for missing keys.
    """

    __slots__ = ("absent", "attributes", "names", "readers", "required", "together")

    def __init__(
        self,
        readers: Mapping[str, Reader],
        *,
        required: Mapping[str, str] | None = None,
        absent: Mapping[str, object] | None = None,
        together: Callable[[dict[str, Any], Spot], None] | None = None,
    ) -> None:
        """Define the keys of one kind of object."""
        self.readers = readers
        self.names = {attribute: camel(attribute) for attribute in readers}
        self.attributes = {name: attribute for attribute, name in self.names.items()}
        self.required = required or {}
        self.absent = absent or {}
        self.together = together

    def is_foreign(self, raw: Mapping[str, object], *, also: Iterable[str] = ()) -> bool:
        """Whether the object is of another kind: it has keys, and none is or resembles one of these."""
        known = (*self.attributes, *also)
        return bool(raw) and not any(name in known or _nearest(name, known) for name in raw)

    def read(self, raw: object, at: Spot, *, also: Iterable[str] = ()) -> dict[str, Any]:
        """The valid values by attribute; the faults of the others are recorded.

        `also` are the keys allowed one level up, for "did you mean".
        """
        if not isinstance(raw, Mapping):
            keys = ", ".join(self.attributes)
            raise at.faulty(raw, "is not an object", f"write {{...}} with any of the keys {keys}")
        for name in getattr(raw, "repeated", ()):
            at.below(name).note_repeated()
        found = {name: value for name, value in self.absent.items() if self.names[name] not in raw}
        for name, value in raw.items():
            attribute = self.attributes.get(name)
            if attribute is None:
                at.below(name).note_absence("unknown key", _advice(name, (*self.attributes, *also)))
                continue
            if value is None:
                at.below(name).note(value, "is not a value", "leave out the key, or give it a value")
                continue
            try:
                found[attribute] = self.readers[attribute](value, at.below(name))
            except InvalidValue:
                continue
        for attribute, remedy in self.required.items():
            if self.names[attribute] not in raw:
                at.below(self.names[attribute]).note_absence("missing", remedy)
        if self.together is not None:
            self.together(found, at)
        return found

    def reader(self, settings: type[Any]) -> Reader:
        """A reader that accepts an instance of `settings`, or the JSON object for one."""

        def read(raw: object, at: Spot) -> object:
            if isinstance(raw, settings):
                return raw
            before = len(at.faults)
            found = self.read(raw, at)
            if len(at.faults) > before:
                raise InvalidValue
            return settings(**found)

        return read

    def fill(self, settings: Any, given: Mapping[str, object], **more: object) -> None:
        """Check the arguments of a constructor like JSON values, and set them. Raises ConfigError.

        `given` may have more than the keys, and None for a section that is missing; `more` is set unchecked.
        """
        at = Spot()
        known = {
            self.names[attribute]: given[attribute]
            for attribute in self.readers
            if given[attribute] is not None or not isinstance(self.absent.get(attribute, ""), Section | None)
        }
        found = self.read(known, at)
        at.raise_faults()
        settings.__attrs_init__(**found, **more)

    def write(self, settings: object) -> dict[str, Any]:
        """The JSON object that reads back as these settings; an optional section that is None is left out."""
        found = {name: getattr(settings, attribute) for name, attribute in self.attributes.items()}
        may_lack = {self.names[attribute] for attribute, value in self.absent.items() if value is None}
        return {name: _plain(value) for name, value in found.items() if not (value is None and name in may_lack)}


def items(raw: object, at: Spot) -> Iterator[tuple[object, Spot]]:
    """Each item of a list with its spot. Anything that is not a list is a fault."""
    if isinstance(raw, str | bytes | Mapping) or not isinstance(raw, Iterable):
        raise at.faulty(raw, "is not a list", "write [...], even around a single item")
    for index, item in enumerate(raw):
        yield item, at.below(index)


def list_of(read: Reader, *, empty: tuple[str, str] | None = None) -> Callable[[object, Spot], tuple[Any, ...]]:
    """A reader of a list: the parsed items, in order, without duplicates.

    `empty` are the rule and the remedy for a list without items, if that is a fault.
    """

    def read_all(raw: object, at: Spot) -> tuple[Any, ...]:
        found: dict[Any, None] = {}
        before = len(at.faults)
        for item, spot in items(raw, at):
            with suppress(InvalidValue):
                found[read(item, spot)] = None
        if empty and not found and len(at.faults) == before:
            at.note_absence(*empty)
        return tuple(found)

    return read_all


def text_of(raw: object, at: Spot, remedy: str) -> str:
    """Text; an `ipaddress` object is accepted as its text."""
    if isinstance(raw, str):
        return str(raw)
    # Objects passed from Python code must satisfy the same rules as text in a file.
    if type(raw).__module__ == "ipaddress":
        return str(raw)
    raise at.faulty(raw, "is not a string", remedy)


def camel(attribute: str) -> str:
    """The JSON key of an attribute."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _advice(name: object, known: Iterable[str]) -> str:
    near = _nearest(name, known)
    return f"did you mean {near}?" if near else f"the known keys are {', '.join(known)}"


def _nearest(name: object, known: Iterable[str]) -> str | None:
    """The known key with the most similar spelling; None if there is none."""
    return nearest(name, known) if isinstance(name, str) else None


def _plain(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    to_mapping = getattr(value, "to_mapping", None)
    return str(value) if to_mapping is None else to_mapping()
