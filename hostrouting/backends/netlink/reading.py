"""Taking a snapshot: everything listed, at one moment.

The kernel lists in parts, and reports for devices, addresses and rules if a change came in between; for IPv4 routes it
does not. So a second socket listens for changes meanwhile, and after a change that matters everything is read again.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.lists import (
    EVERY,
    NEW,
    Settings,
    ask_list,
    default_link,
    read_addresses,
    read_links,
    read_rules,
    read_settings,
)
from hostrouting.backends.netlink.messages import Interrupted, KernelError, Listing, numbered
from hostrouting.backends.netlink.nexthops import read_nexthops
from hostrouting.backends.netlink.numbers import AF_OF
from hostrouting.backends.netlink.route_list import RouteReader
from hostrouting.backends.netlink.route_message import read_route
from hostrouting.backends.netlink.watching import EVERYTHING, Wanted, disturbed
from hostrouting.errors import BackendError, Unsettled
from hostrouting.model import IPV4, IPV6, RouteTable, Snapshot

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from hostrouting.backends.netlink.channel import Channel
    from hostrouting.model import Address, NextHop, Rule

__all__ = ["NextHops", "list_addresses", "list_names", "list_routes", "settings_in_files", "take_snapshot"]

# A host on which something changes ten times a second is almost certainly read in time.
_ATTEMPTS = 8
_ALL = "/proc/sys/net/ipv4/conf/all"
# Answers of a kernel that was built without the feature, or is too old for it.
_UNKNOWN = frozenset({errno.EOPNOTSUPP, errno.EAFNOSUPPORT})


def take_snapshot(
    channel: Channel,
    listen: Callable[[int | None], socket.socket],
    files: Callable[[], Mapping[str, bool]],
    wanted: Wanted = EVERYTHING,
) -> Snapshot:
    """Links, addresses, rules and routes.

    `listen` opens a socket that listens for changes of a family, and `files` reads what `settings_in_files` reads.
    """
    families = (IPV4, IPV6) if wanted.family is None else (wanted.family,)
    # A kernel that cannot filter lists everything, so every change matters.
    matters = wanted if channel.strict else EVERYTHING
    snapshot: Snapshot | None = None
    for _ in range(_ATTEMPTS):
        with listen(wanted.family) as guard:
            ipv4, ipv6 = _settings(channel, IPV4), _settings(channel, IPV6) if IPV6 in families else {}
            every = ipv4[EVERY] = ipv4.get(EVERY, Settings())._replace(**files())
            links = read_links(_list(channel, "link", n.RTM_GETLINK, 0), ipv4, ipv6)
            names = {link.index: link.name for link in links}
            addresses = [list_addresses(channel, one, names) for one in families]
            rules = [_rules(channel, one) for one in families]
            routes = list_routes(channel, families, names, wanted)
            snapshot = Snapshot(
                links=links,
                addresses=sum(addresses, ()),
                rules=sum(rules, ()),
                routes=routes,
                ipv6_forwarding=ipv6.get(EVERY, Settings()).forwarding,
                default_link=default_link(ipv4.get(NEW), every),
            )
            if not disturbed(guard, matters):
                return snapshot
    raise _unsettled(snapshot)


def _unsettled(last: Snapshot | None = None) -> Unsettled:
    return Unsettled(
        f"the host's routes changed during each of {_ATTEMPTS} attempts to read them; try again when they change less",
        last=last,
    )


def _settings(channel: Channel, family: int) -> dict[int, Settings]:
    return read_settings(_list(channel, "netconf", n.RTM_GETNETCONF, AF_OF[family]))


def settings_in_files() -> dict[str, bool]:
    """The settings of "all" for IPv4 that Linux has only in files: those of the calling thread's namespace."""
    return {name: _is_on(f"{_ALL}/{name}") for name in ("accept_local", "route_localnet", "src_valid_mark")}


def _is_on(path: str) -> bool:
    """Whether a setting is not 0; False if the file cannot be read, as without /proc."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(file, 1) not in {b"", b"0"}
    finally:
        os.close(file)


def list_names(channel: Channel) -> dict[int, str]:
    """The names of the devices by number."""
    links = read_links(_list(channel, "link", n.RTM_GETLINK, 0), {}, {})
    return {link.index: link.name for link in links}


def list_addresses(channel: Channel, family: int, names: Mapping[int, str]) -> tuple[Address, ...]:
    """The addresses of one family."""
    found = read_addresses(_list(channel, "address", n.RTM_GETADDR, AF_OF[family]), names)
    # A kernel without IPv6 answers with its IPv4 addresses.
    return tuple(address for address in found if address.ip.version == family)


def _rules(channel: Channel, family: int) -> tuple[Rule, ...]:
    found = read_rules(_list(channel, "rule", n.RTM_GETRULE, AF_OF[family]))
    return tuple(rule for rule in found if rule.family == family)


def list_routes(
    channel: Channel,
    families: tuple[int, ...],
    names: Mapping[int, str],
    wanted: Wanted = EVERYTHING,
) -> RouteTable:
    """The wanted routes of these families."""
    table, protocol = wanted.table or 0, wanted.protocol or 0
    if not (0 <= table < 1 << 32 and 0 <= protocol < 1 << 8):
        families = ()  # no route can have such a number, and it does not fit into a request
    listings = [_routes(channel, family, table, protocol) for family in families]
    if not any(listing.offsets for listing in listings):
        return RouteTable.of(())
    # Routes that need next hop objects are read now, the others when they are first used.
    reader = RouteReader(
        partial(read_route, names=names, nexthops={}),
        read_now=partial(read_route, names=names, nexthops=NextHops(channel, names)),
    )
    for listing in listings:
        reader.take(listing.data, listing.offsets)
    return reader.table().only(table=wanted.table, protocol=wanted.protocol, prefixes=wanted.prefixes)


def _routes(channel: Channel, family: int, table: int, protocol: int) -> Listing:
    listing = _list(channel, "route", n.RTM_GETROUTE, AF_OF[family], table=table, protocol=protocol)
    data, places, af = listing.data, listing.offsets, AF_OF[family]
    # A kernel that does not support filters, or IPv6, lists everything.
    if places and not (channel.strict and data[places[0] + 16] == af):
        places[:] = array("I", [place for place in places if data[place + 16] == af])
    return listing


class NextHops(Mapping[int, tuple["NextHop", ...]]):
    """The next hops of next hop objects by number, listed on first use; they exist since Linux 5.3.

    By default the kernel includes the next hops in a route that uses such an object, and nothing is listed here.
    """

    def __init__(self, channel: Channel, names: Mapping[int, str]) -> None:
        """List nothing yet; `names` are the names of devices."""
        self._channel, self._names = channel, names

    @cached_property
    def _legs(self) -> dict[int, tuple[NextHop, ...]]:
        return read_nexthops(_list(self._channel, "nexthop", n.RTM_GETNEXTHOP, 0), self._names)

    def __getitem__(self, number: int) -> tuple[NextHop, ...]:
        return self._legs[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._legs)

    def __len__(self) -> int:
        return len(self._legs)


def _list(channel: Channel, what: str, kind: int, family: int, *, table: int = 0, protocol: int = 0) -> Listing:
    asked = ask_list(kind, family, table, protocol)
    for _ in range(_ATTEMPTS):
        try:
            return channel.listing(partial(numbered, asked))
        except Interrupted:
            continue
        except KernelError as error:
            if (error.number in _UNKNOWN and what != "link") or (error.number == errno.ENOENT and table):
                break
            raise BackendError(
                f"the kernel did not return its {what}s", errno=error.number, kernel=error.words
            ) from error
    else:
        raise _unsettled()
    return Listing(b"", array("I"))
