"""What the guard knows: the last look, the verdict and since when it holds, repairs and fights. A value, and its JSON.

Here: what follows from a look. Not here: the look itself (`look`), and where it is written (`tasks.guard`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.guard.look import Look
from hostrouting.written import GUARD_SCHEMA
from phases.text import moment_as_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hostrouting.guard.fights import Fight

__all__ = ["State"]


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
    hindered: Mapping[str, str] = attrs.field(factory=dict)
    """What hinders the guard itself: a sentence about its listening, reading or writing."""

    @property
    def faults(self) -> dict[str, str]:
        """Why the last look or repair failed, by the name of the task, and what hinders the guard itself: sentences."""
        return {**{name: f"{name}: {text}" for name, text in self.look.failures.items()}, **self.hindered}

    def noted(self, about: str, text: str) -> State:
        """With this sentence about what hinders the guard; an empty one ends it."""
        others = {name: it for name, it in self.hindered.items() if name != about}
        return attrs.evolve(self, hindered={**others, about: text} if text else others)

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

    def after_attempt(self, known: Look, fights: tuple[Fight, ...]) -> State:
        """After an attempt that could not look: what is known from before, and why it failed."""
        return attrs.evolve(
            self,
            look=attrs.evolve(known, seconds=self.look.seconds),
            failures=self.failures + 1,
            verdict_since=self.verdict_since if known.verdict else None,
            fights=fights,
        )

    def to_mapping(self) -> dict[str, Any]:
        """The JSON value `hostrouting/guard/1`. npd.sh reads only its beginning, so the lists are last."""
        return {
            "schema": GUARD_SCHEMA,
            "since": _stamp(self.since),
            "looks": self.looks,
            "lastLook": _stamp(self.looked),
            "verdict": self.look.verdict or None,
            "verdictSince": _stamp(self.verdict_since),
            "repairs": self.repairs,
            "lastRepair": _stamp(self.repaired),
            "failure": "; ".join(self.faults.values()) or None,
            "fights": [
                {"key": it.last.key, "ours": it.last.ours, "found": it.last.found, "rounds": it.rounds}
                for it in self.fights
            ],
            "problems": [it.text for it in self.look.problems],
        }


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment_as_text(moment)
