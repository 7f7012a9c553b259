"""phases.testing: the fake clock has the contract of the real one."""

import threading
import time
from collections.abc import Callable

import pytest

import phases
from phases import Clock
from phases.testing import FakeClock


@pytest.mark.parametrize("make", [FakeClock, phases.Clock])
def test_clocks_keep_their_contract(make: Callable[[], Clock]) -> None:
    """The fake and the real clock behave alike."""
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

    def end() -> None:
        done.append(True)
        clock.wake()

    threading.Timer(0.001, end).start()
    clock.wait(lambda: bool(done))
    assert done, "nothing else ends a wait without an end"
    thread.join()
    assert woken == [True]
    clock.wait(lambda: bool(done), clock.now() + 3600)
    assert clock.now() < before + 3600
