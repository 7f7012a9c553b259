"""What ends a process of the node before its work is done: a signal, or the end of its time. Each
is an exception in the main thread, wherever that is, also while it waits for a lock.
"""

from __future__ import annotations

import signal
from typing import NoReturn

_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""The signals with which units are stopped or reloaded. A unit may count one of them as a success
(SuccessExitStatus=). So none may kill the gate: its start would succeed.
"""


class Stopped(BaseException):
    """A signal told this process to stop; the text is its name."""


class TimeIsUp(BaseException):
    """The block of a TimeLimit took too long; the text is how many seconds it had."""


def stop_on_signals() -> None:
    """From now on, a signal raises Stopped."""
    for number in _SIGNALS:
        signal.signal(number, _stop)


def _stop(number: int, _frame: object) -> NoReturn:
    _ignore_the_others()
    raise Stopped(signal.Signals(number).name)


def _ignore_the_others() -> None:
    """Have later signals do nothing, so that changes can be taken back. The alarm comes once more:
    Python drops an exception that a handler raises in a destructor, and the process would go on.

    The handler is not SIG_IGN: if two signals come at once, Python prints a warning about that.
    """
    for each in _SIGNALS:
        signal.signal(each, _ignore)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN)


def _ignore(_number: int, _frame: object) -> None:
    pass


_AGAIN = 5.0
"""Seconds until the alarm comes once more: the time to take back changes."""
TIME_LIMIT = 75.0
"""Seconds for a start, a service at boot, or a pass of the guard; waits count. systemd ends the
first two after 90.
"""


class TimeLimit:
    """Raises TimeIsUp in its block when the time is over. Not to be nested: there is one alarm."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, self._end)
        # The alarm comes again and again: if one comes just before this process blocks, its handler
        # runs only when the next one ends the wait.
        signal.setitimer(signal.ITIMER_REAL, self._seconds, 0.25)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _end(self, _number: int, _frame: object) -> NoReturn:
        _ignore_the_others()
        raise TimeIsUp(f"{self._seconds:.0f}")
