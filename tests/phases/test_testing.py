"""phases.testing: the fake clock has the contract of the real one."""

import pytest

import phases
from phases import Clock
from phases.testing import FakeClock


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
