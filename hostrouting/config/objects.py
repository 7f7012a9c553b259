"""Reading JSON objects and lists: paths, keys and faults. No rule about routing belongs here.

A reader takes a raw value and its spot, and returns the parsed value. If it cannot, it records the fault and raises
`Faulty`; the reader of the enclosing object or list continues with the rest, so that one reading finds every fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hostrouting.errors import ConfigError, Fault
from hostrouting.nearest import nearest

__all__ = ["SHOWN", "WHOLE", "Faulty", "Keys", "Reader", "Spot", "camel", "items", "items_read", "show", "text_of"]


Reader = Callable[[object, "Spot"], Any]

WHOLE = "configuration"
"""The path of the top level, as shown in messages."""

SHOWN = 60
"""A message shows at most this many characters of a value."""


class Faulty(Exception):  # noqa: N818  control flow inside the reader only
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
        """The path from the top; only computed if a message needs it."""
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

    def faulty(self, value: object, rule: str, remedy: str = "") -> Faulty:
        """Record a fault and return the exception to raise."""
        self.note(value, rule, remedy)
        return Faulty()

    def raise_faults(self, source: str | None = None) -> None:
        """Raise a ConfigError with every recorded fault, if there are any."""
        if self.faults:
            raise ConfigError(self.faults, source)


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
        """Whether this is another kind of object: it has keys, and none of them is or resembles one of these keys."""
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
            except Faulty:
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
                raise Faulty
            return settings(**found)

        return read

    def check(self, **given: object) -> dict[str, Any]:
        """Check the arguments of a constructor like JSON values; returns them by attribute, or raises ConfigError."""
        at = Spot()
        found = self.read({self.names[attribute]: value for attribute, value in given.items()}, at)
        at.raise_faults()
        return found

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


def items_read(raw: object, at: Spot, read: Reader) -> tuple[Any, ...]:
    """The parsed items, in order, without duplicates."""
    found: dict[Any, None] = {}
    for item, spot in items(raw, at):
        try:
            found[read(item, spot)] = None
        except Faulty:
            continue
    return tuple(found)


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


def show(value: object) -> str:
    """The value as one short printable line, so that text from a file cannot control the terminal."""
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        # Python refuses to print an integer of more than 4,300 digits.
        bits = value.bit_length()
        return str(int(value)) if bits <= SHOWN * 3 else f"an integer of {bits} bits"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bytes):
        return "bytes"
    if type(value).__module__ == "ipaddress":
        return f'"{value}"'
    return f"a Python {type(value).__name__}"


def _quoted(text: str) -> str:
    from json import dumps  # noqa: PLC0415  only a fault needs it

    # Everything beyond ASCII is escaped, which makes look-alike letters, lone surrogates and control codes visible.
    shown = dumps(text[:SHOWN])
    return shown if len(text) <= SHOWN else f"{shown}... ({len(text)} characters)"


def _number(value: float) -> str:
    from json import dumps  # noqa: PLC0415  only a fault needs it

    return dumps(float(value))


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
