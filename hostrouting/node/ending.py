"""What ends a process of the node before its work is done: a signal, or the end of its time. Each
is an exception in the main thread, wherever that is, also while it waits for a lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal  # the same without enums, which are a tenth of a start

_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""With these, units are stopped or reloaded. A unit may count one of them as a success
(SuccessExitStatus=), and a gate that it kills would have succeeded.
"""


class Stopped(BaseException):
    """A signal told this process to stop; the text is its name."""


class TimeIsUp(BaseException):
    """The block of `limited_to` took too long; the text is how many seconds it had."""


def stop_on_signals() -> None:
    """From now on, the first of the signals raises Stopped, and the others are ignored."""
    for number in _SIGNALS:
        signal.signal(number, _stop)


def _stop(number: int, _frame: object) -> NoReturn:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    from signal import Signals  # noqa: PLC0415  see above

    raise Stopped(Signals(number).name)


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """Raise TimeIsUp in the block after that time. Not to be nested: a process has one alarm."""

    def end(_number: int, _frame: object) -> NoReturn:
        raise TimeIsUp(f"{seconds:.0f}")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def signals_held() -> Iterator[set[int]]:
    """Have signals take effect only after the block; yields those that were held before."""
    before = {*signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())}
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
