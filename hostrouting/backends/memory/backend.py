"""MemoryBackend: the fake kernel as programs meet it, and as tests arrange it.

Here: the promises of RouteBackend, and the verbs by which the world changes. Not here: what follows from a change
(`namespace`).
"""

from __future__ import annotations

from contextlib import contextmanager
from ipaddress import ip_interface
from typing import TYPE_CHECKING, Self

import attrs

from hostrouting.backends.base import Answer, Change, Outcome, asked_addresses, part_of
from hostrouting.backends.memory.errors import KernelError
from hostrouting.backends.memory.faults import Faults, Moment
from hostrouting.backends.memory.namespace import Namespace
from hostrouting.backends.memory.text import print_world
from hostrouting.backends.memory.watch import MemoryWatch
from hostrouting.backends.refusal import refusal
from hostrouting.errors import BackendError, RouteRefused
from hostrouting.fib import ANY, Decision, Fib, Flow
from hostrouting.model import IPV4, IPV6, REFUSING, TABLE_LOCAL, TABLE_MAIN, Address, Link, Rule, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from types import TracebackType

    from hostrouting.backends.base import Verb
    from hostrouting.model import IP, Prefix, Route

__all__ = ["MemoryBackend"]


_UDP = 17


class MemoryBackend:
    """A kernel's routing without a kernel; `hostrouting.backends.memory` says what of Linux it is equal to."""

    def __init__(self, *, promote_secondaries: bool = False) -> None:
        """Start as a new network namespace does: lo, which is down, and the default rules.

        `promote_secondaries` is the sysctl of that name, which systemd sets.
        """
        self.faults = Faults()
        """What is to go wrong."""
        self._namespace = Namespace(promote_secondaries=promote_secondaries)
        self._facts = _Facts(self._namespace)
        self._happenings: list[Callable[[], object]] = []
        self._watches: list[MemoryWatch] = []
        self._closed = False
        self._snapshot: Snapshot | None = None
        self._fib: Fib | None = None

    # What RouteBackend promises

    def snapshot(
        self,
        *,
        family: int | None = None,
        table: int | None = None,
        protocol: int | None = None,
        prefixes: Collection[Prefix | str] | None = None,
    ) -> Snapshot:
        """Everything as it is now, or what is asked for of it."""
        self._meet("snapshot")
        return part_of(self._now(), family=family, table=table, protocol=protocol, prefixes=prefixes)

    def lookup(self, destinations: Sequence[IP | str], flow: Flow = ANY) -> tuple[Answer, ...]:
        """The FIB entry that decides for each destination."""
        addresses = asked_addresses(destinations)
        if len({it.version for it in addresses}) > 1:
            raise ValueError("IPv4 and IPv6 destinations in one lookup")
        self._meet("lookup")
        if self._fib is None:
            in_force = [rule for family in (IPV4, IPV6) for rule in self._namespace.rules[family].in_force()]
            snapshot = attrs.evolve(self._now(), rules=tuple(in_force))
            self._fib = Fib(snapshot, merged=not self._namespace.rules[IPV4].custom)
        if not flow.ipproto:
            # Linux takes a packet of which it is not told the protocol for UDP; in IPv6 for one of none.
            flow = attrs.evolve(flow, ipproto=_UDP if any(it.version == IPV4 for it in addresses) else 0)
        flow = flow.assumed()
        merged = not self._namespace.rules[IPV4].custom
        return tuple(_answer(self._fib.lookup(destination, flow), merged=merged) for destination in addresses)

    def change(self, changes: Iterable[Change]) -> tuple[Outcome, ...]:
        """Carry out each change, and say what became of it."""
        self._usable()
        return tuple(self._change_one(change) for change in changes)

    def watch(self) -> MemoryWatch:
        """Listen. A wait is on the clock that it is given; see also `later`."""
        self._meet("watch")
        watch = MemoryWatch(self._happenings)
        self._watches.append(watch)
        return watch

    def reopen(self) -> Self:
        """The same world, as a backend that is open again."""
        self._closed = False
        return self

    def close(self) -> None:
        """Let go; the world stays as it is, and can still be arranged and printed."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    # What happens to the world: each raises a BackendError with the errno that Linux gives

    def add_link(self, name: str | Link, *, up: bool = True, carrier: bool = True) -> Link:
        """A device appears, by its name or as the Link says; EEXIST when there is one of that name."""
        link = name if isinstance(name, Link) else Link(name=name, index=0, up=up, carrier=carrier)
        with self._arranging(f"add link {link.name}"):
            self._namespace.add_link(link)
        return self._namespace.devices.get(link.name).shown()

    def delete_link(self, name: str) -> None:
        """A device goes, with its addresses and routes; rules that name it stay, and match nothing."""
        with self._arranging(f"delete link {name}"):
            self._namespace.delete_link(name)

    def set_up(self, name: str) -> None:
        """A device is set up: its addresses bring their routes back, nobody else's come."""
        with self._arranging(f"set {name} up"):
            self._namespace.set_up(name)

    def set_down(self, name: str) -> None:
        """A device is set down: its routes are flushed, except for those to the host's own addresses."""
        with self._arranging(f"set {name} down"):
            self._namespace.set_down(name)

    def set_carrier(self, name: str, *, carrier: bool) -> None:
        """The other end goes, or comes back: routes stay, and are marked linkdown."""
        with self._arranging(f"set the carrier of {name}"):
            self._namespace.set_carrier(name, carrier=carrier)

    def add_address(
        self, dev: str, interface: str | Address, *, scope: int = 0, broadcast: IP | None = None
    ) -> Address:
        """A device gets an address such as 10.0.0.4/24, with what that brings."""
        address = _address(dev, interface, scope, broadcast)
        with self._arranging(f"add address {address.ip}/{address.length} to {dev}"):
            self._namespace.add_address(address)
        return address

    def delete_address(self, dev: str, interface: str | Address) -> None:
        """A device loses an address, with what that brought; with the last one it loses every route of the family."""
        address = _address(dev, interface, 0, None)
        with self._arranging(f"delete address {address.ip}/{address.length} from {dev}"):
            self._namespace.delete_address(address)

    def add_rule(self, rule: Rule) -> None:
        """A rule comes, behind those of its priority."""
        with self._arranging(f"add rule {rule}"):
            self._namespace.add_rule(rule)

    def delete_rule(self, rule: Rule) -> None:
        """The first rule goes that is like this one in all that it says."""
        with self._arranging(f"delete rule {rule}"):
            self._namespace.delete_rule(rule)

    def ip_route(self, verb: Verb, route: Route) -> None:
        """Somebody else changes a route, with `ip route`: to `delete`, what the route leaves open matches anything."""
        with self._arranging(f"{verb} {route}"):
            self._namespace.change(Change(verb, route))

    def later(self, happening: Callable[[], object]) -> None:
        """Let this happen while somebody waits for a change: one happening that changes something for each wait."""
        self._happenings.append(happening)

    def __str__(self) -> str:
        """Rules and routes, as `ip rule` and `ip route show table all` print them."""
        return print_world(self._now())

    def _now(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = self._namespace.snapshot()
        return self._snapshot

    def _changed(self) -> None:
        self._snapshot = self._fib = None
        for watch in self._watches:
            watch.hear()

    def _usable(self) -> None:
        if self._closed:
            raise BackendError("the backend was closed")

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
        try:
            if change.verb == "delete":
                self._namespace.delete_exactly(change.route)
            else:
                self._namespace.change(change)
        except KernelError as error:
            problem = error.problem
            return Outcome(change, refusal(change, error.number, error.words, facts=self._facts, problem=problem))
        self._changed()
        return Outcome(change)

    @contextmanager
    def _arranging(self, what: str) -> Iterator[None]:
        try:
            yield
        except KernelError as error:
            raise BackendError(f"{what}: refused", errno=error.number, kernel=error.words) from error
        finally:
            self._changed()


@attrs.frozen
class _Facts:
    """What a refusal is explained from."""

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


def _answer(decision: Decision, *, merged: bool) -> Answer:
    route = decision.route
    if route is None:
        # To a lookup, a rule's "unreachable" and no route at all are one error.
        action = decision.rule.action if decision.rule else "nop"
        return Answer(action if action in {"blackhole", "prohibit"} else "no-route", None)
    if route.type in REFUSING:
        return Answer(route.type, None)
    if merged and route.prefix.family == IPV4 and route.table == TABLE_LOCAL:
        # Linux names the table that it searched, and until the first rule that is main for both.
        route = attrs.evolve(route, table=TABLE_MAIN)
    return Answer(decision.kind, route)
