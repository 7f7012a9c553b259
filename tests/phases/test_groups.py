"""serial and parallel: order, failure, cancellation, and no thread outlives its group."""

from __future__ import annotations

import contextvars
import threading
import traceback
from typing import TYPE_CHECKING

import pytest

import phases
from phases import Context, Status
from phases.errors import BaseExceptionGroup
from phases.testing import FakeClock, RecordingObserver, StubTask
from tests.support.notes import notes_of

if TYPE_CHECKING:
    from collections.abc import Callable


def recorded(*, deadline: float | None = None) -> tuple[Context, RecordingObserver]:
    """A context on a fake clock, and its recording observer."""
    seen = RecordingObserver()
    return Context(clock=FakeClock(), observers=[seen], deadline=deadline), seen


def test_serial_in_order() -> None:
    """Serial runs its tasks in order and returns their results."""
    ctx, seen = recorded()
    assert phases.execute(phases.serial(StubTask("a", 1), StubTask("b", 2), name="both"), ctx) == (1, 2)
    assert seen.started == ["both", "both/a", "both/b"]


def test_serial_stops_at_the_first_failure() -> None:
    """After a failure no further task begins; the remaining tasks are recorded as not reached."""
    ctx, seen = recorded()
    last = StubTask("c")
    with pytest.raises(phases.TaskFailed):
        phases.execute(phases.serial(StubTask("a"), StubTask("b", always=OSError()), last, StubTask("d")), ctx)
    assert last.calls == 0
    assert seen.skipped == ["serial/c", "serial/d"]
    assert [child.reason for child in seen.report.children[2:]] == ["not reached after b"] * 2


@pytest.mark.parametrize("group", [phases.serial, phases.parallel])
def test_empty_groups(group: type) -> None:
    """An empty group ends immediately."""
    assert phases.execute(group(), Context(observers=[])) == ()


def test_parallel_all_at_once() -> None:
    """Parallel tasks run at the same time: each can wait for all the others."""
    barrier = threading.Barrier(20, timeout=30)

    @phases.task("meet")
    def meet(_ctx: Context) -> int:
        return barrier.wait()

    assert sorted(phases.execute(phases.parallel(*[meet] * 20), Context(observers=[]))) == list(range(20))  # type: ignore[type-var]  # ints


def test_parallel_takes_as_long_as_the_longest() -> None:
    """The group takes as long as its longest task, and its results are in the order of its tasks."""
    ctx, seen = recorded()
    group = phases.parallel(StubTask("a", 1, seconds=3), StubTask("b", 2, seconds=1), StubTask("c", 3, seconds=2))
    assert phases.execute(group, ctx) == (1, 2, 3)
    assert seen.report.duration == 3
    assert [name for name, _ in seen.finished] == ["parallel/b", "parallel/c", "parallel/a", "parallel"]
    assert [child.name for child in seen.report.children] == ["a", "b", "c"]


def test_first_failure_cancels_the_others() -> None:
    """The first failure cancels the siblings; one that ignores that is waited for, and is ok if it succeeds."""
    ctx, seen = recorded()
    group = phases.parallel(
        StubTask("quick", seconds=1),
        StubTask("bad", seconds=2, always=OSError("disk full")),
        StubTask("obedient", seconds=100),
        StubTask("deaf", seconds=50, obeys=False),
        name="prepare",
    )
    with pytest.raises(phases.TaskFailed, match=r"^bad failed: OSError: disk full \(in prepare/bad\)$"):
        phases.execute(group, ctx)
    assert seen.finished == [
        ("prepare/quick", Status.OK),
        ("prepare/bad", Status.FAILED),
        ("prepare/obedient", Status.CANCELLED),
        ("prepare/deaf", Status.OK),
        ("prepare", Status.FAILED),
    ]
    assert seen.report.find("obedient").reason == "bad failed"
    assert seen.report.duration == 50


def test_all_failures_in_one() -> None:
    """Every failure is in the one TaskFailed, in the order in which they happened, each with its traceback."""
    ctx, _ = recorded()
    group = phases.parallel(
        StubTask("late", seconds=9, obeys=False, always=ValueError("late")),
        phases.serial(StubTask("early", seconds=1, always=OSError("early")), name="nested"),
        name="prepare",
    )
    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(group, ctx)
    assert [failure.path[-1] for failure in caught.value.failures] == ["early", "late"]
    assert str(caught.value) == (
        "early failed: OSError: early (in prepare/nested/early); also late failed: ValueError: late (in prepare/late)"
    )
    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
    printed = "".join(traceback.format_exception(caught.value))
    assert "OSError: early" in printed
    assert "ValueError: late" in printed


@pytest.mark.parametrize("stray", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_stray_in_a_thread(stray: BaseException) -> None:
    """SystemExit in a thread stops the group and is raised unchanged, with the other failures as notes."""
    ctx, seen = recorded()
    group = phases.parallel(
        StubTask("exits", seconds=1, always=stray),
        StubTask("fails", seconds=2, obeys=False, always=OSError("full")),
        StubTask("waits", seconds=60),
        name="prepare",
    )
    with pytest.raises(type(stray)) as caught:
        phases.execute(group, ctx)
    assert caught.value is stray
    assert notes_of(stray) == ["also failed, in prepare: fails failed: OSError: full (in prepare/fails)"]
    assert dict(seen.finished)["prepare/waits"] is Status.CANCELLED
    assert len(seen.finished) == 4


def test_cancelled_from_outside() -> None:
    """If the run is cancelled, the members stop, and the group raises Cancelled."""
    ctx, seen = recorded(deadline=5)
    with pytest.raises(phases.Cancelled):
        phases.execute(phases.parallel(StubTask("a", seconds=9), StubTask("b", seconds=9)), ctx)
    assert {status for _, status in seen.finished} == {Status.CANCELLED}


def test_finishing_in_spite_of_cancellation() -> None:
    """A group whose members all succeed is ok, even if it was cancelled meanwhile."""
    ctx, seen = recorded(deadline=5)
    assert phases.execute(phases.parallel(StubTask("a", 1, seconds=9, obeys=False)), ctx) == (1,)
    assert seen.report.status is Status.OK


def test_failure_while_stopping() -> None:
    """A task that fails while it is being stopped has failed: its failure is not hidden by the cancellation."""
    ctx, seen = recorded(deadline=5)
    group = phases.parallel(
        StubTask("a", seconds=9), StubTask("rollback", seconds=9, obeys=False, always=OSError("left half done"))
    )
    with pytest.raises(phases.TaskFailed, match="left half done"):
        phases.execute(group, ctx)
    assert seen.report.status is Status.FAILED


def test_what_was_not_begun_is_not_begun() -> None:
    """Tasks that no thread has taken when one fails are not started, and each is recorded once."""
    seen = RecordingObserver()
    bad = StubTask("bad", always=OSError("full"))
    many = [StubTask(f"t{number}", seconds=30) for number in range(200)]
    with pytest.raises(phases.TaskFailed):
        phases.execute(phases.parallel(bad, *many), Context(observers=[seen]))
    assert len(seen.started) + len(seen.skipped) == 202
    assert len(seen.finished) == len(seen.started)


def test_no_thread_to_be_had() -> None:
    """If no more threads can be started, the running tasks are cancelled and waited for, and the error is raised."""

    class Poor(FakeClock):
        left = 2

        def start(self, target: object, *, name: str) -> threading.Thread:
            if not self.left:
                raise RuntimeError("can't start new thread")
            self.left -= 1
            return super().start(target, name=name)  # type: ignore[arg-type]  # as in the class above

    seen = RecordingObserver()
    group = phases.parallel(*[StubTask(f"t{number}", seconds=60) for number in range(5)])
    with pytest.raises(phases.TaskFailed, match="can't start new thread"):
        phases.execute(group, Context(clock=Poor(), observers=[seen]))
    assert seen.report.status is Status.FAILED
    assert len(seen.started) + len(seen.skipped) == 6


def test_context_variables() -> None:
    """Tasks in threads see the caller's context variables; changes in one task are not visible in others."""
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller's")

    @phases.task("look")
    def look(_ctx: Context) -> str:
        found = variable.get()
        variable.set("changed")
        return found

    assert phases.execute(phases.parallel(look, look, look), Context(observers=[])) == ("caller's",) * 3
    assert variable.get() == "caller's"


def test_nested_parallel() -> None:
    """A failure in an inner group stops the outer one; each level reports the one innermost failure."""
    ctx, seen = recorded()
    inner = phases.parallel(StubTask("bad", seconds=1, always=OSError("full")), StubTask("x", seconds=5), name="inner")
    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(phases.parallel(inner, StubTask("y", seconds=60), name="outer"), ctx)
    assert [failure.path for failure in caught.value.failures] == [("outer", "inner", "bad")]
    assert seen.report.find("y").status is Status.CANCELLED
    assert seen.report.duration == 1


def test_every_thread_is_waited_for() -> None:
    """When the group returns, its threads have ended, even those that got no task."""
    started: list[threading.Thread] = []
    second = threading.Event()

    class Slow(phases.SystemClock):
        @staticmethod
        def start(target: Callable[[], None], *, name: str) -> threading.Thread:
            def late() -> None:
                if started[1:]:
                    second.set()
                    threading.Event().wait(0.05)
                target()

            started.append(threading.Thread(target=late, name=name))
            started[-1].start()
            return started[-1]

    @phases.task("t")
    def until_the_second(_: Context) -> None:
        assert second.wait(60)

    phases.execute(phases.parallel(*[until_the_second] * 3), Context(clock=Slow(), observers=[]))
    assert len(started) > 1
    assert not [thread.name for thread in started if thread.is_alive()]


def test_no_thread_at_all() -> None:
    """If not even one thread can be started, every task is recorded as not started, and the error is raised."""

    class Poorest(FakeClock):
        def start(self, _target: object, *, name: str) -> threading.Thread:
            raise RuntimeError(f"can't start new thread {name}")

    seen = RecordingObserver()
    with pytest.raises(phases.TaskFailed, match="can't start new thread phases:parallel#1"):
        phases.execute(phases.parallel(StubTask("a"), StubTask("b")), Context(clock=Poorest(), observers=[seen]))
    assert seen.skipped == ["parallel/a", "parallel/b"]


def test_nothing_is_begun_after_a_failure() -> None:
    """A task taken after a sibling failed is not started, even if the failure did not cancel the group."""

    class One(FakeClock):
        left = 1

        def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
            if not self.left:
                while seen.finished == []:
                    threading.Event().wait(0.001)
                return super().start(lambda: None, name=name)
            self.left -= 1
            return super().start(target, name=name)

    seen = RecordingObserver()
    rest = [StubTask(f"t{number}") for number in range(5)]
    with pytest.raises(phases.TaskFailed):
        phases.execute(
            phases.parallel(StubTask("bad", always=OSError()), *rest), Context(clock=One(), observers=[seen])
        )
    assert [task.calls for task in rest] == [0] * 5
    assert {node.reason for node in seen.report.children[1:]} == {"not reached: bad failed"}


def test_a_member_that_cancels_itself_stops_the_others() -> None:
    """A member that raises Cancelled itself stops its siblings, and the group is cancelled."""
    ctx, seen = recorded()
    group = phases.parallel(StubTask("a", seconds=1, always=phases.Cancelled("enough")), StubTask("b", seconds=60))
    with pytest.raises(phases.Cancelled, match="enough"):
        phases.execute(group, ctx)
    assert dict(seen.finished)["parallel/b"] is Status.CANCELLED
    assert ctx.clock.now() == 1


def test_a_run_inside_a_task() -> None:
    """A separate run that is cancelled inside a task is a failure of that task, and does not cancel the outer run."""
    ctx, seen = recorded()

    @phases.task("inner")
    def inner(_ctx: Context) -> None:
        phases.execute(StubTask("x", seconds=9), Context(deadline=5, clock=FakeClock(), observers=[]))

    with pytest.raises(phases.TaskFailed, match="a separate run inside it was stopped: the 5 s of the run are over"):
        phases.execute(phases.serial(inner), ctx)
    assert seen.report.status is Status.FAILED


def test_a_name_that_breaks_in_a_thread() -> None:
    """A task whose name raises at run time fails the group; nothing hangs and no thread is lost."""

    class Moody:
        asked = 0

        @property
        def name(self) -> str:
            self.asked += 1
            if self.asked > 1:
                raise RuntimeError("no name today")
            return "moody"

        def do(self, _ctx: Context) -> None: ...

    with pytest.raises(phases.TaskFailed, match="no name today"):
        phases.execute(phases.parallel(Moody(), StubTask("b")), Context(observers=[]))
