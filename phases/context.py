"""The context that a running task receives: cancellation, waiting, logging. Nothing here runs tasks.

What is cancelled, why, and by when, is a `Scope`: a node in a tree, without any knowledge of tasks. Cancelling a scope
cancels everything below it, and its deadline applies to everything below it. A shielded scope is simply one without a
parent. A `Run` is what all tasks of a run share; a `Context` is what one task sees of it, in one scope.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import attrs

from phases.clock import Clock, SystemClock
from phases.errors import Cancelled, DeadlineExceeded
from phases.interrupts import closed, raise_if_interrupted, whole
from phases.logs import LogObserver, TaskLogger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from typing_extensions import Self

    from phases.clock import Event as Flag
    from phases.events import Event, Observer

__all__ = [
    "Context",
    "Node",
    "Run",
    "Scope",
    "TimeLimit",
    "innermost",
    "listed_observers",
    "standing_for",
    "valid_context",
]


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
        self.event: Flag = clock.event()
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
        ended = self.clock.event()

        def watch() -> None:
            while not ended.is_set() and not self.cancelled:
                ended.wait(self.remaining())

        thread = self.clock.start(watch, name="phases-deadline")

        def stop() -> None:
            ended.set()
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


class Run:
    """What all contexts of one run share: its id, clock, scope, selection of tasks, and observers."""

    __slots__ = ("_lock", "_observers", "clock", "ids", "leaves_out", "logger", "run_id", "scope")

    def __init__(
        self,
        *,
        clock: Clock,
        logger: logging.Logger,
        run_id: str,
        observers: Iterable[Observer],
        seconds: float | None,
    ) -> None:
        self.clock = clock
        self.logger = logger
        self.run_id = run_id
        self.scope = Scope(clock, name="the run", run_id=run_id, seconds=seconds)
        self.ids = itertools.count(1)
        self.leaves_out: Callable[[Any, tuple[str, ...]], str] = _leave_nothing_out
        self._observers = tuple(observers)
        self._lock = threading.RLock()

    def telling_also(self, observer: Observer) -> Run:
        """The same run with one more observer, for a part of the run."""
        part = self._copy()
        part._observers = (*self._observers, observer)
        return part

    def selecting(self, leaves_out: Callable[[Any, tuple[str, ...]], str]) -> Run:
        """The same run with another selection of tasks, for a part of the run."""
        part = self._copy()
        part.leaves_out = leaves_out
        return part

    def _copy(self) -> Run:
        part = Run.__new__(Run)
        for name in Run.__slots__:
            setattr(part, name, getattr(self, name))
        return part

    def tell(self, event: Event) -> None:
        """Call every observer with the event. If an observer raises, that is logged and the run continues.

        Observers are called with one event at a time, from any thread, so they must not wait for another event.
        """
        with self._lock:
            for observer in self._observers:
                try:
                    observer(event)
                except Exception:
                    self.logger.exception("the observer %r raised; the run continues", observer)


def _leave_nothing_out(_task: object, _above: tuple[str, ...]) -> str:
    """The default of `leaves_out`: no task is left out. run(only=…, skip=…) replaces it."""
    return ""


class Node:
    """A running task: its number in the run, and how many attempts it has taken."""

    __slots__ = ("attempts", "id")

    def __init__(self, number: int) -> None:
        self.id = number
        self.attempts = 1


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

    __slots__ = ("_log", "_scope", "attempt", "node", "path", "run")

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
        self.run = Run(
            clock=clock or SystemClock(),
            logger=logger,
            run_id=run_id or os.urandom(4).hex(),
            observers=(LogObserver(logger),) if observers is None else listed_observers(observers),
            seconds=deadline,
        )
        self._scope = self.run.scope
        self.path: tuple[str, ...] = ()
        self.node: Node | None = None
        self.attempt = 1
        self._log: TaskLogger | None = None

    def __repr__(self) -> str:
        state = f"cancelled: {self.reason}" if self.cancelled else "running"
        return f"<Context of {'/'.join(self.path) or 'a new run'}, run {self.run_id}, {state}>"

    @property
    def scope(self) -> Scope:
        """The scope that cancels it: while a `within` block is open on this context here, the scope of that block."""
        return innermost(self._scope)

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
        return self.scope.reason

    def remaining(self) -> float | None:
        """The seconds until the nearest deadline; None without a deadline."""
        return self.scope.remaining()

    def check(self) -> None:
        """Raise Cancelled if the task is cancelled. Call it wherever stopping does no harm."""
        self.scope.check()

    def sleep(self, seconds: float) -> None:
        """Wait for these seconds; raise Cancelled as soon as the task is cancelled."""
        self.scope.sleep(seconds)

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancel the whole run. Can be called from any thread, any number of times; the first reason is kept."""
        self.run.scope.cancel(reason)

    def on_cancel(self, callback: Callable[[], object]) -> AbstractContextManager[None]:
        """While the block runs, call back once on cancellation: `with ctx.on_cancel(process.terminate):`.

        The callback runs in the thread that cancels, or immediately if the task is already cancelled; never after
        the block has ended. If it raises, that is logged and changes nothing.
        """
        return self.scope.on_cancel(callback)

    @contextmanager
    @closed
    def shielded(self, *, grace: float | None = None) -> Iterator[Context]:
        """A context that nothing outside the block can cancel: for work that must not be left half done.

        Inside the block, use the context that it yields; `grace` limits it (DeadlineExceeded). Neither cancellation
        nor Ctrl-C interrupts the block. They take effect in the next check(), sleep() or step after the block.

            with ctx.shielded(grace=30) as safe:
                change(safe)      # may take long, or fail and roll back
            ctx.check()           # stop now, if the task was cancelled meanwhile
        """
        scope = self._part(None, grace)
        with whole(), _time_is_up(scope, grace):
            yield self._with_scope(scope)

    @contextmanager
    @closed
    def within(self, seconds: float | None = None) -> Iterator[Context]:
        """A context for a part of a task, limited to these seconds: after that, DeadlineExceeded is raised.

        `deadline()` does the same for a whole task. Without seconds, the part can be cancelled on its own.
        Inside the block (in its thread and in the threads of groups that it runs) the outer context has the same limit:

            with ctx.within(5):
                ctx.sleep(100)    # DeadlineExceeded after 5 seconds
        """
        outer = self.scope
        with self._part(outer, seconds) as scope, _time_is_up(scope, seconds), standing_for(outer, scope):
            yield self._with_scope(scope)

    def entering(self, name: str, *, node: Node | None) -> Context:
        """The context of a task with this name that runs inside this one."""
        child = self.at((*self.path, name))
        child.node = node
        return child

    def telling_also(self, observer: Observer) -> Context:
        """The same context with one more observer for the tasks run in it."""
        other = self._with_scope(self.scope)
        other.run = self.run.telling_also(observer)
        return other

    def selecting(self, leaves_out: Callable[[Any, tuple[str, ...]], str]) -> Context:
        """The same context with another selection of tasks; see `Run.leaves_out`."""
        other = self._with_scope(self.scope)
        other.run = self.run.selecting(leaves_out)
        return other

    def at(self, path: tuple[str, ...]) -> Context:
        """The same context at another place in the tree of names."""
        other = self._with_scope(self.scope)
        other.path = path
        other._log = None
        return other

    def attempting(self, attempt: int) -> Context:
        """The context of this attempt at the same task."""
        again = self._with_scope(self.scope)
        again.attempt = attempt
        if self.node is not None:
            self.node.attempts = attempt
        return again

    def _part(self, parent: Scope | None, seconds: float | None) -> Scope:
        name = "/".join(self.path) or "the run"
        return Scope(self.clock, name=name, run_id=self.run_id, parent=parent, seconds=seconds)

    def _with_scope(self, scope: Scope) -> Context:
        other = Context.__new__(Context)
        other.run, other.path, other.node, other.attempt = self.run, self.path, self.node, self.attempt
        other._scope = scope
        other._log = self._log
        return other


@contextmanager
def _time_is_up(scope: Scope, seconds: float | None) -> Iterator[None]:
    """Turn the cancellation by this scope's own deadline into DeadlineExceeded."""
    try:
        yield
    except Cancelled as cancelled:
        if seconds is None or cancelled.origin is not scope:
            raise
        raise DeadlineExceeded(seconds) from cancelled


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
