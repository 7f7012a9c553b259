"""Tasks made of tasks: in order or all at once, tried again, with a time limit, or under a
condition.
"""

from __future__ import annotations

import contextvars
import math
import random
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from phases.context import Context, in_range
from phases.errors import TaskFailed, describe_error
from phases.running import new_step, pass_over, raise_one, take
from phases.step import Step, seconds_in_words
from phases.tasks import AnyTask, FunctionTask, Skip, Task, wrapped

T = TypeVar("T")


def serial(*tasks: AnyTask, name: str = "serial") -> FunctionTask[tuple[object, ...]]:
    """The tasks in order, each once the one before it has succeeded. The result is the tuple of
    their results.
    """

    def do(ctx: Context) -> tuple[object, ...]:
        results: list[object] = []
        for number, task in enumerate(tasks, start=1):
            try:
                results.append(take(task, new_step(task, ctx), ctx))
            except BaseException:
                for later in tasks[number:]:
                    pass_over(new_step(later, ctx), ctx, f"not reached after {task.name}")
                raise
        return tuple(results)

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
    most = (
        len(tasks)
        if at_once is None
        else in_range(at_once, "parallel: at_once", least=1, whole=True)
    )
    return FunctionTask(name, lambda ctx: _all_at_once(tasks, ctx, most), subtasks=tasks)


def _all_at_once(tasks: tuple[AnyTask, ...], ctx: Context, most: float) -> tuple[object, ...]:
    """Start threads until every task has been taken; each thread takes tasks until none is left.

    So slow tasks all run at once, and a thousand trivial ones need only a few threads. The caller's
    thread runs no task and only waits, because signals are delivered to it.
    """
    untaken = deque([(place, task, new_step(task, ctx)) for place, task in enumerate(tasks)])
    results, raised = dict[int, object](), list[BaseException]()
    threads, variables = list[threading.Thread](), contextvars.copy_context()
    with ctx.within() as part:

        def take_tasks() -> None:
            while untaken:
                with suppress(IndexError):  # another thread has taken the last one
                    take_task(*untaken.popleft())

        def take_task(place: int, task: AnyTask, step: Step) -> None:
            try:
                results[place] = variables.copy().run(take, task, step, part)
            except BaseException as error:  # noqa: BLE001  kept, and raised in the caller's thread
                stop(error)
                results[place] = None
            ctx.clock.wake()

        def stop(error: BaseException) -> None:
            raised.append(error)
            failed = f"{error.failures[0].name} failed" if isinstance(error, TaskFailed) else ""
            part.scopes[0].cancel(failed or getattr(error, "reason", "") or describe_error(error))

        while len(results) < len(tasks):
            try:
                while untaken and len(threads) < most:
                    name = f"phases:{'/'.join(ctx.path)}#{len(threads) + 1}"
                    threads.append(ctx.clock.start(take_tasks, name=name))
                ctx.clock.wait(lambda: len(results) == len(tasks))
            except BaseException as error:  # noqa: BLE001  no thread is available, or it is KeyboardInterrupt
                # No task may outlive the group: those that run stop, and the others are not
                # started.
                stop(error)
                take_tasks()
        for thread in threads:
            thread.join()
    raise_one(raised)
    return tuple(results[place] for place in range(len(tasks)))


def retry(
    task: Task[T],
    *,
    attempts: int = 3,
    delay: float = 1.0,
    factor: float = 2.0,
    longest: float = 30.0,
    jitter: float = 0.5,
    on: type[Exception] | tuple[type[Exception], ...] = Exception,
) -> FunctionTask[T]:
    """The task, tried up to `attempts` times.

    The first wait between attempts is `delay` seconds. Each further wait is `factor` times as long,
    but at most `longest`. A random part of up to `jitter` is taken off each wait, so that a
    thousand nodes do not all try again at the same moment.

    Only errors of the types `on` are retried, unless they have an attribute `can_retry` that is
    false. If a group failed, all of its failures must qualify. Cancelled is never retried. If the
    deadline comes before the next attempt, the failure is raised at once instead of after a useless
    wait.
    """
    in_range(attempts, "retry: attempts", least=1, whole=True)
    for key, value in {
        "delay": delay,
        "factor": factor,
        "longest": longest,
        "jitter": jitter,
    }.items():
        in_range(value, f"retry: {key}", least=0, most=1 if key == "jitter" else math.inf)
    isinstance(None, on)  # a TypeError now, and not after the first failure, if `on` is not classes

    def selects(error: BaseException | None) -> bool:
        if isinstance(error, TaskFailed):
            return all(selects(step.error) for step in error.failures)
        return isinstance(error, on) and getattr(error, "can_retry", True)

    def do(ctx: Context) -> T:
        wait = min(delay, longest)
        for attempt in range(1, attempts):
            try:
                return task.do(ctx)
            except Exception as error:
                if not selects(error):
                    raise
                ctx.check()
                pause = wait * (1 - jitter * random.random())  # noqa: S311  it spreads load and protects nothing
                if (left := ctx.remaining()) is not None and left <= pause:
                    raise
                words = (
                    f"{'/'.join(ctx.path)}: attempt {attempt} of {attempts} failed: "
                    f"{describe_error(error)}"
                )
                ctx.log.warning("%s; again in %s", words, seconds_in_words(pause))
            ctx.sleep(pause)
            wait = min(wait * factor, longest)
            if ctx.step is not None:
                ctx.step.attempts += 1
        return task.do(ctx)

    return wrapped(task, do)


def deadline(task: Task[T], seconds: float) -> FunctionTask[T]:
    """The task, cancelled after this many seconds; it then fails with DeadlineExceeded.

    A task that succeeds late has still succeeded. A thread cannot be stopped from outside, so a
    task that never calls ctx.check() or ctx.sleep() runs to its end.
    """

    def do(ctx: Context) -> T:
        with ctx.within(seconds) as limited:
            return task.do(limited)

    in_range(seconds, "deadline: seconds", least=0)
    return wrapped(task, do)


def when(condition: bool | Callable[[Context], bool], task: Task[T]) -> FunctionTask[T | Skip]:  # noqa: FBT001  a sentence
    """The task if the condition is true when its turn comes; otherwise it is skipped."""
    note = (
        "only if its condition is true"
        if callable(condition)
        else ""
        if condition
        else "its condition is false"
    )

    def do(ctx: Context) -> T | Skip:
        met = condition(ctx) if callable(condition) else condition
        return task.do(ctx) if met else Skip("its condition is false")

    return wrapped(task, do, note)
