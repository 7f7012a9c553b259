"""Laws for any tree of tasks with any outcomes."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

import phases
from phases import Context, Finished, Skipped, Started, Status
from phases.testing import FakeClock, RecordingObserver


@attrs.frozen
class Leaf:
    """A task that sleeps, reacts to cancellation or not, and ends as set; it records when it is undone."""

    name: str
    seconds: float
    obeys: bool
    end: str
    undone: list[tuple[str, ...]] = attrs.field(factory=list, eq=False, repr=False)

    def do(self, ctx: Context) -> object:
        """Sleep and end as set."""
        if self.obeys:
            ctx.sleep(self.seconds)
        else:
            with ctx.shielded() as deaf:
                deaf.sleep(self.seconds)
        match self.end:
            case "fail":
                raise OSError(self.name)
            case "skip":
                return phases.Skip("so told")
            case "cancel":
                raise phases.Cancelled("so told")
        return self.name

    def undo(self, ctx: Context) -> None:
        """Record the call."""
        self.undone.append(ctx.path)


NAMES = st.sampled_from(["a", "b", "c", "d"])  # names repeat: nothing may depend on their being different
LEAVES = st.builds(
    Leaf,
    name=NAMES,
    seconds=st.sampled_from([0, 1, 2, 3.5]),
    obeys=st.booleans(),
    end=st.sampled_from(["ok", "ok", "ok", "fail", "skip", "cancel"]),
)


def groups(members: st.SearchStrategy[phases.AnyTask]) -> st.SearchStrategy[phases.AnyTask]:
    """Groups, retries, deadlines and conditions around these."""
    lists = st.lists(members, max_size=4)
    return (
        st.builds(lambda tasks, name: phases.serial(*tasks, name=name), lists, NAMES)
        | st.builds(lambda tasks, name: phases.parallel(*tasks, name=name), lists, NAMES)
        | st.builds(lambda task: phases.retry(task, attempts=2, jitter=0), members)
        | st.builds(phases.deadline, members, st.sampled_from([1.5, 3]))
        | st.builds(phases.when, st.booleans(), members)
    )


TREES: st.SearchStrategy[phases.AnyTask] = st.recursive(LEAVES, groups, max_leaves=12)
DEADLINES = st.none() | st.sampled_from([0.5, 2, 4])


def run(tree: phases.AnyTask, deadline: float | None = None) -> tuple[phases.Report, RecordingObserver]:
    """The report and the events of a run on a fake clock."""
    seen = RecordingObserver()
    return phases.run(tree, clock=FakeClock(), observers=[seen], deadline=deadline), seen


@given(st.lists(LEAVES, min_size=1, max_size=6))
def test_serial_runs_the_prefix_up_to_the_first_failure(leaves: list[Leaf]) -> None:
    """Serial runs exactly the tasks up to and including the first that does not succeed, in order."""
    good = 0
    while good < len(leaves) and leaves[good].end in {"ok", "skip"}:
        good += 1
    report, seen = run(phases.serial(*leaves, name="all"))
    assert seen.started == ["all", *[f"all/{leaf.name}" for leaf in leaves[: good + 1]]]
    assert [child.name for child in report.children] == [leaf.name for leaf in leaves]
    assert [child.started is None for child in report.children[good + 1 :]] == [True] * len(leaves[good + 1 :])
    assert report.ok == (good == len(leaves))


@given(TREES, DEADLINES)
def test_each_started_task_has_one_start_and_one_end(tree: phases.AnyTask, deadline: float | None) -> None:
    """Every task begins once and ends once, inside its parent; a task that was not started has one event."""
    _, seen = run(tree, deadline)
    open_now: dict[int, int | None] = {}
    known: set[int] = set()
    for event in seen.events:
        match event:
            case Started() | Skipped():
                assert event.id not in known
                known.add(event.id)
                assert event.parent is None or event.parent in open_now
                if isinstance(event, Started):
                    open_now[event.id] = event.parent
            case Finished():
                del open_now[event.id]
                assert event.id not in open_now.values()
    assert open_now == {}


@given(TREES, DEADLINES)
def test_the_report_has_each_started_task_once(tree: phases.AnyTask, deadline: float | None) -> None:
    """The report is the events as a tree: the same tasks with the same status, each exactly once."""
    report, seen = run(tree, deadline)
    begun = [node for node in report.walk() if node.started is not None]
    assert sorted("/".join(node.path) for node in begun) == sorted(seen.started)
    assert sorted((node.ended or 0, node.status) for node in begun) == [
        (place, status) for place, (_, status) in enumerate(seen.finished, start=1)
    ]
    assert Status.RUNNING not in {node.status for node in report.walk()}


@given(TREES, DEADLINES)
def test_the_report_is_consistent(tree: phases.AnyTask, deadline: float | None) -> None:
    """A failed root has failures, an ok root only retried ones; the times of children fit into the parent's."""
    report, _ = run(tree, deadline)
    if report.status is Status.FAILED:
        assert report.failures
        assert phases.text.describe_error(report.failures[0].error) in report.headline
    for node in report.walk():
        for child in node.children:
            assert child.path[:-1] == node.path
            if child.started is not None and node.started is not None:
                assert child.started >= node.started
                assert (child.duration or 0) <= (node.duration or 0) + 1e-6


@given(TREES, DEADLINES)
def test_undo_order_is_the_reverse_of_completion(tree: phases.AnyTask, deadline: float | None) -> None:
    """After a run, undo calls exactly the tasks that began, in the reverse of the order in which they ended."""
    undone: list[tuple[str, ...]] = []
    for _, task in phases.tasks.walk(tree):
        leaf = phases.tasks.unwrapped(task)
        if isinstance(leaf, Leaf):
            object.__setattr__(leaf, "undone", undone)
    report, _ = run(tree, deadline)
    ends: dict[tuple[int, ...], phases.Report] = {}

    def last_attempts(node: phases.Report, place: tuple[int, ...]) -> None:
        """Only the last attempt at a group is undone."""
        ends[place] = node
        for child in node.children:
            last_attempts(child, (*place, child.order))

    last_attempts(report, ())
    expected = sorted(
        (
            node
            for place, node in ends.items()
            if node.ended is not None
            and node.status is not Status.SKIPPED
            and not any(ends[place[:length]].status is Status.SKIPPED for length in range(len(place)))
            and not _is_group(tree, place)
        ),
        key=lambda node: -(node.ended or 0),
    )
    phases.undo(tree, Context(observers=[]), after=report)
    assert undone == [node.path for node in expected]


def _is_group(tree: phases.AnyTask, place: tuple[int, ...]) -> bool:
    task = tree
    for order in place:
        task = phases.tasks.subtasks_of(task)[order]
    return not isinstance(phases.tasks.unwrapped(task), Leaf)


@given(TREES)
def test_planning_changes_nothing(tree: phases.AnyTask) -> None:
    """A plan names every task of the tree, and planning starts none."""
    seen = RecordingObserver()
    asked = phases.plan(tree, Context(observers=[seen]))
    assert [node.path for node in asked.walk()] == [path for path, _ in phases.tasks.walk(tree)]
    assert seen.events == []


@given(TREES, DEADLINES)
def test_execute_agrees_with_the_report(tree: phases.AnyTask, deadline: float | None) -> None:
    """Execute returns, raises TaskFailed or raises Cancelled, in agreement with the report."""
    seen = RecordingObserver()
    ctx = Context(clock=FakeClock(), observers=[seen], deadline=deadline)
    ended, failures = Status.OK, set()
    try:
        if isinstance(phases.execute(tree, ctx), phases.Skip):
            ended = Status.SKIPPED
    except phases.TaskFailed as failed:
        ended, failures = Status.FAILED, {failure.path for failure in failed.failures}
    except phases.Cancelled:
        ended = Status.CANCELLED
    assert seen.report.status is ended
    assert failures <= {failure.path for failure in seen.report.failures}
