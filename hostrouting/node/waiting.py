"""Waiting for what may still come after a boot, such as a default route: without the lock, so that
others can work meanwhile.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Protocol, TypeVar

    from hostrouting.kernel.base import RouteBackend
    from hostrouting.node.clock import NodeClock

    class Waits(Protocol):
        """The result of an attempt."""

        @property
        def waits(self) -> str:
            """What may still come; empty if nothing."""

    R = TypeVar("R", bound=Waits)

WAIT = 60.0
"""Seconds from the beginning of the process: of the 75 that it has, the rest is for its work."""
_LOOK_AGAIN = 1.0
"""Seconds to the next attempt: Linux does not report every change."""
_GATHER = 0.02
"""Seconds in which changes come together."""


def attempt_until_all_is_there(
    open_kernel: Callable[[], AbstractContextManager[RouteBackend]],
    attempt: Callable[[], R],
    *,
    until: float,
    clock: NodeClock,
    say_waiting: Callable[[str], object],
) -> R:
    """Make the attempt, and again after each change, until nothing may come any more, or that time.
    What is awaited is said each time that it changes.
    """
    result = attempt()
    if not result.waits:
        return result
    said = ""
    with open_kernel() as backend, backend.watch() as watch:
        while True:
            result = attempt()  # the first one again: the change may have come before the watch
            seconds_left = until - clock.now()
            if not result.waits or seconds_left <= 0:
                return result
            if result.waits != said:
                said = result.waits
                say_waiting(said)
            watch.wait(min(_LOOK_AGAIN, seconds_left), clock=clock.for_watch)
            clock.sleep(_GATHER)
