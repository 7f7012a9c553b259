"""Requests for routes on every kernel: which cannot be sent, what a delete matches, and what a refusal means.

Here: functions of the route, and of facts that the caller has read. Not here: when a kernel refuses, and sending
anything.

A request cannot be sent if a number is too large for the message, or a field does not exist in the route's family.

A delete is for exactly one route. But Linux treats a missing or zero field of the request as "any": a request to delete
a route with metric 0 can delete one with metric 100, and a request without a gateway can delete a route that has one.
So the exact route is first searched among the present ones, and the request is built from the route as it was read
back. If Linux would delete a different route, no request is sent.

In IPv4 a route is one entry of the table, whatever next hops it has. In IPv6 each next hop is an entry of its own, with
its own protocol: a second route with a gateway and the same key, also another program's, becomes a next hop beside the
first. Linux lists them as one route with the fields of the first, so the protocol of the others cannot be read. But a
request to delete with a gateway deletes one next hop only, and only if its own protocol is that of the request. So in
IPv6 a single next hop of a listed route can be deleted: if it is another program's, Linux answers that it does not
exist.

A refusal is an errno. Its error has one sentence, which names the cause if the facts show it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from ipaddress import ip_interface
from typing import TYPE_CHECKING, NamedTuple, Protocol

import attrs

from hostrouting.errors import BackendError, RouteKind
from hostrouting.kernel.base import foreign, has_weight
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix
from hostrouting.model.route import DEFAULT_METRIC, PATHLESS, NextHop, Route

if TYPE_CHECKING:
    from hostrouting.kernel.base import RouteRequest
    from hostrouting.model.snapshot import Address

# What does not fit into a message

_BYTE, _WORD = 1 << 8, 1 << 32
_BOUNDS = {
    "tos": _BYTE,
    "scope": _BYTE,
    "protocol": _BYTE,
    "table": _WORD,
    "metric": _WORD,
    "mtu": _WORD,
    "advmss": _WORD,
    "nexthop_id": _WORD,
}
_HEAVIEST = 256
# All next hops of a route are in one attribute with a two-byte length; each has a header of eight bytes.
_ROOM, _HEAD, _ATTRIBUTE = 0xFFFF, 8, 4


def misfit(route: Route) -> str:
    """The field of the route that does not fit into a message, as text; empty if everything fits."""
    return next(_misfits(route), "")


def _misfits(route: Route) -> Iterator[str]:
    if problem := foreign(route):
        yield problem
    for name, bound in _BOUNDS.items():
        value, highest = getattr(route, name), bound - 1
        if value is not None and not 0 <= value <= highest:
            yield f"{name} {value} is not in 0..{highest}"
    # A route that has expired is requested with 0 seconds.
    highest = _WORD - 1
    if route.expires is not None and route.expires > highest:
        yield f"expires {route.expires} is not in 0..{highest}"
    if len(route.legs) > 1 or has_weight(route):
        for leg in route.legs:
            if not 1 <= leg.weight <= _HEAVIEST:
                yield f"the weight {leg.weight} of {leg} is not in 1..{_HEAVIEST}"
        if _ATTRIBUTE + sum(map(_size, route.legs)) > _ROOM:
            yield f"{len(route.legs)} next hops do not fit into one message"


def _size(leg: NextHop) -> int:
    return _HEAD + (_ATTRIBUTE + len(leg.gateway.packed) if leg.gateway else 0)


# What a delete matches

_PROTOCOL_BOOT = 3
# In a delete request, this means any scope.
_SCOPE_NOWHERE = 255
# In IPv6, the outgoing device of an unreachable, blackhole or prohibit route.
_LOOPBACK = "lo"
# In a request, this many seconds mean that an IPv6 route does not expire.
_FOREVER = 0xFFFFFFFF


class Obstacle(NamedTuple):
    """Why a route is not deleted: the errno, and a description of the obstacle."""

    number: int
    words: str = ""


def find_exactly(wanted: Route, standing: Sequence[Route]) -> Route | Obstacle:
    """The wanted route among those of its table and prefix (in the kernel's order), or why it cannot be deleted."""
    found = next((route for route in standing if same(route, wanted)), None)
    if found is None:
        if not any(is_leg_of(wanted, route) for route in standing):
            return Obstacle(errno.ESRCH)
        # A request without them would match any metric and any protocol.
        return attrs.evolve(wanted, metric=metric_of(wanted), protocol=wanted.protocol or _PROTOCOL_BOOT)
    other = next((route for route in _taken(standing, found) if not same(route, found)), None)
    if other is not None:
        return Obstacle(errno.ENOTUNIQ, f"Linux would delete {other} instead")
    return found


def same(one: Route, other: Route) -> bool:
    """Whether the two routes are equal in all fields of a request; state that the kernel adds is ignored."""
    return one == other or (one.prefix == other.prefix and _identity(one) == _identity(other))


def is_leg_of(wanted: Route, route: Route) -> bool:
    """Whether the wanted IPv6 route can be one of the next hops of this route; protocols are not compared."""
    family, legs = route.prefix.family, {(leg.dev, leg.gateway) for leg in route.legs}
    return (
        family == IPV6
        and len(route.legs) > len(wanted.legs) == 1
        and wanted.legs[0].gateway is not None
        and (wanted.legs[0].dev, wanted.legs[0].gateway) in legs
        and route.nexthop_id is wanted.nexthop_id is None
        and (route.prefix, route.table, route.type) == (wanted.prefix, wanted.table, wanted.type)
        and (metric_of(route), sources_of(route)) == (metric_of(wanted), sources_of(wanted))
    )


def metric_of(route: Route) -> int:
    """The metric that the route has in the kernel."""
    return route.metric or DEFAULT_METRIC[route.prefix.family]


def sources_of(route: Route) -> Prefix | None:
    """The sources that the route has in the kernel: "all sources" is none."""
    return route.source if route.source is not None and route.source.length else None


def expires(route: Route) -> bool:
    """Whether the route in the kernel expires, or has expired. A route without a next hop stays."""
    return route.expires is not None and route.expires != _FOREVER and route.type not in PATHLESS


def is_meant(standing: Route, wanted: Route) -> bool:
    """Whether a delete request for `wanted` matches this IPv4 route in Linux; unset fields match anything."""
    return (
        standing.tos == wanted.tos
        and wanted.type in {"unspec", standing.type}
        and wanted.scope in {_SCOPE_NOWHERE, standing.scope}
        and wanted.metric in {0, standing.metric}
        and wanted.protocol in {0, standing.protocol}
        and wanted.prefsrc in {None, standing.prefsrc}
        # Sent as zero, these match only routes without the field.
        and wanted.mtu in {None, standing.mtu or 0}
        and wanted.advmss in {None, standing.advmss or 0}
        and _ways_are_meant(standing, wanted)
    )


def leg_is_meant(standing: Route, leg: NextHop, wanted: Route, wanted_leg: NextHop) -> bool:
    """Whether a delete request for `wanted` matches this next hop of an IPv6 route in Linux."""
    return (
        wanted.metric in {0, standing.metric}
        and wanted.protocol in {0, standing.protocol}
        and wanted_leg.dev in {None, leg.dev}
        # A next hop without a gateway has an all-zero gateway.
        and (wanted_leg.gateway is None or int(wanted_leg.gateway) == int(leg.gateway or 0))
    )


def _taken(standing: Sequence[Route], wanted: Route) -> Iterator[Route]:
    """The routes that Linux would delete; in IPv6, each next hop separately."""
    if wanted.prefix.family == IPV4:
        yield from [route for route in standing if is_meant(route, wanted)][:1]
        return
    near = [route for route in standing if route.source == wanted.source]
    legs = [(route, leg) for route in near for leg in route.legs or (NextHop(_LOOPBACK),)]
    for wanted_leg in wanted.legs or (NextHop(),):
        yield from [route for route, leg in legs if leg_is_meant(route, leg, wanted, wanted_leg)][:1]


def _ways_are_meant(standing: Route, wanted: Route) -> bool:
    if wanted.nexthop_id is not None:
        return standing.nexthop_id == wanted.nexthop_id
    if standing.nexthop_id is not None:
        return not any(leg.dev or leg.gateway for leg in wanted.legs)
    # Linux compares only as many next hops as both routes have.
    if len(wanted.legs) > 1 and len(standing.legs) > len(wanted.legs):
        return False
    if wanted.legs and not standing.legs:
        return not any(leg.dev or leg.gateway for leg in wanted.legs)
    return all(
        hop.dev in {None, leg.dev} and hop.gateway in {None, leg.gateway}
        for hop, leg in zip(wanted.legs, standing.legs, strict=False)
    )


def _identity(route: Route) -> tuple[object, ...]:
    """All fields that a request can set, with the values that Linux stores; IPv6 has no scope or tos."""
    ipv4 = route.prefix.family == IPV4
    several = len(route.legs) > 1
    # The weight of a single next hop has no effect, and an all-zero gateway means no gateway.
    ways = tuple(
        (leg.dev, leg.gateway if leg.gateway and int(leg.gateway) else None, leg.onlink, leg.weight if several else 1)
        for leg in route.legs
    )
    return (
        route.table,
        metric_of(route),
        route.tos if ipv4 else 0,
        route.type,
        route.scope if ipv4 else 0,
        route.protocol if ipv4 else route.protocol or _PROTOCOL_BOOT,
        route.prefsrc,
        route.mtu or None,
        route.advmss or None,
        route.nexthop_id,
        sources_of(route),
        route.preference if route.type not in PATHLESS else "medium",
        expires(route),
        ways if route.nexthop_id is None and route.type not in PATHLESS else (),
    )


# What a refusal means

_KINDS: dict[int, RouteKind] = {
    errno.EEXIST: "exists",
    errno.ESRCH: "no-such-route",
    errno.ENOENT: "no-such-route",
    errno.ENODEV: "no-such-device",
    errno.ENETDOWN: "device-down",
    errno.ENETUNREACH: "gateway-not-on-link",
    errno.EHOSTUNREACH: "gateway-not-on-link",
    errno.EINVAL: "invalid",
    errno.ERANGE: "invalid",
    errno.EOPNOTSUPP: "invalid",
    errno.EAFNOSUPPORT: "invalid",
}


class Facts(Protocol):
    """The facts that explain a refusal; read only if they are needed."""

    def routes_of_prefix(self, route: Route) -> Sequence[Route]:
        """The routes of the same table and prefix, in the kernel's order."""

    def addresses(self, family: int) -> Sequence[Address]:
        """The addresses of this host in this family."""


def refusal(change: RouteRequest, number: int, kernel: str = "", *, facts: Facts, problem: str = "") -> BackendError:
    """The error for a change that was refused with this errno; `kernel` is the kernel's own text, if it gave one.

    Without a known `problem`, the cause is looked for in the facts.
    """
    kind = _KINDS.get(number, "refused")
    # If the problem is known, the kernel may not have been asked, so there is no text of its own.
    words = "" if problem else os.strerror(number)
    if not problem:
        try:
            problem = _problem(change, number, kind, facts)
        except BackendError:
            problem = ""  # if reading the facts fails, report the refusal without them
    said = f"cannot {change.verb} {change.route}"
    return BackendError(
        f"{said}: {problem}" if problem else said,
        kind=kind,
        route=str(change.route),
        errno=number,
        kernel=kernel or words,
    )


def _problem(change: RouteRequest, number: int, kind: RouteKind, facts: Facts) -> str:
    route = change.route
    devs = " and ".join(route.devs)
    if number == errno.EPERM:
        return "this process may no longer change routing"
    if number == errno.EACCES:
        return _denied(route)
    if kind == "exists":
        return _in_its_place(change, facts)
    if kind == "no-such-route":
        return "this route does not exist"
    if kind == "no-such-device":
        return f"device {devs} does not exist" if devs else "the route has no device"
    if kind == "device-down":
        return f"{devs or 'its device'} is down"
    if kind == "gateway-not-on-link":
        return _not_on_link(route, facts)
    return _invalid(route, facts) if kind == "invalid" else ""


def _in_its_place(change: RouteRequest, facts: Facts) -> str:
    route = change.route
    place = (route.tos, metric_of(route), sources_of(route))
    standing = facts.routes_of_prefix(route)
    alike = [one for one in standing if (one.tos, metric_of(one), sources_of(one)) == place]
    if any(same(one, route) for one in alike):
        if change.verb == "replace":
            return "this route exists already, after another one with the same destination and metric"
        return "this route exists already"
    told = "another route has the same destination and metric"
    return f"{told}: [{alike[0]}]" if alike else told


def _not_on_link(route: Route, facts: Facts) -> str:
    hops = [leg for leg in route.legs if leg.gateway is not None]
    if not hops:
        return "the route has no gateway"
    # With several next hops, name the first whose gateway no address on its device explains; the kernel does not say.
    blamed = next((leg for leg in hops if not _explained(leg, facts)), hops[0])
    where = f" on {blamed.dev} ({_interfaces(blamed, facts) or 'no address'})" if blamed.dev else ""
    return f"gateway {blamed.gateway} is not on-link{where}"


def _denied(route: Route) -> str:
    """The cause of EACCES: IPv6 is off on the next hop's device; in IPv4, a prohibit route or rule."""
    if IPV6 in {route.prefix.family, *(leg.gateway.version for leg in route.legs if leg.gateway is not None)}:
        return f"IPv6 is disabled on {' or '.join(route.devs) or 'its device'}"
    gateways = [f"{leg.gateway}{f' by {leg.dev}' if leg.dev else ''}" for leg in route.legs if leg.gateway is not None]
    return f"a rule or a route prohibits packets to gateway {' or '.join(gateways)}; see `ip rule` and `ip route`"


def _invalid(route: Route, facts: Facts) -> str:
    """The known causes of an invalid route: an unusable gateway or preferred source."""
    source = route.prefsrc
    if source is not None and all(source != address.ip for address in facts.addresses(source.version)):
        return f"preferred source {source} is not an address of this host"
    for leg in route.legs:
        if any(leg.gateway in _ends(address) for address in _on(leg, facts)):
            addresses = _interfaces(leg, facts)
            return f"gateway {leg.gateway} is a broadcast address on {leg.dev} ({addresses})"
    return ""


def _on(leg: NextHop, facts: Facts) -> list[Address]:
    family = leg.gateway.version if leg.gateway else IPV4
    return [address for address in facts.addresses(family) if address.dev == leg.dev]


def _explained(leg: NextHop, facts: Facts) -> bool:
    return any(
        leg.gateway in ip_interface(f"{address.peer or address.ip}/{address.length}").network
        for address in _on(leg, facts)
    )


def _interfaces(leg: NextHop, facts: Facts) -> str:
    return ", ".join(f"{address.ip}/{address.length}" for address in _on(leg, facts))


def _ends(address: Address) -> tuple[IP | None, ...]:
    network = ip_interface(f"{address.peer or address.ip}/{address.length}").network
    return (address.broadcast, network.broadcast_address) if network.version == IPV4 else ()
