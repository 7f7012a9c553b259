"""Context: cancellation, waiting, and shielding."""

import threading

import pytest

import phases
from phases import Context
from phases.testing import FakeClock


def test_time_that_remains() -> None:
    """remaining() is the time until the nearest deadline, None without one, and 0 once the task is
    cancelled.
    """
    clock = FakeClock()
    ctx = Context(clock=clock)
    assert ctx.remaining() is None
    with ctx.within(10) as part:
        part.sleep(4)
        assert part.remaining() == 6
        with part.within(2) as inner:
            assert inner.remaining() == 2
        with part.within(60) as inner:
            assert inner.remaining() == 6
        ctx.cancel()
        assert (part.remaining(), part.cancelled) == (0, True)


def test_a_missed_deadline_stays_the_reason() -> None:
    """A part that misses its deadline in a shield has missed it, even if the run is cancelled
    before anybody looks.
    """
    ctx = Context(clock=FakeClock())
    with (  # noqa: PT012  the block is what is tried
        pytest.raises(phases.DeadlineExceeded, match="within 5 s") as missed,
        ctx.within(5) as part,
    ):
        with part.shielded() as safe:
            safe.sleep(6)
        ctx.cancel("SIGTERM")
        ctx.cancel("too late to be the reason")
        part.check()
    assert str(missed.value.__cause__) == "the 5 s of the run are over"
    with pytest.raises(phases.Cancelled, match="SIGTERM"):
        ctx.check()


def test_a_callback_on_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    """The callback is called once on cancellation, also if that came before, and never after the
    block.

    What ends a block may be the callback: its end raises Cancelled. What the callback raises is
    only logged.
    """
    ctx, other, called = Context(), Context(), list[bool]()
    came = threading.Event()

    def callback() -> None:
        called.append(True)
        came.set()
        raise SystemExit("gone already")

    for _ in range(2):
        with pytest.raises(phases.Cancelled), ctx.on_cancel(callback):  # noqa: PT012  the block is what is tried
            ctx.cancel()
            ctx.cancel()
            assert came.wait(100)
        came.clear()
    with other.on_cancel(callback):
        pass
    other.cancel()
    assert (len(called), caplog.text.count("SystemExit: gone already")) == (2, 2)


def test_a_callback_at_a_deadline() -> None:
    """The callback is called when the time is up; the error of the block, if it has one, stays."""
    clock, ended = FakeClock(), threading.Event()

    def callback() -> None:
        ended.set()
        clock.wake()

    with (
        pytest.raises(phases.DeadlineExceeded),
        Context(clock=clock).within(7) as part,
        part.on_cancel(callback),
    ):
        clock.wait(ended.is_set)
    assert clock.now() == 7
    ctx = Context()
    with pytest.raises(OSError, match="left half done"), ctx.on_cancel(lambda: None):  # noqa: PT012  the block is tried
        ctx.cancel()
        raise OSError("left half done")
