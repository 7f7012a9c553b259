"""The context that a running task receives: cancellation, waiting, logging, time. Nothing here runs tasks.

What is cancelled, why, and by when, is a `Scope`: a node in a tree, without any knowledge of tasks. Cancelling a scope
cancels everything below it, and its deadline applies to everything below it. A shielded scope is simply one without a
parent. A `Run` is what all tasks of a run share; a `Context` is what one task sees of it, in one scope.

A run waits, reads the time and starts threads only through a `Clock`, so that a test can pass
`phases.testing.FakeClock` and never wait.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import threading
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from phases.errors import Cancelled, DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping

    from phases.report import Event, Observer

FIELDS = "phases"
"""The one extra key of every record, with all fields of its line as one mapping."""


if TYPE_CHECKING:
    _LoggerAdapter = logging.LoggerAdapter[logging.Logger]
else:
    _LoggerAdapter = logging.LoggerAdapter  # generic since Python 3.11


class TaskLogger(_LoggerAdapter):
    """The type of `ctx.log`: a logger whose lines name their run and task; `extra` goes into the same mapping."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Put the fields of this task and the caller's `extra` under the one key."""
        kwargs["extra"] = {FIELDS: joined(self.extra or {}, kwargs.get("extra") or {}, prefix="extra")}
        return msg, kwargs


def joined(fields: Mapping[str, object], offered: Mapping[str, object], *, prefix: str) -> dict[str, object]:
    """The two mappings as one; a key of `offered` that is already in use gets the prefix."""
    return {**fields, **{key if key not in fields else f"{prefix}_{key}": value for key, value in offered.items()}}


class Flag(Protocol):
    """A flag that is set once and can be waited for, like threading.Event."""

    def set(self) -> None:
        """Set the flag and wake every waiting thread. Setting it again does nothing."""

    def is_set(self) -> bool:
        """Whether the flag is set."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set or the time is up; return whether it is set."""


class Thread(Protocol):
    """A started thread."""

    def join(self) -> None:
        """Wait until the thread has ended."""


class Clock(Protocol):
    """What a run needs from the outside world: the time, waiting, and threads."""

    def now(self) -> float:
        """Monotonic seconds: only differences are meaningful."""

    def utc(self) -> datetime:
        """The date and time, in UTC."""

    def event(self) -> Flag:
        """A new event whose wait() uses this clock."""

    def start(self, target: Callable[[], None], *, name: str) -> Thread:
        """Run the target in a new thread. Raises RuntimeError if the system cannot start one."""


class _SystemEvent:
    """An event without a lock, because a raising signal handler or a fork could leave a lock locked.

    Each waiting thread has a lock, which set() releases. If a signal arrives just before the main thread blocks,
    Python calls its handler only when the thread wakes. (Measured: one in 25 was not handled for a minute.) So the
    main thread wakes up regularly.
    """

    def __init__(self) -> None:
        self._up = False
        self._waiting: list[threading.Lock] = []  # its methods are atomic, so it needs no lock

    def set(self) -> None:
        """Set the flag and wake every waiting thread. Setting it again does nothing."""
        self._up = True
        with suppress(IndexError):  # another thread is setting it as well, or the last waiter has just left
            while True:
                self._waiting.pop().release()

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._up

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set or the time is up; return whether it is set."""
        longest = 0.25 if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._up and (left := end - time.monotonic()) > 0:
            waiter = threading.Lock()
            waiter.acquire()
            self._waiting.append(waiter)
            try:
                if not self._up:  # a set() from here on finds the waiter
                    waiter.acquire(timeout=min(left, longest))
            finally:
                with suppress(ValueError):  # set() has removed it
                    self._waiting.remove(waiter)
        return self._up


class SystemClock:
    """The machine's own time and threads."""

    now = staticmethod(time.monotonic)
    event = staticmethod(_SystemEvent)

    @staticmethod
    def utc() -> datetime:
        """The date and time, in UTC."""
        return datetime.now(timezone.utc)

    @staticmethod
    def start(target: Callable[[], None], *, name: str) -> threading.Thread:
        """Run the target in a new thread. Raises RuntimeError if the system cannot start one."""
        thread = threading.Thread(target=target, name=name, daemon=False)
        thread.start()
        return thread


# One lock for all scopes: a cancellation reaches every scope below in one step.
_tree = threading.RLock()
os.register_at_fork(after_in_child=lambda: globals().update(_tree=threading.RLock()))


class Scope:
    """A part of a run that is cancelled as a whole."""

    def __init__(
        self, clock: Clock, *, name: str, run_id: str, parent: Scope | None = None, seconds: float | None = None
    ) -> None:
        """The scope of the task with this name, below the parent if there is one, limited to these seconds if given."""
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if seconds is not None and not (number and 0 < seconds < math.inf):
            raise ValueError(f"{name}: {seconds!r} is not a time limit; give seconds above 0, or None for no limit")
        self.clock, self.name, self.run_id, self.parent = clock, name, run_id, parent
        self.event: Flag = clock.event()
        self.cause: tuple[str, Scope] | None = None
        self.children: set[Scope] = set()
        self.at = math.inf if seconds is None else clock.now() + seconds
        # The scope whose deadline comes first, of this one and those around it, and the words for it.
        self.limit: tuple[Scope, str] | None = None if parent is None else parent.limit
        if seconds is not None and (self.limit is None or self.at < self.limit[0].at):
            self.limit = self, f"the {seconds:g} s of {name} are over"
        if parent is not None:
            with _tree:
                parent.children.add(self)
                if parent.cause is not None:
                    self.cause = parent.cause
                    self.event.set()

    def close(self) -> None:
        """End the part: a later cancellation of its parent does not reach it."""
        if self.parent is not None:
            with _tree:
                self.parent.children.discard(self)

    @property
    def cancelled(self) -> bool:
        """Whether this scope was cancelled, or its time is up."""
        if self.cause is None and self.limit is not None and self.clock.now() >= self.limit[0].at:
            self.limit[0].cancel("")
            self.cancel("")  # a scope whose block has ended is no longer below the one with the deadline
        return self.cause is not None

    def cancel(self, reason: str) -> None:
        """Cancel everything in this scope. The first reason stays, which may be a missed deadline."""
        now = self.clock.now()
        below = [self]
        with _tree:
            while below:
                scope = below.pop()
                if scope.cause is None:
                    late = scope.limit if scope.limit is not None and now >= scope.limit[0].at else None
                    scope.cause = (reason, self) if late is None else (late[1], late[0])
                    scope.event.set()
                    below += scope.children


def complain(logger: logging.Logger, message: str, *args: object) -> None:
    """Log the exception that is being handled, whatever the handlers of the logger raise."""
    with suppress(BaseException):
        logger.exception(message, *args)  # noqa: LOG004  called by handlers only


class Node:
    """A running task: its number in the run, its path, its parent, and its attempts so far."""

    __slots__ = ("attempts", "id", "parent", "passed", "path")

    def __init__(self, number: int, path: tuple[str, ...], parent: Node | None) -> None:
        self.id, self.path, self.parent = number, path, parent
        self.attempts = 1
        self.passed: list[BaseException] = []
        """What tasks inside it raised unchanged; if it raises that as well, the error is not its own."""


class Run:
    """What all contexts of one run share: its id, clock, logger and scope, and the tasks that run now."""

    def __init__(self, clock: Clock, logger: logging.Logger, run_id: str, *, seconds: float | None) -> None:
        self.clock, self.logger, self.run_id = clock, logger, run_id
        self.scope = Scope(clock, name="the run", run_id=run_id, seconds=seconds)
        self.ids = itertools.count(1)
        self.running: dict[int, Node] = {}
        self.lock = threading.RLock()

    @property
    def waits_for(self) -> str:
        """The paths of the tasks that run now and have no running task inside them."""
        nodes = list(self.running.values())
        around = {node.parent for node in nodes}
        return ", ".join("/".join(node.path) for node in nodes if node not in around) or "nothing any more"


class Context:
    """A task's view of the run it is part of.

    Create one to set a deadline, to cancel from another thread, or to use your own clock, logger or observers;
    if you pass none, `execute` creates a plain one.

    - `check()` raises Cancelled if the task is cancelled; `sleep()` waits and does the same.
    - `on_cancel()` calls back on cancellation, for a task that waits for something else.
    - `within()` limits a part of the task to so many seconds.
    - `shielded()` lets a transaction finish, or roll back, before the task stops.
    - `log` is a logger whose lines say which run and task they come from.
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

        Without `observers`, each event becomes a line in the logger (`phases` by default).
        """
        logger = logger or logging.getLogger("phases")
        if isinstance(clock, type):
            raise TypeError(f"clock={clock.__name__} is a class; create an instance: clock={clock.__name__}()")
        self.run = Run(clock or SystemClock(), logger, run_id or os.urandom(4).hex(), seconds=deadline)
        self.scope = self.run.scope
        self.path: tuple[str, ...] = ()
        self.node: Node | None = None
        self.attempt = 1
        self.leaves_out: Callable[[Any, tuple[str, ...]], str] = lambda _task, _above: ""
        """Why the run leaves out a task below these names; empty if it does not."""
        self._log: TaskLogger | None = None
        if observers is None:
            from phases.logs import LogObserver  # noqa: PLC0415  with the events, it takes as long to load as this module

            observers = (LogObserver(logger),)
        self.observers: tuple[Observer, ...] = tuple(listed_observers(observers))

    def __repr__(self) -> str:
        state = f"cancelled: {self.reason}" if self.cancelled else "running"
        return f"<Context of {'/'.join(self.path) or 'a new run'}, run {self.run_id}, {state}>"

    @property
    def run_id(self) -> str:
        """The id of this run; every log line and the report contain it."""
        return self.run.run_id

    @property
    def clock(self) -> Clock:
        """The clock of this run."""
        return self.run.clock

    @property
    def log(self) -> TaskLogger:
        """The logger of this task: its lines carry the run, the task and your `extra` as one mapping."""
        if self._log is None:
            self._log = TaskLogger(self.run.logger, {"run": self.run_id, "task": "/".join(self.path)})
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether the task is cancelled, or its time is up."""
        return self.scope.cancelled

    @property
    def reason(self) -> str:
        """Why the task is cancelled; empty if it is not."""
        return "" if self.scope.cause is None else self.scope.cause[0]

    def remaining(self) -> float | None:
        """The seconds until the nearest deadline, never negative; None without a deadline."""
        limit = self.scope.limit
        return None if limit is None else max(0.0, limit[0].at - self.clock.now())

    def check(self) -> None:
        """Raise Cancelled if the task is cancelled. Call it wherever stopping does no harm."""
        if self.scope.cancelled and self.scope.cause is not None:
            raise Cancelled(self.scope.cause[0], origin=self.scope.cause[1])

    def sleep(self, seconds: float) -> None:
        """Wait for these seconds; raise Cancelled as soon as the task is cancelled."""
        if math.isnan(seconds):
            raise ValueError("sleep: nan is not a number of seconds")
        end = self.clock.now() + seconds
        while True:
            self.check()
            left, remaining = end - self.clock.now(), self.remaining()
            if left <= 0:
                return
            self.scope.event.wait(left if remaining is None else min(left, remaining))

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancel the whole run. Can be called from any thread, any number of times; the first reason is kept."""
        self.run.scope.cancel(reason)

    @contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """While the block runs, call back once on cancellation: `with ctx.on_cancel(process.terminate):`.

        The callback runs in a thread of its own, and never after the block has ended. If it raises, that is logged
        and changes nothing. The end of the block raises Cancelled if the task is cancelled, because the block may
        have ended for this reason only.
        """
        with self.within() as part:

            def watch() -> None:
                while not part.cancelled:
                    part.scope.event.wait(part.remaining())
                if part.scope.cause is not None and part.scope.cause[1] is not part.scope:
                    try:
                        callback()
                    except BaseException:  # noqa: BLE001  even SystemExit changes nothing
                        complain(self.run.logger, "an on_cancel callback raised; the cancellation continues")

            watcher = self.clock.start(watch, name="phases-on-cancel")
            try:
                yield
            finally:
                part.scope.cancel("the block has ended")
                watcher.join()
        self.check()

    @contextmanager
    def shielded(self, *, grace: float | None = None) -> Iterator[Context]:
        """A context that nothing outside the block can cancel: for work that must not be left half done.

        Inside the block, use the context that it yields; `grace` limits it (DeadlineExceeded). A cancellation takes
        effect in the next check(), sleep() or step after the block.

            with ctx.shielded(grace=30) as safe:
                change(safe)      # may take long, or fail and roll back
            ctx.check()           # stop now, if the task was cancelled meanwhile
        """
        yield from self._part(None, grace)

    @contextmanager
    def within(self, seconds: float | None = None) -> Iterator[Context]:
        """A context for a part of a task, limited to these seconds: after that, DeadlineExceeded is raised.

        `deadline()` does the same for a whole task. Without seconds, the part can be cancelled on its own.
        Inside the block, use the context that it yields:

            with ctx.within(5) as soon:
                soon.sleep(100)   # DeadlineExceeded after 5 seconds
        """
        yield from self._part(self.scope, seconds)

    def _part(self, parent: Scope | None, seconds: float | None) -> Iterator[Context]:
        name = "/".join(self.path) or "the run"
        scope = Scope(self.clock, name=name, run_id=self.run_id, parent=parent, seconds=seconds)
        try:
            yield self.but(scope=scope)
        except Cancelled as cancelled:
            if seconds is None or cancelled.origin is not scope:
                raise
            raise DeadlineExceeded(seconds) from cancelled
        finally:
            scope.close()

    def but(self, **changes: Any) -> Context:
        """The same context with some attributes changed: for a task inside it, another attempt, a part of it."""
        other = Context.__new__(Context)
        vars(other).update(vars(self), _log=None, **changes)
        return other

    def tell(self, event: Event) -> None:
        """Call every observer with the event. If an observer raises, that is logged and the run continues.

        Observers are called with one event at a time, from any thread, so they must not wait for another event.
        """
        with self.run.lock:
            for observer in self.observers:
                try:
                    observer(event)
                except BaseException:  # noqa: BLE001  even SystemExit: each task has its last event
                    complain(self.run.logger, "the observer %r raised; the run continues", observer)


def valid_context(ctx: Any) -> Context:
    """The context, or a new one for None. Raises TypeError for anything else, such as a clock."""
    if ctx is not None and not isinstance(ctx, Context):
        given = getattr(ctx, "__name__", type(ctx).__name__)
        raise TypeError(f"{given} was passed as the context; pass a phases.Context(…), or leave it out")
    return ctx or Context()


def listed_observers(observers: Any) -> list[Observer]:
    """The observers as a list. Raises TypeError for a single observer, and for an object that is not callable."""
    alone = callable(observers) or isinstance(observers, str)
    if alone or not all(map(callable, found := list(observers))):
        raise TypeError(f"observers={observers!r:.80} is not a list of functions of one event; pass observers=[…]")
    return found
