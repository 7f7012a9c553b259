"""Context: cancellation, waiting, and shielding."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from unittest import mock

import pytest

import phases
from phases import Context
from phases.testing import FakeClock, StubTask


def test_remaining() -> None:
    """remaining() is the time until the nearest deadline, and None without a deadline."""
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


@pytest.mark.parametrize(("outer", "inner"), [(7, 2), (2, 7)])
def test_one_limit_in_another(outer: float, inner: float) -> None:
    """The nearest limit applies, and DeadlineExceeded is raised by the block that set it."""
    clock = FakeClock()
    with pytest.raises(phases.DeadlineExceeded) as caught, Context(clock=clock).within(outer) as first:  # noqa: SIM117
        with first.within(inner) as second:
            second.sleep(100)
    assert (caught.value.seconds, clock.now()) == (2, 2)


def test_a_missed_deadline_stays_the_reason() -> None:
    """A part that misses its deadline in a shield has missed it, even if the run is cancelled before anybody looks."""
    ctx = Context(clock=FakeClock())
    with pytest.raises(phases.DeadlineExceeded), ctx.within(5) as part:  # noqa: PT012  the block is what is tried
        with part.shielded() as safe:
            safe.sleep(6)
            ctx.cancel("SIGTERM")
        part.check()
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
    clock = FakeClock()
    ended = clock.event()
    with pytest.raises(phases.DeadlineExceeded), Context(clock=clock).within(7) as part, part.on_cancel(ended.set):
        ended.wait()
    assert clock.now() == 7
    ctx = Context()
    with pytest.raises(OSError, match="left half done"), ctx.on_cancel(lambda: None):  # noqa: PT012  the block is tried
        ctx.cancel()
        raise OSError("left half done")


@pytest.mark.parametrize("error", [OSError, SystemExit, phases.Cancelled])
def test_on_cancel_that_raises(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    """A callback that raises anything is logged, and the others are still called."""
    called: list[int] = []

    def broken() -> None:
        raise error("gone already")

    ctx = Context()
    with pytest.raises(phases.Cancelled), ctx.on_cancel(broken), ctx.on_cancel(lambda: called.append(1)):
        ctx.cancel()
    assert called == [1]
    assert "gone already" in caplog.text


def test_log_names_run_and_task(caplog: pytest.LogCaptureFixture) -> None:
    """A task's log lines carry its run, its path and its extras as one mapping under one key."""

    @phases.task("download")
    def download(ctx: Context) -> None:
        ctx.log.info("fetched", extra={"bytes": 12})
        assert ctx.log is ctx.log

    with caplog.at_level(logging.INFO):
        phases.execute(phases.serial(download, name="bootstrap"), Context(run_id="r1"))
    [record] = [record for record in caplog.records if record.message == "fetched"]
    assert vars(record)["phases"] == {"run": "r1", "task": "bootstrap/download", "bytes": 12}


def test_repr() -> None:
    """repr() of a context shows its path, run and state."""
    ctx = Context(run_id="r1")
    assert repr(ctx) == "<Context of a new run, run r1, running>"
    ctx.cancel("SIGTERM")
    assert repr(ctx.but(path=("a", "b"))) == "<Context of a/b, run r1, cancelled: SIGTERM>"


def test_run_ids_differ() -> None:
    """Each run has a different id."""
    assert Context().run_id != Context().run_id


@pytest.mark.parametrize("seconds", [0, -5, float("nan"), float("inf"), "5", True])
def test_time_limits_that_are_none(seconds: float) -> None:
    """An invalid time limit is refused immediately, and the message names it."""
    words = r"the run: .* is not a time limit; give seconds above 0"
    with pytest.raises(ValueError, match=words):
        Context(deadline=seconds)
    with pytest.raises(ValueError, match=words), Context().within(seconds):
        pass
    with pytest.raises(ValueError, match=words), Context().shielded(grace=seconds):
        pass


def test_sleep_that_is_no_number() -> None:
    """Sleeping for nan seconds is refused; sleeping for ever lasts until cancellation, in any thread."""
    with pytest.raises(ValueError, match="nan is not a number of seconds"):
        Context().sleep(float("nan"))
    ctx = Context(observers=[], deadline=1e10)
    woken: list[str] = []

    @phases.task("sleep")
    def sleep(inner: Context) -> None:
        with inner.on_cancel(lambda: woken.append(inner.path[-1])):
            inner.sleep(float("inf"))

    @phases.task("stop")
    def stop(inner: Context) -> None:
        inner.sleep(0.01)
        inner.cancel("enough")

    with pytest.raises(phases.Cancelled, match="enough"):
        phases.execute(phases.parallel(sleep, sleep, stop), ctx)
    assert woken == ["sleep", "sleep"]


def test_leaving_waits_for_a_callback_under_way() -> None:
    """The end of the block waits for a callback that is running in another thread."""
    ctx = Context()
    began, ended = threading.Event(), threading.Event()

    def callback() -> None:
        began.set()
        threading.Event().wait(0.05)
        ended.set()

    thread = threading.Thread(target=ctx.cancel)
    with pytest.raises(phases.Cancelled), ctx.on_cancel(callback):  # noqa: PT012  the block is what is tried
        thread.start()
        began.wait()
    assert ended.is_set()
    thread.join()


def test_scopes_do_not_pile_up() -> None:
    """Parts whose block has ended are freed, however it ended: a task that opens thousands of them keeps none."""

    class Poor(FakeClock):
        def start(self, _target: object, *, name: str) -> threading.Thread:
            raise RuntimeError(f"can't start {name}")

    for ctx in (Context(), Context(clock=Poor())):
        with suppress(RuntimeError), ctx.within(5) as part, part.within(1) as inner, inner.on_cancel(lambda: None):
            pass
        assert ctx.scope.children == set()


def test_a_signal_that_comes_just_before_a_wait() -> None:
    """A waiting main thread wakes regularly, because Python may only call a handler when it does."""
    event, waits = phases.SystemClock.event(), list[float]()

    class Waiter:
        def acquire(self, *, timeout: float = 0) -> None:
            waits.append(timeout)
            if waits.count(0.25) == 3:
                event.set()

        def release(self) -> None: ...

    with mock.patch("threading.Lock", Waiter):
        assert event.wait()
    assert [timeout for timeout in waits if timeout] == [0.25] * 3


def test_many_wait_for_one_event() -> None:
    """Many threads can wait for an event and many can set it: each waiter wakes once and none is left."""
    for _ in range(20):
        event, woken = phases.SystemClock.event(), []
        threads = [threading.Thread(target=lambda: woken.append(event.wait(60))) for _ in range(4)]  # noqa: B023
        threads += [threading.Thread(target=event.set) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert woken == [True] * 4
    assert not phases.SystemClock.event().wait(0.001)


def test_extras_do_not_hide_the_facts(caplog: pytest.LogCaptureFixture) -> None:
    """An extra with the name of a field gets a prefix."""
    with caplog.at_level(logging.INFO):
        Context(run_id="r1").log.info("x", extra={"task": "mine", "run": "mine", "bytes": 1})
    fields = vars(caplog.records[0])["phases"]
    assert fields == {"run": "r1", "task": "", "extra_task": "mine", "extra_run": "mine", "bytes": 1}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: phases.Context(observers=print), "is not a list of functions of one event; pass observers="),  # type: ignore[arg-type]  # refused
        (lambda: phases.run(StubTask("a"), observers="ab"), "observers='ab' is not a list"),  # type: ignore[arg-type]  # refused
        (
            lambda: phases.Context(clock=FakeClock),  # type: ignore[arg-type]  # refused
            r"clock=FakeClock is a class; create an instance: clock=FakeClock\(\)",
        ),
        (lambda: phases.execute(StubTask("a"), FakeClock()), r"FakeClock was passed as the context; pass"),  # type: ignore[arg-type]  # refused
        (lambda: phases.plan(StubTask("a"), FakeClock()), r"FakeClock was passed as the context"),  # type: ignore[arg-type]  # refused
        (lambda: phases.undo(StubTask("a"), FakeClock()), r"^FakeClock was passed as the context"),  # type: ignore[arg-type]  # refused
        (lambda: phases.serial([StubTask("a")]), r"pass the tasks one by one: serial\(\*tasks\)"),  # type: ignore[arg-type]  # refused
    ],
)
def test_arguments_of_another_kind(call: Callable[[], object], words: str) -> None:
    """An argument of the wrong type is refused immediately, and the message says what to write instead."""
    with pytest.raises(TypeError, match=words):
        call()


@pytest.mark.parametrize(("run", "part"), [(None, 5), (5, None)])
def test_a_context_that_is_used_after_its_block(run: float | None, part: float | None) -> None:
    """It still notices that the time of its block, or of the run around it, is over."""
    clock = FakeClock()
    with Context(deadline=run, clock=clock, observers=[]).within(part) as kept:
        pass
    assert not kept.cancelled
    clock.advance(5)
    assert kept.cancelled
