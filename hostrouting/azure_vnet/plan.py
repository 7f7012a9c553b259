"""The plan of a clean-up: what it would delete and keep; with conversion to plain values and back.

Here: the plan, and the comparison of two plans. Not here: what is stale (`cleanup`), and the JSON document around a
plan (`cli`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Self

    from hostrouting.model import Route
    from hostrouting.neighbours import Neighbour

__all__ = ["CleanupPlan", "Deletion", "Kept", "Kind"]

Kind: TypeAlias = Literal["rule", "neighbour", "route"]


@attrs.frozen
class Kept:
    """A rule, neighbour or route that looks like azure-vnet's but is kept, with the reason."""

    kind: Kind
    spec: str
    """The thing itself: a rule as ebtables-save prints it, a neighbour or a route as ip prints it."""
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}    # {self.reason}"

    def to_mapping(self) -> dict[str, str]:
        """The entry as plain values."""
        return {"kind": self.kind, "spec": self.spec, "reason": self.reason}


@attrs.frozen
class Deletion(Kept):
    """A stale rule, neighbour or route, with the reason."""

    thing: str | Neighbour | Route | None = attrs.field(default=None, eq=False, repr=False)
    """The value that is passed to the edge that deletes it: the line of a rule, the neighbour or the route.

    None in a plan that was read from a file: the values are then found by reading the host again.
    """

    @property
    def key(self) -> tuple[Kind, str]:
        """Two deletions in two plans are the same if they have the same key."""
        return self.kind, self.spec


@attrs.frozen(kw_only=True)
class CleanupPlan:
    """What would be deleted, in that order, and what is kept, each with its reason."""

    deletions: tuple[Deletion, ...] = ()
    kept: tuple[Kept, ...] = ()
    conflicts: tuple[Kept, ...] = ()
    """Entries with a managed address whose pod is alive: two CNIs may be using one address."""
    inert: tuple[Kept, ...] = ()
    """Rules that match no frame."""
    unreadable: tuple[str, ...] = ()
    """Lines of ebtables-save that could not be parsed; they are not changed."""
    bridges: tuple[str, ...] = ()
    uplinks: tuple[str, ...] = ()
    hindrances: tuple[str, ...] = ()
    """The reasons why nothing can be deleted, each a sentence; empty if the deletions can be made."""
    notes: tuple[str, ...] = ()
    """Further facts for the operator, each a sentence."""
    host: str = ""
    """The name of the host, for the reader."""
    boot: str = ""
    """The kernel's boot id: no other host has the same one, and this host gets a new one at each boot."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be deleted."""
        return not self.deletions

    def within(self, shown: CleanupPlan) -> Self:
        """The plan without the deletions that are not in `shown`; a deletion that `shown` has once is made once."""
        left = Counter(it.key for it in shown.deletions)
        found = []
        for it in self.deletions:
            if left[it.key]:
                left[it.key] -= 1
                found.append(it)
        return attrs.evolve(self, deletions=tuple(found))

    def beyond(self, shown: CleanupPlan) -> tuple[Deletion, ...]:
        """The deletions that are not in `shown`, which `within` leaves out."""
        agreed = Counter(it.key for it in self.within(shown).deletions)
        left = []
        for it in self.deletions:
            if agreed[it.key]:
                agreed[it.key] -= 1
            else:
                left.append(it)
        return tuple(left)

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain values; `from_mapping` is the inverse."""
        return {
            "host": self.host,
            "boot": self.boot,
            **{name: list(getattr(self, name)) for name in _TEXTS[:2]},
            **{name: [it.to_mapping() for it in getattr(self, name)] for name in _THINGS},
            "unreadable": len(self.unreadable),
            "unreadableLines": list(self.unreadable),
            **{name: list(getattr(self, name)) for name in _TEXTS[2:]},
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """The plan in these values; other keys are ignored. Raises ValueError that names what is missing or wrong."""
        parts: dict[str, Any] = {name: tuple(_things(values, name, kind)) for name, kind in _THINGS.items()}
        parts |= {name: tuple(_texts(values, name)) for name in _TEXTS}
        lines = tuple(_texts(values, "unreadableLines"))
        return cls(**parts, unreadable=lines, host=_text(values, "host"), boot=_text(values, "boot"))

    def __str__(self) -> str:
        lines = [f"delete {it}" for it in self.deletions] or ["nothing to delete"]
        lines += [f"conflict {it}" for it in self.conflicts]
        lines += [f"inert {it}" for it in self.inert]
        lines += [f"keep {it}" for it in self.kept]
        lines += [f"unreadable {it!a}" for it in self.unreadable]
        return "\n".join([*lines, *self.hindrances, *self.notes])


_THINGS: dict[str, type[Kept]] = {"deletions": Deletion, "kept": Kept, "conflicts": Kept, "inert": Kept}
_TEXTS = ("bridges", "uplinks", "hindrances", "notes")


def _things(values: Mapping[str, object], name: str, kind: type[Kept]) -> Iterator[Kept]:
    for at, it in enumerate(_list(values, name)):
        path = f"{name}[{at}]"
        if not isinstance(it, dict):
            raise ValueError(f"{path} is not an object")  # noqa: TRY004  the fault is in the text of a file
        found: dict[str, Any] = {key: _text(it, key, path=path) for key in ("kind", "spec", "reason")}
        if found["kind"] not in get_args(Kind):
            raise ValueError(f"{path}.kind is {found['kind'][:40]!a}, not one of {', '.join(get_args(Kind))}")
        yield kind(**found)


def _texts(values: Mapping[str, object], name: str) -> Iterator[str]:
    for at, it in enumerate(_list(values, name)):
        if not isinstance(it, str):
            raise ValueError(f"{name}[{at}] is not a string")  # noqa: TRY004  as above
        yield it


def _list(values: Mapping[str, object], name: str) -> list[object]:
    found = values.get(name)
    if not isinstance(found, list):
        raise ValueError(f"{name} {'is not a list' if name in values else 'is missing'}")  # noqa: TRY004  as above
    return found


def _text(values: Mapping[str, object], name: str, *, path: str = "") -> str:
    found, key = values.get(name), f"{path}.{name}" if path else name
    if not isinstance(found, str):
        raise ValueError(f"{key} {'is not a string' if name in values else 'is missing'}")  # noqa: TRY004  as above
    return found
