"""A network namespace in memory: devices, addresses, rules and routes of both families, and how they affect each other.

Here: each thing that can happen to a host, with all its consequences. Not here: the interface for programs (`backend`),
and faults (`faults`).
"""

import errno

import attrs

from hostrouting.backends.base import Change
from hostrouting.backends.bounds import misfit
from hostrouting.backends.deletion import Obstacle, find_exactly
from hostrouting.backends.memory.clock import KernelClock
from hostrouting.backends.memory.devices import Device, Devices
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.ipv4 import Addresses as Addresses4
from hostrouting.backends.memory.ipv4 import Routes as Routes4
from hostrouting.backends.memory.ipv6 import Addresses as Addresses6
from hostrouting.backends.memory.ipv6 import Routes as Routes6
from hostrouting.backends.memory.rules import Rules
from hostrouting.model import IPV4, IPV6, Address, Link, NextHop, Route, Rule, Snapshot

__all__ = ["Namespace"]


class Namespace:
    """A network namespace."""

    def __init__(self, *, promote_secondaries: bool, ipv6_forwarding: bool) -> None:
        """Start like a new one: with lo, which is down, and the default rules."""
        self.clock = KernelClock()
        self.devices = Devices()
        self.ipv6_forwarding = ipv6_forwarding
        self.rules = {family: Rules(family) for family in (IPV4, IPV6)}
        routes4 = Routes4(self.devices, self.rules[IPV4])
        routes6 = self._aging = Routes6(self.devices, self.rules[IPV6], self.clock)
        self._routes: dict[int, Routes4 | Routes6] = {IPV4: routes4, IPV6: routes6}
        self._addresses: dict[int, Addresses4 | Addresses6] = {
            IPV4: Addresses4(routes4, promote=promote_secondaries),
            IPV6: Addresses6(routes6),
        }

    def change(self, change: Change) -> None:
        """Carry out one change of a route, as Linux does."""
        route = change.route
        if problem := misfit(route):
            raise KernelError(errno.ERANGE, problem=problem)
        for leg in route.legs:
            if leg.dev is not None:
                self.devices.get(leg.dev)
        if len(route.legs) == 1 and route.legs[0].weight != 1:
            # A kernel message has no field for the weight of a single next hop.
            route = attrs.evolve(route, legs=(attrs.evolve(route.legs[0], weight=1),))
        self._routes[route.prefix.family].change(change.verb, route)

    def delete_exactly(self, route: Route) -> None:
        """Delete exactly this route, or none."""
        found = find_exactly(route, self.at(route))
        if isinstance(found, Obstacle):
            raise KernelError(found.number, problem=found.words)
        self.change(Change("delete", found))

    def at(self, route: Route) -> list[Route]:
        """The routes of the same table and prefix."""
        return self._routes[route.prefix.family].at(route.table, route.prefix)

    def add_link(self, link: Link) -> None:
        """Add a device."""
        device = self.devices.add(link)
        if link.up:
            self.set_up(device.name)

    def delete_link(self, name: str) -> None:
        """Delete a device, with all routes through it; rules for it stay, and match nothing."""
        device = self.devices.get(name)
        if device.loopback:
            raise KernelError(errno.EOPNOTSUPP)
        self.set_down(name)
        device.leaving = True
        for addresses in self._addresses.values():
            addresses.device_leaves(device)
        self.devices.remove(name)

    def set_up(self, name: str) -> None:
        """Set a device up."""
        device = self.devices.get(name)
        if device.up:
            return
        device.link = attrs.evolve(device.link, up=True)
        for addresses in self._addresses.values():
            addresses.device_up(device)

    def set_down(self, name: str) -> None:
        """Set a device down: most of its routes are flushed."""
        device = self.devices.get(name)
        if not device.up:
            return
        device.link = attrs.evolve(device.link, up=False)
        for addresses in self._addresses.values():
            addresses.device_down(device)

    def set_carrier(self, name: str, *, carrier: bool) -> None:
        """Change whether a device has a carrier."""
        device = self.devices.get(name)
        if device.plugged is carrier or device.loopback:
            return
        device.plugged = carrier
        for addresses in self._addresses.values():
            addresses.carrier(device)

    def add_address(self, address: Address) -> None:
        """Add an address to a device. 0.0.0.0 has no effect, and Linux does not even look for the device."""
        if address.ip.version == IPV4 and not int(address.ip):
            return
        self._addresses[address.ip.version].add(self._holder(address), address)

    def delete_address(self, address: Address) -> None:
        """Delete an address from a device."""
        self._addresses[address.ip.version].delete(self._holder(address), address)

    def add_rule(self, rule: Rule) -> None:
        """Add a rule."""
        self.rules[rule.family].add(rule)
        self._routes[rule.family].rule_came(rule)

    def delete_rule(self, rule: Rule) -> None:
        """Delete a rule."""
        self.rules[rule.family].delete(rule)

    @property
    def moment(self) -> float | None:
        """The time, if it matters to a snapshot."""
        return self._aging.moment

    def elapse(self) -> bool:
        """Let what became due happen: routes that expired are deleted at times. Whether there were any."""
        return self._aging.elapse()

    def collect_expired(self) -> None:
        """Delete the routes that have expired."""
        self._aging.collect_expired()

    def for_lookups(self, snapshot: Snapshot) -> Snapshot:
        """The same state as lookups see it: each next hop of an IPv6 route separately, and every gateway reachable."""
        in_force = tuple(rule for family in (IPV4, IPV6) for rule in self.rules[family].in_force())
        seen = attrs.evolve(snapshot, rules=in_force, ipv6_forwarding=True)
        if not any(len(shape.legs) > 1 and shape.prefix.family == IPV6 for shape in snapshot.routes.shapes):
            return seen  # the same routes; to store 10,000 of them again takes 0.1 s
        routes = (*snapshot.routes.only(family=IPV4), *map(self._shown, self._aging.apart()))
        return attrs.evolve(seen, routes=routes)

    def whole(self, found: Route) -> Route:
        """The listed route, with all of its next hops, that a lookup found by one of them."""
        ways = set(map(_way, found.legs))
        for route in self.at(found):
            same = (route.source, route.metric) == (found.source, found.metric)
            if same and len(route.legs) > 1 and not ways.isdisjoint(map(_way, route.legs)):
                return self._shown(route)
        return found

    def snapshot(self) -> Snapshot:
        """The whole state."""
        by_index = sorted(self.devices, key=lambda device: device.link.index)
        held = [it for device in by_index for it in device.ipv4] + [it for device in by_index for it in device.ipv6]
        return Snapshot(
            links=tuple(device.shown() for device in by_index),
            addresses=tuple(it.address for it in held),
            rules=(*self.rules[IPV4], *self.rules[IPV6]),
            routes=tuple(self._shown(route) for routes in self._routes.values() for route in routes.listed()),
            ipv6_forwarding=self.ipv6_forwarding,
        )

    def _holder(self, address: Address) -> Device:
        device = self.devices.find(address.dev)
        if device is None:
            words = {IPV4: "ipv4: Device not found", IPV6: "ipv6: Unable to find the interface"}
            raise KernelError(errno.ENODEV, words[address.ip.version])
        return device

    def _shown(self, route: Route) -> Route:
        """The route as a dump shows it: a next hop without carrier is shown as dead if it is skipped."""
        if not any(leg.linkdown for leg in route.legs):
            return route
        family = route.prefix.family
        legs = tuple(
            attrs.evolve(leg, dead=leg.dead or (leg.linkdown and self.devices.ignores_linkdown(leg.dev, family)))
            for leg in route.legs
        )
        return attrs.evolve(route, legs=legs)


def _way(leg: NextHop) -> tuple[object, object]:
    return leg.dev, leg.gateway
