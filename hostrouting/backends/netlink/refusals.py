"""What the kernel refuses, in an operator's words: which thing is wrong, and what it was found to be.

The kernel's number says what kind of wrong it is; its own words come along. For the details a refusal is worth
another look at the host, of which one serves for all refusals of a batch.
"""

from __future__ import annotations

import errno
from ipaddress import ip_interface
from typing import TYPE_CHECKING

from hostrouting.backends.netlink.reading import list_addresses, list_names
from hostrouting.backends.netlink.standing import Standing, metric_of, same
from hostrouting.errors import (
    BackendError,
    DeviceDown,
    GatewayNotOnLink,
    InvalidRoute,
    NoSuchDevice,
    NoSuchRoute,
    NotPermitted,
    RouteExists,
    RouteRefused,
)
from hostrouting.model import IPV4

if TYPE_CHECKING:
    from hostrouting.backends.base import Change
    from hostrouting.backends.netlink.channel import Channel
    from hostrouting.backends.netlink.devices import NoDevice
    from hostrouting.backends.netlink.framing import KernelError
    from hostrouting.model import IP, Address, NextHop, Route

__all__ = ["Refusals", "not_permitted"]

_KINDS: dict[int, type[RouteRefused]] = {
    errno.EEXIST: RouteExists,
    errno.ESRCH: NoSuchRoute,
    errno.ENODEV: NoSuchDevice,
    errno.ENETDOWN: DeviceDown,
    errno.ENETUNREACH: GatewayNotOnLink,
    errno.EHOSTUNREACH: GatewayNotOnLink,
    errno.EINVAL: InvalidRoute,
    errno.ERANGE: InvalidRoute,
    errno.EOPNOTSUPP: InvalidRoute,
    errno.ENOENT: InvalidRoute,
    errno.EAFNOSUPPORT: InvalidRoute,
}


def not_permitted(error: KernelError) -> NotPermitted | None:
    """The error when it concerns this process and no particular route."""
    if error.number not in {errno.EPERM, errno.EACCES}:
        return None
    return NotPermitted(
        "this process may not change routing; it takes root, or the capability CAP_NET_ADMIN",
        errno=error.number,
        kernel=error.words,
    )


class Refusals:
    """Makes the error of each change that was refused."""

    def __init__(self, channel: Channel) -> None:
        """Look at nothing yet."""
        self._channel = channel
        self._standing = Standing(channel)
        self._addresses: dict[int, tuple[Address, ...]] = {}

    def of(self, change: Change, error: KernelError) -> RouteRefused:
        """The error of a change that the kernel refused."""
        kind = _KINDS.get(error.number, RouteRefused)
        try:
            problem = self._problem(change.route, kind)
        except BackendError:
            problem = ""  # a second look that fails takes nothing from the first
        said = f"cannot {change.verb} {change.route}"
        return kind(
            f"{said}: {problem}" if problem else said,
            route=str(change.route),
            errno=error.number,
            kernel=error.words,
        )

    def no_device(self, change: Change, missing: NoDevice) -> NoSuchDevice:
        """The error of a change that names a device which is not there."""
        return NoSuchDevice(
            f"cannot {change.verb} {change.route}: there is no device {missing.name}",
            route=str(change.route),
            errno=errno.ENODEV,
            kernel=missing.words,
        )

    def unanswered(self, change: Change) -> RouteRefused:
        """The error of a change whose answer was lost, and which is seen not to have been made."""
        return RouteRefused(
            f"cannot {change.verb} {change.route}: the kernel's answer was lost, and the change is not there",
            route=str(change.route),
            errno=errno.ENOBUFS,
        )

    def _problem(self, route: Route, kind: type[RouteRefused]) -> str:
        devs = " and ".join(route.devs)
        if kind is RouteExists:
            return self._holder(route)
        if kind is NoSuchRoute:
            return "there is no such route"
        if kind is NoSuchDevice:
            return f"{devs or 'its device'} is not there any more"
        if kind is DeviceDown:
            return f"{devs or 'its device'} is down"
        if kind is GatewayNotOnLink:
            return self._gateway(route)
        return self._misfit(route) if kind is InvalidRoute else ""

    def _holder(self, route: Route) -> str:
        place = (route.tos, metric_of(route))
        alike = [one for one in self._standing.of_prefix(route) if (one.tos, metric_of(one)) == place]
        if any(same(one, route) for one in alike):
            return "it is there already"
        return f"its place is held by {alike[0]}" if alike else "another route holds its place"

    def _gateway(self, route: Route) -> str:
        hops = [leg for leg in route.legs if leg.gateway is not None]
        if not hops:
            return "it leads nowhere"
        # Of several, the one that nothing on its device explains; the kernel does not say which.
        blamed = next((leg for leg in hops if not self._explained(leg)), hops[0])
        where = f" on {blamed.dev} ({self._interfaces(blamed) or 'which has no address'})" if blamed.dev else ""
        return f"gateway {blamed.gateway} is not on-link{where}"

    def _misfit(self, route: Route) -> str:
        """What is known to make a route invalid: a gateway or a source that cannot be one."""
        source = route.prefsrc
        if source is not None and all(source != address.ip for address in self._of_family(source.version)):
            return f"{source} is no address of this host's"
        for leg in route.legs:
            if any(leg.gateway in _ends(address) for address in self._on(leg)):
                return f"gateway {leg.gateway} is a broadcast address on {leg.dev} ({self._interfaces(leg)})"
        return ""

    def _on(self, leg: NextHop) -> list[Address]:
        family = leg.gateway.version if leg.gateway else IPV4
        return [address for address in self._of_family(family) if address.dev == leg.dev]

    def _of_family(self, family: int) -> tuple[Address, ...]:
        if family not in self._addresses:
            self._addresses[family] = list_addresses(self._channel, family, list_names(self._channel))
        return self._addresses[family]

    def _explained(self, leg: NextHop) -> bool:
        return any(
            leg.gateway in ip_interface(f"{address.peer or address.ip}/{address.length}").network
            for address in self._on(leg)
        )

    def _interfaces(self, leg: NextHop) -> str:
        return ", ".join(f"{address.ip}/{address.length}" for address in self._on(leg))


def _ends(address: Address) -> tuple[IP | None, ...]:
    network = ip_interface(f"{address.peer or address.ip}/{address.length}").network
    return (address.broadcast, network.broadcast_address) if network.version == IPV4 else ()
