"""Cancellation: what is cancelled, why, and by when. Nothing here knows about tasks.

A scope is a node in a tree. Cancelling it cancels everything below it, and its deadline applies to everything
below it. A shielded scope is simply one without a parent.
"""

from __future__ import annotations

import logging
import math
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import attrs

from phases.errors import Cancelled
from phases.interrupts import closed, raise_if_interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import Self

    from phases.clock import Clock, Event

__all__ = ["Scope", "TimeLimit", "innermost", "standing_for"]


@attrs.frozen(eq=False)
class TimeLimit:
    """A time limit: the instant on the clock, the length in seconds, and the scope that it was set for."""

    at: float
    seconds: float
    scope: Scope

    @property
    def reason(self) -> str:
        """The reason given to everything that is cancelled at that instant."""
        return f"the {self.seconds:g} s of {self.scope.name} are over"


# Scope -> the part of it whose block is open here: in this thread, and in the threads of groups that run in the block.
_PARTS: ContextVar[Mapping[Scope, Scope]] = ContextVar("phases_parts")


def innermost(scope: Scope) -> Scope:
    """The scope to use in place of this one: its innermost part whose block is open here, or else the scope itself."""
    parts = _PARTS.get(None)
    while parts and (part := parts.get(scope)) is not None and not part.left:
        scope = part
    return scope


@contextmanager
@closed
def standing_for(scope: Scope, part: Scope) -> Iterator[None]:
    """While the block is open, use the part in place of the scope: waiting in the scope means waiting in the part."""
    _PARTS.set({**_PARTS.get({}), scope: part})
    try:
        yield
    finally:
        _PARTS.set({outer: inner for outer, inner in _PARTS.get({}).items() if inner is not part})


class Scope:
    """A part of a run that is cancelled as a whole."""

    __slots__ = (
        "_callbacks",
        "_cause",
        "_children",
        "_lock",
        "clock",
        "deadline",
        "event",
        "left",
        "name",
        "parent",
        "run_id",
    )

    def __init__(
        self, clock: Clock, *, name: str, run_id: str, parent: Scope | None = None, seconds: float | None = None
    ) -> None:
        """The scope of the task with this name, below the parent if there is one, limited to these seconds if given."""
        _check_limit(seconds, of=name)
        self.clock = clock
        self.name = name
        self.run_id = run_id
        self.parent = parent
        self.left = False
        self.event: Event = clock.event()
        self._cause: tuple[str, Scope] | None = None
        self._children: set[Scope] = set()
        self._callbacks: list[Callable[[], None]] = []
        # One lock for the whole tree: a cancellation reaches every scope below in one step.
        self._lock: threading.RLock = threading.RLock() if parent is None else parent._lock
        self.deadline: TimeLimit | None = None if parent is None else parent.deadline
        if seconds is not None:
            own = TimeLimit(at=clock.now() + seconds, seconds=seconds, scope=self)
            if self.deadline is None or own.at < self.deadline.at:
                self.deadline = own
        if parent is not None:
            with self._lock:
                parent._children.add(self)
                if parent._cause is not None:
                    self._cause = parent._cause
                    self.event.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.left = True
        if self.parent is not None:
            with self._lock:
                self.parent._children.discard(self)

    @property
    def cancelled(self) -> bool:
        """Whether this scope was cancelled, or its time is up."""
        self._notice_deadline()
        return self._cause is not None

    @property
    def reason(self) -> str:
        """Why it was cancelled; empty if it was not."""
        return "" if self._cause is None else self._cause[0]

    def remaining(self) -> float | None:
        """The seconds until the nearest deadline, never negative; None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline.at - self.clock.now())

    def check(self) -> None:
        """Raise Cancelled if the scope was cancelled, or the deferred KeyboardInterrupt."""
        raise_if_interrupted()
        if self.cancelled:
            reason, origin = self._cause or ("cancelled", self)
            raise Cancelled(reason, origin=origin)

    def sleep(self, seconds: float) -> None:
        """Wait for these seconds; raise Cancelled as soon as the scope is cancelled."""
        if math.isnan(seconds):
            raise ValueError("sleep: nan is not a number of seconds")
        end = self.clock.now() + seconds
        while True:
            self.check()
            left = end - self.clock.now()
            if left <= 0:
                return
            remaining = self.remaining()
            self.event.wait(left if remaining is None else min(left, remaining))

    @closed
    def cancel(self, reason: str, *, origin: Scope | None = None) -> None:
        """Cancel everything in this scope. If it was cancelled before, the first reason stays."""
        cause = (reason, origin or self)
        wake: list[Scope] = []
        callbacks: list[Callable[[], None]] = []
        with self._lock:
            below = [self]
            while below:
                scope = below.pop()
                if scope._cause is None:
                    scope._cause = cause
                    wake.append(scope)
                    callbacks += scope._callbacks
                    below += scope._children
        # Outside the lock: a callback may take long, or use the scope itself.
        for scope in wake:
            scope.event.set()
        for callback in callbacks:
            callback()

    @contextmanager
    @closed
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call back on cancellation: at most once, never after the block; immediately if already cancelled."""
        once = _Once(callback)
        alarm = self._ring_at_deadline()
        with self._lock:
            self._callbacks.append(once)
        try:
            if self.cancelled:
                once()
            yield
        finally:
            alarm()
            with self._lock:
                self._callbacks.remove(once)
            once.disarm()

    def _notice_deadline(self) -> None:
        deadline = self.deadline
        if self._cause is None and deadline is not None and self.clock.now() >= deadline.at:
            deadline.scope.cancel(deadline.reason)
            # A scope whose block has ended is no longer below the one that it inherited its deadline from.
            if self._cause is None:
                self.cancel(deadline.reason, origin=deadline.scope)

    def _ring_at_deadline(self) -> Callable[[], None]:
        """Start a thread that cancels at the deadline; return the function that stops that thread."""
        if self.deadline is None or self._cause is not None:
            return _nothing
        closed = self.clock.event()

        def watch() -> None:
            while not closed.is_set() and not self.cancelled:
                closed.wait(self.remaining())

        thread = self.clock.start(watch, name="phases-deadline")

        def stop() -> None:
            closed.set()
            thread.join()

        return stop


def _check_limit(seconds: Any, *, of: str) -> None:
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is not None and not (number and 0 < seconds < math.inf):
        raise ValueError(f"{of}: {seconds!r} is not a time limit; give seconds above 0, or None for no limit")


def _nothing() -> None:
    pass


class _Once:
    """A callback that runs at most once, and never after it was disarmed; what it raises is logged."""

    __slots__ = ("_callback", "_lock")

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback
        self._lock = threading.RLock()

    @closed
    def __call__(self) -> None:
        with self._lock:
            callback, self._callback = self._callback, None
            if callback is None:
                return
            try:
                callback()
            except BaseException:  # even SystemExit: it would end the thread that cancels, not the task
                logging.getLogger("phases").exception("an on_cancel callback raised; the cancellation continues")

    def disarm(self) -> None:
        """Wait for a call that is running, then prevent any further call."""
        with self._lock:
            self._callback = None
