"""FakeKernel: a kernel's routing in memory, for tests of code that uses a RouteBackend.

The fake kernel does what Linux does when devices are added, set up and deleted; when addresses are
added, with the routes that Linux adds for them; when rules are added; and when routes are added,
appended or deleted. A property test compares it with Linux after each event.

The rest is left out, as follows; a test that relies on it is not warned:

- devices, addresses and rules are not checked: each is added once, and lo is not deleted;
- a device that is set up has a carrier, and is never set down;
- an address goes only with its device;
- an address has no peer, broadcast address, metric or scope of its own;
- link-local addresses and IPv6 routes to multicast addresses are only there if a test adds them,
  Linux has IPv6, which is disabled on no device, and no router advertises anything;
- no gateway is refused that is an address of this host or a broadcast address, or that is one of
  IPv4 for an IPv6 route;
- the kind, type and master of a device are stored, and not checked;
- there are no nexthop objects;
- types, tos, sources (`from`), preferences, weights and an mtu of a route are stored, and neither
  checked nor used; its scope decides whether a gateway can be reached by it, and is not checked;
- a route never expires, and a route that refuses packets has no next hop;
- a device has to be up for every route, where Linux also takes an IPv4 route of scope host by one
  that is down;
- a next hop that is added has to name its device, where Linux finds that of a gateway itself;
- a gateway is looked up in the tables local and main alone, whatever the rules say and whichever
  table its route is in;
- a lookup returns an IPv6 route with several next hops as it is listed; Linux puts the next hop
  that it uses first;
- lookups are those of `hostrouting.fib` for a plain packet, so what `fib` does not judge is not
  judged here either;
- tables are listed by number, and the routes of a table by prefix. Routes to one prefix are in
  Linux's order.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from ipaddress import ip_interface
from itertools import groupby, product
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import (
    Answer,
    LookupEnd,
    Outcome,
    RouteBackend,
    RouteRequest,
    Verb,
    Watch,
)
from hostrouting.kernel.netlink.routes import encode
from hostrouting.kernel.netlink.socket import KernelError
from hostrouting.kernel.refusals import refusal
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, ip_at, width_of
from hostrouting.model.route import (
    DEFAULT_METRIC,
    PATHLESS,
    PROTOCOL_BOOT,
    PROTOCOL_KERNEL,
    REFUSING,
    SCOPE_HOST,
    SCOPE_LINK,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    entries_of_route,
    routes_of_entries,
)
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import ARPHRD_LOOPBACK, Address, Link, Snapshot

if TYPE_CHECKING:
    from phases import Clock

_LOOPBACK = "lo"
_BY_LO = (NextHop(_LOOPBACK),)  # what Linux gives to an IPv6 route without next hops (unreachable)
_REFUSED_BY_RULE: dict[str, LookupEnd] = {"blackhole": "blackhole", "prohibit": "prohibit"}
"""The answer if a rule refuses. Not for "unreachable": Linux answers as if no route were found."""
_CONNECTED_METRIC = 256  # of an IPv6 route to the network of an address


class FakeKernel(RouteBackend):
    """Linux's routing in memory: a RouteBackend, and methods with which a test changes the host.

    `str()` lists rules and routes.
    """

    def __init__(self, *, ipv6_forwarding: bool = False) -> None:
        """Start like a new network namespace: with lo, which is down, and the default rules.

        `ipv6_forwarding` is the setting net.ipv6.conf.all.forwarding, which is 1 on nodes of
        Kubernetes.
        """
        self._ipv6_forwarding = ipv6_forwarding
        self._links: dict[str, Link] = {}
        self._addresses: list[Address] = []
        self._rules = [*default_rules(IPV4), *default_rules(IPV6)]
        # The entries by table and prefix, sorted by metric. In IPv6, an entry has at most one next
        # hop.
        self._routes: dict[tuple[int, Prefix], list[Route]] = {}
        # The functions that a test has given to `later`: the next wait of a watch calls them.
        self._happenings: list[Callable[[], object]] = []
        self._watches: list[FakeWatch] = []
        self._closed = False
        # Made from the state above when it is needed; None again after each change of the state.
        self._snapshot: Snapshot | None = None
        self.add_link(Link(name=_LOOPBACK, index=1, type=ARPHRD_LOOPBACK, up=False))

    # The contract of RouteBackend

    def snapshot(
        self,
        *,
        near: Collection[Prefix] | None = None,  # noqa: ARG002  all routes are returned
    ) -> Snapshot:
        """See RouteBackend. The snapshot never says that the tables changed while it was taken
        (`restless`); a FaultyBackend can make it say so.
        """
        self._require_open()
        return self._current_snapshot()

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        self._require_open()
        fibs = {family: Fib(self._current_snapshot(), family) for family in (IPV4, IPV6)}
        return tuple(
            _answer(fibs[destination.version], destination) for destination in destinations
        )

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        self._require_open()
        return tuple(Outcome(request, self._apply(request)) for request in requests)

    def watch(self) -> FakeWatch:
        """See RouteBackend. A wait of the watch calls the functions that a test gave to `later`."""
        self._require_open()
        watch = FakeWatch(self._happenings)
        self._watches.append(watch)
        return watch

    def close(self) -> None:
        """See RouteBackend. The state stays: a test can still change it and print it."""
        self._closed = True

    # What a test does with the host

    def add_link(self, name: str | Link, *, up: bool = True) -> Link:
        """Add a device, given by name or as a Link; an index of 0 stands for the next free one."""
        link = name if isinstance(name, Link) else Link(name=name, index=0, up=up)
        indexes = [other.index for other in self._links.values()]
        index = link.index or max(indexes, default=0) + 1
        # Down at first, because `set_up` does nothing with a device that is up.
        self._links[link.name] = link._replace(index=index, up=False)
        self._note_change()
        if link.up:
            self.set_up(link.name)
        return self._links[link.name]

    def delete_link(self, name: str) -> None:
        """Delete a device, with its addresses and routes. Its ports lose their master. Rules that
        name the device stay, and select nothing.
        """
        del self._links[name]
        ips_of_device = {address.ip for address in self._addresses_on(name)}
        self._addresses = [address for address in self._addresses if address.dev != name]
        # Another device may have the same address, which is not lost then.
        lost_ips = ips_of_device - {address.ip for address in self._addresses}
        for port in self._links.values():
            if port.master == name:
                self._links[port.name] = port._replace(master=None)
        for place, routes in self._routes.items():
            left = [route for route in routes if not _is_deleted_with(route, name, lost_ips)]
            self._routes[place] = left
        self._note_change()

    def set_up(self, name: str) -> None:
        """Set a device up, which adds the routes of its addresses."""
        link = self._links[name]
        if link.up:
            return
        self._links[name] = link._replace(up=True)
        if link.loopback:
            self._add_loopback_addresses(name)
        for address in self._addresses_on(name):
            self._add_routes_of(address)
        self._note_change()

    def add_address(self, dev: str, with_length: str) -> Address:
        """Add an address such as 10.0.0.4/24 to a device, with its routes. An IPv6 address is
        usable at once.
        """
        address = _address(dev, with_length)
        self._addresses.append(address)
        self._add_routes_of(address)
        self._note_change()
        return address

    def add_rule(self, rule: Rule) -> None:
        """Add a rule. It stands behind those of the same priority, as in Linux."""
        self._rules.append(rule)
        self._note_change()

    def ip_route(self, verb: Verb, route: Route) -> None:
        """Change a route as another program would. Raises BackendError if Linux would refuse. Can
        be called even after `close`, because the host goes on.
        """
        error = self._apply(RouteRequest(verb, route))
        if error is not None:
            raise error

    def later(self, happening: Callable[[], object]) -> None:
        """Have the function called during a wait for a change, to do what another program does
        meanwhile. A wait calls the functions in order, until one changes something. The next wait
        goes on with the rest.
        """
        self._happenings.append(happening)

    def __str__(self) -> str:
        now = self._current_snapshot()
        return "".join(f"{line}\n" for line in (*now.rules, *now.routes))

    # The state

    def _current_snapshot(self) -> Snapshot:
        """The snapshot of the host. It is kept until something changes."""
        if self._snapshot is None:
            links = sorted(self._links.values(), key=lambda link: link.index)
            addresses = sorted(self._addresses, key=lambda address: self._links[address.dev].index)
            self._snapshot = Snapshot(
                links=tuple(links),
                addresses=tuple(addresses),
                rules=tuple(sorted(self._rules, key=lambda rule: (rule.family, rule.priority))),
                routes=tuple(self._listed_routes()),
                ipv6_forwarding=self._ipv6_forwarding,
            )
        return self._snapshot

    def _listed_routes(self) -> Iterator[Route]:
        """The routes as a snapshot lists them: IPv4 first, then by table and prefix. As in Linux,
        the IPv6 entries with a gateway and the same metric are one route (`routes_of_entries`).
        """
        # A place is a table and a prefix.
        for place in sorted(self._routes, key=lambda place: (place[1].family, *place)):
            for _, entries in groupby(self._routes[place], key=lambda entry: entry.metric):
                yield from routes_of_entries([*entries])

    def _require_open(self) -> None:
        if self._closed:
            raise BackendError("this backend was closed", kind="unusable")

    def _apply(self, request: RouteRequest) -> BackendError | None:
        """Make the change; return the error with which Linux would refuse it, else None."""
        route = request.route
        try:
            # Raises the error of a request that cannot be sent. The message itself is not used.
            encode(request.verb, route, lambda dev: self._link(dev).index)
            if request.verb == "delete":
                self._delete(route)
            else:
                self._insert(self._accepted(route), must_be_only=request.verb == "add")
        except KernelError as error:
            return refusal(request, error.number, error.words)
        finally:
            self._note_change()  # also after a refusal, which may have changed something
        return None

    def _note_change(self) -> None:
        """Forget the snapshot of the old state, and report a change to each watch. Called
        after a refused change, too: if an IPv6 route is to be deleted and one of its next hops is
        missing, Linux refuses, but deletes the others.
        """
        self._snapshot = None
        for watch in self._watches:
            watch.report()

    # Devices and addresses

    def _link(self, name: str) -> Link:
        # The device that a request names. Linux refuses a request with an unknown device.
        if name not in self._links:
            raise KernelError(errno.ENODEV, f"device {name} does not exist")
        return self._links[name]

    def _addresses_on(self, name: str) -> list[Address]:
        return [address for address in self._addresses if address.dev == name]

    def _add_loopback_addresses(self, name: str) -> None:
        """Add the addresses that Linux adds when lo is set up, unless they are there."""
        present = {address.ip for address in self._addresses_on(name)}
        for text in ("127.0.0.1/8", "::1/128"):
            address = _address(name, text, scope=SCOPE_HOST)
            if address.ip not in present:
                self._addresses.append(address)

    def _add_routes_of(self, address: Address) -> None:
        """Add the routes that Linux adds for an address: one to the address itself and, if the
        device is up, others such as the route to its network. In IPv4, only the first address of
        the device in a network has these others.
        """
        link = self._links[address.dev]
        if address.ip.version == IPV6:
            own, *others = _ipv6_routes_of(address)
        else:
            own, *others = _ipv4_routes_of(address, link)
            on_device = self._addresses_on(link.name)
            first = next(other for other in on_device if other.network == address.network)
            own = own._replace(prefsrc=first.ip)  # Linux takes this source for all in the network
            if first != address:
                others = []
        self._append(own)
        if link.up:
            for route in others:
                self._append(route)

    # Routes

    def _accepted(self, route: Route) -> Route:
        """Return the route as Linux stores it, with defaults for what the request leaves open.
        KernelError if Linux refuses the route.
        """
        next_hops: list[NextHop] = []
        if route.type not in PATHLESS:  # else it has no next hop, such as an unreachable route
            # A route without next hops gets one without a device, which `_accepted_hop` refuses.
            requested = route.next_hops or (NextHop(),)
            next_hops += [self._accepted_hop(hop, route) for hop in requested]
        own_ips = {address.ip for address in self._addresses}
        if route.prefsrc is not None and route.prefsrc not in own_ips:
            raise KernelError(
                errno.EINVAL, f"preferred source {route.prefsrc} is not an address of this host"
            )
        accepted = route._replace(next_hops=tuple(next_hops))
        if route.prefix.family == IPV4:
            return accepted
        # IPv6 has no scope, and uses defaults for a protocol or metric of 0.
        return accepted._replace(
            protocol=route.protocol or PROTOCOL_BOOT,
            metric=route.metric or DEFAULT_METRIC[IPV6],
            scope=0,
        )

    def _accepted_hop(self, hop: NextHop, route: Route) -> NextHop:
        """Return this next hop of the route as Linux stores it. KernelError if Linux refuses it,
        for example because its device is down.
        """
        if hop.dev is None:
            raise KernelError(errno.ENODEV, "a next hop has no device")
        self._require_reachable(hop, route.prefix.family)
        if not self._links[hop.dev].up:
            raise KernelError(errno.ENETDOWN, f"{hop.dev} is down")
        stored = hop._replace(linkdown=False, dead=False)  # because the device is up
        if len(route.next_hops) == 1 and route.prefix.family == IPV4:
            return stored._replace(weight=1)  # a weight counts only among several next hops
        return stored

    def _require_reachable(self, hop: NextHop, family: int) -> None:
        """Raise KernelError if Linux refuses the next hop because its gateway is not on-link: the
        best route to the gateway has a gateway itself, or there is no route.
        """
        gateway = hop.gateway
        # Linux does not check a gateway with the flag onlink. This fake kernel does not check one
        # of the other address family either.
        if gateway is None or gateway.version != family or hop.onlink:
            return
        if family == IPV6 and gateway.is_link_local:
            return  # Linux takes any link-local gateway
        covering = self._routes_covering(gateway, hop.dev)
        best = min(covering, key=lambda route: (-route.prefix.length, route.metric), default=None)
        if best is None or best.has_gateway:
            raise KernelError(errno.ENETUNREACH, f"gateway {gateway} is not on-link")

    def _routes_covering(self, gateway: IP, dev: str | None) -> Iterator[Route]:
        """Yield the routes through this device by which Linux finds out whether the gateway is
        on-link: those in the tables local and main that cover it.
        """
        family = gateway.version
        for table, length in product((TABLE_LOCAL, TABLE_MAIN), range(width_of(family) + 1)):
            prefix = Prefix.around(family, int(gateway), length)
            for route in self._routes.get((table, prefix), ()):
                # In IPv4, a route counts only if the number of its scope is SCOPE_LINK or greater.
                # For a route with a gateway, the number is smaller.
                if dev in route.devs and (family == IPV6 or route.scope >= SCOPE_LINK):
                    yield route

    def _insert(self, route: Route, *, must_be_only: bool) -> None:
        """Add a route behind the routes with the same destination and metric. KernelError if the
        route is already one of these or, with `must_be_only`, if there are any. The verb `add` sets
        `must_be_only`, and `append` does not.
        """
        entries = entries_of_route(route)  # in IPv6, each next hop is an entry
        routes = self._routes.get((route.table, route.prefix), [])
        rivals = [present for present in routes if present.metric == route.metric]
        obstacle = ""
        if any(_has_same(rivals, entry) for entry in entries):
            obstacle = "this route"
        elif rivals and must_be_only:
            obstacle = "another route"
        if obstacle:
            raise KernelError(
                errno.EEXIST, f"{obstacle} has the same destination and metric: [{rivals[0]}]"
            )
        for entry in entries:
            self._append(entry)

    def _append(self, route: Route) -> None:
        """Add an entry behind those with the same metric or a lower one. Do nothing if it is there
        already, because two addresses can bring the same route.
        """
        routes = self._routes.setdefault((route.table, route.prefix), [])
        if not _has_same(routes, route):
            index = sum(present.metric <= route.metric for present in routes)
            routes.insert(index, route)

    def _delete(self, route: Route) -> None:
        """Delete what a request to delete `route` means. Linux stores an IPv6 route as one entry
        for each next hop: for each, delete the first entry that matches (`_is_meant`). If one next
        hop has no match, still delete the entries of the others, and then raise KernelError.
        """
        routes = self._routes.get((route.table, route.prefix), [])
        is_missing = False
        for entry in entries_of_route(route):
            meant = [present for present in routes if _is_meant(present, entry)]
            if meant:
                routes.remove(meant[0])
            else:
                is_missing = True
        if is_missing:
            raise KernelError(errno.ESRCH, "this route does not exist")


class FakeWatch(Watch):
    """A watch of a FakeKernel. It waits on the clock that it is given; without one, a wait returns
    at once.
    """

    def __init__(self, happenings: list[Callable[[], object]]) -> None:
        """`happenings` are the functions that a test gives to `FakeKernel.later`. All watches of a
        kernel share the list, so that each function is called once.
        """
        self._happenings = happenings
        self._is_reported = False
        self._clock: Clock | None = None

    def report(self) -> None:
        # The kernel tells the watch of a change. A wait that is going on ends now. If there is
        # none, the next wait returns at once.
        self._is_reported = True
        if self._clock is not None:
            self._clock.wake()

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch. First call the functions that a test gave to `later`, until one changes
        something. If none does, wait on the clock for a change by another thread; without a clock,
        return at once.
        """
        while self._happenings and not self._is_reported:
            self._happenings.pop(0)()
        if clock is not None:
            self._clock = clock  # `report` wakes it
            clock.wait(lambda: self._is_reported, clock.now() + timeout)
        is_changed = self._is_reported
        self._is_reported = False
        return is_changed

    def close(self) -> None:
        """See Watch. There is nothing to do."""


def _address(dev: str, with_length: str, *, scope: int = 0) -> Address:
    parsed = ip_interface(with_length)
    return Address(ip=parsed.ip, length=parsed.network.prefixlen, dev=dev, scope=scope)


def _ipv6_routes_of(address: Address) -> list[Route]:
    """The routes that Linux adds for an IPv6 address: to itself, and to its network."""
    next_hops = (NextHop(address.dev),)
    local = Route(
        Prefix.of(address.ip),
        next_hops,
        table=TABLE_LOCAL,
        type="local",
        protocol=PROTOCOL_KERNEL,
    )
    if address.ip.is_loopback:  # for ::1, Linux adds no route to a network
        return [local]
    connected = Route(
        address.network, next_hops, metric=_CONNECTED_METRIC, protocol=PROTOCOL_KERNEL
    )
    return [local, connected]


def _ipv4_routes_of(address: Address, link: Link) -> list[Route]:
    """The routes that Linux adds for an IPv4 address: to itself, and then those to its network and
    to the broadcast address of the network.
    """
    own = Prefix.of(address.ip)
    network = address.network
    local = Route(
        own,
        (NextHop(address.dev),),
        table=TABLE_LOCAL,
        type="local",
        scope=SCOPE_HOST,
        protocol=PROTOCOL_KERNEL,
        prefsrc=address.ip,
    )
    routes = [local]
    if link.loopback:  # all of 127.0.0.0/8 is local
        routes.append(local._replace(prefix=network))
    elif network != own:
        connected = local._replace(type="unicast", table=TABLE_MAIN, scope=SCOPE_LINK)
        routes.append(connected._replace(prefix=network))
    if network.length < width_of(IPV4) - 1:  # a /31 or /32 has no broadcast address
        last = Prefix.of(ip_at(IPV4, network.last))
        routes.append(local._replace(prefix=last, type="broadcast", scope=SCOPE_LINK))
    return routes


def _has_same(routes: Iterable[Route], entry: Route) -> bool:
    """Whether one of these routes, all to the prefix of the entry, is the same for Linux. In IPv4,
    all fields have to be equal; in IPv6, only the metric, the device and the gateway.
    """
    if entry.prefix.family == IPV4:
        return entry in routes
    key = (entry.metric, _device_and_gateway(entry))
    return any((route.metric, _device_and_gateway(route)) == key for route in routes)


def _device_and_gateway(entry: Route) -> tuple[str | None, IP | None]:
    """The device and gateway of an IPv6 entry, which has one next hop at most. An entry without a
    next hop, such as an unreachable route, has the device lo in Linux.
    """
    [hop] = entry.next_hops or _BY_LO
    return hop.dev, hop.gateway


def _is_meant(present: Route, request: Route) -> bool:
    """Whether a request to delete a route means the route `present`. What the request leaves open
    (None, or 0) matches any value, but in IPv6 a gateway of None matches only a missing gateway.
    """
    if request.metric not in {0, present.metric} or request.protocol not in {0, present.protocol}:
        return False
    if request.prefix.family == IPV4:
        return _is_meant_in_ipv4(present, request)
    # In IPv6, each next hop is an entry of its own. `encode` sends "::" if there is no gateway.
    [wanted] = request.next_hops or (NextHop(),)
    [hop] = present.next_hops or _BY_LO  # Linux gives lo to an entry without a next hop
    return wanted.dev in {None, hop.dev} and wanted.gateway == hop.gateway


def _is_meant_in_ipv4(present: Route, request: Route) -> bool:
    """Whether a request to delete an IPv4 route means the route `present`. The caller, `_is_meant`,
    has compared metric and protocol already. None in the request matches any value.
    """
    if (request.type, request.scope) != (present.type, present.scope):
        return False
    if request.prefsrc not in {None, present.prefsrc}:
        return False
    if not request.next_hops:  # any next hops will do
        return True
    # `present` has no next hops if it refuses packets; it is not meant by a request with next hops.
    if not 0 < len(present.next_hops) <= len(request.next_hops):
        return False
    # Linux compares the next hops in order, and ignores surplus ones at the end of the request.
    for wanted, hop in zip(request.next_hops, present.next_hops, strict=False):
        if wanted.dev not in {None, hop.dev} or wanted.gateway not in {None, hop.gateway}:
            return False
    return True


def _is_deleted_with(route: Route, name: str, lost_ips: Collection[IP]) -> bool:
    """Whether Linux deletes the route together with the device `name`: the route leads through the
    device, or its source is an address that no device has any more (`lost_ips`).
    """
    if name in route.devs:
        return True
    # Only in IPv4, and only in table main, Linux deletes the routes whose source is lost.
    return route.prefix.family == IPV4 and route.table == TABLE_MAIN and route.prefsrc in lost_ips


def _answer(fib: Fib, destination: IP) -> Answer:
    """The answer of Linux for this destination. If the route that decides refuses packets, Linux
    answers with an error, so the answer has no route.
    """
    # `kind` is how the lookup ends; `route` is the route that decides, if one does.
    kind, route, _ = fib.lookup(destination)
    if route is not None:
        return Answer(route.type, None if route.type in REFUSING else route)
    # A rule has refused the packet, or no route was found.
    return Answer(_REFUSED_BY_RULE.get(kind, "no-route"), None)
