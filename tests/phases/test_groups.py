"""Tasks made of tasks: what the oracle of test_laws.py does not say about groups, retry, deadline and when."""

import contextvars
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import phases
from phases import Context, Status
from phases.errors import BaseExceptionGroup
from phases.testing import FakeClock, RecordingObserver, StubTask
from tests.support.notes import notes_of


def recorded(*, deadline: float | None = None) -> tuple[Context, RecordingObserver]:
    """A context on a fake clock, and its recording observer."""
    seen = RecordingObserver()
    return Context(clock=FakeClock(), observers=[seen], deadline=deadline), seen


def test_parallel_all_at_once() -> None:
    """Parallel tasks run at the same time: each can wait for all the others."""
    barrier = threading.Barrier(20, timeout=30)

    @phases.task("meet")
    def meet(_ctx: Context) -> int:
        return barrier.wait()

    assert sorted(phases.execute(phases.parallel(*[meet] * 20), Context(observers=[]))) == list(range(20))  # type: ignore[type-var]  # ints


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


@pytest.mark.parametrize("threads", [0, 2])
def test_no_thread_to_be_had(threads: int) -> None:
    """If no more threads can be started, the running tasks are cancelled and waited for, and the error is raised."""

    class Poor(FakeClock):
        left = threads

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


def test_at_once() -> None:
    """With a bound, so many tasks run at the same time, and each of the others begins when one has ended."""
    ctx, seen = recorded()
    tasks = [StubTask(name, seconds=seconds) for name, seconds in [("a", 3), ("b", 1), ("c", 1), ("d", 5)]]
    phases.execute(phases.parallel(*tasks, at_once=2), ctx)
    begun = {node.name: node.started - seen.report.started for node in seen.report.children}  # type: ignore[operator]
    assert {name: began.total_seconds() for name, began in begun.items()} == {"a": 0, "b": 0, "c": 1, "d": 2}


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


def test_a_name_that_breaks_in_a_thread() -> None:
    """A task whose name raises at run time fails the group; nothing hangs and no thread is lost."""

    class Moody:
        asked = 0

        @property
        def name(self) -> str:
            self.asked += 1
            if self.asked > 2:
                raise RuntimeError("no name today")
            return "moody"

        def do(self, _ctx: Context) -> None: ...

    with pytest.raises(phases.TaskFailed, match="no name today"):
        phases.execute(phases.parallel(Moody(), StubTask("b")), Context(observers=[]))


def test_retry_until_it_goes_well() -> None:
    """A task is retried until it succeeds; it is one task in the report, with the number of attempts."""
    ctx, seen = recorded()
    task = StubTask("download", 42, errors=[OSError("1"), OSError("2")])
    assert phases.execute(phases.retry(task, attempts=5, delay=1, factor=3, jitter=0), ctx) == 42
    assert task.calls == 3
    assert seen.started == ["download"]
    assert (seen.report.attempts, seen.report.duration) == (3, 4)
    assert [(each.attempt, each.attempts, each.delay) for each in seen.retries] == [(1, 5, 1), (2, 5, 3)]


def test_waits_are_bounded_and_spread() -> None:
    """The wait grows up to its maximum, minus at most the jitter."""
    retry = phases.retry(StubTask("a"), attempts=5000, delay=1, factor=2, longest=10, jitter=0.5)
    for attempt, full in ((1, 1), (2, 2), (4, 8), (5, 10), (4999, 10)):
        waits = {retry.wait_after(attempt) for _ in range(20)}
        assert all(full / 2 <= wait <= full for wait in waits)
        assert len(waits) > 1


@pytest.mark.parametrize("on", [OSError, (OSError, KeyError), lambda error: isinstance(error, OSError)])
def test_retry_on(on: type[Exception]) -> None:
    """Only errors of the given type are retried."""
    ctx, _ = recorded()
    task = StubTask("a", errors=[OSError("busy"), ValueError("wrong")])
    with pytest.raises(phases.TaskFailed, match="ValueError: wrong"):
        phases.execute(phases.retry(task, attempts=9, on=on), ctx)
    assert task.calls == 2


def test_retry_of_a_group() -> None:
    """A group is retried if all of its failures qualify; the report has the steps of every attempt."""
    ctx, seen = recorded()
    group = phases.serial(StubTask("a"), StubTask("b", errors=[OSError("busy")]), name="fetch")
    phases.execute(phases.retry(phases.serial(group, name="all"), jitter=0), ctx)
    assert [child.label for child in seen.report.children] == ["fetch", "fetch (attempt 2)"]
    assert [child.label for child in seen.report.children[1].children] == ["a", "b"]
    group.subtasks[1].errors.append(OSError("busy"))  # type: ignore[attr-defined]  # a StubTask
    seen.events.clear()
    phases.execute(phases.retry(group, jitter=0), ctx)
    assert [(child.label, child.status) for child in seen.report.children] == [
        ("a", Status.OK),
        ("b", Status.FAILED),
        ("a (attempt 2)", Status.OK),
        ("b (attempt 2)", Status.OK),
    ]
    task = StubTask("c", always=ValueError())
    with pytest.raises(phases.TaskFailed):
        phases.execute(phases.retry(phases.serial(task), on=OSError), ctx)
    assert task.calls == 1


def test_no_wait_that_cannot_help() -> None:
    """If the deadline comes before the next attempt, the failure is raised immediately."""
    ctx, seen = recorded()
    task = phases.deadline(phases.retry(StubTask("a", always=OSError("refused")), delay=60, longest=60), 10)
    with pytest.raises(phases.TaskFailed, match="OSError: refused") as caught:
        phases.execute(task, ctx)
    assert notes_of(caught.value.error) == ["attempt 1 of 3; the deadline comes before the next attempt"]
    assert seen.report.duration == 0


def test_when() -> None:
    """A task whose condition is false when its turn comes is skipped, with the condition as the reason."""
    ctx, seen = recorded()

    def host_has_infiniband(_ctx: Context) -> bool:
        return False

    phases.execute(
        phases.serial(
            phases.when(True, StubTask("a")),
            phases.when(False, StubTask("b")),
            phases.when(host_has_infiniband, StubTask("c")),
        ),
        ctx,
    )
    assert [(child.status, child.reason) for child in seen.report.children] == [
        (Status.OK, ""),
        (Status.SKIPPED, "its condition is false"),
        (Status.SKIPPED, "its condition host_has_infiniband is false"),
    ]


def test_condition_that_raises() -> None:
    """A condition that raises fails its task."""

    def broken(_ctx: Context) -> bool:
        raise OSError("cannot tell")

    with pytest.raises(phases.TaskFailed, match="a failed: OSError: cannot tell"):
        phases.execute(phases.when(broken, StubTask("a")), recorded()[0])


NOT_ERRORS: tuple[Any, ...] = ([OSError], "OSError", (OSError, "KeyError"), None, (OSError, lambda _: True))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda task: phases.retry(task, attempts=0), "retry of 'a': attempts is 0; it must be a whole number"),
        (lambda task: phases.retry(task, attempts=1.5), "attempts is 1.5"),  # type: ignore[arg-type]  # the mistake that is tested
        (lambda task: phases.retry(task, attempts=True), "attempts is True"),
        (lambda task: phases.retry(task, delay=-1), "delay is -1; it must be 0 or a number above 0"),
        (lambda task: phases.retry(task, factor=0), "factor is 0; it must be a number above 0"),
        (lambda task: phases.retry(task, longest=float("nan")), "longest is nan"),
        (lambda task: phases.retry(task, jitter=2), "jitter is 2; it must be a number from 0 to 1"),
        (lambda task: phases.deadline(task, 0), "deadline of 'a': seconds is 0; it must be a number above 0"),
        (lambda task: phases.deadline(task, float("inf")), "seconds is inf"),
        (lambda task: phases.deadline(task, "5"), "seconds is '5'"),  # type: ignore[arg-type]  # the mistake that is tested
        (lambda _: phases.parallel(at_once=0), "parallel of 'parallel': at_once is 0; it must be a whole number, 1 or"),
        (lambda task: phases.when(None, task), "the condition is None; it must be True, False, or a function"),  # type: ignore[arg-type]  # the mistake that is tested
        *((partial(phases.retry, on=on), "retry of 'a': on is .*; it must be an exception type") for on in NOT_ERRORS),
    ],
)
def test_bad_settings(build: object, words: str) -> None:
    """An invalid setting is refused when the tree is built, and the message states the rule."""
    assert callable(build)
    with pytest.raises((ValueError, TypeError), match=words):
        build(StubTask("a"))


def test_predicate_that_raises() -> None:
    """A predicate that raises does not hide the failure: its error is noted, and nothing is retried."""
    task = StubTask("a", always=OSError("disk full"))
    with pytest.raises(phases.TaskFailed, match="OSError: disk full") as caught:
        phases.execute(phases.retry(task, on=lambda error: error.wizardry), recorded()[0])  # type: ignore[attr-defined]  # the mistake
    assert "the predicate of retry raised AttributeError" in notes_of(caught.value.error)[0]
    assert task.calls == 1
