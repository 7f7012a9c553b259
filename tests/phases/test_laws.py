"""Laws for any tree of tasks with any outcomes, and an oracle that says what each tree does."""

import heapq
import logging
import math
import random
from typing import NamedTuple

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

import phases
from phases import Context, Finished, Skipped, Started, Status
from phases.groups import Deadline, Parallel, Retry, Serial, When
from phases.testing import FakeClock, RecordingObserver

QUIET = logging.getLogger("phases.test.quiet")
QUIET.setLevel(logging.CRITICAL + 1)


class FinalError(Exception):
    """An error that is not worth another attempt."""

    can_retry = False


@attrs.define(eq=False)
class Leaf:
    """A task that sleeps, deaf to cancellation or not, and ends as set; it records when it is called and undone."""

    name: str
    deaf: bool
    end: str
    seconds: float = 0
    calls: int = 0
    undone: "list[Leaf]" = attrs.field(factory=list, repr=False)

    def do(self, ctx: Context) -> object:
        """Sleep and end as set."""
        self.calls += 1
        if self.deaf:
            with ctx.shielded() as safe:
                safe.sleep(self.seconds)
        else:
            ctx.sleep(self.seconds)
        match self.end:
            case "failed" | "final" | "exit" | "cancelled":
                raise {"failed": OSError, "final": FinalError, "exit": SystemExit, "cancelled": phases.Cancelled}[
                    self.end
                ]
            case "skipped":
                return phases.Skip("so told")
            case "stop":
                ctx.cancel("so told")
            case "check":
                ctx.check()
        return self.name

    def undo(self, _ctx: Context) -> None:
        """Record the call."""
        self.undone.append(self)


@attrs.define(eq=False)
class Shield:
    """A task that runs another one in a shield, for a limited time."""

    inner: phases.AnyTask
    grace: float = 0
    name: str = "shield"

    def do(self, ctx: Context) -> object:
        """Run the other."""
        with ctx.shielded(grace=self.grace) as safe:
            return phases.execute(self.inner, safe)


NAMES = st.sampled_from(["a", "b", "c", "d"])  # names repeat: nothing may depend on their being different
ENDS = ["ok"] * 6 + ["failed"] * 3 + ["final", "exit", "skipped", "cancelled", "stop", "check"]
LEAVES = st.builds(Leaf, name=NAMES, deaf=st.booleans(), end=st.sampled_from(ENDS))


def groups(members: st.SearchStrategy[phases.AnyTask]) -> st.SearchStrategy[phases.AnyTask]:
    """Groups, retries, deadlines, conditions and shields around these."""
    lists = st.lists(members, max_size=4)
    at_once = st.none() | st.integers(1, 3)
    return (
        st.builds(lambda tasks, name: phases.serial(*tasks, name=name), lists, NAMES)
        | st.builds(lambda tasks, name, most: phases.parallel(*tasks, name=name, at_once=most), lists, NAMES, at_once)
        | st.builds(lambda task, attempts: Retry(task, attempts, 1, 1, 1, 0, Exception), members, st.integers(1, 3))
        | st.builds(phases.deadline, members, st.just(1))
        | st.builds(phases.when, st.sampled_from([True, True, False]), members)
        | st.builds(Shield, members)
    )


def timed(root: phases.AnyTask, chance: random.Random) -> phases.AnyTask:
    """The tree with a time of its own for each leaf, limit and wait: no two things happen at the same moment.

    The times have few binary digits, so that sums of them are exact.
    """

    def some(most: int) -> float:
        return float(chance.randrange(1, most << 20)) / (1 << 20)

    match root:
        case Leaf():
            return attrs.evolve(root, seconds=some(4))
        case Serial() | Parallel():
            return attrs.evolve(root, subtasks=tuple(timed(member, chance) for member in root.subtasks))
        case Shield():
            return attrs.evolve(root, inner=timed(root.inner, chance), grace=some(8))
        case Deadline():
            return attrs.evolve(root, wrapped=timed(root.wrapped, chance), seconds=some(8))
        case Retry():
            wait = some(4)
            # As by default, the error says whether to retry.
            return phases.retry(timed(root.wrapped, chance), attempts=root.attempts, delay=wait, factor=1, jitter=0)
        case When():
            return attrs.evolve(root, wrapped=timed(root.wrapped, chance))
    raise AssertionError


CHANCES = st.builds(random.Random, st.integers(0, 1 << 64))
TREES = st.builds(timed, st.recursive(LEAVES, groups, max_leaves=12), CHANCES)
DEADLINES = st.none() | st.builds(lambda chance: chance.randrange(1, 8 << 20) / (1 << 20), CHANCES)


class Around(NamedTuple):
    """What is around a task: when and by what it is stopped, its nearest deadline, and how it is called."""

    stop: float
    by: object
    limit: float
    path: tuple[str, ...] = ()
    attempt: int = 1


class Line(NamedTuple):
    """What happened to one task: its end, if it began, and how many times it began again."""

    path: tuple[str, ...]
    attempt: int
    status: str
    end: float
    task: phases.AnyTask
    again: int = 0


class Result(NamedTuple):
    """The result of the oracle: when a task ends, how, what cancelled it, and every line of the tasks inside it."""

    end: float
    how: str
    by: object = None
    lines: tuple[Line, ...] = ()
    again: int = 0


STATUS = {"final": "failed", "exit": "failed"}


def step(task: phases.AnyTask, now: float, around: Around) -> Result:
    """A task that has a name: one line."""
    path = (*around.path, task.name)
    if around.stop <= now:
        return Result(now, "cancelled", around.by, (Line(path, around.attempt, "not started", 0, task),))
    result = do(task, now, around._replace(path=path, attempt=1))
    status = STATUS.get(result.how, result.how)
    line = Line(path, around.attempt, status, result.end, phases.tasks.layers_of(task)[-1], result.again)
    return result._replace(lines=(*result.lines, line), again=0)


def do(task: phases.AnyTask, now: float, around: Around) -> Result:
    """What a task does that began at this moment."""
    match task:
        case Leaf():
            end = now + task.seconds
            if around.stop < end and (not task.deaf or task.end == "check"):
                return Result(end if task.deaf else around.stop, "cancelled", around.by)
            return Result(end, "ok" if task.end in {"check", "stop"} else task.end)
        case Serial():
            lines: tuple[Line, ...] = ()
            for place, member in enumerate(task.subtasks):
                result = step(member, now, around)
                now, lines = result.end, lines + result.lines
                if result.how not in {"ok", "skipped"}:
                    rest = task.subtasks[place + 1 :]
                    never = [Line((*around.path, one.name), around.attempt, "not started", 0, one) for one in rest]
                    return result._replace(lines=(*lines, *never))
            return Result(now, "ok", None, lines)
        case Parallel():
            first = min(
                (bad.end for bad in together(task, now, around) if bad.how not in {"ok", "skipped"}), default=math.inf
            )
            stopped = around._replace(stop=first, by=task) if first < around.stop else around
            members = together(task, now, stopped)
            worst = [bad for how in ("exit", "final", "failed", "cancelled") for bad in members if bad.how == how]
            end = max((member.end for member in members), default=now)
            lines = tuple(line for member in members for line in member.lines)
            if not worst:
                return Result(end, "ok", None, lines)
            return min((bad for bad in worst if bad.how == worst[0].how), key=end_of)._replace(end=end, lines=lines)
        case Shield():
            inner = Around(now + task.grace, around, now + task.grace, around.path, around.attempt)
            return missed(step(task.inner, now, inner), by=around)
        case Deadline():
            limit = now + task.seconds
            inner = around._replace(limit=min(limit, around.limit))
            inner = inner._replace(stop=limit, by=around) if limit <= around.stop else inner
            return missed(do(task.wrapped, now, inner), by=around)
        case When():
            return do(task.wrapped, now, around) if task.condition else Result(now, "skipped")
        case Retry():
            lines, again = (), 0
            for attempt in range(1, task.attempts + 1):
                result = do(task.wrapped, now, around._replace(attempt=attempt))
                lines, again, now = lines + result.lines, again + result.again, result.end
                if result.how != "failed" or attempt == task.attempts or around.limit - now <= task.delay:
                    return result._replace(lines=lines, again=again)
                if around.stop <= now + task.delay:
                    return Result(max(now, around.stop), "cancelled", around.by, lines, again)
                now, again = now + task.delay, again + 1
    raise AssertionError


def missed(result: Result, *, by: object) -> Result:
    """The result of a task with a deadline: if the deadline cancels it, that is a failure."""
    return result._replace(how="failed") if result.how == "cancelled" and result.by is by else result


def together(group: Parallel, now: float, around: Around) -> list[Result]:
    """The members of a group, each from the moment at which a thread is free."""
    free, results = [now] * (group.at_once or len(group.subtasks)), []
    for member in group.subtasks:
        results.append(step(member, heapq.heappop(free), around))
        heapq.heappush(free, results[-1].end)
    return results


def end_of(result: Result) -> float:
    """When the task ended."""
    return result.end


def foretold(tree: phases.AnyTask, deadline: float | None) -> Result:
    """The expected run: first as if no leaf cancelled it, then cut off by the first one that does."""
    limit = math.inf if deadline is None else deadline
    free = step(tree, 0, Around(limit, None, limit))
    told = [
        line.end
        for line in free.lines
        if isinstance(line.task, Leaf) and line.task.end == "stop" and line.status == "ok"
    ]
    return step(tree, 0, Around(min([limit, *told]), None, limit))


class Recorder:
    """An observer that records each task's end with its moment."""

    def __init__(self, clock: FakeClock) -> None:
        """Record on this clock."""
        self.clock, self.attempts = clock, dict[int, int]()
        self.lines: list[tuple[tuple[str, ...], int, str, float]] = []

    def __call__(self, event: phases.Event) -> None:
        """Record the event."""
        if isinstance(event, Started):
            self.attempts[event.id] = event.attempt
        if isinstance(event, Finished):
            self.lines.append((event.path, self.attempts[event.id], str(event.status), self.clock.now()))
        if isinstance(event, Skipped):
            self.lines.append((event.path, event.attempt, "not started", 0))


def leaves(task: phases.AnyTask) -> list[Leaf]:
    """The leaves that the tree knows of."""
    inside = [phases.tasks.layers_of(member)[-1] for _, member in phases.tasks.walk(task)]
    return [leaf for leaf in inside if isinstance(leaf, Leaf)]


BREAKS = st.sampled_from([None, OSError, SystemExit, GeneratorExit, phases.Cancelled])


@settings(max_examples=10 * settings().max_examples)
@given(TREES, DEADLINES, BREAKS)
def test_a_run_does_what_the_oracle_says(
    tree: phases.AnyTask, deadline: float | None, breaks: type[BaseException] | None
) -> None:
    """Each task begins and ends as foretold, at the same moment, whatever observers raise; so is what undo calls."""

    def broken(_event: phases.Event) -> None:
        if breaks is not None:
            raise breaks

    clock, undone = FakeClock(), list[Leaf]()
    for leaf in leaves(tree):
        leaf.undone = undone
    seen = Recorder(clock)
    report = phases.run(tree, clock=clock, observers=[broken, seen], deadline=deadline, logger=QUIET)
    expected = foretold(tree, deadline)
    assert sorted(seen.lines) == sorted(line[:4] for line in expected.lines)
    assert report.status == STATUS.get(expected.how, expected.how) or not seen.attempts
    phases.undo(tree, Context(observers=[broken], logger=QUIET))
    assert [*map(id, undone)] == [*map(id, leaves(tree))][::-1]


def run(tree: phases.AnyTask, deadline: float | None = None) -> tuple[phases.Report, RecordingObserver]:
    """The report and the events of a run on a fake clock."""
    seen = RecordingObserver()
    return phases.run(tree, clock=FakeClock(), observers=[seen], deadline=deadline), seen


@given(TREES, DEADLINES)
def test_the_report_is_the_run(tree: phases.AnyTask, deadline: float | None) -> None:
    """The report has each task once, inside its parent and its parent's time; a failed root has failures."""
    report, seen = run(tree, deadline)
    begun = [node for node in report.walk() if node.started is not None]
    assert sorted("/".join(node.path) for node in begun) == sorted(seen.started)
    assert sorted((node.ended or 0, node.status) for node in begun) == [
        (place, status) for place, (_, status) in enumerate(seen.finished, start=1)
    ]
    if report.status is Status.FAILED:
        assert phases.text.describe_error(report.failures[0].error) in report.headline
    for node in report.walk():
        for child in node.children:
            assert child.path[:-1] == node.path
            if child.started is not None and node.started is not None:
                assert child.started >= node.started
                assert (child.ended or 0) < (node.ended or 0)


@given(TREES)
def test_planning_changes_nothing(tree: phases.AnyTask) -> None:
    """A plan names every task of the tree, and planning starts none."""
    seen = RecordingObserver()
    asked = phases.plan(tree, Context(observers=[seen]))
    assert [node.path for node in asked.walk()] == [path for path, _ in phases.tasks.walk(tree)]
    assert seen.events == []


@given(TREES, DEADLINES)
def test_execute_agrees_with_the_report(tree: phases.AnyTask, deadline: float | None) -> None:
    """Execute returns, raises TaskFailed, Cancelled or SystemExit, in agreement with the report."""
    seen = RecordingObserver()
    ctx = Context(clock=FakeClock(), observers=[seen], deadline=deadline)
    ended, failures = Status.OK, set()
    try:
        if isinstance(phases.execute(tree, ctx), phases.Skip):
            ended = Status.SKIPPED
    except phases.TaskFailed as failed:
        ended, failures = Status.FAILED, {failure.path for failure in failed.failures}
    except SystemExit:
        ended = Status.FAILED
    except phases.Cancelled:
        ended = Status.CANCELLED
    assert seen.report.status is ended
    assert failures <= {failure.path for failure in seen.report.failures}
