"""FakeKernel: a kernel's routing in memory, for tests of code that uses a RouteBackend.

It does what Linux does with devices, with addresses and the routes that the kernel adds for them, with rules, and with
routes that are added, replaced and deleted. One property test compares it with Linux, event by event.

It leaves out the rest, and it does not notice if a test relies on that:

- a second address in the network of another one of the same device is refused, because Linux has two ways to go on when
  the first one is deleted;
- link-local addresses are only there if a test adds them, and no router advertises anything;
- scopes, types, tos, sources (`from`), preferences, weights and an mtu are stored, and neither checked nor used;
- a route never expires;
- a gateway is looked up in the tables local and main and in that of its route, whatever the rules say;
- a route with several next hops is one entry, in IPv6 too: nothing is merged with it, and it loses a next hop only if
  its device is deleted;
- lookups are those of `hostrouting.fib` for a plain packet, so what that does not judge is not judged here either;
- tables are listed by number, and the routes of a table by prefix. The order of routes to one prefix is Linux's.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_interface
from typing import NamedTuple

from hostrouting.errors import BackendError
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import Answer, Outcome, RouteBackend, RouteRequest, Verb, part_of
from hostrouting.model.prefix import IP, IPV4, IPV6, MULTICAST, Prefix, ip_at, width_of
from hostrouting.model.route import (
    DEFAULT_METRIC,
    PATHLESS,
    PROTOCOL_KERNEL,
    REFUSING,
    SCOPE_HOST,
    SCOPE_LINK,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteType,
)
from hostrouting.model.rule import Rule, by_priority, default_rules
from hostrouting.model.snapshot import ARPHRD_LOOPBACK, Address, Link, Snapshot
from hostrouting.testing.watch import FakeWatch

_LOOPBACK = "lo"
_PROTOCOL_BOOT = 3
_CONNECTED_METRIC = 256  # of an IPv6 route to the network of an address
_ERRNO: dict[str, int] = {
    "refused": errno.EACCES,
    "exists": errno.EEXIST,
    "no-such-route": errno.ESRCH,
    "no-such-device": errno.ENODEV,
    "device-down": errno.ENETDOWN,
    "gateway-not-on-link": errno.ENETUNREACH,
    "invalid": errno.EINVAL,
}
"""The seven ways in which a route is refused."""
KIND_OF_REFUSAL: dict[int, str] = {number: kind for kind, number in _ERRNO.items()}
_LARGEST = {"table": (1 << 32) - 1, "metric": (1 << 32) - 1, "protocol": 255, "tos": 255, "mtu": (1 << 32) - 1}


class _Refused(Exception):  # noqa: N818  what the kernel says
    """A route is refused: the kind and a sentence."""

    def __init__(self, kind: str, sentence: str) -> None:
        """Keep both."""
        self.kind, self.sentence = kind, sentence
        super().__init__(sentence)


class _Place(NamedTuple):
    """Where routes that exclude each other by their metric are stored."""

    table: int
    prefix: Prefix


class FakeKernel(RouteBackend):
    """A RouteBackend without a kernel, and the methods by which a test changes its host.

    `str()` lists rules and routes. Each method that changes the host raises BackendError where Linux would refuse.
    """

    def __init__(self, *, ipv6_forwarding: bool = False) -> None:
        """Start like a new network namespace: with lo, which is down, and the default rules.

        `ipv6_forwarding` is the setting net.ipv6.conf.all.forwarding, which nodes of Kubernetes have.
        """
        self._ipv6_forwarding = ipv6_forwarding
        self._links: dict[str, Link] = {}
        self._unplugged: set[str] = set()
        self._addresses: list[Address] = []
        self._rules = [*default_rules(IPV4), *default_rules(IPV6)]
        self._routes: dict[_Place, list[Route]] = {}
        self._happenings: list[Callable[[], object]] = []
        self._watches: list[FakeWatch] = []
        self._closed = False
        self._snapshot: Snapshot | None = None
        self._fibs: dict[int, Fib] = {}
        self.add_link(Link(name=_LOOPBACK, index=1, type=ARPHRD_LOOPBACK, up=False))

    # The contract of RouteBackend

    def snapshot(
        self, *, family: int | None = None, reached: bool = False, near: Collection[Prefix] | None = None
    ) -> Snapshot:
        """See RouteBackend. It is never restless: `FaultyBackend` can make it so."""
        self._require_open()
        return part_of(self._now(), family=family, reached=reached, near=near)

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """See RouteBackend."""
        self._require_open()
        families = {destination.version for destination in destinations}
        if len(families) > 1:
            raise ValueError("IPv4 and IPv6 destinations in one lookup")
        for family in families - self._fibs.keys():
            self._fibs[family] = Fib(self._now(), family)
        return tuple(_answer(self._fibs[destination.version], destination) for destination in destinations)

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        self._require_open()
        return tuple(Outcome(request, self._refusal(request)) for request in requests)

    def watch(self) -> FakeWatch:
        """See RouteBackend; `later` says what happens in a wait."""
        self._require_open()
        watch = FakeWatch(self._happenings)
        self._watches.append(watch)
        return watch

    def close(self) -> None:
        """See RouteBackend. The state stays: a test can still change it and print it."""
        self._closed = True

    # What a test does with the host

    def add_link(self, name: str | Link, *, up: bool = True, carrier: bool = True) -> Link:
        """Add a device, given by name or as a Link; an index of 0 is replaced by the next free one."""
        link = name if isinstance(name, Link) else Link(name=name, index=0, up=up, carrier=carrier)
        with self._changing(f"add link {link.name}"):
            if link.name in self._links:
                raise _Refused("exists", "the device exists already")
            index = link.index or max((other.index for other in self._links.values()), default=0) + 1
            self._links[link.name] = link._replace(index=index, up=False, carrier=True)
            if not link.carrier:
                self._unplugged.add(link.name)
        if link.up:
            self.set_up(link.name)
        return self._shown(link.name)

    def delete_link(self, name: str) -> None:
        """Delete a device, with its addresses and routes; rules that name it stay, and select nothing."""
        with self._changing(f"delete link {name}"):
            if self._link(name).loopback:
                raise _Refused("refused", "lo cannot be deleted")
            self._go_down(name)
            for address in self._on(name):
                self._take_address(address)
            self._revise(lambda route: _without(route, name))
            del self._links[name]

    def set_up(self, name: str) -> None:
        """Set a device up: the routes of its addresses come back, other routes do not."""
        with self._changing(f"set {name} up"):
            if self._link(name).up:
                return
            self._links[name] = self._links[name]._replace(up=True)
            if self._links[name].loopback:
                for text in ("127.0.0.1/8", "::1/128"):
                    address = _as_address(name, text, scope=SCOPE_HOST)
                    if address.ip not in [other.ip for other in self._on(name)]:
                        self._addresses.append(address)
            for address in self._on(name):
                self._bring(address)
            if self._shown(name).carrier:
                self._bring_multicast(name)

    def set_down(self, name: str) -> None:
        """Set a device down: its routes go, except those to its IPv4 addresses; IPv6 addresses go, too."""
        with self._changing(f"set {name} down"):
            self._go_down(name)

    def set_carrier(self, name: str, *, carrier: bool) -> None:
        """Change the carrier of a device: its routes stay, and are marked linkdown without it."""
        with self._changing(f"set the carrier of {name}"):
            self._link(name)
            (self._unplugged.discard if carrier else self._unplugged.add)(name)
            if self._shown(name).carrier:
                self._bring_multicast(name)

    def add_address(
        self, dev: str, interface: str | Address, *, scope: int = 0, broadcast: IP | None = None
    ) -> Address:
        """Add an address such as 10.0.0.4/24 to a device, with its routes. An IPv6 address is usable at once."""
        address = _as_address(dev, interface, scope=scope, broadcast=broadcast)
        with self._changing(f"add address {address.ip}/{address.length} to {dev}"):
            if self._link(dev).ipv6_disabled and address.ip.version == IPV6:
                raise _Refused("refused", "IPv6 is disabled on this device")
            for other in self._on(dev, address.ip.version):
                if other.ip == address.ip and (other.network == address.network or address.ip.version == IPV6):
                    raise _Refused("exists", "the address is assigned already")
                if other.network == address.network and address.ip.version == IPV4:
                    raise _Refused("invalid", "FakeKernel knows one address for each network of a device")
            self._addresses.append(address)
            self._bring(address)
            if address.ip.version == IPV6 and self._links[dev].up:
                self._bring_multicast(dev)
        return address

    def delete_address(self, dev: str, interface: str | Address) -> None:
        """Delete an address, with its routes; with the last one of IPv4, all IPv4 routes of the device."""
        address = _as_address(dev, interface)
        with self._changing(f"delete address {address.ip}/{address.length} from {dev}"):
            self._link(dev)
            places = [(other.ip, other.length) for other in self._on(dev)]
            if (address.ip, address.length) not in places:
                raise _Refused("no-such-route", "the address is not there")
            self._take_address(self._on(dev)[places.index((address.ip, address.length))])

    def add_rule(self, rule: Rule) -> None:
        """Add a rule, after those of the same priority."""
        with self._changing(f"add rule {rule}"):
            if rule in self._rules:
                raise _Refused("exists", "the rule exists already")
            self._rules.append(rule)

    def delete_rule(self, rule: Rule) -> None:
        """Delete exactly this rule."""
        with self._changing(f"delete rule {rule}"):
            if rule not in self._rules:
                raise _Refused("no-such-route", "the rule does not exist")
            self._rules.remove(rule)

    def ip_route(self, verb: Verb, route: Route) -> None:
        """Change a route as another program would, also after `close`."""
        error = self._refusal(RouteRequest(verb, route))
        if error is not None:
            raise error

    def later(self, happening: Callable[[], object]) -> None:
        """Call the function during a wait for a change. Each wait goes on until one changes something."""
        self._happenings.append(happening)

    def __str__(self) -> str:
        now = self._now()
        return "".join(f"{thing}\n" for thing in (*now.rules, *now.routes))

    # The state

    def _now(self) -> Snapshot:
        if self._snapshot is None:
            names = sorted(self._links, key=lambda name: self._links[name].index)
            places = sorted(self._routes, key=lambda place: (place.prefix.family, place.table, place.prefix))
            self._snapshot = Snapshot(
                links=tuple(self._shown(name) for name in names),
                addresses=tuple(address for name in names for address in self._on(name)),
                rules=tuple(sorted(by_priority(self._rules), key=lambda rule: rule.family)),
                routes=tuple(self._marked(route) for place in places for route in self._routes[place]),
                ipv6_forwarding=self._ipv6_forwarding,
            )
        return self._snapshot

    def _shown(self, name: str) -> Link:
        """The device with its carrier, which a device that is down does not have."""
        link = self._links[name]
        return link._replace(carrier=link.up and name not in self._unplugged)

    def _marked(self, route: Route) -> Route:
        """The route with the state of its next hops, which is that of their devices."""
        if route.type in {"local", "anycast"} or not any(leg.dev for leg in route.legs):
            return route
        legs = []
        for leg in route.legs:
            link = self._shown(leg.dev or _LOOPBACK)
            ignores = link.ignore_routes_with_linkdown
            if route.prefix.family == IPV6:
                ignores = link.ipv6_ignore_routes_with_linkdown
            legs.append(leg._replace(linkdown=not link.carrier, dead=not link.carrier and (ignores or not link.up)))
        return route._replace(legs=tuple(legs))

    def _require_open(self) -> None:
        if self._closed:
            raise BackendError("the backend was closed", kind="unusable")

    def _refusal(self, request: RouteRequest) -> BackendError | None:
        """Carry out the request; the error if it is refused."""
        route = request.route
        try:
            self._require_fit(route)
            if request.verb == "delete":
                self._delete(route)
            else:
                self._insert(self._accepted(route), replace=request.verb == "replace")
        except _Refused as error:
            return refusal_of(request, error.kind, error.sentence)
        self._report()
        return None

    @contextmanager
    def _changing(self, what: str) -> Iterator[None]:
        try:
            yield
        except _Refused as error:
            raise BackendError(f"cannot {what}: {error.sentence}", errno=_ERRNO[error.kind]) from error
        finally:
            self._report()

    def _report(self) -> None:
        self._snapshot = None
        self._fibs.clear()
        for watch in self._watches:
            watch.report()

    # Devices and addresses

    def _link(self, name: str) -> Link:
        if name not in self._links:
            raise _Refused("no-such-device", f"device {name} does not exist")
        return self._links[name]

    def _on(self, name: str, family: int | None = None) -> list[Address]:
        """The addresses of the device."""
        return [address for address in self._addresses if address.dev == name and family in {None, address.ip.version}]

    def _go_down(self, name: str) -> None:
        if not self._link(name).up:
            return
        self._links[name] = self._links[name]._replace(up=False)
        for address in self._on(name, IPV6):
            self._take_address(address)
        self._revise(lambda route: route if self._survives(route, name) else None)

    def _survives(self, route: Route, name: str) -> bool:
        """Whether a route stays when this device goes down: other devices lead on, or it is to an IPv4 address."""
        if name not in route.devs or (route.prefix.family == IPV4 and route.scope == SCOPE_HOST):
            return True
        return any(leg.dev and leg.dev != name and self._links[leg.dev].up for leg in route.legs)

    def _take_address(self, address: Address) -> None:
        """Delete an address, and the routes of it that no other address of the device needs."""
        self._addresses.remove(address)
        family, dev, own = address.ip.version, address.dev, Prefix.of(address.ip)
        others = self._on(dev, family)
        needed = [route for other in others for route in self._brought(other)]
        for route in self._brought(address):
            if family == IPV6 and route.table == TABLE_MAIN:
                # Linux does not look at who added the route, or at its metric.
                if route.prefix not in [there.prefix for there in needed]:
                    self._take(route.table, route.prefix, lambda there: there.devs == (dev,) and not _gateways(there))
            elif route not in needed:
                self._take(route.table, route.prefix, partial(_is_same, route))
        if family == IPV4 and not others:
            self._revise(lambda route: None if route.prefix.family == IPV4 and dev in route.devs else route)
        if any(route.type == "local" for route in self._routes.get(_Place(TABLE_LOCAL, own), ())):
            return
        if family == IPV4:
            lost = (TABLE_MAIN, address.ip)
            self._revise(lambda route: None if (route.table, route.prefsrc) == lost else route)
        else:
            self._revise(lambda route: route._replace(prefsrc=None) if route.prefsrc == address.ip else route)

    def _bring(self, address: Address) -> None:
        """Add the routes of an address; those to its network only while the device is up."""
        for route in self._brought(address):
            if (route.type == "local" and route.prefix == Prefix.of(address.ip)) or self._links[address.dev].up:
                self._append(route)

    def _bring_multicast(self, name: str) -> None:
        """Add the IPv6 route to multicast addresses that a device gets with a carrier, or with an address."""
        link = self._links[name]
        if link.loopback or link.ipv6_disabled:
            return
        prefix, leg = Prefix.of(MULTICAST[IPV6]), NextHop(name)
        self._append(
            Route(
                prefix, (leg,), table=TABLE_LOCAL, type="multicast", metric=_CONNECTED_METRIC, protocol=PROTOCOL_KERNEL
            )
        )

    def _brought(self, address: Address) -> list[Route]:
        """The routes that the kernel adds for an address of a device that is up."""
        own, network, legs = Prefix.of(address.ip), address.network, (NextHop(address.dev),)
        if address.ip.version == IPV6:
            local = Route(own, legs, table=TABLE_LOCAL, type="local", protocol=PROTOCOL_KERNEL)
            connected = Route(network, legs, metric=address.metric or _CONNECTED_METRIC, protocol=PROTOCOL_KERNEL)
            return [local, connected] if address.prefix_route and not address.ip.is_loopback else [local]

        def brought(kind: RouteType, prefix: Prefix, metric: int = 0) -> Route:
            return Route(
                prefix,
                legs,
                table=TABLE_MAIN if kind == "unicast" else TABLE_LOCAL,
                type=kind,
                scope=SCOPE_HOST if kind == "local" else SCOPE_LINK,
                protocol=PROTOCOL_KERNEL,
                prefsrc=address.ip,
                metric=metric,
            )

        routes = [brought("local", own)]
        if address.broadcast is not None:
            routes.append(brought("broadcast", Prefix.of(address.broadcast)))
        if network == own:
            return routes
        if address.prefix_route:
            kind: RouteType = "local" if self._links[address.dev].loopback else "unicast"
            routes.append(brought(kind, network, address.metric))
        if network.length < width_of(IPV4) - 1:
            routes.append(brought("broadcast", Prefix.of(ip_at(IPV4, network.last))))
        return list(dict.fromkeys(routes))

    # Routes

    def _accepted(self, route: Route) -> Route:
        """The route as it is stored; _Refused if Linux refuses it."""
        if route.type in PATHLESS:
            if route.prefix.family == IPV4 and route.devs:
                raise _Refused("invalid", f"a {route.type} route has no next hop")
            legs: tuple[NextHop, ...] = ()
        else:
            legs = tuple(self._accepted_hop(leg, route) for leg in route.legs or (NextHop(),))
        if route.prefsrc is not None and not self._is_own(route.prefsrc):
            raise _Refused("invalid", f"preferred source {route.prefsrc} is not an address of this host")
        if route.prefix.family == IPV4:
            return route._replace(legs=legs)
        protocol, metric = route.protocol or _PROTOCOL_BOOT, route.metric or DEFAULT_METRIC[IPV6]
        return route._replace(legs=legs, protocol=protocol, metric=metric, scope=0)

    def _accepted_hop(self, leg: NextHop, route: Route) -> NextHop:
        leg = leg._replace(linkdown=False, dead=False, weight=leg.weight if len(route.legs) > 1 else 1)
        link = None if leg.dev is None else self._link(leg.dev)
        if link is None and leg.gateway is None:
            raise _Refused("no-such-device", "the route has no device")
        if link is not None and link.ipv6_disabled and route.prefix.family == IPV6:
            raise _Refused("refused", f"IPv6 is disabled on {link.name}")
        is_assumed = leg.gateway is None or leg.onlink or leg.gateway.version != route.prefix.family
        leg = leg if is_assumed else leg._replace(dev=self._device_of_gateway(leg, route))
        needs_up = route.prefix.family == IPV6 or route.scope != SCOPE_HOST
        if needs_up and leg.dev is not None and not self._links[leg.dev].up:
            raise _Refused("device-down", f"{leg.dev} is down")
        return leg

    def _device_of_gateway(self, leg: NextHop, route: Route) -> str:
        """The device on which the gateway is: that of the route that leads to it without another gateway."""
        gateway = leg.gateway
        assert gateway is not None  # noqa: S101  the caller has asked
        family = gateway.version
        if family == IPV6 and self._is_own(gateway):
            raise _Refused("invalid", f"gateway {gateway} is an address of this host")
        if gateway.version == IPV6 and gateway.is_link_local:
            if leg.dev is None:
                raise _Refused("invalid", "a link-local gateway needs a device")
            return leg.dev
        covering = [
            there
            for place, routes in self._routes.items()
            if place.table in {TABLE_LOCAL, TABLE_MAIN, route.table} and Prefix.of(gateway) in place.prefix
            for there in routes
            if leg.dev in {None, *there.devs} and there.type not in PATHLESS
            # IPv4 leaves out the routes with a gateway; in IPv6 the best route must not be one.
            if family == IPV6 or there.scope >= SCOPE_LINK
        ]
        if not covering or _gateways(best := min(covering, key=_by_length_and_metric)):
            raise _Refused("gateway-not-on-link", f"gateway {gateway} is not on-link{self._where(leg, family)}")
        if best.type == "broadcast":
            raise _Refused("invalid", f"gateway {gateway} is a broadcast address{self._where(leg, family)}")
        return leg.dev or best.devs[0]

    def _where(self, leg: NextHop, family: int) -> str:
        if leg.dev is None:
            return ""
        addresses = ", ".join(f"{address.ip}/{address.length}" for address in self._on(leg.dev, family))
        return f" on {leg.dev} ({addresses or 'no address'})"

    def _is_own(self, ip: IP) -> bool:
        return any(address.ip == ip for address in self._addresses)

    def _require_fit(self, route: Route) -> None:
        for name, largest in _LARGEST.items():
            value = getattr(route, name)
            if value is not None and not 0 <= value <= largest:
                raise _Refused("invalid", f"{name} {value} is not in 0..{largest}")
        for leg in route.legs:
            if leg.dev is not None:
                self._link(leg.dev)

    def _insert(self, route: Route, *, replace: bool) -> None:
        routes = self._routes.setdefault(_Place(route.table, route.prefix), [])
        rivals = [there for there in routes if there.metric == route.metric]
        if rivals and not replace:
            problem = "this route" if any(_is_same(there, route) for there in rivals) else "another route"
            raise _Refused("exists", f"{problem} has the same destination and metric: [{rivals[0]}]")
        if not rivals:
            self._append(route)
            return
        # IPv6 replaces a route with a gateway by one with a gateway, if there is such a one.
        is_ipv6 = route.prefix.family == IPV6
        alike = (there for there in rivals if is_ipv6 and _gateways(there) == _gateways(route))
        replaced = next(alike, rivals[0])
        if any(_is_same(there, route) for there in rivals if there is not replaced):
            raise _Refused("exists", "this route exists already, behind another one of the same metric")
        routes[[there is replaced for there in routes].index(True)] = route

    def _append(self, route: Route) -> None:
        """Add a route behind those of its metric, unless it is there."""
        routes = self._routes.setdefault(_Place(route.table, route.prefix), [])
        if not any(_is_same(there, route) for there in routes):
            routes.insert(sum(there.metric <= route.metric for there in routes), route)

    def _delete(self, route: Route) -> None:
        if not self._take(route.table, route.prefix, lambda there: _is_meant(there, route)):
            raise _Refused("no-such-route", "this route does not exist")

    def _take(self, table: int, prefix: Prefix, is_meant: Callable[[Route], bool]) -> bool:
        """Delete the first route that is meant; whether there was one."""
        routes = self._routes.get(_Place(table, prefix), [])
        for number, route in enumerate(routes):
            if is_meant(route):
                del routes[number]
                return True
        return False

    def _revise(self, revised: Callable[[Route], Route | None]) -> None:
        """Replace each route by what the function makes of it; None deletes it."""
        for place, routes in self._routes.items():
            self._routes[place] = [route for route in map(revised, routes) if route is not None]


def _as_address(dev: str, interface: str | Address, *, scope: int = 0, broadcast: IP | None = None) -> Address:
    if isinstance(interface, Address):
        return interface._replace(dev=dev)
    parsed = ip_interface(interface)
    return Address(ip=parsed.ip, length=parsed.network.prefixlen, dev=dev, scope=scope, broadcast=broadcast)


def _gateways(route: Route) -> bool:
    """Whether the route has a gateway."""
    return any(leg.gateway is not None for leg in route.legs)


def _by_length_and_metric(route: Route) -> tuple[int, int]:
    return -route.prefix.length, route.metric


def _is_same(there: Route, route: Route) -> bool:
    """Whether Linux takes both for one route: in IPv6, whether they have the same metric and next hops."""
    if there.prefix.family == IPV6:
        ways = [{(leg.dev, leg.gateway) for leg in one.legs} for one in (there, route)]
        return there.metric == route.metric and ways[0] == ways[1]
    return there == route


def _is_meant(there: Route, route: Route) -> bool:
    """Whether a request to delete `route` matches this one: a field that it leaves open matches anything."""
    if route.metric not in {0, there.metric} or route.protocol not in {0, there.protocol}:
        return False
    if route.prefix.family == IPV4:
        if (route.type, route.scope) != (there.type, there.scope) or route.prefsrc not in {None, there.prefsrc}:
            return False
        if any(getattr(route, name) not in {None, getattr(there, name)} for name in ("mtu", "advmss")):
            return False
    if len(route.legs) > 1 and len(there.legs) != len(route.legs):
        return False
    hops = there.legs or (NextHop(_LOOPBACK),)
    return all(
        leg.dev in {None, hop.dev} and leg.gateway in {None, hop.gateway}
        for leg, hop in zip(route.legs, hops, strict=False)
    )


def _without(route: Route, name: str) -> Route | None:
    """The route after this device was deleted: IPv4 deletes the whole route, IPv6 the next hop."""
    if name not in route.devs:
        return route
    legs = tuple(leg for leg in route.legs if leg.dev != name)
    return route._replace(legs=legs) if legs and route.prefix.family == IPV6 else None


def _answer(fib: Fib, destination: IP) -> Answer:
    kind, route, _ = fib.lookup(destination)
    if route is None:
        # Linux gives the same error for a rule's "unreachable" and for no route.
        return Answer("blackhole" if kind == "blackhole" else "prohibit" if kind == "prohibit" else "no-route", None)
    return Answer(route.type, None if route.type in REFUSING else route)


def refusal_of(request: RouteRequest, kind: str, problem: str, *, number: int | None = None) -> BackendError:
    """The error of a request that is refused in this way; another errno can be given."""
    number = number or _ERRNO[kind]
    sentence = f"cannot {request.verb} {request.route}: {problem}"
    return BackendError(sentence, kind=kind, route=str(request.route), errno=number, kernel=os.strerror(number))
