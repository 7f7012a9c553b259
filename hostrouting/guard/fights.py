"""Fights: another program keeps undoing what the guard repairs. Each key is repaired three times, then once a minute.

Here: how often each key was repaired, and by what it was undone. Not here: repairing, and telling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.guard.bucket import Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Fight", "Fights", "Repair"]

ROUNDS = 3
"""How many repairs of a key may come at once."""
PAUSE = 60.0
"""The seconds between the repairs in a fight. It ends when there was no repair for three times as long."""


@attrs.frozen
class Repair:
    """One repair: what was repaired, what belongs there, and what was there instead."""

    key: str
    """What programs can fight about, such as `172.16.0.0/17` or `nftables table ip6 hostrouting_slb`."""
    ours: str
    found: str
    """What was there, such as `no route`."""


@attrs.frozen
class Fight:
    """One key that was repaired lately."""

    last: Repair
    """The last repair that was needed: both sides are in it."""
    since: float
    """When the first one was."""
    rounds: int
    """How often it was repaired."""
    bucket: Bucket
    """How many repairs it may still have."""
    is_named: bool = False
    """Whether a repair had to wait because of the earlier ones: another program undoes them."""


@attrs.frozen
class Fights:
    """The keys that were repaired lately. All times are seconds of one monotonic clock."""

    _known: Mapping[str, Fight] = attrs.field(factory=dict)

    def may_repair(self, key: str, now: float) -> bool:
        """Whether the key may be repaired now."""
        return not self.wait(key, now)

    def denied(self, repair: Repair) -> Fights:
        """After this repair was found to be needed, but has to wait: another program undoes the earlier ones."""
        return Fights({**self._known, repair.key: attrs.evolve(self._known[repair.key], last=repair, is_named=True)})

    def made(self, repair: Repair, now: float) -> Fights:
        """After this repair was made. A repair that the kernel refuses does not count."""
        first = Fight(repair, now, 0, Bucket(ROUNDS, 1 / PAUSE, at=now))
        fight = self._known.get(repair.key, first)
        fight = attrs.evolve(fight, last=repair, rounds=fight.rounds + 1, bucket=fight.bucket.take(1, now))
        return Fights({**self._known, repair.key: fight})

    def later(self, now: float) -> Fights:
        """Without the keys that have been left alone for long enough."""
        return Fights({key: it for key, it in self._known.items() if not it.bucket.is_full(now)})

    def wait(self, key: str, now: float) -> float:
        """The seconds until the key may be repaired."""
        fight = self._known.get(key)
        return 0.0 if fight is None else fight.bucket.wait_for(1, now)

    @property
    def named(self) -> tuple[Fight, ...]:
        """The fights, the oldest first."""
        found = (it for it in self._known.values() if it.is_named)
        return tuple(sorted(found, key=lambda it: (it.since, it.last.key)))
