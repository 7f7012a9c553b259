"""When the guard looks at the host: soon after an event, once a minute in any case, and less often after failures.

Here: moments, computed from what happened. Not here: waiting, and looking.
"""

from __future__ import annotations

import attrs

from hostrouting.guard.bucket import Bucket

__all__ = ["Pace"]

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

    @classmethod
    def begin(cls, now: float) -> Pace:
        """The first look is due now."""
        return cls(due=now, time=Bucket(RESERVE, SHARE, at=now))

    def heard(self, now: float) -> Pace:
        """After an event."""
        return self if self.event is not None else attrs.evolve(self, event=now)

    def looked(self, ended: float, *, spent: float, failed: bool, chance: float) -> Pace:
        """After a look that took so many seconds of processor time: events that came before it are done with."""
        failures, time = self.failures + 1 if failed else 0, self.time.take(spent, ended)
        wait = EVERY * (1 + SPREAD * (2 * chance - 1))
        if failed:
            wait = min(wait, max(_retry(failures, chance), time.wait_for(0, ended)))
        return Pace(due=ended + wait, failures=failures, time=time)

    def postponed(self, until: float) -> Pace:
        """If a look was not possible: the next attempt is at this moment."""
        return attrs.evolve(self, due=until, event=None)

    def sooner(self, moment: float) -> Pace:
        """With a look at this moment, unless one comes before it."""
        return attrs.evolve(self, due=min(self.due, moment))

    def again(self, now: float, seconds: float) -> Pace:
        """With another look in so many seconds, or when looks may take time again."""
        return self.sooner(now + max(seconds, self.time.wait_for(0, now)))

    def wait(self, now: float) -> float:
        """The seconds until the next look; 0 if it is due."""
        due = self.due
        if self.event is not None:
            due = min(due, max(self.event + SETTLE, now + self.time.wait_for(0, now)))
        return max(0.0, due - now)


def _retry(failures: int, chance: float) -> float:
    """The seconds until the next attempt: between half of the doubled time and all of it."""
    longest = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(failures - 1, 30))
    return longest * (0.5 + 0.5 * chance)
