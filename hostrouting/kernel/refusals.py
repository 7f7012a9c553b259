"""Why a request for a route is refused, the same for every backend: what fits into a message, and what an errno means.

The kernel's own words follow the sentence.
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
    errno.EACCES: ("refused", "IPv6 is disabled on its device, or a rule or route prohibits its gateway"),
}

_BYTE, _WORD = 0xFF, 0xFFFFFFFF
_HIGHEST = dict.fromkeys(("tos", "scope", "protocol"), _BYTE)
_HIGHEST |= dict.fromkeys(("table", "metric", "mtu", "advmss"), _WORD)
_MOST_HOPS = 0xFFFF // 28  # the length of their attribute has two bytes, and one with an IPv6 gateway takes 28


def refusal(request: RouteRequest, number: int, words: str = "") -> BackendError:
    """The error for a request that was refused with this errno; `words` are the kernel's own, if it gave any."""
    kind, problem = _REFUSALS.get(number, ("refused", ""))
    message, kernel = f"cannot {request.verb} {request.route}", words or os.strerror(number)
    message = f"{message}: {problem}" if problem else message
    return BackendError(message, kind=kind, errno=number, kernel=kernel, route=str(request.route))


def misfit(route: Route) -> str:
    """Why the route cannot be requested; empty if it can."""
    read_only = (route.source, None if route.preference == "medium" else route.preference, route.expired)
    if any(value is not None for value in (*read_only, route.nexthop_id)):
        return "a route with sources, a preference, an end or a nexthop object is only read, and cannot be requested"
    for name, highest in _HIGHEST.items():
        value = getattr(route, name)
        if value is not None and not 0 <= value <= highest:
            return f"{name} {value} is not in 0..{highest}"
    if len(route.next_hops) > 1:
        if any(not 1 <= hop.weight <= _BYTE + 1 for hop in route.next_hops):
            return f"a weight is not in 1..{_BYTE + 1}"
        if len(route.next_hops) > _MOST_HOPS:
            return f"{len(route.next_hops)} next hops do not fit into one message"
    if route.prefsrc is not None and route.prefsrc.version != route.prefix.family:
        return f"the preferred source {route.prefsrc} and the route have different address families"
    is_via = route.prefix.family != IPV4 and any(hop.gateway and hop.gateway.version == IPV4 for hop in route.next_hops)
    return "an IPv6 route cannot have an IPv4 gateway" if is_via else ""
