"""The lock of this host, for a process that makes a pass."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from hostrouting.host.files import open_lock
from hostrouting.host.layout import HostLayout


@contextmanager
def host_locked() -> Iterator[str]:
    """Hold the lock during the block. It waits without a limit: a signal or an alarm ends the wait.

    If /run is full or read-only, there may be no lock, but then no writer can have one either. The
    block gets a sentence that says so; an empty one if the lock is held.
    """
    try:
        descriptor = open_lock(HostLayout.lock_path)
    except OSError as error:
        yield f"this runs without a lock, as there is none: {error}"
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield ""
    finally:
        os.close(descriptor)
