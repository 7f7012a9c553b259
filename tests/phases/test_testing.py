"""phases.testing: the fake clock has the contract of the real one."""

import threading
import time
from collections.abc import Callable

import pytest

import phases
from phases import Clock
from phases.testing import FakeClock, StubTask
from tests.support.recorder import ran


@pytest.mark.parametrize("make", [FakeClock, phases.Clock])
def test_clocks_keep_their_contract(make: Callable[[], Clock]) -> None:
    """The fake and the real clock behave alike: waiting takes time, wake() ends those waits whose
    condition has become true, threads run.
    """
    clock = make()
    before = clock.now()
    clock.wait(lambda: False, before + 0.002)
    assert clock.now() >= before + 0.002
    clock.wait(lambda: False, before)
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
    clock.wait(lambda: bool(done), clock.now() + 3600)
    assert clock.now() < before + 3600


def test_a_thread_that_ends_lets_time_pass() -> None:
    """The clock does not wait for a thread that has ended, also if it ends while all others
    wait; it waits for one that has not.
    """
    clock, waits = FakeClock(), threading.Event()
    seen: list[float] = []

    def has_begun_to_wait() -> bool:
        waits.set()
        return False

    def end_then() -> None:
        assert waits.wait(100)
        clock.wake()  # returns after the wait has begun
        seen.append(clock.now())

    thread = clock.start(end_then, name="t")
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
    report = ran(phases.parallel(*tasks))
    assert report.seconds == 500
    assert [step.seconds for step in report.children] == [task.seconds for task in tasks]
