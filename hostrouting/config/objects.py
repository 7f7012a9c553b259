"""JSON objects and lists read in place: paths, keys and faults. No rule about routing belongs here.

A reader takes a raw value and its spot, and returns the value it stands for. When it cannot, it puts the
fault on record and raises `Faulty`; whatever holds the value goes on with the rest, so that every fault is
found in one reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hostrouting.errors import ConfigError, Fault
from hostrouting.nearest import nearest

__all__ = ["SHOWN", "WHOLE", "Faulty", "Keys", "Reader", "Spot", "camel", "items", "items_read", "show"]


Reader = Callable[[object, "Spot"], Any]

WHOLE = "configuration"
"""What a message calls the spot that is no part of anything."""

SHOWN = 60
"""So much of a value is shown in a message."""


class Faulty(Exception):  # noqa: N818  it steers the reading and never leaves it
    """The value's faults are on record; its holder goes on with the rest."""


class Spot:
    """A spot in the configuration, with its path, and the record of every fault seen anywhere in it."""

    __slots__ = ("_above", "_key", "faults")

    def __init__(self, above: Spot | None = None, key: object = "") -> None:
        """Start at the top with an empty record, or right below another spot and share its record."""
        self._above = above
        self._key = key
        self.faults: list[Fault] = [] if above is None else above.faults

    @property
    def path(self) -> str:
        """The way here from the top, put together only when a message needs it."""
        if self._above is None:
            return ""
        above, key = self._above.path, self._key
        if isinstance(key, str) and key.isascii() and key.isidentifier() and len(key) <= SHOWN:
            return f"{above}.{key}" if above else key
        return f"{above}[{show(key)}]"

    def below(self, key: object) -> Spot:
        """The spot of one key's value, or of one item of a list."""
        return Spot(self, key)

    def note(self, value: object, rule: str, remedy: str = "") -> None:
        """Put a fault with this value on record."""
        self.faults.append(Fault(self.path or WHOLE, show(value), rule, remedy))

    def note_absence(self, rule: str, remedy: str = "") -> None:
        """Put a fault on record that no single value shows."""
        self.faults.append(Fault(self.path or WHOLE, "", rule, remedy))

    def note_repeated(self) -> None:
        """Put on record that this key is there more than once."""
        self.note_absence("this key is given more than once", "keep one of them")

    def faulty(self, value: object, rule: str, remedy: str = "") -> Faulty:
        """Put a fault on record; raise what comes back to give this value up."""
        self.note(value, rule, remedy)
        return Faulty()

    def raise_faults(self, source: str | None = None) -> None:
        """Raise everything on record, if there is anything."""
        if self.faults:
            raise ConfigError(self.faults, source)


class Keys:
    """The keys that one kind of JSON object may have, and how each is read and written.

    Keys are attribute names here and camelCase in JSON. `required` says what to write for a key that must be
    there; `together` checks what only several values can show, those that were refused left out, and `absent`
    is what it sees of keys that are not there.
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
        """Describe one kind of object."""
        self.readers = readers
        self.names = {attribute: camel(attribute) for attribute in readers}
        self.attributes = {name: attribute for attribute, name in self.names.items()}
        self.required = required or {}
        self.absent = absent or {}
        self.together = together

    def is_foreign(self, raw: Mapping[str, object], *, also: Iterable[str] = ()) -> bool:
        """Whether the object is about something else: it has keys, and none of them is or looks like one of ours."""
        known = (*self.attributes, *also)
        return bool(raw) and not any(name in known or _nearest(name, known) for name in raw)

    def read(self, raw: object, at: Spot, *, also: Iterable[str] = ()) -> dict[str, Any]:
        """The values that could be read, by attribute; faults of the others are on record.

        `also` are keys that would have been understood further up, for "did you mean".
        """
        if not isinstance(raw, Mapping):
            raise at.faulty(
                raw,
                "where an object belongs",
                f"write {{...}} with any of the keys {', '.join(self.attributes)}",
            )
        for name in getattr(raw, "repeated", ()):
            at.below(name).note_repeated()
        found = {name: value for name, value in self.absent.items() if self.names[name] not in raw}
        for name, value in raw.items():
            attribute = self.attributes.get(name)
            if attribute is None:
                at.below(name).note_absence("unknown key", _advice(name, (*self.attributes, *also)))
                continue
            if value is None:
                at.below(name).note(value, "where a value belongs", "leave the key out, or give it a value")
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
        """The reader of a part of this kind: made already, or the JSON object that makes one."""

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
        """What a constructor was given, by attribute, read like JSON; raises ConfigError with every fault."""
        at = Spot()
        found = self.read({self.names[attribute]: value for attribute, value in given.items()}, at)
        at.raise_faults()
        return found

    def write(self, settings: object) -> dict[str, Any]:
        """The JSON object that is read back as these settings; a part that is None where it is absent is left out."""
        found = {name: getattr(settings, attribute) for name, attribute in self.attributes.items()}
        may_lack = {self.names[attribute] for attribute, value in self.absent.items() if value is None}
        return {name: _plain(value) for name, value in found.items() if not (value is None and name in may_lack)}


def items(raw: object, at: Spot) -> Iterator[tuple[object, Spot]]:
    """Each item of a list with its spot; anything that is no list is refused."""
    if isinstance(raw, str | bytes | Mapping) or not isinstance(raw, Iterable):
        raise at.faulty(raw, "where a list belongs", "write [...], also around a single item")
    for index, item in enumerate(raw):
        yield item, at.below(index)


def items_read(raw: object, at: Spot, read: Reader) -> tuple[Any, ...]:
    """Every item read, in order; what comes a second time is dropped, for it says nothing new."""
    found: dict[Any, None] = {}
    for item, spot in items(raw, at):
        try:
            found[read(item, spot)] = None
        except Faulty:
            continue
    return tuple(found)


def camel(attribute: str) -> str:
    """The JSON key of an attribute."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def show(value: object) -> str:
    """The value as one short printable line: what is in a file may not steer the terminal that shows it."""
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        # Python itself refuses to write out an integer of more than 4,300 digits.
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

    # Everything beyond ASCII is escaped: look-alike letters, lone surrogates and terminal sequences show.
    shown = dumps(text[:SHOWN])
    return shown if len(text) <= SHOWN else f"{shown}... ({len(text)} characters)"


def _number(value: float) -> str:
    from json import dumps  # noqa: PLC0415  only a fault needs it

    return dumps(float(value))


def _advice(name: object, known: Iterable[str]) -> str:
    near = _nearest(name, known)
    return f"did you mean {near}?" if near else f"the keys known here are {', '.join(known)}"


def _nearest(name: object, known: Iterable[str]) -> str | None:
    """The known key that was probably meant."""
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
