"""A saved snapshot, read from a file, a pipe or standard input.

Here: recognising the two kinds of documents, reading the second, and errors that name the file. Not here: the first
kind, which is our own (`model.snapshot`), and the meaning of the kernel's messages (`kernel.netlink`).

The second document, `hostrouting/ip-snapshot/1`, is printed by a shell script (`boot.scripts`) on a node without this
library:

    ip                       the version of ip
    links                    `ip -N -j -d link show`
    settings4, settings6     `ip -N -j -d netconf show` of each family
    on                       the IPv4 settings that ip does not show and that are not 0, such as "eth0/accept_local"
    nexthops                 `ip -N -j -d nexthop show`: the next hop objects
    addresses4, addresses6   `ip address save`, in hexadecimal: four bytes for the list, then the kernel's messages
    rules4, rules6           `ip rule save`
    routes4, routes6         `ip route save table all`

The kernel's messages are read by the same code as an answer of the kernel itself, so a selector that the node's ip does
not know is in the snapshot. For devices, settings and next hop objects ip has JSON only. It does not tell whether a
device that is down has a carrier; such a device is read as one without.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from sys import byteorder
from typing import TYPE_CHECKING, Any, Literal

import attrs

from hostrouting.errors import InputError
from hostrouting.inputs import Unreadable, name_of, read_bytes
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import HEADER, ROOM_BEHIND, Listing, add_run
from hostrouting.kernel.netlink.numbers import AF_OF
from hostrouting.kernel.netlink.read import (
    RouteReader,
    Settings,
    as_text,
    default_link,
    in_force,
    read_addresses,
    read_rules,
)
from hostrouting.kernel.netlink.route_message import RTMSG, read_route
from hostrouting.model.prefix import IPV4, IPV6, as_ip
from hostrouting.model.route import NextHop
from hostrouting.model.route_table import RouteTable
from hostrouting.model.snapshot import ENDS_EARLY, Address, Link, Snapshot, not_json

if TYPE_CHECKING:
    from hostrouting.model.rule import Rule

_LIMIT = 64 << 20  # bytes; a snapshot with 100,000 routes has about 10 MiB
_REMEDY = "save one with: hostrouting snapshot > FILE"


def read_snapshot(path: str) -> Snapshot:
    """The snapshot in a file. Raises InputError, which names the file."""
    try:
        return snapshot_in(snapshot_bytes(path))
    except InputError as error:
        raise of_file(error, path) from error


def snapshot_bytes(path: str) -> bytes:
    """The bytes of a snapshot. Raises InputError if the file cannot be read; it does not name the file."""
    try:
        return read_bytes(path, what="a snapshot", limit=_LIMIT)
    except Unreadable as error:
        raise InputError("snapshot", path="", problem=f"this {error.rule}; {error.remedy or _REMEDY}") from error


def snapshot_in(data: bytes) -> Snapshot:
    """The snapshot in a document of this library, or of the script that uses `ip`.

    Raises InputError, whose path is the place in the document.
    """
    try:
        return _decoded(data)
    except InputError as error:
        if error.path not in {"", "schema"}:  # a snapshot that was changed; otherwise it is probably another file
            raise
        raise InputError("snapshot", path=error.path, problem=f"{error.problem}; {_REMEDY}") from error


def of_file(error: InputError, path: str) -> InputError:
    """The same error with the name of the file."""
    name = name_of(path) if path.isprintable() else ascii(path)  # it must not control the terminal
    return InputError("snapshot", path=f"{name}: {error.path}" if error.path else name, problem=error.problem)


def _decoded(data: bytes) -> Snapshot:
    if not data.strip():
        raise InputError("snapshot", path="", problem="this is empty: the command that was to write it probably failed")
    if is_ip_document(data):
        return read_ip_document(data)
    try:
        found = Snapshot.from_json(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        if error.end == len(data):  # in the middle of a character
            raise InputError("snapshot", path="", problem=ENDS_EARLY) from error
        problem = f"this is not UTF-8 (byte 0x{data[error.start]:02x} at offset {error.start})"
        raise InputError("snapshot", path="", problem=problem) from error
    if found.family is not None:
        # Whoever plans or repairs by it would take our routes of the other family for gone.
        raise InputError("snapshot", path="family", problem=f"only IPv{found.family} was read; {_REMEDY}")
    return found


# The document of the script

SCHEMA = "hostrouting/ip-snapshot/1"

_LISTS = ("links", "settings4", "settings6", "on", "nexthops")
# What `ip … save` writes first (a number of four bytes), the kind of the messages, and their least size.
_SAVED = {
    "addresses": (0x47361222, n.RTM_NEWADDR, HEADER.size + 8),
    "rules": (0x71706986, n.RTM_NEWRULE, HEADER.size + 12),
    "routes": (0x45311224, n.RTM_NEWROUTE, HEADER.size + RTMSG.size),
}
_KEYS = frozenset({"schema", "ip", *_LISTS, *(f"{name}{family}" for name in _SAVED for family in AF_OF)})
_OTHER_ORDER: Literal["little", "big"] = "little" if byteorder == "big" else "big"
_FILTERS, _LOOSE = {"off": 0, "strict": 1}, 2  # any other number does what 2 does, and ip has no word for it
_ON = ("accept_local", "route_localnet", "src_valid_mark")
_FLAGS = ("onlink", "linkdown", "dead", "pervasive")
_MOST_WEIGHT = 1 << 16
_SHOWN = 120  # a message shows at most this many characters of what is wrong
_TAKE_AGAIN = "take it again with the script that `hostrouting snapshot --script` prints"


def is_ip_document(data: bytes) -> bool:
    """Whether this schema's name is anywhere in the file; `read_ip_document` then decides."""
    return f'"{SCHEMA}"'.encode() in data


def read_ip_document(data: bytes) -> Snapshot:
    """The snapshot in a document; anything else raises an InputError that names the path."""
    document = _parsed(data)
    settings = {family: _settings(document, family) for family in AF_OF}
    links, names = _links(document, settings)
    nexthops = _nexthops(document)
    addresses: list[Address] = []
    rules: list[Rule] = []
    for family in (IPV4, IPV6):
        with _reading(f"addresses{family}"):
            addresses += read_addresses(_saved(document, "addresses", family), names)
        with _reading(f"rules{family}"):
            rules += read_rules(_saved(document, "rules", family), frozenset(names.values()))
    tables: list[RouteTable] = []
    for family in (IPV4, IPV6):
        with _reading(f"routes{family}"):
            reader = RouteReader(partial(read_route, names=names, nexthops=nexthops))
            reader.take(_saved(document, "routes", family))
            tables.append(reader.table())
            list(tables[-1])  # routes are made on first use, and a fault has to be found now
    # Values that no kernel accepts are refused as in a snapshot of our own; no value of a route is too large for it.
    forwarding = settings[IPV6].get("all", Settings()).forwarding
    found = Snapshot(
        links=links,
        addresses=tuple(addresses),
        rules=tuple(rules),
        ipv6_forwarding=forwarding,
        default_link=default_link(settings[IPV4].get("default"), settings[IPV4].get("all", Settings())),
        skipped=tuple(f"{key[:_SHOWN]!a} in the document" for key in sorted(document.keys() - _KEYS)),
    )
    return attrs.evolve(Snapshot.from_json(found.to_json()), routes=RouteTable.joined(tables))


def _parsed(data: bytes) -> dict[str, Any]:
    # A device's name can have bytes that are not UTF-8. They are kept, and escaped by `_name`.
    text = data.decode("utf-8", "surrogateescape")
    if "\\'" in text:  # so ip 5.9 prints an apostrophe, which JSON does not allow
        text = re.sub(r"\\.", lambda found: "'" if found[0] == "\\'" else found[0], text)
    try:
        document = json.loads(text, strict=False)  # ip does not escape control characters
    except ValueError as error:
        raise not_json(error) from error
    except RecursionError as error:
        raise InputError("snapshot", path="", problem="this is nested too deeply for a snapshot") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError("snapshot", path="schema", problem=f"must be {SCHEMA!r}")
    for key in sorted(_KEYS - document.keys()):
        raise InputError("snapshot", path=key, problem=f"missing; {_TAKE_AGAIN}")
    return document


@contextmanager
def _reading(key: str) -> Iterator[None]:
    """Turn whatever cannot be read into an InputError with this path."""
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error) as error:
        told = ascii(f"{type(error).__name__}: {error}")[1:-1]
        raise InputError(
            "snapshot", path=key, problem=f"this is not as ip prints it ({told[:_SHOWN]}); {_TAKE_AGAIN}"
        ) from error


def _saved(document: Mapping[str, Any], name: str, family: int) -> Listing:
    """The kernel's messages of one list and family, without IPv4 messages in an IPv6 list (a kernel without IPv6)."""
    data, runs = bytes.fromhex(document[f"{name}{family}"]), list[range]()
    if not data:
        return Listing(data, runs)  # the kernel does not have it
    first, kind, least = _SAVED[name]
    if int.from_bytes(data[:4], _OTHER_ORDER) == first:
        problem = f"this was saved on a {_OTHER_ORDER}-endian computer; read it on one of that kind"
        raise InputError("snapshot", path=f"{name}{family}", problem=problem)
    if int.from_bytes(data[:4], byteorder) != first:
        raise ValueError(f"it does not begin with {first:#x}")
    at = 4
    while at < len(data):
        size, its_kind, _, _, _ = HEADER.unpack_from(data, at)
        if its_kind != kind or size < least or at + size > len(data):
            raise ValueError(f"at byte {at}, a message of kind {kind} is missing")
        if data[at + HEADER.size] == AF_OF[family]:
            add_run(runs, at, size + 3 & ~3)
        at += size + 3 & ~3
    return Listing(data + bytes(ROOM_BEHIND), runs)


def _name(text: str) -> str:
    return as_text(text.encode("utf-8", "surrogateescape"))


def _settings(document: Mapping[str, Any], family: int) -> dict[str, Settings]:
    with _reading(f"settings{family}"):
        found = {
            entry["interface"]: Settings(
                entry.get("ignore_routes_with_linkdown") is True,
                _FILTERS.get(entry.get("rp_filter", "off"), _LOOSE),
                entry.get("forwarding"),
            )
            for entry in document[f"settings{family}"]
        }
    if family == IPV4:
        with _reading("on"):
            for path in document["on"]:
                dev, _, name = path.rpartition("/")
                if name not in _ON:
                    raise ValueError(f"{name} is not one of {', '.join(_ON)}")
                found[dev] = found.get(dev, Settings())._replace(**{name: True})
    return found


def _links(
    document: Mapping[str, Any], settings: Mapping[int, Mapping[str, Settings]]
) -> tuple[tuple[Link, ...], dict[int, str]]:
    """The devices, and the name of each by its index."""
    with _reading("links"):
        names = {link["ifname"] for link in document["links"]}
        ipv4, ipv6, unset = settings[IPV4], settings[IPV6], Settings()
        every = ipv4.get("all", unset)
        links = tuple(
            attrs.evolve(
                _link(link, names, ipv4.get(link["ifname"], unset), every),
                ipv6_ignore_routes_with_linkdown=ipv6.get(link["ifname"], unset).wary,
            )
            for link in document["links"]
        )
        return links, {link.index: link.name for link in links}


def _link(entry: Mapping[str, Any], names: Container[str], own: Settings, every: Settings) -> Link:
    # The name of a device in another namespace is not known there, and ip prints its number.
    master = entry.get("master", "")
    return Link(
        name=_name(entry["ifname"]),
        index=entry["ifindex"],
        kind=entry.get("linkinfo", {}).get("info_kind", ""),
        type=int(entry["link_type"].strip("[]")),
        up="UP" in entry["flags"],
        carrier="LOWER_UP" in entry["flags"],
        master=_name(master) if master in names else None,
        group=int(entry["group"]),
        **in_force(own, every),
    )


def _nexthops(document: Mapping[str, Any]) -> dict[int, tuple[NextHop, ...]]:
    """The next hops of each next hop object; those of a group are those of its members."""
    with _reading("nexthops"):
        listed = document["nexthops"]
        singles = {entry["id"]: (_nexthop(entry),) for entry in listed if "dev" in entry}
        return singles | {entry["id"]: tuple(_members(entry["group"], singles)) for entry in listed if "group" in entry}


def _nexthop(entry: Mapping[str, Any]) -> NextHop:
    gateway = entry.get("gateway") or entry.get("via", {}).get("host")
    flags = entry.get("flags", ())
    return NextHop(
        _name(entry["dev"]),
        gateway=None if gateway is None else as_ip(gateway),
        **{flag: flag in flags for flag in _FLAGS},
    )


def _members(group: Iterable[Mapping[str, Any]], singles: Mapping[int, tuple[NextHop, ...]]) -> Iterator[NextHop]:
    for member in group:
        weight = member.get("weight", 1)
        if type(weight) is not int or not 0 < weight <= _MOST_WEIGHT:
            raise ValueError(f"{weight!r} is not a weight")
        yield from (attrs.evolve(leg, weight=weight) for leg in singles.get(member["id"], ()))
