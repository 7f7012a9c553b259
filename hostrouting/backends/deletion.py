"""The promise of `delete`: this very route, or none. The same for every kernel, real or fake.

To Linux, what a request to delete does not say, or says with a zero, matches anything: to delete a route of metric 0
can take away one of metric 100, and one without a gateway another that has one. So the very route is looked for first
among those that stand; it is asked for as it was read back; and where Linux would take another one, nobody asks.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.model import DEFAULT_METRIC, IPV4, PATHLESS, NextHop, Route

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Obstacle", "find_exactly", "is_meant", "leg_is_meant", "metric_of", "same"]

_PROTOCOL_BOOT = 3
# In a request to delete it stands for any scope.
_SCOPE_NOWHERE = 255
# To IPv6 a route that leads nowhere leads to this device.
_LOOPBACK = "lo"


class Obstacle(NamedTuple):
    """Why a route is not deleted: the errno, and in words what is in the way."""

    number: int
    words: str = ""


def find_exactly(wanted: Route, standing: Sequence[Route]) -> Route | Obstacle:
    """The wanted route among those of its table and prefix, in the kernel's order, if it can be deleted alone."""
    found = next((route for route in standing if same(route, wanted)), None)
    if found is None:
        return Obstacle(errno.ESRCH)
    other = next((route for route in _taken(standing, found) if not same(route, found)), None)
    if other is not None:
        return Obstacle(errno.ENOTUNIQ, f"{other} would be taken away instead")
    return found


def same(one: Route, other: Route) -> bool:
    """Whether the two are the same route in all that one can ask for; the kernel's own remarks do not count."""
    return one == other or (one.prefix == other.prefix and _identity(one) == _identity(other))


def metric_of(route: Route) -> int:
    """Its metric, as the kernel has it."""
    return route.metric or DEFAULT_METRIC[route.prefix.family]


def is_meant(standing: Route, wanted: Route) -> bool:
    """Whether Linux takes an IPv4 route for the one to delete: what is wanted without saying it does not matter."""
    return (
        standing.tos == wanted.tos
        and wanted.type in {"unspec", standing.type}
        and wanted.scope in {_SCOPE_NOWHERE, standing.scope}
        and wanted.metric in {0, standing.metric}
        and wanted.protocol in {0, standing.protocol}
        and wanted.prefsrc in {None, standing.prefsrc}
        # Said with a zero these do not match anything, but only none.
        and wanted.mtu in {None, standing.mtu or 0}
        and wanted.advmss in {None, standing.advmss or 0}
        and _ways_are_meant(standing, wanted)
    )


def leg_is_meant(standing: Route, leg: NextHop, wanted: Route, wanted_leg: NextHop) -> bool:
    """Whether Linux takes this leg of an IPv6 route for the one to delete."""
    return (
        wanted.metric in {0, standing.metric}
        and wanted.protocol in {0, standing.protocol}
        and wanted_leg.dev in {None, leg.dev}
        # The gateway of zeros is that of a leg without any.
        and (wanted_leg.gateway is None or int(wanted_leg.gateway) == int(leg.gateway or 0))
    )


def _taken(standing: Sequence[Route], wanted: Route) -> Iterator[Route]:
    """What Linux takes away; in IPv6 each leg for itself."""
    if wanted.prefix.family == IPV4:
        yield from [route for route in standing if is_meant(route, wanted)][:1]
        return
    legs = [(route, leg) for route in standing for leg in route.legs or (NextHop(_LOOPBACK),)]
    for wanted_leg in wanted.legs or (NextHop(),):
        yield from [route for route, leg in legs if leg_is_meant(route, leg, wanted, wanted_leg)][:1]


def _ways_are_meant(standing: Route, wanted: Route) -> bool:
    if wanted.nexthop_id is not None:
        return standing.nexthop_id == wanted.nexthop_id
    if standing.nexthop_id is not None:
        return not any(leg.dev or leg.gateway for leg in wanted.legs)
    # Of several wanted legs those that a standing route does not have are not looked at.
    if len(wanted.legs) > 1 and len(standing.legs) > len(wanted.legs):
        return False
    if wanted.legs and not standing.legs:
        return not any(leg.dev or leg.gateway for leg in wanted.legs)
    return all(
        hop.dev in {None, leg.dev} and hop.gateway in {None, leg.gateway}
        for hop, leg in zip(wanted.legs, standing.legs, strict=False)
    )


def _identity(route: Route) -> tuple[object, ...]:
    """All that one can ask for, as Linux keeps it; IPv6 knows neither scopes nor tos."""
    ipv4 = route.prefix.family == IPV4
    several = len(route.legs) > 1
    # The weight of an only way is of no consequence, and a gateway of zeros is none.
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
        ways if route.nexthop_id is None and route.type not in PATHLESS else (),
    )
