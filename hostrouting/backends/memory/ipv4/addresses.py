"""IPv4 addresses: the routes that each adds, and what is deleted with it.

Here: primary and secondary addresses and their connected, local and broadcast routes. Not here: how routes are stored
(`routes`).
"""

import errno
from contextlib import suppress

import attrs

from hostrouting.backends.memory.devices import Device, Holding
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.ipv4.routes import Routes
from hostrouting.model import (
    IP,
    IPV4,
    PROTOCOL_KERNEL,
    SCOPE_HOST,
    SCOPE_LINK,
    TABLE_LOCAL,
    TABLE_MAIN,
    Address,
    NextHop,
    Prefix,
    Route,
    RouteType,
    as_ip,
    ip_at,
)

__all__ = ["Addresses"]

_LOOPBACK = Address(ip=as_ip("127.0.0.1"), length=8, dev="lo", scope=SCOPE_HOST)


class Addresses:
    """The IPv4 addresses of the host's devices."""

    def __init__(self, routes: Routes, *, promote: bool) -> None:
        """Add and delete routes in `routes`; `promote` keeps secondary addresses when their primary one is deleted."""
        self._routes, self._promote = routes, promote

    def add(self, device: Device, address: Address) -> None:
        """Add an address to the device: after those of its kind."""
        new, place = Holding(address), 0
        if any(held.ip == new.ip and _together(held, new) for held in device.ipv4):
            raise KernelError(errno.EEXIST, "ipv4: Address already assigned")
        for position, held in enumerate(device.ipv4):
            if not held.secondary and address.scope <= held.address.scope:
                place = position + 1
            if _together(held, new):
                if held.address.scope != address.scope:
                    raise KernelError(errno.EINVAL, "ipv4: Invalid scope value")
                new.secondary = True
        device.ipv4.insert(len(device.ipv4) if new.secondary else place, new)
        self._bring(device, new)
        self._routes.device_up(device)

    def delete(self, device: Device, address: Address) -> None:
        """Delete the address, and with the last one every IPv4 route of the device."""
        held = next((it for it in device.ipv4 if it.ip == address.ip and _together(it, Holding(address))), None)
        if held is None:
            raise KernelError(errno.EADDRNOTAVAIL, "ipv4: Address not found")
        self._remove(device, held)

    def device_up(self, device: Device) -> None:
        """Add the routes of the device's addresses when it is set up."""
        if device.loopback:
            with suppress(KernelError):  # it has 127.0.0.1 already, or one of its network without scope host
                self.add(device, _LOOPBACK)
        for held in list(device.ipv4):
            self._bring(device, held)
        self._routes.device_up(device)

    def device_down(self, device: Device) -> None:
        """The addresses stay, and most of their routes are deleted."""
        self._routes.device_down(device)

    def device_leaves(self, device: Device) -> None:
        """Delete every address and route of a device that is being deleted."""
        while device.ipv4:
            self._remove(device, device.ipv4[0])
        self._routes.device_leaves(device)

    def carrier(self, device: Device) -> None:
        """The carrier of a device was lost or came back."""
        self._routes.carrier(device)

    def _remove(self, device: Device, gone: Holding) -> None:
        heirs: list[Holding] = []
        if not gone.secondary and not device.leaving:
            later = device.ipv4[device.ipv4.index(gone) + 1 :]
            seconds = [it for it in later if it.secondary and _together(it, gone)]
            if self._promote:
                heirs = seconds
            else:
                for second in seconds:
                    self._unlink(device, second)
        # Their preferred source changes: their routes are deleted here, and added again below.
        for heir in heirs:
            self._take(device, heir, under=gone)
        place = device.ipv4.index(gone)
        self._unlink(device, gone)
        if heirs:
            self._succeed(device, gone, heirs, place)

    def _succeed(self, device: Device, gone: Holding, heirs: list[Holding], place: int) -> None:
        """The first secondary address takes the place of the primary one, as close to it as scopes allow."""
        first, *others = heirs
        between = device.ipv4[place : device.ipv4.index(first)]
        for offset, held in enumerate(between, start=1):
            if not held.secondary and gone.address.scope <= held.address.scope:
                place = device.ipv4.index(between[0]) + offset
        device.ipv4.remove(first)
        device.ipv4.insert(place, first)
        first.secondary = False
        self._bring(device, first)
        self._routes.device_up(device)
        for heir in others:
            self._bring(device, heir)

    def _unlink(self, device: Device, gone: Holding) -> None:
        device.ipv4.remove(gone)
        self._take(device, gone)
        if not device.ipv4:
            self._routes.last_address_gone(device)

    def _bring(self, device: Device, held: Holding) -> None:
        """Add the routes of an address: local always, the others while the device is up."""
        primary = _primary(device, held) if held.secondary else held
        if primary is None:
            return
        source, network = primary.ip, held.network
        self._routes.bring(_route("local", Prefix.of(held.ip), device, source))
        if not device.up:
            return
        broadcast = held.address.broadcast
        if broadcast is not None and int(broadcast) not in {0, 0xFFFFFFFF}:
            self._routes.bring(_route("broadcast", Prefix.of(broadcast), device, source))
        if held.secondary or not network.network or (held.length == 32 and network.ip == held.ip):
            return
        if held.address.prefix_route:
            connected = _route("local" if device.loopback else "unicast", network, device, source)
            self._routes.bring(attrs.evolve(connected, metric=held.address.metric))
        if held.length < 31:
            self._routes.bring(_route("broadcast", Prefix.of(ip_at(IPV4, network.last)), device, source))

    def _take(self, device: Device, gone: Holding, *, under: Holding | None = None) -> None:
        """Delete the routes of an address, except those that another address also needs.

        With `under`, the address itself stays: it only gets a different primary address.
        """
        primary, network, connected = gone, gone.network, False
        if gone.secondary:
            found = _primary(device, gone)
            if found is None:
                return
            primary = found
        elif network.network and not (gone.length == 32 and network.ip == gone.ip):
            kind: RouteType = "local" if device.loopback else "unicast"
            # With any metric: in a delete request, Linux treats metric 0 as any.
            if gone.address.prefix_route:
                self._routes.take(_route(kind, network, device, primary.ip))
            connected = True
        others = _sharing(device, gone, primary, under)
        local, broadcasts = _still_needed(others)
        source = primary.ip
        ends = [gone.address.broadcast] if gone.address.broadcast else []
        if connected and gone.length < 31:
            ends += [ip_at(IPV4, network.last), ip_at(IPV4, network.first)]
        for end in ends:
            if end not in broadcasts:
                self._routes.take(_route("broadcast", Prefix.of(end), device, source))
        if gone.ip in local:
            return
        self._routes.take(_route("local", Prefix.of(gone.ip), device, source))
        if gone not in device.ipv4 and self._routes.checks.type_of(int(gone.ip), TABLE_LOCAL) != "local":
            self._routes.source_gone(gone.ip)


def _together(one: Holding, other: Holding) -> bool:
    return one.network == other.network


def _primary(device: Device, held: Holding) -> Holding | None:
    """The first address of the same network, which is the preferred source of its routes."""
    return next((it for it in device.ipv4 if _together(it, held)), None)


def _sharing(device: Device, gone: Holding, primary: Holding, under: Holding | None) -> list[tuple[Holding, bool]]:
    """The other addresses whose routes have the same preferred source, and whether each is a primary one."""
    found: list[tuple[Holding, bool]] = []
    shared: Holding | None = None
    same_source = False
    for held in device.ipv4:
        if held is gone or (under is not None and _together(held, under)):
            continue
        if held.secondary:
            if _together(held, primary):
                shared = primary
            else:
                if not same_source:
                    continue
                if shared is None or not _together(held, shared):
                    shared = _primary(device, held)
                if shared is None or shared.ip != primary.ip:
                    continue
        else:
            if held.ip != primary.ip:
                continue
            shared = held
            same_source = same_source or held is not primary
        found.append((held, shared is held))
    return found


def _still_needed(others: list[tuple[Holding, bool]]) -> tuple[set[IP], set[IP | None]]:
    """The addresses and broadcast addresses that other addresses also need."""
    local = {held.ip for held, _ in others}
    broadcasts: set[IP | None] = {held.address.broadcast for held, _ in others if held.address.broadcast}
    for held, is_primary in others:
        if is_primary and held.length < 31 and held.network.network:
            broadcasts |= {ip_at(IPV4, held.network.last), ip_at(IPV4, held.network.first)}
    return local, broadcasts


def _route(kind: RouteType, prefix: Prefix, device: Device, source: IP) -> Route:
    return Route(
        prefix,
        (NextHop(device.name),),
        table=TABLE_MAIN if kind == "unicast" else TABLE_LOCAL,
        type=kind,
        scope=SCOPE_HOST if kind == "local" else SCOPE_LINK,
        protocol=PROTOCOL_KERNEL,
        prefsrc=source,
    )
