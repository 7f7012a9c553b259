"""MemoryBackend: the fake kernel's interface for programs and tests.

Here: the contract of RouteBackend, and the methods that change the fake kernel. Not here: the consequences of a change
(`namespace`).
"""

from __future__ import annotations

from contextlib import contextmanager
from ipaddress import ip_interface
from typing import TYPE_CHECKING

import attrs

from hostrouting.arrival import find_drop
from hostrouting.backends.base import Answer, Change, Outcome, asked_addresses, part_of
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.faults import Faults, Moment
from hostrouting.backends.memory.namespace import Namespace
from hostrouting.backends.memory.text import print_world
from hostrouting.backends.memory.watch import MemoryWatch
from hostrouting.backends.refusal import refusal
from hostrouting.errors import BackendError, RouteRefused
from hostrouting.fib import ANY, Fib, Flow
from hostrouting.model import IPV4, IPV6, REFUSING, TABLE_LOCAL, TABLE_MAIN, Address, Link, Rule, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from hostrouting.backends.base import Verb
    from hostrouting.model import IP, Prefix, Route
    from phases import Clock

__all__ = ["MemoryBackend"]


_UDP = 17


class MemoryBackend:
    """A kernel's routing without a kernel; `hostrouting.backends.memory` lists how far it is equal to Linux."""

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
    ) -> Snapshot:
        """The present state, or the requested part of it."""
        self._meet("snapshot")
        return part_of(self._now(), family=family, table=table, protocol=protocol, prefixes=prefixes)

    def lookup(self, destinations: Sequence[IP | str], flow: Flow = ANY) -> tuple[Answer, ...]:
        """The FIB entry that decides for each destination."""
        addresses = asked_addresses(destinations)
        if len({it.version for it in addresses}) > 1:
            raise ValueError("IPv4 and IPv6 destinations in one lookup")
        self._meet("lookup")
        snapshot = self._now()
        if self._fib is None:
            self._fib = Fib(self._namespace.for_lookups(snapshot), merged=not self._namespace.rules[IPV4].custom)
        if not flow.ipproto:
            # Without a given protocol, Linux assumes UDP; in IPv6 no protocol.
            flow = attrs.evolve(flow, ipproto=_UDP if any(it.version == IPV4 for it in addresses) else 0)
        flow = flow.assumed()
        return tuple(self._answer(destination, flow, self._fib) for destination in addresses)

    def change(self, changes: Iterable[Change]) -> tuple[Outcome, ...]:
        """Carry out each change, and return the result of each."""
        self._usable()
        return tuple(self._change_one(change) for change in changes)

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
            self._namespace.change(Change(verb, route))

    def pass_time(self, seconds: float) -> None:
        """Let time pass for the routes that expire. It also passes as on the clock of a wait for a change."""
        self._namespace.clock.advance(seconds)
        self._elapse()

    def collect_expired(self) -> None:
        """Delete the routes that have expired. Linux does so twice a minute, and whenever a device is set down."""
        with self._arranging("collect expired routes"):
            self._namespace.collect_expired()

    def later(self, happening: Callable[[], object]) -> None:
        """Call this during a wait for a change. Each wait calls the next ones until one of them changes something."""
        self._happenings.append(happening)

    def __str__(self) -> str:
        """Rules and routes, as printed by `ip rule` and `ip route show table all`."""
        return print_world(self._now())

    def _answer(self, destination: IP, flow: Flow, fib: Fib) -> Answer:
        if destination.version == IPV4 and (drop := find_drop(fib, destination, flow)) is not None and not drop.out:
            # For IPv6, Linux looks up the route and no more.
            return Answer("unreachable" if drop.reason == "forwarding" else "blackhole", None)
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
            raise BackendError("the backend was closed", can_retry=False)

    def _meet(self, moment: Moment) -> None:
        self._usable()
        struck = self.faults.strike(moment)
        if isinstance(struck.error, int):
            raise BackendError(f"the kernel refused a {moment}", errno=struck.error)
        if struck.error is not None:
            raise struck.error

    def _change_one(self, change: Change) -> Outcome:
        struck = self.faults.strike("change")
        error = struck.error
        if error is None or struck.done:
            outcome = self._carry_out(change)
            if error is None:
                return outcome
        if isinstance(error, int):
            error = refusal(change, error, facts=self._facts)
        if isinstance(error, RouteRefused):
            return Outcome(change, error)
        raise error

    def _carry_out(self, change: Change) -> Outcome:
        self._elapse()
        try:
            if change.verb == "delete":
                self._namespace.delete_exactly(change.route)
            else:
                self._namespace.change(change)
        except KernelError as error:
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
        except KernelError as error:
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
        return [it for it in self.namespace.snapshot().addresses if it.ip.version == family]


def _address(dev: str, interface: str | Address, scope: int, broadcast: IP | None) -> Address:
    if isinstance(interface, Address):
        return attrs.evolve(interface, dev=dev)
    parsed = ip_interface(interface)
    return Address(ip=parsed.ip, length=parsed.network.prefixlen, dev=dev, scope=scope, broadcast=broadcast)
