"""Reading a kernel that may not be ready yet: an attempt is repeated after each change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from hostrouting.errors import NotReady

if TYPE_CHECKING:
    import phases
    from hostrouting.kernel.base import RouteBackend, Watch

T = TypeVar("T")

Attempt: TypeAlias = Callable[[], tuple[T | None, str]]
"""Returns its result, or None and what is missing."""

_SHARE = 0.95
"""How much of the time until the deadline of the run is used for waiting."""


def await_result(
    ctx: phases.Context, backend: RouteBackend, attempt: Attempt[T], *, wait: float
) -> T:
    """Call `attempt`, and call it again whenever the kernel reports a change, for `wait` seconds.

    NotReady says what was missing at the last attempt. If the run has an earlier deadline, NotReady
    is raised shortly before it, because DeadlineExceeded does not say what was missing.
    """
    remaining = ctx.remaining()
    if remaining is not None:
        wait = min(wait, _SHARE * remaining)
    end = ctx.clock.now() + wait

    ctx.check()
    result, missing = attempt()
    if result is None and wait:
        with backend.watch() as watch, ctx.on_cancel(watch.wake):
            result, missing = _attempt_until(end, ctx, watch, attempt)
    if result is None:
        raise NotReady(f"gave up after {round(wait, 1):g} s: {missing}")
    return result


def _attempt_until(
    end: float, ctx: phases.Context, watch: Watch, attempt: Attempt[T]
) -> tuple[T | None, str]:
    """The first result, or what the last attempt returned before the time was up.

    The first attempt is made at once: the change may have come before listening began.
    """
    logged = ""
    while True:
        result, missing = attempt()
        left = end - ctx.clock.now()
        if result is not None or left <= 0:
            return result, missing
        if missing != logged:
            ctx.log.info("waiting for up to %g s: %s", round(left, 1), missing)
            logged = missing
        has_changed = watch.wait(left, clock=ctx.clock)
        if not has_changed:
            # The time is up, and nothing is left to sleep; or the run was cancelled, and `sleep`
            # raises that. A real kernel does not advance a fake clock: without the sleep, this
            # would loop forever.
            ctx.sleep(end - ctx.clock.now())
