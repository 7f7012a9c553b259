"""retry, deadline and when."""

from __future__ import annotations

import pytest

import phases
from phases import Context, Status
from phases.testing import FakeClock, RecordingObserver, StubTask
from tests.support.notes import notes_of


def recorded(*, deadline: float | None = None) -> tuple[Context, RecordingObserver]:
    """A context on a fake clock, and its recording observer."""
    seen = RecordingObserver()
    return Context(clock=FakeClock(), observers=[seen], deadline=deadline), seen


def test_retry_until_it_goes_well() -> None:
    """A task is retried until it succeeds; it is one task in the report, with the number of attempts."""
    ctx, seen = recorded()
    task = StubTask("download", 42, errors=[OSError("1"), OSError("2")])
    assert phases.execute(phases.retry(task, attempts=5, delay=1, factor=3, jitter=0), ctx) == 42
    assert task.calls == 3
    assert seen.started == ["download"]
    assert (seen.report.attempts, seen.report.duration) == (3, 4)
    assert [(each.attempt, each.attempts, each.delay) for each in seen.retries] == [(1, 5, 1), (2, 5, 3)]


def test_retry_gives_up() -> None:
    """After the last attempt the failure is that of the last attempt."""
    ctx, seen = recorded()
    task = StubTask("download", errors=[OSError("1"), OSError("2"), OSError("3")])
    with pytest.raises(phases.TaskFailed, match="OSError: 3"):
        phases.execute(phases.retry(task, attempts=3), ctx)
    assert seen.report.attempts == 3


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


def test_the_error_says_whether_to_retry() -> None:
    """Without a predicate, an error that says can_retry = False is not retried."""

    class FinalError(Exception):
        can_retry = False

    task = StubTask("a", always=FinalError())
    with pytest.raises(phases.TaskFailed):
        phases.execute(phases.retry(task), recorded()[0])
    assert task.calls == 1


def test_retry_of_a_group() -> None:
    """A group is retried if all of its failures qualify; the report has the steps of every attempt."""
    ctx, seen = recorded()
    group = phases.serial(StubTask("a"), StubTask("b", errors=[OSError("busy")]), name="fetch")
    phases.execute(phases.retry(group, jitter=0), ctx)
    assert seen.started == ["fetch", "fetch/a", "fetch/b", "fetch/a", "fetch/b"]
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


def test_cancelled_is_never_retried() -> None:
    """A cancelled task is not retried."""
    ctx, _ = recorded(deadline=5)
    task = StubTask("a", seconds=60)
    with pytest.raises(phases.Cancelled):
        phases.execute(phases.retry(task, on=lambda _error: True), ctx)
    assert task.calls == 1


def test_cancelled_while_waiting_for_the_next_attempt() -> None:
    """Cancellation ends the wait between two attempts."""
    ctx, _ = recorded()
    watch = phases.parallel(
        phases.retry(StubTask("a", always=OSError()), delay=100, longest=100, jitter=0),
        StubTask("stop", seconds=1, always=ValueError("stop")),
    )
    with pytest.raises(phases.TaskFailed, match="stop"):
        phases.execute(watch, ctx)
    assert ctx.clock.now() == 1


def test_no_wait_that_cannot_help() -> None:
    """If the deadline comes before the next attempt, the failure is raised immediately."""
    ctx, seen = recorded()
    task = phases.deadline(phases.retry(StubTask("a", always=OSError("refused")), delay=60, longest=60), 10)
    with pytest.raises(phases.TaskFailed, match="OSError: refused") as caught:
        phases.execute(task, ctx)
    assert notes_of(caught.value.error) == ["attempt 1 of 3; the deadline comes before the next attempt"]
    assert seen.report.duration == 0


def test_deadline() -> None:
    """A task that takes too long is cancelled and fails with DeadlineExceeded; its steps are cancelled."""
    ctx, seen = recorded()
    with pytest.raises(phases.TaskFailed, match=r"DeadlineExceeded: not finished within 2\.5 s"):
        phases.execute(phases.deadline(phases.serial(StubTask("a", seconds=9), name="slow"), 2.5), ctx)
    assert seen.finished == [("slow/a", Status.CANCELLED), ("slow", Status.FAILED)]
    assert seen.report.duration == 2.5


def test_late_but_well() -> None:
    """A task that succeeds late has succeeded."""
    ctx, _ = recorded()
    assert phases.execute(phases.deadline(StubTask("a", 1, seconds=9, obeys=False), 2), ctx) == 1


def test_retry_of_a_deadline() -> None:
    """Each attempt may have its own deadline."""
    ctx, seen = recorded()
    with pytest.raises(phases.TaskFailed, match="DeadlineExceeded"):
        phases.execute(phases.retry(phases.deadline(StubTask("a", seconds=9), 2), delay=1, factor=1, jitter=0), ctx)
    assert seen.report.duration == 2 + 1 + 2 + 1 + 2


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
    ],
)
def test_bad_settings(build: object, words: str) -> None:
    """An invalid setting is refused when the tree is built, and the message states the rule."""
    assert callable(build)
    with pytest.raises(ValueError, match=words):
        build(StubTask("a"))


def test_wrappers_refuse_what_is_no_task() -> None:
    """A wrapper around an object that is not a task is refused, as a group is."""
    for build in (phases.retry, lambda task: phases.deadline(task, 5), lambda task: phases.when(True, task)):
        with pytest.raises(phases.InvalidTask):
            build(object())  # type: ignore[arg-type]  # the mistake that is tested


def test_every_failure_must_be_worth_it() -> None:
    """A group with one failure that does not qualify is not retried, whatever the others are."""
    for on in (OSError, lambda error: isinstance(error, OSError)):
        good, bad = StubTask("a", obeys=False, seconds=1, always=OSError()), StubTask("b", always=ValueError())
        with pytest.raises(phases.TaskFailed):
            phases.execute(phases.retry(phases.parallel(good, bad), on=on), recorded()[0])
        assert (good.calls, bad.calls) == (1, 1)


def test_predicate_that_raises() -> None:
    """A predicate that raises does not hide the failure: its error is noted, and nothing is retried."""
    task = StubTask("a", always=OSError("disk full"))
    with pytest.raises(phases.TaskFailed, match="OSError: disk full") as caught:
        phases.execute(phases.retry(task, on=lambda error: error.wizardry), recorded()[0])  # type: ignore[attr-defined]  # the mistake
    assert "the predicate of retry raised AttributeError" in notes_of(caught.value.error)[0]
    assert task.calls == 1


@pytest.mark.parametrize("on", [[OSError], "OSError", (OSError, "KeyError"), None, (OSError, lambda _e: True)])
def test_bad_predicates(on: object) -> None:
    """An invalid `on` is refused when the tree is built."""
    with pytest.raises(TypeError, match=r"retry of 'a': on is .*; it must be an exception type"):
        phases.retry(StubTask("a"), on=on)  # type: ignore[arg-type]  # the mistake that is tested


def test_bad_conditions() -> None:
    """A condition must be a boolean or a function."""
    with pytest.raises(TypeError, match=r"when: the condition is None; it must be True, False, or a function"):
        phases.when(None, StubTask("a"))  # type: ignore[arg-type]  # the mistake that is tested
