"""Context: cancellation, waiting, and shielding."""

from __future__ import annotations

import contextvars
import logging
import threading
from typing import TYPE_CHECKING

import pytest

import phases
from phases import Context
from phases.testing import FakeClock, StubTask

if TYPE_CHECKING:
    from collections.abc import Callable


def test_sleep_takes_its_time() -> None:
    """Sleeping takes exactly the given time on the run's clock."""
    clock = FakeClock()
    ctx = Context(clock=clock)
    ctx.sleep(3600)
    ctx.sleep(0)
    ctx.sleep(-1)
    assert clock.now() == 3600


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


def test_within() -> None:
    """A part of a task that exceeds its time limit fails with DeadlineExceeded, and the rest continues."""
    ctx = Context(clock=FakeClock())
    with pytest.raises(phases.DeadlineExceeded, match="not finished within 2 s") as caught, ctx.within(2) as part:
        part.sleep(3)
    assert isinstance(caught.value.__cause__, phases.Cancelled)
    ctx.check()


class TestWithinAndTheOuterContext:
    """While a within() block is open, the outer context has the limit of the block for code inside the block."""

    def test_it_has_the_limit(self) -> None:
        """The sleep of the context ends at the limit, and a sleep after the block has its full length."""
        clock = FakeClock()
        ctx = Context(clock=clock)
        with pytest.raises(phases.DeadlineExceeded, match="not finished within 5 s"), ctx.within(5):  # noqa: PT012  the block is what is tried
            assert ctx.remaining() == 5
            ctx.sleep(100)
        assert (clock.now(), ctx.remaining(), ctx.cancelled) == (5, None, False)
        ctx.sleep(100)
        assert clock.now() == 105

    @pytest.mark.parametrize(("outer", "inner"), [(7, 2), (2, 7)])
    def test_one_in_another(self, outer: float, inner: float) -> None:
        """The nearest open limit applies, and DeadlineExceeded is raised by the block that set it."""
        clock = FakeClock()
        ctx = Context(clock=clock)
        with pytest.raises(phases.DeadlineExceeded) as caught, ctx.within(outer):  # noqa: SIM117  one in another
            with ctx.within(inner):
                ctx.sleep(100)
        assert (caught.value.seconds, clock.now()) == (2, 2)

    def test_tasks_and_callbacks(self) -> None:
        """Tasks run with it have the limit, and on_cancel callbacks are called at the limit."""
        clock, called = FakeClock(), []
        ctx = Context(clock=clock, observers=[])
        with pytest.raises(phases.DeadlineExceeded), ctx.within(5), ctx.on_cancel(lambda: called.append(clock.now())):
            phases.execute(StubTask("long", seconds=100), ctx)
        assert called == [5]

    def test_members_of_a_group(self) -> None:
        """The threads of a group that runs in the block have the limit as well."""
        clock = FakeClock()
        ctx = Context(clock=clock, observers=[])
        member = phases.task("member")(lambda _own: ctx.sleep(100))
        with pytest.raises(phases.DeadlineExceeded), ctx.within(5):
            phases.execute(phases.parallel(member, name="all"), ctx)
        assert clock.now() == 5

    def test_another_thread(self) -> None:
        """In a thread that was not started in the block, the context is unchanged."""
        clock, woken = FakeClock(), []
        ctx = Context(clock=clock)

        def elsewhere() -> None:
            ctx.sleep(100)
            woken.append(clock.now())

        thread = clock.start(elsewhere, name="elsewhere")
        with pytest.raises(phases.DeadlineExceeded), ctx.within(5):
            ctx.sleep(50)
        clock.event().wait(200)
        thread.join()
        assert woken == [100]

    def test_a_block_that_is_left_elsewhere(self) -> None:
        """After a block has ended, in any thread, its limit no longer applies."""
        clock = FakeClock()
        ctx = Context(clock=clock)
        block = ctx.within(5)
        block.__enter__()
        contextvars.Context().run(block.__exit__, None, None, None)
        ctx.sleep(100)
        assert clock.now() == 100

    def test_a_shield_in_it(self) -> None:
        """The limit does not stop a shielded part; the outer context still reports that the time is up."""
        clock = FakeClock()
        ctx = Context(clock=clock)
        with pytest.raises(phases.DeadlineExceeded), ctx.within(5), ctx.shielded() as safe:  # noqa: PT012  the block is what is tried
            safe.sleep(7)
            assert (ctx.cancelled, clock.now()) == (True, 7)
            ctx.check()


def test_within_less_time_than_it_says() -> None:
    """If the deadline of the whole run comes first, that is reported, not the limit of the part."""
    ctx = Context(clock=FakeClock(), deadline=5)
    with pytest.raises(phases.Cancelled, match="the 5 s of the run are over"), ctx.within(60) as part:
        part.sleep(10)


def test_shielded() -> None:
    """Inside a shield a task is not cancelled; after the shield it is."""
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
    """A whole group can run inside a shield: it completes even if the run is cancelled meanwhile."""
    ctx = Context(clock=FakeClock(), observers=[])
    ctx.cancel()
    with ctx.shielded() as safe:
        assert phases.execute(phases.parallel(StubTask("a", 1, seconds=1), StubTask("b", 2)), safe) == (1, 2)


def test_shield_with_a_grace() -> None:
    """A shield with a grace period raises DeadlineExceeded when the grace period is over."""
    ctx = Context(clock=FakeClock())
    with pytest.raises(phases.DeadlineExceeded, match="within 30 s"), ctx.shielded(grace=30) as safe:
        safe.sleep(31)


def test_on_cancel() -> None:
    """The callback runs once on cancellation, immediately if already cancelled, and never after the block."""
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
    """A deadline also calls back, even while the task waits for something without a deadline."""
    ctx = Context(deadline=0.01)
    closed = threading.Event()
    with ctx.on_cancel(closed.set):
        assert closed.wait(10)
    assert ctx.cancelled


def test_on_cancel_on_a_fake_clock() -> None:
    """On a fake clock the callback runs exactly at the deadline."""
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
    assert repr(ctx.at(("a", "b"))) == "<Context of a/b, run r1, cancelled: SIGTERM>"


def test_run_ids_differ() -> None:
    """Each run has a different id."""
    assert Context().run_id != Context().run_id


def test_scope_that_was_left() -> None:
    """A context used after its block still notices that its time is up."""
    clock = FakeClock()
    with Context(clock=clock).within(5) as kept:
        pass
    clock.advance(6)
    assert kept.cancelled


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


def test_a_callback_that_gives_up() -> None:
    """A callback that raises SystemExit stops neither the cancelling thread nor the other callbacks."""
    called: list[int] = []

    def leave() -> None:
        raise SystemExit(3)

    ctx = Context()
    with ctx.on_cancel(leave), ctx.on_cancel(lambda: called.append(1)), ctx.on_cancel(ctx.check):
        ctx.cancel()
    assert called == [1]


def test_leaving_waits_for_a_callback_under_way() -> None:
    """The end of the block waits for a callback that is running in another thread."""
    ctx = Context()
    began, ended = threading.Event(), threading.Event()

    def callback() -> None:
        began.set()
        threading.Event().wait(0.05)
        ended.set()

    thread = threading.Thread(target=ctx.cancel)
    with ctx.on_cancel(callback):
        thread.start()
        began.wait()
    assert ended.is_set()
    thread.join()


def test_no_thread_for_the_deadline() -> None:
    """If no thread can be started to watch the deadline, on_cancel fails and never calls the callback."""

    class Poor(FakeClock):
        def start(self, _target: object, *, name: str) -> threading.Thread:
            raise RuntimeError(f"can't start {name}")

    called: list[int] = []
    ctx = Context(deadline=5, clock=Poor())
    with pytest.raises(RuntimeError, match="phases-deadline"), ctx.on_cancel(lambda: called.append(1)):
        pass
    ctx.cancel()
    assert called == []


def test_scopes_do_not_pile_up() -> None:
    """Parts whose block has ended are freed: a task that opens thousands of them keeps none."""
    ctx = Context()
    for _ in range(100):
        with ctx.within(5), ctx.within(1), ctx.on_cancel(lambda: None):
            pass
    assert (ctx.scope._children, ctx.scope._callbacks) == (set(), [])


def test_ctrl_c_that_comes_just_before_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting main thread wakes regularly, because Python may only handle a signal when it does."""
    waits: list[float] = []
    event = phases.SystemClock.event()

    def wait(_acquire: object, *, timeout: float) -> None:
        waits.append(timeout)
        if len(waits) == 3:
            event.set()

    monkeypatch.setattr(phases.clock, "call_open", wait)
    assert event.wait()
    assert waits == [0.25, 0.25, 0.25]


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
