"""The lock of a file, as flock(2) and flock(1) take it, and the thread that waits for it."""

import fcntl
import os
import threading
from collections.abc import Callable


class FileLock:
    """The lock of an open file: this process holds it, or waits for it.

    A thread waits in flock(2), where Linux wakes it when the lock is free. A process that tried
    from time to time could wait long beside others that lock the file again and again. Nothing can
    end the wait of the thread. If the lock is released before the thread has it, the thread waits
    on, and unlocks the file as soon as it has the lock.
    """

    def __init__(self, descriptor: int, wake: Callable[[], object]) -> None:
        """Take the lock of the file with this descriptor, or begin to wait for it. When a wait is
        over, `wake` is called. The descriptor is closed when the lock is released.
        """
        self._descriptor = descriptor
        self._process = os.getpid()
        self._wake = wake
        self._mutex = threading.Lock()
        self._is_held = False
        self._is_released = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._is_held = True
        except BlockingIOError:
            # A daemon, so that the process can end while the thread waits.
            threading.Thread(target=self._wait, name="hostrouting-lock", daemon=True).start()

    def is_held(self) -> bool:
        return self._is_held

    def release(self) -> None:
        with self._mutex:
            # A thread that still waits in flock reads this when it has the lock, and unlocks then.
            self._is_released = True
            if self._is_held:
                self._unlock()

    def _wait(self) -> None:
        """In a thread, wait until this process has the lock, then call `wake`. If `release` was
        called during the wait, unlock at once.
        """
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._mutex:
            self._is_held = True
            if self._is_released:
                self._unlock()
        self._wake()

    def _unlock(self) -> None:
        """Give the lock back, and close the file."""
        # A forked child shares the open file with its parent, and so the lock. If the child
        # unlocked it, the parent would lose the lock. So only the process that took it unlocks it.
        if os.getpid() == self._process:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)
