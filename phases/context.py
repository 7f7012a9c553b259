"""What a task is given while it runs: when to stop, how to wait, where to log. Nothing here runs tasks."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from phases.clock import Clock, SystemClock
from phases.errors import Cancelled, DeadlineExceeded
from phases.interrupts import closed, whole
from phases.logs import LogObserver, TaskLogger
from phases.scope import Scope, innermost, standing_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from phases.events import Event, Observer

__all__ = ["Context", "Node", "Run", "listed_observers", "valid_context"]


def valid_context(ctx: Any) -> Context:
    """The context, or a new one for None. TypeError for anything else, such as a clock."""
    if ctx is not None and not isinstance(ctx, Context):
        given = getattr(ctx, "__name__", type(ctx).__name__)
        raise TypeError(f"{given} was given in the place of a context; write phases.Context(…), or leave it out")
    return ctx or Context()


def listed_observers(observers: Any) -> list[Observer]:
    """The observers of a list. TypeError for one alone, and for what cannot be called with an event."""
    alone = callable(observers) or isinstance(observers, str)
    if alone or not all(map(callable, found := list(observers))):
        raise TypeError(f"observers={observers!r:.80} is not a list of functions of one event; write observers=[…]")
    return found


class Run:
    """What all contexts of one run share: its id, clock and scope, what is left out, and who is told."""

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
        """The same run, for a part of it of which this one is told too."""
        part = Run.__new__(Run)
        for name in Run.__slots__:
            setattr(part, name, getattr(self, name))
        part._observers = (*self._observers, observer)
        return part

    def tell(self, event: Event) -> None:
        """Hand the event to every observer. One that raises is reported to the log; the run goes on.

        One event at a time, whatever thread it comes from: an observer must not wait for another task's event.
        """
        with self._lock:
            for observer in self._observers:
                try:
                    observer(event)
                except Exception:
                    self.logger.exception("the observer %r raised; the run goes on", observer)


def _leave_nothing_out(_task: object, _above: tuple[str, ...]) -> str:
    """Why a task below these names is left out of the run: what run(only=…, skip=…) puts in its place decides."""
    return ""


class Node:
    """A task that runs: its number in the run, and how many attempts it has taken."""

    __slots__ = ("attempts", "id")

    def __init__(self, number: int) -> None:
        self.id = number
        self.attempts = 1


class Context:
    """A task's view of the run it is part of.

    Make one to set a deadline, to be able to cancel from elsewhere, or to hand in a clock, a logger or
    observers of your own; `execute` makes a plain one where none is given.

    - `check()` raises Cancelled when it is time to stop; `sleep()` waits and does the same.
    - `on_cancel()` calls back when it is time to stop, for a task that waits for something else.
    - `within()` gives a part of the task so many seconds.
    - `shielded()` lets a transaction finish, or roll back, before it is stopped.
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
        """Begin a run that has this many seconds, if a deadline is given.

        Without observers of your own, each event becomes a line of the logger (`phases` by default).
        """
        logger = logger or logging.getLogger("phases")
        if isinstance(clock, type):
            raise TypeError(f"clock={clock.__name__} is a class; make one: clock={clock.__name__}()")
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
        """What it is told to stop by: while a block of `within` is open on it here, that block's."""
        return innermost(self._scope)

    @property
    def run_id(self) -> str:
        """The name of this run; every log line and the report carry it."""
        return self.run.run_id

    @property
    def clock(self) -> Clock:
        """The clock of this run."""
        return self.run.clock

    @property
    def log(self) -> TaskLogger:
        """The logger of this task: its lines carry run and task, and what you give as `extra`, as one mapping."""
        if self._log is None:
            self._log = TaskLogger(self.run.logger, {"run": self.run_id, "task": "/".join(self.path)})
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether it is time to stop."""
        return self.scope.cancelled

    @property
    def reason(self) -> str:
        """Why it is time to stop; empty while it is not."""
        return self.scope.reason

    def remaining(self) -> float | None:
        """The seconds left until the nearest deadline; None when there is none."""
        return self.scope.remaining()

    def check(self) -> None:
        """Raise Cancelled when it is time to stop. Call it wherever stopping does no harm."""
        self.scope.check()

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds; wake and raise Cancelled when it is time to stop."""
        self.scope.sleep(seconds)

    def cancel(self, reason: str = "cancelled") -> None:
        """Tell the whole run to stop. From any thread, any number of times; the first reason stands."""
        self.run.scope.cancel(reason)

    def on_cancel(self, callback: Callable[[], object]) -> AbstractContextManager[None]:
        """While the block runs, call back once when it is time to stop: `with ctx.on_cancel(process.terminate):`.

        The callback runs in whichever thread gives the order, or at once if it was given already; never
        after the block has ended. What it raises is logged and changes nothing.
        """
        return self.scope.on_cancel(callback)

    @contextmanager
    @closed
    def shielded(self, *, grace: float | None = None) -> Iterator[Context]:
        """A context that is not told to stop by anything outside the block: for what must not be left half done.

        Use the context that it yields inside the block; `grace` bounds it (DeadlineExceeded). Neither cancellation nor
        Ctrl-C interrupts the block. The order to stop is not lost: the next check(), sleep() or step after it obeys.

            with ctx.shielded(grace=30) as safe:
                change(safe)      # may take its time, or fail and roll back
            ctx.check()           # now stop, if that is what was asked meanwhile
        """
        scope = self._part(None, grace)
        with whole(), _time_is_up(scope, grace):
            yield self._with_scope(scope)

    @contextmanager
    @closed
    def within(self, seconds: float | None = None) -> Iterator[Context]:
        """A context for a part of a task that has only so many seconds: DeadlineExceeded is raised when they are over.

        `deadline()` does the same for a whole task. Without seconds it is a part that can be stopped on its own.
        Inside the block, in its thread and in those of groups that it runs, this context has the limit, too:

            with ctx.within(5):
                ctx.sleep(100)    # DeadlineExceeded after 5 seconds
        """
        outer = self.scope
        with self._part(outer, seconds) as scope, _time_is_up(scope, seconds), standing_for(outer, scope):
            yield self._with_scope(scope)

    def entering(self, name: str, *, node: Node | None) -> Context:
        """The context of a task of this name that runs inside this one."""
        child = self.at((*self.path, name))
        child.node = node
        return child

    def telling_also(self, observer: Observer) -> Context:
        """The same context, with an observer more for what is run in it."""
        other = self._with_scope(self.scope)
        other.run = self.run.telling_also(observer)
        return other

    def at(self, path: tuple[str, ...]) -> Context:
        """The same context at another place in the tree of names."""
        other = self._with_scope(self.scope)
        other.path = path
        other._log = None
        return other

    def attempting(self, attempt: int) -> Context:
        """The context of the given attempt at the same task."""
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
    """Turn the cancellation by this scope's own deadline into the failure that it is for whoever set it."""
    try:
        yield
    except Cancelled as cancelled:
        if seconds is None or cancelled.origin is not scope:
            raise
        raise DeadlineExceeded(seconds) from cancelled
