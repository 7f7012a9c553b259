"""Routes as netlink messages: the one codec, and the lists, changes and lookups that use it.

A message about a route has a header, a fixed part and attributes:

    struct rtmsg      family, dst_len, src_len, tos, table, protocol, scope, type, flags
    struct rtattr     length, number (RTA_…), value, zeros up to a multiple of four; then the next one

rtmsg is older than most fields of a route: the newer ones are attributes, and so is a table whose number needs more
than a byte. A single next hop is spread over the message: its flags are those of rtmsg, its device and its gateway are
attributes. Several next hops are the value of RTA_MULTIPATH: for each a struct rtnexthop (length, flags, weight minus
one, device), then its gateway. A gateway of the other family is RTA_VIA, which begins with that family. RTA_METRICS has
attributes with numbers of their own (RTAX_…).

Lists are long, and most of their routes differ only in the destination. The kernel writes the table first, then the
destination. So the bytes around the destination are the kind of a route: one route of each kind is decoded, and each
other is a copy of it with another destination. Which networks of a kind were asked for is also decided once. Where many
routes of one kind follow each other in ascending order, those that were not asked for are skipped together: they lie
between two places that bisection finds. Routes to add are also encoded once for each kind.
"""

from __future__ import annotations

import errno
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from socket import if_indextoname, if_nametoindex
from typing import TypeAlias

from hostrouting.kernel.base import KIND_OF_ERRNO, Answer, Near, RouteRequest, Verb
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.socket import (
    ATTRIBUTE,
    HEADER,
    NUMBER,
    KernelError,
    NetlinkSocket,
    attribute,
    attributes_of,
    error_of,
    is_error,
    message,
)
from hostrouting.kernel.refusals import misfit
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, width_of
from hostrouting.model.route import PATHLESS, ROUTE_TYPES, NextHop, Preference, Route

_RTMSG = struct.Struct("=8BI")
_NEXTHOP = struct.Struct("=HBBI")  # struct rtnexthop: length, flags, weight minus one, device
_DST, _SRC, _OIF, _GATEWAY, _PRIORITY, _PREFSRC, _METRICS, _MULTIPATH = 1, 2, 4, 5, 6, 7, 8, 9
_CACHEINFO, _TABLE, _VIA, _PREF, _ENCAP, _NH_ID = 12, 15, 18, 20, 21, 30
_MTU, _ADVMSS = 2, 8  # RTAX_…
_DEAD, ONLINK, _LINKDOWN = 0x1, 0x4, 0x10
_LOOKUP_TABLE, _FIB_MATCH = 0x1000, 0x2000
_TYPES = {name: number for number, name in enumerate(ROUTE_TYPES)}
_PREFERENCES: dict[int, Preference] = {1: "high", 3: "low"}
_IN_ATTRIBUTE = 252  # RT_TABLE_COMPAT: the table is in its attribute

_REALM = 11
_MAY_BE_UNREAD = {_METRICS, _REALM, _MULTIPATH, _ENCAP}
_ENCAPS = ("none", "mpls", "ip", "ila", "ip6", "seg6", "bpf", "seg6local", "rpl", "ioam6", "xfrm")
"""The types of encapsulation by number, as `ip` names them."""


class Names(dict[int, str]):
    """The names of devices by number; the system is asked for a name that is not known yet."""

    def __missing__(self, index: int) -> str:
        """The name of a device; if it is gone, "if" and its number, as in `ip`."""
        try:
            name = if_indextoname(index)
        except OSError:
            return f"if{index}"
        self[index] = name
        return name


def index_of(name: str) -> int:
    """The number of a device; KernelError (ENODEV) if there is none."""
    try:
        return if_nametoindex(name)
    except (OSError, ValueError) as error:
        raise KernelError(errno.ENODEV, f"device {name} does not exist") from error


# From a message to a route.


def decode(message: bytes, names: Mapping[int, str]) -> Route:
    """The route of one message."""
    family, dst_len, src_len, tos, table, protocol, scope, type_, flags = _RTMSG.unpack_from(message, HEADER.size)
    attributes = attributes_of(message, HEADER.size + _RTMSG.size)
    metrics = attributes_of(attributes[_METRICS]) if _METRICS in attributes else {}
    family, kind = n.FAMILY_OF[family], ROUTE_TYPES[type_]
    hops = _hops(attributes, flags)
    # In IPv6, the kernel lists the loopback device for a route that leads nowhere.
    next_hops = () if kind in PATHLESS else tuple(_hop(*hop, names) for hop in hops)
    return Route(
        n.prefix_of(family, attributes.get(_DST), dst_len),
        next_hops,
        table=n.number_in(attributes, _TABLE) or table,
        metric=n.number_in(attributes, _PRIORITY) or 0,
        tos=tos,
        type=kind,
        scope=scope,
        protocol=protocol,
        prefsrc=n.ip_of(attributes.get(_PREFSRC)),
        mtu=n.number_in(metrics, _MTU),
        advmss=n.number_in(metrics, _ADVMSS),
        nexthop_id=n.number_in(attributes, _NH_ID),
        source=n.prefix_of(family, attributes.get(_SRC), src_len) if src_len else None,
        preference=_PREFERENCES.get(attributes.get(_PREF, b"\0")[0], "medium"),
        expired=_expired(attributes.get(_CACHEINFO)),
        unread=() if _MAY_BE_UNREAD.isdisjoint(attributes) else tuple(_unread(attributes, metrics, hops)),
    )


_Hop: TypeAlias = tuple[Mapping[int, bytes], int, int, int]
"""The attributes of a next hop, its device, its flags and its weight."""


def _hops(attributes: Mapping[int, bytes], flags: int) -> list[_Hop]:
    if _MULTIPATH not in attributes:
        index = n.number_in(attributes, _OIF) or 0
        return [(attributes, index, flags, 1)] if index or _GATEWAY in attributes or _VIA in attributes else []
    hops: list[_Hop] = []
    packed, at = attributes[_MULTIPATH], 0
    while at + _NEXTHOP.size <= len(packed):
        length, flags, weight, index = _NEXTHOP.unpack_from(packed, at)
        hops.append((attributes_of(packed[at + _NEXTHOP.size : at + length]), index, flags, weight + 1))
        at += max((length + 3) & ~3, _NEXTHOP.size)
    return hops


def _hop(attributes: Mapping[int, bytes], index: int, flags: int, weight: int, names: Mapping[int, str]) -> NextHop:
    gateway = attributes[_VIA][2:] if _VIA in attributes else attributes.get(_GATEWAY)  # after its family
    dev = names[index] if index else None
    state = (bool(flags & flag) for flag in (ONLINK, _LINKDOWN, _DEAD)) if flags else ()
    return NextHop(dev, n.ip_of(gateway), weight, *state)


def _expired(cacheinfo: bytes | None) -> bool | None:
    """Whether the lifetime of the route is over; None if it has none."""
    ticks: int = struct.unpack_from("=8xi", cacheinfo)[0] if cacheinfo else 0
    return ticks < 0 if ticks else None


def _unread(attributes: Mapping[int, bytes], metrics: Mapping[int, bytes], hops: Iterable[_Hop]) -> Iterator[str]:
    """What is named without its value (`Route.unread`); metrics and realms of zeros count as absent."""
    if any(any(value) for number, value in metrics.items() if number not in {_MTU, _ADVMSS}):
        yield "metrics"
    if any(attributes.get(_REALM, b"")):
        yield "realm"
    encaps = {n.number_in(hop, _ENCAP) or 0 for hop, *_ in hops if _ENCAP in hop}
    yield from sorted(f"encap {_ENCAPS[encap] if encap < len(_ENCAPS) else encap}" for encap in encaps)


# Lists.


class _Kind:
    def __init__(self, route: Route, borders: list[bytes]) -> None:
        """Take a route of this kind, and where wanted networks begin and end, in turn; the last border is `_END`."""
        (self.family, _, self.length), *self.fields = route
        self.borders = borders

    def to(self, destination: bytes) -> Route:
        """The route of this kind to a destination."""
        return Route._make((Prefix(self.family, int.from_bytes(destination, "big"), self.length), *self.fields))


class RouteReader:
    """Converts messages to routes, and skips those that were not asked for."""

    def __init__(self, names: Mapping[int, str], near: Collection[Prefix] | None = None) -> None:
        """`near` is as in `RouteBackend.snapshot`."""
        self._names, self._near = names, Near(near)
        self._kinds: dict[bytes, _Kind] = {}
        """By the bytes after the destination, followed by those before it."""

    def read(self, part: bytes, size_at: Callable[[bytes, int], int]) -> Iterator[Route]:
        """The wanted routes in a part of a list; `size_at` is the method of its socket."""
        at = 0
        while size := size_at(part, at):
            # Assume that all messages that follow have this header: the first with another header ends the loop.
            header, number = part[at : at + HEADER.size], part[at + HEADER.size]
            end, width = at + min((len(part) - at) // size, _AT_ONCE) * size, _WIDTHS[number]
            messages = memoryview(part)[at:end]
            run = _run(messages, size, width) if part.startswith(header, end - size) else []
            if run and (kind := self._kinds.get(run[0][:-width])):
                yield from _wanted(kind, run, width)
                at = end
                continue
            # In a run of a new kind, only the first message is decoded.
            for head, destination, tail in _layout(size, width).iter_unpack(messages[:size] if run else messages):
                kind = self._kinds.get(tail + head)
                if kind is not None:
                    if bisect_right(kind.borders, destination) & 1:
                        yield kind.to(destination)
                elif head.startswith(header):
                    route = decode(head + destination + tail, self._names)
                    if head.startswith(_TABLE_HEAD, HEADER.size + _RTMSG.size) and head.endswith(_DST_HEADS[number]):
                        self._kinds[tail + head] = _Kind(route, self._packed_borders(route))
                    if self._near.leaves(route):  # different messages may be of one kind to `near`
                        yield route
                else:
                    break
                at += size

    def _packed_borders(self, route: Route) -> list[bytes]:
        borders, bits = self._near.borders_for(route), width_of(route.prefix.family)
        if borders is None:
            return [b"", _END]
        return [*(_END if border >> bits else border.to_bytes(bits // 8, "big") for border in borders), _END]

    def is_about(self, message: bytes, tables: Collection[int] | None) -> bool:
        """Whether a change of the route in a message can change what is read from these tables.

        Linux keeps IPv4 routes with the same first address in one list, and counts how many of them it has sent. So a
        change affects every prefix that begins at this address.
        """
        route = decode(message, self._names)
        family, network, _ = route.prefix
        if tables is not None and route.table not in tables:
            return False
        last_bit = network & -network or 1 << width_of(family)
        widest = Prefix(family, network, width_of(family) + 1 - last_bit.bit_length())
        borders = self._near.borders_for(route._replace(prefix=widest))
        return borders is None or bisect_right(borders, network) % 2 == 1


_END = b"\xff" * 17  # after every address
_WIDTHS = {n.AF_OF[family]: width_of(family) // 8 for family in n.AF_OF}
_TABLE_HEAD = ATTRIBUTE.pack(8, _TABLE)
_DST_HEADS = {number: ATTRIBUTE.pack(ATTRIBUTE.size + width, _DST) for number, width in _WIDTHS.items()}
_BEFORE = HEADER.size + _RTMSG.size + ATTRIBUTE.size + NUMBER.size + ATTRIBUTE.size  # the usual place of a destination
_AT_ONCE = 256  # messages: more would seldom be of one kind


def _run(messages: memoryview, size: int, width: int) -> list[bytes]:
    """Each message's destination, after the bytes around it; empty unless only the destinations differ, and ascend.

    If a list is cut after each destination, each piece is the end of one message and the beginning of the next one; the
    first piece gets the end of the last message. If such pieces ascend, and the first and the last begin alike, all of
    them do. So sorting is enough to prove it (10,000 routes for 100 networks are read in 0.9 ms, not in 3.0).
    """
    begin = _BEFORE + width
    if size < begin:
        return []
    first, *others, end = _layout_of_run(size, begin, len(messages) // size).unpack(messages)
    run = [end + first, *others]
    return run if run[-1].startswith(run[0][:-width]) and run == sorted(run) else []


def _wanted(kind: _Kind, run: Sequence[bytes], width: int) -> Iterator[Route]:
    place, around = 0, run[0][:-width]
    while place < len(run):
        destination = run[place][-width:]
        border = bisect_right(kind.borders, destination)
        if border & 1:
            yield kind.to(destination)
            place += 1
        else:
            place = bisect_left(run, around + kind.borders[border], place)


@lru_cache
def _layout_of_run(size: int, begin: int, count: int) -> struct.Struct:
    return struct.Struct(f"{begin}s" + f"{size}s" * (count - 1) + f"{size - begin}s")


@cache
def _layout(size: int, width: int) -> struct.Struct:
    """The bytes before, in and after the destination in a message of this size, which may be too short to have one."""
    behind = size - _BEFORE - width
    return struct.Struct(f"{_BEFORE}s{width}s{behind}s" if behind >= 0 else f"{size}s0s0s")


def list_routes(
    netlink: NetlinkSocket, family: int, tables: Collection[int] | None, reader: RouteReader
) -> Iterator[Route]:
    """The routes of these tables, in the kernel's order; None means all tables."""
    body = _RTMSG.pack(n.AF_OF[family], 0, 0, 0, 0, 0, 0, 0, 0)
    each = [b""] if tables is None else [attribute(_TABLE, NUMBER.pack(table)) for table in sorted(tables)]
    for table in each:
        try:
            for part in netlink.parts(n.RTM_GETROUTE, body + table):
                yield from reader.read(part, netlink.size_at)
        except KernelError as error:
            if error.number != errno.ENOENT:  # there is no such table
                raise


# From a route to a message.

_DST_AT = HEADER.size + _RTMSG.size + ATTRIBUTE.size  # where the destination of a request is
_VERBS: dict[Verb, tuple[int, int]] = {  # the kind, and NLM_F_CREATE with EXCL or with APPEND
    "add": (n.RTM_NEWROUTE, 0x400 | 0x200),
    "append": (n.RTM_NEWROUTE, 0x400 | 0x800),
    "delete": (n.RTM_DELROUTE, 0),
}


def change_routes(netlink: NetlinkSocket, requests: Iterable[RouteRequest]) -> dict[int, KernelError]:
    """Carry out the requests in their order; return the refusals by place."""
    refused: dict[int, KernelError] = {}
    messages: list[bytes] = []
    indexes = cache(index_of)
    last_kind, width, pack = None, 0, struct.Struct("").pack
    begin = middle = before = end = b""
    for place, (verb, route) in enumerate(requests):
        family, network, length = route.prefix
        kind = verb, family, route[1:]  # all but the destination
        if kind != last_kind:
            last_kind = None
            try:
                encoded = _encoded(verb, route, indexes)
            except KernelError as error:
                refused[place] = error
                continue
            last_kind, width = kind, width_of(family) // 8
            # The bytes around the message's number, the destination's length and its first address.
            begin, middle, before, end = encoded[:8], encoded[12:17], encoded[18:_DST_AT], encoded[_DST_AT + width :]
            pack = struct.Struct(f"=8sI5sB{len(before)}s{width}s{len(end)}s").pack
        messages.append(pack(begin, place, middle, length, before, network.to_bytes(width, "big"), end))
    return refused | netlink.batch(messages)


def _encoded(verb: Verb, route: Route, index_of: Callable[[str], int]) -> bytes:
    """The message of this request; KernelError if the route does not fit into one, or a device does not exist."""
    if problem := misfit(route):
        raise KernelError(errno.ERANGE, problem)
    family, network, length = route.prefix
    is_in_attribute = route.table > 0xFF
    flags, hops = 0, b""
    if len(route.next_hops) == 1:
        (hop,) = route.next_hops
        flags, hops = ONLINK * hop.onlink, _gateway(route, hop)
        hops += attribute(_OIF, NUMBER.pack(index_of(hop.dev))) if hop.dev is not None else b""
    elif route.next_hops:
        hops = attribute(_MULTIPATH, b"".join(_packed_hop(route, hop, index_of) for hop in route.next_hops))
    if verb == "delete" and needs_no_gateway(route):
        hops += attribute(_GATEWAY, bytes(16))
    metrics = ((number, value) for number, value in ((_MTU, route.mtu), (_ADVMSS, route.advmss)) if value)
    fields = {
        _TABLE: NUMBER.pack(route.table) if is_in_attribute else b"",
        _PRIORITY: NUMBER.pack(route.metric) if route.metric else b"",
        _PREFSRC: b"" if route.prefsrc is None else route.prefsrc.packed,
        _METRICS: b"".join(attribute(number, NUMBER.pack(value)) for number, value in metrics),
    }
    table = _IN_ATTRIBUTE if is_in_attribute else route.table
    fixed = (length, 0, route.tos, table, route.protocol, route.scope, _TYPES[route.type], flags)
    destination = attribute(_DST, network.to_bytes(width_of(family) // 8, "big"))
    others = b"".join(attribute(number, value) for number, value in fields.items() if value)
    return message(*_VERBS[verb], _RTMSG.pack(n.AF_OF[family], *fixed) + destination + hops + others)


def needs_no_gateway(route: Route) -> bool:
    """Whether a request to delete has to give the gateway "::", which says that the route has no gateway.

    Without it, Linux would delete an IPv6 route through the same device, with all its next hops, whoever added them.
    """
    return route.prefix.family == IPV6 and not any(hop.gateway for hop in route.next_hops)


def _gateway(route: Route, hop: NextHop) -> bytes:
    if hop.gateway is None:
        return b""
    if hop.gateway.version == route.prefix.family:
        return attribute(_GATEWAY, hop.gateway.packed)
    return attribute(_VIA, struct.pack("=H", n.AF_OF[hop.gateway.version]) + hop.gateway.packed)


def _packed_hop(route: Route, hop: NextHop, index_of: Callable[[str], int]) -> bytes:
    gateway, index = _gateway(route, hop), 0 if hop.dev is None else index_of(hop.dev)
    return _NEXTHOP.pack(_NEXTHOP.size + len(gateway), ONLINK * hop.onlink, hop.weight - 1, index) + gateway


# Lookups.

_UID, _PROTOCOL, _UDP = 25, 27, 17
# Without _LOOKUP_TABLE, IPv4 reports table main for every route. IPv6 reports the right table, and refuses this flag.
LOOKUP_FLAGS = {IPV4: _FIB_MATCH | _LOOKUP_TABLE, IPV6: _FIB_MATCH}


def lookup_routes(netlink: NetlinkSocket, destinations: Sequence[IP]) -> tuple[Answer, ...]:
    """The route that decides for a plain packet to each destination."""
    plain = attribute(_UID, bytes(4)) + attribute(_PROTOCOL, bytes([_UDP]))
    bodies = []
    for address in destinations:
        family, width = address.version, address.max_prefixlen
        fixed = _RTMSG.pack(n.AF_OF[family], width, 0, 0, 0, 0, 0, 0, LOOKUP_FLAGS[family])
        bodies.append(fixed + attribute(_DST, address.packed) + plain)
    answer_of = cache(partial(_answer, names=Names()))  # many destinations have the same entry
    return tuple(map(answer_of, netlink.ask(n.RTM_GETROUTE, bodies)))


def _answer(data: bytes, names: Names) -> Answer:
    if not is_error(data):
        route = decode(data, names)
        return Answer(route.type, route)
    error = error_of(data)
    kind = KIND_OF_ERRNO.get(error.number)
    if kind is None or error.words:  # if there are words, the request itself is wrong
        raise error
    return Answer(kind, None)
