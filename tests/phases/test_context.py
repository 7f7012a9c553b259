"""Context: when to stop, how to wait, and what must not be stopped."""

from __future__ import annotations

import logging
import threading

import pytest

import phases
from phases import Context
from phases.testing import FakeClock, StubTask


def test_sleep_takes_its_time() -> None:
    """Sleeping takes exactly the time given, on the run's clock."""
    clock = FakeClock()
    ctx = Context(clock=clock)
    ctx.sleep(3600)
    ctx.sleep(0)
    ctx.sleep(-1)
    assert clock.now() == 3600


def test_remaining() -> None:
    """The time left is that of the nearest deadline; none without a deadline."""
    clock = FakeClock()
    assert Context(clock=clock).remaining() is None
    ctx = Context(clock=clock, deadline=10)
    clock.advance(4)
    assert ctx.remaining() == 6
    with ctx.within(2) as part:
        assert part.remaining() == 2
    with ctx.within(60) as part:
        assert part.remaining() == 6
    clock.advance(7)
    assert ctx.remaining() == 0
    assert ctx.cancelled


def test_within() -> None:
    """A part of a task that runs out of its own time fails with DeadlineExceeded, and the rest goes on."""
    ctx = Context(clock=FakeClock())
    with pytest.raises(phases.DeadlineExceeded, match="not finished within 2 s") as caught, ctx.within(2) as part:
        part.sleep(3)
    assert isinstance(caught.value.__cause__, phases.Cancelled)
    ctx.check()


def test_within_less_time_than_it_says() -> None:
    """When the time of the whole is over first, that is what is reported, not the part's own limit."""
    ctx = Context(clock=FakeClock(), deadline=5)
    with pytest.raises(phases.Cancelled, match="its 5 s are over"), ctx.within(60) as part:
        part.sleep(10)


def test_shielded() -> None:
    """Inside a shield a task neither sees nor feels the order to stop; after it the order stands."""
    clock = FakeClock()
    ctx = Context(clock=clock, deadline=5)
    with ctx.shielded() as safe:
        ctx.cancel("SIGTERM")
        safe.sleep(100)
        assert not safe.cancelled
        assert safe.remaining() is None
    assert ctx.reason == "SIGTERM"
    with pytest.raises(phases.Cancelled, match="SIGTERM"):
        ctx.check()
    assert clock.now() == 100


def test_shield_covers_steps_inside_it() -> None:
    """A whole group can be run inside a shield: it is done, although the run was told to stop meanwhile."""
    ctx = Context(clock=FakeClock(), observers=[])
    ctx.cancel()
    with ctx.shielded() as safe:
        assert phases.execute(phases.parallel(StubTask("a", 1, seconds=1), StubTask("b", 2)), safe) == (1, 2)


def test_shield_with_a_grace() -> None:
    """A shield may be bounded: past its grace what is inside fails with DeadlineExceeded."""
    ctx = Context(clock=FakeClock())
    with pytest.raises(phases.DeadlineExceeded, match="within 30 s"), ctx.shielded(grace=30) as safe:
        safe.sleep(31)


def test_on_cancel() -> None:
    """The callback runs once when the order comes, at once when it came before, and never after the block."""
    called: list[str] = []
    ctx = Context()
    with ctx.on_cancel(lambda: called.append("in time")):
        assert called == []
        ctx.cancel()
        ctx.cancel()
        assert called == ["in time"]
    with ctx.on_cancel(lambda: called.append("at once")):
        assert called == ["in time", "at once"]
    other = Context()
    with other.on_cancel(lambda: called.append("too late")):
        pass
    other.cancel()
    assert "too late" not in called


def test_on_cancel_at_the_deadline() -> None:
    """A deadline calls back too, although the task waits for something that knows no deadline."""
    ctx = Context(deadline=0.01)
    closed = threading.Event()
    with ctx.on_cancel(closed.set):
        assert closed.wait(10)
    assert ctx.cancelled


def test_on_cancel_on_a_fake_clock() -> None:
    """On a fake clock the callback of a deadline comes at exactly that moment."""
    clock = FakeClock()
    ctx = Context(deadline=7, clock=clock)
    closed = clock.event()
    with ctx.on_cancel(closed.set):
        closed.wait()
    assert clock.now() == 7


def test_on_cancel_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """A callback that raises is logged, and the others are still called."""
    called: list[int] = []

    def broken() -> None:
        raise OSError("gone already")

    ctx = Context()
    with ctx.on_cancel(broken), ctx.on_cancel(lambda: called.append(1)):
        ctx.cancel()
    assert called == [1]
    assert "gone already" in caplog.text


def test_log_names_run_and_task(caplog: pytest.LogCaptureFixture) -> None:
    """What a task logs carries its run, its path and its own extras as one mapping under one key."""

    @phases.task("download")
    def download(ctx: Context) -> None:
        ctx.log.info("fetched", extra={"bytes": 12})
        assert ctx.log is ctx.log

    with caplog.at_level(logging.INFO):
        phases.execute(phases.serial(download, name="bootstrap"), Context(run_id="r1"))
    [record] = [record for record in caplog.records if record.message == "fetched"]
    assert vars(record)["phases"] == {"run": "r1", "task": "bootstrap/download", "bytes": 12}


def test_repr() -> None:
    """A context prints as what it is about."""
    ctx = Context(run_id="r1")
    assert repr(ctx) == "<Context of a new run, run r1, running>"
    ctx.cancel("SIGTERM")
    assert repr(ctx.at(("a", "b"))) == "<Context of a/b, run r1, cancelled: SIGTERM>"


def test_run_ids_differ() -> None:
    """Each run has an id of its own."""
    assert Context().run_id != Context().run_id


def test_scope_that_was_left() -> None:
    """A context kept beyond its block still notices that its time is over."""
    clock = FakeClock()
    with Context(clock=clock).within(5) as kept:
        pass
    clock.advance(6)
    assert kept.cancelled
