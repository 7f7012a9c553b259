"""The lock of this host, for a process of the node: a gate, a service at boot or the guard.

Such a process waits in its main thread, where a signal or an alarm ends flock(2). A task can run in
any thread, which no signal reaches, so for tasks `lock` waits in a thread of its own.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, ClassVar

from hostrouting.host.files import open_lock
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Callable

_WARNING, _INFO = 4, 6  # as the journal counts


class ProcessLock:
    """The lock of the host, held during a `with` block, and awaited without a limit. `say` logs a
    text with a level.

    If /run is full or read-only, the lock file may not exist. The block runs without it then, and
    a run that would change files fails, because it cannot open the lock, either. A gate whose unit
    has a /run of its own is alone there without the lock: such a run may change files meanwhile.
    """

    _descriptor: int | None = None
    _has_warned: ClassVar[bool] = False
    """Whether this process has logged that there is no lock: once is enough."""

    def __init__(self, say: Callable[[int, str], object]) -> None:
        self._say = say

    def __enter__(self) -> None:
        """Take the lock; if another process has it, wait. If the lock file cannot be opened, log a
        warning, once in a process, and go on without the lock.
        """
        try:
            self._descriptor = open_lock(HostLayout.lock_path)
        except OSError as error:
            # Go on without the lock: a unit must not be refused because of it.
            if not ProcessLock._has_warned:
                self._say(_WARNING, f"this runs without a lock, as there is none: {error}")
            ProcessLock._has_warned = True
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._say(_INFO, f"waiting for {HostLayout.lock_path} (to see who has it: lslocks)")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
