"""phases.testing: the fake clock, the stub and the recording observer."""

import threading
from datetime import datetime, timezone

import pytest

import phases
from phases import Clock, Context
from phases.testing import FakeClock, RecordingObserver, StubTask


def test_hours_pass_at_once() -> None:
    """Sleeping a day on the fake clock takes no time, and the clock then shows a day later."""
    clock = FakeClock(start=datetime(2026, 3, 1, tzinfo=timezone.utc))
    phases.execute(StubTask("a", seconds=86_400), Context(clock=clock))
    assert clock.now() == 86_400
    assert clock.utc() == datetime(2026, 3, 2, tzinfo=timezone.utc)


def test_by_hand() -> None:
    """Without autojump the time only changes in advance()."""
    clock = FakeClock(autojump=False)
    seen = RecordingObserver()

    def run() -> None:
        phases.execute(StubTask("a", 1, seconds=10), Context(clock=clock, observers=[seen]))

    thread = clock.start(run, name="run")
    while not clock._sleepers:
        threading.Event().wait(0.001)
    clock.advance(9.5)
    assert seen.finished == []
    clock.advance(0.5)
    thread.join()
    assert seen.report.duration == 10


def test_events_wake_without_time_passing() -> None:
    """Setting an event wakes its waiters immediately; waiting for a set event returns immediately."""
    clock = FakeClock()
    event = clock.event()
    assert not event.wait(0)
    assert not event.wait(3)
    event.set()
    assert event.wait()
    assert event.is_set()
    assert clock.now() == 3


@pytest.mark.parametrize("clock", [FakeClock(), phases.SystemClock()])
def test_clocks_keep_their_contract(clock: Clock) -> None:
    """The fake and the real clock behave alike: waiting takes time, dates are in UTC, and threads run."""
    before, utc = clock.now(), clock.utc()
    assert not clock.event().wait(0.002)
    assert clock.now() >= before + 0.0019
    assert clock.utc() > utc
    assert utc.utcoffset() is not None
    event = clock.event()
    clock.start(event.set, name="t").join()
    assert event.wait()


def test_stub() -> None:
    """A stub raises its errors one by one, counts its calls, has a plan, and can be undone."""
    stub = StubTask("a", 5, errors=[OSError()])
    ctx = Context(clock=FakeClock(), observers=[])
    with pytest.raises(phases.TaskFailed):
        phases.execute(stub, ctx)
    assert phases.execute(stub, ctx) == 5
    assert str(phases.plan(stub)) == "a  would return 5"
    phases.undo(stub, ctx)
    assert (stub.calls, stub.undone) == (2, 1)
