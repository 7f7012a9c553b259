"""What a clean-up would delete and what it would keep, as a value; and the same as plain values, there and back.

Here: the plan, and what two plans have in common. Not here: what is stale (`cleanup`), and the document that has a plan
in it (`cli`).
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
    """Something that looks like azure-vnet's and stays, with the reason."""

    kind: Kind
    spec: str
    """What it is: a rule as ebtables-save has it, a neighbour or a route in the words of ip."""
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}    # {self.reason}"

    def to_mapping(self) -> dict[str, str]:
        """The same as plain values."""
        return {"kind": self.kind, "spec": self.spec, "reason": self.reason}


@attrs.frozen
class Deletion(Kept):
    """Something stale, with the reason."""

    thing: str | Neighbour | Route | None = attrs.field(default=None, eq=False, repr=False)
    """What an edge takes to delete it: the line of a rule, the neighbour or the route.

    None in a plan that was read back: it says what may go, and only a look at the host finds the thing itself.
    """

    @property
    def key(self) -> tuple[Kind, str]:
        """What is the same thing in two plans."""
        return self.kind, self.spec


@attrs.frozen(kw_only=True)
class CleanupPlan:
    """What would be deleted, in that order, and what stays, each with its reason."""

    deletions: tuple[Deletion, ...] = ()
    kept: tuple[Kept, ...] = ()
    conflicts: tuple[Kept, ...] = ()
    """What is about a managed address, and leads to a pod that is alive: two CNIs may use one address."""
    inert: tuple[Kept, ...] = ()
    """Rules that no frame meets."""
    unreadable: tuple[str, ...] = ()
    """Lines of ebtables-save that were not understood; nothing of them is touched."""
    bridges: tuple[str, ...] = ()
    uplinks: tuple[str, ...] = ()
    hindrances: tuple[str, ...] = ()
    """Why nothing would be deleted all the same, each in a sentence."""
    notes: tuple[str, ...] = ()
    """What else there is to know, each in a sentence."""
    host: str = ""
    """The name of the host that it is about; for whoever reads it."""
    boot: str = ""
    """The kernel's own name for the time since it booted: no other host has it, nor this one after a reboot."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be deleted."""
        return not self.deletions

    def within(self, shown: CleanupPlan) -> Self:
        """The same without the deletions that were not shown; what was shown once is deleted once."""
        left = Counter(it.key for it in shown.deletions)
        found = []
        for it in self.deletions:
            if left[it.key]:
                left[it.key] -= 1
                found.append(it)
        return attrs.evolve(self, deletions=tuple(found))

    def beyond(self, shown: CleanupPlan) -> tuple[Deletion, ...]:
        """The deletions that were not shown: what `within` leaves out."""
        agreed = Counter(it.key for it in self.within(shown).deletions)
        left = []
        for it in self.deletions:
            if agreed[it.key]:
                agreed[it.key] -= 1
            else:
                left.append(it)
        return tuple(left)

    def to_mapping(self) -> dict[str, Any]:
        """The same as plain values, from which `from_mapping` makes it again."""
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
        """The plan that such values say, whatever else they say; ValueError names what is missing or wrong."""
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
            raise ValueError(f"{path} is not an object")  # noqa: TRY004  it is the text that is wrong
        found: dict[str, Any] = {key: _text(it, key, path=path) for key in ("kind", "spec", "reason")}
        if found["kind"] not in get_args(Kind):
            raise ValueError(f"{path}.kind is {found['kind'][:40]!a}, not one of {', '.join(get_args(Kind))}")
        yield kind(**found)


def _texts(values: Mapping[str, object], name: str) -> Iterator[str]:
    for at, it in enumerate(_list(values, name)):
        if not isinstance(it, str):
            raise ValueError(f"{name}[{at}] is not a text")  # noqa: TRY004  as above
        yield it


def _list(values: Mapping[str, object], name: str) -> list[object]:
    found = values.get(name)
    if not isinstance(found, list):
        raise ValueError(f"{name} {'is not a list' if name in values else 'is missing'}")  # noqa: TRY004  as above
    return found


def _text(values: Mapping[str, object], name: str, *, path: str = "") -> str:
    found, whole = values.get(name), f"{path}.{name}" if path else name
    if not isinstance(found, str):
        raise ValueError(f"{whole} {'is not a text' if name in values else 'is missing'}")  # noqa: TRY004  as above
    return found
