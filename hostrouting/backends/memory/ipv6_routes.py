"""IPv6 routes as Linux keeps them: every leg of an ECMP route stands for itself, and knows its siblings.

Here: where a route is put, which ones are deleted, and what comes and goes with a device. Not here: whether a route
is taken at all (`ipv6_checks`), and what an address brings (`ipv6_addresses`).
"""

import errno
from collections.abc import Iterable, Iterator

import attrs

from hostrouting.backends.base import Verb
from hostrouting.backends.deletion import leg_is_meant
from hostrouting.backends.memory.devices import LOOPBACK, Device, Devices
from hostrouting.backends.memory.ipv6_checks import check_leg, check_route
from hostrouting.backends.memory.ipv6_lookup import Lookup6
from hostrouting.backends.memory.refused import Refused
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Standing, Tables, as_kept, bare
from hostrouting.model import IP, IPV6, PROTOCOL_KERNEL, TABLE_LOCAL, TABLE_MAIN, NextHop, Prefix, Route

__all__ = ["Routes6"]


@attrs.define(eq=False)
class _Standing6(Standing):
    """One leg of a route, and all legs of it in their order."""

    kin: list["_Standing6"] = attrs.Factory(list)

    @property
    def leg(self) -> NextHop:
        """Its only leg; a route that leads nowhere is kept on lo."""
        return self.route.legs[0] if self.route.legs else NextHop(LOOPBACK)

    @property
    def groups(self) -> bool:
        """Whether it may become a leg of an ECMP route."""
        return self.leg.gateway is not None


class Routes6:
    """The IPv6 routes of the host."""

    def __init__(self, devices: Devices, rules: Rules) -> None:
        """Start with the tables main and local, both empty."""
        self._devices = devices
        self.tables: Tables[_Standing6] = Tables(IPV6)
        self.tables.create(TABLE_MAIN)
        self.tables.create(TABLE_LOCAL)
        self._lookup = Lookup6(self.tables, rules, devices)

    def change(self, verb: Verb, route: Route) -> None:
        """Carry out one change; Refused when Linux would not."""
        # IPv6 knows no scopes of routes, and its tos selects nothing.
        route = attrs.evolve(bare(route), scope=0, tos=0)
        if verb == "delete":
            self._delete(route)
            return
        route = check_route(as_kept(route), self._devices)
        self.tables.create(route.table)
        legs = [check_leg(leg, route, self._devices, self._lookup) for leg in route.legs]
        if len({(leg.dev, leg.gateway) for leg in legs}) < len(legs):
            raise Refused(errno.EEXIST)
        placed: list[_Standing6] = []
        each: list[tuple[NextHop, ...]] = [(leg,) for leg in legs]
        for single in each or [()]:
            new = _Standing6(attrs.evolve(route, legs=single))
            try:
                self._insert("append" if placed else verb, new)
            except Refused:
                # The legs before it go again.
                for standing in placed:
                    self._remove(standing)
                raise
            placed.append(new)

    def at(self, table: int, prefix: Prefix) -> list[Route]:
        """The routes of exactly this prefix, the legs of each together."""
        return list(_together(self.tables.at(table, prefix)))

    def bring(self, route: Route) -> None:
        """Add what an address or a device brings, behind what is there; a twin is enough."""
        try:
            self._insert("append", _Standing6(route))
        except Refused:
            return

    def take(self, route: Route) -> None:
        """Delete what an address brought, if it is still there."""
        for standing in self.tables.at(route.table, route.prefix):
            if bare(standing.route) == route:
                self._remove(standing)
                return

    def take_connected(self, prefix: Prefix, dev: str) -> None:
        """Delete the route to the device's own network: the first one without a gateway, whoever made it."""
        for standing in self.tables.at(TABLE_MAIN, prefix):
            if standing.leg.dev == dev and not standing.groups:
                self._remove(standing)
                return

    def device_down(self, device: Device, *, unregister: bool = False) -> None:
        """Flush the routes of a device; a leg of an ECMP route with others left is dead, and stays."""
        for standing in list(self.tables.everything()):
            if not any(it.leg.dev == device.name for it in standing.kin or [standing]):
                continue
            if unregister or not standing.kin:
                if standing.leg.dev == device.name:
                    self._remove(standing)
            elif all(it.leg.dev == device.name or it.leg.dead for it in standing.kin):
                for sibling in list(standing.kin):
                    self._remove(sibling)
            elif standing.leg.dev == device.name:
                _mark(standing, dead=True, linkdown=True)

    def device_up(self, device: Device) -> None:
        """Bring back the legs that were dead while the device was down."""
        for standing in self.tables.everything():
            if standing.leg.dev == device.name and standing.route.legs:
                _mark(standing, dead=False, linkdown=standing.leg.linkdown and not device.carrier)

    def carrier(self, device: Device) -> None:
        """Mark, or clear, what a device's carrier is for its routes."""
        for standing in self.tables.everything():
            own = standing.route.type in {"local", "anycast"}
            if standing.leg.dev == device.name and standing.route.legs and not own:
                _mark(standing, dead=standing.leg.dead, linkdown=not device.carrier)

    def source_gone(self, source: IP) -> None:
        """Routes that prefer an address which is no more stay, without a preference."""
        for standing in self.tables.everything():
            if standing.route.prefsrc == source:
                standing.route = attrs.evolve(standing.route, prefsrc=None)

    def listed(self) -> Iterator[Route]:
        """All of them, in the order of `ip -6 route show table all`, the legs of ECMP routes together."""
        return _together(self.tables.listed())

    def _insert(self, verb: Verb, new: _Standing6) -> None:
        route = new.route
        shelf = self.tables.at(route.table, route.prefix)
        same = [it for it in shelf if it.route.metric == route.metric]
        place = sum(1 for it in shelf if it.route.metric <= route.metric)
        if same and verb == "add":
            raise Refused(errno.EEXIST)
        if verb == "replace" and same:
            old = next((it for it in same if it.groups == new.groups), same[0])
            shelf[shelf.index(old)] = new
            gone = [it for it in old.kin if it is not old]
            self.tables.put(route.table, route.prefix, [it for it in shelf if it not in gone])
            return
        if any((it.leg.dev, it.leg.gateway) == (new.leg.dev, new.leg.gateway) for it in same):
            raise Refused(errno.EEXIST)
        sibling = next((it for it in same if it.groups), None)
        if new.groups and sibling is not None:
            new.kin = sibling.kin = sibling.kin or [sibling]
            new.kin.append(new)
        shelf.insert(place, new)
        self.tables.put(route.table, route.prefix, shelf)

    def _remove(self, standing: _Standing6) -> None:
        self.tables.drop([standing])
        if standing.kin:
            standing.kin.remove(standing)
            if len(standing.kin) == 1:
                standing.kin[0].kin = []

    def _delete(self, wanted: Route) -> None:
        if wanted.table not in self.tables:
            raise Refused(errno.ESRCH, "FIB table does not exist")
        failure = 0
        for leg in wanted.legs or (NextHop(),):
            shelf = self.tables.at(wanted.table, wanted.prefix)
            found = next((it for it in shelf if leg_is_meant(it.route, it.leg, wanted, leg)), None)
            if found is None:
                failure = errno.ENOENT if not shelf and _means_nothing(wanted, leg) else errno.ESRCH
            elif leg.gateway is not None or not found.kin:
                self._remove(found)
            else:
                for sibling in list(found.kin):
                    self._remove(sibling)
        if failure:
            raise Refused(failure)


def _together(standing: Iterable[_Standing6]) -> Iterator[Route]:
    skipping: _Standing6 | None = None
    for one in standing:
        if skipping is not None:
            # Linux goes on behind the last leg, whatever stands between.
            skipping = None if one is skipping else skipping
        elif one.kin:
            start = one.kin.index(one)
            kin = one.kin[start:] + one.kin[:start]
            skipping = kin[-1]
            yield attrs.evolve(one.route, legs=tuple(it.leg for it in kin))
        else:
            yield one.route


def _mark(standing: _Standing6, *, dead: bool, linkdown: bool) -> None:
    leg = attrs.evolve(standing.leg, dead=dead, linkdown=linkdown)
    standing.route = attrs.evolve(standing.route, legs=(leg,))


def _means_nothing(wanted: Route, leg: NextHop) -> bool:
    """Whether it is what Linux keeps as a default route where there is none, and does not delete."""
    return (
        not wanted.prefix.length
        and leg.dev is None
        and leg.gateway is None
        and wanted.metric in {0, 0xFFFFFFFF}
        and wanted.protocol in {0, PROTOCOL_KERNEL}
    )
