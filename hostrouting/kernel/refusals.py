"""Why a request for a route is refused, the same for every backend.

Either the request does not fit into a message, or the kernel answers with an errno. The kernel's
own words follow the sentence.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError
from hostrouting.model.prefix import IPV4

if TYPE_CHECKING:
    from hostrouting.kernel.base import RouteRequest
    from hostrouting.model.route import Route

_REFUSALS: dict[int, tuple[str, str]] = {
    errno.EEXIST: ("exists", "another route has the same destination and metric"),
    errno.ESRCH: ("no-such-route", "this route does not exist"),
    errno.ENOENT: ("no-such-route", "this route does not exist"),
    errno.ENODEV: ("no-such-device", "its device does not exist"),
    errno.ENETDOWN: ("device-down", "its device is down"),
    errno.ENETUNREACH: ("gateway-not-on-link", "its gateway is not on-link"),
    errno.EHOSTUNREACH: ("gateway-not-on-link", "its gateway is not on-link"),
    errno.EINVAL: ("invalid", ""),
    errno.ERANGE: ("invalid", ""),
    errno.EOPNOTSUPP: ("invalid", ""),
    errno.EAFNOSUPPORT: ("invalid", ""),
    errno.EACCES: (
        "refused",
        "IPv6 is disabled on its device, or a rule or route prohibits its gateway",
    ),
}
"""By errno: the kind of the error, and what is wrong with the route."""

_BYTE = 0xFF
_WORD = 0xFFFFFFFF
_HIGHEST = {
    "tos": _BYTE,
    "scope": _BYTE,
    "protocol": _BYTE,
    "table": _WORD,
    "metric": _WORD,
    "mtu": _WORD,
    "advmss": _WORD,
}
_HIGHEST_WEIGHT = _BYTE + 1
# The length of their attribute has two bytes, and a next hop with an IPv6 gateway takes 28.
_MOST_HOPS = 0xFFFF // 28


def refusal(request: RouteRequest, number: int, words: str = "") -> BackendError:
    """The error for a request that was refused with this errno.

    `words` are the kernel's own, if it gave any.
    """
    kind, problem = _REFUSALS.get(number, ("refused", ""))
    message = f"cannot {request.verb} {request.route}"
    if problem:
        message += f": {problem}"
    return BackendError(
        message,
        kind=kind,
        errno=number,
        kernel=words or os.strerror(number),
        route=str(request.route),
    )


def _read_only_field(route: Route) -> str:
    is_as_listed = (
        route.source is not None
        or route.preference != "medium"
        or route.expired is not None
        or route.nexthop_id is not None
    )
    if not is_as_listed:
        return ""
    return (
        "a route with sources, a preference, an end or a nexthop object is only read, and cannot "
        "be requested"
    )


def _number_out_of_range(route: Route) -> str:
    for name, highest in _HIGHEST.items():
        value = getattr(route, name)
        if value is not None and not 0 <= value <= highest:
            return f"{name} {value} is not in 0..{highest}"
    return ""


def _too_much_for_next_hops(route: Route) -> str:
    if len(route.next_hops) < 2:
        return ""
    for hop in route.next_hops:
        if not 1 <= hop.weight <= _HIGHEST_WEIGHT:
            return f"a weight is not in 1..{_HIGHEST_WEIGHT}"
    if len(route.next_hops) > _MOST_HOPS:
        return f"{len(route.next_hops)} next hops do not fit into one message"
    return ""


def _mixed_families(route: Route) -> str:
    family = route.prefix.family
    if route.prefsrc is not None and route.prefsrc.version != family:
        return f"the preferred source {route.prefsrc} and the route have different address families"
    if family == IPV4:
        return ""  # its gateway may be an IPv6 address
    for hop in route.next_hops:
        if hop.gateway is not None and hop.gateway.version == IPV4:
            return "an IPv6 route cannot have an IPv4 gateway"
    return ""


_RULES = (_read_only_field, _number_out_of_range, _too_much_for_next_hops, _mixed_families)


def misfit(route: Route) -> str:
    """Why the route cannot be requested; empty if it can."""
    for problem_of in _RULES:
        problem = problem_of(route)
        if problem:
            return problem
    return ""
