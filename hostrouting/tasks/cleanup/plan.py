"""The plan of a clean-up: the entries that another CNI left on a host, each with its fate.

Here: values, as text and as JSON, and back. Not here: which entries are stale (a module for each CNI), and deleting
(`task`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import attrs

from hostrouting.finding import Finding, of_severity
from hostrouting.host.effects import Operation
from hostrouting.kernel.neighbours import LinkLayerView, Neighbour
from hostrouting.model import Route, Snapshot
from hostrouting.tasks.cleanup.saved_rules import SavedRules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

Kind: TypeAlias = Literal["rule", "neighbour", "route", "pod"]
"""What an entry is; a pod is one in the other CNI's own list."""
NOUNS: dict[Kind, str] = {"rule": "ebtables rule", "neighbour": "neighbour", "route": "route", "pod": "listed pod"}
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
    """One rule, neighbour, route or listed pod that looks like the other CNI's, with its fate and the reason."""

    kind: Kind
    spec: str
    """The thing itself: a rule as ebtables-save prints it, a neighbour or a route as ip prints it."""
    fate: Fate
    reason: str
    thing: str | Neighbour | Route | None = attrs.field(default=None, eq=False, repr=False)
    """What is passed to the edge that deletes it: the line of a rule, the neighbour, the route, or the pod's name.

    None in a plan that was read from a file: the values are then found by reading the host again.
    """

    @property
    def key(self) -> tuple[Kind, str]:
        """The same for the same entry in two plans."""
        return self.kind, self.spec

    @property
    def name(self) -> str:
        """The entry as a phrase."""
        return f"{NOUNS[self.kind]} {self.spec}"

    def deletion(self, thing: object = None) -> Operation:
        """The operation that deletes it; its value tells the task what to delete."""
        return Operation("delete", self.name, self.reason, thing)

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
    host: str = ""
    """The name of the host, for the reader."""
    boot: str = ""
    """The kernel's boot id: no other host has the same one, and this host gets a new one at each boot."""
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

    def split(self, shown: CleanupPlan) -> tuple[Self, tuple[CleanupEntry, ...]]:
        """The plan with only the deletions that are also in `shown`; and the other deletions.

        A deletion that `shown` has once is made once.
        """
        left = Counter(entry.key for entry in shown.deletions)
        kept, others = [], []
        for entry in self.entries:
            if entry.fate != "delete" or left[entry.key] > 0:
                left[entry.key] -= entry.fate == "delete"
                kept.append(entry)
            else:
                others.append(entry)
        return attrs.evolve(self, entries=tuple(kept)), tuple(others)

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain values; `from_mapping` reads those that a clean-up needs."""
        return {
            "host": self.host,
            "boot": self.boot,
            "entries": [entry.to_mapping() for entry in self.entries],
            "findings": [finding.to_mapping() for finding in self.findings],
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """The plan in these values, without its findings. Raises ValueError that names what is missing or wrong."""
        entries = values.get("entries")
        if not isinstance(entries, list):
            raise ValueError("entries is missing, or is not a list")  # noqa: TRY004  the value was read from a file
        found = tuple(_entry(value, f"entries[{at}]") for at, value in enumerate(entries))
        return cls(entries=found, host=_text(values, "host"), boot=_text(values, "boot"))

    def __str__(self) -> str:
        shown = "stale (dryRun)" if self.is_dry_run else "delete"
        lines = [
            f"{shown if fate == 'delete' else fate} {entry}"
            for fate in get_args(Fate)
            for entry in self.with_fate(fate)
        ]
        return "\n".join([*(lines or ["nothing to delete"]), *map(str, self.findings)])


def _entry(value: object, path: str) -> CleanupEntry:
    if not isinstance(value, dict):
        raise ValueError(f"{path} is not an object")  # noqa: TRY004  as above
    kind: Any = _one_of(value, "kind", get_args(Kind), path)
    fate: Any = _one_of(value, "fate", get_args(Fate), path)
    return CleanupEntry(kind, _text(value, "spec", f"{path}."), fate, _text(value, "reason", f"{path}."))


def _one_of(values: Mapping[str, object], name: str, known: tuple[str, ...], path: str) -> str:
    found = _text(values, name, f"{path}.")
    if found not in known:
        raise ValueError(f"{path}.{name} is {found!a}, not {' or '.join(known)}")
    return found


def _text(values: Mapping[str, object], name: str, path: str = "") -> str:
    found = values.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{path}{name} is missing, or is not a string")  # noqa: TRY004  as above
    return found
