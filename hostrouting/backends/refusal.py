"""From the kernel's errno for a route to the error that an operator reads: which kind, and what is wrong with what.

Here: one sentence for each kind. Not here: when a kernel refuses, and what to do about it.
"""

import errno
import os
from collections.abc import Iterable

from hostrouting.backends.base import Change
from hostrouting.errors import (
    DeviceDown,
    GatewayNotOnLink,
    InvalidRoute,
    NoSuchDevice,
    NoSuchRoute,
    RouteExists,
    RouteRefused,
)
from hostrouting.model import Address

__all__ = ["refusal"]

_KINDS: dict[int, type[RouteRefused]] = {
    errno.EEXIST: RouteExists,
    errno.ESRCH: NoSuchRoute,
    errno.ENOENT: NoSuchRoute,
    errno.ENODEV: NoSuchDevice,
    errno.ENETDOWN: DeviceDown,
    errno.ENETUNREACH: GatewayNotOnLink,
    errno.EHOSTUNREACH: GatewayNotOnLink,
}


def refusal(change: Change, number: int, kernel: str = "", *, addresses: Iterable[Address] = ()) -> RouteRefused:
    """The error for a change that was refused with this errno; `kernel` is the kernel's own text, if it gave one.

    `addresses` are the host's, so that a gateway can be told together with what the device is on.
    """
    route = change.route
    dev = next(iter(route.devs), "no device")
    kind = _KINDS.get(number, InvalidRoute)
    if number == errno.ENOTUNIQ:
        # No kernel says so: it is found out before one is asked to delete.
        return RouteRefused(f"{route}: cannot be deleted: {kernel}", route=str(route))
    if kind is RouteExists and change.verb == "replace":
        said = f"{route}: exactly this route already stands behind another one of its key"
    elif kind is RouteExists:
        said = f"{route}: another route holds this destination and metric"
    elif kind is NoSuchRoute:
        said = f"{route}: there is no such route"
    elif kind is NoSuchDevice:
        said = f"{route}: there is no device {dev}" if route.devs else f"{route}: it names no device"
    elif kind is DeviceDown:
        said = f"{route}: the device {dev} is down"
    elif kind is GatewayNotOnLink:
        said = f"{route}: {_gateways(change, addresses)}"
    else:
        said = f"{route}: the kernel takes no such route"
    return kind(said, route=str(route), errno=number, kernel=kernel or os.strerror(number))


def _gateways(change: Change, addresses: Iterable[Address]) -> str:
    """Which gateway is not on-link on which device, and what that device is on."""
    held = list(addresses)
    said = []
    for leg in change.route.legs:
        if leg.gateway is not None:
            family = leg.gateway.version
            own = [f"{it.ip}/{it.length}" for it in held if it.dev == leg.dev and it.ip.version == family]
            where = f"{leg.dev} ({', '.join(own) if own else f'no IPv{family} address'})"
            said.append(f"gateway {leg.gateway} is not on-link on {where}")
    return "; ".join(said) or "its way cannot be reached"
