"""What the kernel lists, as values: devices, addresses, settings, rules and routes, one by one or all at one moment.

Here: the request for each list, and reading the messages of its reply, except those of a single route
(`route_message`).

A snapshot has to be of one moment. The kernel lists in parts, and reports for devices, addresses and rules if a change
came in between; for IPv4 routes it does not. So a second socket listens for changes meanwhile, and after a change that
matters (`watch`) everything is read again.

A rule is read with the entries of `SELECTORS`, which decode the values that it selects on. A selector that is new in
Linux or unknown here goes into `others`, in the notation of `ip rule`, so that the rule is never read as one for all
packets.

Of 100,000 routes, only a few are decoded. The kernel puts the table and the destination first in a message, behind its
header and struct rtmsg. The bytes of the message without its destination identify its shape: the first such message is
decoded in full, the others refer to it by number. Neighbours of one size are read together, because the same field of
all of them is a slice of the bytes. A message with a different layout is decoded in full.

Next hop objects are read with pyroute2. Loading it takes a tenth of a second, and few hosts have such objects, so it is
loaded only if there are any. A property test compares the other requests and results with pyroute2's.
"""

from __future__ import annotations

import errno
import struct
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache, cached_property, lru_cache, partial
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address
from itertools import chain, repeat
from sys import byteorder
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import attrs

from hostrouting.errors import BackendError
from hostrouting.kernel._route_table import Outline, RouteTable, Shapes, routes_like
from hostrouting.kernel._rule import SELECTORS, FullRule, selector_of
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import (
    ATTRIBUTE,
    HEADER,
    Channel,
    Interrupted,
    KernelError,
    Listing,
    add_run,
    attribute_of,
    attributes_of,
    message,
    numbered,
)
from hostrouting.kernel.netlink.keep import Kept, Messages, address_key, bare
from hostrouting.kernel.netlink.numbers import AF_OF, FAMILY_OF
from hostrouting.kernel.netlink.route_message import RTMSG, name_of, read_leg, read_route
from hostrouting.kernel.netlink.watch import EVERYTHING, Wanted, device_of, disturbed
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix
from hostrouting.model.route import ROUTE_TYPES
from hostrouting.model.rule import Rule, RuleAction, reached_tables
from hostrouting.model.snapshot import Address, Link, Snapshot

if TYPE_CHECKING:
    from hostrouting.model.route import NextHop, Route

T = TypeVar("T")

# The lists, and a snapshot of all of them

# A host on which something changes ten times a second is almost certainly read in time.
_ATTEMPTS = 8
_PAUSE = 0.01  # seconds until the next attempt: a device that comes or goes makes several changes
_LISTS = {
    "link": n.RTM_GETLINK,
    "address": n.RTM_GETADDR,
    "rule": n.RTM_GETRULE,
    "route": n.RTM_GETROUTE,
    "nexthop": n.RTM_GETNEXTHOP,
}
# Answers of a kernel that was built without the feature, or is too old for it.
_LACKING = frozenset({errno.EOPNOTSUPP, errno.EAFNOSUPPORT})


def take_snapshot(channel: Channel, kept: Kept, wanted: Wanted = EVERYTHING) -> Snapshot:
    """Links, addresses, rules and routes.

    `kept` listens for changes of the wanted family; if the wanted snapshot says what it is about, the parts that are
    kept are not read again.
    """
    # A kernel that cannot filter lists everything, so every change matters.
    matters = wanted if channel.strict else EVERYTHING
    snapshot: Snapshot | None = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        for _ in kept.hear():
            pass

        def listed(what: str, family: int = 0) -> Messages:
            return kept.messages(what, family, partial(_messages, channel, what, family))

        settings = {
            whose: read_settings(data)
            for whose, data in kept.messages("netconf", 0, partial(_settings, channel)).items()
        }
        links = read_links(sorted(listed("link").values(), key=device_of), settings.get((IPV4, EVERY), Settings()))
        names = {link.index: link.name for link in links}
        kept.name(names)
        addresses, rules, devs = list[Address](), list[Rule](), frozenset(names.values())
        for family in wanted.families:
            addresses += read_addresses(sorted(listed("address", family).values(), key=device_of), names)
            rules += read_rules(listed("rule", family).values(), devs)
        if wanted.reached and channel.strict:
            wanted = matters = wanted._replace(tables=reached_tables(rules))
        snapshot = Snapshot(
            links=links,
            addresses=tuple(addresses),
            rules=tuple(rules),
            routes=list_routes(channel, wanted.families, names, wanted, kept),
            ipv6_forwarding=settings.get((IPV6, EVERY), Settings()).forwarding,
            family=wanted.family,
        )
        if not disturbed(kept.hear(), matters, snapshot):
            return snapshot
    raise _unsettled(snapshot)


def _unsettled(last: Snapshot | None = None) -> BackendError:
    return BackendError(
        f"the host's routes changed during each of {_ATTEMPTS} attempts to read them; try again when they change less",
        last=last,
        kind="unsettled",
    )


def _settings(channel: Channel) -> Messages:
    """The settings of "all", without those of a family that the kernel does not have."""
    found: Messages = {}
    for family, which in _ASKED_SETTINGS:
        try:
            found[family, which] = channel.ask(partial(numbered, _ask_settings(family, which)))
        except KernelError as error:
            if error.number not in _LACKING:
                raise _not_returned("settings", error) from error
    return found


def _messages(channel: Channel, what: str, family: int = 0) -> Messages:
    listed = map(bare, _list(channel, what, _each, family))
    key = device_of if what == "link" else address_key if (what, family) == ("address", IPV6) else None
    return dict(enumerate(listed)) if key is None else {key(data): data for data in listed}


def list_names(channel: Channel) -> dict[int, str]:
    """The names of the devices by number."""
    return dict(map(_read_device, _messages(channel, "link").values()))


def list_addresses(channel: Channel, family: int, names: Mapping[int, str]) -> tuple[Address, ...]:
    """The addresses of one family."""
    return read_addresses(_messages(channel, "address", family).values(), names)


def list_routes(
    channel: Channel,
    families: tuple[int, ...],
    names: Mapping[int, str],
    wanted: Wanted = EVERYTHING,
    kept: Kept | None = None,
) -> RouteTable:
    """The wanted routes of these families; a table that is kept is not listed again."""
    table, protocol = wanted.table or 0, wanted.protocol or 0
    tables = sorted(wanted.tables) if wanted.tables is not None and not table else [table]
    if not (0 <= table < 1 << 32 and 0 <= protocol < 1 << 8):
        families = ()  # no route can have such a number, and it does not fit into a request
    # Routes that need next hop objects are read after their list, the others when they are first used.
    nexthops = NextHops(channel, names)

    def read(family: int, number: int, read_one: Callable[[bytes], Route]) -> RouteTable:
        def taken(parts: Iterable[Listing]) -> RouteTable:
            reader = RouteReader(read_one, read_now=partial(read_route, names=names, nexthops=nexthops))
            for part in parts:
                reader.take(part)
            return reader.table()

        return _list(channel, "route", taken, family, table=number, protocol=protocol)

    plainly = partial(read_route, names=names, nexthops={})
    joined = RouteTable.joined if kept is None else partial(kept.joined, families)
    found = joined(
        read(family, number, plainly) if kept is None else kept.table(family, number, partial(read, family, number))
        for family in families
        for number in tables
    )
    return found.only(table=wanted.table, protocol=wanted.protocol, prefixes=wanted.prefixes)


class NextHops(Mapping[int, tuple["NextHop", ...]]):
    """The next hops of next hop objects by number, listed on first use; they exist since Linux 5.3.

    By default the kernel includes the next hops in a route that uses such an object, and nothing is listed here.
    """

    def __init__(self, channel: Channel, names: Mapping[int, str]) -> None:
        """List nothing yet; `names` are the names of devices."""
        self._channel, self._names = channel, names

    @cached_property
    def _legs(self) -> dict[int, tuple[NextHop, ...]]:
        return read_nexthops(_list(self._channel, "nexthop", _each), self._names)

    def __getitem__(self, number: int) -> tuple[NextHop, ...]:
        return self._legs[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._legs)

    def __len__(self) -> int:
        return len(self._legs)


def _list(
    channel: Channel,
    what: str,
    read: Callable[[Iterable[Listing]], T],
    family: int = 0,
    *,
    table: int = 0,
    protocol: int = 0,
) -> T:
    """What `read` makes of the parts of a list; it is called again if something changed while they came.

    A route that is read when it comes takes 50 bytes; when the whole list was read at once, it took 130.
    """
    asked, is_strict = _ask_list(_LISTS[what], AF_OF.get(family, 0), table, protocol), channel.strict
    for _ in range(_ATTEMPTS):
        try:
            with closing(channel.listing(partial(numbered, asked))) as parts:
                return read(_of_family(part, family, is_strict=is_strict) for part in parts)
        except Interrupted:
            continue
        except KernelError as error:
            if (error.number in _LACKING and what != "link") or (error.number == errno.ENOENT and table):
                return read(())
            raise _not_returned(f"{what}s", error) from error
    raise _unsettled()


def _of_family(part: Listing, family: int, *, is_strict: bool) -> Listing:
    """The messages of the family that was asked for: a kernel without filters, or without IPv6, lists everything."""
    data, af = part.data, AF_OF.get(family)
    if af is None or not part.runs or (is_strict and data[part.runs[0].start + _FAMILY_AT] == af):
        return part
    found: list[range] = []
    for run in part.runs:
        for offset in run:
            if data[offset + _FAMILY_AT] == af:
                add_run(found, offset, run.step)
    return Listing(data, found)


def _each(parts: Iterable[Listing]) -> list[bytes]:
    return [*chain.from_iterable(parts)]


def _not_returned(what: str, error: KernelError) -> BackendError:
    return BackendError(f"the kernel did not return its {what}", errno=error.number, kernel=error.words)


# Requests; devices, addresses, settings and rules

# The fixed part of an answer after its header; attributes follow it.
_LINK = struct.Struct("=16xBxHiI4x")  # struct ifinfomsg: family, type, number, flags
_ADDRESS = struct.Struct("=16xBBxBI")  # struct ifaddrmsg: family, length, scope, number of the device
_RULE = struct.Struct("=16x5B2xBI")  # struct fib_rule_hdr: family, lengths, tos, table, action, flags
_NETCONF_SIZE, _FAMILY_AT = 20, 16
# The fixed part of a request is a family and zeros, with this many bytes in total.
_SIZES = {n.RTM_GETLINK: 16, n.RTM_GETADDR: 8, n.RTM_GETRULE: 12, n.RTM_GETNETCONF: 4, n.RTM_GETNEXTHOP: 8}
# Attribute numbers: IFLA_…, IFA_…, NETCONFA_… and FRA_…
_IFNAME, _MASTER, _LINKINFO, _GROUP, _CARRIER, _INFO_KIND = 3, 10, 18, 27, 33, 1
# RTEXT_FILTER_SKIP_STATS: leaves out packet counters, which are half of a device's data.
_EXT_MASK, _SKIP_STATS = 29, struct.pack("=I", 8)
# In IFLA_AF_SPEC, the settings of each family as an array of numbers: in AF_INET IFLA_INET_CONF, with the places
# IPV4_DEVCONF_… minus 1; in AF_INET6 IFLA_INET6_CONF, with the places DEVCONF_….
_AF_SPEC, _AF_INET, _INET_CONF, _AF_INET6, _INET6_CONF = 26, 2, 1, 10, 2
_WARY, _DISABLE_IPV6, _WARY_IPV6 = 28, 26, 39
# The attributes of a device that are used; the kernel sends forty.
_OF_LINK = frozenset({_IFNAME, _MASTER, _LINKINFO, _AF_SPEC, _GROUP, _CARRIER})
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST, _IFA_FLAGS, _IFA_RT_PRIORITY = 1, 2, 4, 8, 9
_NETCONF_IFINDEX, _NETCONF_FORWARDING, _NETCONF_WARY = 1, 2, 6
# Attributes of a rule that select nothing: its action and protocol, then FLOW (realms) and PAD, which do not matter.
_GOTO, _PRIORITY, _SUPPRESS_IFGROUP, _SUPPRESS_PREFIXLEN, _TABLE, _PROTOCOL = 4, 6, 13, 14, 15, 21
_NO_SELECTORS = frozenset({_GOTO, _PRIORITY, _SUPPRESS_IFGROUP, _SUPPRESS_PREFIXLEN, _TABLE, _PROTOCOL, 11, 18})
# Selectors that have no entry in SELECTORS.
_TUN_ID, _FLOWLABEL, _FLOWLABEL_MASK = 12, 26, 27
_KNOWN = frozenset(
    {_TUN_ID, _FLOWLABEL, _FLOWLABEL_MASK, *_NO_SELECTORS}
    | {number for selector in SELECTORS for number in (selector.attribute, selector.mask) if number}
)
_PORTS, _ALL_PORT = (selector_of("sport"), selector_of("dport")), 0xFFFF
_SIGNED = struct.Struct("=i")
_REMEMBERED = 2048  # messages

EVERY = -1
"""The number of "all": NETCONFA_IFINDEX_ALL."""
_ASKED_SETTINGS = ((IPV4, EVERY), (IPV6, EVERY))

_IFF_UP = 0x1
_IFA_F_NOPREFIXROUTE = 0x200
_IFA_F_UNPREFERRED = 0x8 | 0x20  # IFA_F_DADFAILED, IFA_F_DEPRECATED
_FIB_RULE_INVERT, _FIB_RULE_IIF_DETACHED, _FIB_RULE_OIF_DETACHED = 0x2, 0x8, 0x10
_FIB_RULE_FIND_SADDR = 0x10000
_UNSET = 0xFFFFFFFF
_ACTIONS: dict[int, RuleAction] = {1: "to_table", 2: "goto", 3: "nop", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
# What Linux does for all other numbers, such as that of `ip rule add throw`.
_UNKNOWN: RuleAction = "blackhole"


class Settings(NamedTuple):
    """The routing settings of "all"."""

    wary: bool = False  # ignore_routes_with_linkdown
    forwarding: bool | None = None


@cache
def _ask_list(kind: int, family: int, table: int = 0, protocol: int = 0) -> bytes:
    """The request for all entries of a kind (RTM_GET…); for routes, those of a table and a protocol (0: any)."""
    if kind == n.RTM_GETROUTE:
        body = RTMSG.pack(family, 0, 0, 0, 0, protocol, 0, 0, 0)
        said = [(n.RTA_TABLE, struct.pack("=I", table))] if table else []
    else:
        body = _blank(kind, family)
        said = [(_EXT_MASK, _SKIP_STATS)] if kind == n.RTM_GETLINK else []
    return message(kind, body, said, flags=n.NLM_F_DUMP)


@cache
def _ask_settings(family: int, which: int) -> bytes:
    """The request for the settings of "all": those of a device are in the list of devices."""
    return message(n.RTM_GETNETCONF, _blank(n.RTM_GETNETCONF, AF_OF[family]), [(_NETCONF_IFINDEX, _SIGNED.pack(which))])


def _ask_device(name: bytes) -> bytes:
    """The request for one device, by its name."""
    return message(n.RTM_GETLINK, _blank(n.RTM_GETLINK, 0), [(_IFNAME, name + b"\0"), (_EXT_MASK, _SKIP_STATS)])


def _blank(kind: int, family: int) -> bytes:
    return bytes([family]).ljust(_SIZES[kind], b"\0")


def _as_number(raw: Mapping[int, bytes], kind: int, otherwise: int = 0) -> int:
    """A number of any width, or the default if the attribute is missing."""
    return int.from_bytes(raw[kind], byteorder) if kind in raw else otherwise


def as_text(packed: bytes) -> str:
    """A name as text; undecodable bytes are escaped, so that the result is readable but matches no device."""
    return packed.partition(b"\0")[0].decode(errors="backslashreplace")


def _text(raw: Mapping[int, bytes], kind: int) -> str | None:
    return as_text(raw[kind]) if kind in raw else None


def _ip(packed: bytes | None) -> IP | None:
    if not packed:
        return None
    return IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)


def _read_device(data: bytes) -> tuple[int, str]:
    """The number and the name of a device."""
    return device_of(data), _text(_device(data), _IFNAME) or ""


def read_links(messages: Collection[bytes], every: Settings) -> tuple[Link, ...]:
    """The devices; `every` are the settings of "all"."""
    parsed = [*map(_device, messages)]
    names = dict(map(_read_device, messages))
    masters = (names.get(_as_number(raw, _MASTER)) for raw in parsed)
    return tuple([_link(data, master, every) for data, master in zip(messages, masters, strict=True)])


# The guard reads the same messages again and again.
@lru_cache(_REMEMBERED)
def _device(data: bytes) -> Mapping[int, bytes]:
    return attributes_of(data, _LINK.size, _OF_LINK)


@lru_cache(_REMEMBERED)
def _link(data: bytes, master: str | None, every: Settings) -> Link:
    _, looks, index, flags = _LINK.unpack_from(data)
    raw = _device(data)
    of_families = raw.get(_AF_SPEC, b"")
    ipv4 = attribute_of(attribute_of(of_families, _AF_INET), _INET_CONF)
    ipv6 = attribute_of(attribute_of(of_families, _AF_INET6), _INET6_CONF)
    return Link(
        name=_text(raw, _IFNAME) or "",
        index=index,
        kind=as_text(attribute_of(raw.get(_LINKINFO, b""), _INFO_KIND)),
        type=looks,
        up=bool(flags & _IFF_UP),
        carrier=_CARRIER not in raw or bool(_as_number(raw, _CARRIER)),
        master=master,
        group=_as_number(raw, _GROUP),
        # Linux combines the setting for IPv4 with that of "all"; in IPv6, it copies that of "all" to each device.
        ignore_routes_with_linkdown=_is_on(ipv4, _WARY) or every.wary,
        ipv6_ignore_routes_with_linkdown=_is_on(ipv6, _WARY_IPV6),
        # Without settings for IPv6, the device does not have it.
        ipv6_disabled=not ipv6 or _is_on(ipv6, _DISABLE_IPV6),
    )


def _is_on(conf: bytes, place: int) -> bool:
    """Whether a setting in an array of settings is not 0; an older kernel has a shorter array."""
    return any(conf[place * 4 : place * 4 + 4])


def read_settings(data: bytes) -> Settings:
    """The settings in this message."""
    raw = attributes_of(data, _NETCONF_SIZE)
    return Settings(
        bool(_as_number(raw, _NETCONF_WARY)),
        bool(_as_number(raw, _NETCONF_FORWARDING)) if _NETCONF_FORWARDING in raw else None,
    )


def read_addresses(messages: Iterable[bytes], names: Mapping[int, str]) -> tuple[Address, ...]:
    """The addresses of this host, IPv4 and IPv6."""
    found = (_address(data, name_of(device_of(data), names)) for data in messages)
    return tuple([address for address in found if address is not None])


@lru_cache(_REMEMBERED)
def _address(data: bytes, dev: str) -> Address | None:
    _, length, scope, _ = _ADDRESS.unpack_from(data)
    raw = attributes_of(data, _ADDRESS.size)
    # If both are present, LOCAL is the host's address and ADDRESS the peer's (in IPv4 it may repeat the host's).
    other = raw.get(_IFA_ADDRESS)
    packed = raw.get(_IFA_LOCAL) or other
    ours = _ip(packed)
    if ours is None:
        return None
    flags = _as_number(raw, _IFA_FLAGS)
    return Address(
        ip=ours,
        length=length,
        dev=dev,
        scope=scope,
        peer=None if other == packed else _ip(other),
        broadcast=_ip(raw.get(_IFA_BROADCAST)),
        metric=_as_number(raw, _IFA_RT_PRIORITY),
        prefix_route=not flags & _IFA_F_NOPREFIXROUTE,
        preferred=not flags & _IFA_F_UNPREFERRED,
    )


def read_rules(messages: Iterable[bytes], devs: Collection[str] | None = None) -> tuple[Rule, ...]:
    """The rules, each IPv4 or IPv6; `devs` are the names of the devices, if they are known."""
    return tuple([_rule(data).rule if devs is None else _rule_among(devs, data) for data in messages])


def _rule_among(devs: Collection[str], data: bytes) -> Rule:
    """The rule on a host with these devices.

    A rule may have been added with an alternative name of a device. Linux does not list for which device it is.
    """
    rule = _rule(data)
    *_, flags = _RULE.unpack_from(data)
    for word, detached in (("iif", _FIB_RULE_IIF_DETACHED), ("oif", _FIB_RULE_OIF_DETACHED)):
        dev = getattr(rule, word)
        if dev is not None and dev not in devs and not flags & detached:
            said: dict[str, Any] = {word: None, "others": (*rule.others, (f"{word}-altname", dev))}
            rule = attrs.evolve(rule, **said)
    return rule.rule


@lru_cache(_REMEMBERED)
def _rule(data: bytes) -> FullRule:
    af, dst_len, src_len, tos, table, number, flags = _RULE.unpack_from(data)
    raw = attributes_of(data, _RULE.size)
    family, action = FAMILY_OF[af], _ACTIONS.get(number, _UNKNOWN)

    def limit(kind: int) -> int | None:
        return None if kind not in raw or (value := _as_number(raw, kind)) == _UNSET else value

    said = decode_selectors(raw, {"family": family, "src": src_len, "dst": dst_len, "tos": tos})
    if flags & _FIB_RULE_FIND_SADDR and family == IPV6 and said.get("src") is not None:
        # Of an IPv6 packet without a source, Linux compares the one that it will get by the route that the rule finds.
        said["others"] += (("source-of-route", str(said["src"])),)
        said["src"] = None

    return FullRule(
        family=family,
        priority=_as_number(raw, _PRIORITY),
        action=action,
        table=(_as_number(raw, _TABLE) or table) if action == "to_table" else 0,
        target=_as_number(raw, _GOTO) if action == "goto" and _GOTO in raw else None,
        invert=bool(flags & _FIB_RULE_INVERT),
        suppress_prefixlength=limit(_SUPPRESS_PREFIXLEN),
        suppress_ifgroup=limit(_SUPPRESS_IFGROUP),
        protocol=_as_number(raw, _PROTOCOL),
        **said,
    )


def decode_selectors(raw: Mapping[int, bytes], header: Mapping[str, int]) -> dict[str, Any]:
    """The selecting fields of a FullRule that it may have; the others have their default value.

    The header has its `family`, its `tos`, and the lengths of `src` and `dst`.
    """
    said: dict[str, Any] = {"tos": header["tos"]}
    if raw.keys() <= _NO_SELECTORS:
        return said
    for selector in SELECTORS:
        if selector.attribute in raw or selector.mask in raw:
            said |= zip(selector.fields, selector.decode(raw, header), strict=True)
    said["others"] = tuple(_others(raw))
    return said


def _others(raw: Mapping[int, bytes]) -> Iterator[tuple[str, str]]:
    if _TUN_ID in raw:
        yield "tun_id", str(int.from_bytes(raw[_TUN_ID], "big"))
    if _FLOWLABEL in raw:
        label, mask = (int.from_bytes(raw.get(kind, b""), "big") for kind in (_FLOWLABEL, _FLOWLABEL_MASK))
        yield "flowlabel", f"{label:#x}/{mask:#x}"
    for ports in _PORTS:
        if (mask := _as_number(raw, ports.mask, _ALL_PORT)) != _ALL_PORT:
            yield ports.word, f"{int.from_bytes(raw[ports.attribute][:2], byteorder):#x}/{mask:#x}"
    for kind in sorted(set(raw) - _KNOWN):
        yield f"attribute-{kind}", raw[kind].hex() or "set"


# Routes, many at a time

# The offsets of the family, of the destination's length, and of the other fields before the destination: the first of
# these is the length of the sources, and two are the protocol and the type.
_FAMILY, _LENGTH, _SAID, _PROTO, _TYPE = (HEADER.size + place for place in (0, 1, 2, 5, 7))
_UNICAST = ROUTE_TYPES.index("unicast")
_HEADS = struct.Struct("=HHIHH")  # the table, and the header of the destination
_HEADS_AT = HEADER.size + RTMSG.size
_DST = _HEADS_AT + _HEADS.size
_NEXTHOP = ATTRIBUTE.pack(8, n.RTA_NH_ID)  # the first bytes of an attribute with a next hop object
_ORDER: Literal["big"] = "big"
_WIDTHS = {AF_OF[IPV4]: 4, AF_OF[IPV6]: 16}
_MOST = 1024  # messages that are read together


class RouteReader:
    """Reads routes; decodes only one in full of those whose messages differ only in the destination."""

    def __init__(self, read: Callable[[bytes], Route], *, read_now: Callable[[bytes], Route] | None = None) -> None:
        """`read` decodes a message at any later time; `read_now` at once: one with a next hop object."""
        self._read, self._read_now, self._shapes = read, read_now or read, Shapes()
        self._outlines: list[Outline] = []
        self._makers: dict[int, Callable[[Prefix], Route]] = {}
        # By the bytes before and after the destination of a message with the usual layout: the number of its shape.
        self._known: dict[tuple[bytes, bytes], int] = {}
        self._networks: list[int] = []
        self._lengths = bytearray()
        self._numbers = array("I")
        # What may need next hop objects is decoded last: a socket can carry one list at a time.
        self._named: list[int] = []
        self._odd: list[tuple[int, bytes]] = []

    def table(self) -> RouteTable:
        """The routes taken so far. Must be the last call, because the table uses these columns."""
        for place, odd in self._odd:
            route = self._read_now(odd)
            self._networks[place], self._numbers[place] = route.prefix.network, len(self._shapes)
            self._shapes.add(route)
            self._outlines.append(Outline.of(route))
        for number in self._named:
            self._shapes[number]
        return RouteTable(self._networks, bytes(self._lengths), self._numbers, self._shapes, outlines=self._outlines)

    def route(self, message: bytes) -> Route:
        """The route of one message, which is not added to the table."""
        behind = _DST + _WIDTHS[message[_FAMILY]]
        said = (message[_SAID:_DST], message[behind:])
        number = self._known.get(said)
        if number is None:
            table = _table_of(message)
            return self._read_now(message) if table is None else self._shapes[self._learn(said, message, table)]
        make = self._makers.get(number) or self._makers.setdefault(number, routes_like(self._shapes[number]))
        network = int.from_bytes(message[_DST:behind], "big")
        return make(Prefix(FAMILY_OF[message[_FAMILY]], network, message[_LENGTH]))

    def take(self, listing: Listing) -> None:
        """Take the messages of a list, all of one family."""
        for run in listing.runs:
            for at in run[::_MOST]:
                self._take(listing.data[at : min(at + run.step * _MOST, run.stop)], run.step)

    def _take(self, piece: bytes, size: int) -> None:
        """Take adjacent messages of this size."""
        width, count, begin, known = _WIDTHS[piece[_FAMILY]], len(piece) // size, len(self._numbers), self._known
        if size < _DST + width:  # no message has a destination
            are_alike, every = False, [(piece[at : at + size], b"") for at in range(0, len(piece), size)]
            self._networks += [0] * count
        else:
            said = f"={_SAID}x{_DST - _SAID}s{width}x{size - _DST - width}s"
            are_alike = _table_of(piece) is not None and _differ_in_destination_only(piece, size, count, width)
            every = list(struct.iter_unpack(said, piece[:size] if are_alike else piece))
            self._networks += _networks_of(piece, size, width)
        numbers = list(map(known.get, every, repeat(-1)))
        if -1 in numbers:
            for place, one in enumerate(every):
                if one not in known:
                    unknown = piece[place * size : (place + 1) * size]
                    table = _table_of(unknown)
                    if table is None:
                        self._odd.append((begin + place, unknown))
                    else:
                        self._learn(one, unknown, table)
            numbers = list(map(known.get, every, repeat(0)))
        self._numbers.extend(numbers * count if are_alike else numbers)
        self._lengths += piece[_LENGTH::size]

    def _learn(self, said: tuple[bytes, bytes], message: bytes, table: int) -> int:
        """Store the shape of a message with the usual layout, in this table, and return its number."""
        number = self._known[said] = len(self._shapes)
        named = _NEXTHOP in said[1]  # or a value that looks like one, which does no harm
        if named:
            self._named.append(number)
        self._shapes.add(partial(self._read_now if named else self._read, message))
        family, protocol, kind = FAMILY_OF[message[_FAMILY]], message[_PROTO], message[_TYPE]
        self._outlines.append(Outline(family, table, protocol, message[_SAID] != 0, kind == _UNICAST))
        return number


def _table_of(data: bytes) -> int | None:
    """The table of the message at the beginning; None if it does not have its table first, and then its destination."""
    width = _WIDTHS[data[_FAMILY]]
    if len(data) < _DST + width:
        return None
    head, number, table, size, kind = _HEADS.unpack_from(data, _HEADS_AT)
    return table if (head, number, size, kind) == (8, n.RTA_TABLE, 4 + width, n.RTA_DST) else None


def _networks_of(piece: bytes, size: int, width: int) -> Iterable[int]:
    """The destinations of adjacent messages of this size, without their lengths."""
    if width == 16:
        # Two thirds of the time of joining two numbers of eight bytes.
        packed = struct.unpack(f"{_DST}x16s{size - _DST - 16}x" * (len(piece) // size), piece)
        return map(int.from_bytes, packed, repeat(_ORDER))
    found = array("I", memoryview(piece).cast("I")[_DST // 4 :: size // 4].tobytes())
    if byteorder == "little":
        found.byteswap()
    return found


def _differ_in_destination_only(piece: bytes, size: int, count: int, width: int) -> bool:
    """Whether the messages differ only in their destinations, as most in large tables do.

    This takes 2 ms for 100,000 routes; looking up the shape of each takes 20 ms.
    """
    blank = bytearray(piece)
    for at in (_LENGTH, *range(_DST, _DST + width)):
        blank[at::size] = bytes(count)
    return blank == blank[:size] * count


# Next hop objects, by pyroute2

_REQUIREMENT = "pyroute2<0.10,>=0.9.7"


def read_nexthops(messages: Iterable[bytes], names: Mapping[int, str]) -> dict[int, tuple[NextHop, ...]]:
    """The next hops of each next hop object; those of a group are those of its members."""
    singles: dict[int, tuple[NextHop, ...]] = {}
    grouped: dict[int, bytes] = {}
    for data in messages:
        one = _message_class()(data)
        one.decode()
        number, members, index = map(one.get_attr, ("NHA_ID", "NHA_GROUP", "NHA_OIF"))
        if members:
            grouped[number] = members
        elif index:
            singles[number] = (read_leg(index, one.get_attr("NHA_GATEWAY") or b"", one["flags"], names),)
    return singles | {number: tuple(_members(members, singles)) for number, members in grouped.items()}


def _members(packed: bytes, singles: Mapping[int, tuple[NextHop, ...]]) -> Iterable[NextHop]:
    # struct nexthop_grp: the number of the member, then its weight minus one: the low byte, and the high byte.
    for number, low, high in struct.iter_unpack("=IBB2x", packed):
        yield from (attrs.evolve(leg, weight=(high << 8 | low) + 1) for leg in singles.get(number, ()))


@cache
def _message_class() -> Any:
    """The class for these messages, which pyroute2 does not have, in its notation."""
    try:
        # Imported by name, because pyroute2 has no type annotations.
        nlmsg = import_module("pyroute2.netlink").nlmsg
    except Exception as error:
        raise BackendError(
            "this host has next hop objects, but pyroute2, which reads them, cannot be loaded "
            f"({type(error).__name__}: {error}); install it with `pip install '{_REQUIREMENT}'`",
            kind="unusable",
        ) from error
    known = {
        "prefix": "NHA_",
        "fields": (("family", "B"), ("scope", "B"), ("protocol", "B"), ("resvd", "B"), ("flags", "I")),
        "nla_map": (
            (1, "NHA_ID", "uint32"),
            (2, "NHA_GROUP", "cdata"),
            (5, "NHA_OIF", "uint32"),
            (6, "NHA_GATEWAY", "cdata"),
        ),
    }
    return type("nhmsg", (nlmsg,), known)


# One device, by name or by number

_SIOCGIFNAME = 0x8910
_IFREQ = struct.Struct("=16si20x")  # struct ifreq: the name, the number, padding


class NoDevice(Exception):  # noqa: N818  reads as what is wrong
    """There is no device with this name, unless as an alternative name. Never leaves this package."""

    def __init__(self, name: str, error: KernelError | None = None, *, own: str | None = None) -> None:
        """Store the name; `own` is the real name of the device that has `name` as an alternative name."""
        self.problem = f"{name} is an alternative name of {own}: use {own}" if own else f"device {name} does not exist"
        self.words = error.words if error else ""
        super().__init__(name)


def index_of(channel: Channel, name: str) -> int:
    """The number of the device with this name at this moment; NoDevice if there is none."""
    # The kernel would truncate or ignore such a name, so no device has it; the same goes for undecodable text.
    packed = name.encode(errors="replace")
    if not 0 < len(packed) < 16 or b"\0" in packed or packed.decode() != name:
        raise NoDevice(name)
    asked = _ask_device(packed)
    try:
        answer = channel.ask(lambda number: numbered(asked, number))
    except KernelError as error:
        if error.number == errno.ENODEV:
            raise NoDevice(name, error) from error
        raise BackendError(f"the kernel did not answer whether device {name} exists", errno=error.number,
                           kernel=error.words) from error  # fmt: skip
    index, own = _read_device(bare(answer))
    if own != name:
        # The route would be read back with a different device name than requested.
        raise NoDevice(name, own=own)
    return index


class Names(Mapping[int, str]):
    """The names of devices by number, each requested when first needed, because an answer needs few of them.

    They are requested by the socket's ioctl, because netlink returns forty more attributes of a device with its name.
    """

    def __init__(self, channel: Channel) -> None:
        """Request nothing yet."""
        self._channel = channel
        self._known: dict[int, str] = {}

    def __getitem__(self, index: int) -> str:
        name = self._known.get(index)
        if name is None:
            import fcntl  # noqa: PLC0415  some systems lack it; saved snapshots are read there

            try:
                said = fcntl.ioctl(self._channel.open(), _SIOCGIFNAME, _IFREQ.pack(b"", index))
            except OSError as error:
                if error.errno == errno.ENODEV:
                    raise KeyError(index) from error
                raise BackendError(f"the kernel did not answer which device has the number {index}", errno=error.errno,
                                   kernel=error.strerror or "") from error  # fmt: skip
            name = self._known[index] = as_text(_IFREQ.unpack(said)[0])
        return name

    def __iter__(self) -> Iterator[int]:
        """The numbers requested so far."""
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
