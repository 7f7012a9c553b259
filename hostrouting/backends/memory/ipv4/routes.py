"""IPv4 routes as Linux stores them: the effect of a change, and of a device that goes up or down.

Here: where a route is inserted, which one is deleted, and which are flushed. Not here: whether a route is accepted
(`checks`), and the routes of addresses (`addresses`).
"""

import errno
from collections.abc import Iterator

import attrs

from hostrouting.backends.base import Verb
from hostrouting.backends.deletion import is_meant
from hostrouting.backends.memory.devices import Device, Devices
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.ipv4.checks import Checks, check_tos
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Installed, Tables
from hostrouting.model import IP, IPV4, SCOPE_HOST, TABLE_LOCAL, TABLE_MAIN, NextHop, Prefix, Route, Rule

__all__ = ["Routes"]


class Routes:
    """The IPv4 routes of the host."""

    def __init__(self, devices: Devices, rules: Rules) -> None:
        """Start empty."""
        self._rules = rules
        self._tables: Tables[Installed] = Tables(IPV4)
        self.checks = Checks(self._tables, rules, devices)

    def change(self, verb: Verb, route: Route) -> None:
        """Carry out one change; KernelError if Linux would refuse it."""
        check_tos(route)
        route = attrs.evolve(route, legs=tuple(_as_said(leg) for leg in route.legs))
        if verb == "delete":
            self._delete(route)
            return
        self._create(route.table)
        self._insert(verb, self.checks.taken(route))

    def at(self, table: int, prefix: Prefix) -> list[Route]:
        """The routes of exactly this prefix."""
        return [installed.route for installed in self._tables.at(table, prefix)]

    def listed(self) -> Iterator[Route]:
        """All of them, in the order of `ip route show table all`."""
        return (installed.route for installed in self._tables.listed())

    def bring(self, route: Route) -> None:
        """Add a route of an address; if Linux would refuse it, it is silently left out."""
        self._create(route.table)
        try:
            self._insert("append", self.checks.taken(route))
        except KernelError:
            return

    def take(self, route: Route) -> None:
        """Delete a route of an address, if it still exists."""
        try:
            self._delete(route)
        except KernelError:
            return

    def rule_came(self, rule: Rule) -> None:
        """In IPv4 a rule does not create a table."""

    def device_down(self, device: Device) -> None:
        """Flush the routes of a device, except those of scope host."""
        self._device_lost(device, force=False)

    def device_leaves(self, device: Device) -> None:
        """Flush every route with a next hop by a device that is being deleted."""
        for installed in self._tables.by_device(device.name):
            installed.dead = True
        self._flush()

    def last_address_gone(self, device: Device) -> None:
        """Flush every route of a device, including those of scope host."""
        self._device_lost(device, force=True)

    def device_up(self, device: Device) -> None:
        """Revive the next hops of ECMP routes that were dead while the device was down."""
        for installed in self._tables.by_device(device.name) if device.up else ():
            lost = not device.carrier and any(leg.linkdown for leg in installed.route.legs if leg.dev == device.name)
            installed.mark(device.name, dead=False, linkdown=lost)

    def carrier(self, device: Device) -> None:
        """Mark the routes of a device as linkdown, or clear the mark."""
        for installed in self._tables.by_device(device.name) if device.up else ():
            if device.carrier or installed.route.scope != SCOPE_HOST:
                installed.mark(device.name, linkdown=not device.carrier)

    def source_gone(self, source: IP) -> None:
        """Flush the routes of table main whose preferred source address was deleted."""
        for installed in self._tables.everything():
            if installed.route.table == TABLE_MAIN and installed.route.prefsrc == source:
                installed.dead = True
        self._flush()

    def _create(self, table: int) -> None:
        # While local is merged with main, creating it creates main.
        if table == TABLE_LOCAL and not self._rules.custom:
            self._tables.create(TABLE_MAIN)
        self._tables.create(table)

    def _delete(self, wanted: Route) -> None:
        if wanted.table not in self._tables:
            raise KernelError(errno.ESRCH, "FIB table does not exist")
        there = self._tables.at(wanted.table, wanted.prefix)
        for place, installed in enumerate(there):
            if is_meant(installed.route, wanted):
                del there[place]
                self._tables.put(wanted.table, wanted.prefix, there)
                return
        raise KernelError(errno.ESRCH)

    def _device_lost(self, device: Device, *, force: bool) -> None:
        for installed in self._tables.by_device(device.name):
            if force or installed.route.scope != SCOPE_HOST:
                installed.mark(device.name, dead=True, linkdown=True)
                installed.dead = all(leg.dead for leg in installed.route.legs)
        self._flush()

    def _insert(self, verb: Verb, new: Installed) -> None:
        """Insert an accepted route where the verb requires."""
        route = new.route
        there = self._tables.at(route.table, route.prefix)
        # Routes of one prefix are ordered by tos, highest first, then by metric, lowest first.
        rank = (-route.tos, route.metric)
        ranks = [(-it.route.tos, it.route.metric) for it in there]
        first = sum(1 for it in ranks if it < rank)
        after = sum(1 for it in ranks if it <= rank)
        same = there[first:after]
        twin = next((place for place, it in enumerate(same) if it.twin_of(new)), None)
        if same and verb == "replace":
            if twin is None:
                there[first] = new
            elif twin:
                raise KernelError(errno.EEXIST)
        elif (same and verb == "add") or twin is not None:
            raise KernelError(errno.EEXIST)
        else:
            there.insert(first if verb == "prepend" else after, new)
        self._tables.put(route.table, route.prefix, there)

    def _flush(self) -> None:
        self._tables.drop([it for it in self._tables.everything() if it.dead])


def _as_said(leg: NextHop) -> NextHop:
    """The next hop without a gateway of 0.0.0.0, which means no gateway."""
    return leg if leg.gateway is None or int(leg.gateway) else attrs.evolve(leg, gateway=None)
