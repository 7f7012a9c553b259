"""Tasks made of tasks: in order or all at once, tried again, with a time limit, or under a
condition.
"""

from __future__ import annotations

import contextvars
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from phases.arguments import (
    fault_of_function,
    misspelt,
    must_be,
    must_be_count,
    must_be_number,
    reject_coroutine,
)
from phases.context import Context, Scope, derived, notify_of_attempt
from phases.errors import Cancelled, InvalidTask
from phases.execution import new_step, raise_together, record_unstarted, run_step
from phases.step import FailedAttempt, TaskFailed
from phases.tasks import AnyTask, FunctionTask, Skip, Task, valid_task, wrapped
from phases.values import Results, describe_error

if TYPE_CHECKING:
    import threading

T = TypeVar("T")

ErrorTypes: TypeAlias = type[Exception] | tuple[type[Exception], ...]

_LONGEST_PAUSE = 30.0  # seconds between two attempts
_TO_SPARE = 1.0  # seconds that the last attempt before a deadline has more than the one before it


def serial(*tasks: AnyTask, name: str = "serial") -> FunctionTask[tuple[object, ...]]:
    """The tasks in order, each once the one before it has succeeded. The result is the tuple of
    their results.
    """

    def do(ctx: Context) -> tuple[object, ...]:
        results: list[object] = []
        for number, task in enumerate(tasks, start=1):
            try:
                step = new_step(task.name, ctx)
                result = run_step(task, step, ctx)
            except BaseException:
                for later in tasks[number:]:
                    unreached = new_step(later.name, ctx)
                    record_unstarted(unreached, ctx, f"not reached after {task.name}")
                raise
            results.append(result)
        return Results(results)

    return FunctionTask(name, do, subtasks=tasks)


def parallel(
    *tasks: AnyTask, name: str = "parallel", at_once: int | None = None
) -> FunctionTask[tuple[object, ...]]:
    """The tasks all at once, in threads. The result is the tuple of their results, in the order
    they are listed.

    With `at_once`, at most that many run at the same time; the others follow in the order they are
    listed. The first failure cancels the others. The group waits for every task, however long it
    takes, and then raises one TaskFailed with all failures. Each task runs in a copy of the
    caller's contextvars.
    """
    if at_once is not None:
        must_be_count(at_once, "parallel: at_once")

    def do(ctx: Context) -> tuple[object, ...]:
        return _ParallelRun(tasks, ctx, at_once or len(tasks)).run()

    return FunctionTask(name, do, subtasks=tasks)


class _ParallelRun:
    """One run of a parallel group.

    Threads are started until every task has been taken. Each thread takes the next task whenever it
    has ended one, so slow tasks all run at once, and a thousand trivial ones need only a few
    threads. The caller's thread runs no task and only waits, because signals are delivered to it.
    """

    def __init__(self, tasks: tuple[AnyTask, ...], ctx: Context, at_once: int) -> None:
        self._scope = Scope(ctx.clock)
        self._ctx = derived(ctx, scopes=(self._scope, *ctx.scopes))
        self._at_once = at_once
        self._variables = contextvars.copy_context()
        self._count = len(tasks)
        steps = [new_step(task.name, self._ctx) for task in tasks]
        self._untaken = deque(zip(range(self._count), tasks, steps, strict=True))
        self._results: dict[int, object] = {}
        """Of the tasks that have ended; None for one that raised."""
        self._errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def run(self) -> tuple[object, ...]:
        """Run all tasks, and return or raise when the last one has ended."""
        while not self._all_have_ended():
            try:
                self._start_threads()
                self._ctx.clock.wait(self._all_have_ended)
            except BaseException as error:  # noqa: BLE001  raised at the end
                # No thread could be started, or Ctrl-C came (under `execute`).
                # No task may outlive the group: those that run are cancelled, and so is each of the
                # others as soon as it is taken.
                self._stop(error)
                self._take_tasks()
        for thread in self._threads:
            thread.join()
        raise_together(self._errors)
        return Results(self._results[index] for index in range(self._count))

    def _all_have_ended(self) -> bool:
        return len(self._results) == self._count

    def _start_threads(self) -> None:
        name = f"phases:{'/'.join(self._ctx.path)}"
        while self._untaken and len(self._threads) < self._at_once:
            self._threads.append(self._ctx.clock.start(self._take_tasks, name=name))

    def _take_tasks(self) -> None:
        while True:
            try:
                index, task, step = self._untaken.popleft()
            except IndexError:  # perhaps another thread has taken the last one just now
                return
            result: object = None
            try:
                result = self._variables.copy().run(run_step, task, step, self._ctx)
            except BaseException as error:  # noqa: BLE001  raised in the caller's thread
                self._stop(error)
            self._results[index] = result
            self._ctx.clock.wake()

    def _stop(self, error: BaseException) -> None:
        """Cancel the tasks that run, because of this error of one of them."""
        self._errors.append(error)
        if isinstance(error, TaskFailed):
            reason = f"{error.failures[0].name} failed"
        elif isinstance(error, Cancelled):
            reason = error.reason
        else:
            reason = describe_error(error)
        self._scope.cancel(reason)


def retry(
    task: Task[T],
    *,
    attempts: int | None = 3,
    delay: float = 1.0,
    jitter: float = 0.5,
    on: ErrorTypes = Exception,
) -> FunctionTask[T]:
    """The task, tried up to `attempts` times; with None, until the deadline.

    The first wait between attempts is `delay` seconds. Each further wait is twice as long, but at
    most 30 s. A random part of up to `jitter` is taken off each wait, so that a thousand nodes do
    not all try again at the same moment.

    If a wait would pass the deadline, it is shortened: the last attempt has as much time as the one
    before it took, and a second more. Without time for another attempt, or after the run was
    cancelled, the failure is raised at once.

    Only errors of the types `on` are retried, unless they have an attribute `can_retry` that is
    false. If a group failed, all of its failures must qualify. Cancelled is never retried.
    """
    if attempts is not None:
        must_be_count(attempts, "retry: attempts")
    must_be_number(delay, "retry: delay", most=_LONGEST_PAUSE)
    must_be_number(jitter, "retry: jitter", most=1)
    _require_error_types(on)

    def do(ctx: Context) -> T:
        pause = delay
        attempt = 1
        while True:
            began = ctx.clock.now()
            try:
                return task.do(ctx)
            except Exception as error:
                if attempt == attempts or not _worth_retrying(error, on):
                    raise
                jittered = pause * (1 - jitter * random.random())  # noqa: S311  it protects nothing
                wait = _wait_in_time(jittered, ctx, took=ctx.clock.now() - began)
                if wait is None:
                    raise
                if ctx.step is not None:
                    failed = FailedAttempt(ctx.step, attempt, attempts, error, wait)
                    notify_of_attempt(ctx, failed)
            ctx.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)
            attempt += 1
            if ctx.step is not None:
                ctx.step.attempts += 1

    return wrapped(task, do)


def _require_error_types(on: object) -> None:
    for kind in on if isinstance(on, tuple) and on else (on,):
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            raise TypeError(f"retry: on is {on!r:.80}; it must be a type of errors, or a tuple")


def _wait_in_time(wait: float, ctx: Context, *, took: float) -> float | None:
    """The wait after an attempt that took so long. If it would pass the deadline, it is shortened,
    so that there is time for a last attempt; None if there is none, as after a cancellation.
    """
    left = ctx.remaining()
    if left is None or wait < left:
        return wait
    wait = left - took - _TO_SPARE
    if wait < 0.001:  # a difference of floats need not be 0
        return None
    return wait


def _worth_retrying(error: BaseException | None, on: ErrorTypes) -> bool:
    """Whether another attempt may succeed after this error; after a group's, if it may after each
    failure.
    """
    if isinstance(error, TaskFailed):
        return all(_worth_retrying(step.error, on) for step in error.failures)
    fault = misspelt(error, "can_retry")
    if fault:
        raise InvalidTask(f"{error!r:.80} cannot be judged: {fault}") from error
    can_retry = getattr(error, "can_retry", True)
    must_be(bool, can_retry, f"can_retry of {type(error).__name__}", "True or False")
    return isinstance(error, on) and can_retry


def deadline(task: Task[T], seconds: float) -> FunctionTask[T]:
    """The task, cancelled after this many seconds; it then fails with DeadlineExceeded.

    A task that succeeds late has still succeeded. A thread cannot be stopped from outside, so a
    task that never calls ctx.check() or ctx.sleep() runs to its end.
    """
    must_be_number(seconds, "deadline: seconds")

    def do(ctx: Context) -> T:
        with ctx.within(seconds) as limited:
            return task.do(limited)

    return wrapped(task, do)


def when(
    condition: bool | Callable[[Context], bool],  # noqa: FBT001  a sentence
    task: Task[T],
    *,
    reason: str = "its condition is false",
) -> FunctionTask[T | Skip]:
    """The task if the condition is true when its turn comes; otherwise it is skipped for this
    reason, such as `there is no GPU`.
    """
    must_be(str, reason, "when: reason", "a text")
    is_false = Skip(reason)
    if isinstance(condition, bool):
        if condition:
            return wrapped(task, valid_task(task).do)
        return wrapped(task, lambda _ctx: is_false, plan=lambda _ctx: is_false)

    fault = fault_of_function("condition", condition)
    if fault:
        raise InvalidTask(f"when: {fault}")

    def do(ctx: Context) -> T | Skip:
        is_true = condition(ctx)
        reject_coroutine(is_true, f"{task.name}: its condition")
        must_be(bool, is_true, f"what the condition of {task.name} returned", "True or False")
        if is_true:
            return task.do(ctx)
        return is_false

    return wrapped(task, do, plan_note=f"skipped if {reason}")
