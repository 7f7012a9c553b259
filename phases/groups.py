"""Tasks made of tasks: in order or all at once, tried again, with a time limit, or under a condition.

Here: groups, and wrappers around one task, which have the name of their task. Not here: how one task is run
(`running`).
"""

from __future__ import annotations

import contextvars
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import attrs

from phases.errors import Cancelled, TaskFailed, add_note
from phases.report import Retrying
from phases.running import pass_over, step
from phases.tasks import AnyTask, Skip, Task, layers_of, valid_task
from phases.text import describe_error

if TYPE_CHECKING:
    from phases.context import Context, Thread

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def serial(*tasks: AnyTask, name: str | None = None) -> Serial:
    """The tasks in order, each after the one before has succeeded. The result is the tuple of their results."""
    return Serial(name or "serial", tasks)


def parallel(*tasks: AnyTask, name: str | None = None, at_once: int | None = None) -> Parallel:
    """The tasks all at once, in threads. The result is the tuple of their results, in the order they are listed.

    With `at_once`, no more than so many of them run at the same time; the others follow in the order they are listed.

    The first failure cancels the others. The group waits for every task, however long it takes, and then raises one
    TaskFailed with all failures. Each task runs in a copy of the caller's contextvars.
    """
    return Parallel(name or "parallel", tasks, at_once)


def _number(rule: str, holds: Callable[[Any], bool]) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    """A validator: a finite number that satisfies the rule and is not a boolean."""

    def check(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not (number and holds(value)):
            of = f"{type(instance).__name__.lower()} of {getattr(instance, 'name', 'a task')!r}"
            raise ValueError(f"{of}: {attribute.name} is {value!r}; it must be {rule}")

    return check


_positive = _number("a number above 0", lambda value: value > 0)
_not_negative = _number("0 or a number above 0", lambda value: value >= 0)
_share = _number("a number from 0 to 1", lambda value: 0 <= value <= 1)
_count = _number("a whole number, 1 or more", lambda value: isinstance(value, int) and value >= 1)


def _valid_tasks(tasks: tuple[AnyTask, ...]) -> tuple[AnyTask, ...]:
    return tuple(valid_task(member) for member in tasks)


@attrs.frozen
class _Group:
    name: str
    subtasks: tuple[AnyTask, ...] = attrs.field(converter=_valid_tasks)

    def __attrs_post_init__(self) -> None:
        """Check the name: a group is itself a task."""
        valid_task(cast("AnyTask", self))


class Serial(_Group):
    """The task that serial() returns."""

    def do(self, ctx: Context, /) -> tuple[object, ...]:
        """Run each in turn; the tasks after a failure are recorded as not reached."""
        results: list[object] = []
        for order, member in enumerate(self.subtasks):
            try:
                results.append(step(member, ctx, order=order))
            except BaseException:
                for later in range(order + 1, len(self.subtasks)):
                    pass_over(self.subtasks[later].name, ctx, order=later, reason=f"not reached after {member.name}")
                raise
        return tuple(results)


@attrs.frozen
class Parallel(_Group):
    """The task that parallel() returns."""

    at_once: int | None = attrs.field(default=None, validator=attrs.validators.optional(_count))

    def do(self, ctx: Context, /) -> tuple[object, ...]:
        """Run all of them; return after the last has ended."""
        if not self.subtasks:
            return ()
        with ctx.within() as inner:
            return _Crew(self.subtasks, inner, self.at_once or len(self.subtasks)).work()


class _Crew:
    """The threads of one parallel group, and the outcomes so far.

    The caller's thread starts threads until every task has been taken, and each thread takes tasks until none is
    left. So slow tasks all run at once, and a thousand trivial ones need only a few threads. The caller's thread
    runs no task and only waits, because signals are delivered to it.
    """

    def __init__(self, tasks: tuple[AnyTask, ...], ctx: Context, at_once: int) -> None:
        self.tasks, self.ctx, self.at_once = tasks, ctx, at_once
        self.results: list[object] = [None] * len(tasks)
        self.raised: list[BaseException] = []
        # deque.popleft and list.append are atomic, so these need no lock.
        self.untaken, self.unsettled = deque(range(len(tasks))), deque(tasks)
        self.all_settled = ctx.clock.event()
        self.threads: list[Thread] = []
        self.variables = contextvars.copy_context()

    def work(self) -> tuple[object, ...]:
        """Run every task, wait for all of them, and return the results or raise."""
        settled = False
        while not settled:
            try:
                while self.untaken and len(self.threads) < self.at_once:
                    name = f"phases:{'/'.join(self.ctx.path)}#{len(self.threads) + 1}"
                    self.threads.append(self.ctx.clock.start(self._take_tasks, name=name))
                settled = self.all_settled.wait()
            except BaseException as error:  # noqa: BLE001  no thread is available, or a signal handler raised
                # No task may outlive the group: those that run stop, and the others are not started.
                self._stop(error, describe_error(error))
                self._take_tasks()
        for thread in self.threads:
            thread.join()
        return self._outcome()

    def _take_tasks(self) -> None:
        while True:
            try:
                order = self.untaken.popleft()
            except IndexError:
                return
            try:
                self._run(order)
            finally:
                self.unsettled.pop()
                if not self.unsettled:
                    self.all_settled.set()

    def _run(self, order: int) -> None:
        member = self.tasks[order]
        try:
            if any(not isinstance(error, Cancelled) for error in self.raised):
                pass_over(member.name, self.ctx, order=order, reason=f"not reached: {self.ctx.reason}")
                return
            self.results[order] = self.variables.copy().run(step, member, self.ctx, order=order)
        except TaskFailed as failed:
            self._stop(failed, f"{failed.path[-1]} failed")
        except Cancelled as cancelled:
            self._stop(cancelled, cancelled.reason)
        except BaseException as error:  # noqa: BLE001  kept, and raised in the caller's thread
            self._stop(error, f"one of the group's tasks raised {describe_error(error)}")

    def _stop(self, error: BaseException, reason: str) -> None:
        self.raised.append(error)
        self.ctx.scope.cancel(reason)

    def _outcome(self) -> tuple[object, ...]:
        failures = [error for error in self.raised if isinstance(error, TaskFailed)]
        failed = TaskFailed.merged(failures, run_id=self.ctx.run_id) if failures else None
        for stray in self.raised:
            if not isinstance(stray, TaskFailed | Cancelled):
                if failed is not None:
                    add_note(stray, f"also failed, in {'/'.join(self.ctx.path)}: {failed}")
                raise stray
        if failed is not None:
            raise failed
        if self.raised:
            raise self.raised[0]
        return tuple(self.results)


def can_retry(error: Exception) -> bool:
    """The default predicate of retry(): the error's attribute `can_retry` if it has one, otherwise true."""
    return bool(getattr(error, "can_retry", True))


def retry(
    task: Task[T],
    *,
    attempts: int = 3,
    delay: float = 1.0,
    factor: float = 2.0,
    longest: float = 30.0,
    jitter: float = 0.5,
    on: Callable[[Exception], bool] | type[Exception] | tuple[type[Exception], ...] = can_retry,
) -> Retry[T]:
    """The task, tried up to `attempts` times.

    Between attempts it waits `delay` seconds, each time `factor` times longer but at most `longest`, minus a random
    part of up to `jitter` of the wait, so that a thousand nodes do not all try again at the same moment.

    `on` selects the errors to retry: exception types, or a predicate. The default is `can_retry`: an error with an
    attribute of this name is retried if that is true, and any other error is retried. If a group failed, all of its
    failures must qualify. Cancelled is never retried. If the deadline comes before the next attempt, the failure is
    raised at once instead of after a useless wait.
    """
    return Retry(task, attempts, delay, factor, longest, jitter, on)


def deadline(task: Task[T], seconds: float) -> Deadline[T]:
    """The task, cancelled after so many seconds; it then fails with DeadlineExceeded.

    A task that succeeds late has still succeeded. A thread cannot be stopped from outside, so a task that never
    calls ctx.check() or ctx.sleep() runs to its end.
    """
    return Deadline(task, seconds)


def when(condition: bool | Callable[[Context], bool], task: Task[T]) -> When[T]:  # noqa: FBT001  reads as a sentence
    """The task if the condition is true when its turn comes; otherwise it is skipped."""
    return When(task, condition)


@attrs.frozen
class _Wrapper(Generic[T_co]):
    wrapped: Task[T_co] = attrs.field(validator=lambda _wrapper, _attribute, task: valid_task(task))

    @property
    def name(self) -> str:
        """The name of the wrapped task."""
        return layers_of(self.wrapped)[-1].name


@attrs.frozen
class Retry(_Wrapper[T_co]):
    """The task that retry() returns."""

    attempts: int = attrs.field(validator=_count)
    delay: float = attrs.field(validator=_not_negative)
    factor: float = attrs.field(validator=_positive)
    longest: float = attrs.field(validator=_not_negative)
    jitter: float = attrs.field(validator=_share)
    on: Callable[[Exception], bool] | type[Exception] | tuple[type[Exception], ...] = attrs.field()

    @on.validator
    def _says_which_errors(self, _attribute: object, value: object) -> None:
        kinds = value if isinstance(value, tuple) else (value,)
        types = all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds)
        if not types and (isinstance(value, tuple | type) or not callable(value)):
            raise TypeError(
                f"retry of {self.name!r}: on is {value!r}; it must be an exception type, a tuple of exception types, "
                "or a function that takes the error and returns whether to retry"
            )

    def do(self, ctx: Context, /) -> T_co:
        """Try until the task succeeds or another attempt makes no sense."""
        for attempt in range(1, self.attempts):
            try:
                return self._attempt(ctx, attempt)
            except Exception as error:
                if not self._worth_another(error):
                    raise
                wait = self.wait_after(attempt)
                left = ctx.remaining()
                if left is not None and left <= wait:
                    add_note(error, f"attempt {attempt} of {self.attempts}; the deadline comes before the next attempt")
                    raise
                if ctx.node is not None:
                    ctx.tell(Retrying(ctx.run_id, ctx.node.id, ctx.path, attempt, self.attempts, wait, error))
            ctx.sleep(wait)
        return self._attempt(ctx, self.attempts)

    def _attempt(self, ctx: Context, attempt: int) -> T_co:
        if ctx.node is not None and attempt > 1:
            ctx.node.attempts += 1
        return self.wrapped.do(ctx.but(attempt=attempt))

    def _worth_another(self, error: Exception) -> bool:
        """Whether `on` selects this error; for a TaskFailed, each of its failures."""
        errors = [failure.error for failure in error.failures] if isinstance(error, TaskFailed) else [error]
        on = self.on
        if isinstance(on, (type, tuple)):
            return all(isinstance(each, on) for each in errors)
        try:
            return all(isinstance(each, Exception) and on(each) for each in errors)
        except Exception as fault:  # noqa: BLE001  an error in the predicate must not hide the failure
            add_note(error, f"not retried, because the predicate of retry raised {describe_error(fault)}")
            return False

    def wait_after(self, attempt: int) -> float:
        """The seconds between this attempt and the next."""
        import random  # noqa: PLC0415  only a failure needs it

        wait = self.longest
        with suppress(OverflowError):
            wait = min(wait, self.delay * self.factor ** (attempt - 1))
        return wait * (1 - self.jitter * random.random())  # noqa: S311  it spreads load and protects nothing


@attrs.frozen
class Deadline(_Wrapper[T_co]):
    """The task that deadline() returns."""

    seconds: float = attrs.field(validator=_positive)

    def do(self, ctx: Context, /) -> T_co:
        """Run the task within the time limit."""
        with ctx.within(self.seconds) as limited:
            return self.wrapped.do(limited)


@attrs.frozen
class When(_Wrapper[T_co]):
    """The task that when() returns."""

    condition: bool | Callable[[Context], bool] = attrs.field()

    def do(self, ctx: Context, /) -> T_co | Skip:
        """Run the task, or return a Skip that says why not."""
        met = self.condition(ctx) if callable(self.condition) else self.condition
        return self.wrapped.do(ctx) if met else Skip(f"its condition{self._named} is false")

    @condition.validator
    def _can_be_asked(self, _attribute: object, value: object) -> None:
        if not isinstance(value, bool) and not callable(value):
            raise TypeError(
                f"when: the condition is {value!r}; it must be True, False, or a function that takes the context"
            )

    @property
    def condition_in_words(self) -> str:
        """The condition as shown in a plan; empty if it is True."""
        if callable(self.condition):
            return f"only if its condition{self._named} is true"
        return "" if self.condition else "its condition is false"

    @property
    def _named(self) -> str:
        name = getattr(self.condition, "__name__", "")
        return f" {name}" if name.isidentifier() else ""
