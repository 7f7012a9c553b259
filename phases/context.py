"""What a task is, and the context that it receives when it runs: cancellation, waiting, logging,
time. Nothing here runs tasks.

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
        """Wait until `done()` is true, or until now() reaches `until`.

        `done` is called at once, and again after each wake(), in any thread. The clock holds its
        lock meanwhile, so `done` must be quick and take no lock.
        """
        with self._changed:
            while not done():
                left = until - self.now()
                if left <= 0:
                    return
                self._changed.wait(min(left, threading.TIMEOUT_MAX))  # `left` may be infinite

    def wake(self) -> None:
        """Tell all waiting threads that something has changed: each calls its `done` again."""
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
    signal: int | None = None  # the signal that is the reason, if it is one


class Scope:
    """A part of a run that stops as a whole: the run itself, a group of parallel tasks, or a block
    with a deadline.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.stop = Stop(math.inf, "")

    def cancel(self, reason: str, number: int | None = None) -> None:
        """Stop this part of the run now. If the reason is a signal, `number` is its number.

        A part that has already stopped keeps its first reason. If two threads cancel it at the same
        time, either reason may be kept.
        """
        now = self.clock.now()
        if now < self.stop.moment:  # not stopped yet: the moment is in the future, or infinite
            self.stop = Stop(now, reason, number)
        self.clock.wake()  # so that no task in this scope sleeps on


class Task(Protocol[T_co]):
    """An object with a `name` and a method `do`. Use a class, an attrs class or a decorated
    function.

    The name is a short word or two, without "/", because paths are made of names. It does not
    change while the task runs. A task may also have these methods and attributes:

    - `plan(ctx)` returns what do() would do now, as a value with a readable str(); it changes
      nothing. If do() would fail, the value has an attribute `would_fail`, a sentence that says
      why. The step of the dry run has then failed.
    - `undo(ctx)` undoes what do() did. It must be idempotent, and safe if do() was never called or
      failed half way.
    - `subtasks` is the tuple of the tasks that this one runs by name.

    A result may have a method `log_fields()`, which returns names and values for the log line of
    its task. A result or an error may have a method `to_mapping()`, which returns all of its data
    as plain values for the report's JSON.
    """

    @property
    def name(self) -> str:
        """The name that operators see."""

    def do(self, ctx: Context, /) -> T_co:
        """Do the work and return the result.

        Synchronous. Raise to fail. Call ctx.check() or ctx.sleep() where stopping does no harm.
        Return a Skip if there was nothing to do.
        """


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
        if not self.logger.handlers:  # else Python would print warnings, beside a program's report
            self.logger.addHandler(logging.NullHandler())
        self.observers: tuple[Observer, ...] = (LogObserver(self.logger), LiveTree(), *observers)
        self.run_id = ""
        """Empty outside of a run: each run has its own copy of the context, with its id."""
        self.run_scope = Scope(self.clock)
        # The scopes around the task, the innermost first.
        self.scopes = (self.run_scope,)
        self.step: Step | None = None
        # The step of the whole run; None outside of a run, as `step` is.
        self.root: Step | None = None
        self.skip: frozenset[str] = frozenset()
        """The names of the tasks that the run leaves out."""
        # In the undo after a failed run: the paths of the tasks that ran; otherwise None.
        self.ran: frozenset[tuple[str, ...]] | None = None
        # The event loops whose thread waits for the end of the run: they run no coroutine.
        self.blocked_loops: set[object] = set()
        # An RLock, because an observer may make a step of its own, such as an `inner_step`.
        self._notify_lock = threading.RLock()

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the root of the run down to this task."""
        if self.step is None:
            return ()
        return self.step.path

    @property
    def log(self) -> TaskLogger:
        """The logger for the task's own lines. Each log record has the id of the run, the path of
        the task and your `extra` in one mapping.
        """
        return TaskLogger(self.logger, {"run": self.run_id, "task": "/".join(self.path)})

    @property
    def _scope_that_stops_first(self) -> Scope:
        """The scope that decides when this task is cancelled: of all scopes around it, the one that
        stops first. If several stop at the same moment, `min` returns the innermost.
        """
        return min(self.scopes, key=lambda scope: scope.stop.moment)

    @property
    def cancelled(self) -> bool:
        """Whether the task is cancelled, or its time is up."""
        return self._scope_that_stops_first.stop.moment <= self.clock.now()

    @overload
    def find(self, task: str) -> Step: ...

    @overload
    def find(self, task: Task[T]) -> Step[T]: ...

    def find(self, task: str | Task[T]) -> Step | Step[T]:
        """The step of a task that has ended in this run: `ctx.find(download).result` is its result.
        `task` is the task itself, its name or `group/name`. If several tasks have the name, this is
        the nearest: one beside this task comes before one further out.

        In a dry run, the result is the task's plan; after a Skip, it is None. The tasks of an undo
        are never found, not even during that undo. Raises UnknownTask if no such task has ended, or
        if two are equally near.
        """
        steps = [] if self.root is None else self.root.walk()
        ended = [step for step in steps if step.status != "running" and step.action != "undo"]
        name = task if isinstance(task, str) else task.name
        return nearest(name, ended, self.path)

    def remaining(self) -> float | None:
        """The seconds until the nearest deadline, never negative; 0 after a cancellation; None
        without a deadline.
        """
        moment = self._scope_that_stops_first.stop.moment
        if moment == math.inf:
            return None
        return max(0.0, moment - self.clock.now())

    def check(self) -> None:
        """Raise Cancelled if the task is cancelled or its time is up. A task calls this wherever it
        can stop without harm.
        """
        scope = self._scope_that_stops_first
        stop = scope.stop
        if stop.moment <= self.clock.now():
            # From the origin, a `within` block knows whether its own time is up.
            raise Cancelled(stop.reason, origin=scope)

    def sleep(self, seconds: float) -> None:
        """Wait for these seconds; raise Cancelled as soon as the task is cancelled."""
        end = min(self.clock.now() + seconds, self._scope_that_stops_first.stop.moment)
        self.clock.wait(lambda: self.cancelled, end)
        self.check()

    def cancel(self, reason: str | int = "cancelled") -> None:
        """Cancel the whole run, from any thread. Further calls change nothing: the first reason is
        kept.

        The reason can be a signal, such as the number that a signal handler gets. A run that is
        cancelled by `ctx.cancel(signal.SIGTERM)` has the exit code 128 + 15 = 143.
        """
        if isinstance(reason, int):
            self.run_scope.cancel(signal.Signals(reason).name, int(reason))
        else:
            self.run_scope.cancel(reason)

    @contextmanager
    def on_cancel(self, callback: Callable[[], object]) -> Iterator[None]:
        """Interrupt what the `with` block waits for when the task is cancelled:
        `with ctx.on_cancel(process.terminate): process.wait()`.

        A separate thread calls `callback` once, when the task is cancelled while the block runs, or
        when the block raises Cancelled. The block ends only after the callback has returned. An
        Exception of the callback is only logged.

        If the task was cancelled, the block ends with Cancelled. Cancelled also replaces an
        Exception of the block, because the callback may have caused that Exception.
        """
        block_has_ended = False
        block_raised_cancelled = False  # also if only the context of a `within` is cancelled
        watcher_has_ended = False
        was_cancelled = False  # set by the watcher: a cancellation after the block does not count

        def watch() -> None:
            """Wait for the end of the block or a cancellation. Then call the callback if the task
            is cancelled or the block raised Cancelled.
            """
            nonlocal watcher_has_ended, was_cancelled
            # The wait has to end by itself at a deadline, because nobody calls wake() then.
            deadline = self._scope_that_stops_first.stop.moment
            self.clock.wait(lambda: block_has_ended or self.cancelled, deadline)
            was_cancelled = self.cancelled
            try:
                if was_cancelled or block_raised_cancelled:
                    self._call(callback)
            finally:  # also if the callback raises Cancelled
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
                # `join` alone would not tell a FakeClock that this thread waits.
                self.clock.wait(lambda: watcher_has_ended)
                watcher.join()
        except Exception:
            if was_cancelled:
                self.check()  # raises Cancelled in place of this Exception
            raise
        if was_cancelled:
            self.check()

    @contextmanager
    def within(self, seconds: float) -> Iterator[Context]:
        """A context for a part of a task that may take this many seconds; after that,
        DeadlineExceeded is raised.

        `deadline()` does the same for a whole task. Inside the block, use the context that this
        yields: the outer context does not know the limit.
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

        Inside the block, use the context that this yields; to limit the work, call its `within`. A
        cancellation takes effect in the next check(), sleep() or step after the block.
        """
        # No scope of this context is passed on, so only the new scope can stop the block.
        yield derived(self, scopes=(Scope(self.clock),))

    def _call(self, callback: Callable[..., object], *args: object) -> None:
        """Call an observer or the callback of `on_cancel`, which must not break the run. Its
        Exception is only logged, and an Exception of the logging is dropped.
        """
        try:
            callback(*args)
        except Exception:
            with suppress(Exception):
                self.logger.exception("%r raised; the run continues", callback)


def derived(ctx: Context, **changes: Any) -> Context:
    """A copy of the context with some attributes changed, such as the step or the scopes: for a
    task inside this context's task, or for a part of that task.
    """
    changed = copy(ctx)
    vars(changed).update(changes)
    return changed


def with_run_id(ctx: Context) -> Context:
    """Return a context with the id of a run, which each step needs. If a task is running in this
    context, return the context itself, because the step is part of its run. Otherwise, a run begins
    here: return a copy with a new id.
    """
    if ctx.step is not None:
        return ctx
    # A new run has a new set: a copy of the context would share that of other runs.
    return derived(ctx, run_id=os.urandom(4).hex(), blocked_loops=set())


def notify(ctx: Context, step: Step) -> None:
    """Tell every observer that this step has started or ended, one call at a time. An Exception of
    an observer is only logged.
    """
    with ctx._notify_lock:
        for observer in ctx.observers:
            ctx._call(observer, step)
