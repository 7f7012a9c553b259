"""The program that runs: hostrouting.pyz, which the shell of a unit has opened, and which may have
been replaced since.
"""

from __future__ import annotations

import os
import sys

from hostrouting.host.layout import HostLayout

DESCRIPTOR = 3
"""Where the shell has opened the program."""
_BEGAN = "HOSTROUTING_BEGAN"
"""The variable that says when this process began, if it has started itself again since."""


def running_program() -> list[int]:
    """What tells the file of this program from any other; empty if it runs from somewhere else."""
    if f"/proc/self/fd/{DESCRIPTOR}" not in sys.path:
        return []
    return _identity(os.fstat(DESCRIPTOR))


def _identity(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_mtime_ns]


def is_replaced() -> bool:
    """Whether another program is at the path now. If none is, it was removed, and this process is
    the last to know.
    """
    running = running_program()
    try:
        return bool(running) and _identity(os.stat(HostLayout.program_path)) != running
    except OSError:
        return False


def when_it_began(now: float) -> float:
    """When this process began, also if it has started itself again since."""
    return float(os.environ.get(_BEGAN, now))


def start_again_if_replaced(began: float) -> None:
    """Become a process of the program that is at the path now, if that is another one: this one
    could take back what the run has done that has replaced it. Only once, because beside a program
    that is replaced again and again, this would never end.
    """
    if _BEGAN in os.environ or not is_replaced():
        return
    try:
        descriptor = os.open(HostLayout.program_path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # removed meanwhile
        return
    import signal  # noqa: PLC0415  every start would wait for it

    signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm would kill the new process
    os.environ[_BEGAN] = str(began)
    os.dup2(descriptor, DESCRIPTOR)
    os.execv(sys.orig_argv[0], sys.orig_argv)  # noqa: S606  the command of our own unit
