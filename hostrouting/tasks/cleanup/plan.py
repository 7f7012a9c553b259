"""The two documents of a clean-up: the plan of what is to be done, and the file that undoes it.

The plan says what another CNI left on a host, and what is to be done about each entry: a value, as text and as JSON.
The undo file has the commands that restore what was deleted; sh runs it. Tables, protocols and scopes are written in it
as numbers, because some of their names are configured on each host.

Not here: which entries are stale (a module for each CNI), deleting, and where the files are (`task`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import attrs

from hostrouting.finding import Finding, of_severity
from hostrouting.host.effects import Operation
from hostrouting.kernel.neighbours import LinkLayerView, Neighbour
from hostrouting.model.prefix import IPV6
from hostrouting.model.route import NextHop, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.tasks.cleanup.saved_rules import SavedRules

if TYPE_CHECKING:
    from typing_extensions import Self

Kind: TypeAlias = Literal["rule", "neighbour", "route"]
NOUNS: dict[Kind, str] = {"rule": "ebtables rule", "neighbour": "neighbour", "route": "route"}
Fate: TypeAlias = Literal["delete", "conflict", "inert", "keep"]
"""A conflict belongs to a live pod whose address another CNI manages; an inert rule matches no frame."""


@attrs.frozen
class CleanupFacts:
    """What is known about a host when its leftovers are looked for."""

    rules: SavedRules | None = attrs.field(factory=SavedRules)
    """None if the host has no ebtables that could be asked."""
    view: LinkLayerView = attrs.field(factory=LinkLayerView)
    snapshot: Snapshot = attrs.field(factory=Snapshot)
    read: Callable[[str], str | None] = lambda _path: None
    """Reads a file of the host; None if it does not exist."""
    names: Callable[[str], tuple[str, ...]] = lambda _folder: ()
    """The names in a folder of the host."""


@attrs.frozen
class CleanupEntry:
    """One rule, neighbour or route that looks like the other CNI's, with what is done to it, and why."""

    kind: Kind
    spec: str
    """The thing itself: a rule as ebtables-save prints it, a neighbour or a route as ip prints it."""
    fate: Fate
    reason: str
    thing: str | Neighbour | Route | None = attrs.field(default=None, eq=False, repr=False)
    """What is passed to the edge that deletes it: the line of a rule, the neighbour or the route."""

    @property
    def key(self) -> tuple[Kind, str]:
        """The same for the same entry in two plans."""
        return self.kind, self.spec

    @property
    def name(self) -> str:
        """The entry as a phrase."""
        return f"{NOUNS[self.kind]} {self.spec}"

    def deletion(self) -> Operation:
        """The operation that deletes it."""
        return Operation("delete", self.name, self.reason)

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}    # {self.reason}"

    def to_mapping(self) -> dict[str, str]:
        """The entry as plain values."""
        return {"kind": self.kind, "spec": self.spec, "fate": self.fate, "reason": self.reason}


@attrs.frozen(kw_only=True)
class CleanupPlan:
    """What would be deleted, in that order, and what is kept, each with its reason."""

    entries: tuple[CleanupEntry, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What else there is to tell; an error is a reason to delete nothing."""
    is_dry_run: bool = attrs.field(default=False, eq=False)
    """Whether the task that made the plan only reports."""

    def with_fate(self, fate: Fate) -> tuple[CleanupEntry, ...]:
        """The entries with this fate."""
        return tuple(entry for entry in self.entries if entry.fate == fate)

    @property
    def deletions(self) -> tuple[CleanupEntry, ...]:
        """What is stale."""
        return self.with_fate("delete")

    @property
    def hindrances(self) -> tuple[str, ...]:
        """The reasons why nothing can be deleted."""
        return tuple(str(finding) for finding in of_severity(self.findings, "error"))

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be deleted."""
        return self.is_dry_run or not self.deletions

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "entries": [entry.to_mapping() for entry in self.entries],
            "findings": [finding.to_mapping() for finding in self.findings],
        }

    def __str__(self) -> str:
        shown = "stale (dryRun)" if self.is_dry_run else "delete"
        lines = [
            f"{shown if fate == 'delete' else fate} {entry}"
            for fate in get_args(Fate)
            for entry in self.with_fate(fate)
        ]
        return "\n".join([*(lines or ["nothing to delete"]), *map(str, self.findings)])


_HEAD = """\
# What hostrouting deleted, because another CNI had left it behind. To restore it, as root, run
# this file with sh, but only once: rules that still exist would be added a second time. First make sure that no pod has
# one of the addresses by now: it would be cut off.
"""
_ANY = "ebtables"
"""The program name on a host where ebtables is not named after its backend."""


@attrs.frozen
class UndoLog:
    """The deleted rules, neighbours and routes (or those about to be deleted)."""

    rules: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    routes: tuple[Route, ...] = ()
    program: str = _ANY
    """The program that restores the rules: the ebtables of the backend that had them."""

    def with_entries(self, entries: Iterable[CleanupEntry]) -> Self:
        """The log of these deletions, in order."""
        entries = tuple(entries)
        things = [entry.thing for entry in entries]
        return attrs.evolve(
            self,
            rules=tuple(str(entry.thing) for entry in entries if entry.kind == "rule"),
            neighbours=tuple(thing for thing in things if isinstance(thing, Neighbour)),
            routes=tuple(_as_asked(thing) for thing in things if isinstance(thing, Route)),
        )

    def __str__(self) -> str:
        lines = [shlex.join(words) for words in self._commands()]
        return _HEAD + "".join(f"{line}\n" for line in lines)

    def _commands(self) -> Iterator[list[str]]:
        for line in self.rules:
            yield [self.program, "-t", "nat", "-A", *line.split()]
        for near in self.neighbours:
            yield ["ip", "neigh", "add", str(near.ip), "lladdr", near.mac, "dev", near.dev, "nud", "permanent"]
        for route in self.routes:
            yield ["ip", f"-{route.prefix.family}", "route", "add", str(route.prefix), *_route_words(route)]


def _as_asked(route: Route) -> Route:
    """The route as in a request, without the state that the kernel reports for its next hop."""
    return attrs.evolve(route, legs=(NextHop(route.devs[0]),))


def _route_words(route: Route) -> Iterator[str]:
    yield from ("dev", route.devs[0], "table", str(route.table), "proto", str(route.protocol))
    if route.prefix.family != IPV6:  # an IPv6 route has no scope
        yield from ("scope", str(route.scope))
    yield from ("metric", str(route.metric))
    for name, value in (("src", route.prefsrc), ("mtu", route.mtu), ("advmss", route.advmss)):
        if value is not None:
            yield from (name, str(value))
