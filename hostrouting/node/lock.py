"""The lock of this host, for a process that makes a pass."""

from __future__ import annotations

import fcntl
import os
from typing import ClassVar

from hostrouting.host.files import open_lock
from hostrouting.host.layout import HostLayout
from hostrouting.node.journal import INFO, WARNING, say


class HostLock:
    """Held during its block. It is awaited without a limit: a signal or an alarm ends the wait.

    If /run is full or read-only, there may be no lock, but then no writer can have one either.
    """

    _descriptor: int | None = None
    _has_said: ClassVar[bool] = False
    """Whether this process has said that there is no lock."""

    def __enter__(self) -> None:
        try:
            self._descriptor = open_lock(HostLayout.lock_path)
        except OSError as error:
            if not HostLock._has_said:
                say(WARNING, f"this runs without a lock, as there is none: {error}")
            HostLock._has_said = True
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(INFO, f"waiting for {HostLayout.lock_path} (to see who has it: lslocks)")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
