"""IPv4 as in Linux: whether a route is accepted, where it is stored, and the routes that addresses add.

Here: the refusals, each with its errno and the kernel's text; the next hops of an accepted route; lookups for gateways
and addresses, which compare scopes and ignore lost carriers; where a route is inserted, which one is deleted, and which
are flushed when a device goes down; primary and secondary addresses with their connected, local and broadcast routes.
Not here: IPv6, which has the same three parts with different content, and lookups for packets (`kernel._fib`).
"""

import errno
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import attrs

from hostrouting.kernel._fib.engine import Fib
from hostrouting.kernel._fib.packet import PLAIN
from hostrouting.kernel.base import Verb
from hostrouting.kernel.requests import is_meant
from hostrouting.model.prefix import IP, IPV4, IPV6, MULTICAST, Prefix, as_ip, ip_at
from hostrouting.model.route import (
    PATHLESS,
    PROTOCOL_KERNEL,
    SCOPE_HOST,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_DEFAULT,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteType,
)
from hostrouting.model.rule import Rule, RuleAction
from hostrouting.model.snapshot import Address, Snapshot
from hostrouting.testing.kernel.devices import Device, Devices, Holding, Refused
from hostrouting.testing.kernel.tables import Installed, Rules, Tables, as_kept

# Whether a route is accepted.

# A rule that ends the lookup; "unreachable" has a different errno here than in a route.
_RULE_ERRORS: dict[RuleAction, int] = {"blackhole": errno.EINVAL, "prohibit": errno.EACCES}
_SCOPE_NOWHERE = 255
# The widest scope that a route of each type may have; missing types are always refused.
_WIDEST: dict[RouteType, int] = {
    "unicast": SCOPE_UNIVERSE,
    "local": SCOPE_HOST,
    "broadcast": SCOPE_LINK,
    "anycast": SCOPE_LINK,
    "multicast": SCOPE_UNIVERSE,
    **dict.fromkeys(PATHLESS, SCOPE_UNIVERSE),
}
_ECN = 0x03


class _NoWay(Exception):  # noqa: N818  an answer, not a fault
    """A lookup ended with an error."""

    def __init__(self, number: int) -> None:
        """Store the errno."""
        self.number = number
        super().__init__(number)


class _Way(NamedTuple):
    """The route that was found, and the next hop that was chosen."""

    route: Route
    leg: NextHop


# A next hop as it is stored, and its scope.
class _Reached(NamedTuple):
    leg: NextHop
    reach: int


def check_tos(route: Route) -> None:
    """Refuse the bits of tos that are used for congestion notification."""
    if route.tos & _ECN:
        raise Refused(errno.EINVAL, "Invalid dsfield (tos): ECN bits must be 0")


class Checks:
    """The checks, against the present tables, rules and devices."""

    def __init__(self, tables: Tables[Installed], rules: Rules, devices: Devices) -> None:
        """Keep references to these; they are read at each check."""
        self._tables, self._rules, self._devices = tables, rules, devices

    def taken(self, route: Route) -> Installed:
        """The route as it will be stored; Refused if Linux refuses it."""
        route = as_kept(route)
        if route.scope < _WIDEST.get(route.type, _SCOPE_NOWHERE):
            raise Refused(errno.EINVAL, "Invalid scope")
        if route.nexthop_id is not None:
            raise Refused(errno.EINVAL, "Nexthop id does not exist")
        if route.type in PATHLESS:
            if len(route.legs) > 1 or any(leg.dev or leg.gateway for leg in route.legs):
                words = "Gateway, device and multipath can not be specified for this route type"
                raise Refused(errno.EINVAL, words)
            # Its next hop is not stored, but Linux compares this flag of it when looking for identical routes.
            return Installed(attrs.evolve(route, legs=()), tuple(int(leg.onlink) for leg in route.legs if leg.onlink))
        if route.scope > SCOPE_HOST:
            raise Refused(errno.EINVAL, "Invalid scope")
        if route.scope == SCOPE_HOST:
            reached = [self._own(route)]
        else:
            reached = [self._leg(leg, route) for leg in route.legs or (NextHop(),)]
        if route.prefsrc is not None and not self._may_prefer(route):
            raise Refused(errno.EINVAL, "Invalid prefsrc address")
        return Installed(
            attrs.evolve(route, legs=tuple(hop.leg for hop in reached)), tuple(hop.reach for hop in reached)
        )

    def type_of(self, address: int, table: int) -> RouteType:
        """The type of an address according to one table."""
        if address in {0, 0xFFFFFFFF}:
            return "broadcast"
        if ip_at(IPV4, address) in MULTICAST[IPV4]:
            return "multicast"
        if not any(number in self._tables for number in self._together(table)):
            return "broadcast"
        try:
            return self._in_table(table, address, wary=True).route.type
        except _NoWay:
            return "unicast"

    def _own(self, route: Route) -> _Reached:
        """The next hop of a route of scope host: it needs a device, which need not be up."""
        if len(route.legs) > 1:
            raise Refused(errno.EINVAL, "Route with host scope can not have multiple nexthops")
        leg = route.legs[0] if route.legs else NextHop()
        if leg.gateway is not None:
            raise Refused(errno.EINVAL, "Route with host scope can not have a gateway")
        device = self._devices.find(leg.dev)
        if device is None:
            raise Refused(errno.ENODEV)
        return _Reached(NextHop(device.name, weight=leg.weight, onlink=leg.onlink), _SCOPE_NOWHERE)

    def _leg(self, leg: NextHop, route: Route) -> _Reached:
        if leg.gateway is None:
            return self._straight(leg)
        if leg.gateway.version == IPV6:
            # Known limit: Linux looks it up in its IPv6 tables; here every IPv6 neighbour is on-link.
            return self._straight(attrs.evolve(leg, onlink=False))
        return self._onlink(leg, route) if leg.onlink else self._gateway(leg, route)

    def _straight(self, leg: NextHop) -> _Reached:
        """The next hop of a route without a gateway: its device must be up."""
        if leg.onlink:
            raise Refused(errno.EINVAL, "Invalid flags for nexthop - PERVASIVE and ONLINK can not be set")
        device = self._devices.find(leg.dev)
        if device is None:
            raise Refused(errno.ENODEV)
        if not device.up:
            raise Refused(errno.ENETDOWN, "Device for nexthop is not up")
        return _Reached(_as_found(leg, device), SCOPE_HOST)

    def _onlink(self, leg: NextHop, route: Route) -> _Reached:
        """The gateway is assumed to be on-link."""
        if route.scope >= SCOPE_LINK:
            raise Refused(errno.EINVAL, "Nexthop has invalid scope")
        device = self._devices.find(leg.dev)
        if device is None:
            raise Refused(errno.ENODEV, "Nexthop device required for onlink")
        if not device.up:
            raise Refused(errno.ENETDOWN, "Nexthop device is not up")
        if self.type_of(int(leg.gateway or 0), TABLE_LOCAL) != "unicast":
            raise Refused(errno.EINVAL, "Nexthop has invalid gateway")
        return _Reached(_as_found(leg, device), SCOPE_LINK)

    def _gateway(self, leg: NextHop, route: Route) -> _Reached:
        """The gateway must have a narrower scope than the route: on-link, by this device."""
        scope = max(route.scope + 1, SCOPE_LINK)
        try:
            way = self._to_gateway(int(leg.gateway or 0), route.table, scope=scope, dev=leg.dev)
        except _NoWay as error:
            raise Refused(error.number, "Nexthop has invalid gateway") from error
        if way.route.type not in {"unicast", "local"}:
            raise Refused(errno.EINVAL, "Nexthop has invalid gateway")
        device = self._devices.find(way.leg.dev)
        if device is None:
            raise Refused(errno.EINVAL, "No egress device for nexthop gateway")
        if not device.up:
            raise Refused(errno.ENETDOWN)
        return _Reached(_as_found(attrs.evolve(leg, dev=device.name), device), way.route.scope)

    def _may_prefer(self, route: Route) -> bool:
        """Whether the preferred source is an address of this host, or is about to become one."""
        source = int(route.prefsrc or 0)
        if route.type == "local" and route.prefix.network == source:
            return True
        table = TABLE_LOCAL if route.table == TABLE_MAIN else route.table
        return "local" in {self.type_of(source, table), self.type_of(source, TABLE_LOCAL)}

    def _to_gateway(self, address: int, table: int, *, scope: int, dev: str | None) -> _Way:
        """The route to a gateway: from the table of the route that uses it, then by the rules."""
        if table != TABLE_MAIN:
            try:
                return self._in_table(table, address, scope=scope, dev=dev)
            except _NoWay:
                pass
        if self._rules.custom:
            return self._by_rules(address, scope, dev)
        # Without custom rules Linux looks up these two tables.
        for each in (TABLE_MAIN, TABLE_DEFAULT):
            try:
                return self._in_table(each, address, scope=scope, dev=dev)
            except _NoWay as error:
                if error.number != errno.EAGAIN:
                    raise
        raise _NoWay(errno.ENETUNREACH)

    def _in_table(
        self, table: int, address: int, *, scope: int = 0, dev: str | None = None, wary: bool = False
    ) -> _Way:
        """The route of one table for the address, among routes of this scope or a narrower one."""
        for installed in self._tables.covering(address, self._together(table)):
            route = installed.route
            if route.tos or route.scope < scope:
                continue
            if route.type in PATHLESS:
                raise _NoWay(PATHLESS[route.type])
            leg = None if installed.dead else self._usable(installed, dev, wary=wary)
            if leg is not None:
                return _Way(route, leg)
        raise _NoWay(errno.EAGAIN)

    def _by_rules(self, address: int, scope: int, dev: str | None) -> _Way:
        every = [link.shown() for link in self._devices]
        covering = [
            installed.route
            for installed in self._tables.covering(address, list(self._tables))
            if installed.route.scope >= scope and not installed.dead
        ]
        snapshot = Snapshot(
            links=tuple(attrs.evolve(link, ignore_routes_with_linkdown=False) for link in every),
            rules=self._rules.in_force(),
            routes=covering,
        )
        # This is not a lookup for a packet: it has no protocol.
        flow = attrs.evolve(PLAIN, ipproto=0, oif=dev or "")
        decision = Fib(snapshot, merged=False).lookup(ip_at(IPV4, address), flow)
        if decision.route is None:
            raise _NoWay(_RULE_ERRORS.get(decision.rule.action if decision.rule else "nop", errno.ENETUNREACH))
        if decision.route.type in PATHLESS:
            raise _NoWay(PATHLESS[decision.route.type])
        legs = [leg for leg in decision.legs if dev in {None, leg.dev}]
        return _Way(decision.route, legs[0])

    def _together(self, table: int) -> tuple[int, ...]:
        """The tables that are searched together: until the first custom rule, Linux keeps local and main merged."""
        merged = not self._rules.custom and table in {TABLE_LOCAL, TABLE_MAIN}
        return (TABLE_LOCAL, TABLE_MAIN) if merged else (table,)

    def _usable(self, installed: Installed, dev: str | None, *, wary: bool) -> NextHop | None:
        """The first next hop by the device; with `wary`, none that is skipped because of its lost carrier."""
        for leg in installed.route.legs:
            lost = wary and leg.linkdown and self._devices.ignores_linkdown(leg.dev, IPV4)
            if dev in {None, leg.dev} and not leg.dead and not lost:
                return leg
        return None


def _as_found(leg: NextHop, device: Device) -> NextHop:
    return attrs.evolve(leg, linkdown=not device.carrier)


# Where a route is stored.


class Routes:
    """The IPv4 routes of the host."""

    def __init__(self, devices: Devices, rules: Rules) -> None:
        """Start empty."""
        self._rules = rules
        self._tables: Tables[Installed] = Tables(IPV4)
        self.checks = Checks(self._tables, rules, devices)

    def change(self, verb: Verb, route: Route) -> None:
        """Carry out one change; Refused if Linux would refuse it."""
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
        except Refused:
            return

    def take(self, route: Route) -> None:
        """Delete a route of an address, if it still exists."""
        try:
            self._delete(route)
        except Refused:
            return

    def rule_came(self, rule: Rule) -> None:
        """Do nothing: in IPv4 a rule does not create a table."""

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
            raise Refused(errno.ESRCH, "FIB table does not exist")
        there = self._tables.at(wanted.table, wanted.prefix)
        for place, installed in enumerate(there):
            if is_meant(installed.route, wanted):
                del there[place]
                self._tables.put(wanted.table, wanted.prefix, there)
                return
        raise Refused(errno.ESRCH)

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
        ranks = [(-member.route.tos, member.route.metric) for member in there]
        first = sum(1 for other in ranks if other < rank)
        after = sum(1 for other in ranks if other <= rank)
        same = there[first:after]
        twin = next((place for place, member in enumerate(same) if member.twin_of(new)), None)
        if same and verb == "replace":
            if twin is None:
                there[first] = new
            elif twin:
                raise Refused(errno.EEXIST)
        elif (same and verb == "add") or twin is not None:
            raise Refused(errno.EEXIST)
        else:
            there.insert(first if verb == "prepend" else after, new)
        self._tables.put(route.table, route.prefix, there)

    def _flush(self) -> None:
        self._tables.drop([installed for installed in self._tables.everything() if installed.dead])


def _as_said(leg: NextHop) -> NextHop:
    """The next hop without a gateway of 0.0.0.0, which means no gateway."""
    return leg if leg.gateway is None or int(leg.gateway) else attrs.evolve(leg, gateway=None)


# The routes of addresses.

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
            raise Refused(errno.EEXIST, "ipv4: Address already assigned")
        for position, held in enumerate(device.ipv4):
            if not held.secondary and address.scope <= held.address.scope:
                place = position + 1
            if _together(held, new):
                if held.address.scope != address.scope:
                    raise Refused(errno.EINVAL, "ipv4: Invalid scope value")
                new.secondary = True
        device.ipv4.insert(len(device.ipv4) if new.secondary else place, new)
        self._bring(device, new)
        if len(device.ipv4) == 1:
            self._routes.device_up(device)

    def delete(self, device: Device, address: Address) -> None:
        """Delete the address, and with the last one every IPv4 route of the device."""
        held = next(
            (holding for holding in device.ipv4 if holding.ip == address.ip and _together(holding, Holding(address))),
            None,
        )
        if held is None:
            raise Refused(errno.EADDRNOTAVAIL, "ipv4: Address not found")
        self._remove(device, held)

    def device_up(self, device: Device) -> None:
        """Add the routes of the device's addresses when it is set up."""
        if device.loopback:
            with suppress(Refused):  # it has 127.0.0.1 already, or one of its network without scope host
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
            seconds = [holding for holding in later if holding.secondary and _together(holding, gone)]
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
        """Put the first secondary address in the place of the primary one, as close as its scope allows."""
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
    return next((holding for holding in device.ipv4 if _together(holding, held)), None)


def _sharing(device: Device, gone: Holding, primary: Holding, under: Holding | None) -> list[tuple[Holding, bool]]:
    """The other addresses with the same preferred source for their routes; and whether each is primary."""
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
