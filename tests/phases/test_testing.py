"""phases.testing: the fake clock has the contract of the real one."""

import threading
import time

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
