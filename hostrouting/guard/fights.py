"""Fights: something keeps undoing what the guard repairs. Each key is repaired ten times, then once a minute.

If something else belongs at a key, such as the route by a new default gateway, it is repaired at once: a route by the
former gateway would be of no use. That begins the ten times anew. But if that never ends, it is a fight too.

Here: how often each key was repaired, and by what it was undone. Not here: repairing, and telling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.guard.bucket import Bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hostrouting.guard.look import Repair

__all__ = ["Fight", "Fights"]

ROUNDS = 10
"""How many repairs of a key may come at once. A link that flaps a few times must not leave its routes away."""
PAUSE = 60.0
"""The seconds between the repairs after that."""
NAMED, WITHIN = 3, 3600.0
"""After so many repairs within so many seconds, one more repair is a fight."""
OVER = 600.0
"""A fight is over when no repair was needed for so many seconds."""


@attrs.frozen
class Fight:
    """One key that was repaired lately."""

    last: Repair
    """The last repair that was needed: both sides are in it."""
    rounds: int
    """How often it was repaired."""
    bucket: Bucket
    """How many repairs it may still have."""
    times: tuple[float, ...]
    """When the last repairs were, at most one more than a fight needs."""
    needed: float
    """When a repair was last needed."""

    @property
    def is_named(self) -> bool:
        """Whether it was repaired so often that something else keeps undoing it."""
        return len(self.times) > NAMED and self.times[-1] - self.times[0] <= WITHIN


@attrs.frozen
class Fights:
    """The keys that were repaired lately. All times are seconds of one monotonic clock."""

    _known: Mapping[str, Fight] = attrs.field(factory=dict)

    def may_repair(self, repair: Repair, now: float) -> bool:
        """Whether this repair may be made now."""
        return repair.ours != self._ours(repair.key) or not self.wait(repair.key, now)

    def denied(self, repair: Repair, now: float) -> Fights:
        """After this repair was found to be needed, but has to wait: earlier ones were undone too fast."""
        return Fights({**self._known, repair.key: attrs.evolve(self._known[repair.key], last=repair, needed=now)})

    def made(self, repairs: Iterable[Repair], now: float) -> Fights:
        """After these repairs were made, even if they were undone at once. One that was refused does not count."""
        known = dict(self._known)
        for it in repairs:
            full = Bucket(ROUNDS, 1 / PAUSE, at=now)
            fight = known.get(it.key) or Fight(it, 0, full, (), now)
            bucket = fight.bucket if fight.last.ours == it.ours else full
            times = (*fight.times, now)[-NAMED - 1 :]
            known[it.key] = Fight(it, fight.rounds + 1, bucket.take(1, now), times, now)
        return Fights(known)

    def later(self, now: float) -> Fights:
        """Without the keys that no longer matter."""
        return Fights({key: it for key, it in self._known.items() if now - it.needed < WITHIN})

    def _ours(self, key: str) -> str | None:
        fight = self._known.get(key)
        return None if fight is None else fight.last.ours

    def wait(self, key: str, now: float) -> float:
        """The seconds until the key may be repaired."""
        fight = self._known.get(key)
        return 0.0 if fight is None else fight.bucket.wait_for(1, now)

    def named(self, now: float) -> tuple[Fight, ...]:
        """The fights at this moment, by their keys."""
        found = (it for it in self._known.values() if it.is_named and now - it.needed < OVER)
        return tuple(sorted(found, key=lambda it: it.last.key))
