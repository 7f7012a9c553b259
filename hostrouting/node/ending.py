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
    """From now on, each signal of `_SIGNALS` raises Stopped, and does not kill this process."""
    for number in _SIGNALS:
        signal.signal(number, _stop)


def _stop(number: int, _frame: object) -> NoReturn:
    _ignore_later_signals()
    raise Stopped(signal.Signals(number).name)


def _ignore_later_signals() -> None:
    """Have the signals of `_SIGNALS` do nothing from now on, and have the alarm come once more. A
    handler calls this just before it raises the exception that ends the process, so that no later
    signal interrupts the rollback.
    """
    for number in _SIGNALS:
        signal.signal(number, _ignore)  # with SIG_IGN, Python warns if two signals come at once
    # The alarm is for the case that Python drops the handler's exception, as it does while a
    # destructor runs. If the block of the TimeLimit has not ended by then, the alarm raises
    # TimeIsUp.
    signal.setitimer(signal.ITIMER_REAL, _TIME_TO_ROLL_BACK)


def _ignore(_number: int, _frame: object) -> None:
    pass


_TIME_TO_ROLL_BACK = 5.0
"""Seconds from an exception that a handler raises to the next alarm."""
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
        # When the time is over, the alarm comes every 0.25 s until its handler runs. Python runs a
        # handler between two instructions: if the first alarm comes just before a system call that
        # blocks, the next one interrupts that call.
        signal.setitimer(signal.ITIMER_REAL, self._seconds, 0.25)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _end(self, _number: int, _frame: object) -> NoReturn:
        _ignore_later_signals()
        raise TimeIsUp(f"{self._seconds:.0f}")
