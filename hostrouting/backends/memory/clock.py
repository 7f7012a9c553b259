"""The fake kernel's time, which only routes that expire notice.

Here: what time it is, and how it passes. Not here: what happens then (`ipv6.routes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phases import Clock

__all__ = ["KernelClock"]


class KernelClock:
    """Seconds since the fake kernel started. They stand still until it is told otherwise."""

    def __init__(self) -> None:
        """Start at 0."""
        self._offset = 0.0
        self._followed: Clock | None = None

    def now(self) -> float:
        """The time."""
        return self._offset + (0.0 if self._followed is None else self._followed.now())

    def advance(self, seconds: float) -> None:
        """Let this time pass at once."""
        self._offset += seconds

    def follow(self, clock: Clock) -> None:
        """From now on, time passes as on this clock."""
        if clock is not self._followed:
            self._offset, self._followed = self.now() - clock.now(), clock
