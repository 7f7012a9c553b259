"""Tasks made of tasks: what the oracle of test_laws.py does not say about groups, retry, deadline
and when.
"""

import contextvars
import itertools
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import repeat
from typing import Any

import pytest

import phases
from phases import Context
from phases.testing import FakeClock, Recorder, StubTask


def deaf(ctx: Context) -> None:
    """Ignore every cancellation for 9 s, then fail."""
    with ctx.shielded() as safe:
        safe.sleep(9)
    raise ValueError("late")


def test_one_error_has_all_failures() -> None:
    """Every failure is in the one TaskFailed, in the order in which they happened, each with its
    error.
    """
    fails_early = StubTask("early", seconds=1, errors=repeat(OSError("early")))
    fails_late = phases.task("late")(deaf)
    early = phases.serial(fails_early, name="nested")
    group = phases.parallel(fails_late, early, name="prepare")
    ctx = Context(clock=FakeClock(), observers=[])

    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(group, ctx)

    first, second = caught.value.failures
    assert isinstance(first.error, OSError)
    assert isinstance(second.error, ValueError)
    assert caught.value.error is first.error
    assert caught.value.__cause__ is first.error
    assert str(caught.value) == (
        "early failed: OSError: early (in prepare/nested/early); "
        "also late failed: ValueError: late (in prepare/late)"
    )


def test_an_error_that_was_raised_twice() -> None:
    """The step that failed is the last one that raised it: what the first one did was forgiven."""
    error = OSError("busy")

    @phases.task("own")
    def own_group(ctx: Context) -> None:
        with suppress(phases.TaskFailed):
            phases.execute(StubTask("forgiven", errors=[error]), ctx)
        with suppress(phases.TaskFailed):
            phases.execute(StubTask("needed", errors=[error]), ctx)
        raise error

    report = phases.run(own_group, observers=[])
    assert [step.path for step in report.failures] == [("own", "needed")]


class RefusedError(OSError):
    """An error whose reason is not text, as that of urllib is."""

    reason = OSError("refused")


def passing_on(inner: phases.Task[object]) -> phases.Task[object]:
    """A task that executes another one, and raises its error."""

    @phases.task("outer")
    def outer(ctx: Context) -> None:
        try:
            phases.execute(inner, ctx)
        except phases.TaskFailed as failed:
            error: Any = failed.error
            raise error from None

    return outer


@pytest.mark.parametrize("group", [phases.serial, phases.parallel])
def test_a_task_that_passes_on_the_error_of_another(
    group: Callable[..., phases.Task[object]],
) -> None:
    """If a task raises the error of a step somewhere inside it, the failure is that step's: groups
    name it beside their other failures, and `execute` raises TaskFailed.
    """
    refused = StubTask("inner", errors=repeat(RefusedError("no disk")))
    outer = passing_on(group(refused, name="group"))
    late = phases.task("late")(deaf)
    beside_others = phases.parallel(late, outer, StubTask("stopped", seconds=60))

    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(outer, Context(clock=FakeClock(), observers=[]))
    report = phases.run(beside_others, clock=FakeClock(), observers=[])

    [failure] = caught.value.failures
    assert failure.path == ("outer", "group", "inner")
    assert isinstance(caught.value.__cause__, RefusedError)
    assert [step.name for step in report.failures] == ["inner", "late"]
    assert report.find("stopped").reason == "inner failed"
    assert str(report).count("no disk") == 1
    assert report.to_json().count('"RefusedError: no disk"') == 1


def test_a_task_of_a_group_that_is_cancelled() -> None:
    """The others stop for the same reason."""
    stops = StubTask("stops", errors=[phases.Cancelled("enough")])
    group = phases.parallel(stops, StubTask("sleeps", seconds=60))
    report = phases.run(group, clock=FakeClock(), observers=[])
    assert [step.reason for step in report.walk()] == ["enough"] * 3


@pytest.mark.parametrize("threads", [0, 2])
def test_no_thread_to_be_had(threads: int) -> None:
    """If no more threads can be started, the running tasks are cancelled and waited for, and the
    error is raised.
    """

    class Poor(FakeClock):
        left = threads

        def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
            if not self.left:
                raise RuntimeError("can't start new thread")
            self.left -= 1
            return super().start(target, name=name)

    seen = Recorder()
    group = phases.parallel(*[StubTask(name, seconds=60) for name in "abcde"])
    with pytest.raises(phases.TaskFailed, match="can't start new thread"):
        phases.execute(group, Context(clock=Poor(), observers=[seen]))
    assert sorted(seen.ends) == [
        ("parallel", "failed"),
        ("parallel/a", "cancelled"),
        ("parallel/b", "cancelled"),
        ("parallel/c", "cancelled"),
        ("parallel/d", "cancelled"),
        ("parallel/e", "cancelled"),
    ]


def test_threads_are_joined() -> None:
    """A group ends after its threads, not only after its tasks."""
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

    group = phases.parallel(StubTask("a"), StubTask("b"))
    phases.execute(group, Context(clock=Slow(), observers=[]))
    assert threads
    for thread in threads:
        assert not thread.is_alive()


def test_context_variables_in_threads() -> None:
    """Tasks in threads see the caller's context variables; changes in one task are not visible in
    others.
    """
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller's")

    @phases.task("look")
    def look(_ctx: Context) -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    seen = phases.execute(phases.parallel(look, look, look), Context(observers=[]))
    assert seen == ("caller's", "caller's", "caller's")
    assert variable.get() == "caller's"


def test_waits_between_attempts() -> None:
    """The wait grows up to its maximum, minus at most the jitter."""
    clock = FakeClock()
    moments: list[float] = []

    @phases.task("a")
    def fails(_ctx: Context) -> None:
        moments.append(clock.now())
        raise OSError

    task = phases.retry(fails, attempts=3000, delay=1, factor=2, longest=10, jitter=0.5)
    report = phases.run(task, clock=clock, observers=[])

    assert report.attempts == 3000
    waits = [later - earlier for earlier, later in itertools.pairwise(moments)]
    full_waits = [1, 2, 4, 8, *[10] * 2995]
    for wait, full in zip(waits, full_waits, strict=True):
        assert full / 2 - 1e-6 <= wait <= full + 1e-6
    assert len(set(waits)) > 100


def test_the_first_wait_is_not_above_the_longest() -> None:
    """`longest` also limits the first wait."""
    again = phases.retry(StubTask("a", errors=[OSError()]), delay=60, longest=10, jitter=0)
    assert phases.run(again, clock=FakeClock(), observers=[]).seconds == 10


def test_a_retry_outside_a_run() -> None:
    """A test may call `do` with a context of its own, in which there is no report."""
    again = phases.retry(StubTask("a", "done", errors=[OSError()]))
    assert again.do(Context(clock=FakeClock())) == "done"


def moments_of_attempts(
    seconds: float, *, each: float = 0, **options: float
) -> tuple[list[float], phases.Step]:
    """When a task is tried that takes this long and always fails, with this deadline; and the
    report.
    """
    clock = FakeClock()
    moments: list[float] = []

    @phases.task("a")
    def fails(ctx: Context) -> None:
        moments.append(clock.now())
        ctx.sleep(each)
        raise OSError("busy")

    again = phases.retry(fails, attempts=None, **options)  # type: ignore[arg-type]  # numbers
    return moments, phases.run(phases.deadline(again, seconds), clock=clock, observers=[])


@pytest.mark.parametrize(
    ("seconds", "each", "moments"),
    [
        pytest.param(60, 0, [0, 1, 3, 7, 15, 31, 59], id="at once"),
        pytest.param(60, 3, [0, 4, 9, 16, 27, 46, 56], id="after 3 s"),
        pytest.param(2, 0, [0, 1], id="two attempts"),
        pytest.param(1, 0, [0], id="one attempt"),
    ],
)
def test_a_last_attempt_before_the_deadline(
    seconds: float, each: float, moments: list[float]
) -> None:
    """A wait that would pass the deadline is shortened: the last attempt has as long as the one
    before it took, and a second more. The task fails with the error of that attempt.
    """
    tried, report = moments_of_attempts(seconds, each=each, jitter=0)
    assert tried == moments
    assert report.attempts == len(moments)
    assert isinstance(report.error, OSError)


def test_a_wait_that_the_deadline_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the wait that would be made, after the jitter was taken off."""
    monkeypatch.setattr(random, "random", lambda: 1.0)
    moments, _ = moments_of_attempts(5.5, delay=10, jitter=0.5)
    assert moments == [0, 5]


def test_a_jitter_of_the_whole_wait() -> None:
    """It is allowed, as is none."""
    for jitter in (0, 1):
        task = phases.retry(StubTask("a", errors=[OSError("busy")]), jitter=jitter)
        assert phases.run(task, clock=FakeClock(), observers=[]).ok


def test_no_wait_between_attempts() -> None:
    """Without a wait, attempts are made until the deadline comes."""
    moments, report = moments_of_attempts(3, each=1, delay=0)
    assert moments == [0, 1, 2]
    assert isinstance(report.error, phases.DeadlineExceeded)


def test_the_time_for_another_attempt_is_what_is_left() -> None:
    """If the last attempt ends early, there may be time for another one."""
    lengths = iter([20, 0, 0])
    clock = FakeClock()
    moments: list[float] = []

    @phases.task("a")
    def fails(ctx: Context) -> None:
        moments.append(clock.now())
        ctx.sleep(next(lengths))
        raise OSError("busy")

    again = phases.retry(fails, attempts=None, delay=100, longest=100, jitter=0)
    report = phases.run(phases.deadline(again, 60), clock=clock, observers=[])
    assert not report.ok
    assert moments == [0, 39, 59]


def tried_for_4_seconds(task: StubTask) -> phases.Task[object]:
    """The task, which is tried three times if it fails at once."""
    return phases.deadline(phases.retry(task, attempts=None, jitter=0), 4)


def test_what_is_said_where_the_deadline_ends_the_attempts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log, the report and the error say that there was no time for another attempt."""
    always = tried_for_4_seconds(StubTask("a", errors=repeat(OSError("busy"))))

    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(always, Context(clock=FakeClock()))

    words = "the deadline left no time for another attempt"
    [step] = caught.value.failures
    assert step.attempts == 3
    assert step.reason == words
    assert str(step).endswith(f"3 attempts, OSError: busy, {words}")
    assert str(caught.value) == f"a failed: OSError: busy; {words} (in a)"
    assert f"a failed after 3.00 s: OSError: busy; {words}" in caplog.text


def test_what_is_said_of_a_task_that_was_tried_again_after_its_deadline() -> None:
    """Nothing about the deadline of an earlier attempt."""
    limited = tried_for_4_seconds(StubTask("a", errors=[OSError("busy")] * 4))
    report = phases.run(phases.retry(limited), clock=FakeClock(), observers=[])
    assert report.ok
    assert report.attempts == 5
    assert report.reason == ""


def test_attempts_until_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    """Without a number of attempts, a task is tried until its time is up; it fails with its own
    error, and the log does not count down.
    """
    task = StubTask("a", errors=repeat(OSError("busy")), seconds=1)
    again = phases.deadline(phases.retry(task, attempts=None, delay=1, factor=1, jitter=0), 100)
    report = phases.run(again, clock=FakeClock())
    assert report.attempts == 50
    assert report.seconds == 99
    assert isinstance(report.error, OSError)
    assert "a: attempt 1 failed: OSError: busy; again in 1.00 s" in caplog.text


def test_an_attempt_that_fails_after_its_deadline() -> None:
    """It fails with its own error."""
    fails_late = phases.retry(phases.task("a")(deaf), attempts=None)
    report = phases.run(phases.deadline(fails_late, 5), clock=FakeClock(), observers=[])
    assert report.seconds == 9
    assert isinstance(report.error, ValueError)


def test_an_attempt_that_the_deadline_cuts_short() -> None:
    """It has no error of its own."""
    busy = StubTask("a", errors=repeat(OSError("busy")), seconds=4)
    again = phases.retry(busy, attempts=None)
    report = phases.run(phases.deadline(again, 6), clock=FakeClock(), observers=[])
    assert report.attempts == 2
    assert report.seconds == 6
    assert isinstance(report.error, phases.DeadlineExceeded)


def test_two_deadlines_at_one_moment() -> None:
    """The innermost of them is the one that the report names."""
    inner = phases.deadline(StubTask("a", seconds=9), 5)
    outer = phases.deadline(phases.serial(inner, name="group"), 5)
    report = phases.run(outer, clock=FakeClock(), observers=[])
    assert [step.name for step in report.failures] == ["a"]


@pytest.mark.parametrize("on", [OSError, (OSError, KeyError)])
def test_which_errors_are_retried(on: type[Exception]) -> None:
    """Only errors of the given type are retried; of a group, all failures must be."""
    task = StubTask("a", errors=[OSError("busy"), ValueError("wrong")])
    again = phases.retry(phases.parallel(task), attempts=9, on=on)
    with pytest.raises(phases.TaskFailed, match="ValueError: wrong"):
        phases.execute(again, Context(clock=FakeClock(), observers=[]))
    assert task.calls == 2


def test_a_group_with_one_failure_that_is_not_retried() -> None:
    """A group is tried again only if all of its failures may be: not after `busy` and `late`."""
    busy = StubTask("busy", seconds=1, errors=repeat(OSError("busy")))
    group = phases.parallel(busy, phases.task("late")(deaf))
    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(phases.retry(group, on=OSError), Context(clock=FakeClock(), observers=[]))
    assert [step.name for step in caught.value.failures] == ["busy", "late"]
    assert busy.calls == 1


def test_a_cancellation_while_it_waits_for_another_attempt() -> None:
    """An attempt that never began is not counted."""
    busy = StubTask("busy", errors=repeat(OSError("busy")))

    @phases.task("stop")
    def stop(ctx: Context) -> None:
        ctx.sleep(5)
        ctx.cancel("enough")

    tree = phases.parallel(phases.retry(busy, delay=60), stop)
    report = phases.run(tree, clock=FakeClock(), observers=[])
    assert report.find("busy").attempts == busy.calls == 1


def test_what_is_said_where_a_cancellation_ends_the_attempts() -> None:
    """A task that fails after the run was cancelled is not tried again, and no deadline is blamed
    for that.
    """

    @phases.task("a")
    def fails(ctx: Context) -> None:
        ctx.cancel("enough")
        raise OSError("busy")

    report = phases.run(phases.retry(fails), clock=FakeClock(), observers=[])
    assert report.attempts == 1
    assert report.why == "OSError: busy"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attempts": 0}, "retry: attempts is 0; it must be a whole number, 1 or more"),
        ({"attempts": 2.5}, "attempts is 2.5; it must be a whole number"),
        ({"attempts": True}, "attempts is True; it must be a whole number"),
        ({"delay": -1}, "delay is -1; it must be a number, 0 or more"),
        ({"factor": "2"}, "factor is '2'; it must be a number, 0 or more"),
        ({"longest": float("nan")}, "longest is nan"),
        ({"jitter": 2}, "jitter is 2; it must be a number, from 0 to 1"),
    ],
)
def test_settings_of_retry_that_are_refused(settings: dict[str, Any], words: str) -> None:
    """An invalid setting is refused immediately, and the message states the rule."""
    with pytest.raises(ValueError, match=words):
        phases.retry(StubTask("a"), **settings)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "deadline: seconds is -1"),
        ("60", "seconds is '60'; it must be a number, 0 or more"),
        (float("inf"), "seconds is inf"),
        (float("nan"), "seconds is nan"),
    ],
)
def test_deadlines_that_are_refused(seconds: Any, words: str) -> None:
    """An invalid number of seconds is refused immediately."""
    with pytest.raises(ValueError, match=words):
        phases.deadline(StubTask("a"), seconds)


@pytest.mark.parametrize("at_once", [0, True])
def test_how_many_at_once_is_refused(at_once: int) -> None:
    """A group that runs nothing at once would never end; True would mean one after the other."""
    words = f"parallel: at_once is {at_once}; it must be a whole number, 1 or more"
    with pytest.raises(ValueError, match=words):
        phases.parallel(at_once=at_once)


def test_time_limits_that_are_refused() -> None:
    """An invalid limit is refused where the block begins."""
    words = "a time limit is nan; it must be a number, 0 or more"
    with pytest.raises(ValueError, match=words), Context().within(float("nan")):
        pass
    with pytest.raises(ValueError, match="a time limit is -5"), Context().shielded(grace=-5):
        pass


def test_a_grace_of_no_time() -> None:
    """It is over at once, and not without an end."""
    with pytest.raises(phases.DeadlineExceeded), Context().shielded(grace=0) as safe:
        safe.check()
