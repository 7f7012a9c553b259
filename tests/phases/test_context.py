"""Context: cancellation, waiting, and shielding."""

import threading
from collections.abc import Callable

import pytest

import phases
from phases import Context
from phases.testing import FakeClock


def test_remaining() -> None:
    """remaining() is the time until the nearest deadline, None without one, and 0 once the task is cancelled."""
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
    assert (ctx.remaining(), ctx.cancelled, ctx.reason) == (0, True, "the 10 s of the run are over")


def test_a_missed_deadline_stays_the_reason() -> None:
    """A part that misses its deadline in a shield has missed it, even if the run is cancelled before anybody looks."""
    ctx = Context(clock=FakeClock())
    with pytest.raises(phases.DeadlineExceeded), ctx.within(5) as part:  # noqa: PT012  the block is what is tried
        with part.shielded() as safe:
            safe.sleep(6)
            ctx.cancel("SIGTERM")
        part.check()
    ctx.cancel("too late to be the reason")
    assert ctx.reason == "SIGTERM"


def test_on_cancel() -> None:
    """The callback is called once on cancellation, also if that came before, and never after the block."""
    ctx, called = Context(), list[str]()
    came = threading.Event()

    def callback() -> None:
        called.append("in time")
        came.set()

    for _ in range(2):
        with pytest.raises(phases.Cancelled), ctx.on_cancel(callback):  # noqa: PT012  the block is what is tried
            ctx.cancel()
            ctx.cancel()
            assert came.wait(10)
        came.clear()
    assert called == ["in time"] * 2
    other = Context()
    with other.on_cancel(callback):
        pass
    other.cancel()
    assert called == ["in time"] * 2


def test_the_end_of_the_block_checks() -> None:
    """What ends a block may be the callback: its end raises Cancelled, or the error of the block."""
    clock, ended = FakeClock(), threading.Event()

    def callback() -> None:
        ended.set()
        clock.wake()

    with pytest.raises(phases.DeadlineExceeded), Context(clock=clock).within(7) as part, part.on_cancel(callback):
        clock.wait(ended.is_set)
    assert clock.now() == 7
    ctx = Context()
    with pytest.raises(OSError, match="left half done"), ctx.on_cancel(lambda: None):  # noqa: PT012  the block is tried
        ctx.cancel()
        raise OSError("left half done")


@pytest.mark.parametrize("error", [OSError, SystemExit, phases.Cancelled])
def test_on_cancel_that_raises(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    """A callback that raises anything is logged, and the others are still called."""
    called, came = list[int](), threading.Event()

    def broken() -> None:
        came.set()
        raise error("gone already")

    ctx = Context()
    with pytest.raises(phases.Cancelled), ctx.on_cancel(lambda: called.append(1)), ctx.on_cancel(broken):  # noqa: PT012  the block is what is tried
        ctx.cancel()
        assert came.wait(10)
        while not called:
            threading.Event().wait(0.001)
    assert "gone already" in caplog.text


@pytest.mark.parametrize("seconds", [0, -5, float("nan"), float("inf")])
def test_time_limits_that_are_none(seconds: float) -> None:
    """An invalid time limit is refused immediately, and the message names it."""
    words = r"the run: .* is not a time limit; give seconds above 0"
    limits: list[Callable[[], object]] = [
        lambda: Context(deadline=seconds),
        lambda: Context().within(seconds).__enter__(),
        lambda: Context().shielded(grace=seconds).__enter__(),
    ]
    for limit in limits:
        with pytest.raises(ValueError, match=words):
            limit()


def test_a_signal_that_comes_just_before_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting main thread wakes regularly, because Python may only call a handler when it does."""
    waits: list[float | None] = []
    monkeypatch.setattr(threading.Condition, "wait", lambda _self, timeout=None: waits.append(timeout))
    phases.SystemClock().wait(lambda: len(waits) == 3)
    assert waits == [0.25] * 3
