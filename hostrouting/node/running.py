"""The program that runs: hostrouting.pyz, which the shell of a unit has opened, and which may have
been replaced since.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from hostrouting.host.layout import HostLayout

DESCRIPTOR = 3
"""Where the shell has opened the program."""
_IMPORTED_FROM = f"/proc/self/fd/{DESCRIPTOR}"


class RunningProgram:
    """The open program of this process."""

    @property
    def identity(self) -> list[int]:
        """What tells this file from any other; empty if this process runs from somewhere else."""
        if _IMPORTED_FROM not in sys.path:
            return []
        try:
            return _identity(os.fstat(DESCRIPTOR))
        except OSError:
            return []

    def was_replaced(self) -> bool:
        """Whether another program is at the path now. If none is, it was removed, and this one is
        the last to know.
        """
        if not self.identity:
            return False
        try:
            return _identity(os.stat(HostLayout.program_path)) != self.identity
        except OSError:
            return False

    def start_again(self) -> NoReturn:
        """Become a process of the program that is at the path now, with the same arguments."""
        with suppress(OSError):
            descriptor = os.open(HostLayout.program_path, os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(descriptor, DESCRIPTOR)
        os.execv(sys.orig_argv[0], sys.orig_argv)  # noqa: S606  the command of our own unit


def _identity(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_mtime_ns]
