"""Routes as netlink messages: the codec.

A message about a route has a header, a fixed part and attributes:

    struct rtmsg     family, dst_len, src_len, tos, table, protocol, scope, type, flags
    struct rtattr    length, number (RTA_…), value, zeros up to a multiple of four; then the next

rtmsg is older than most fields of a route: the newer ones are attributes, and so is the table, for
whose number rtmsg has only a byte. A single next hop is spread over the message: its flags are
those of rtmsg, its device and its gateway are attributes. Several next hops are the value of
RTA_MULTIPATH: for each a struct rtnexthop (length, flags, weight minus one, device), then its
gateway. A gateway of the other family is RTA_VIA, which begins with that family. RTA_METRICS has
attributes with numbers of their own (RTAX_…).
"""

import errno
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from hostrouting.kernel.base import Verb
from hostrouting.kernel.netlink.numbers import (
    AF_OF,
    FAMILY_OF,
    RTM_DELROUTE,
    RTM_NEWROUTE,
    ip_of,
    number_in,
    number_of,
    prefix_of,
)
from hostrouting.kernel.netlink.socket import (
    HEADER,
    KernelError,
    aligned,
    attribute,
    attributes_of,
    message,
    number_attribute,
)
from hostrouting.model.prefix import IPV4, IPV6, Prefix, width_of
from hostrouting.model.route import PATHLESS, ROUTE_TYPES, NextHop, Preference, Route

# The structures and numbers of the kernel's header linux/rtnetlink.h, by their names there.

_RTMSG = struct.Struct("=8BI")
ROUTE_ATTRIBUTES_AT = HEADER.size + _RTMSG.size
_RTNEXTHOP = struct.Struct("=HBBI")
_EXPIRES = struct.Struct("=8xi")  # a field of struct rta_cacheinfo

RTA_DST = 1
_RTA_SRC = 2
_RTA_OIF = 4
_RTA_GATEWAY = 5
_RTA_PRIORITY = 6
_RTA_PREFSRC = 7
_RTA_METRICS = 8
_RTA_MULTIPATH = 9
_RTA_CACHEINFO = 12
RTA_TABLE = 15
_RTA_VIA = 18
_RTA_PREF = 20
_RTA_ENCAP_TYPE = 21
_RTA_NH_ID = 30

_RTAX_MTU = 2
_RTAX_ADVMSS = 8

_RTNH_F_DEAD = 0x1
_RTNH_F_ONLINK = 0x4
_RTNH_F_LINKDOWN = 0x10

_NLM_F_EXCL = 0x200
_NLM_F_CREATE = 0x400
_NLM_F_APPEND = 0x800

_TYPES = {name: number for number, name in enumerate(ROUTE_TYPES)}
_PREFERENCES: dict[int | None, Preference] = {1: "high", 3: "low"}
_ENCAPS = dict(
    enumerate(
        ("none", "mpls", "ip", "ila", "ip6", "seg6", "bpf", "seg6local", "rpl", "ioam6", "xfrm")
    )
)
"""The types of encapsulation by number, as `ip` names them."""


# From a message to a route.


def decode(packed: bytes, names: Mapping[int, str]) -> Route:
    """The route in a netlink message; `names` gives the name of a device for any number, as `Names`
    does.
    """
    fixed = _RTMSG.unpack_from(packed, HEADER.size)
    af, dst_len, src_len, tos, _, protocol, scope, type_, flags = fixed
    attributes = attributes_of(packed, ROUTE_ATTRIBUTES_AT)
    metrics: dict[int, bytes] = {}
    if _RTA_METRICS in attributes:
        metrics = attributes_of(attributes[_RTA_METRICS])
    raw_hops = _raw_hops(attributes, flags)
    family = FAMILY_OF[af]
    route_type = ROUTE_TYPES[type_]

    next_hops: tuple[NextHop, ...] = ()
    # A route of these types has no next hop, though Linux lists the loopback device for it in IPv6.
    if route_type not in PATHLESS:
        next_hops = tuple([_next_hop(hop, names) for hop in raw_hops])
    source = None
    if src_len:
        source = prefix_of(family, attributes.get(_RTA_SRC), src_len)

    return Route(
        prefix=prefix_of(family, attributes.get(RTA_DST), dst_len),
        next_hops=next_hops,
        table=number_of(attributes[RTA_TABLE]),
        metric=number_in(attributes, _RTA_PRIORITY) or 0,
        tos=tos,
        type=route_type,
        scope=scope,
        protocol=protocol,
        prefsrc=ip_of(attributes.get(_RTA_PREFSRC)),
        mtu=number_in(metrics, _RTAX_MTU),
        advmss=number_in(metrics, _RTAX_ADVMSS),
        nexthop_id=number_in(attributes, _RTA_NH_ID),
        source=source,
        preference=_PREFERENCES.get(number_in(attributes, _RTA_PREF), "medium"),
        expired=_expired(attributes.get(_RTA_CACHEINFO)),
        unread=_encaps(raw_hops),  # what `Route` has no field for
    )


class _RawHop(NamedTuple):
    """A next hop before it is decoded. The only one of a route has the attributes of that."""

    attributes: Mapping[int, bytes]
    device: int
    flags: int
    weight: int = 1


def _raw_hops(attributes: Mapping[int, bytes], flags: int) -> list[_RawHop]:
    """The next hops, not decoded yet, of a route that has these attributes and flags. Several are
    in RTA_MULTIPATH. A single one is described by the attributes and flags of the route itself; a
    route without a device (RTA_OIF), such as a blackhole, has none.
    """
    if _RTA_MULTIPATH in attributes:
        return _hops_of_multipath(attributes[_RTA_MULTIPATH])
    if _RTA_OIF not in attributes:
        return []
    return [_RawHop(attributes, number_of(attributes[_RTA_OIF]), flags)]


def _hops_of_multipath(packed: bytes) -> list[_RawHop]:
    """The next hops in the value of RTA_MULTIPATH: each a struct rtnexthop and its attributes."""
    hops: list[_RawHop] = []
    at = 0
    while at + _RTNEXTHOP.size <= len(packed):
        length, flags, weight, device = _RTNEXTHOP.unpack_from(packed, at)
        attributes = attributes_of(packed[at + _RTNEXTHOP.size : at + length])
        hops.append(_RawHop(attributes, device, flags, weight + 1))  # sent minus one
        at += aligned(length)
    return hops


def _next_hop(hop: _RawHop, names: Mapping[int, str]) -> NextHop:
    """Decode a next hop; `names` has the names of devices by number."""
    gateway = hop.attributes.get(_RTA_GATEWAY)
    if _RTA_VIA in hop.attributes:  # a gateway of the other family, after the number of that family
        gateway = hop.attributes[_RTA_VIA][2:]
    return NextHop(
        dev=names[hop.device],
        gateway=ip_of(gateway),
        weight=hop.weight,
        onlink=bool(hop.flags & _RTNH_F_ONLINK),
        linkdown=bool(hop.flags & _RTNH_F_LINKDOWN),
        dead=bool(hop.flags & _RTNH_F_DEAD),
    )


def _expired(cacheinfo: bytes | None) -> bool | None:
    """Whether the lifetime of the route is over; None if the route has no lifetime."""
    if not cacheinfo:
        return None
    ticks_left: int = _EXPIRES.unpack_from(cacheinfo)[0]
    # Linux says 0 if the route has no lifetime. A lifetime in its last tick looks the same, which
    # does not matter.
    if ticks_left == 0:
        return None
    return ticks_left < 0


def _encaps(hops: Iterable[_RawHop]) -> tuple[str, ...]:
    """The encapsulations of the next hops, in the words of `ip`, such as "encap mpls". `Route` has
    no field for their values, so they become `Route.unread`. Other attributes without a field, such
    as a realm or a window, are left out: they say nothing about where packets go.
    """
    encaps: set[str] = set()
    for hop in hops:
        if _RTA_ENCAP_TYPE in hop.attributes:
            number = number_of(hop.attributes[_RTA_ENCAP_TYPE])
            encaps.add(f"encap {_ENCAPS.get(number, number)}")
    return tuple(sorted(encaps))


# From a route to a message.

_VERBS: dict[Verb, tuple[int, int]] = {
    "add": (RTM_NEWROUTE, _NLM_F_CREATE | _NLM_F_EXCL),
    "append": (RTM_NEWROUTE, _NLM_F_CREATE | _NLM_F_APPEND),
    "delete": (RTM_DELROUTE, 0),
}
"""The type and the flags of a request."""


def encode(verb: Verb, route: Route, index_of: Callable[[str], int], sequence: int = 0) -> bytes:
    """Make the message that asks the kernel to add, append or delete this route; `index_of` gives
    the number of a device by its name.

    KernelError if the route does not fit into a message (ERANGE), or a device does not exist.
    """
    family, network, length = route.prefix
    body = _without_destination(verb, family, length, route[1:], index_of)
    body += attribute(RTA_DST, network.to_bytes(width_of(family) // 8, "big"))
    return message(*_VERBS[verb], body, sequence)


@lru_cache(1)  # of thousands of routes, most differ from the one before only in their destination
def _without_destination(
    verb: Verb, family: int, length: int, others: tuple[Any, ...], index_of: Callable[[str], int]
) -> bytes:
    """The message for a route, but for its header and its destination; `others` are the fields of
    the route after its prefix. No index of a device is kept too long: each `change_routes` has an
    `index_of` of its own.
    """
    route = Route(Prefix(family, 0, length), *others)
    problem = _why_not_sent(route)
    if problem:
        raise KernelError(errno.ERANGE, problem)
    if route.nexthop_id is not None:
        route = route._replace(next_hops=())  # Linux refuses an object and next hops in one message
    try:
        return _packed_rtmsg(verb, route) + _packed_attributes(verb, route, index_of)
    except struct.error as error:
        problem = f"a number does not fit into a message: {error}"
        raise KernelError(errno.ERANGE, problem) from error


def _why_not_sent(route: Route) -> str:
    """Return why the route cannot be sent in a message to Linux; empty if it can."""
    # Our messages lack these fields, so Linux would add or delete another route than this one. They
    # lack encapsulations, too, but Linux finds a route to delete without these.
    has_fields_never_sent = (
        route.source is not None or route.preference != "medium" or route.expired is not None
    )
    if has_fields_never_sent:
        return "sources, a preference and an expiry are only read"
    family = route.prefix.family
    # Linux would read the bytes of this address as one of the route's family.
    if route.prefsrc is not None and route.prefsrc.version != family:
        return f"the preferred source {route.prefsrc} is not an IPv{family} address"
    return ""


def _packed_rtmsg(verb: Verb, route: Route) -> bytes:
    """The fixed part of the message (struct rtmsg). Its flags are those of a single next hop; next
    hops in RTA_MULTIPATH have flags of their own.
    """
    flags = 0
    if route.next_hops and not _uses_multipath(verb, route):
        [hop] = route.next_hops  # several would use RTA_MULTIPATH
        flags = _flags_of(hop)
    return _RTMSG.pack(
        AF_OF[route.prefix.family],
        route.prefix.length,
        0,  # no source
        route.tos,
        0,  # the table is an attribute
        route.protocol,
        route.scope,
        _TYPES[route.type],
        flags,
    )


def _packed_attributes(verb: Verb, route: Route, index_of: Callable[[str], int]) -> bytes:
    """Pack the attributes of a request for this route. They have the fields that the fixed part
    (`_packed_rtmsg`) lacks, except the destination.
    """
    attributes = _packed_next_hops(verb, route, index_of)
    if route.nexthop_id is not None:
        attributes += number_attribute(_RTA_NH_ID, route.nexthop_id)
    if _needs_empty_gateway(verb, route):
        attributes += attribute(_RTA_GATEWAY, bytes(16))  # "::"
    attributes += number_attribute(RTA_TABLE, route.table)
    attributes += number_attribute(_RTA_PRIORITY, route.metric)
    if route.prefsrc is not None:
        attributes += attribute(_RTA_PREFSRC, route.prefsrc.packed)
    return attributes + _packed_metrics(route)


def _uses_multipath(verb: Verb, route: Route) -> bool:
    """Whether the next hops of this route are sent as RTA_MULTIPATH. If not, the only next hop is
    sent as attributes of the route.
    """
    if len(route.next_hops) > 1:
        return True
    if verb == "delete":
        # With attributes of the route, the request would also match an IPv4 route with several next
        # hops, if this one is the first of them.
        return route.prefix.family == IPV4
    return route.next_hops[0].weight > 1  # only RTA_MULTIPATH has a weight


def _needs_empty_gateway(verb: Verb, route: Route) -> bool:
    """Whether the request needs the gateway "::", which says that the route has none. It is needed
    to delete an IPv6 route without a gateway: otherwise Linux could delete a route with a gateway
    on the same device instead, with all its next hops, whoever added them.
    """
    # A route with a nexthop object is found by the number of the object.
    if verb != "delete" or route.prefix.family != IPV6 or route.nexthop_id is not None:
        return False
    return not route.has_gateway


def _packed_next_hops(verb: Verb, route: Route, index_of: Callable[[str], int]) -> bytes:
    """The next hops, packed as RTA_MULTIPATH or as attributes of the route (`_uses_multipath`)."""
    if not route.next_hops:
        return b""
    if _uses_multipath(verb, route):
        hops = [_packed_rtnexthop(route, hop, index_of) for hop in route.next_hops]
        return attribute(_RTA_MULTIPATH, b"".join(hops))
    [hop] = route.next_hops
    gateway = _packed_gateway(route, hop)
    if hop.dev is None:
        return gateway
    return gateway + number_attribute(_RTA_OIF, index_of(hop.dev))


def _packed_rtnexthop(route: Route, hop: NextHop, index_of: Callable[[str], int]) -> bytes:
    """A next hop as RTA_MULTIPATH has it: a struct rtnexthop, and the gateway."""
    gateway = _packed_gateway(route, hop)
    length = _RTNEXTHOP.size + len(gateway)
    device = 0 if hop.dev is None else index_of(hop.dev)
    # A weight is sent minus one.
    return _RTNEXTHOP.pack(length, _flags_of(hop), hop.weight - 1, device) + gateway


def _flags_of(hop: NextHop) -> int:
    return _RTNH_F_ONLINK if hop.onlink else 0


def _packed_gateway(route: Route, hop: NextHop) -> bytes:
    """The attribute for the gateway of a next hop; RTA_VIA if the gateway is of the other family
    than the route.
    """
    if hop.gateway is None:
        return b""
    if hop.gateway.version == route.prefix.family:
        return attribute(_RTA_GATEWAY, hop.gateway.packed)
    family = struct.pack("=H", AF_OF[hop.gateway.version])
    return attribute(_RTA_VIA, family + hop.gateway.packed)


def _packed_metrics(route: Route) -> bytes:
    """The attribute RTA_METRICS, in which the mtu and the advmss are nested."""
    metrics = b""
    if route.mtu:
        metrics += number_attribute(_RTAX_MTU, route.mtu)
    if route.advmss:
        metrics += number_attribute(_RTAX_ADVMSS, route.advmss)
    if not metrics:
        return b""
    return attribute(_RTA_METRICS, metrics)


# Questions.


def question_rtmsg(family: int, dst_len: int = 0, flags: int = 0) -> bytes:
    """The fixed part of a message that asks for routes: the other fields are zero."""
    return _RTMSG.pack(AF_OF[family], dst_len, 0, 0, 0, 0, 0, 0, flags)
