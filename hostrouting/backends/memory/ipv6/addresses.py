"""IPv6 addresses: the routes that each adds, and what is deleted with it.

Here: addresses that are usable at once, as with `nodad`; link-local addresses and those of router advertisements are
not created. Not here: how routes are stored (`routes`).
"""

import errno

import attrs

from hostrouting.backends.memory.devices import Device, Holding
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.ipv6.routes import Routes
from hostrouting.model import (
    IPV6,
    PROTOCOL_KERNEL,
    SCOPE_HOST,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_LOCAL,
    Address,
    NextHop,
    Prefix,
    Route,
    as_ip,
)
from hostrouting.reserved import MULTICAST

__all__ = ["Addresses"]

_LOOPBACK = Address(ip=as_ip("::1"), length=128, dev="lo", scope=SCOPE_HOST)
_CONNECTED_METRIC = 256


class Addresses:
    """The IPv6 addresses of the host's devices."""

    def __init__(self, routes: Routes) -> None:
        """Add and delete routes in `routes`."""
        self._routes = routes
        # Devices that had a carrier since they were set up: only these have a multicast route.
        self._ready: set[str] = set()

    def add(self, device: Device, address: Address) -> None:
        """Add an address to the device, before those of its scope."""
        if device.link.ipv6_disabled:
            raise KernelError(errno.EACCES, "ipv6: IPv6 is disabled on this device")
        if any(held.ip == address.ip for held in device.ipv6):
            raise KernelError(errno.EEXIST, "ipv6: address already assigned")
        if address.ip.is_loopback and not device.loopback:
            raise KernelError(errno.EADDRNOTAVAIL, "ipv6: Cannot assign loopback address on this device")
        self._bring_multicast(device)
        held = Holding(attrs.evolve(address, scope=_scope(address)))
        place = sum(1 for it in device.ipv6 if _reach(it) > _reach(held))
        device.ipv6.insert(place, held)
        self._routes.bring(_local(device, held))
        self._bring_network(device, _network(held))
        # This route is added with the address only; setting the device up later does not add it.
        if held.address.peer is not None:
            self._bring_network(device, Prefix.of(held.address.peer))

    def delete(self, device: Device, address: Address) -> None:
        """Delete the address."""
        found = next((it for it in device.ipv6 if it.ip == address.ip and it.length == address.length), None)
        if found is None:
            raise KernelError(errno.EADDRNOTAVAIL, "ipv6: address not found")
        device.ipv6.remove(found)
        if not any(_network(it) == _network(found) for it in device.ipv6):
            self._routes.take_connected(_network(found), device.name)
        if found.address.peer is not None:
            self._routes.take_connected(Prefix.of(found.address.peer), device.name)
        self._gone(device, found)

    def device_up(self, device: Device) -> None:
        """Add the routes of a device and its addresses when it is set up."""
        for held in device.ipv6:
            self._bring_network(device, _network(held))
        if device.loopback and not any(held.ip == _LOOPBACK.ip for held in device.ipv6):
            device.ipv6.append(Holding(_LOOPBACK))
            self._routes.bring(_local(device, device.ipv6[-1]))
        self._get_ready(device)
        self._routes.device_up(device)

    def device_down(self, device: Device) -> None:
        """Delete every address and route: IPv6 keeps none on a device that is down."""
        self._routes.device_down(device)
        self._device_lost(device)
        self._routes.collect_expired()

    def device_leaves(self, device: Device) -> None:
        """Delete every address and route of a device that is being deleted."""
        self._routes.device_leaves(device)
        self._device_lost(device)

    def carrier(self, device: Device) -> None:
        """The carrier of a device was lost or came back."""
        if device.up:
            self._get_ready(device)
            self._routes.carrier(device)

    def _device_lost(self, device: Device) -> None:
        self._ready.discard(device.name)
        lost = list(device.ipv6)
        device.ipv6.clear()
        for held in lost:
            self._gone(device, held)

    def _get_ready(self, device: Device) -> None:
        if device.carrier and device.name not in self._ready:
            self._ready.add(device.name)
            self._bring_multicast(device)

    def _bring_multicast(self, device: Device) -> None:
        if device.up and not (device.loopback or device.link.ipv6_disabled):
            leg = NextHop(device.name, linkdown=not device.carrier)
            self._routes.bring(
                Route(
                    Prefix.of(MULTICAST[IPV6]),
                    (leg,),
                    table=TABLE_LOCAL,
                    type="multicast",
                    metric=_CONNECTED_METRIC,
                    protocol=PROTOCOL_KERNEL,
                )
            )

    def _bring_network(self, device: Device, network: Prefix) -> None:
        if device.up:
            leg = NextHop(device.name, linkdown=not device.carrier)
            self._routes.bring(Route(network, (leg,), metric=_CONNECTED_METRIC, protocol=PROTOCOL_KERNEL))

    def _gone(self, device: Device, held: Holding) -> None:
        self._routes.take(_local(device, held))
        self._routes.source_gone(held.ip)


def _local(device: Device, held: Holding) -> Route:
    leg = NextHop(device.name)
    return Route(Prefix.of(held.ip), (leg,), table=TABLE_LOCAL, type="local", protocol=PROTOCOL_KERNEL)


def _network(held: Holding) -> Prefix:
    """The network of the address itself, whatever its peer is."""
    return Prefix.around(IPV6, int(held.ip), held.length)


def _scope(address: Address) -> int:
    if address.ip.is_loopback:
        return SCOPE_HOST
    return SCOPE_LINK if address.ip.is_link_local else SCOPE_UNIVERSE


def _reach(held: Holding) -> int:
    return {SCOPE_UNIVERSE: 2, SCOPE_LINK: 1}.get(held.address.scope, 0)
