"""IPv4 routes as Linux keeps them: what a change does, and what comes and goes with a device.

Here: where a route is put, which one is deleted, and which are flushed. Not here: whether a route is taken at all
(`ipv4_checks`), and what an address brings (`ipv4_addresses`).
"""

import errno

import attrs

from hostrouting.backends.base import Verb
from hostrouting.backends.deletion import is_meant
from hostrouting.backends.memory.devices import Device, Devices
from hostrouting.backends.memory.ipv4_checks import check_route, check_tos
from hostrouting.backends.memory.ipv4_lookup import Lookup4
from hostrouting.backends.memory.refused import Refused
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Standing, Tables
from hostrouting.model import IP, IPV4, SCOPE_HOST, TABLE_LOCAL, TABLE_MAIN, NextHop, Prefix, Route

__all__ = ["Routes4"]


class Routes4:
    """The IPv4 routes of the host."""

    def __init__(self, devices: Devices, rules: Rules) -> None:
        """Start empty."""
        self._devices = devices
        self._rules = rules
        self.tables: Tables[Standing] = Tables(IPV4)
        self.lookup = Lookup4(self.tables, rules, devices)

    def change(self, verb: Verb, route: Route) -> None:
        """Carry out one change; Refused when Linux would not."""
        check_tos(route)
        route = attrs.evolve(route, legs=tuple(_as_said(leg) for leg in route.legs))
        if verb == "delete":
            self._delete(route)
            return
        self._create(route.table)
        self.insert(verb, check_route(route, self._devices, self.lookup))

    def at(self, table: int, prefix: Prefix) -> list[Route]:
        """The routes of exactly this prefix."""
        return [standing.route for standing in self.tables.at(table, prefix)]

    def insert(self, verb: Verb, new: Standing) -> None:
        """Put a route that was found right where the verb says."""
        route = new.route
        shelf = self.tables.at(route.table, route.prefix)
        # Those of one prefix stand by tos, the highest first, then by metric, the lowest first.
        rank = (-route.tos, route.metric)
        ranks = [(-it.route.tos, it.route.metric) for it in shelf]
        first = sum(1 for it in ranks if it < rank)
        after = sum(1 for it in ranks if it <= rank)
        same = shelf[first:after]
        if same:
            twin = next((place for place, it in enumerate(same) if it.twin_of(new)), None)
            if verb == "add":
                raise Refused(errno.EEXIST)
            if verb == "replace":
                if twin is None:
                    shelf[first] = new
                elif twin:
                    raise Refused(errno.EEXIST)
                self.tables.put(route.table, route.prefix, shelf)
                return
            if twin is not None:
                raise Refused(errno.EEXIST)
        shelf.insert(first if verb == "prepend" else after, new)
        self.tables.put(route.table, route.prefix, shelf)

    def bring(self, route: Route) -> None:
        """Add what an address brings; when Linux would not have it, it silently is not there."""
        self._create(route.table)
        try:
            self.insert("append", check_route(route, self._devices, self.lookup))
        except Refused:
            return

    def take(self, route: Route) -> None:
        """Delete what an address brought, if it is still there."""
        try:
            self._delete(route)
        except Refused:
            return

    def device_down(self, device: Device, *, unregister: bool = False, force: bool = False) -> None:
        """Flush the routes of a device: without `force` all but those to the host itself."""
        for standing in self.tables.everything():
            route = standing.route
            if device.name not in route.devs or (route.scope == SCOPE_HOST and not force):
                continue
            legs = tuple(
                attrs.evolve(leg, dead=True, linkdown=True) if leg.dev == device.name else leg for leg in route.legs
            )
            standing.route = attrs.evolve(route, legs=legs)
            standing.dead = unregister or all(leg.dead for leg in legs)
        self._flush()

    def device_up(self, device: Device) -> None:
        """Bring back the legs of ECMP routes that were dead while the device was down."""
        if device.up:
            self._revive(device, dead=True, linkdown=device.carrier)

    def carrier(self, device: Device) -> None:
        """Mark, or clear, what a device's carrier is for its routes."""
        if not device.up:
            return
        if device.carrier:
            self._revive(device, dead=False, linkdown=True)
            return
        for standing in self.tables.everything():
            route = standing.route
            if device.name in route.devs and route.scope != SCOPE_HOST:
                legs = tuple(
                    attrs.evolve(leg, linkdown=True) if leg.dev == device.name and not leg.dead else leg
                    for leg in route.legs
                )
                standing.route = attrs.evolve(route, legs=legs)

    def source_gone(self, source: IP) -> None:
        """Flush the routes of the table main that prefer an address which is no more."""
        for standing in self.tables.everything():
            if standing.route.table == TABLE_MAIN and standing.route.prefsrc == source:
                standing.dead = True
        self._flush()

    def _create(self, table: int) -> None:
        # While local is but a part of main's trie, making it makes main.
        if table == TABLE_LOCAL and not self._rules.custom:
            self.tables.create(TABLE_MAIN)
        self.tables.create(table)

    def _delete(self, wanted: Route) -> None:
        if wanted.table not in self.tables:
            raise Refused(errno.ESRCH, "FIB table does not exist")
        shelf = self.tables.at(wanted.table, wanted.prefix)
        for place, standing in enumerate(shelf):
            if is_meant(standing.route, wanted):
                del shelf[place]
                self.tables.put(wanted.table, wanted.prefix, shelf)
                return
        raise Refused(errno.ESRCH)

    def _revive(self, device: Device, *, dead: bool, linkdown: bool) -> None:
        for standing in self.tables.everything():
            route = standing.route
            if device.name in route.devs:
                legs = tuple(
                    attrs.evolve(leg, dead=leg.dead and not dead, linkdown=leg.linkdown and not linkdown)
                    if leg.dev == device.name
                    else leg
                    for leg in route.legs
                )
                standing.route = attrs.evolve(route, legs=legs)

    def _flush(self) -> None:
        self.tables.drop([it for it in self.tables.everything() if it.dead])


def _as_said(leg: NextHop) -> NextHop:
    """The leg without a gateway of 0.0.0.0, which is none."""
    return leg if leg.gateway is None or int(leg.gateway) else attrs.evolve(leg, gateway=None)
