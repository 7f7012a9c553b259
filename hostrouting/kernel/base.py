"""The contract of a backend, and its input and output values. This module does not talk to any kernel.

A backend is the only access to a kernel's routing, real or fake. It makes no decisions: the caller decides which routes
are wanted, and how to handle a refusal. The contract suite in `hostrouting.testing` checks these promises on any
backend.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import attrs

from hostrouting.errors import BackendError  # noqa: TC001  get_type_hints looks one up here
from hostrouting.kernel._route_table import RouteTable
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, as_ip, as_prefix, spans_of
from hostrouting.model.route import OURS, PATHLESS, REFUSING, Route
from hostrouting.model.rule import reached_tables

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from hostrouting.kernel._fib.decision import Kind
    from hostrouting.model.snapshot import Snapshot
    from phases import Clock

Verb: TypeAlias = Literal["add", "append", "prepend", "replace", "delete"]
Source: TypeAlias = Literal["routes", "nftables"]
"""What a watch listens to: `routes` stands for links, addresses, rules and routes."""


class RouteRequest(NamedTuple):
    """One thing to do with one route; the verbs mean what they mean to the kernel.

    A refusal is a BackendError; the word in parentheses is its kind.

    - `add`: refused (exists) if any route, also an identical one, has the same key (IPv4: table, prefix, tos,
      metric).
    - `append`: adds the route after those with the same key; refused (exists) if the identical route exists.
    - `prepend`: the same, but before those with the same key, so that the kernel uses it.
    - `replace`: rewrites the first route with this key, whoever added it; adds the route if there is none. Refused
      (exists) if exactly this route already exists behind the first one.
    - `delete`: deletes the route that is equal in every field; refused (no-such-route) if there is none. Linux itself
      would match more routes (any metric if 0 is given, any gateway or source if none is given). Those stay: if Linux
      would delete such a route first, it is refused with ENOTUNIQ.

    A number that does not fit into a kernel message is refused (invalid, ERANGE).

    The state of a next hop in a snapshot (linkdown, dead, pervasive) is ignored in a request, and so is the weight of a
    single next hop, unless it is an IPv6 gateway: a route can be passed back as it was read. In IPv6, `add` is
    refused in the same cases, but `append` of a route with a gateway merges it with the existing ones into one ECMP
    route, and `replace` replaces all next hops of such a route; a metric of 0 means 1024, a protocol of 0 means 3,
    and scope and tos are not part of a route's identity.

    Only in IPv6, a route may be for packets from some sources, and may have a preference and an end (`expires`, in
    seconds). For IPv4 they are refused (invalid), because Linux would ignore these. The sources are part of the key: a
    route for other sources, or for all, is another route, and is not merged with this one; ::/0 means all sources. The
    seconds are not part of a route's identity, only whether it expires at all; 4294967295 means that it stays. A route
    that was read back after it had expired is requested with 0 seconds. If `append` or `prepend` is refused because the
    same next hop exists, and that one expires, Linux sets its end and its mtu anyway. A route without a next hop
    gets neither a preference nor an end.
    """

    verb: Verb
    route: Route

    def __str__(self) -> str:
        return f"{self.verb} {self.route}"

    def __repr__(self) -> str:
        return f"<RouteRequest {self}>"


def foreign(route: Route) -> str:
    """The field of the route that does not exist in its family, as text; empty if there is none.

    Linux ignores these fields in a request for IPv4. It would add the route for all packets and permanently, so such a
    request is not sent.
    """
    if route.prefix.family == IPV4:
        asked = {
            "sources (from)": route.source is not None,
            "a preference (pref)": route.preference != "medium",
            "an end (expires)": route.expires is not None,
        }
        return next((f"only IPv6 routes have {what}" for what, is_asked in asked.items() if is_asked), "")
    if route.source is not None and route.source.family == IPV4:
        return f"the source prefix {route.source} and the route have different address families"
    return ""


def has_weight(route: Route) -> bool:
    """Whether the route is an IPv6 next hop with a weight; the weight matters if there are other next hops."""
    return (
        route.prefix.family == IPV6
        and len(route.legs) == 1
        and route.legs[0].gateway is not None
        and route.legs[0].weight != 1
        and route.nexthop_id is None
        and route.type not in PATHLESS
    )


class Outcome(NamedTuple):
    """The result of a change: done, or refused with the error."""

    change: RouteRequest
    error: BackendError | None = None

    @property
    def ok(self) -> bool:
        """Whether the change was made."""
        return self.error is None


class Answer(NamedTuple):
    """The kernel's answer for one destination: the FIB entry that decides, with all of its next hops.

    Until a namespace gets its first custom rule, Linux keeps the IPv4 tables local and main merged, and reports table
    main for the entries of both.
    """

    kind: Kind
    route: Route | None
    """The entry; None if the kernel answers with an error instead (`kind` names it).

    While the IPv4 tables local and main are merged (see `kernel._fib`), the kernel reports main for both here.
    """


class RouteBackend(Protocol):
    """A kernel's routing tables, with a few verbs.

    Every call takes at most its timeout and then raises BackendError (timeout). No call retries unless its docstring
    says so. The clock is checked between messages: a single system call, or parsing a single message, is not cut short.
    The only exception raised is BackendError, with the kernel's own text. If something else, such as KeyboardInterrupt,
    ends a call, the backend stays usable. A backend may be used by one thread at a time. Use it in a `with` block, or
    close it.
    """

    def snapshot(
        self,
        *,
        family: int | None = None,
        reached: bool = False,
        near: Collection[Prefix] | None = None,
        also: Callable[[Route], bool] | None = None,
    ) -> Snapshot:
        """The present links and addresses, by the numbers of devices, and the rules and routes, in the kernel's order.

        What is not asked for is not decoded, so that a few routes among 100,000 are read fast:

        - `family` (4 or 6) leaves out the other family's addresses, rules and routes; the snapshot says so.
        - `reached` leaves out the tables that no rule looks up, except Linux's own (`reached_tables`).
        - `near` leaves out unicast routes that overlap none of these prefixes, are longer than /1 and are not ours
          (protocol 213), unless `also` is true of them. It is asked once for each kind of route: routes that differ
          only in their first address are of one kind. So it must not look at that address.

        If the tables changed while they were read, they are read again, up to three times in all. After that the last
        reading is returned, and its `restless` is true. Needs no privilege.
        """

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """What the kernel would do with a plain packet of this host to each destination, in the same order.

        The packet is UDP, of root, without a mark. Needs no privilege and sends no packet. Raises ValueError for
        destinations of both families.
        """

    def change(self, changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Carry out each change, in order, and return the result of each.

        This is not a transaction: after a refused change, the next one is still tried. Device names are resolved at the
        time of the call. Idempotent only as far as the verbs are. Raises BackendError (not-permitted) if this process
        lacks the privilege; then nothing was changed. After a timeout, any number of changes may have been made: take a
        snapshot to find out. If the kernel's answers were lost, an outcome reports whether the requested state is there
        now.
        """

    def watch(self) -> Watch:
        """Begin to listen for changes of links, addresses, rules and routes.

        Listen first, then take a snapshot, then wait: this way no change is missed. Raises BackendError if it cannot
        listen.
        """

    def close(self) -> None:
        """Release the kernel sockets. May be called twice; any other call after it raises BackendError."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Watch(Protocol):
    """A listener for changes. It reports that something may have changed; read again to see what."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """Wait for a change since the last wait or the start: True, or False after `timeout` seconds.

        `clock` is the clock of the run: a fake kernel waits on it, so that a fake clock takes no real time. A real
        kernel uses the machine's clock in any case. A burst of changes, also one that overflowed the socket's buffer,
        is reported as one True. True without a change is allowed; False before the time is up only comes from `wake()`,
        called by another thread. Raises BackendError if it cannot listen any more.
        """

    def wake(self) -> None:
        """End the present or the next wait; may be called in any thread: `ctx.on_cancel(watch.wake)`."""

    def close(self) -> None:
        """Stop listening. May be called twice."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


KIND_OF_ERRNO: dict[int, Kind] = {errno.ENETUNREACH: "no-route", **{PATHLESS[kind]: kind for kind in REFUSING}}
"""The meaning of each errno that a lookup can return."""


def cannot_listen(source: Source, error: BackendError) -> str:
    """The sentence of a watch that cannot listen to one source."""
    return f"cannot listen to changes of {source}: {error}"


def asked_addresses(destinations: Iterable[IP | str]) -> tuple[IP, ...]:
    """The destinations of a lookup, converted from text where needed."""
    return tuple(as_ip(destination) if isinstance(destination, str) else destination for destination in destinations)


def asked_prefixes(prefixes: Iterable[Prefix | str] | None) -> frozenset[Prefix] | None:
    """The prefixes to include in a snapshot, converted from text where needed."""
    if prefixes is None:
        return None
    return frozenset(as_prefix(prefix) if isinstance(prefix, str) else prefix for prefix in prefixes)


def part_of(
    snapshot: Snapshot,
    *,
    family: int | None = None,
    reached: bool = False,
    near: Collection[Prefix] | None = None,
    also: Callable[[Route], bool] | None = None,
    table: int | None = None,
    protocol: int | None = None,
    prefixes: Collection[Prefix | str] | None = None,
) -> Snapshot:
    """The requested part of a snapshot, as `RouteBackend.snapshot` promises it."""
    rules = tuple(rule for rule in snapshot.rules if family in {None, rule.family})
    tables = reached_tables(rules) if reached else None
    routes = RouteTable.of(snapshot.routes)
    if tables is not None:
        routes = routes.part(routes.places(lambda outline: outline.table in tables))
    routes = routes.only(family=family, table=table, protocol=protocol, prefixes=asked_prefixes(prefixes))
    return attrs.evolve(
        snapshot,
        family=family,
        addresses=tuple(address for address in snapshot.addresses if family in {None, address.ip.version}),
        rules=rules,
        routes=routes if near is None else tuple(nearby(routes, near, also)),
    )


def nearby(routes: Iterable[Route], near: Collection[Prefix], also: Callable[[Route], bool] | None) -> Iterator[Route]:
    """The routes that `near` and `also` of `RouteBackend.snapshot` leave."""
    borders: dict[tuple[int, int], list[int]] = {}
    kinds: dict[Route, bool] = {}
    for route in routes:
        prefix = route.prefix
        kind = attrs.evolve(route, prefix=Prefix(prefix.family, 0, prefix.length))
        if kind not in kinds:
            kinds[kind] = is_kept(route) or (also is not None and also(route))
        size = (prefix.family, prefix.length)
        if size not in borders:
            borders[size] = borders_of(near, *size)
        if kinds[kind] or bisect_right(borders[size], prefix.network) % 2:
            yield route


def is_kept(route: Route) -> bool:
    """Whether `near` leaves the route wherever it leads."""
    return route.type != "unicast" or route.prefix.length <= 1 or route.protocol == OURS


def borders_of(near: Iterable[Prefix], family: int, length: int) -> list[int]:
    """Where the blocks begin and end, in turn, that a prefix of this length has to lie in to overlap one of `near`."""
    blocks = [prefix for prefix in near if prefix.family == family]
    widened = (Prefix.around(family, block.network, min(block.length, length)) for block in blocks)
    return [border for _, first, last in spans_of(widened) for border in (first, last + 1)]
