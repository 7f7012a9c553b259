"""undo: last task first, continuing after failures, and only tasks that began."""

import attrs
import pytest

import phases
from phases import Context, Status
from phases.testing import FakeClock, RecordingObserver, StubTask
from tests.support.notes import notes_of


@attrs.frozen
class Step:
    """A task that records its undo, which may fail."""

    name: str
    log: list[str]
    seconds: float = 0
    error: Exception | None = None
    undo_error: Exception | None = None

    def do(self, ctx: Context) -> None:
        """Sleep, then fail if set to."""
        ctx.sleep(self.seconds)
        if self.error:
            raise self.error

    def undo(self, ctx: Context) -> None:
        """Record the call, or fail."""
        self.log.append("/".join(ctx.path))
        if self.undo_error:
            raise self.undo_error


def context() -> tuple[Context, RecordingObserver]:
    """A context on a fake clock, and its recording observer."""
    seen = RecordingObserver()
    return Context(clock=FakeClock(), observers=[seen]), seen


def test_last_first() -> None:
    """Every task with an undo is undone, the last listed first; tasks without one are passed over."""
    log: list[str] = []
    nothing = phases.task("nothing")(lambda _ctx: None)
    tree = phases.serial(
        Step("a", log), phases.retry(phases.parallel(Step("b", log), nothing, Step("c", log), name="g")), name="all"
    )
    report = phases.undo(tree, context()[0])
    assert log == ["all/g/c", "all/g/b", "all/a"]
    assert [child.label for child in report.children] == ["g/c", "g/b", "a"]
    assert (report.action, report.status) == ("undo", Status.OK)


def test_observers() -> None:
    """Observers can be given as to run; with a context they belong to it, and the error says so."""
    seen = RecordingObserver()
    phases.undo(Step("a", []), observers=[seen])
    assert (seen.report.name, seen.report.action) == ("a", "undo")
    with pytest.raises(TypeError, match="give the observers to the context"):
        phases.undo(Step("a", []), context()[0], observers=[seen])
    with pytest.raises(TypeError, match="is not a list of functions"):
        phases.undo(Step("a", []), observers=seen)  # type: ignore[arg-type]


def test_past_failures() -> None:
    """If an undo fails, the others are still called; one TaskFailed carries all failures."""
    log: list[str] = []
    tree = phases.serial(
        Step("a", log), Step("b", log, undo_error=OSError("busy")), Step("c", log, undo_error=ValueError("odd"))
    )
    ctx, seen = context()
    with pytest.raises(phases.TaskFailed) as caught:
        phases.undo(tree, ctx)
    assert log == ["serial/c", "serial/b", "serial/a"]
    assert [failure.path[-1] for failure in caught.value.failures] == ["c", "b"]
    assert caught.value.report is not None
    assert [child.status for child in caught.value.report.children] == [Status.FAILED, Status.FAILED, Status.OK]
    assert seen.finished[-1] == ("serial", Status.FAILED)


def test_a_group_that_undoes_itself() -> None:
    """The undo of a group is called instead of those of its tasks; a single task is one line in the report."""
    log: list[str] = []

    @attrs.frozen
    class Whole:
        name: str = "whole"
        subtasks: tuple[phases.AnyTask, ...] = (StubTask("part"),)

        def do(self, _ctx: Context) -> None: ...

        def undo(self, _ctx: Context) -> None:
            log.append("whole")

    report = phases.undo(Whole(), context()[0])
    assert log == ["whole"]
    assert (report.path, report.children) == (("whole",), ())


def test_nothing_to_undo() -> None:
    """Without any undo in the tree, nothing happens and nothing fails."""
    assert phases.undo(phases.task("a")(lambda _ctx: None), context()[0]).status is Status.OK


def test_cancelled_half_way() -> None:
    """On cancellation undo stops; the remaining tasks are recorded as not reached, and earlier failures are noted."""
    log: list[str] = []
    ctx, seen = context()

    def stop(_ctx: Context) -> None:
        ctx.cancel("SIGTERM")

    tree = phases.serial(
        Step("a", log),
        Step("b", log),
        phases.task("stop", undo=stop)(lambda _ctx: None),
        Step("c", log, undo_error=OSError("busy")),
    )
    with pytest.raises(phases.Cancelled) as caught:
        phases.undo(tree, ctx)
    assert log == ["serial/c"]
    assert seen.skipped == ["serial/b", "serial/a"]
    assert notes_of(caught.value) == ["before that: c failed: OSError: busy (in serial/c)"]


def test_inside_a_running_task() -> None:
    """A task may undo others with its own context: the undo is part of its run, and does not change that run."""
    log: list[str] = []
    seen = RecordingObserver()
    reports: list[phases.Report] = []

    @phases.task("roll-back")
    def roll_back(ctx: Context) -> None:
        reports.append(phases.undo(phases.serial(Step("a", log), Step("b", log), name="all"), ctx))

    phases.execute(
        phases.parallel(roll_back, StubTask("beside"), name="work"), Context(clock=FakeClock(), observers=[seen])
    )
    assert log == ["work/roll-back/all/b", "work/roll-back/all/a"]
    assert [child.label for child in reports[0].children] == ["b", "a"]
    assert seen.report.find("roll-back/all").action == "undo"


def test_a_running_undo_is_not_cancelled() -> None:
    """A cancellation lets the undo that runs finish; the next one is not called, and recorded."""
    undone: list[str] = []
    ctx, seen = context()

    def undo(inner: Context) -> None:
        ctx.cancel("SIGTERM")
        inner.sleep(5)
        undone.append(inner.path[-1])

    tree = phases.serial(*[phases.task(name, undo=undo)(lambda _ctx: None) for name in "ab"])
    with pytest.raises(phases.Cancelled):
        phases.undo(tree, ctx)
    assert (undone, seen.skipped) == (["b"], ["serial/a"])
