"""Tasks made of tasks: in order or all at once, tried again, with a time limit, or under a
condition.
"""

from __future__ import annotations

import contextvars
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from phases.context import Context, Scope, T, Task, derived
from phases.execution import new_step, raise_together, record_unstarted, require_finished, run_step
from phases.step import TaskFailed
from phases.tasks import AnyTask, FunctionTask, Skip, WrappedTask
from phases.values import describe_error, seconds_in_words

ErrorTypes: TypeAlias = type[Exception] | tuple[type[Exception], ...]

_LONGEST_FULL_WAIT = 30.0  # seconds between two attempts
_TO_SPARE = 1.0  # seconds that the last attempt before a deadline has more than the one before it


def serial(*tasks: AnyTask, name: str = "serial") -> FunctionTask[None]:
    """A task that runs these tasks in order, each after the one before it has succeeded. If one
    does not succeed, the report shows those after it as not reached.
    """

    def do(ctx: Context) -> None:
        for number, task in enumerate(tasks, start=1):
            try:
                run_step(task, new_step(task.name, ctx), ctx)
            except BaseException:
                for later in tasks[number:]:
                    unreached = new_step(later.name, ctx)
                    record_unstarted(unreached, ctx, f"not reached after {task.name}")
                raise

    return FunctionTask(name, do, subtasks=tasks)


def parallel(
    *tasks: AnyTask, name: str = "parallel", at_once: int | None = None
) -> FunctionTask[None]:
    """A task that runs these tasks in threads, all at once. With `at_once`, at most that many run
    at the same time; the others follow in the order they are listed.

    The first failure cancels the others. The group waits for every task, however long it takes, and
    then raises one TaskFailed with all failures. Each task runs in a copy of the caller's
    contextvars.
    """
    count = len(tasks)
    if at_once is not None:
        _require_positive(at_once, "parallel: at_once")
        count = min(at_once, count)

    def do(ctx: Context) -> None:
        """Run the tasks in `count` threads, wait for all, and raise their errors as one."""
        scope = Scope(ctx.clock)
        inside = derived(ctx, scopes=(scope, *ctx.scopes))
        variables = contextvars.copy_context()
        steps = ((task, new_step(task.name, inside)) for task in tasks)
        # Each thread takes tasks from the left, and ends when it takes a None. There is one more
        # None for this thread, which takes the remaining tasks if its wait for the others is
        # interrupted.
        untaken = deque([*steps, *[None] * (count + 1)])
        errors: list[BaseException] = []
        ended_threads: list[threading.Thread] = []

        def stop(error: BaseException) -> None:
            errors.append(error)
            scope.cancel(_why_others_stop(error))

        def take_tasks() -> None:
            """Run tasks in this thread until none is left; an error of one cancels the others."""
            try:
                for task, step in iter(untaken.popleft, None):
                    try:
                        variables.copy().run(run_step, task, step, inside)
                    except BaseException as error:  # noqa: BLE001  raised in the caller's thread
                        stop(error)
            # Also if an error has a faulty __str__, so that `stop` raises: `errors` has it by then.
            finally:
                ended_threads.append(threading.current_thread())
                ctx.clock.wake()

        threads: list[threading.Thread] = []
        try:
            for _ in range(count):
                thread = ctx.clock.start(take_tasks, name=f"phases:{'/'.join(ctx.path)}")
                threads.append(thread)
            # By the clock, because a FakeClock has to know that this thread waits, too.
            ctx.clock.wait(lambda: len(ended_threads) == count)
        except BaseException as error:  # noqa: BLE001  raised at the end
            # A thread could not be started, or the wait was interrupted. No task may outlive the
            # group: `stop` cancels the tasks that run, and also those that are taken from now on.
            # This thread takes the rest, so that each task is reported as cancelled.
            stop(error)
            take_tasks()
        for thread in threads:
            thread.join()
        raise_together(errors)

    return FunctionTask(name, do, subtasks=tasks)


def _require_positive(number: int, name: str) -> None:
    if number < 1:
        raise ValueError(f"{name} is {number}; it must be 1 or more")


def _why_others_stop(error: BaseException) -> str:
    """The reason that the report gives for cancelling the other tasks of a parallel group after one
    raised this error.
    """
    if isinstance(error, TaskFailed):
        return f"{error.failures[0].name} failed"
    return describe_error(error)


def retry(
    task: Task[T],
    *,
    attempts: int | None = 3,
    delay: float = 1.0,
    jitter: float = 0.5,
    on: ErrorTypes = Exception,
) -> WrappedTask[T]:
    """The task, tried up to `attempts` times; with None, until the deadline.

    The first wait between attempts is `delay` seconds, and each further one twice as long as the
    one before; but none is longer than 30 s. Each wait is shortened at random, by at most the
    fraction `jitter`, so that a thousand nodes do not all try again at the same moment.

    Before a deadline, a wait leaves enough time for another attempt: as much as the previous
    attempt took, and a second more. If there is not enough time, or the run was cancelled, the
    failure is raised at once.

    Only errors of the types `on` are retried, unless they have an attribute `can_retry` that is
    false. If a group failed, all of its failures must qualify. Cancelled is never retried.
    """
    if attempts is not None:
        _require_positive(attempts, "retry: attempts")
    isinstance(None, on)  # a wrong `on` raises TypeError now, and not at the first failure

    def do(ctx: Context) -> T:
        # Try until the task succeeds, fails for good, or has no time for another attempt.
        full_wait = min(delay, _LONGEST_FULL_WAIT)
        attempt = 1
        while True:
            began = ctx.clock.now()
            try:
                return task.do(ctx)
            except Exception as error:
                if attempt == attempts or not _worth_retrying(error, on):
                    raise
                wait = full_wait * (1 - jitter * random.random())  # noqa: S311  it is not a secret
                left = ctx.remaining()  # 0 if the run was cancelled: then this failure is raised
                if left is not None:
                    # Leave as much time as this attempt took, and a bit more.
                    longest_wait = left - (ctx.clock.now() - began) - _TO_SPARE
                    if longest_wait < 0.001:  # no time; not 0, because floats are rounded
                        raise
                    wait = min(wait, longest_wait)
                ctx.log.warning(
                    "%s: attempt %d failed: %s; again in %s",
                    "/".join(ctx.path),
                    attempt,
                    describe_error(error),
                    seconds_in_words(wait),
                )
            ctx.sleep(wait)
            full_wait = min(full_wait * 2, _LONGEST_FULL_WAIT)
            attempt += 1
            if ctx.step is not None:  # None if a test calls do() itself
                ctx.step.attempts += 1

    return WrappedTask(task, do)


def _worth_retrying(error: BaseException | None, on: ErrorTypes) -> bool:
    """Whether another attempt may succeed after this error. A group is tried again only if this
    holds for each of its failures.
    """
    if isinstance(error, TaskFailed):
        return all(_worth_retrying(step.error, on) for step in error.failures)
    return isinstance(error, on) and getattr(error, "can_retry", True)


def deadline(task: Task[T], seconds: float) -> WrappedTask[T]:
    """The task, cancelled after this many seconds; it then fails with DeadlineExceeded.

    A task that succeeds late has still succeeded. A thread cannot be stopped from outside, so a
    task that never calls ctx.check() or ctx.sleep() runs to its end.
    """

    def do(ctx: Context) -> T:
        with ctx.within(seconds) as limited:
            return task.do(limited)

    return WrappedTask(task, do)


def when(
    condition: Callable[[Context], bool], task: Task[T], *, reason: str = "its condition is false"
) -> WrappedTask[T | Skip]:
    """The task, run only if the condition is true when its turn comes. Otherwise it is skipped for
    this reason, such as `there is no GPU`. A dry run asks for the task's plan in any case.
    """

    def do(ctx: Context) -> T | Skip:
        is_met = condition(ctx)
        require_finished(is_met)  # a coroutine would be true
        if is_met:
            return task.do(ctx)
        return Skip(reason)

    return WrappedTask(task, do)
