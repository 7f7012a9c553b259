"""The promise of `delete`: exactly this route, or none. The same for every kernel, real or fake.

In a delete request, Linux treats a missing or zero field as "any": a request to delete a route with metric 0 can delete
one with metric 100, and a request without a gateway can delete a route that has one. So the exact route is first
searched among the present ones, and the request is built from the route as it was read back. If Linux would delete a
different route, no request is sent.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.model import DEFAULT_METRIC, IPV4, PATHLESS, NextHop, Prefix, Route

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Obstacle", "expires", "find_exactly", "is_meant", "leg_is_meant", "metric_of", "same", "sources_of"]

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
        return Obstacle(errno.ESRCH)
    other = next((route for route in _taken(standing, found) if not same(route, found)), None)
    if other is not None:
        return Obstacle(errno.ENOTUNIQ, f"Linux would delete {other} instead")
    return found


def same(one: Route, other: Route) -> bool:
    """Whether the two routes are equal in all fields of a request; state that the kernel adds is ignored."""
    return one == other or (one.prefix == other.prefix and _identity(one) == _identity(other))


def metric_of(route: Route) -> int:
    """The metric of the route in the kernel."""
    return route.metric or DEFAULT_METRIC[route.prefix.family]


def sources_of(route: Route) -> Prefix | None:
    """The sources of the route in the kernel: all sources are none."""
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
