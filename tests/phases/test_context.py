"""Context: cancellation, waiting, and shielding."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

import phases
from phases import Clock, Context, Step
from phases.step import nearest
from tests.support.recorder import StubTask, quiet, ran


def test_time_that_remains() -> None:
    """The time until the nearest deadline, None without one, 0 once it is cancelled."""
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
        ctx.clock.wait(lambda: False, 5)
        assert (part.remaining(), part.cancelled) == (0, True)


def test_the_first_stop_is_the_reason() -> None:
    """A block misses only its own limit, and has missed it whatever comes later."""
    ctx = quiet()
    with pytest.raises(phases.DeadlineExceeded), ctx.within(0) as part:
        part.check()
    with pytest.raises(phases.DeadlineExceeded) as missed, ctx.within(5) as part:  # noqa: PT012
        with part.shielded() as safe:
            safe.sleep(6)
        ctx.cancel("enough")
        part.check()
    assert str(missed.value) == "not finished within 5 s"
    assert str(missed.value.__cause__) == "the 5 s of the run are over"
    with pytest.raises(phases.Cancelled, match="enough"), ctx.within(5) as part:  # noqa: PT012
        ctx.cancel("too late to be the reason")
        part.check()


def test_a_callback_on_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    """It is called once, never after the block, and what it raises is only logged."""
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
    failure = OSError("left half done")
    with pytest.raises(OSError, match="left half done"), other.on_cancel(callback):
        raise failure
    other.cancel()
    assert len(called) == 2
    assert caplog.text.count("OSError: gone already") == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_is_cancelled_itself() -> None:
    """The block ends: a callback that sleeps by the context of the task raises Cancelled."""
    ctx = quiet()
    with pytest.raises(phases.Cancelled, match="enough"), ctx.on_cancel(partial(ctx.sleep, 5)):
        ctx.cancel("enough")


@pytest.mark.parametrize("seconds", [60, 0.0001])
def test_a_callback_is_never_forgotten(seconds: float) -> None:
    """Its callback is called before the block ends, also if its thread is late."""
    for _ in range(100):
        ctx, called = Context(), list[str]()
        cancels = threading.Timer(0.0002, ctx.cancel)
        cancels.start()
        with (
            pytest.raises((phases.Cancelled, phases.DeadlineExceeded)),
            ctx.within(seconds) as part,
            ctx.on_cancel(partial(called.append, "called")),
        ):
            part.sleep(60)
        cancels.join()
        assert called == ["called"]


@pytest.mark.parametrize("errors", [[], [OSError()]])
def test_a_cancellation_just_after_a_block(errors: list[OSError]) -> None:
    """It is not the block's, whose callback was not called: the next check raises it."""

    class ThenCancels(Clock):
        def start(self, target: Callable[[], None], *, name: str) -> threading.Thread:
            def watch_then_cancel() -> None:
                target()
                ctx.cancel()

            return super().start(watch_then_cancel, name=name)

    ctx, called = Context(clock=ThenCancels()), list[str]()
    with suppress(OSError), ctx.on_cancel(partial(called.append, "called")):
        for error in errors:
            raise error
    assert called == []
    with pytest.raises(phases.Cancelled):
        ctx.check()


def test_an_error_after_a_cancellation() -> None:
    """The block waits for the callback; the error is the context of Cancelled."""
    ctx = quiet()

    def callback() -> None:
        with ctx.shielded() as safe:
            safe.sleep(60)

    with pytest.raises(phases.Cancelled, match="enough") as cancelled, ctx.on_cancel(callback):  # noqa: PT012
        ctx.cancel("enough")
        raise OSError("the child was killed")
    assert ctx.clock.now() == 60
    assert isinstance(cancelled.value.__context__, OSError)


def found(ctx: Context, *names: str) -> list[object]:
    """For each name the result of its step, or what find says instead."""
    found: list[object] = []
    for name in names:
        try:
            found.append(ctx.find(name).result)
        except phases.UnknownTask as error:
            found.append(str(error))
    return found


def test_a_later_task_reads_an_earlier_result() -> None:
    """By the task, its name or the end of the path; what is left out has no result."""
    disk = phases.retry(StubTask("disk", result="/dev/a", errors=[OSError("busy")]))

    @phases.task("mount")
    def mount(ctx: Context) -> list[object]:
        return [ctx.find(disk).result, *found(ctx, "disk", "prepare/size", "mount", "isk", "left")]

    prepare = phases.parallel(StubTask("size", result=5), name="prepare")
    tree = phases.serial(disk, StubTask("left"), prepare, mount, name="all")
    steps = "the steps that have ended are: all/disk, all/left, all/prepare, all/prepare/size"
    assert ran(tree, skip=["left"]).find("mount").result == [
        "/dev/a",
        "/dev/a",
        5,
        f"no step 'mount' has ended; {steps}",
        f"no step 'isk' has ended; {steps}",
        None,
    ]
    assert found(Context(), "a") == ["no step 'a' has ended; the steps that have ended are: none"]


def test_the_nearest_of_several_steps() -> None:
    """That inside this task, else beside it, else around it; two that are as near are an error."""
    steps = [Step(("a", "x")), Step(("a", "b", "c", "x"))]
    assert nearest("x", steps, ("a", "b", "d", "e")) is steps[1]
    size = StubTask("size", result="of all")

    def machine(name: str, *inside: phases.AnyTask) -> phases.AnyTask:
        @phases.task("start")
        def start(ctx: Context) -> list[object]:
            for task in inside:
                phases.execute(task, ctx)
            return found(ctx, "image", "size")

        image = StubTask("image", result=name)
        return phases.serial(image, phases.serial(start, name="run"), name=name)

    @phases.task("look")
    def look(ctx: Context) -> list[object]:
        return found(ctx, "image", "m2/image", "size")

    inside = phases.serial(StubTask("size", result="own"), name="disk")
    machines = phases.parallel(machine("m1"), machine("m2", inside))
    report = ran(phases.serial(size, machines, look, name="all"))
    assert report.find("m1/run/start").result == ["m1", "of all"]
    assert report.find("m2/run/start").result == ["m2", "own"]
    both = "all/parallel/m1/image or all/parallel/m2/image"
    assert report.find("look").result == [
        f"'image' may be {both}, which are as near; write 'group/image'",
        "m2",
        "of all",
    ]
    assert report.find("size").result == "of all"
    with pytest.raises(phases.UnknownTask, match=f"'image' may be {both}"):
        report.find("image")


def test_an_undo_reads_what_its_task_did() -> None:
    """It finds the results of the run, and not those of an undo."""
    results: list[object] = []
    disks = iter(["/dev/a", "/dev/b", "/dev/c"])
    disk = phases.task("disk", plan=print, undo=print)(lambda _: next(disks))

    def look(ctx: Context) -> None:
        results.append(ctx.find("disk").result)

    before, after = (phases.task(name, undo=look)(print) for name in ("before", "after"))
    again = phases.task("again", undo=lambda ctx: phases.execute(disk, ctx))(print)
    tree = phases.serial(before, disk, after, again, StubTask("x", errors=[OSError()]))
    ran(tree, undo_on_failure=True)
    assert [*results, *disks] == ["/dev/a", "/dev/a", "/dev/c"]
