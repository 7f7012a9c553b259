"""The lock of this host, for a process that makes a pass."""

from __future__ import annotations

import fcntl
import os

from hostrouting.host.files import open_lock
from hostrouting.host.layout import HostLayout
from hostrouting.node.journal import INFO, say


class HostLock:
    """Held during its block. It is awaited without a limit: a signal or an alarm ends the wait.

    If /run is full or read-only, there may be no lock, but then no writer can have one either. The
    block gets a sentence that says so; an empty one if the lock is held.
    """

    _descriptor: int | None = None

    def __enter__(self) -> str:
        try:
            self._descriptor = open_lock(HostLayout.lock_path)
        except OSError as error:
            return f"this runs without a lock, as there is none: {error}"
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(INFO, f"waiting for {HostLayout.lock_path} (to see who has it: lslocks)")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return ""

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
