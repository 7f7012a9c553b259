"""IPv6 routes as Linux stores them: each next hop of an ECMP route is an entry of its own, linked to its siblings.

Here: where a route is inserted, which ones are deleted, and the effect of device changes. Not here: whether a route is
accepted (`checks`), and the routes of addresses (`addresses`).
"""

import errno
from collections.abc import Iterable, Iterator

import attrs

from hostrouting.backends.base import Verb
from hostrouting.backends.deletion import leg_is_meant
from hostrouting.backends.memory.devices import LOOPBACK, Device, Devices
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.ipv6.checks import Checks
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Installed, Tables, bare
from hostrouting.model import IP, IPV6, PROTOCOL_KERNEL, TABLE_LOCAL, TABLE_MAIN, NextHop, Prefix, Route, Rule

__all__ = ["Routes"]


@attrs.define(eq=False)
class _InstalledLeg(Installed):
    """One next hop of a route, and all next hops of that route in order."""

    kin: list["_InstalledLeg"] = attrs.Factory(list)

    @property
    def leg(self) -> NextHop:
        """The next hop; a route without one is stored on lo."""
        return self.route.legs[0] if self.route.legs else NextHop(LOOPBACK)

    @property
    def groups(self) -> bool:
        """Whether it can become part of an ECMP route."""
        return self.leg.gateway is not None


class Routes:
    """The IPv6 routes of the host."""

    def __init__(self, devices: Devices, rules: Rules) -> None:
        """Start with the tables main and local, both empty."""
        self._tables: Tables[_InstalledLeg] = Tables(IPV6)
        self._tables.create(TABLE_MAIN)
        self._tables.create(TABLE_LOCAL)
        self._checks = Checks(self._tables, rules, devices)

    def change(self, verb: Verb, route: Route) -> None:
        """Carry out one change; KernelError if Linux would refuse it."""
        # In IPv6, routes have no scope, and tos selects nothing.
        route = attrs.evolve(bare(route), scope=0, tos=0)
        if verb == "delete":
            self._delete(route)
            return
        route = self._checks.taken(route)
        self._tables.create(route.table)
        legs = [self._checks.leg(leg, route) for leg in route.legs]
        if len({(leg.dev, leg.gateway) for leg in legs}) < len(legs):
            raise KernelError(errno.EEXIST)
        placed: list[_InstalledLeg] = []
        each: list[tuple[NextHop, ...]] = [(leg,) for leg in legs]
        for single in each or [()]:
            new = _InstalledLeg(attrs.evolve(route, legs=single))
            try:
                self._insert("append" if placed else verb, new)
            except KernelError:
                # The next hops before it are removed again.
                for installed in placed:
                    self._remove(installed)
                raise
            placed.append(new)

    def at(self, table: int, prefix: Prefix) -> list[Route]:
        """The routes of exactly this prefix, each with all of its next hops."""
        return list(_together(self._tables.at(table, prefix)))

    def bring(self, route: Route) -> None:
        """Add a route of an address or a device, after the existing ones, unless an identical one exists."""
        try:
            self._insert("append", _InstalledLeg(route))
        except KernelError:
            return

    def take(self, route: Route) -> None:
        """Delete a route of an address, if it still exists."""
        for installed in self._tables.at(route.table, route.prefix):
            if bare(installed.route) == route:
                self._remove(installed)
                return

    def take_connected(self, prefix: Prefix, dev: str) -> None:
        """Delete the route to the device's own network: the first one without a gateway, whoever added it."""
        for installed in self._tables.at(TABLE_MAIN, prefix):
            if installed.leg.dev == dev and not installed.groups:
                self._remove(installed)
                return

    def rule_came(self, rule: Rule) -> None:
        """A rule creates the table that it looks up."""
        if rule.action == "to_table" and not rule.l3mdev:
            self._tables.create(rule.table)

    def device_down(self, device: Device) -> None:
        """Flush the routes of a device; in an ECMP route with other next hops left, its next hop stays and is dead."""
        for installed in list(self._tables.everything()):
            kin = installed.kin or [installed]
            if not any(it.leg.dev == device.name for it in kin):
                continue
            if all(it.leg.dev == device.name or it.leg.dead for it in kin):
                for sibling in list(kin):
                    self._remove(sibling)
            elif installed.leg.dev == device.name:
                installed.mark(device.name, dead=True, linkdown=True)

    def device_leaves(self, device: Device) -> None:
        """Flush every next hop by a device that is being deleted."""
        for installed in list(self._tables.everything()):
            if installed.leg.dev == device.name:
                self._remove(installed)

    def device_up(self, device: Device) -> None:
        """Revive the next hops that were dead while the device was down."""
        for installed in self._tables.by_device(device.name):
            installed.mark(device.name, dead=False, linkdown=installed.leg.linkdown and not device.carrier)

    def carrier(self, device: Device) -> None:
        """Mark the routes of a device as linkdown, or clear the mark."""
        for installed in self._tables.by_device(device.name):
            if installed.route.type not in {"local", "anycast"}:
                installed.mark(device.name, linkdown=not device.carrier)

    def source_gone(self, source: IP) -> None:
        """Clear the preferred source of routes if no device has that address any more; the routes stay."""
        for installed in self._tables.everything():
            if installed.route.prefsrc == source and not self._checks.is_source(source, installed.leg.dev):
                installed.route = attrs.evolve(installed.route, prefsrc=None)

    def listed(self) -> Iterator[Route]:
        """All of them, in the order of `ip -6 route show table all`, the next hops of ECMP routes together."""
        return _together(self._tables.listed())

    def _insert(self, verb: Verb, new: _InstalledLeg) -> None:
        route = new.route
        there = self._tables.at(route.table, route.prefix)
        same = [it for it in there if it.route.metric == route.metric]
        place = sum(1 for it in there if it.route.metric <= route.metric)
        if same and verb == "add":
            raise KernelError(errno.EEXIST)
        if verb == "replace" and same:
            old = next((it for it in same if it.groups == new.groups), same[0])
            there[there.index(old)] = new
            gone = [it for it in old.kin if it is not old]
            self._tables.put(route.table, route.prefix, [it for it in there if it not in gone])
            return
        if any((it.leg.dev, it.leg.gateway) == (new.leg.dev, new.leg.gateway) for it in same):
            raise KernelError(errno.EEXIST)
        sibling = next((it for it in same if it.groups), None)
        if new.groups and sibling is not None:
            new.kin = sibling.kin = sibling.kin or [sibling]
            new.kin.append(new)
        there.insert(place, new)
        self._tables.put(route.table, route.prefix, there)

    def _remove(self, leg: _InstalledLeg) -> None:
        self._tables.drop([leg])
        if leg.kin:
            leg.kin.remove(leg)
            if len(leg.kin) == 1:
                leg.kin[0].kin = []

    def _delete(self, wanted: Route) -> None:
        if wanted.table not in self._tables:
            raise KernelError(errno.ESRCH, "FIB table does not exist")
        failure = 0
        for leg in wanted.legs or (NextHop(),):
            there = self._tables.at(wanted.table, wanted.prefix)
            found = next((it for it in there if leg_is_meant(it.route, it.leg, wanted, leg)), None)
            if found is None:
                failure = errno.ENOENT if not there and _means_nothing(wanted, leg) else errno.ESRCH
            elif leg.gateway is not None or not found.kin:
                self._remove(found)
            else:
                for sibling in list(found.kin):
                    self._remove(sibling)
        if failure:
            raise KernelError(failure)


def _together(installed: Iterable[_InstalledLeg]) -> Iterator[Route]:
    skipping: _InstalledLeg | None = None
    for one in installed:
        if skipping is not None:
            # Linux continues after the last next hop and skips what is in between.
            skipping = None if one is skipping else skipping
        elif one.kin:
            start = one.kin.index(one)
            kin = one.kin[start:] + one.kin[:start]
            skipping = kin[-1]
            yield attrs.evolve(one.route, legs=tuple(it.leg for it in kin))
        else:
            yield one.route


def _means_nothing(wanted: Route, leg: NextHop) -> bool:
    """Whether it matches Linux's internal placeholder for a missing default route, which cannot be deleted."""
    return (
        not wanted.prefix.length
        and leg.dev is None
        and leg.gateway is None
        and wanted.metric in {0, 0xFFFFFFFF}
        and wanted.protocol in {0, PROTOCOL_KERNEL}
    )
