"""Tasks made of tasks: one after another, or all at once."""

from __future__ import annotations

import contextvars
from collections import deque
from typing import TYPE_CHECKING

import attrs

from phases.errors import Cancelled, TaskFailed
from phases.execution import pass_over, step
from phases.interrupts import call_open, closed
from phases.python310 import add_note
from phases.tasks import valid_task
from phases.text import describe_error

if TYPE_CHECKING:
    from phases.clock import Thread
    from phases.context import Context
    from phases.tasks import AnyTask

__all__ = ["Parallel", "Serial", "parallel", "serial"]


def serial(*tasks: AnyTask, name: str | None = None) -> Serial:
    """The tasks in order, each after the one before has succeeded. The result is the tuple of their results."""
    return Serial(name or "serial", tasks)


def parallel(*tasks: AnyTask, name: str | None = None) -> Parallel:
    """The tasks all at once, in threads. The result is the tuple of their results, in the order they are listed.

    The first failure cancels the others. The group waits for every task, however long it takes, and then raises one
    TaskFailed with all failures. Each task runs in a copy of the caller's contextvars.
    """
    return Parallel(name or "parallel", tasks)


def _valid_tasks(tasks: tuple[AnyTask, ...]) -> tuple[AnyTask, ...]:
    return tuple(valid_task(member) for member in tasks)


@attrs.frozen
class Serial:
    """The task that serial() returns."""

    name: str
    subtasks: tuple[AnyTask, ...] = attrs.field(converter=_valid_tasks)

    def __attrs_post_init__(self) -> None:
        """Check the name: a group is itself a task."""
        valid_task(self)

    @closed
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
class Parallel:
    """The task that parallel() returns."""

    name: str
    subtasks: tuple[AnyTask, ...] = attrs.field(converter=_valid_tasks)

    def __attrs_post_init__(self) -> None:
        """Check the name: a group is itself a task."""
        valid_task(self)

    @closed
    def do(self, ctx: Context, /) -> tuple[object, ...]:
        """Run all of them; return after the last has ended."""
        if not self.subtasks:
            return ()
        with ctx.within() as inner:
            return _Crew(self.subtasks, inner).work()


class _Crew:
    """The threads of one parallel group, and the outcomes of its tasks so far.

    The caller's thread starts threads until every task has been taken, and each thread takes tasks until none is
    left. So slow tasks all run at once, and a thousand trivial ones need only a few threads. The caller's thread
    runs no task and only waits, because signals are delivered to it.
    """

    def __init__(self, tasks: tuple[AnyTask, ...], ctx: Context) -> None:
        self.tasks = tasks
        self.ctx = ctx
        self.results: list[object] = [None] * len(tasks)
        self.failures: list[TaskFailed] = []
        self.cancellations: list[Cancelled] = []
        self.strays: list[BaseException] = []
        # deque.popleft and list.append are atomic, so these need no lock.
        self.untaken = deque(range(len(tasks)))
        self.unsettled = deque(range(len(tasks)))
        self.all_settled = ctx.clock.event()
        self.threads: list[Thread] = []
        self.variables = contextvars.copy_context()

    @closed
    def work(self) -> tuple[object, ...]:
        """Run every task, wait for all of them, and return the results or raise."""
        settled = False
        while not settled:
            try:
                if self.strays:
                    self._abandon()
                self._start_threads()
                # Ctrl-C is only let through here, where it can interrupt nothing else.
                settled = call_open(self.all_settled.wait)
            except BaseException as error:  # noqa: BLE001  Ctrl-C, or no thread available: none may outlive us
                self.strays.append(error)
        for thread in self.threads:
            thread.join()
        return self._outcome()

    def _start_threads(self) -> None:
        while self.untaken:
            name = f"phases:{'/'.join(self.ctx.path)}#{len(self.threads) + 1}"
            self.threads.append(self.ctx.clock.start(self._take_tasks, name=name))

    def _take_tasks(self) -> None:
        while True:
            try:
                order = self.untaken.popleft()
            except IndexError:
                return
            try:
                self._run(order)
            finally:
                self._settle()

    def _run(self, order: int) -> None:
        member = self.tasks[order]
        try:
            if self.strays or self.failures:
                pass_over(member.name, self.ctx, order=order, reason=f"not reached: {self.ctx.reason}")
                return
            self.results[order] = self.variables.copy().run(step, member, self.ctx, order=order)
        except TaskFailed as failed:
            self.failures.append(failed)
            self._stop(f"{failed.path[-1]} failed")
        except Cancelled as cancelled:
            self.cancellations.append(cancelled)
            self._stop(cancelled.reason)
        except BaseException as error:  # noqa: BLE001  kept, and raised in the caller's thread
            self.strays.append(error)
            self._stop(f"one of the group's tasks raised {describe_error(error)}")

    def _stop(self, reason: str) -> None:
        self.ctx.scope.cancel(reason)

    def _settle(self) -> None:
        self.unsettled.pop()
        if not self.unsettled:
            self.all_settled.set()

    def _abandon(self) -> None:
        """Cancel the running tasks and take the remaining ones, so that the wait can end. Idempotent."""
        self._stop(describe_error(self.strays[0]))
        self._take_tasks()

    def _outcome(self) -> tuple[object, ...]:
        failed = TaskFailed.merged(self.failures, run_id=self.ctx.run_id) if self.failures else None
        if self.strays:
            stray = self.strays[0]
            if failed is not None:
                add_note(stray, f"also failed, in {'/'.join(self.ctx.path)}: {failed}")
            raise stray
        if failed is not None:
            raise failed
        if self.cancellations:
            raise self.cancellations[0]
        return tuple(self.results)
