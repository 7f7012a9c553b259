"""The context that a running task receives: cancellation, waiting, logging, time. Nothing here runs tasks.

A `Scope` is a part of a run that stops as a whole. It holds one moment, which begins as its deadline (or never) and
becomes the present when the scope is cancelled. A task is cancelled if the earliest moment of its scope and the scopes
around that has passed. A shielded part is a scope without another around it.

A run waits, reads the time and starts threads only through a `Clock`, so that a test can pass
`phases.testing.FakeClock` and never wait.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, Protocol

from phases.errors import Cancelled, DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableMapping

    from phases.step import Observer, Step

FIELDS = "phases"
"""The one extra key of every record, with all fields of its line as one mapping."""


class TaskLogger(logging.LoggerAdapter):  # type: ignore[type-arg]  # generic since Python 3.11
    """The type of `ctx.log`: a logger whose lines name their run and task; `extra` goes into the same mapping."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Put the fields of this task and the caller's `extra` under the one key."""
        kwargs["extra"] = {FIELDS: {**(kwargs.get("extra") or {}), **(self.extra or {})}}
        return msg, kwargs


class Clock(Protocol):
    """What a run needs from the outside world: the time, waiting, and threads."""

    def now(self) -> float:
        """Monotonic seconds: only differences are meaningful."""

    def utc(self) -> datetime:
        """The date and time, in UTC."""

    def wait(self, done: Callable[[], bool], until: float = math.inf) -> None:
        """Wait until the condition is true or now() is `until`.

        The condition is evaluated first, and after each wake(), in any thread; it must be quick and take no lock.
        """

    def wake(self) -> None:
        """Have every wait evaluate its condition again: something has changed."""

    def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
        """Run the target in a new thread. Raises RuntimeError if the system cannot start one."""


class SystemClock:
    """The machine's own time and threads. Runs that share one wake each other, which does no harm."""

    now = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def utc(self) -> datetime:
        """The date and time, in UTC."""
        return datetime.now(timezone.utc)

    def wait(self, done: Callable[[], bool], until: float = math.inf) -> None:
        """See Clock. The main thread wakes regularly: if a signal came just before it slept, Python has not told it."""
        longest = 0.25 if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX
        with self._changed:
            while not done() and (left := until - self.now()) > 0:
                self._changed.wait(min(left, longest))

    def wake(self) -> None:
        """See Clock."""
        with self._changed:
            self._changed.notify_all()

    def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
        """See Clock."""
        thread = threading.Thread(target=target, name=name)
        thread.start()
        return thread


_cancelling = threading.Lock()  # of two cancellations at once, the first one is kept


class Scope:
    """A part of a run that stops as a whole, at the moment `stop[0]`, for the reason `stop[1]`."""

    def __init__(self, clock: Clock, name: str, *, parent: Scope | None = None, seconds: float | None = None) -> None:
        """The part of the task with this name, inside the parent, limited to these seconds if given."""
        if seconds is not None and not 0 < seconds < math.inf:
            raise ValueError(f"{name}: {seconds!r} is not a time limit; give seconds above 0, or None for no limit")
        self.clock, self.parent = clock, parent
        self.stop = (math.inf, "")
        if seconds is not None:
            self.stop = (clock.now() + seconds, f"the {seconds:g} s of {name} are over")

    def nearest(self) -> Scope:
        """Of this scope and those around it, the one that stops first; of several at once, the innermost."""
        nearest, scope = self, self.parent
        while scope is not None:
            nearest, scope = scope if scope.stop[0] < nearest.stop[0] else nearest, scope.parent
        return nearest

    def cancel(self, reason: str) -> None:
        """Stop now, unless it has stopped."""
        with _cancelling:
            now = self.clock.now()
            if now < self.stop[0]:
                self.stop = (now, reason)
        self.clock.wake()


def guarded(logger: logging.Logger, call: Callable[..., object], *args: object) -> None:
    """Call; whatever is raised, even SystemExit, is logged and changes nothing, and so does a log that raises."""
    try:
        call(*args)
    except BaseException:
        with suppress(BaseException):
            logger.exception("%r raised; the run continues", call)


class Context:
    """A task's view of the run it is part of.

    Create one to set a deadline, to cancel from another thread, or to use your own clock, logger or observers;
    if you pass none, `execute` creates a plain one.
    """

    def __init__(
        self,
        *,
        deadline: float | None = None,
        clock: Clock | None = None,
        logger: logging.Logger | None = None,
        run_id: str | None = None,
        observers: Iterable[Observer] | None = None,
    ) -> None:
        """Begin a run, limited to this many seconds if a deadline is given.

        Without `observers`, each start and end becomes a line in the logger (`phases` by default).
        """
        self.clock: Clock = clock or SystemClock()
        self.logger = logger or logging.getLogger("phases")
        self.run_id = run_id or os.urandom(4).hex()
        self.scope = self.run_scope = Scope(self.clock, "the run", seconds=deadline)
        self.step: Step | None = None
        self.leaves_out: Callable[[tuple[str, ...]], str] = lambda _path: ""
        """Why the run leaves out the task at this path; empty if it does not."""
        self.telling = threading.RLock()
        if observers is None:
            from phases.logs import LogObserver  # noqa: PLC0415  it imports this module

            observers = (LogObserver(self.logger),)
        self.observers = tuple(observers)

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the root of the run down to this task."""
        return () if self.step is None else self.step.path

    @property
    def attempt(self) -> int:
        """Which attempt of retry() this is, from 1."""
        return 1 if self.step is None else self.step.attempts

    @property
    def log(self) -> TaskLogger:
        """The logger of this task: its lines carry the run, the task and your `extra` as one mapping."""
        return TaskLogger(self.logger, {"run": self.run_id, "task": "/".join(self.path)})

    @property
    def cancelled(self) -> bool:
        """Whether the task is cancelled, or its time is up."""
        return self.scope.nearest().stop[0] <= self.clock.now()

    @property
    def reason(self) -> str:
        """Why the task is cancelled; empty if it is not."""
        return self.scope.nearest().stop[1] if self.cancelled else ""

    def remaining(self) -> float | None:
        """The seconds until the nearest deadline, never negative; 0 after a cancellation; None without a deadline."""
        moment = self.scope.nearest().stop[0]
        return None if moment == math.inf else max(0.0, moment - self.clock.now())

    def check(self) -> None:
        """Raise Cancelled if the task is cancelled. Call it wherever stopping does no harm."""
        scope = self.scope.nearest()
        moment, reason = scope.stop
        if moment <= self.clock.now():
            raise Cancelled(reason, origin=scope)

    def sleep(self, seconds: float) -> None:
        """Wait for these seconds; raise Cancelled as soon as the task is cancelled."""
        end = self.clock.now() + seconds
        self.clock.wait(lambda: self.cancelled, min(end, self.scope.nearest().stop[0]))
        self.check()

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancel the whole run. Can be called from any thread, any number of times; the first reason is kept."""
        self.run_scope.cancel(reason)

    @contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """While the block runs, call back once on cancellation: `with ctx.on_cancel(process.terminate):`.

        The callback runs in a thread of its own, and never after the block has ended. If it raises, that is logged
        and changes nothing. The end of the block raises Cancelled if the task is cancelled, because the block may
        have ended for this reason only.
        """
        has_ended = threading.Event()

        def watch() -> None:
            self.clock.wait(lambda: has_ended.is_set() or self.cancelled, self.scope.nearest().stop[0])
            if not has_ended.is_set():
                guarded(self.logger, callback)

        watcher = self.clock.start(watch, name="phases-on-cancel")
        try:
            yield
        finally:
            has_ended.set()
            self.clock.wake()
            watcher.join()
        self.check()

    @contextmanager
    def shielded(self, *, grace: float | None = None) -> Iterator[Context]:
        """A context that nothing outside the block can cancel: for work that must not be left half done.

        Inside the block, use the context that it yields; `grace` limits it (DeadlineExceeded). A cancellation takes
        effect in the next check(), sleep() or step after the block.
        """
        yield from self._part(None, grace)

    @contextmanager
    def within(self, seconds: float | None = None) -> Iterator[Context]:
        """A context for a part of a task, limited to these seconds: after that, DeadlineExceeded is raised.

        `deadline()` does the same for a whole task. Without seconds, the part can be cancelled on its own.
        Inside the block, use the context that it yields.
        """
        yield from self._part(self.scope, seconds)

    def _part(self, parent: Scope | None, seconds: float | None) -> Iterator[Context]:
        scope = Scope(self.clock, "/".join(self.path) or "the run", parent=parent, seconds=seconds)
        try:
            yield self.but(scope=scope)
        except Cancelled as cancelled:
            if seconds is None or cancelled.origin is not scope:
                raise
            raise DeadlineExceeded(seconds) from cancelled

    def but(self, **changes: Any) -> Context:
        """The same context with some attributes changed: for a task inside it, or a part of it."""
        other = Context.__new__(Context)
        vars(other).update(vars(self), **changes)
        return other

    def tell(self, moment: Literal["started", "ended"], step: Step) -> None:
        """Call every observer, one call at a time; what an observer raises is logged."""
        with self.telling:
            for observer in self.observers:
                guarded(self.logger, observer.started if moment == "started" else observer.ended, step)
