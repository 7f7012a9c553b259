"""The fake kernel's whole world: devices, addresses, rules and routes of both families, and what one does to another.

Here: each thing that may happen to a host, with everything that follows from it. Not here: how a program asks for
it (`backend`), and how it is made to fail (`faults`).
"""

import errno
from collections.abc import Iterator

import attrs

from hostrouting.backends.base import Change
from hostrouting.backends.bounds import misfit
from hostrouting.backends.deletion import Obstacle, find_exactly
from hostrouting.backends.memory.devices import Device, Devices
from hostrouting.backends.memory.ipv4_addresses import Addresses4
from hostrouting.backends.memory.ipv4_routes import Routes4
from hostrouting.backends.memory.ipv6_addresses import Addresses6
from hostrouting.backends.memory.ipv6_routes import Routes6
from hostrouting.backends.memory.refused import Refused
from hostrouting.backends.memory.rules import Rules
from hostrouting.model import IPV4, IPV6, Address, Link, Route, Rule, Snapshot

__all__ = ["Kernel"]


class Kernel:
    """A network namespace."""

    def __init__(self, *, promote_secondaries: bool) -> None:
        """Start as a new one does: lo, which is down, and the default rules."""
        self.devices = Devices()
        self.rules = {family: Rules(family) for family in (IPV4, IPV6)}
        self.routes4 = Routes4(self.devices, self.rules[IPV4])
        self.routes6 = Routes6(self.devices, self.rules[IPV6])
        self.addresses4 = Addresses4(self.routes4, promote=promote_secondaries)
        self.addresses6 = Addresses6(self.routes6)

    def change(self, change: Change) -> None:
        """Carry out one change of a route, as Linux understands it."""
        route = change.route
        if problem := misfit(route):
            raise Refused(errno.ERANGE, problem=problem)
        for leg in route.legs:
            if leg.dev is not None:
                self.devices.get(leg.dev)
        if len(route.legs) == 1 and route.legs[0].weight != 1:
            # There is no place for the weight of an only leg in what the kernel is told.
            route = attrs.evolve(route, legs=(attrs.evolve(route.legs[0], weight=1),))
        (self.routes4 if route.prefix.family == IPV4 else self.routes6).change(change.verb, route)

    def delete_exactly(self, route: Route) -> None:
        """Delete this very route, or none."""
        found = find_exactly(route, self.at(route))
        if isinstance(found, Obstacle):
            raise Refused(found.number, problem=found.words)
        self.change(Change("delete", found))

    def at(self, route: Route) -> list[Route]:
        """The routes of the same table and prefix."""
        routes = self.routes4 if route.prefix.family == IPV4 else self.routes6
        return routes.at(route.table, route.prefix)

    def add_link(self, link: Link) -> None:
        """A device appears."""
        device = self.devices.add(link)
        if link.up:
            self.set_up(device.name)

    def delete_link(self, name: str) -> None:
        """A device goes, with everything that leads through it; what is left of rules for it matches nothing."""
        device = self.devices.get(name)
        if device.loopback:
            raise Refused(errno.EOPNOTSUPP)
        self.set_down(name)
        device.leaving = True
        self.addresses4.device_leaves(device)
        self.routes4.device_down(device, unregister=True, force=True)
        self.addresses6.device_down(device, unregister=True)
        self.devices.remove(name)

    def set_up(self, name: str) -> None:
        """A device is set up."""
        device = self.devices.get(name)
        if device.up:
            return
        device.link = attrs.evolve(device.link, up=True)
        self.addresses4.device_up(device)
        self.routes4.device_up(device)
        self.addresses6.device_up(device)

    def set_down(self, name: str) -> None:
        """A device is set down: most of its routes are lost."""
        device = self.devices.get(name)
        if not device.up:
            return
        device.link = attrs.evolve(device.link, up=False)
        self.routes4.device_down(device)
        self.addresses6.device_down(device)

    def set_carrier(self, name: str, *, carrier: bool) -> None:
        """A cable is pulled, or put back."""
        device = self.devices.get(name)
        if device.plugged is carrier or device.loopback:
            return
        device.plugged = carrier
        self.routes4.carrier(device)
        self.addresses6.carrier(device)

    def add_address(self, address: Address) -> None:
        """A device gets an address."""
        device = self._holder(address, "ipv6: Unable to find the interface")
        (self.addresses4 if address.ip.version == IPV4 else self.addresses6).add(device, address)

    def delete_address(self, address: Address) -> None:
        """A device loses an address."""
        device = self._holder(address, "ipv6: Unable to find the interface")
        (self.addresses4 if address.ip.version == IPV4 else self.addresses6).delete(device, address)

    def add_rule(self, rule: Rule) -> None:
        """A rule comes; in IPv6 it brings the table that it leads to."""
        self.rules[rule.family].add(rule)
        if rule.family == IPV6 and rule.action == "to_table" and not rule.l3mdev:
            self.routes6.tables.create(rule.table)

    def delete_rule(self, rule: Rule) -> None:
        """A rule goes."""
        self.rules[rule.family].delete(rule)

    def snapshot(self) -> Snapshot:
        """All of it."""
        by_index = sorted(self.devices, key=lambda device: device.link.index)
        held = [it for device in by_index for it in device.ipv4] + [it for device in by_index for it in device.ipv6]
        return Snapshot(
            links=tuple(device.shown() for device in by_index),
            addresses=tuple(it.address for it in held),
            rules=(*self.rules[IPV4], *self.rules[IPV6]),
            routes=tuple(self._shown()),
        )

    def _holder(self, address: Address, said: str) -> Device:
        device = self.devices.find(address.dev)
        if device is None:
            raise Refused(errno.ENODEV, "ipv4: Device not found" if address.ip.version == IPV4 else said)
        return device

    def _shown(self) -> Iterator[Route]:
        for standing in self.routes4.tables.listed():
            yield self._as_shown(standing.route)
        yield from map(self._as_shown, self.routes6.listed())

    def _as_shown(self, route: Route) -> Route:
        # A leg without carrier is called dead where it is passed over.
        if not any(leg.linkdown for leg in route.legs):
            return route
        legs = tuple(
            attrs.evolve(leg, dead=leg.dead or (leg.linkdown and self.devices.ignores_linkdown(leg.dev)))
            for leg in route.legs
        )
        return attrs.evolve(route, legs=legs)
