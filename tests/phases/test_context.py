"""Context: cancellation, waiting, and shielding."""

import signal
import threading

import pytest

import phases
from phases import Context
from phases.testing import StubTask
from tests.support.recorder import quiet, ran


def test_time_that_remains() -> None:
    """remaining() is the time until the nearest deadline, None without one, and 0 once the task is
    cancelled.
    """
    ctx = quiet()
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
    """It is passed on: only the own limit is missed."""
    ctx = quiet()
    with pytest.raises(phases.DeadlineExceeded), ctx.within(0) as part:
        part.check()
    with pytest.raises(phases.Cancelled, match="enough"), ctx.within(5) as part:  # noqa: PT012
        ctx.cancel("enough")
        ctx.cancel("too late to be the reason")
        part.check()


def test_a_missed_deadline_stays_the_reason() -> None:
    """A part that misses its deadline in a shield has missed it, even if the run is cancelled
    before anybody looks.
    """
    ctx = quiet()
    with (  # noqa: PT012  the block is what is tried
        pytest.raises(phases.DeadlineExceeded, match="within 5 s") as missed,
        ctx.within(5) as part,
    ):
        with part.shielded() as safe:
            safe.sleep(6)
        assert part.remaining() == 0
        ctx.cancel(signal.SIGTERM)
        part.check()
    assert str(missed.value.__cause__) == "the 5 s of the run are over"


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
        raise OSError("gone already")

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
    assert caplog.text.count("OSError: gone already") == 2
    failure = OSError("left half done")
    with pytest.raises(OSError, match="left half done"), ctx.on_cancel(lambda: None):
        raise failure


def test_a_later_task_reads_an_earlier_result() -> None:
    """By name or by the end of the path, also in a group, and after several attempts the last; what
    is left out or running has not run.
    """

    @phases.task("mount")
    def mount(ctx: Context) -> list[object]:
        faults: list[object] = []
        for name in ("mount", "isk", "left"):
            try:
                ctx.find(name)
            except phases.UnknownTask as error:
                faults.append(str(error))
        return [ctx.find("disk").result, ctx.find("prepare/size").result, *faults]

    prepare = phases.parallel(StubTask("size", result=5), name="prepare")
    disk = phases.retry(StubTask("disk", result="/dev/a", errors=[OSError("busy")]))
    tree = phases.serial(disk, StubTask("left"), prepare, mount, name="all")
    known = "those of the run so far: all/disk, all/prepare, all/prepare/size"
    assert ran(tree, skip=["left"]).find("mount").result == [
        "/dev/a",
        5,
        f"no step 'mount' among {known}",
        f"no step 'isk' among {known}",
        f"no step 'left' among {known}",
    ]
    message = "^no step 'a' among those of the run so far: none$"
    with pytest.raises(phases.UnknownTask, match=message):
        Context().find("a")


def test_an_undo_reads_what_its_task_did() -> None:
    """The undo of a run finds the results of the run, and not those of an undo, also if that has
    done the same task once more.
    """
    results: list[object] = []
    disks = iter(["/dev/a", "/dev/b", "/dev/c"])
    disk = phases.task("disk", plan=print, undo=print)(lambda _: next(disks))

    def look(ctx: Context) -> None:
        results.append(ctx.find("disk").result)

    before, after = (phases.task(name, undo=look)(print) for name in ("before", "after"))
    again = phases.task("again", undo=lambda ctx: phases.execute(disk, ctx))(print)
    tree = phases.serial(before, disk, after, again, StubTask("x", errors=[OSError()]))
    ran(tree, undo_on_failure=True)
    assert results == ["/dev/a"] * 2
