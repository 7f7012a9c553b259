"""Waiting for what another program does."""

import time
from collections.abc import Callable

# No test should fail because the machine is busy; if an event is lost, the guard looks after 66 s
# at most.
_LONGEST = 200.0


def wait_for(what: str, happened: Callable[[], object], *, longest: float = _LONGEST) -> None:
    """Call `happened` until what it returns is true, for at most so many seconds."""
    # The pauses grow, and each is six times as long as the call before it: a call that starts a
    # process would otherwise take the processor from what is waited for.
    asked, pause = time.monotonic(), 0.001
    end = asked + longest
    while not happened():
        now = time.monotonic()
        if now > end:
            raise TimeoutError(f"waited {longest:g} s for {what}")
        time.sleep(max(pause, min(6 * (now - asked), 0.25)))
        pause, asked = min(pause * 1.5, 0.25), time.monotonic()
