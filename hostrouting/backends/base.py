"""What a backend promises, and the values that go in and out of it. No kernel is spoken to here.

A backend is the only way to a kernel's routing, real or fake. It decides nothing: which routes are wanted, and what
is to be done about a refusal, is decided above it. The promises are checked, on any backend, by the contract suite in
`hostrouting.testing`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

import attrs

from hostrouting.door import listed
from hostrouting.errors import RouteRefused  # noqa: TC001  attrs.resolve_types looks it up here
from hostrouting.fib import ANY
from hostrouting.model import PATHLESS, REFUSING, as_ip, as_prefix

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from types import TracebackType

    from hostrouting.fib import Flow, Kind
    from hostrouting.model import IP, Prefix, Route, Snapshot
    from phases import Clock

__all__ = [
    "KIND_OF_ERRNO",
    "Answer",
    "Change",
    "Outcome",
    "RouteBackend",
    "Verb",
    "Watch",
    "asked_addresses",
    "asked_prefixes",
    "part_of",
]

Verb: TypeAlias = Literal["add", "append", "prepend", "replace", "delete"]


@attrs.frozen
class Change:
    """One thing to do to one route, in the kernel's own sense of the verb.

    - `add`: RouteExists when the key (IPv4: table, prefix, tos, metric) is held by any route, its own twin included.
    - `append`: a second route beside the holder of the key, after it; RouteExists for an exact twin.
    - `prepend`: the same, before the holders of the key: it is then the one that the kernel takes.
    - `replace`: rewrites the first holder of the key, whoever it belongs to, or adds when nobody holds it. The
      kernel answers RouteExists when exactly this route already stands behind the first holder.
    - `delete`: the one route that is exactly this, in everything that it says; NoSuchRoute if none is. What Linux
      itself would take for it (any metric when 0 is asked for, any gateway or source when none is) stays; where that
      stands before it, it is RouteRefused with ENOTUNIQ.

    A number that does not fit into a message of the kernel's is InvalidRoute with ERANGE.

    What a snapshot shows of the state of a leg (linkdown, dead, pervasive) is no part of what is asked for, nor is the
    weight of an only leg: a route can be handed back as it was read. In IPv6 `add` is refused in the same way, but
    `append` of a route with a gateway makes one ECMP route with those that stand there, and `replace` takes the place
    of all legs of one; a metric of 0 is 1024, a protocol of 0 is 3, and scope and tos tell no routes apart.
    """

    verb: Verb
    route: Route

    def __str__(self) -> str:
        return f"{self.verb} {self.route}"

    def __repr__(self) -> str:
        return f"<Change {self}>"


@attrs.frozen
class Outcome:
    """What became of a change: done, or refused with the error."""

    change: Change
    error: RouteRefused | None = None

    @property
    def ok(self) -> bool:
        """Whether it was done."""
        return self.error is None


@attrs.frozen
class Answer:
    """The kernel's answer for one destination: the FIB entry that decides, with all of its legs.

    Until a namespace gets its first rule of its own, Linux keeps the IPv4 tables local and main as one, and names
    main for the entries of both.
    """

    kind: Kind
    route: Route | None
    """The entry; None where the kernel answers with an error instead (`kind` says which).

    While IPv4 keeps the tables local and main in one (see `hostrouting.fib`), the kernel calls both of them main here.
    """


class RouteBackend(Protocol):
    """A kernel's routing tables, as few verbs.

    Every call takes at most its time-out and then raises BackendTimeout; none retries on its own, except where it says
    so. The clock is looked at between messages: what one system call or the understanding of one message takes is not
    cut short. Nothing but BackendError is raised, with the kernel's own words; what else breaks off a call, such as
    KeyboardInterrupt, leaves a backend that is as good as before. A backend may be used by one thread at a time. Use
    it in a `with` block, or close it.
    """

    def snapshot(
        self,
        *,
        family: int | None = None,
        table: int | None = None,
        protocol: int | None = None,
        prefixes: Collection[Prefix | str] | None = None,
    ) -> Snapshot:
        """Links, addresses, rules and routes as they are now, in the kernel's order.

        `family` (4 or 6) leaves out the other family's addresses, rules and routes; `table`, `protocol` and `prefixes`
        leave out other routes: a real kernel is asked for these tables and protocols only, so that a few routes are
        read as fast among 100,000 others. Of one moment: when anything of it may have changed meanwhile, all is read
        again, a few times; then Unsettled, with the last reading. Routes that are left out may change as they like
        (in IPv6, those of other tables): so a few prefixes can be read on a host that never rests. What is said of a
        device for both families is what holds in IPv4, unless only 6 is asked for. Needs no privilege.
        """
        ...

    def lookup(self, destinations: Sequence[IP | str], flow: Flow = ANY) -> tuple[Answer, ...]:
        """What the kernel itself would do with a packet to each destination; the answers are in the same order.

        A destination may be a text. Of the flow it can be told what is known of it: source, iif, oif, mark, tos, uid,
        ipproto and ports; the rest is that of a plain packet of this process. Needs no privilege and sends no packet.
        ValueError for a mix of families, TypeError for one destination without a list around it; BackendError for a
        device that is not there, or a source that no packet of the host's own can have.
        """
        ...

    def change(self, changes: Iterable[Change]) -> tuple[Outcome, ...]:
        """Carry out each change, in order, and say what became of each.

        Not a transaction: one that is refused does not keep the next from being tried. Device names are resolved now,
        not earlier. Not idempotent beyond what the verbs say. NotPermitted when this process may not; then nothing was
        done. BackendTimeout leaves open how far it came: take a snapshot to know. Where a kernel's answers were lost,
        an outcome says whether what was asked for is there now.
        """
        ...

    def watch(self) -> Watch:
        """Begin to listen for changes of links, addresses, rules and routes.

        Listen first, then take a snapshot, then wait: so no change falls in between.
        """
        ...

    def close(self) -> None:
        """Let go of the kernel. Fine to call twice; a backend that was closed raises BackendError for anything else."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Watch(Protocol):
    """A listener for changes. It says that something may have changed, never what: read again."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """Wait for a change since the last wait, or since the beginning: True, or False when the seconds are over.

        `clock` is that of the run: a fake kernel waits on it, so that on a fake clock nobody really waits. A real
        kernel changes in its own time, and its seconds are the machine's, whatever the clock. A burst of changes,
        also one that was too large to be heard in full, is one True. A True that nothing changed for is fine; False
        before the seconds are over only `wake()` may bring.
        `wake()` from another thread ends the wait with False.
        """
        ...

    def wake(self) -> None:
        """End a wait that is under way, or the next one, from any thread: for `ctx.on_cancel(watch.wake)`."""

    def close(self) -> None:
        """Stop listening. Fine to call twice."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


KIND_OF_ERRNO: dict[int, Kind] = {
    errno.ENETUNREACH: "no-route",
    **{number: kind for kind, number in PATHLESS.items() if kind in REFUSING},
}
"""What the kernel's error for a lookup means."""


def asked_addresses(destinations: Iterable[IP | str]) -> tuple[IP, ...]:
    """The destinations of a lookup, texts among them; TypeError for one alone."""
    return tuple(as_ip(it) if isinstance(it, str) else it for it in listed(destinations, "lookup"))


def asked_prefixes(prefixes: Iterable[Prefix | str] | None) -> frozenset[Prefix] | None:
    """The prefixes that a snapshot is to have, texts among them; TypeError for one alone."""
    if prefixes is None:
        return None
    return frozenset(as_prefix(it) if isinstance(it, str) else it for it in listed(prefixes, "snapshot: prefixes"))


def part_of(
    snapshot: Snapshot,
    *,
    family: int | None,
    table: int | None,
    protocol: int | None,
    prefixes: Collection[Prefix | str] | None,
) -> Snapshot:
    """What is asked for of a snapshot, as `RouteBackend.snapshot` promises it."""
    if family is None and table is None and protocol is None and prefixes is None:
        return snapshot
    return attrs.evolve(
        snapshot,
        addresses=tuple(it for it in snapshot.addresses if family in {None, it.ip.version}),
        rules=tuple(it for it in snapshot.rules if family in {None, it.family}),
        routes=snapshot.routes.only(family=family, table=table, protocol=protocol, prefixes=asked_prefixes(prefixes)),
    )
