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
    return _identity(DESCRIPTOR)


def _identity(descriptor: int) -> list[int]:
    status = os.fstat(descriptor)
    return [status.st_dev, status.st_ino, status.st_mtime_ns]


def when_it_began(now: float) -> float:
    """When this process began, also if it has started itself again since."""
    return float(os.environ.get(_BEGAN, now))


def start_again_if_replaced(began: float) -> None:
    """Become a process of the program that is at the path now, if that is another one: this one
    could take back what the run has done that has replaced it. Only once, because beside a program
    that is replaced again and again, this would never end.
    """
    running = running_program()
    if not running or _BEGAN in os.environ:
        return
    try:
        descriptor = os.open(HostLayout.program_path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it was removed, and this process is the last to know
        return
    if _identity(descriptor) == running:
        os.close(descriptor)
        return
    import signal  # noqa: PLC0415  every start would wait for it

    signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm would kill the new process
    os.environ[_BEGAN] = str(began)
    os.dup2(descriptor, DESCRIPTOR)
    os.execv(sys.orig_argv[0], sys.orig_argv)  # noqa: S606  the command of our own unit
