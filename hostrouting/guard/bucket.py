"""A token bucket: how much may be spent now, if a fixed amount comes back each second. It knows nothing of routes."""

from __future__ import annotations

import attrs

__all__ = ["Bucket"]

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

    def is_full(self, now: float) -> bool:
        """Whether nothing was withdrawn that has not come back."""
        return self.now(now) >= self.size
