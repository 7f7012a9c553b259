"""The contract of a backend, and its input and output values.

This module does not talk to any kernel. A backend is the only access to a kernel's routing, real or
fake. It makes no decisions: the caller decides which routes are wanted, and how to handle a
refusal. The contract suite in `hostrouting.testing` checks these promises on any backend.
"""

import errno
import time
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from hostrouting.errors import BackendError
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, width_of
from hostrouting.model.route import OURS, REFUSED, Route, RouteType
from hostrouting.model.rule import reached_tables
from hostrouting.model.snapshot import Snapshot

if TYPE_CHECKING:
    from typing_extensions import Self

    from phases import Clock

Verb: TypeAlias = Literal["add", "append", "delete"]


class RouteRequest(NamedTuple):
    """One thing to do with one route; the verbs mean what they mean to the kernel.

    A refusal is a BackendError; the word in parentheses is its kind.

    - `add`: refused (exists) if any route has the same key (table, prefix, metric; in IPv4 also
      tos).
    - `append`: adds the route behind those with the same key, and Linux uses the first. In IPv6,
      adds a next hop to them. Refused (exists) if this route is there, in IPv6 also if the next hop
      is, whoever added it.
    - `delete`: deletes the first route that has every field of the request; refused (no-such-route)
      if there is none. A metric or a protocol of 0 matches any, so a request to delete has both. In
      IPv6, `delete` deletes one next hop for each next hop of the request. In IPv4, Linux compares
      neither weights nor `onlink`, nor an mtu that the request does not have, and takes a route for
      the one that is meant if its next hops are the first of the request.

    What does not fit into a message is refused (invalid, ERANGE), and so are sources, a preference,
    an end and a nexthop object, which are only read. The state of a next hop (linkdown, dead) is
    ignored, and so is the weight of the only next hop of an IPv4 route: a route can be passed back
    as it was read. An IPv6 next hop keeps its weight for when others join it.
    """

    verb: Verb
    route: Route

    def __str__(self) -> str:
        return f"{self.verb} {self.route}"


def has_weights(route: Route) -> bool:
    """Whether Linux keeps the weights of the next hops; in IPv6, others can join a single one."""
    return len(route.next_hops) > 1 or route.prefix.family == IPV6


Kind: TypeAlias = RouteType | Literal["no-route"]
"""How a lookup ends: the type of the route that decides, or no-route."""


_DONE: dict[Verb, tuple[str, ...]] = {
    "add": ("exists",),
    "append": ("exists",),
    "delete": ("no-such-route", "no-such-device"),
}
"""By verb: the kinds of a refusal because the kernel is as the request asks already."""


class Outcome(NamedTuple):
    """The result of a change: done, or refused with the error."""

    change: RouteRequest
    error: BackendError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def is_done(self) -> bool:
        """Whether the kernel is now as the change asks, even if it was so before."""
        return self.error is None or self.error.kind in _DONE[self.change.verb]


class Answer(NamedTuple):
    """The kernel's answer for one destination: the FIB entry that decides, with all its next hops.

    Until a namespace gets its first custom rule, Linux keeps the IPv4 tables local and main merged,
    and reports table main for the entries of both.
    """

    kind: Kind
    route: Route | None
    """The entry; None if the kernel answers with an error instead (`kind` names it)."""


class RouteBackend(Protocol):
    """A kernel's routing tables, with a few verbs.

    The only exception raised is BackendError, with the kernel's own text; its kind is `timeout` if
    no answer came in time. If something else, such as KeyboardInterrupt, ends a call, the backend
    is still usable. A backend may be used by one thread at a time. Use it in a `with` block, or
    close it.
    """

    @abstractmethod
    def snapshot(
        self,
        *,
        family: int | None = None,
        reached: bool = False,
        near: Collection[Prefix] | None = None,
    ) -> Snapshot:
        """The present links, addresses, rules and routes.

        Links and addresses are in the order of the numbers of devices, rules and routes in the
        kernel's order. What is not asked for is not decoded, so that a few routes among 100,000 are
        read fast:

        - `family` (4 or 6) leaves out the other family's addresses, rules and routes; the snapshot
          says so.
        - `reached` leaves out the tables that no rule looks up, except Linux's own
          (`reached_tables`).
        - `near` leaves out unicast routes by a gateway that overlap none of these prefixes, are
          longer than /1 and are not of hostrouting (protocol 213). Of routes that differ only in
          their first address, it keeps the first.

        If anything of the wanted families changed while it was read, it is read again, up to three
        times in all. After that the last reading is returned, and its `restless` is true. Needs no
        privilege.
        """

    @abstractmethod
    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """What the kernel would do with a plain packet of this host to each destination.

        The answers are in the order of the destinations. The packet is UDP, of root, without a
        mark. Needs no privilege and sends no packet.
        """

    @abstractmethod
    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Carry out each request, in order, and return the result of each.

        This is not a transaction: after a refused change, the next one is still tried. Device names
        are resolved at the time of the call. Idempotent only as far as the verbs are. Raises
        BackendError (not-permitted) if this process lacks the privilege; then nothing was changed.
        After any other BackendError, any number of changes may have been made: take a snapshot to
        find out.
        """

    @abstractmethod
    def watch(self) -> "Watch":
        """Begin to listen for changes of links, addresses, rules and routes.

        Listen first, then take a snapshot, then wait: this way no change is missed. Raises
        BackendError if it cannot listen.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the kernel sockets.

        May be called twice; any other call after it raises BackendError.
        """

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Watch(Protocol):
    """A listener, which reports that something may have changed; read again to see what."""

    def wait(self, timeout: float, *, clock: "Clock | None" = None) -> bool:
        """Wait for a change since the last wait or the start; return whether there was one.

        False is returned after `timeout` seconds, and earlier only after `wake()`, called by
        another thread. True without a change is allowed. A burst of changes, also one that
        overflowed the socket's buffer, is reported as one True. Raises BackendError if it cannot
        listen any more.

        `clock` is the clock of the run: a fake kernel waits on it, so that a fake clock takes no
        real time. A real kernel uses the machine's clock in any case.
        """

    def wake(self) -> None:
        """End the present or the next wait.

        May be called in any thread: `ctx.on_cancel(watch.wake)`.
        """

    def close(self) -> None:
        """Stop listening. May be called twice."""

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


KIND_OF_ERRNO: dict[int, Kind] = {
    errno.ENETUNREACH: "no-route",
    **{refused.errno: kind for kind, refused in REFUSED.items()},
}
"""The meaning of each errno that a lookup can return."""


_PAUSES = (0.01, 0.05)
"""Seconds before the second and the third reading: a device that comes makes several changes."""


def settled(read: Callable[[], Snapshot]) -> Snapshot:
    """A reading during which nothing has changed, or the third."""
    snapshot = read()
    for pause in _PAUSES:
        if not snapshot.restless:
            break
        time.sleep(pause)
        snapshot = read()
    return snapshot


def part_of(
    snapshot: Snapshot,
    *,
    family: int | None = None,
    reached: bool = False,
    near: Collection[Prefix] | None = None,
) -> Snapshot:
    """The requested part of a snapshot, as `RouteBackend.snapshot` promises it."""
    families = {IPV4, IPV6} if family is None else {family}
    addresses = [address for address in snapshot.addresses if address.ip.version in families]
    rules = [rule for rule in snapshot.rules if rule.family in families]
    routes = [route for route in snapshot.routes if route.prefix.family in families]
    tables = reached_tables(rules) if reached else None
    if tables is not None:
        routes = [route for route in routes if route.table in tables]
    kept = filter(Near(near).keeps, routes)
    return snapshot._replace(
        family=family, addresses=tuple(addresses), rules=tuple(rules), routes=tuple(kept)
    )


class Near:
    """Which routes `near` of `RouteBackend.snapshot` keeps; None keeps all.

    Where the wanted networks are is a list of borders: where one begins, where it ends, where the
    next one begins, and so on.
    """

    def __init__(self, blocks: Collection[Prefix] | None) -> None:
        self._blocks = blocks
        self._borders: dict[tuple[int, int], list[int]] = {}
        """By family and length of the routes."""
        self._seen: set[tuple[object, ...]] = set()
        """The routes so far, without their first addresses."""

    def keeps(self, route: Route) -> bool:
        """Whether this route, the next one of a list, is kept."""
        borders = self.borders_for(route)
        if borders is None:
            return True
        family, network, length = route.prefix
        all_but_network = (family, length, *route[1:])
        is_first = all_but_network not in self._seen
        self._seen.add(all_but_network)
        return is_first or is_wanted(network, borders)

    def borders_for(self, route: Route) -> list[int] | None:
        """The borders for routes that differ from this one in their first address.

        None if such a route is kept whatever its first address is.
        """
        family, _, length = route.prefix
        is_kept_anywhere = length <= 1 or route.type != "unicast" or route.protocol == OURS
        if self._blocks is None or is_kept_anywhere or not route.has_gateway:
            return None
        if (family, length) not in self._borders:
            self._borders[family, length] = _borders_of(self._blocks, family, length)
        return self._borders[family, length]


def is_wanted(network: int, borders: Sequence[int]) -> bool:
    """Whether this first address lies where networks are wanted."""
    return bisect_right(borders, network) % 2 == 1


def _borders_of(near: Iterable[Prefix], family: int, length: int) -> list[int]:
    """The borders of the networks of this length that overlap one of `near`."""
    free = width_of(family) - length
    wanted: list[tuple[int, int]] = []
    for block in near:
        if block.family == family:
            first = block.first >> free << free
            end = (block.last >> free) + 1 << free
            wanted.append((first, end))

    borders: list[int] = []
    for first, end in sorted(wanted):
        if borders and first <= borders[-1]:
            borders[-1] = max(borders[-1], end)
        else:
            borders += [first, end]
    return borders
