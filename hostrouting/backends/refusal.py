"""From the kernel's errno for a route to the error that an operator reads: its class, and the cause.

Here: one sentence for each kind of error, from the given facts; the same text for every kernel. Not here: when a kernel
refuses, and where the facts come from.
"""

from __future__ import annotations

import errno
import os
from ipaddress import ip_interface
from typing import TYPE_CHECKING, Protocol

from hostrouting.backends.deletion import metric_of, same, sources_of
from hostrouting.errors import (
    BackendError,
    DeviceDown,
    GatewayNotOnLink,
    InvalidRoute,
    NoSuchDevice,
    NoSuchRoute,
    RouteExists,
    RouteRefused,
)
from hostrouting.model import IPV4, IPV6

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.backends.base import Change
    from hostrouting.model import IP, Address, NextHop, Route

__all__ = ["Facts", "refusal"]

_KINDS: dict[int, type[RouteRefused]] = {
    errno.EEXIST: RouteExists,
    errno.ESRCH: NoSuchRoute,
    errno.ENOENT: NoSuchRoute,
    errno.ENODEV: NoSuchDevice,
    errno.ENETDOWN: DeviceDown,
    errno.ENETUNREACH: GatewayNotOnLink,
    errno.EHOSTUNREACH: GatewayNotOnLink,
    errno.EINVAL: InvalidRoute,
    errno.ERANGE: InvalidRoute,
    errno.EOPNOTSUPP: InvalidRoute,
    errno.EAFNOSUPPORT: InvalidRoute,
}


class Facts(Protocol):
    """The facts that explain a refusal; read only if they are needed."""

    def routes_of_prefix(self, route: Route) -> Sequence[Route]:
        """The routes of the same table and prefix, in the kernel's order."""
        ...

    def addresses(self, family: int) -> Sequence[Address]:
        """The addresses of this host in this family."""
        ...


def refusal(change: Change, number: int, kernel: str = "", *, facts: Facts, problem: str = "") -> RouteRefused:
    """The error for a change that was refused with this errno; `kernel` is the kernel's own text, if it gave one.

    Without a known `problem`, the cause is looked for in the facts.
    """
    kind = _KINDS.get(number, RouteRefused)
    # If the problem is known, the kernel may not have been asked, so there is no text of its own.
    words = "" if problem else os.strerror(number)
    if not problem:
        try:
            problem = _problem(change, number, kind, facts)
        except BackendError:
            problem = ""  # if reading the facts fails, report the refusal without them
    said = f"cannot {change.verb} {change.route}"
    return kind(
        f"{said}: {problem}" if problem else said,
        route=str(change.route),
        errno=number,
        kernel=kernel or words,
    )


def _problem(change: Change, number: int, kind: type[RouteRefused], facts: Facts) -> str:
    route = change.route
    devs = " and ".join(route.devs)
    if number == errno.EPERM:
        return "this process may no longer change routing"
    if number == errno.EACCES:
        return _denied(route)
    if kind is RouteExists:
        return _holder(change, facts)
    if kind is NoSuchRoute:
        return "this route does not exist"
    if kind is NoSuchDevice:
        return f"device {devs} does not exist" if devs else "the route has no device"
    if kind is DeviceDown:
        return f"{devs or 'its device'} is down"
    if kind is GatewayNotOnLink:
        return _gateway(route, facts)
    return _misfit(route, facts) if kind is InvalidRoute else ""


def _holder(change: Change, facts: Facts) -> str:
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


def _gateway(route: Route, facts: Facts) -> str:
    hops = [leg for leg in route.legs if leg.gateway is not None]
    if not hops:
        return "the route has no gateway"
    # With several next hops, name the first whose gateway no address on its device explains; the kernel does not say.
    blamed = next((leg for leg in hops if not _explained(leg, facts)), hops[0])
    where = f" on {blamed.dev} ({_interfaces(blamed, facts) or 'no address'})" if blamed.dev else ""
    return f"gateway {blamed.gateway} is not on-link{where}"


def _denied(route: Route) -> str:
    """The cause of EACCES: IPv6 is disabled on the device of the next hop; in IPv4, a route or a rule prohibits it."""
    if IPV6 in {route.prefix.family, *(leg.gateway.version for leg in route.legs if leg.gateway is not None)}:
        return f"IPv6 is disabled on {' or '.join(route.devs) or 'its device'}"
    gateways = [f"{leg.gateway}{f' by {leg.dev}' if leg.dev else ''}" for leg in route.legs if leg.gateway is not None]
    return f"a rule or a route prohibits packets to gateway {' or '.join(gateways)}; see `ip rule` and `ip route`"


def _misfit(route: Route, facts: Facts) -> str:
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
