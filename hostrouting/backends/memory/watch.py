"""Listening to the fake kernel: which changes were heard, and what happens while somebody waits.

Here: the watch, and the time that passes in it. Not here: what changes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from hostrouting.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["MemoryWatch"]


class MemoryWatch:
    """A listener. Waiting takes no time: the seconds are handed to `sleep`."""

    def __init__(self, sleep: Callable[[float], object], happenings: list[Callable[[], object]]) -> None:
        """Let time pass in `sleep`; while there is nothing to hear, the first of the happenings comes true."""
        self._sleep, self._happenings = sleep, happenings
        self._heard, self._woken = threading.Event(), threading.Event()
        self._closed = False

    def hear(self) -> None:
        """Something changed."""
        self._heard.set()

    def wait(self, timeout: float) -> bool:
        """Whether something changed since the last wait; if not, whether the next thing to happen changed anything."""
        if self._closed:
            raise BackendError("the watch was closed")
        if not self._heard.is_set() and not self._woken.is_set():
            if self._happenings:
                self._happenings.pop(0)()
            else:
                self._sleep(timeout)
        if self._woken.is_set():
            self._woken.clear()
            return False
        heard = self._heard.is_set()
        self._heard.clear()
        return heard

    def wake(self) -> None:
        """End the wait that is under way, or the next one."""
        self._woken.set()

    def close(self) -> None:
        """Stop listening."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
