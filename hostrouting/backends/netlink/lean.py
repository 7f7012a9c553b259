"""Routes out of raw messages at the speed of `struct`: the fast path of reading.

Why: decoding a route with pyroute2 takes some 140 µs, 14 s for 100,000 of them; most are of the few simple shapes
that are known here. For anything else `read` says None, and `routes.read_route` is the one to ask. That both say the
same of the same message is checked by a property test against the kernel.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address
from socket import ntohl
from typing import TYPE_CHECKING

from hostrouting.backends.netlink.numbers import FAMILY_OF
from hostrouting.backends.netlink.routes import PATHLESS, make_leg
from hostrouting.model import IPV4, IPV6, ROUTE_TYPES, Prefix, Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hostrouting.model import IP, NextHop, RouteKey

__all__ = ["AF_INET", "DST4_NEXT", "TABLE_FIRST", "keys", "read"]

# Attributes (RTA_…) of the simple shapes; those in _IDLE say nothing that a Route holds.
_DST, _OIF, _GATEWAY, _PRIORITY, _PREFSRC, _TABLE = 1, 4, 5, 6, 7, 15
_FLOW, _CACHEINFO, _PREF, _EXPIRES = 11, 12, 20, 23
_IDLE = frozenset({_FLOW, _CACHEINFO, _PREF, _EXPIRES})

_START = struct.Struct("=I12x8BI")  # the length of the message, then struct rtmsg
_ATTRIBUTES = _START.size
# An attribute's length and kind, and its value where that is a number or an address of IPv4.
_ATTRIBUTE_AND_NUMBER = struct.Struct("=HHI")
# Family, prefix length and protocol; then, when they come in their usual order, table and destination.
_KEY = struct.Struct("=16xBB3xB6xIIII")
_DST_AT = 40


def _as_word(length: int, kind: int) -> int:
    (word,) = struct.unpack("=I", struct.pack("=HH", length, kind))
    return int(word)


TABLE_FIRST, DST4_NEXT, _DST6_NEXT = _as_word(8, _TABLE), _as_word(8, _DST), _as_word(20, _DST)
AF_INET, _AF_INET6 = 2, 10


def keys(data: bytes, offsets: Iterable[int]) -> Iterator[RouteKey]:
    """Where each of the routes belongs; no object is made of any."""
    unpack = _KEY.unpack_from
    for offset in offsets:
        af, length, protocol, first, table, following, network = unpack(data, offset)
        if first != TABLE_FIRST:
            yield _key(data, offset)
        elif af == AF_INET and following == DST4_NEXT:
            yield (IPV4, table, ntohl(network), length, protocol)
        elif af == _AF_INET6 and following == _DST6_NEXT:
            yield (IPV6, table, int.from_bytes(data[offset + _DST_AT : offset + _DST_AT + 16], "big"), length, protocol)
        elif length == 0:
            yield (FAMILY_OF[af], table, 0, 0, protocol)
        else:
            yield _key(data, offset)


def _key(data: bytes, offset: int) -> RouteKey:
    """The same for attributes in any order."""
    size, af, length, _, _, table, protocol, _, _, _ = _START.unpack_from(data, offset)
    network, at, end = 0, offset + _ATTRIBUTES, offset + size
    while at < end:
        length_of, kind, number = _ATTRIBUTE_AND_NUMBER.unpack_from(data, at)
        if kind == _TABLE:
            table = number
        elif kind == _DST:
            network = int.from_bytes(data[at + 4 : at + length_of], "big")
        at += length_of + 3 & ~3 or 4
    return (FAMILY_OF[af], table, network, length, protocol)


def read(  # noqa: C901  one branch for each attribute; a table of functions would cost twice the time
    data: bytes, offset: int, names: Mapping[int, str], legs: dict[tuple[int, bytes, int], NextHop]
) -> Route | None:
    """The route of the message at the offset; None for what is not simple. Equal `legs` are made once."""
    size, af, length, source, tos, table, protocol, scope, kind_number, flags = _START.unpack_from(data, offset)
    if source or af not in FAMILY_OF:
        return None
    network = device = metric = 0
    gateway = b""
    prefsrc: IP | None = None
    at, end = offset + _ATTRIBUTES, offset + size
    unpack = _ATTRIBUTE_AND_NUMBER.unpack_from
    while at < end:
        length_of, kind, number = unpack(data, at)
        if kind == _DST:
            network = ntohl(number) if length_of == 8 else int.from_bytes(data[at + 4 : at + length_of], "big")
        elif kind == _TABLE:
            table = number
        elif kind == _OIF:
            device = number
        elif kind == _GATEWAY:
            gateway = data[at + 4 : at + length_of]
        elif kind == _PRIORITY:
            metric = number
        elif kind == _PREFSRC:
            prefsrc = _address(data[at + 4 : at + length_of])
        elif kind not in _IDLE:
            return None
        at += length_of + 3 & ~3 or 4
    kind_name = ROUTE_TYPES[kind_number]
    ways: tuple[NextHop, ...] = ()
    if (device or gateway) and kind_name not in PATHLESS:
        way = (device, gateway, flags & 0xFF)
        leg = legs.get(way)
        if leg is None:
            leg = legs[way] = make_leg(device, _address(gateway) if gateway else None, flags, names)
        ways = (leg,)
    return Route(
        Prefix(FAMILY_OF[af], network, length),
        ways,
        table=table,
        metric=metric,
        tos=tos,
        type=kind_name,
        scope=scope,
        protocol=protocol,
        prefsrc=prefsrc,
    )


def _address(packed: bytes) -> IP:
    return IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)
