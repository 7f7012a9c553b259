"""IPv6 routes as Linux stores them: each next hop of an ECMP route is an entry of its own, linked to its siblings.

Here: where a route is inserted, which ones are deleted, and the effect of device changes and of time. Not here: whether
a route is accepted (`checks`), and the routes of addresses (`addresses`).

A prefix has a list of routes for each prefix of sources (`from`), and one for any source. Nothing connects these lists:
the same metric in another one is another route.

A route that expires stays in its list until it is collected: Linux looks for such routes half a minute after the first
one was added, then again and again, and whenever a device is set down. Each next hop of an ECMP route has a preference
and an end of its own; those of the first one are listed.
"""

import errno
import math
from collections.abc import Iterable, Iterator

import attrs

from hostrouting.backends.base import Verb
from hostrouting.backends.deletion import leg_is_meant, sources_of
from hostrouting.backends.memory.clock import KernelClock
from hostrouting.backends.memory.devices import LOOPBACK, Device, Devices
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.ipv6.checks import Checks
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Installed, Tables, bare, by_source
from hostrouting.model import IP, IPV6, PROTOCOL_KERNEL, TABLE_LOCAL, TABLE_MAIN, NextHop, Prefix, Route, Rule

__all__ = ["Routes"]

# The seconds between two searches for expired routes (`net.ipv6.route.gc_interval`).
_COLLECTED_EVERY = 30
# The longest time that a list shows, in seconds: its number has 31 bits, and counts hundredths.
_LONGEST = ((1 << 31) - 1) // 100


@attrs.define(eq=False)
class _InstalledLeg(Installed):
    """One next hop of a route, and all next hops of that route in order."""

    kin: list["_InstalledLeg"] = attrs.Factory(list)
    # When it expires; None if it stays. `route` does not show it.
    ends: float | None = None

    def shown(self, now: float) -> Route:
        """The route with the seconds that are left."""
        if self.ends is None:
            return self.route
        left = math.floor(round(self.ends - now, 6))
        return attrs.evolve(self.route, expires=min(left, _LONGEST))

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

    def __init__(self, devices: Devices, rules: Rules, clock: KernelClock) -> None:
        """Start with the tables main and local, both empty."""
        self._clock = clock
        # When expired routes are collected; None while no route expires.
        self._due: float | None = None
        self._tables: Tables[_InstalledLeg] = Tables(IPV6)
        self._tables.create(TABLE_MAIN)
        self._tables.create(TABLE_LOCAL)
        self._checks = Checks(self._tables, rules, devices, clock)

    def change(self, verb: Verb, route: Route) -> None:
        """Carry out one change; KernelError if Linux would refuse it."""
        # In IPv6, routes have no scope, and tos selects nothing.
        route = attrs.evolve(bare(route), scope=0, tos=0)
        if verb == "delete":
            self._delete(route)
            return
        route = self._checks.taken(route)
        self._tables.create(route.table)
        legs: list[NextHop] = []
        for asked in route.legs:
            leg = self._checks.leg(asked, route)
            # Linux compares each next hop with those before it, and does not look at the ones after it.
            if any((leg.dev, leg.gateway) == (it.dev, it.gateway) for it in legs):
                raise KernelError(errno.EEXIST)
            legs.append(leg)
        ends = None if route.expires is None else self._clock.now() + route.expires
        route = attrs.evolve(route, expires=None)
        placed: list[_InstalledLeg] = []
        each: list[tuple[NextHop, ...]] = [(leg,) for leg in legs]
        for single in each or [()]:
            new = _InstalledLeg(attrs.evolve(route, legs=single), ends=ends)
            try:
                self._insert("append" if placed else verb, new)
            except KernelError:
                # The next hops before it are removed again.
                for installed in placed:
                    self._remove(installed)
                raise
            placed.append(new)
        if ends is not None and self._due is None:
            self._due = self._clock.now() + _COLLECTED_EVERY

    def at(self, table: int, prefix: Prefix) -> list[Route]:
        """The routes of exactly this prefix, each with all of its next hops."""
        return list(self._together(self._tables.at(table, prefix)))

    def bring(self, route: Route) -> None:
        """Add a route of an address or a device, after the existing ones, unless an identical one exists."""
        try:
            self._insert("append", _InstalledLeg(route))
        except KernelError:
            return

    def take(self, route: Route) -> None:
        """Delete a route of an address, if it still exists."""
        for installed in self._node(route.table, route.prefix, None):
            if bare(installed.route) == route:
                self._remove(installed)
                return

    def take_connected(self, prefix: Prefix, dev: str) -> None:
        """Delete the route to the device's own network: the first one without a gateway, whoever added it."""
        for installed in self._node(TABLE_MAIN, prefix, None):
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

    @property
    def moment(self) -> float | None:
        """The time, if it matters to a list: None while no route expires."""
        return None if self._due is None else self._clock.now()

    def elapse(self) -> bool:
        """Collect the routes that expired until now, if it was time to; whether there were any."""
        found, now = False, self._clock.now()
        while self._due is not None and self._due <= now:
            soonest = min((it.ends for it in self._tables.everything() if it.ends is not None), default=now)
            # Until one of them has expired, the searches find nothing.
            self._due += _COLLECTED_EVERY * max(0, (min(soonest, now) - self._due) // _COLLECTED_EVERY)
            found = self._collect(self._due) or found
        return found

    def collect_expired(self) -> None:
        """Delete the routes that have expired."""
        self._collect(self._clock.now())

    def listed(self) -> Iterator[Route]:
        """All of them, in the order of `ip -6 route show table all`, the next hops of ECMP routes together."""
        return self._together(self._tables.listed())

    def apart(self) -> Iterator[Route]:
        """The same, but with each next hop as a route of its own: a lookup uses the preference and the end of each."""
        now = self._clock.now()
        return (it.shown(now) for it in self._tables.listed())

    def _collect(self, now: float) -> bool:
        aging = [it for it in self._tables.everything() if it.ends is not None]
        expired = [it for it in aging if it.ends is not None and it.ends < now]
        for installed in expired:
            self._remove(installed)
        self._due = now + _COLLECTED_EVERY if len(aging) > len(expired) else None
        return bool(expired)

    def _node(self, table: int, prefix: Prefix, source: Prefix | None) -> list[_InstalledLeg]:
        """The routes of exactly this prefix, for exactly these sources, in order."""
        return [it for it in self._tables.at(table, prefix) if it.route.source == source]

    def _put(self, route: Route, node: list[_InstalledLeg]) -> None:
        """Set the routes of the prefix of this route, for its sources."""
        others = [it for it in self._tables.at(route.table, route.prefix) if it.route.source != route.source]
        self._tables.put(route.table, route.prefix, sorted([*others, *node], key=by_source))

    def _insert(self, verb: Verb, new: _InstalledLeg) -> None:
        route = new.route
        there = self._node(route.table, route.prefix, route.source)
        same = [it for it in there if it.route.metric == route.metric]
        place = sum(1 for it in there if it.route.metric <= route.metric)
        if same and verb == "add":
            raise KernelError(errno.EEXIST)
        if verb == "replace" and same:
            old = next((it for it in same if it.groups == new.groups), same[0])
            there[there.index(old)] = new
            gone = [it for it in old.kin if it is not old]
            self._put(route, [it for it in there if it not in gone])
            return
        twin = next((it for it in same if (it.leg.dev, it.leg.gateway) == (new.leg.dev, new.leg.gateway)), None)
        if twin is not None:
            # The request is refused, but a route that expires gets the end and the mtu that were asked for.
            if twin.ends is not None:
                twin.ends = new.ends
                twin.route = attrs.evolve(twin.route, mtu=route.mtu or twin.route.mtu)
            raise KernelError(errno.EEXIST)
        sibling = next((it for it in same if it.groups), None)
        if new.groups and sibling is not None:
            new.kin = sibling.kin = sibling.kin or [sibling]
            new.kin.append(new)
        there.insert(place, new)
        self._put(route, there)

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
            source = sources_of(wanted)
            if all(it.route.source is None for it in self._tables.at(wanted.table, wanted.prefix)):
                source = None  # Linux ignores the sources if no route of the prefix has any
            there = self._node(wanted.table, wanted.prefix, source)
            found = next((it for it in there if leg_is_meant(it.route, it.leg, wanted, leg)), None)
            if found is None:
                nothing = not there and source is None and _means_nothing(wanted, leg)
                failure = errno.ENOENT if nothing else errno.ESRCH
            elif leg.gateway is not None or not found.kin:
                self._remove(found)
            else:
                for sibling in list(found.kin):
                    self._remove(sibling)
        if failure:
            raise KernelError(failure)

    def _together(self, installed: Iterable[_InstalledLeg]) -> Iterator[Route]:
        now = self._clock.now()
        skipping: _InstalledLeg | None = None
        for one in installed:
            if skipping is not None:
                # Linux continues after the last next hop and skips what is in between.
                skipping = None if one is skipping else skipping
            elif one.kin:
                start = one.kin.index(one)
                kin = one.kin[start:] + one.kin[:start]
                skipping = kin[-1]
                yield attrs.evolve(one.shown(now), legs=tuple(it.leg for it in kin))
            else:
                yield one.shown(now)


def _means_nothing(wanted: Route, leg: NextHop) -> bool:
    """Whether it matches Linux's internal placeholder for a missing default route, which cannot be deleted."""
    return (
        not wanted.prefix.length
        and leg.dev is None
        and not int(leg.gateway or 0)
        and wanted.metric in {0, 0xFFFFFFFF}
        and wanted.protocol in {0, PROTOCOL_KERNEL}
    )
