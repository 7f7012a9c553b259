"""Tasks made of tasks, beside what the oracle of test_laws.py says."""

import contextvars
import itertools
import math
import threading
import time
from collections.abc import Callable
from itertools import repeat

import pytest

import phases
from phases import Context
from phases.testing import FakeClock
from tests.support.recorder import Recorder, StubTask, quiet, ran


def deaf(ctx: Context) -> None:
    """Ignore every cancellation for 9 s, then fail."""
    with ctx.shielded() as safe:
        safe.sleep(9)
    raise ValueError("late")


LATE = phases.task("late")(deaf)


def test_one_error_has_all_failures() -> None:
    """Every failure is in the one TaskFailed, in order, with its error."""
    early = phases.serial(StubTask("early", seconds=1, errors=[OSError("early")]), name="nested")
    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(phases.parallel(LATE, early, name="prepare"), quiet())
    first, second = caught.value.failures
    assert isinstance(first.error, OSError)
    assert isinstance(second.error, ValueError)
    assert caught.value.error is first.error
    assert caught.value.__cause__ is first.error
    assert str(caught.value) == (
        "early failed: OSError: early (in prepare/nested/early); "
        "also late failed: ValueError: late (in prepare/late)"
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [(phases.Cancelled("enough"), "Cancelled: enough"), (SystemExit(), "SystemExit")],
)
def test_a_task_of_a_group_that_stops(error: BaseException, reason: str) -> None:
    """The others stop for the same reason."""
    group = phases.parallel(StubTask("stops", errors=[error]), StubTask("sleeps", seconds=60))
    assert ran(group).find("sleeps").reason == reason


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_that_cannot_be_described() -> None:
    """The group ends even so."""

    class Careless(SystemExit):
        def __str__(self) -> str:
            raise ValueError

    with pytest.raises(Careless):
        phases.execute(phases.parallel(StubTask("stops", errors=[Careless()])), quiet())


@pytest.mark.parametrize("threads", [0, 2, 5])
def test_no_thread_to_be_had(threads: int) -> None:
    """The running tasks are cancelled and waited for, also if the wait for them is interrupted."""

    class Poor(FakeClock):
        left = threads

        def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
            if not self.left:
                raise RuntimeError("can't start new thread")
            self.left -= 1
            return super().start(target, name=name)

        def wait(self, done: Callable[[], bool], until: float = math.inf) -> None:
            if threads == 5 and threading.current_thread().name == "phases":
                raise RuntimeError("can't start new thread, nor wait for those that run")
            super().wait(done, until)

    seen = Recorder()
    group = phases.parallel(*[StubTask(name, seconds=60) for name in "abcde"])
    with pytest.raises(phases.TaskFailed, match="can't start new thread"):
        phases.execute(group, Context(clock=Poor(), observers=[seen]))
    assert sorted(seen.ends) == [
        ("parallel", "failed"),
        *((f"parallel/{name}", "cancelled") for name in "abcde"),
    ]


def test_threads_are_joined() -> None:
    """A group ends after its threads, as does on_cancel, and has no more than it needs."""
    threads: list[threading.Thread] = []

    class Slow(phases.Clock):
        """A clock whose threads take a while to end."""

        def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
            def linger() -> None:
                target()
                time.sleep(0.05)

            thread = super().start(linger, name=name)
            threads.append(thread)
            return thread

    tasks = [StubTask(name) for name in "abcd"]
    ctx = Context(clock=Slow())
    phases.execute(phases.parallel(*tasks, at_once=2), ctx)
    phases.execute(phases.parallel(StubTask("e"), at_once=9), ctx)
    assert len(threads) == 3
    assert not any(thread.is_alive() for thread in threads)
    with ctx.on_cancel(print):
        pass
    assert not any(thread.is_alive() for thread in threads)


def test_context_variables() -> None:
    """Tasks see the caller's, also in threads, and not each other's."""
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller's")

    def look(_ctx: Context) -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    tasks = [phases.task(name)(look) for name in ("a", "b", "c")]
    report = ran(phases.parallel(*tasks))
    assert [step.result for step in report.children] == ["caller's"] * 3
    assert ran(tasks[0]).result == "caller's"
    assert variable.get() == "caller's"


@pytest.mark.parametrize("delay", [1, 90])
def test_waits_between_attempts(delay: float) -> None:
    """The wait grows up to its maximum, minus at most the jitter."""
    clock = FakeClock()
    moments: list[float] = []

    @phases.task("a")
    def fails(_ctx: Context) -> None:
        moments.append(clock.now())
        if len(moments) < 100:
            raise OSError

    task = phases.deadline(phases.retry(fails, attempts=None, delay=delay, jitter=0.5), 9999)
    assert phases.run(task, ctx=phases.Context(clock=clock)).attempts == 100

    waits = [later - earlier for earlier, later in itertools.pairwise(moments)]
    full_waits = [min(delay * 2**number, 30) for number in range(99)]
    for wait, full in zip(waits, full_waits, strict=True):
        assert full / 2 - 1e-6 <= wait <= full + 1e-6
    assert len(set(waits)) > 90


def test_two_deadlines_at_one_moment() -> None:
    """The innermost of them is the one that the report names."""
    inner = phases.deadline(StubTask("a", seconds=9), 5)
    report = ran(phases.deadline(phases.serial(inner, name="group"), 5))
    [missed] = report.failures
    assert missed.error is not None
    assert str(missed.error.__cause__) == "the 5 s of group/a are over"


@pytest.mark.parametrize("on", [OSError, (OSError, KeyError)])
def test_which_errors_are_retried(on: type[Exception]) -> None:
    """Only errors of the given type are retried; of a group, all failures must be."""
    task = StubTask("a", errors=[OSError("busy"), ValueError("wrong")])
    report = ran(phases.retry(phases.parallel(task), attempts=9, on=on))
    assert isinstance(report.failures[0].error, ValueError)
    assert task.calls == 2
    busy = StubTask("busy", seconds=1, errors=repeat(OSError("busy")))
    report = ran(phases.retry(phases.parallel(busy, LATE), on=on))
    assert [step.name for step in report.failures] == ["busy", "late"]
    assert busy.calls == 1
