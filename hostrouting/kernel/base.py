"""The contract of a backend, and its input and output values.

This module does not talk to any kernel. A backend is the only access to a kernel's routing, real or
fake. It makes no decisions: the caller decides which routes are wanted, and how to handle a
refusal. The contract suite in `hostrouting.testing` checks these promises on any backend.
"""

import errno
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from hostrouting.errors import BackendError
from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.route import REFUSING, Route, RouteType
from hostrouting.model.snapshot import Snapshot

if TYPE_CHECKING:
    from typing_extensions import Self

    from phases import Clock

Verb: TypeAlias = Literal["add", "append", "delete"]


class RouteRequest(NamedTuple):
    """A verb and a route, for the kernel to carry out. What the verbs do is what Linux does.

    A refusal is a BackendError; the word in parentheses is its kind.

    - `add`: refused (exists) if any route has the same key (table, prefix, metric; in IPv4 also
      tos).
    - `append`: in IPv4, adds the route behind those with the same key, of which Linux uses the
      first; refused (exists) if this route is there. In IPv6, adds the next hop to the route with
      the same key; refused (exists) if this next hop is there, whoever added it.
    - `delete`: deletes the first route that has every field of the request; refused (no-such-route)
      if there is none. A metric or a protocol of 0 matches any, so give both. In IPv6, `delete`
      deletes one next hop for each next hop of the request. If one of these is not there, it is
      refused, and deletes the others all the same.

    In IPv4, `delete` may delete a similar route with the same key instead of the one that is meant.
    Linux does not compare weights, `onlink`, or an mtu that the request does not have. And a route
    matches if its next hops are only the first ones of the request.

    A route with a nexthop object is added and deleted by the number of the object. Without a
    number, `delete` matches no such route in IPv4. In IPv6 it matches one whatever its next hops
    are, if that route comes first.

    What does not fit into a message is refused (invalid, ERANGE). So is a route with what is only
    read: sources, a preference or an expiry.

    A route can be passed back as it was read: the state of a next hop (linkdown, dead) is ignored,
    and so is the weight of the only next hop of an IPv4 route. The only next hop of an IPv6 route
    keeps its weight, because others may join it.
    """

    verb: Verb
    route: Route

    def __str__(self) -> str:
        return f"{self.verb} {self.route}"


_NOTHING_TO_DO: dict[Verb, tuple[str, ...]] = {
    "add": ("exists",),
    "append": ("exists",),
    "delete": ("no-such-route", "no-such-device"),
}
"""By verb: the kinds of refusals which mean that the kernel already is as the request asks."""


class Outcome(NamedTuple):
    """The result of a change: done, or refused with the error."""

    change: RouteRequest
    error: BackendError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def is_done(self) -> bool:
        """Whether the kernel is now as the request asks, by this change or already before.

        A deletion is also done if its device does not exist, because Linux deletes the routes of a
        device together with it. But a renamed device keeps its routes, and a deletion with its old
        name counts as done, too: to be certain, read the routes again.
        """
        # These kinds of refusal say: the route to add exists, or the route to delete does not.
        return self.error is None or self.error.kind in _NOTHING_TO_DO[self.change.verb]


LookupEnd: TypeAlias = RouteType | Literal["no-route"]
"""How a lookup ends: the type of the route that decides, or no-route."""


KIND_OF_ERRNO: dict[int, LookupEnd] = {
    errno.ENETUNREACH: "no-route",
    errno.EOPNOTSUPP: "no-route",  # the kernel does not have IPv6
    **{refused.errno: kind for kind, refused in REFUSING.items()},
}
"""The meaning of each errno that a lookup can return."""


class Answer(NamedTuple):
    """The kernel's answer for one destination: the FIB entry that decides, with all its next hops.
    If that is an IPv6 route with a nexthop object, it is a route to the destination alone, with the
    next hop that Linux uses: Linux does not say reliably which entry decides.

    Until a namespace gets its first custom rule, Linux keeps the IPv4 tables local and main merged,
    and reports table main for the entries of both.
    """

    kind: LookupEnd
    route: Route | None
    """The entry; None if the kernel answers with an error instead (`kind` names it)."""


class RouteBackend(Protocol):
    """The routing of a kernel: reads it, looks up destinations, changes routes, and watches it.

    The only exception raised is BackendError, with the kernel's own text; its kind is `timeout` if
    no answer came in time. If something else, such as KeyboardInterrupt, ends a call, the backend
    is still usable. A backend may be used by one thread at a time. Use it in a `with` block, or
    close it.
    """

    def snapshot(self, *, near: Collection[Prefix] | None = None) -> Snapshot:
        """Read the present links, addresses, rules and routes. Needs no privilege.

        Links are sorted by number, and the addresses of each family by the numbers of their
        devices. Rules and routes are in the kernel's order.

        `near` saves time on a host with 100,000 routes: a backend may leave out most routes that
        overlap none of these prefixes. They are mostly routes of a CNI to the pods of other nodes.
        Of routes that differ only in the addresses of their prefixes, at least one is returned, so
        that the check knows the CNI. Never left out are the routes of hostrouting (protocol 213),
        default routes and their halves (/1), and routes without a gateway.

        If anything changes while the host is read, it is read again, up to three times in all. If
        the last reading is disturbed, too, it is returned all the same, marked as `restless`.
        """

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """Ask the kernel what it would do with a plain packet of this host to each destination;
        return the answers in the order of the destinations.

        A plain packet is ICMP, from root, without a mark. Needs no privilege and sends no packet.
        """

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Carry out each request, in order, and return the result of each.

        This is not a transaction: after a refused change, the next one is still tried. The names of
        devices mean the devices that have them during the call. The kernel refuses a request that
        was carried out before, but its `Outcome.is_done` is true, because nothing is left to do.

        Raises BackendError (not-permitted) if this process lacks the privilege; then nothing was
        changed. After any other BackendError, any number of changes may have been made: take a
        snapshot to find out.
        """

    def watch(self) -> "Watch":
        """Begin to listen for changes of links, addresses, rules and routes.

        Listen first, then take a snapshot, then wait: this way no change is missed. Raises
        BackendError if it cannot listen.
        """

    def close(self) -> None:
        """Release the kernel sockets.

        May be called twice; any other call after it raises BackendError.
        """

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Watch(Protocol):
    """Listens for changes of a kernel's routing. It says only that something may have changed: to
    see what, read the routing again.
    """

    def wait(self, timeout: float, *, clock: "Clock | None" = None) -> bool:
        """Wait until something has changed since the last wait, or since this watch began. Return
        True then, or False after `timeout` seconds.

        True may be a false alarm. A burst of changes, even one that overflowed the socket's buffer,
        is reported as one True. Raises BackendError if it cannot listen any more.

        `clock` is for tests: a fake kernel waits on the caller's clock, which may be a fake one
        that takes no real time. A real kernel always uses the machine's clock.
        """

    def close(self) -> None:
        """Stop listening. May be called twice."""

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
