"""Keeps what was read of the kernel's lists for the next reading, until a change of it is reported.

A reading of everything takes longer the more devices and routes there are, and on a host with pods something changes
meanwhile. So a reading that is repeated, in the same snapshot or in the next one, lists again only what has changed.

1. A list is a dictionary of the kernel's messages. A report of a device or an IPv6 address has the same form, and takes
   the place of the message with the same key. Reports are read in their order until there are none, so an older one
   never remains.
2. The rules of a family, its IPv4 addresses, and each table are listed again after a report about one of their entries,
   because they have an order; the devices, after a report about their settings, because it has another form.
3. Linux does not report that IPv4 routes go with their device or with an address, nor that a next hop gets or loses a
   flag. So a change of a device, its settings or its addresses is a change of each table that has a route by it, or
   with that source. Linux reports this change before the routes go, so a table that is read soon after is read again.
4. After any other report, such as one about a next hop object, and after lost reports, nothing is kept.
5. A table with a route that expires is never kept. Some settings of a device are only in its own message, and Linux
   does not report that they change, nor the group of a device that is down, nor that a device without IPv6 addresses
   loses IPv6 with a small MTU: the caller has to read everything from time to time.

Here: which parts are kept. Not here: how a part is read (`read`), and which changes disturb a reading (`watch`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from ipaddress import ip_address
from sys import byteorder
from typing import TYPE_CHECKING, Any, TypeAlias

from hostrouting.kernel._route_table import RouteTable
from hostrouting.kernel.netlink.channel import HEADER, attributes_of
from hostrouting.kernel.netlink.numbers import FAMILY_OF
from hostrouting.kernel.netlink.route_message import name_of, read_route
from hostrouting.kernel.netlink.watch import device_of, reports, table_of
from hostrouting.model.prefix import IPV4, IPV6
from hostrouting.model.route import TABLE_LOCAL, TABLE_MAIN, Route

if TYPE_CHECKING:
    import socket

Messages: TypeAlias = "dict[Any, bytes]"
"""A list: the messages by what tells them apart, or by their places if these matter."""

# RTM_NEW… and RTM_DEL…
_LINKS, _ADDRESSES, _ROUTES, _RULES, _SETTINGS = (16, 17), (20, 21), (24, 25), (32, 33), (80, 81)
_OF_ADDRESS, _IFINDEX, _AF_SPEC = frozenset({1, 2}), 1, 26  # IFA_…, NETCONFA_… and IFLA_…
_FLUSH = 0.5  # seconds in which the routes of a device or an address are gone after the report
# Until a namespace gets its first custom rule, IPv4 keeps these two merged, and a list of one passes through the other.
_MERGED = (TABLE_LOCAL, TABLE_MAIN)


class Kept:
    """The parts of a host that were read and have not changed since."""

    def __init__(self, guard: socket.socket) -> None:
        """Nothing is kept yet; `guard` listens for changes, and is closed with this."""
        guard.settimeout(0)
        self._guard, self._pid = guard, os.getpid()
        self._lists: dict[tuple[str, int], Messages] = {}
        self._tables: dict[tuple[int, int], RouteTable] = {}
        # The tables that have to be read again, each until this time.
        self._changing: dict[tuple[int, int], float] = {}
        self._names: dict[int, str] = {}
        self._routes: dict[bytes, Route] = {}
        # What was joined last, and from what, by the families: the guard's tasks ask for one and for both in turn.
        self._joined: dict[tuple[int, ...], tuple[list[RouteTable], RouteTable]] = {}

    @property
    def is_ours(self) -> bool:
        """Whether this process made it: a forked child would take its parent's reports."""
        return self._pid == os.getpid()

    def close(self) -> None:
        """Stop listening."""
        self._guard.close()

    def hear(self) -> Iterator[bytes]:
        """The reported changes, after they were applied; an empty one if reports were lost."""
        for messages in reports(self._guard):
            for message in messages:
                self._apply(message)
            yield from messages

    def messages(self, what: str, family: int, read: Callable[[], Messages]) -> Messages:
        """A list, which is read if it is not kept."""
        home = what, family
        if home not in self._lists:
            self._lists[home] = read()
        return self._lists[home]

    def table(self, family: int, number: int, read: Callable[[Callable[[bytes], Route]], RouteTable]) -> RouteTable:
        """One table (0: all of a family), from memory or read now; `read` is called with a reader of messages."""
        home = family, number
        found = self._tables.get(home)
        if found is None or home in self._changing or found.expires:
            if self._changing.get(home, 0.0) <= time.monotonic():
                self._changing.pop(home, None)
            found = self._tables[home] = read(partial(_read_route, self._names, self._routes))
        return found

    def joined(self, families: tuple[int, ...], tables: Iterable[RouteTable]) -> RouteTable:
        """The routes of all these tables; the same object as last time if they have not changed."""
        parts = [*tables]
        last, _ = self._joined.get(families, ([], None))
        if not last or [*map(id, parts)] != [*map(id, last)]:
            self._joined[families] = parts, RouteTable.joined(parts)
        return self._joined[families][1]

    def name(self, names: Mapping[int, str]) -> None:
        """Use these names for the devices from now on."""
        if any(self._names.get(index, name) != name for index, name in names.items()):
            self._tables.clear()
            self._names, self._routes = {}, {}  # those tables may still be in use, by the former names
        self._names |= names

    def _apply(self, data: bytes) -> None:
        """Change or drop the kept parts that this change concerns."""
        kind, version = (HEADER.unpack_from(data)[1], FAMILY_OF.get(data[16], 0)) if data else (0, 0)
        if kind in _ROUTES and version:
            table = table_of(data)
            for number in {table, 0, *(_MERGED if table in _MERGED and version == IPV4 else ())}:
                self._changing.setdefault((version, number), 0.0)
        elif kind in _RULES and version:
            self._drop("rule", version)
        elif kind in _LINKS:
            self._apply_link(data, is_new=kind == _LINKS[0])
        elif kind in _ADDRESSES and version:
            self._apply_address(data, version, is_new=kind == _ADDRESSES[0])
        elif kind in _SETTINGS and version:
            self._apply_settings(data, is_new=kind == _SETTINGS[0])
        else:
            self._lists.clear()
            self._touch_all()

    def _apply_link(self, data: bytes, *, is_new: bool) -> None:
        index = device_of(data)
        if is_new and not data[16] and not attributes_of(data, 32, {_AF_SPEC}):
            self._drop("link", 0)  # an event of a wireless device, with its name alone
        elif not data[16]:  # otherwise it is about the port of a bridge
            self._put("link", 0, index, data if is_new else None)
        if is_new:
            # Linux gives it an IPv6 address, and reports that when no neighbour was found to have it.
            self._drop("address", IPV6)
        self._touch(index)

    def _apply_address(self, data: bytes, version: int, *, is_new: bool) -> None:
        index, raw = device_of(data), attributes_of(data, 24, _OF_ADDRESS)
        key, known = address_key(data), self._lists.get(("address", version), {})
        if version == IPV6 and not any(device == index and (device, address) != key for device, address in known):
            self._drop("link", 0)  # IPv6 was perhaps enabled or disabled on it, which is not reported
        if version == IPV4 or (is_new and key not in known and any(device == index for device, _ in known)):
            self._drop("address", version)  # they have an order
        else:
            self._put("address", version, key, data if is_new else None)
        self._touch(index, *map(ip_address, raw.values()))

    def _apply_settings(self, data: bytes, *, is_new: bool) -> None:
        index = int.from_bytes(attributes_of(data, 20)[_IFINDEX], byteorder, signed=True)
        if index < 0:  # Linux copies some of these to the devices
            self._drop("netconf", 0)
            self._drop("link", 0)
            self._touch_all()
        else:
            if is_new and index in self._lists.get(("link", 0), {}):
                self._drop("link", 0)
            self._touch(index)

    def _drop(self, what: str, family: int) -> None:
        self._lists.pop((what, family), None)

    def _put(self, what: str, family: int, key: object, data: bytes | None) -> None:
        """Keep this entry of a list; None removes it."""
        found = self._lists.get((what, family))
        if found is not None and data is None:
            found.pop(key, None)
        elif found is not None and data is not None:
            found[key] = bare(data)

    def _touch(self, index: int, *sources: object) -> None:
        """Drop the tables with a route by this device, or with one of these sources, and those that have changed."""
        ends = {name_of(index, self._names), *sources}
        changing = [
            home for home, table in self._tables.items() if home in self._changing or not table.ends.isdisjoint(ends)
        ]
        self._changing.update(dict.fromkeys(changing, time.monotonic() + _FLUSH))

    def _touch_all(self) -> None:
        self._changing.update(dict.fromkeys(self._tables, time.monotonic() + _FLUSH))


def _read_route(names: Mapping[int, str], routes: dict[bytes, Route], data: bytes) -> Route:
    """The route of a message; messages with the same body have the same route."""
    body = data[HEADER.size :]
    route = routes.get(body)
    if route is None:
        route = read_route(data, names, {})
        if {*route.devs} <= {*names.values()}:  # otherwise a device is too new to have a name
            routes[body] = route
    return route


def address_key(data: bytes) -> tuple[int, bytes]:
    """What distinguishes IPv6 addresses: the device's number, and the address."""
    raw = attributes_of(data, 24, _OF_ADDRESS)
    return device_of(data), raw.get(2) or raw.get(1, b"")


def bare(data: bytes) -> bytes:
    """The message with an empty header: without the number of its request, it is the same at each reading."""
    return bytes(HEADER.size) + data[HEADER.size :]
