"""phases.testing: the fake clock has the contract of the real one."""

import threading
import time
from collections.abc import Callable

import pytest

import phases
from phases import Clock
from phases.testing import FakeClock, StubTask


@pytest.mark.parametrize("clock", [FakeClock(), phases.Clock()])
def test_clocks_keep_their_contract(clock: Clock) -> None:
    """The fake and the real clock behave alike: waiting takes time, wake() ends it, threads run."""
    before = clock.now()
    clock.wait(lambda: False, before + 0.002)
    assert clock.now() >= before + 0.002
    done: list[bool] = []

    def finish() -> None:
        clock.wait(lambda: False, clock.now() + 0.002)
        done.append(True)
        clock.wake()

    thread = clock.start(finish, name="t")
    clock.wait(lambda: bool(done))
    thread.join()
    clock.wait(lambda: bool(done), clock.now() + 3600)


@pytest.mark.parametrize("clock", [FakeClock(), phases.Clock()])
def test_a_wait_goes_on_after_a_wake_that_is_not_for_it(clock: Clock) -> None:
    """wake() ends only those waits whose condition has become true."""
    done: list[bool] = []
    woken: list[bool] = []

    def waits() -> None:
        clock.wait(lambda: bool(done))
        woken.append(bool(done))

    thread = clock.start(waits, name="t")
    for _ in range(100):
        clock.wake()
        time.sleep(0.000_1)
    assert woken == []
    done.append(True)
    clock.wake()
    thread.join()
    assert woken == [True]


def test_a_thread_that_ends_lets_time_pass() -> None:
    """The clock does not wait for a thread that has ended,
    also if it ends while all others wait.
    """
    clock, waits = FakeClock(), threading.Event()

    def has_begun_to_wait() -> bool:
        waits.set()
        return False

    def end_then() -> None:
        assert waits.wait(100)

    thread = clock.start(end_then, name="t")
    clock.wait(has_begun_to_wait, 5)
    assert clock.now() == 5
    thread.join()


def test_a_thread_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not count: time passes without it, and not before the others wait."""
    clock, waits = FakeClock(), threading.Event()
    seen: list[float] = []

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def has_begun_to_wait() -> bool:
        waits.set()
        return False

    def look() -> None:
        assert waits.wait(100)
        clock.wake()  # returns after the wait has begun
        seen.append(clock.now())

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            clock.start(print, name="t")
    thread = clock.start(look, name="other")
    clock.wait(has_begun_to_wait, 5)
    thread.join()
    assert seen == [0]
    assert clock.now() == 5


def test_a_wait_without_an_end() -> None:
    """Time does not pass while nothing has an end: a thread that the clock does not count may end
    the wait.
    """
    clock, waits, done = FakeClock(), threading.Event(), list[bool]()

    def is_done() -> bool:
        was_done = bool(done)
        waits.set()
        return was_done

    def end_it() -> None:
        assert waits.wait(100)
        done.append(True)
        clock.wake()

    thread = threading.Thread(target=end_it)
    thread.start()
    clock.wait(is_done)
    assert done
    assert clock.now() == 0
    thread.join()


def test_many_waits_at_once() -> None:
    """Of hundreds of tasks that sleep side by side, each has slept exactly its time."""
    tasks = [StubTask(f"t{number}", seconds=number + 1) for number in range(500)]
    report = phases.run(phases.parallel(*tasks), clock=FakeClock(), observers=[])
    assert report.seconds == 500
    assert [step.seconds for step in report.children] == [task.seconds for task in tasks]


def test_what_happens_at_a_moment() -> None:
    """It happens when time reaches that moment, the earliest first, or at once if it has passed; a
    wait that it ends lasts no longer.
    """
    clock = FakeClock()
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, clock.now()))
        clock.wake()

    clock.at(90, lambda: note("route"))
    clock.at(40, lambda: note("driver"))
    clock.wait(lambda: len(seen) == 2, 100)
    assert seen == [("driver", 40), ("route", 90)]
    assert clock.now() == 90
    clock.at(50, lambda: note("late"))
    clock.wait(lambda: len(seen) == 3, 100)
    assert seen[2:] == [("late", 90)]


def test_what_happens_at_the_end_of_a_wait() -> None:
    """It happens before the wait ends, and may begin another thing."""
    clock, seen = FakeClock(), list[float]()
    clock.at(5, lambda: clock.at(10, lambda: seen.append(clock.now())))
    clock.wait(lambda: False, 10)
    assert seen == [10]


def test_what_would_happen_after_the_end() -> None:
    """Time does not go on for it."""
    clock, seen = FakeClock(), list[str]()
    clock.at(500, lambda: seen.append("too late"))
    report = phases.run(StubTask("t", seconds=10), clock=clock, observers=[])
    assert report.seconds == 10
    assert seen == []


@pytest.mark.parametrize("moment", [1, 4])
def test_what_happens_may_fail(moment: float) -> None:
    """The wait that would end first raises the error, also if time passes because a thread has
    ended; and the clock goes on.
    """
    clock = FakeClock()

    def fail() -> None:
        raise OSError("typo")

    clock.at(moment, fail)
    tasks = [StubTask(name, seconds=seconds) for name, seconds in (("a", 3), ("b", 7), ("c", 9))]
    report = phases.run(phases.parallel(*tasks), clock=clock, observers=[])
    [failure] = report.failures
    assert failure.name == ("a" if moment == 1 else "b")
    assert str(failure.error) == "typo"
    assert clock.now() == moment
    clock.wait(lambda: False, 20)
    assert clock.now() == 20


@pytest.mark.parametrize(
    ("moment", "happening"), [("soon", print), (-1, print), (float("nan"), print), (1, "print")]
)
def test_what_cannot_happen(moment: float, happening: Callable[[], object]) -> None:
    """A wrong argument is an error at once."""
    with pytest.raises((TypeError, ValueError), match=r"moment|happening"):
        FakeClock().at(moment, happening)
