"""What the guard knows: the last look, the verdict and since when it holds, repairs and fights. A value, and its JSON.

Here: what follows from a look. Not here: looking, and where it is written (`tasks.guard`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from phases.text import moment_as_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hostrouting.guard.fights import Fight, Repair

__all__ = ["GUARD_SCHEMA", "Look", "Problem", "State"]

GUARD_SCHEMA = "hostrouting/guard/1"


@attrs.frozen
class Problem:
    """Something that is wrong and could not be repaired: a sentence, and the names by which a journal finds it."""

    text: str = attrs.field(eq=False)
    fields: tuple[tuple[str, str], ...] = ()
    key: str = attrs.field(default=attrs.Factory(lambda self: self.text, takes_self=True))
    """What stays the same while the problem does; the text may have a lifetime in it."""


@attrs.frozen(kw_only=True)
class Look:
    """What one look at the host found and did."""

    repairs: tuple[Repair, ...] = ()
    """What was repaired."""
    lost: tuple[Repair, ...] = ()
    """What was repaired too, but was undone before it could be read back."""
    problems: tuple[Problem, ...] = ()
    """What is wrong and could not be repaired."""
    failures: Mapping[str, str] = attrs.field(factory=dict)
    """By the name of the task: why its look, or a repair, failed."""
    routes: tuple[int, int, int] | None = None
    """The number of routes that are wanted, that are there as wanted, and that are ours."""
    verdict: str = ""
    """The verdict of the check; empty if nothing is checked."""
    verdicts: Mapping[str, str] = attrs.field(factory=dict)
    """The verdict on each expected CIDR."""
    escapes: Mapping[str, int] = attrs.field(factory=dict)
    """For each expected CIDR, the number of ranges that escape."""
    seconds: float = 0.0
    """How long it took."""
    repair_seconds: float = 0.0
    """How long the repairs took."""

    @property
    def failure(self) -> str:
        """All failures as one text; empty if there are none."""
        return "; ".join(f"{name}: {text}" for name, text in self.failures.items())

    def __add__(self, other: Look) -> Look:
        """Both as one look."""
        return Look(
            repairs=(*self.repairs, *other.repairs),
            lost=(*self.lost, *other.lost),
            problems=(*self.problems, *other.problems),
            failures={**self.failures, **other.failures},
            routes=self.routes or other.routes,
            verdict=self.verdict or other.verdict,
            verdicts={**self.verdicts, **other.verdicts},
            escapes={**self.escapes, **other.escapes},
            seconds=self.seconds + other.seconds,
            repair_seconds=self.repair_seconds + other.repair_seconds,
        )


@attrs.frozen(kw_only=True)
class State:
    """What the guard knows after its looks so far."""

    since: datetime
    """When it began."""
    looks: int = 0
    looked: datetime | None = None
    """When the last look was."""
    look: Look = attrs.field(factory=Look)
    """The last look."""
    repairs: int = 0
    """The number of repairs since it began."""
    repaired: datetime | None = None
    """When the last repair was."""
    repair_seconds: float = 0.0
    """How long that took."""
    failures: int = 0
    """The number of looks that failed since it began."""
    verdict_since: datetime | None = None
    """Since when the verdict is the same, as far as the guard knows."""
    fights: tuple[Fight, ...] = ()

    def after(self, look: Look, fights: tuple[Fight, ...], now: datetime) -> State:
        """After one more look."""
        same = self.verdict_since is not None and look.verdict == self.look.verdict
        return attrs.evolve(
            self,
            looks=self.looks + 1,
            looked=now,
            look=look,
            repairs=self.repairs + len(look.repairs),
            repaired=now if look.repairs else self.repaired,
            repair_seconds=look.repair_seconds if look.repairs else self.repair_seconds,
            failures=self.failures + bool(look.failures),
            verdict_since=(self.verdict_since if same else now) if look.verdict else None,
            fights=fights,
        )

    def to_mapping(self) -> dict[str, Any]:
        """The JSON value `hostrouting/guard/1`."""
        return {
            "schema": GUARD_SCHEMA,
            "since": _stamp(self.since),
            "looks": self.looks,
            "lastLook": _stamp(self.looked),
            "verdict": self.look.verdict or None,
            "verdictSince": _stamp(self.verdict_since),
            "repairs": self.repairs,
            "lastRepair": _stamp(self.repaired),
            "problems": [it.text for it in self.look.problems],
            "failure": self.look.failure or None,
            "fights": [
                {"key": it.last.key, "ours": it.last.ours, "found": it.last.found, "rounds": it.rounds}
                for it in self.fights
            ],
        }


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment_as_text(moment)
