"""Context: cancellation, waiting, and shielding."""

import threading

import pytest

import phases
from phases import Context
from phases.testing import FakeClock, StubTask


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
        assert part.remaining() == 0
        assert part.cancelled is True


def test_a_cancellation_inside_a_time_limit() -> None:
    """It is passed on, and so is the end of an outer limit: only the own limit is missed."""
    ctx = Context(clock=FakeClock())
    with (
        pytest.raises(phases.DeadlineExceeded, match="within 2 s"),
        ctx.within(2) as outer,
        outer.within(5) as inner,
    ):
        inner.sleep(9)
    with pytest.raises(phases.Cancelled, match="enough"), ctx.within(5) as part:  # noqa: PT012
        ctx.cancel("enough")
        part.check()


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
        assert part.remaining() == 0
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
        with pytest.raises(phases.Cancelled), ctx.on_cancel(callback):  # noqa: PT012  it is tried
            ctx.cancel()
            ctx.cancel()
            assert came.wait(100)
        came.clear()
    with other.on_cancel(callback):
        pass
    other.cancel()
    assert len(called) == 2
    assert caplog.text.count("SystemExit: gone already") == 2


def test_a_callback_without_a_block() -> None:
    """It would never be called, so it is said."""
    with pytest.warns(RuntimeWarning, match=r"write `with ctx\.on_cancel\(…\):`"):
        Context().on_cancel(print)


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
    failure = OSError("left half done")
    with pytest.raises(OSError, match="left half done"), ctx.on_cancel(lambda: None):  # noqa: PT012
        ctx.cancel()
        raise failure


class TestFind:
    """ctx.find: the steps of the run so far."""

    def test_a_later_task_reads_an_earlier_result(self) -> None:
        """By name or by the end of the path, also in a group, and after several attempts the last;
        what is left out or running has not run.
        """

        @phases.task("mount")
        def mount(ctx: Context) -> list[object]:
            faults: list[object] = []
            for name in ("mount", "left", "nothing"):
                try:
                    ctx.find(name)
                except phases.UnknownTask as error:
                    faults.append(str(error))
            return [ctx.find("disk").result, ctx.find("prepare/size").result, *faults]

        prepare = phases.parallel(StubTask("size", 5), name="prepare")
        disk = phases.retry(StubTask("disk", "/dev/a", errors=[OSError("busy")]))
        tree = phases.serial(disk, StubTask("left"), prepare, mount, name="all")
        report = phases.run(tree, skip="left", clock=FakeClock(), observers=[])
        known = "those that have run so far: all/disk, all/prepare, all/prepare/size"
        assert report.find("mount").result == [
            "/dev/a",
            5,
            f"no step 'mount' among {known}",
            "the step 'left' has not run: left out by skip",
            f"no step 'nothing' among {known}",
        ]

    def test_an_undo_reads_what_its_task_did(self) -> None:
        """The undo of a run finds the results of the run, not those of other undos; a dry run finds
        plans.
        """
        results: list[object] = []

        def undo(ctx: Context) -> None:
            results.append(ctx.find("disk").result)

        disk = phases.task("disk", undo=undo, plan=lambda _: "a plan")(lambda _: "/dev/a")
        tree = phases.serial(
            phases.task("before", undo=undo)(lambda _: None),
            disk,
            StubTask("x", errors=[OSError()]),
        )
        report = phases.run(tree, undo_on_failure=True, observers=[])
        phases.undo(tree, Context(observers=[]), of=report)
        assert results == ["/dev/a"] * 4
        look = phases.task("look", plan=lambda ctx: ctx.find("disk").result)(lambda _: None)
        assert phases.plan(phases.serial(disk, look)).find("look").result == "a plan"
        without_plan = phases.plan(phases.serial(StubTask("disk"), look))
        assert without_plan.why == ""
        assert without_plan.find("look").why == (
            "UnknownTask: the step 'disk' has not run: offers no plan"
        )

    def test_an_undo_finds_nothing_that_an_undo_has_run(self) -> None:
        """What the run did is found, also if another undo has done the same task once more."""
        results: list[object] = []
        disks = iter(["/dev/a", "/dev/b", "/dev/c"])
        disk = phases.task("disk")(lambda _: next(disks))
        look = phases.task("look", undo=lambda ctx: results.append(ctx.find("disk").result))
        again = phases.task("again", undo=lambda ctx: phases.execute(disk, ctx))
        tree = phases.serial(
            disk, look(lambda _: None), again(lambda _: None), StubTask("x", errors=[OSError()])
        )
        report = phases.run(tree, undo_on_failure=True, observers=[])
        phases.undo(tree, Context(observers=[]), of=report)
        assert results == ["/dev/a"] * 2

    def test_a_run_of_its_own(self) -> None:
        """Outside a task nothing has run, and the steps of another run are not found."""
        message = "no step 'a' among those that have run so far: none"
        with pytest.raises(phases.UnknownTask, match=message):
            Context().find("a")
