"""IPv6 as in Linux: whether a route is accepted, where it is stored, and the routes that addresses add.

Here: the refusals, each with its errno and the kernel's text; the next hops of an accepted route; lookups for gateways
and addresses, for a device; where a route is inserted, which ones are deleted, and the effect of device changes and of
time; addresses that are usable at once, as with `nodad`. Link-local addresses and those of router advertisements are
not created. Not here: IPv4, which has the same three parts with different content, and lookups for packets
(`hostrouting.kernel._fib`).

A prefix has a list of routes for each prefix of sources (`from`), and one for any source. Nothing connects these lists:
the same metric in another one is another route. Each next hop of an ECMP route is an entry of its own, linked to its
siblings.

A route that expires stays in its list until it is collected: Linux looks for such routes half a minute after the first
one was added, then again and again, and whenever a device is set down. Each next hop of an ECMP route has a preference
and an end of its own; those of the first one are listed.
"""

import errno
import math
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.kernel._fib.engine import Fib
from hostrouting.kernel._fib.packet import PLAIN, Sought
from hostrouting.kernel._fib.table_ipv6 import TableIPv6
from hostrouting.kernel._route_table import RouteTable
from hostrouting.kernel.base import Verb
from hostrouting.kernel.requests import expires, leg_is_meant, sources_of
from hostrouting.model.prefix import IP, IPV6, MULTICAST, Prefix, as_ip
from hostrouting.model.route import (
    DEFAULT_METRIC,
    PATHLESS,
    PROTOCOL_KERNEL,
    SCOPE_HOST,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
)
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address, Snapshot
from hostrouting.testing.kernel.devices import LOOPBACK, Device, Devices, Holding, Refused
from hostrouting.testing.kernel.tables import Installed, Rules, Tables, as_kept, bare, by_source

if TYPE_CHECKING:
    from phases import Clock


class KernelClock:
    """Seconds since the fake kernel started, for routes that expire. The clock stands still until a test moves it."""

    def __init__(self) -> None:
        """Start at 0."""
        self._offset = 0.0
        self._followed: Clock | None = None

    def now(self) -> float:
        """The time."""
        return self._offset + (0.0 if self._followed is None else self._followed.now())

    def advance(self, seconds: float) -> None:
        """Let this time pass at once."""
        self._offset += seconds

    def follow(self, clock: "Clock") -> None:
        """Follow this clock from now on."""
        if clock is not self._followed:
            self._offset, self._followed = self.now() - clock.now(), clock


# Whether a route is accepted.

_PROTOCOL_BOOT = 3


class Checks:
    """The checks, against the present tables, rules and devices."""

    def __init__(self, tables: Tables[Any], rules: Rules, devices: Devices, clock: KernelClock) -> None:
        """Keep references to these; they are read at each check."""
        self._tables, self._rules, self._devices, self._clock = tables, rules, devices, clock

    def taken(self, route: Route) -> Route:
        """The route as it will be stored, without its next hops; Refused if Linux refuses it."""
        left = max(route.expires or 0, 0) if expires(route) else None
        preference = "medium" if route.type in PATHLESS else route.preference
        route = attrs.evolve(as_kept(route), source=sources_of(route), preference=preference, expires=left)
        if route.nexthop_id is not None:
            raise Refused(errno.EINVAL, "Nexthop id does not exist")
        if len(route.legs) > 1 and any(leg.gateway is None for leg in route.legs):
            words = "Device only routes can not be added for IPv6 using the multipath API."
            raise Refused(errno.EINVAL, words)
        if route.type in PATHLESS:
            for leg in route.legs[:2]:
                _check_onlink(leg, self._devices.find(leg.dev))
            self._check_source(route, LOOPBACK)
        if len(route.legs) > 1 and route.type in PATHLESS:
            # To Linux each of them is lo, whatever was given.
            raise Refused(errno.EEXIST)
        legs = () if route.type in PATHLESS else route.legs or (NextHop(),)
        protocol = route.protocol or _PROTOCOL_BOOT
        return attrs.evolve(route, legs=legs, metric=route.metric or DEFAULT_METRIC[IPV6], protocol=protocol)

    def leg(self, leg: NextHop, route: Route) -> NextHop:
        """A next hop of the route as it will be stored; Refused if Linux refuses it."""
        device = self._devices.find(leg.dev)
        _check_onlink(leg, device)
        if isinstance(leg.gateway, IPv6Address):
            device = self._gateway(leg.gateway, device, leg=leg, route=route)
        if device is None:
            raise Refused(errno.ENODEV)
        if device.link.ipv6_disabled:
            raise Refused(errno.EACCES, "IPv6 is disabled on nexthop device")
        if not device.up:
            raise Refused(errno.ENETDOWN, "Nexthop device is not up")
        self._check_source(route, device.name)
        own = route.type in {"local", "anycast"}
        return attrs.evolve(leg, dev=device.name, linkdown=not device.carrier and not own)

    def _check_source(self, route: Route, dev: str) -> None:
        if route.prefsrc is not None and not self.is_source(route.prefsrc, dev):
            raise Refused(errno.EINVAL, "Invalid source address")

    def _gateway(self, gateway: IPv6Address, device: Device | None, *, leg: NextHop, route: Route) -> Device:
        named = device
        if named is not None and self._is_own(gateway, named):
            raise Refused(errno.EINVAL, "Gateway can not be a local address")
        if not gateway.is_link_local:
            if gateway.is_multicast or not int(gateway):
                raise Refused(errno.EINVAL, "Invalid gateway address")
            if leg.onlink:
                found = self._in_table(TABLE_MAIN, gateway, Sought(iif=leg.dev or "", source=int(route.prefsrc or 0)))
                beside = found is not None and found.type == "unicast" and leg.dev in found.devs
                if found is not None and found.prefix.network and _leads_on(found) and not beside:
                    raise Refused(errno.EINVAL, "Nexthop has invalid gateway or device mismatch")
            else:
                device = self._devices.find(self._egress(gateway, leg.dev, route))
        if device is None:
            raise Refused(errno.EINVAL, "Egress device not specified")
        if device.loopback:
            raise Refused(errno.EINVAL, "Egress device can not be loopback device for this route")
        if named is None and self._is_own(gateway, device):
            raise Refused(errno.EINVAL, "Gateway can not be a local address")
        return device

    def _egress(self, gateway: IPv6Address, dev: str | None, route: Route) -> str:
        """The device on which the gateway is on-link; EHOSTUNREACH if there is none, or a different one."""
        found = self._in_table(route.table, gateway, Sought(oif=dev or "", source=int(route.prefsrc or 0)))
        if not _is_direct(found):
            found = self._by_rules(gateway, dev)
        if found is None or not _is_direct(found):
            raise Refused(errno.EHOSTUNREACH)
        return found.devs[0]

    def _is_own(self, address: IP, dev: Device) -> bool:
        """Whether any device has the address; a link-local one must be on this device."""
        holders = [dev] if address.is_link_local else self._devices
        return any(held.ip == address for device in holders for held in device.ipv6)

    def is_source(self, address: IP, dev: str | None) -> bool:
        """Whether packets that leave by this device may have this source address."""
        device = self._devices.find(dev)
        holders = [device] if device and (address.is_link_local or address.is_loopback) else self._devices
        return any(held.ip == address for holder in holders for held in holder.ipv6)

    def _in_table(self, table: int, address: IP, sought: Sought, *, wary: Iterable[str] = ()) -> Route | None:
        """The route of one table for the address; without a carrier, routes by the `wary` devices are skipped."""
        routes = RouteTable.of(self._covering(address, (table,)))
        index = TableIPv6(routes, frozenset(wary))
        for column in routes.columns:
            index.add(column)
        entry = index.best(int(address), sought)
        return None if entry is None else entry.route

    def _by_rules(self, address: IP, dev: str | None) -> Route | None:
        """The route that the rules lead to, by this device; a lost carrier may matter, and nothing is suppressed."""
        if not self._rules.custom:
            # A route without a next hop ends this lookup, even a throw route.
            wary = [device.name for device in self._devices if self._devices.ignores_linkdown(device.name, IPV6)]
            near = (
                self._in_table(table, address, Sought(oif=dev or ""), wary=wary) for table in (TABLE_LOCAL, TABLE_MAIN)
            )
            return next((route for route in near if route is not None), None)
        links = tuple(device.link for device in self._devices)
        routes = self._covering(address, self._tables)
        rules = (
            attrs.evolve(rule, suppress_prefixlength=None, suppress_ifgroup=None) for rule in self._rules.in_force()
        )
        snapshot = Snapshot(links=links, rules=tuple(rules), routes=routes)
        return Fib(snapshot).lookup(address, attrs.evolve(PLAIN, ipproto=0, iif="", oif=dev or "")).route

    def _covering(self, address: IP, tables: Iterable[int]) -> tuple[Route, ...]:
        now = self._clock.now()
        return tuple(member.shown(now) for member in self._tables.covering(int(address), tables))


def _check_onlink(leg: NextHop, device: Device | None) -> None:
    if leg.onlink and device is None:
        raise Refused(errno.ENODEV, "Nexthop device required for onlink")
    if leg.onlink and device is not None and not device.up:
        raise Refused(errno.ENETDOWN, "Nexthop device is not up")


def _leads_on(route: Route) -> bool:
    """Whether the route has a next hop, and is not a unicast route by lo (the network of an address on lo)."""
    return bool(route.legs) and not (route.type == "unicast" and LOOPBACK in route.devs)


def _is_direct(route: Route | None) -> bool:
    """Whether addresses behind this route are on-link."""
    return route is not None and _leads_on(route) and route.legs[0].gateway is None


# Where a route is stored, and when it goes.

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
        """Whether the next hop can become part of an ECMP route."""
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
        """Carry out one change; Refused if Linux would refuse it."""
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
            if any((leg.dev, leg.gateway) == (other.dev, other.gateway) for other in legs):
                raise Refused(errno.EEXIST)
            legs.append(leg)
        ends = None if route.expires is None else self._clock.now() + route.expires
        route = attrs.evolve(route, expires=None)
        placed: list[_InstalledLeg] = []
        each: list[tuple[NextHop, ...]] = [(leg,) for leg in legs]
        for single in each or [()]:
            new = _InstalledLeg(attrs.evolve(route, legs=single), ends=ends)
            try:
                self._insert("append" if placed else verb, new)
            except Refused:
                # The next hops before it are removed again.
                for installed in placed:
                    self._remove(installed)
                raise
            placed.append(new)
        if ends is not None and self._due is None:
            self._due = self._clock.now() + _COLLECTED_EVERY

    def at(self, table: int, prefix: Prefix) -> list[Route]:
        """The routes of exactly this prefix, each with all its next hops."""
        return list(self._together(self._tables.at(table, prefix)))

    def bring(self, route: Route) -> None:
        """Add a route of an address or a device, after the existing ones, unless an identical one exists."""
        try:
            self._insert("append", _InstalledLeg(route))
        except Refused:
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
        """Flush the routes of a device. Its next hop in an ECMP route stays, as dead, if there are others."""
        for installed in list(self._tables.everything()):
            kin = installed.kin or [installed]
            if not any(member.leg.dev == device.name for member in kin):
                continue
            if all(member.leg.dev == device.name or member.leg.dead for member in kin):
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
        """Delete the expired routes if Linux would have done so by now; return whether there were any."""
        found, now = False, self._clock.now()
        while self._due is not None and self._due <= now:
            soonest = min(
                (installed.ends for installed in self._tables.everything() if installed.ends is not None), default=now
            )
            # Until one of them has expired, the searches find nothing.
            self._due += _COLLECTED_EVERY * max(0, (min(soonest, now) - self._due) // _COLLECTED_EVERY)
            found = self._collect(self._due) or found
        return found

    def collect_expired(self) -> None:
        """Delete the routes that have expired."""
        self._collect(self._clock.now())

    def listed(self) -> Iterator[Route]:
        """The routes in the order of `ip -6 route show table all`, with the next hops of ECMP routes together."""
        return self._together(self._tables.listed())

    def apart(self) -> Iterator[Route]:
        """The routes with each next hop as a route of its own: a lookup uses each one's preference and lifetime."""
        now = self._clock.now()
        return (member.shown(now) for member in self._tables.listed())

    def _collect(self, now: float) -> bool:
        aging = [installed for installed in self._tables.everything() if installed.ends is not None]
        expired = [member for member in aging if member.ends is not None and member.ends < now]
        for installed in expired:
            self._remove(installed)
        self._due = now + _COLLECTED_EVERY if len(aging) > len(expired) else None
        return bool(expired)

    def _node(self, table: int, prefix: Prefix, source: Prefix | None) -> list[_InstalledLeg]:
        """The routes of exactly this prefix, for exactly these sources, in order."""
        return [member for member in self._tables.at(table, prefix) if member.route.source == source]

    def _put(self, route: Route, node: list[_InstalledLeg]) -> None:
        """Replace the installed routes that have the prefix and the source prefix of this route."""
        others = [
            member for member in self._tables.at(route.table, route.prefix) if member.route.source != route.source
        ]
        self._tables.put(route.table, route.prefix, sorted([*others, *node], key=by_source))

    def _insert(self, verb: Verb, new: _InstalledLeg) -> None:
        route = new.route
        there = self._node(route.table, route.prefix, route.source)
        same = [member for member in there if member.route.metric == route.metric]
        place = sum(1 for member in there if member.route.metric <= route.metric)
        if same and verb == "add":
            raise Refused(errno.EEXIST)
        if verb == "replace" and same:
            old = next((member for member in same if member.groups == new.groups), same[0])
            there[there.index(old)] = new
            gone = [member for member in old.kin if member is not old]
            self._put(route, [member for member in there if member not in gone])
            return
        twin = next(
            (member for member in same if (member.leg.dev, member.leg.gateway) == (new.leg.dev, new.leg.gateway)), None
        )
        if twin is not None:
            # The request is refused, but a route that expires gets the end and the mtu that were asked for.
            if twin.ends is not None:
                twin.ends = new.ends
                twin.route = attrs.evolve(twin.route, mtu=route.mtu or twin.route.mtu)
            raise Refused(errno.EEXIST)
        sibling = next((member for member in same if member.groups), None)
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
            raise Refused(errno.ESRCH, "FIB table does not exist")
        failure = 0
        for leg in wanted.legs or (NextHop(),):
            source = sources_of(wanted)
            if all(member.route.source is None for member in self._tables.at(wanted.table, wanted.prefix)):
                source = None  # Linux ignores the sources if no route of the prefix has any
            there = self._node(wanted.table, wanted.prefix, source)
            found = next((member for member in there if leg_is_meant(member.route, member.leg, wanted, leg)), None)
            if found is None:
                nothing = not there and source is None and _means_nothing(wanted, leg)
                failure = errno.ENOENT if nothing else errno.ESRCH
            elif leg.gateway is not None or not found.kin:
                self._remove(found)
            else:
                for sibling in list(found.kin):
                    self._remove(sibling)
        if failure:
            raise Refused(failure)

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
                yield attrs.evolve(one.shown(now), legs=tuple(member.leg for member in kin))
            else:
                shown = one.shown(now)
                # The weight is not listed while there is no other next hop.
                yield attrs.evolve(shown, legs=tuple(attrs.evolve(leg, weight=1) for leg in shown.legs))


def _means_nothing(wanted: Route, leg: NextHop) -> bool:
    """Whether the request matches Linux's internal placeholder for a missing default route, which cannot be deleted."""
    return (
        not wanted.prefix.length
        and leg.dev is None
        and not int(leg.gateway or 0)
        and wanted.metric in {0, 0xFFFFFFFF}
        and wanted.protocol in {0, PROTOCOL_KERNEL}
    )


# The routes of addresses.

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
            raise Refused(errno.EACCES, "ipv6: IPv6 is disabled on this device")
        if any(held.ip == address.ip for held in device.ipv6):
            raise Refused(errno.EEXIST, "ipv6: address already assigned")
        if address.ip.is_loopback and not device.loopback:
            raise Refused(errno.EADDRNOTAVAIL, "ipv6: Cannot assign loopback address on this device")
        self._bring_multicast(device)
        held = Holding(attrs.evolve(address, scope=_scope(address)))
        place = sum(1 for holding in device.ipv6 if _reach(holding) > _reach(held))
        device.ipv6.insert(place, held)
        self._routes.bring(_local(device, held))
        self._bring_network(device, _network(held))
        # This route is added with the address only; setting the device up later does not add it.
        if held.address.peer is not None:
            self._bring_network(device, Prefix.of(held.address.peer))

    def delete(self, device: Device, address: Address) -> None:
        """Delete the address."""
        found = next(
            (holding for holding in device.ipv6 if holding.ip == address.ip and holding.length == address.length), None
        )
        if found is None:
            raise Refused(errno.EADDRNOTAVAIL, "ipv6: address not found")
        device.ipv6.remove(found)
        if not any(_network(holding) == _network(found) for holding in device.ipv6):
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
