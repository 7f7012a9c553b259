"""Reading a kernel that may not be ready yet: an attempt is repeated whenever the kernel reports a change."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from hostrouting.errors import NotReady

if TYPE_CHECKING:
    import phases
    from hostrouting.kernel.base import RouteBackend

T = TypeVar("T")


def await_result(
    ctx: phases.Context, backend: RouteBackend, attempt: Callable[[], tuple[T | None, str]], *, wait: float
) -> T:
    """Call `attempt`, and call it again whenever the kernel reports a change, for up to `wait` seconds.

    An attempt returns its result, or None and what is missing. NotReady says what was missing at the last attempt. It
    comes shortly before the deadline of the run if that is earlier, because DeadlineExceeded would not say it.
    """
    wait = min(wait, 0.95 * (ctx.remaining() or math.inf))
    end, logged = ctx.clock.now() + wait, ""
    ctx.check()
    result, missing = attempt()
    if result is None and wait:
        with backend.watch() as watch, ctx.on_cancel(watch.wake):
            while True:
                ctx.check()
                # Repeat once after listening has begun: the change may have come before that.
                result, missing = attempt()
                left = end - ctx.clock.now()
                if result is not None or left <= 0:
                    break
                if missing != logged:
                    ctx.log.info("waiting for up to %g s: %s", round(left, 1), missing)
                    logged = missing
                if not watch.wait(left, clock=ctx.clock):
                    # The time is up. A run with a clock of its own must still advance it, or it would loop forever.
                    ctx.sleep(end - ctx.clock.now())
    if result is None:
        remedy = "add what is missing, or correct the configuration"
        raise NotReady(f"gave up after {round(wait, 1):g} s: {missing}; {remedy}")
    return result
