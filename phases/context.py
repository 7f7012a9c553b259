"""The context that a running task receives: cancellation, waiting, logging, time. Nothing here runs
tasks.

A `Scope` is a part of a run that stops as a whole. It has one moment at which it stops: its
deadline (or never) at first, and the present once the scope is cancelled. A task is inside several
scopes, and is cancelled if the earliest of their moments has passed. A shielded part is only inside
its own scope.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from phases.arguments import (
    fault_of_function,
    fault_of_method,
    must_be,
    must_be_number,
    reject_coroutine,
)
from phases.errors import Cancelled, DeadlineExceeded, InvalidTask, UnknownTask
from phases.observers import LOGGER, LiveTree, LogObserver, TaskLogger, logger_of
from phases.step import last_named

if TYPE_CHECKING:
    import logging
    from types import TracebackType

    from phases.step import FailedAttempt, Observer, Step

T = TypeVar("T")


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
                self._changed.wait(min(left, threading.TIMEOUT_MAX))

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
        """Stop now, perhaps because of the signal with this number. Nothing if the scope has
        stopped already. If two threads cancel at the same moment, either reason may be kept.
        """
        now = self.clock.now()
        if now < self.stop.moment:
            self.stop = Stop(now, reason, number)
        self.clock.wake()


_SIGNALS: dict[int, str] = {
    number: getattr(number, "name", f"signal {number}")  # most of the real-time signals have none
    for number in signal.valid_signals()
}


class Context:
    """A task's view of the run it is part of.

    Create one to cancel a run from another thread, or to use your own clock, logger or observers.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        logger: logging.Logger | str = LOGGER,
        observers: Iterable[Observer] | None = None,
    ) -> None:
        """Prepare a run. `logger` is a logger or its name.

        Without `observers`, each start and end becomes a line in the logger. With rich, and a
        terminal on standard error, there is also a live tree.
        """
        self.clock = clock or Clock()
        must_be(Clock, self.clock, "clock", "a phases.Clock, such as FakeClock()")
        self.logger = logger_of(logger)
        if observers is None:
            observers = (LogObserver(self.logger), LiveTree(self.logger))
        must_be(Iterable, observers, "observers", "a list of observers")
        self.observers = tuple(observers)
        for observer in self.observers:
            fault = fault_of_function("observer", observer, "step") or fault_of_method(
                observer, "attempt_failed", "failed"
            )
            if fault:
                raise TypeError(f"observers: {fault}")
        self.run_id = ""
        """Empty outside of a run: several runs can share a context."""
        self.run_scope = Scope(self.clock)
        self.scopes = (self.run_scope,)
        """Those around the task, the innermost first."""
        self.task: Any = None
        """The running task: `step` is its step, or one of its parts."""
        self.step: Step | None = None
        self.root: Step | None = None
        self.why_left_out: Callable[[tuple[str, ...]], str] = lambda _path: ""
        """Why the run leaves out the task at this path; empty if the task runs."""
        self.ran: frozenset[tuple[str, ...]] | None = None
        """The paths of all that an undo of a run may undo; None without such a limit."""
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
        """The scope around the task that stops first; if several stop at once, the innermost, which
        `min` meets first.
        """
        return min(self.scopes, key=lambda scope: scope.stop.moment)

    @property
    def cancelled(self) -> bool:
        """Whether the task is cancelled, or its time is up."""
        return self._scope.stop.moment <= self.clock.now()

    def find(self, name: str) -> Step:
        """The step of a task that has run in this run, such as `ctx.find("download").result`, by
        name or by `group/name`; the last one if there are several.

        In a dry run, that is the task's plan. A task that an undo runs is not found, not even by
        the next one there. Raises UnknownTask if no such task has run so far, with the reason of
        one that was passed over.
        """
        steps = [] if self.root is None else list(self.root.walk())
        ran = [step for step in steps if step.seconds is not None and step.action != "undo"]
        passed_over = [step for step in steps if step.start is None and step.reason]
        step = last_named(name, [*passed_over, *ran], "those of the run so far")
        if step.start is None:
            raise UnknownTask(f"the step {name!r} has not run: {step.reason}")
        return step

    def remaining(self) -> float | None:
        """The seconds until the nearest deadline, never negative; 0 after a cancellation; None
        without a deadline.
        """
        moment = self._scope.stop.moment
        if moment == math.inf:
            return None
        return max(0.0, moment - self.clock.now())

    def check(self) -> None:
        """Raise Cancelled if the task is cancelled. Call it wherever stopping does no harm.

        InvalidTask, as from sleep() and within(), if this is the context of a task that has ended,
        or in a task that of the whole run: what stops the task would not stop it here.
        """
        self._require_current()
        self._check()

    def _check(self) -> None:
        scope = self._scope
        stop = scope.stop
        if stop.moment <= self.clock.now():
            raise Cancelled(stop.reason, origin=scope)

    def _require_current(self) -> None:
        fault = fault_of_use(self)
        if fault:
            raise InvalidTask(f"{fault}; use the context with which the task is called")

    def sleep(self, seconds: float) -> None:
        """Wait for these seconds; raise Cancelled as soon as the task is cancelled."""
        must_be((int, float), seconds, "sleep: seconds", "a number")
        if math.isnan(seconds):
            raise ValueError("sleep: seconds is nan; it must be a number")
        self._require_current()
        end = min(self.clock.now() + seconds, self._scope.stop.moment)
        self.clock.wait(lambda: self.cancelled, end)
        self.check()

    def cancel(self, reason: str | int | BaseException = "cancelled") -> None:
        """Cancel the whole run. Can be called from any thread, any number of times; the first
        reason, a text or an error, is kept.

        If the reason is a signal, as in `ctx.cancel(signal.SIGTERM)`, or its number, the exit code
        of the report is that of a program which it has stopped: 143.
        """
        must_be((str, int, BaseException), reason, "cancel: reason", "a text, an error or a signal")
        if isinstance(reason, int) and reason in _SIGNALS and not isinstance(reason, bool):
            self.run_scope.cancel(_SIGNALS[reason], reason)
        elif isinstance(reason, int) or reason in _SIGNALS.values():
            raise ValueError(f"cancel: reason is {reason!r}; a signal is written as signal.SIGTERM")
        else:
            self.run_scope.cancel(str(reason))

    def on_cancel(self, callback: Callable[[], object]) -> AbstractContextManager[None]:
        """While the block runs, call back once on cancellation: `with
        ctx.on_cancel(process.terminate):`.

        The callback runs in a thread of its own, for which the end of the block waits, so it is
        never called after that. What it raises is logged and changes nothing. The end of the block
        raises Cancelled if the task is cancelled, because this may be the only reason why the block
        has ended.
        """
        must_be(Callable, callback, "on_cancel: callback", "a function")
        return WithBlock("ctx.on_cancel", self._calling_back(callback))

    @contextmanager
    def _calling_back(self, callback: Callable[[], object]) -> Iterator[None]:
        has_ended = threading.Event()

        def watch() -> None:
            self.clock.wait(lambda: has_ended.is_set() or self.cancelled, self._scope.stop.moment)
            if not has_ended.is_set():
                self._call(callback)

        watcher = self.clock.start(watch, name="phases-on-cancel")
        try:
            yield
        finally:
            has_ended.set()
            self.clock.wake()
            watcher.join()
        self.check()

    def within(self, seconds: float) -> AbstractContextManager[Context]:
        """A context for a part of a task that may take this many seconds; after that,
        DeadlineExceeded is raised.

        `deadline()` does the same for a whole task. Inside the block, use the context that it
        yields: the one around it does not know the limit.
        """
        must_be_number(seconds, "a time limit")
        self._require_current()
        return WithBlock("ctx.within", self._limited(seconds))

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[Context]:
        name = "/".join(self.path) or "the run"
        scope = Scope(self.clock)
        scope.stop = Stop(self.clock.now() + seconds, f"the {seconds:g} s of {name} are over")
        limited = derived(self, scopes=(scope, *self.scopes))
        try:
            with cancelled_with(limited):
                yield limited
        except Cancelled as cancelled:
            if cancelled.origin is not scope:
                raise
            raise DeadlineExceeded(f"not finished within {seconds:g} s") from cancelled

    def shielded(self) -> AbstractContextManager[Context]:
        """A context that nothing outside the block can cancel: for work that must not be left half
        done.

        Inside the block, use the context that it yields; its `within` limits the work. A
        cancellation takes effect in the next check(), sleep() or step after the block.
        """
        shielded = derived(self, scopes=(Scope(self.clock),))
        return WithBlock("ctx.shielded", nullcontext(shielded))

    def _call(self, callback: Callable[..., object], *args: object) -> None:
        """Call the function, and only log the Exception that it raises; one that the logging raises
        is dropped.
        """
        try:
            reject_coroutine(callback(*args), getattr(callback, "__name__", repr(callback)))
        except Exception:
            with suppress(Exception):
                self.logger.exception("%r raised; the run continues", callback)


RUNNING: ContextVar[Context | None] = ContextVar("phases: the running task", default=None)
"""The context of the task in which this code runs; None outside of a run. Other threads do not have
it.
"""


def fault_of_use(ctx: Context) -> str:
    """What is wrong if the context is used here; empty if nothing is. Its task may have ended, or
    it may be the context of the whole run, and be used inside a task.
    """
    around = RUNNING.get()
    if ctx.step is not None and ctx.step.seconds is not None:
        return f"ctx is that of the task {'/'.join(ctx.path)}, which has ended"
    if around is None or ctx.step is not None or ctx.run_scope is not around.run_scope:
        return ""
    return f"ctx is that of the whole run, and not that of the task {'/'.join(around.path)}"


def derived(ctx: Context, **changes: Any) -> Context:
    """The same context with some attributes changed: for a task inside it, or a part of it."""
    changed = copy(ctx)
    vars(changed).update(changes)
    return changed


def in_a_run(ctx: Context) -> Context:
    """The context of a new run; of a running task, the context itself."""
    if ctx.step is not None:
        return ctx
    return derived(ctx, run_id=os.urandom(4).hex())


def notify(ctx: Context, step: Step) -> None:
    """Call every observer, one call at a time; what an observer raises is logged."""
    with ctx._notifying:
        for observer in ctx.observers:
            ctx._call(observer, step)


def notify_of_attempt(ctx: Context, failed: FailedAttempt) -> None:
    """Tell each observer that wants to know it."""
    with ctx._notifying:
        for observer in ctx.observers:
            method = getattr(observer, "attempt_failed", None)
            if method is not None:
                ctx._call(method, failed)


@contextmanager
def cancelled_with(ctx: Context) -> Iterator[None]:
    """In the block, the CancelledError of a future counts as Cancelled if the task is cancelled:
    the future was cancelled with it.
    """
    kinds: tuple[type[BaseException], ...] = (CancelledError,)
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:  # else nobody can raise its error
        kinds = (CancelledError, asyncio.CancelledError)
    try:
        yield
    except kinds:
        ctx._check()
        raise


class WithBlock(AbstractContextManager[T]):
    """The `with` block that a function returns. Without `with`, the function has done nothing, so
    there is a warning.
    """

    def __init__(self, function: str, block: AbstractContextManager[T]) -> None:
        self._function = function
        self._block = block
        self._is_entered = False

    def __enter__(self) -> T:
        if self._is_entered:
            name = self._function
            raise RuntimeError(f"{name}: this block has run; write `with {name}(…):` again")
        self._is_entered = True
        return self._block.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._block.__exit__(kind, error, traceback)

    def __del__(self) -> None:
        if not self._is_entered:
            name = self._function
            words = f"{name} does nothing without a block: write `with {name}(…):`"
            warnings.warn(words, RuntimeWarning, stacklevel=2)
