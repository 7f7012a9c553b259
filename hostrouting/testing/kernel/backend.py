"""FakeKernel: the fake kernel as a whole, with the contract of RouteBackend and the methods that change it.

Here: the interface for programs and tests; the network namespace behind it, with each thing that can happen to a host
and all its consequences; and the watch, with the clock that it waits on. Not here: what Linux does with the routes and
addresses of one family (`ipv4`, `ipv6`), and faults (`faults`).
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_interface
from typing import TYPE_CHECKING, Literal

import attrs

from hostrouting.arguments import listed
from hostrouting.errors import BackendError
from hostrouting.kernel._fib.engine import Fib
from hostrouting.kernel._fib.packet import ANY, Flow
from hostrouting.kernel._route_table import RouteTable
from hostrouting.kernel.base import (
    Answer,
    Outcome,
    RouteRequest,
    Source,
    Verb,
    asked_addresses,
    cannot_listen,
    has_weight,
    part_of,
)
from hostrouting.kernel.requests import Obstacle, find_exactly, misfit, refusal
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix
from hostrouting.model.route import REFUSING, TABLE_LOCAL, TABLE_MAIN, NextHop, Route
from hostrouting.model.snapshot import Address, Link, Snapshot
from hostrouting.testing.faults import Faults, Moment
from hostrouting.testing.kernel.devices import Device, Devices, Refused
from hostrouting.testing.kernel.ipv4 import Addresses as Addresses4
from hostrouting.testing.kernel.ipv4 import Routes as Routes4
from hostrouting.testing.kernel.ipv6 import Addresses as Addresses6
from hostrouting.testing.kernel.ipv6 import KernelClock
from hostrouting.testing.kernel.ipv6 import Routes as Routes6
from hostrouting.testing.kernel.tables import Rules
from hostrouting.testing.kernel.text import print_world

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from hostrouting.model.rule import Rule
    from phases import Clock
    from phases.context import Flag


class FakeKernel:
    """A kernel's routing without a kernel; `hostrouting.testing.kernel` lists how far it is equal to Linux."""

    def __init__(self, *, promote_secondaries: bool = False, ipv6_forwarding: bool = False) -> None:
        """Start like a new network namespace: with lo, which is down, and the default rules.

        `promote_secondaries` is the sysctl of that name, which systemd sets. `ipv6_forwarding` is the sysctl
        net.ipv6.conf.all.forwarding, which nodes of Kubernetes have.
        """
        self.faults = Faults()
        """The faults to inject."""
        self._namespace = Namespace(promote_secondaries=promote_secondaries, ipv6_forwarding=ipv6_forwarding)
        self._facts = _Facts(self._namespace)
        self._happenings: list[Callable[[], object]] = []
        self._watches: list[MemoryWatch] = []
        self._closed = False
        self._snapshot: Snapshot | None = None
        # The time of the snapshot, if it matters.
        self._moment: float | None = None
        self._fib: Fib | None = None

    # The contract of RouteBackend

    def snapshot(
        self,
        *,
        family: int | None = None,
        table: int | None = None,
        protocol: int | None = None,
        prefixes: Collection[Prefix | str] | None = None,
        reached: bool = False,
        about: object = None,  # noqa: ARG002  nothing changes meanwhile
        anew: bool = False,  # noqa: ARG002  nothing is kept
        near: Collection[Prefix] | None = None,
        also: Callable[[Route], bool] | None = None,
    ) -> Snapshot:
        """The present state, or the requested part of it."""
        self._meet("snapshot")
        return part_of(
            self._now(),
            family=family,
            table=table,
            protocol=protocol,
            prefixes=prefixes,
            reached=reached,
            near=near,
            also=also,
        )

    def lookup(self, destinations: Sequence[IP | str], flow: Flow = ANY) -> tuple[Answer, ...]:
        """The FIB entry that decides for each destination."""
        addresses = asked_addresses(destinations)
        if len({address.version for address in addresses}) > 1:
            raise ValueError("IPv4 and IPv6 destinations in one lookup")
        self._meet("lookup")
        snapshot = self._now()
        if self._fib is None:
            self._fib = Fib(self._namespace.for_lookups(snapshot), merged=not self._namespace.rules[IPV4].custom)
        if flow.ipproto == 0 and any(address.version == IPV4 for address in addresses):
            flow = attrs.evolve(flow, ipproto=None)  # only IPv6 knows packets without a protocol
        flow = flow.assumed()
        return tuple(self._answer(destination, flow, self._fib) for destination in addresses)

    def change(self, changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Carry out each change, and return the result of each."""
        self._usable()
        return tuple(self._change_one(change) for change in listed(changes, "change"))

    def watch(self) -> MemoryWatch:
        """Listen for changes. A wait uses the clock that it is given; see also `later`."""
        self._meet("watch")
        watch = MemoryWatch(self._happenings, meet=self._meet, on_clock=self._on_clock)
        self._watches.append(watch)
        return watch

    def report_nftables(self) -> None:
        """Report a change of nftables to the watches that listen to them; this kernel itself has none."""
        for watch in tuple(self._watches):
            watch.hear("nftables")

    def reopen(self) -> Self:
        """The same fake kernel, open again."""
        self._closed = False
        return self

    def close(self) -> None:
        """Close the backend; the state stays, and can still be changed by a test and printed."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    # Changes to the fake kernel: each raises a BackendError with Linux's errno

    def add_link(self, name: str | Link, *, up: bool = True, carrier: bool = True) -> Link:
        """Add a device, given by name or as a Link; EEXIST if the name is in use."""
        link = name if isinstance(name, Link) else Link(name=name, index=0, up=up, carrier=carrier)
        with self._arranging(f"add link {link.name}"):
            self._namespace.add_link(link)
        return self._namespace.devices.get(link.name).shown()

    def delete_link(self, name: str) -> None:
        """Delete a device, with its addresses and routes; rules that name it stay, and match nothing."""
        with self._arranging(f"delete link {name}"):
            self._namespace.delete_link(name)

    def set_up(self, name: str) -> None:
        """Set a device up: the routes of its addresses come back, other routes do not."""
        with self._arranging(f"set {name} up"):
            self._namespace.set_up(name)

    def set_down(self, name: str) -> None:
        """Set a device down: its routes are flushed, except those to addresses of this host."""
        with self._arranging(f"set {name} down"):
            self._namespace.set_down(name)

    def set_carrier(self, name: str, *, carrier: bool) -> None:
        """Change the carrier of a device: routes stay, and are marked linkdown without it."""
        with self._arranging(f"set the carrier of {name}"):
            self._namespace.set_carrier(name, carrier=carrier)

    def add_address(
        self, dev: str, interface: str | Address, *, scope: int = 0, broadcast: IP | None = None
    ) -> Address:
        """Add an address such as 10.0.0.4/24 to a device, with its routes."""
        address = _address(dev, interface, scope, broadcast)
        with self._arranging(f"add address {address.ip}/{address.length} to {dev}"):
            self._namespace.add_address(address)
        return address

    def delete_address(self, dev: str, interface: str | Address) -> None:
        """Delete an address, with its routes; with the last one, all routes of the device in that family."""
        address = _address(dev, interface, 0, None)
        with self._arranging(f"delete address {address.ip}/{address.length} from {dev}"):
            self._namespace.delete_address(address)

    def add_rule(self, rule: Rule) -> None:
        """Add a rule, after those of the same priority."""
        with self._arranging(f"add rule {rule}"):
            self._namespace.add_rule(rule)

    def delete_rule(self, rule: Rule) -> None:
        """Delete the first rule that matches this one."""
        with self._arranging(f"delete rule {rule}"):
            self._namespace.delete_rule(rule)

    def ip_route(self, verb: Verb, route: Route) -> None:
        """Change a route as another program would, with `ip route`: for `delete`, unset fields match anything."""
        if route.prefix.family == IPV4:
            # Linux ignores these, and changes the route without them.
            route = attrs.evolve(route, source=None, preference="medium", expires=None)
        with self._arranging(f"{verb} {route}"):
            self._namespace.change(RouteRequest(verb, route))

    def pass_time(self, seconds: float) -> None:
        """Let time pass for the routes that expire. It also passes as on the clock of a wait for a change."""
        self._namespace.clock.advance(seconds)
        self._elapse()

    def collect_expired(self) -> None:
        """Delete the routes that have expired. Linux does so twice a minute, and whenever a device is set down."""
        with self._arranging("collect expired routes"):
            self._namespace.collect_expired()

    def later(self, happening: Callable[[], object]) -> None:
        """Call the function during a wait for a change. Each wait goes on until one changes something."""
        self._happenings.append(happening)

    def __str__(self) -> str:
        """Rules and routes, as printed by `ip rule` and `ip route show table all`."""
        return print_world(self._now())

    def _answer(self, destination: IP, flow: Flow, fib: Fib) -> Answer:
        decision = fib.lookup(destination, flow)
        route = decision.route
        if route is None:
            # A lookup gives the same error for a rule's "unreachable" and for no route.
            action = decision.rule.action if decision.rule else "nop"
            return Answer(action if action in {"blackhole", "prohibit"} else "no-route", None)
        if route.type in REFUSING:
            return Answer(route.type, None)
        if route.prefix.family == IPV6:
            route = self._namespace.whole(route)
        elif route.table == TABLE_LOCAL and not self._namespace.rules[IPV4].custom:
            # Linux reports the table that it searched: main for both while the two are merged.
            route = attrs.evolve(route, table=TABLE_MAIN)
        return Answer(decision.kind, route)

    def _now(self) -> Snapshot:
        self._elapse()
        moment = self._namespace.moment
        if self._snapshot is None or moment != self._moment:
            self._snapshot, self._moment, self._fib = self._namespace.snapshot(), moment, None
        return self._snapshot

    def _elapse(self) -> None:
        if self._namespace.elapse():
            self._changed()

    def _on_clock(self, clock: Clock) -> None:
        self._namespace.clock.follow(clock)
        self._elapse()

    def _changed(self) -> None:
        self._snapshot = self._fib = None
        for watch in self._watches:
            watch.hear()

    def _usable(self) -> None:
        if self._closed:
            raise BackendError("the backend was closed", kind="unusable")

    def _meet(self, moment: Moment) -> None:
        self._usable()
        struck = self.faults.strike(moment)
        if isinstance(struck.error, int):
            raise BackendError(f"the kernel refused a {moment}", errno=struck.error)
        if struck.error is not None:
            raise struck.error

    def _change_one(self, change: RouteRequest) -> Outcome:
        struck = self.faults.strike("change")
        error = struck.error
        if error is None or struck.done:
            outcome = self._carry_out(change)
            if error is None:
                return outcome
        if isinstance(error, int):
            error = refusal(change, error, facts=self._facts)
        if error.route:
            return Outcome(change, error)
        raise error

    def _carry_out(self, change: RouteRequest) -> Outcome:
        self._elapse()
        try:
            if change.verb == "delete":
                self._namespace.delete_exactly(change.route)
            else:
                self._namespace.change(change)
        except Refused as error:
            # A refused request can still set the end of a route.
            self._snapshot = self._fib = None
            problem = error.problem
            return Outcome(change, refusal(change, error.number, error.words, facts=self._facts, problem=problem))
        self._changed()
        return Outcome(change)

    @contextmanager
    def _arranging(self, what: str) -> Iterator[None]:
        self._elapse()
        try:
            yield
        except Refused as error:
            raise BackendError(f"{what}: refused", errno=error.number, kernel=error.words) from error
        finally:
            self._changed()


@attrs.frozen
class _Facts:
    """The facts that explain a refusal."""

    namespace: Namespace

    def routes_of_prefix(self, route: Route) -> Sequence[Route]:
        """The routes of the same table and prefix."""
        return self.namespace.at(route)

    def addresses(self, family: int) -> Sequence[Address]:
        """The addresses of the family."""
        return [address for address in self.namespace.snapshot().addresses if address.ip.version == family]


def _address(dev: str, interface: str | Address, scope: int, broadcast: IP | None) -> Address:
    if isinstance(interface, Address):
        return attrs.evolve(interface, dev=dev)
    parsed = ip_interface(interface)
    return Address(ip=parsed.ip, length=parsed.network.prefixlen, dev=dev, scope=scope, broadcast=broadcast)


# What can happen to the host, with all its consequences.


class Namespace:
    """A network namespace: devices, addresses, rules and routes of both families, and how they affect each other."""

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

    def change(self, change: RouteRequest) -> None:
        """Carry out one change of a route, as Linux does."""
        route = change.route
        if problem := misfit(route):
            raise Refused(errno.ERANGE, problem=problem)
        for leg in route.legs:
            if leg.dev is not None:
                self.devices.get(leg.dev)
        if len(route.legs) == 1 and not has_weight(route):
            # Only an IPv6 next hop, which can become one of several, is sent with a weight.
            route = attrs.evolve(route, legs=(attrs.evolve(route.legs[0], weight=1),))
        self._routes[route.prefix.family].change(change.verb, route)

    def delete_exactly(self, route: Route) -> None:
        """Delete exactly this route, or none."""
        found = find_exactly(route, self.at(route))
        if isinstance(found, Obstacle):
            raise Refused(found.number, problem=found.words)
        self.change(RouteRequest("delete", found))

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
            raise Refused(errno.EOPNOTSUPP)
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
        """The present time, if a snapshot depends on it."""
        return self._aging.moment

    def elapse(self) -> bool:
        """Delete the expired routes if Linux would have done so by now; return whether there were any."""
        return self._aging.elapse()

    def collect_expired(self) -> None:
        """Delete the routes that have expired."""
        self._aging.collect_expired()

    def for_lookups(self, snapshot: Snapshot) -> Snapshot:
        """The same state as lookups see it: each next hop of an IPv6 route separately."""
        in_force = tuple(rule for family in (IPV4, IPV6) for rule in self.rules[family].in_force())
        seen = attrs.evolve(snapshot, rules=in_force)
        if not any(
            len(shape.legs) > 1 and shape.prefix.family == IPV6 for shape in RouteTable.of(snapshot.routes).shapes
        ):
            return seen  # the same routes; to store 10,000 of them again takes 0.1 s
        of_ipv4 = (route for route in snapshot.routes if route.prefix.family == IPV4)
        routes = (*of_ipv4, *map(self._shown, self._aging.apart()))
        return attrs.evolve(seen, routes=routes)

    def whole(self, found: Route) -> Route:
        """The listed route, with all next hops, to which the next hop of a lookup belongs."""
        ways = set(map(_way, found.legs))
        for route in self.at(found):
            same = (route.source, route.metric) == (found.source, found.metric)
            if same and len(route.legs) > 1 and not ways.isdisjoint(map(_way, route.legs)):
                return self._shown(route)
        return found

    def snapshot(self) -> Snapshot:
        """The whole state."""
        by_index = sorted(self.devices, key=lambda device: device.link.index)
        held = [holding for device in by_index for holding in device.ipv4] + [
            holding for device in by_index for holding in device.ipv6
        ]
        return Snapshot(
            links=tuple(device.shown() for device in by_index),
            addresses=tuple(holding.address for holding in held),
            rules=(*self.rules[IPV4], *self.rules[IPV6]),
            routes=tuple(self._shown(route) for routes in self._routes.values() for route in routes.listed()),
            ipv6_forwarding=self.ipv6_forwarding,
        )

    def _holder(self, address: Address) -> Device:
        device = self.devices.find(address.dev)
        if device is None:
            words = {IPV4: "ipv4: Device not found", IPV6: "ipv6: Unable to find the interface"}
            raise Refused(errno.ENODEV, words[address.ip.version])
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


# Listening: the changes that were reported, and planned changes during a wait.

_MOMENTS: dict[Source, Literal["wait", "listen"]] = {"routes": "wait", "nftables": "listen"}


class MemoryWatch:
    """A listener. It waits on the clock that it is given; without one, a wait returns at once."""

    def __init__(
        self,
        happenings: list[Callable[[], object]],
        *,
        meet: Callable[[Literal["wait", "listen"]], object],
        on_clock: Callable[[Clock], object],
    ) -> None:
        """Take the planned changes: a wait without a report calls them until one changes something.

        `meet` is called before each wait, and before it begins to listen to nftables; if it raises BackendError, the
        watch cannot listen to routes, or to nftables, until the next wait. `on_clock` tells the fake kernel the clock
        of a wait, both before and after it.
        """
        self._happenings, self._meet, self._on_clock = happenings, meet, on_clock
        self._lock = threading.Lock()
        self._heard = self._woken = self._closed = False
        self._waiting: Flag | None = None
        self._troubles: dict[Source, str] = {}
        self._listens_to_nftables = False

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why the watch cannot listen to everything now."""
        return tuple(self._troubles.values())

    def heed(self, concerns: object) -> None:
        """See Watch: every change is reported all the same."""

    def listen(self, *, nftables: bool) -> None:
        """Listen to nftables too, or no longer."""
        if nftables and not self._listens_to_nftables:
            self._try("nftables")
        elif not nftables:
            self._troubles.pop("nftables", None)
        self._listens_to_nftables = nftables

    def hear(self, source: Source = "routes") -> None:
        """Report a change, if this source is listened to."""
        if source in self._troubles or (source == "nftables" and not self._listens_to_nftables):
            return
        with self._lock:
            self._heard = True
            self._end_wait()

    def _try(self, source: Source) -> None:
        try:
            self._meet(_MOMENTS[source])
        except BackendError as error:
            self._troubles[source] = cannot_listen(source, error)
        else:
            self._troubles.pop(source, None)

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """Whether something changed since the last wait; if not, whether one of the planned changes did.

        Without planned changes, it waits on the clock for a change by another thread.
        """
        if self._closed:
            raise BackendError("the watch was closed", kind="unusable")
        before = tuple(self._troubles)
        self._try("routes")
        if "nftables" in before:
            self._try("nftables")
        if before != tuple(self._troubles):
            with self._lock:
                self._heard = True  # a change may have been missed
        while self._happenings and not (self._heard or self._woken):
            self._happenings.pop(0)()
        if clock is not None:
            self._on_clock(clock)
            with self._lock:
                self._waiting = clock.event()
                if self._heard or self._woken:
                    self._waiting.set()
            self._waiting.wait(timeout)
            self._on_clock(clock)
        with self._lock:
            heard, self._heard = self._heard and not self._woken, self._heard and self._woken
            self._woken, self._waiting = False, None
        return heard

    def wake(self) -> None:
        """End the present or the next wait."""
        with self._lock:
            self._woken = True
            self._end_wait()

    def _end_wait(self) -> None:
        if self._waiting is not None:
            self._waiting.set()

    def close(self) -> None:
        """Stop listening."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
