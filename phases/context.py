"""The context that a running task receives: cancellation, waiting, logging, time. Nothing here runs
tasks.

A `Scope` is a part of a run that stops as a whole. It has one moment at which it stops: its
deadline (or never) at first, and the present once the scope is cancelled. A task is inside several
scopes, and is cancelled if the earliest of their moments has passed. A shielded part is only inside
its own scope.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, overload

from phases.errors import Cancelled, DeadlineExceeded
from phases.observers import LiveTree, LogObserver, TaskLogger
from phases.step import nearest

if TYPE_CHECKING:
    from phases.step import Observer, Step

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Clock:
    """What a run needs from the outside world: the time, waiting, and threads.

    Tests use `phases.testing.FakeClock` instead. Runs that share a clock wake each other, which
    does no harm.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def now(self) -> float:
        """Monotonic seconds: only differences are meaningful."""
        return time.monotonic()

    def wait(self, done: Callable[[], bool], until: float = math.inf) -> None:
        """Wait until the condition is true or now() is `until`.

        The condition is evaluated first, and after each wake(), in any thread; it must be quick and
        take no lock.
        """
        with self._changed:
            while not done():
                left = until - self.now()
                if left <= 0:
                    return
                self._changed.wait(min(left, threading.TIMEOUT_MAX))  # `left` may be infinite

    def wake(self) -> None:
        """Have every wait evaluate its condition again: something has changed."""
        with self._changed:
            self._changed.notify_all()

    def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
        """Run the target in a new thread. Raises RuntimeError if the system cannot start one."""
        thread = threading.Thread(target=target, name=name)
        thread.start()
        return thread


class Stop(NamedTuple):
    """When a scope stops, and why. It is replaced as a whole, so that threads see all of it, or
    nothing.
    """

    moment: float
    reason: str
    signal: int | None = None
    """The signal that is the reason, if it is one."""


class Scope:
    """A part of a run that stops as a whole."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.stop = Stop(math.inf, "")

    def cancel(self, reason: str, number: int | None = None) -> None:
        """Stop the scope now; if the reason is a signal, `number` is its number. A scope that has
        stopped keeps its first reason; of two threads that cancel at one moment, either one's.
        """
        now = self.clock.now()
        if now < self.stop.moment:
            self.stop = Stop(now, reason, number)
        self.clock.wake()


class Returns(Protocol[T_co]):
    """A task, as `find` looks at it: its name, and what it returns."""

    @property
    def name(self) -> str:
        """See Task."""

    def do(self, ctx: Context, /) -> T_co:
        """See Task."""


class Context:
    """A task's view of the run it is part of.

    Create one to cancel a run from another thread, or to use your own clock, logger or observers.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        logger: logging.Logger | None = None,
        observers: Iterable[Observer] = (),
    ) -> None:
        """Prepare a run. Each start and each end of a step is logged and, on a terminal, shown in
        the live tree; then the observers are called.
        """
        self.clock = clock or Clock()
        # Not made on import: a program's `dictConfig` disables every logger that exists by then.
        self.logger = logger or logging.getLogger("phases")
        if not self.logger.handlers:  # Python would print warnings, beside a program's report
            self.logger.addHandler(logging.NullHandler())
        self.observers: tuple[Observer, ...] = (LogObserver(self.logger), LiveTree(), *observers)
        self.run_id = ""
        """Empty outside of a run: several runs can share a context."""
        self.run_scope = Scope(self.clock)
        self.scopes = (self.run_scope,)
        """The scopes around the task, the innermost first."""
        self.step: Step | None = None
        self.root: Step | None = None
        self.skip: frozenset[str] = frozenset()
        """The names of the tasks that the run leaves out."""
        self.ran: frozenset[tuple[str, ...]] | None = None
        """In the undo after a failed run: the paths of the tasks that ran; otherwise None."""
        self._notifying = threading.RLock()

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the root of the run down to this task."""
        if self.step is None:
            return ()
        return self.step.path

    @property
    def log(self) -> TaskLogger:
        """The logger of this task: its lines carry the run, the task and your `extra` as one
        mapping.
        """
        return TaskLogger(self.logger, {"run": self.run_id, "task": "/".join(self.path)})

    @property
    def _scope(self) -> Scope:
        """The scope around the task that stops first. If several stop at the same moment, the
        innermost: `min` returns the first of them.
        """
        return min(self.scopes, key=lambda scope: scope.stop.moment)

    @property
    def cancelled(self) -> bool:
        """Whether the task is cancelled, or its time is up."""
        return self._scope.stop.moment <= self.clock.now()

    @overload
    def find(self, task: str) -> Step: ...

    @overload
    def find(self, task: Returns[T]) -> Step[T]: ...

    def find(self, task: str | Returns[T]) -> Step | Step[T]:
        """The step of a task that has run in this run, such as `ctx.find(download).result`; by the
        task, its name or `group/name`. It is the nearest one: beside this task, then around it.

        In a dry run, the result is the task's plan. Tasks that an undo runs are not found, not even
        in that undo. Raises UnknownTask if no such task has run so far, or if two are as near.
        """
        steps = [] if self.root is None else self.root.walk()
        # A step has `seconds` once it has begun and ended.
        ran = [step for step in steps if step.seconds is not None and step.action != "undo"]
        name = task if isinstance(task, str) else task.name
        return nearest(name, ran, self.path)

    def remaining(self) -> float | None:
        """The seconds until the nearest deadline, never negative; 0 after a cancellation; None
        without a deadline.
        """
        moment = self._scope.stop.moment
        if moment == math.inf:
            return None
        return max(0.0, moment - self.clock.now())

    def check(self) -> None:
        """Raise Cancelled if the task is cancelled. Call it wherever stopping does no harm."""
        scope = self._scope
        stop = scope.stop
        if stop.moment <= self.clock.now():
            raise Cancelled(stop.reason, origin=scope)  # so `within` knows its own limit

    def sleep(self, seconds: float) -> None:
        """Wait for these seconds; raise Cancelled as soon as the task is cancelled."""
        end = min(self.clock.now() + seconds, self._scope.stop.moment)
        self.clock.wait(lambda: self.cancelled, end)
        self.check()

    def cancel(self, reason: str | int = "cancelled") -> None:
        """Cancel the whole run. Can be called from any thread, any number of times; the first
        reason is kept.

        If the reason is a signal, as in `ctx.cancel(signal.SIGTERM)`, the exit code of the report
        is 128 + its number, so 143. A handler can pass on its signal, which is a number.
        """
        if isinstance(reason, int):
            self.run_scope.cancel(signal.Signals(reason).name, int(reason))
        else:
            self.run_scope.cancel(reason)

    @contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """While the block runs, call back once on cancellation: `with
        ctx.on_cancel(process.terminate):`.

        The callback is called in a thread of its own, once the task is cancelled or the block
        raises Cancelled; the end of the block waits for the callback. An Exception of the callback
        is only logged. If the task was cancelled, the end of the block raises Cancelled, also in
        place of an Exception: the callback, such as `terminate`, may be its cause.
        """
        block_has_ended = False
        block_raised_cancelled = False
        watcher_has_ended = False
        was_cancelled = False  # as the watcher saw it: what comes after the block does not count

        def watch() -> None:
            """Wait for the end of the block or a cancellation. Call back if the task is cancelled
            then, or the block raised Cancelled.
            """
            nonlocal watcher_has_ended, was_cancelled
            deadline = self._scope.stop.moment  # infinite without one
            self.clock.wait(lambda: block_has_ended or self.cancelled, deadline)
            was_cancelled = self.cancelled
            if was_cancelled or block_raised_cancelled:
                self._call(callback)
            watcher_has_ended = True
            self.clock.wake()

        watcher = self.clock.start(watch, name="phases-on-cancel")
        try:
            try:
                yield
            except Cancelled:
                block_raised_cancelled = True
                raise
            finally:
                block_has_ended = True
                self.clock.wake()
                self.clock.wait(lambda: watcher_has_ended)
                watcher.join()
        except Exception:
            if was_cancelled:
                self.check()
            raise
        if was_cancelled:
            self.check()

    @contextmanager
    def within(self, seconds: float) -> Iterator[Context]:
        """A context for a part of a task that may take this many seconds; after that,
        DeadlineExceeded is raised.

        `deadline()` does the same for a whole task. Inside the block, use the context that it
        yields: the one around it does not know the limit.
        """
        name = "/".join(self.path) or "the run"
        scope = Scope(self.clock)
        scope.stop = Stop(self.clock.now() + seconds, f"the {seconds:g} s of {name} are over")
        limited = derived(self, scopes=(scope, *self.scopes))
        try:
            yield limited
        except Cancelled as cancelled:
            if cancelled.origin is not scope:
                raise  # something else was cancelled: the run, or a scope around this one
            raise DeadlineExceeded(f"not finished within {seconds:g} s") from cancelled

    @contextmanager
    def shielded(self) -> Iterator[Context]:
        """A context that nothing outside the block can cancel: for work that must not be left half
        done.

        Inside the block, use the context that it yields; its `within` limits the work. A
        cancellation takes effect in the next check(), sleep() or step after the block.
        """
        yield derived(self, scopes=(Scope(self.clock),))

    def _call(self, callback: Callable[..., object], *args: object) -> None:
        """Call the function. An Exception that it raises is only logged, and an Exception of the
        logging is dropped.
        """
        try:
            callback(*args)
        except Exception:
            with suppress(Exception):
                self.logger.exception("%r raised; the run continues", callback)


def derived(ctx: Context, **changes: Any) -> Context:
    """A copy of the context with these changes: for a task inside its task, or a part of it."""
    changed = copy(ctx)
    vars(changed).update(changes)
    return changed


def in_a_run(ctx: Context) -> Context:
    """The context itself if it is that of a running task; else a copy with the id of a new run."""
    if ctx.step is not None:
        return ctx
    return derived(ctx, run_id=os.urandom(4).hex())


def notify(ctx: Context, step: Step) -> None:
    """Call every observer, one call at a time; what an observer raises is logged."""
    with ctx._notifying:
        for observer in ctx.observers:
            ctx._call(observer, step)
