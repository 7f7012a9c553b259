"""A host's routing at one moment, with its devices and their addresses; and the JSON form `hostrouting/snapshot/1`.

Here: the values, the functions that return a changed snapshot, and reading and writing it. Not here: how it is taken
(`kernel`), other documents that describe a host (`host.saved`), or what the kernel does with it (`fib`).

The JSON form is derived from the fields of the values themselves, so that no field can be forgotten. The reader of each
class is derived from its fields once, and not again for each value: a fleet has thousands of snapshots. A reader raises
an error about its own value, and its caller puts the path of the surrounding object before that. An unknown key is
skipped, because a newer version may have added it; the snapshot says which ones were.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache, partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args, get_origin

import attrs

from hostrouting.errors import InputError
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.model.route_table import RouteEdits, RouteTable
from hostrouting.model.rule import SELECTORS, Rule
from hostrouting.text import SHOWN

if TYPE_CHECKING:
    from typing_extensions import Self

ARPHRD_INFINIBAND, ARPHRD_LOOPBACK = 32, 772


@attrs.frozen(kw_only=True)
class Link:
    """A network device, identified by its name; its index changes when the device is created again."""

    name: str
    index: int
    # Its kind as in `ip -details link` ("veth", "bridge", "vrf", …); empty for hardware.
    kind: str = ""
    # The ARPHRD number: the type of its link-layer addresses (1 Ethernet, 32 InfiniBand, 772 loopback).
    type: int = 1
    up: bool = True
    carrier: bool = True
    master: str | None = None
    group: int = 0
    # The effective setting for IPv4, whether it was set on the device or on "all"; and that for IPv6.
    ignore_routes_with_linkdown: bool = False
    ipv6_ignore_routes_with_linkdown: bool = False
    # Whether it has no IPv6: the setting disable_ipv6 is on, or its MTU is less than IPv6 needs. Linux refuses every
    # IPv6 route by it. Its routes and addresses do not show this: a device that never had a carrier may have none.
    # A snapshot from `ip` does not show it either.
    ipv6_disabled: bool = False

    @property
    def infiniband(self) -> bool:
        """Whether the device is an InfiniBand device, whatever its name."""
        return self.type == ARPHRD_INFINIBAND

    @property
    def loopback(self) -> bool:
        """Whether no packet leaves the host by the device, whatever its name."""
        return self.type == ARPHRD_LOOPBACK


@attrs.frozen(kw_only=True)
class Address:
    """An address of this host, on one of its devices."""

    ip: IP
    length: int
    dev: str
    scope: int = 0
    peer: IP | None = None
    broadcast: IP | None = None
    # The metric of the route to its network that the kernel adds for it; 0 if none was set.
    metric: int = 0
    # Whether the kernel adds that route: it does not with `noprefixroute`.
    prefix_route: bool = True
    # Whether it is neither deprecated nor, in IPv6, one that another host has, too.
    preferred: bool = True

    @property
    def network(self) -> Prefix:
        """The network of the address: its peer's network if it has a peer."""
        far = self.peer or self.ip
        return Prefix.around(far.version, int(far), self.length)


_NO_ROUTES = RouteTable.of(())
_BOTH = (IPV4, IPV6)


def _as_table(routes: Iterable[Route]) -> RouteTable:  # mypy infers the field's type only from a function
    return RouteTable.of(routes)


@attrs.frozen(kw_only=True)
class Snapshot:
    """Links, addresses, rules and routes of one host at one moment.

    Rules and routes are in the kernel's order: of two that are otherwise equal, the first wins.
    """

    links: tuple[Link, ...] = ()
    addresses: tuple[Address, ...] = ()
    rules: tuple[Rule, ...] = ()
    routes: RouteTable = attrs.field(default=_NO_ROUTES, converter=_as_table)
    # Whether this host forwards IPv6 packets (`net.ipv6.conf.all.forwarding`); None if that is not known.
    ipv6_forwarding: bool | None = None
    # The only family whose addresses, rules and routes were read (4 or 6); None: both. What was not read may be there.
    family: int | None = None
    # What its document has and this version did not read, such as "ticks in a Route"; a newer version wrote it.
    skipped: tuple[str, ...] = ()

    @property
    def families(self) -> tuple[int, ...]:
        """The families that were read."""
        return _BOTH if self.family is None else (self.family,)

    def link(self, name: str) -> Link | None:
        """The device with this name; None if there is none."""
        return next((link for link in self.links if link.name == name), None)

    def with_routes(self, added: Iterable[Route] = (), *, without: Iterable[Route] = ()) -> "Self":
        """The same host without some routes (of equal ones, without the first) and with others added at the end."""
        gone = tuple(without)
        edits = RouteEdits(self.routes, about=gone)
        for route in gone:
            edits.change(route, None)
        for route in added:
            edits.put(route)
        return attrs.evolve(self, routes=edits.table())

    def to_json(self, *, indent: int | None = None) -> str:
        """The snapshot as JSON for `from_json`; fields with their default value are left out."""
        return to_json(self, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> "Self":
        """Read the output of `to_json`; anything else raises an InputError that names the path."""
        return from_json(cls, text)


T = TypeVar("T")
_Decoder: TypeAlias = Callable[[Any, set[str]], Any]
"""Reads a JSON value, and adds the keys that are not known to a set. Raises InputError, whose path begins here."""

SCHEMA = "hostrouting/snapshot/1"
# In every document: a host without rules is not one with the usual rules.
_LISTS = ("links", "addresses", "rules", "routes")
_LONGEST_WORD = 6  # such as \u001b; half of one at the end is not a word
ENDS_EARLY = "this is not JSON: it ends too early, so it was not written or copied whole"
_LONGEST = 128  # the length of the kernel's longest device name; every other word in a snapshot is shorter
_HIGHEST = (1 << 32) - 1  # of every number in the kernel's routing
# By field: the highest number that is allowed in it; and the lowest, which is 0 in all other fields.
_MOST = {"protocol": 255, "scope": 255, "weight": 256, **{selector.field: selector.most for selector in SELECTORS}}
_LEAST = {"expires": -_HIGHEST}
_KEPT = 4096  # texts of addresses that were read last: one address is in several routes of a host


def to_json(snapshot: Any, *, indent: int | None = None) -> str:
    """The snapshot as a JSON document."""
    import json  # noqa: PLC0415  a check on the host reads and writes none

    empty: dict[str, Any] = {name: [] for name in _LISTS}
    return json.dumps({"schema": SCHEMA, **empty, **_encode_fields(snapshot)}, indent=indent, ensure_ascii=False)


def from_json(kind: type[T], text: str) -> T:
    """The snapshot in a JSON document; `kind` is its class."""
    if not isinstance(text, str | bytes | bytearray):
        raise InputError(path="", problem="must be a string")
    import json  # noqa: PLC0415  see above

    try:
        document = json.loads(text, object_pairs_hook=_each_key_once)
    except InputError:
        raise
    except ValueError as error:
        raise _not_json(error) from error
    except RecursionError as error:
        raise InputError(path="", problem="this is nested too deeply for a snapshot") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(path="schema", problem=f"must be {SCHEMA!r}")
    del document["schema"]
    for name in _LISTS:
        if name not in document:
            raise InputError(path=name, problem="missing")
    form = _form_of(kind)  # type: ignore[arg-type]  # mypy takes a class for a thing that has no hash
    skipped: set[str] = set()
    found = form.read(document, skipped)
    result: T = attrs.evolve(found, skipped=tuple(sorted({*found.skipped, *skipped}))) if skipped else found
    return result


def _not_json(error: ValueError) -> InputError:
    """What to raise for this error of `json`. All files that were cut off have one message, wherever that was."""
    text, place, what = getattr(error, "doc", ""), getattr(error, "pos", 0), getattr(error, "msg", "Extra data")
    is_cut = what.startswith("Unterminated") or (what != "Extra data" and len(text.rstrip()) - place < _LONGEST_WORD)
    return InputError(path="", problem=ENDS_EARLY if is_cut else f"this is not JSON: {error}")


def _encode_fields(value: Any) -> dict[str, Any]:
    return {
        field.name: _encode(held)
        for field in attrs.fields(type(value))
        if (held := getattr(value, field.name)) != field.default
    }


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Prefix):
        return str(value)
    if attrs.has(type(value)):
        return _encode_fields(value)
    if isinstance(value, Sequence):
        return [_encode(item) for item in value]
    return str(value)


class _Form:
    """How the objects of one class are read: worked out from its fields."""

    def __init__(self, cls: type[Any]) -> None:
        self._cls, fields = cls, attrs.fields_dict(cls)
        self._members = {name: _decoder_of(field.type, name) for name, field in fields.items()}
        self._required = {name: None for name, field in fields.items() if field.default is attrs.NOTHING}

    def read(self, document: Any, skipped: set[str]) -> Any:
        """The object in this JSON object."""
        if not isinstance(document, dict):
            raise InputError(path="", problem="must be an object")
        members = self._members
        if not document.keys() <= members.keys():
            skipped |= {f"{_shown_key(name)} in a {self._cls.__name__}" for name in document if name not in members}
            document = {name: value for name, value in document.items() if name in members}
        if not self._required.keys() <= document.keys():
            missing = next(name for name in self._required if name not in document)
            raise InputError(path=missing, problem="missing")
        values, name = {}, ""
        try:
            for name, value in document.items():
                values[name] = members[name](value, skipped)
        except InputError as error:
            raise _inside(name, error) from error
        found = self._cls(**values)
        if "family" in members:  # a Rule or a Snapshot
            for name, problem in _problems_of(found):
                raise InputError(path=name, problem=problem)
        return found


@cache
def _form_of(cls: Any) -> _Form:
    return _Form(cls)


def _decoder_of(kind: Any, name: str) -> _Decoder:
    """A function that reads values of this type, for the field with this name."""
    if get_origin(kind) is UnionType:
        members = [member for member in get_args(kind) if member is not NoneType]
        inner = partial(_decode_text, _ip_in) if len(members) > 1 else _decoder_of(members[0], name)
        return partial(_decode_optional, inner) if NoneType in get_args(kind) else inner
    if kind is Prefix:
        return partial(_decode_text, _prefix_in)
    if attrs.has(kind):
        return _form_of(kind).read
    if kind is RouteTable:
        return partial(_decode_items, _form_of(Route).read, None)
    if get_origin(kind) is tuple:
        first, *rest = get_args(kind)
        return partial(_decode_items, _decoder_of(first, ""), None if rest == [Ellipsis] else 1 + len(rest))
    if get_origin(kind) is Literal:
        return partial(_decode_word, get_args(kind))
    if kind is int:
        return partial(_decode_number, _LEAST.get(name, 0), _MOST.get(name, _HIGHEST))
    return partial(_decode_plain, kind)


_ip_in = lru_cache(_KEPT)(as_ip)
_prefix_in = lru_cache(_KEPT)(Prefix.parse)


def _decode_optional(inner: _Decoder, value: Any, skipped: set[str]) -> Any:
    return None if value is None else inner(value, skipped)


def _decode_word(words: tuple[str, ...], value: Any, _skipped: set[str]) -> Any:
    if value not in words:
        raise _not_allowed(value)
    return value


def _decode_number(least: int, most: int, value: Any, _skipped: set[str]) -> int:
    if type(value) is not int:  # a bool is not accepted as a number
        raise _not_allowed(value)
    if not least <= value <= most:
        raise InputError(path="", problem=f"{value} is not in {least}..{most}")
    return value


def _decode_plain(kind: Any, value: Any, _skipped: set[str]) -> Any:
    """A string or a bool."""
    if type(value) is not kind:
        raise _not_allowed(value)
    if kind is str and (problem := _text_problem(value)):
        raise InputError(path="", problem=problem)
    return value


def _not_allowed(value: Any) -> InputError:
    return InputError(path="", problem=f"{_excerpt(value)} is not allowed here")


def _text_problem(text: str) -> str:
    """What is wrong with a name; empty if it is valid."""
    # The kernel allows nearly any character in a device name; code that prints a name escapes it for the terminal.
    if len(text) > _LONGEST:
        return f"{_excerpt(text)} has more than {_LONGEST} characters"
    # Names that the kernel's edges decode never contain a surrogate, and text with one cannot be encoded again.
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        return f"{_excerpt(text)} has half of a surrogate pair, which is not a character"
    return ""


def _problems_of(found: Rule | Snapshot) -> Iterator[tuple[str, str]]:
    if found.family not in {IPV4, IPV6, None}:
        yield "family", f"{found.family} is not an address family: use 4 or 6"
        return
    for rule in (found,) if isinstance(found, Rule) else ():
        yield from (fault for selector in SELECTORS if (fault := selector.fault(rule)))
        if rule.action == "goto" and rule.target is None:
            yield "target", "missing: a goto needs the priority to jump to"


def _excerpt(value: Any) -> str:
    """A value as shown in a message: printable and short."""
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _decode_text(parse: Callable[[str], Any], value: Any, _skipped: set[str]) -> Any:
    if not isinstance(value, str):
        raise InputError(path="", problem=f"{_excerpt(value)} is not a string")
    try:
        return parse(value)
    except ValueError as error:
        problem = (
            str(error) if str(error).isprintable() and len(value) <= SHOWN else f"{_excerpt(value)} is not valid here"
        )
        raise InputError(path="", problem=problem) from error


def _decode_items(item: _Decoder, count: int | None, value: Any, skipped: set[str]) -> tuple[Any, ...]:
    """A list of so many items, such as the two ends of a range of ports; None is any number of them."""
    if not isinstance(value, list) or (count is not None and len(value) != count):
        wanted = "any number of" if count is None else count
        raise InputError(path="", problem=f"must be a list of {wanted} items")
    found: list[Any] = []
    try:
        for one in value:
            found.append(item(one, skipped))  # noqa: PERF401  the number of those that were read is the place of the next
    except InputError as error:
        raise _inside(f"[{len(found)}]", error) from error
    return tuple(found)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dict. A key given twice is a fault, because it is unclear which value was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise InputError(path=_shown_key(twice), problem="this key is given more than once")
    return found


def _inside(name: str, error: InputError) -> InputError:
    """The same error with the path of the object, or the place in the list, around it."""
    between = "." if error.path and not error.path.startswith("[") else ""
    return InputError(path=f"{name}{between}{error.path}", problem=error.problem)


def _shown_key(name: str) -> str:
    # Text from a file must not control the terminal.
    return name if name.isascii() and name.isidentifier() and len(name) <= SHOWN else ascii(name[:SHOWN])
