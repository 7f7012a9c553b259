"""The pace of the guard: when it looks at the host, and how soon it may repair the same thing again.

Here: moments and amounts, computed from what happened. Not here: waiting, looking, repairing and telling (`loop`).

The guard looks soon after an event, once a minute in any case, and less often after failures.

Something else may keep undoing what the guard repairs: that is a fight. Each key is repaired ten times at once, then
once a minute. If something else belongs at a key, such as the route by a new default gateway, it is repaired at once: a
route by the former gateway would not work. The ten times then begin anew. But if this never ends, it is a fight, too. A
link that flaps does not fight: if a look finds that a route has to wait for its device, what was counted for the route
is forgotten.

Looks and repairs are limited by a token bucket, which refills at a fixed rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from hostrouting.tasks.results import Repair

_ROUNDING = 1e-9  # after exactly the seconds that were named, the amount may be this much smaller


@attrs.frozen
class Bucket:
    """An amount that refills steadily up to `size`. It can be overdrawn: then the next withdrawal waits longer."""

    size: float
    rate: float
    """How much comes back each second."""
    level: float = attrs.field(default=attrs.Factory(lambda self: self.size, takes_self=True))
    """The amount at the moment `at`."""
    at: float = 0.0

    def now(self, now: float) -> float:
        """The amount at this moment."""
        return min(self.size, self.level + (now - self.at) * self.rate)

    def take(self, amount: float, now: float) -> Bucket:
        """The bucket after a withdrawal."""
        return attrs.evolve(self, level=self.now(now) - amount, at=now)

    def wait_for(self, amount: float, now: float) -> float:
        """The seconds until this amount is there; 0 if it is there now."""
        missing = amount - self.now(now)
        return missing / self.rate if missing > _ROUNDING else 0.0


# When to look.

EVERY = 60.0
"""The seconds between two looks without an event."""
SPREAD = 0.1
"""How much that varies, as a part of it: a thousand nodes that boot together must not look together."""
SETTLE = 0.15
"""The seconds from an event to the look: one cause often has several events."""
FIRST_RETRY, LAST_RETRY = 0.1, 60.0
"""The seconds after the first failure, and after many. They double with each."""
SHARE, RESERVE = 0.1, 2.0
"""The part of the processor's time that looks after events or failures may take, and how many seconds at once."""
AT_ONCE, A_SECOND = 10, 1.0
"""How many looks that find nothing to repair may come at once after events, and then in a second.

Pods may come and go all the time. But a device that flaps is looked at each time, so that it does not count as a fight.
"""


@attrs.frozen
class Pace:
    """When the next look is due. All times are seconds of one monotonic clock.

    `chance` is a random number from 0 to 1, drawn by the caller.
    """

    due: float
    """The next look without an event: the next regular one, or the next attempt after a failure."""
    event: float | None = None
    """When the first event since the last look came."""
    failures: int = 0
    """The number of looks that have failed in a row."""
    time: Bucket = attrs.field(factory=lambda: Bucket(RESERVE, SHARE))
    """The seconds that looks may still take: a host whose tables never rest must not be kept busy by the guard.

    It postpones looks after events or failures, but never beyond the next regular one.
    """
    looks: Bucket = attrs.field(factory=lambda: Bucket(AT_ONCE, A_SECOND))
    """How many idle looks may still come after events."""

    @classmethod
    def begin(cls, now: float) -> Pace:
        """The first look is due now."""
        return cls(due=now, time=Bucket(RESERVE, SHARE, at=now), looks=Bucket(AT_ONCE, A_SECOND, at=now))

    def with_event(self, now: float) -> Pace:
        """The pace after an event."""
        return self if self.event is not None else attrs.evolve(self, event=now)

    def looked(self, ended: float, *, spent: float, failed: bool, chance: float, idle: bool = False) -> Pace:
        """The pace after a look that took this processor time; the events before it are done with.

        `idle`: nothing had to be repaired, and nothing waits for its device.
        """
        failures, time = self.failures + 1 if failed else 0, self.time.take(spent, ended)
        wait = EVERY * (1 + SPREAD * (2 * chance - 1))
        if failed:
            wait = min(wait, max(_retry(failures, chance), time.wait_for(0, ended)))
        looks = self.looks.take(1, ended) if idle and self.event is not None else self.looks
        due, is_early = ended + wait, self.event is not None and ended < self.due
        if is_early and not (failed or self.failures):  # looks after events do not postpone the regular one
            due = min(due, self.due)
        return Pace(due=due, failures=failures, time=time, looks=looks)

    def postponed(self, until: float) -> Pace:
        """The pace after a failed look, with the next attempt at this moment."""
        return attrs.evolve(self, due=until, event=None)

    def sooner(self, moment: float) -> Pace:
        """The pace with a look at this moment, or earlier if one is due."""
        return attrs.evolve(self, due=min(self.due, moment))

    def again(self, now: float, seconds: float) -> Pace:
        """The pace with a look after these seconds, or later if the budget of processor time is spent."""
        return self.sooner(now + max(seconds, self.time.wait_for(0, now)))

    def wait(self, now: float) -> float:
        """The seconds until the next look; 0 if it is due."""
        due = self.due
        if self.event is not None:
            due = min(
                due, max(self.event + SETTLE, now + self.time.wait_for(0, now), now + self.looks.wait_for(1, now))
            )
        return max(0.0, due - now)


def _retry(failures: int, chance: float) -> float:
    """The seconds until the next attempt: at random between half the doubled time and all of it."""
    longest = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(failures - 1, 30))
    return longest * (0.5 + 0.5 * chance)


# What may be repaired, and what is a fight.

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
        """Whether the key was repaired so often that something else must be undoing it."""
        return len(self.times) > NAMED and self.times[-1] - self.times[0] <= WITHIN


@attrs.frozen
class Fights:
    """The keys that were repaired lately. All times are seconds of one monotonic clock."""

    _known: Mapping[str, Fight] = attrs.field(factory=dict)

    def may_repair(self, repair: Repair, now: float) -> bool:
        """Whether this repair may be made now."""
        return repair.ours != self._ours(repair.key) or not self.wait(repair.key, now)

    def denied(self, repair: Repair, now: float) -> Fights:
        """The keys, if this repair is needed but has to wait: earlier ones were undone too fast."""
        return Fights({**self._known, repair.key: attrs.evolve(self._known[repair.key], last=repair, needed=now)})

    def repaired(self, repairs: Iterable[Repair], now: float) -> Fights:
        """The keys after these repairs, including those undone at once. A refused repair does not count."""
        known = dict(self._known)
        for repair in repairs:
            full = Bucket(ROUNDS, 1 / PAUSE, at=now)
            fight = known.get(repair.key) or Fight(repair, 0, full, (), now)
            bucket = fight.bucket if fight.last.ours == repair.ours else full
            times = (*fight.times, now)[-NAMED - 1 :]
            known[repair.key] = Fight(repair, fight.rounds + 1, bucket.take(1, now), times, now)
        return Fights(known)

    def without(self, keys: Iterable[str]) -> Fights:
        """The fights without these keys: Linux removed their routes with a device that went down."""
        gone = set(keys)
        return Fights({key: fight for key, fight in self._known.items() if key not in gone}) if gone else self

    def later(self, now: float) -> Fights:
        """The keys that still matter."""
        return Fights({key: fight for key, fight in self._known.items() if now - fight.needed < WITHIN})

    def _ours(self, key: str) -> str | None:
        fight = self._known.get(key)
        return None if fight is None else fight.last.ours

    def wait(self, key: str, now: float) -> float:
        """The seconds until the key may be repaired."""
        fight = self._known.get(key)
        return 0.0 if fight is None else fight.bucket.wait_for(1, now)

    def named(self, now: float) -> tuple[Fight, ...]:
        """The fights at this moment, by their keys."""
        found = (fight for fight in self._known.values() if fight.is_named and now - fight.needed < OVER)
        return tuple(sorted(found, key=lambda fight: fight.last.key))
