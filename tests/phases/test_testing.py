"""phases.testing: the fake clock, the stub and the recorder."""

import pytest

import phases
from phases import Clock, Context, Status
from phases.testing import FakeClock, Recorder, StubTask


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


def test_stub_and_recorder() -> None:
    """A stub raises its errors one by one, and counts its calls; a recorder has all paths."""
    stub, seen = StubTask("a", 5, errors=[OSError()]), Recorder()
    ctx = Context(clock=FakeClock(), observers=[seen])
    with pytest.raises(phases.TaskFailed):
        phases.execute(phases.serial(stub, StubTask("b")), ctx)
    assert seen.starts == ["serial", "serial/a"]
    assert seen.ends == [("serial/a", Status.FAILED), ("serial/b", Status.SKIPPED), ("serial", Status.FAILED)]
    assert phases.execute(stub, ctx) == 5
    assert stub.calls == 2
