"""Laws for any tree of tasks with any outcomes, and an oracle that says what each tree does."""

import heapq
import logging
import math
import random
import threading
from typing import NamedTuple

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st

import phases
from phases import Context, Step
from phases.testing import FakeClock

QUIET = logging.getLogger("phases.test.quiet")
QUIET.setLevel(logging.CRITICAL + 1)


@attrs.frozen
class Spec:
    """A tree to be made of tasks: a leaf ends as `end` says, deaf to cancellation or not."""

    kind: str
    name: str = ""
    members: tuple["Spec", ...] = ()
    end: str = "ok"
    deaf: bool = False
    number: int = 1
    """The attempts of a retry, and how many tasks of a parallel group run at once."""
    seconds: float = 0
    """The length of a leaf, the limit of a deadline or a shield, and the pause of a retry."""


class FinalError(Exception):
    """An error that is not worth another attempt."""

    can_retry = False


ERRORS = {"failed": OSError, "final": FinalError, "exit": SystemExit, "cancelled": phases.Cancelled}


def task_of(spec: Spec, undone: list[Spec]) -> phases.AnyTask:
    """The task, which records when it is undone."""
    members = [task_of(member, undone) for member in spec.members]

    def leaf(ctx: Context) -> object:
        if spec.deaf:
            with ctx.shielded() as safe:
                safe.sleep(spec.seconds)
        else:
            ctx.sleep(spec.seconds)
        if spec.end in ERRORS:
            raise ERRORS[spec.end]
        if spec.end == "stop":
            ctx.cancel()
        if spec.end == "check":
            ctx.check()
        return phases.Skip("so told") if spec.end == "skipped" else spec

    def shield(ctx: Context) -> object:
        with ctx.shielded(grace=spec.seconds) as safe:
            return phases.execute(members[0], safe)

    match spec.kind:
        case "leaf":
            return phases.task(spec.name, undo=lambda _: undone.append(spec))(leaf)
        case "serial":
            return phases.serial(*members, name=spec.name)
        case "parallel":
            return phases.parallel(*members, name=spec.name, at_once=spec.number)
        case "retry":
            return phases.retry(members[0], attempts=spec.number, delay=spec.seconds, factor=1, jitter=0)
        case "deadline":
            return phases.deadline(members[0], spec.seconds)
        case "when":
            return phases.when(lambda _: spec.end == "ok", members[0])
    return phases.task(spec.name)(shield)


def timed(spec: Spec, chance: random.Random) -> Spec:
    """The tree with a time of its own for each part: no two things happen at the same moment.

    The times have few binary digits, so that sums of them are exact.
    """
    seconds = chance.randrange(1, 8 << 20) / (1 << 20)
    return attrs.evolve(spec, seconds=seconds, members=tuple(timed(member, chance) for member in spec.members))


NAMES = st.sampled_from(["a", "b", "c", "d"])  # names repeat: nothing may depend on their being different
ENDS = ["ok"] * 6 + ["failed"] * 3 + ["final", "exit", "skipped", "cancelled", "stop", "check"]
LEAVES = st.builds(Spec, st.just("leaf"), NAMES, end=st.sampled_from(ENDS), deaf=st.booleans())
GROUPS = st.sampled_from(["serial", "parallel"])
WRAPPERS = st.sampled_from(["retry", "deadline", "when", "shield"])
CHANCES = st.builds(random.Random, st.integers(0, 1 << 64))


def around(members: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    """Groups and wrappers around these."""
    lists, ends = st.lists(members, max_size=4).map(tuple), st.sampled_from(["ok", "ok", "unmet"])
    return st.builds(Spec, GROUPS, NAMES, lists, number=st.integers(1, 4)) | st.builds(
        Spec, WRAPPERS, NAMES, members=st.tuples(members), end=ends, number=st.integers(1, 3)
    )


TREES = st.builds(timed, st.recursive(LEAVES, around, max_leaves=12), CHANCES)
DEADLINES = st.none() | st.builds(lambda chance: chance.randrange(1, 16 << 20) / (1 << 20), CHANCES)


class Around(NamedTuple):
    """What is around a task: when and by what it is stopped, its nearest deadline, and its path."""

    stop: float
    by: object
    limit: float
    path: tuple[str, ...] = ()


class Line(NamedTuple):
    """What happens to one task: its path, status, end (0 if it never starts), attempts, and spec."""

    path: tuple[str, ...]
    status: str
    end: float
    attempts: int
    spec: Spec


class Result(NamedTuple):
    """The result of the oracle: when a task ends, how, what cancelled it, its attempts, and the lines inside it."""

    end: float
    how: str
    by: object = None
    lines: tuple[Line, ...] = ()
    again: int = 0


STATUS = {"final": "failed", "exit": "failed"}
FINE = {"ok", "skipped"}


def core(spec: Spec) -> Spec:
    """The task inside the wrappers, which gives them its name."""
    while spec.kind in {"retry", "deadline", "when"}:
        [spec] = spec.members
    return spec


def step(spec: Spec, now: float, around: Around) -> Result:
    """A task that has a name: one line."""
    path, task = (*around.path, core(spec).name), core(spec)
    if around.stop <= now:
        return Result(now, "cancelled", around.by, (Line(path, "cancelled", 0, 1, task),))
    result = do(spec, now, around._replace(path=path))
    line = Line(path, STATUS.get(result.how, result.how), result.end, 1 + result.again, task)
    return result._replace(lines=(*result.lines, line), again=0)


def do(spec: Spec, now: float, around: Around) -> Result:
    """What a task does that began at this moment."""
    lines: tuple[Line, ...] = ()
    match spec.kind:
        case "leaf":
            end = now + spec.seconds
            if around.stop < end and (not spec.deaf or spec.end == "check"):
                return Result(end if spec.deaf else around.stop, "cancelled", around.by)
            return Result(end, "ok" if spec.end in {"check", "stop"} else spec.end)
        case "serial":
            for place, member in enumerate(spec.members, start=1):
                result = step(member, now, around)
                now, lines = result.end, lines + result.lines
                if result.how not in FINE:
                    rest = [core(later) for later in spec.members[place:]]
                    never = [Line((*around.path, task.name), "skipped", 0, 1, task) for task in rest]
                    return result._replace(lines=(*lines, *never))
            return Result(now, "ok", None, lines)
        case "parallel":
            first = min((bad.end for bad in together(spec, now, around) if bad.how not in FINE), default=math.inf)
            stopped = around._replace(stop=first, by=spec) if first < around.stop else around
            members = together(spec, now, stopped)
            end = max((member.end for member in members), default=now)
            lines = tuple(line for member in members for line in member.lines)
            worst = [bad for how in ("exit", "final", "failed", "cancelled") for bad in members if bad.how == how]
            ends = sorted((bad for bad in worst if bad.how == worst[0].how), key=lambda bad: bad.end)
            return ends[0]._replace(end=end, lines=lines) if ends else Result(end, "ok", None, lines)
        case "shield":
            limit = now + spec.seconds
            return missed(step(spec.members[0], now, Around(limit, spec, limit, around.path)), spec)
        case "deadline":
            limit = now + spec.seconds
            inner = around._replace(limit=min(limit, around.limit))
            inner = inner._replace(stop=limit, by=spec) if limit <= around.stop else inner
            return missed(do(spec.members[0], now, inner), spec)
        case "when":
            return do(spec.members[0], now, around) if spec.end == "ok" else Result(now, "skipped")
    result = do(spec.members[0], now, around)
    if result.how != "failed" or spec.number == 1:
        return result
    now, later = result.end, result.end + spec.seconds
    is_own = around.stop == now and around.by is not None  # it is the failure that stops the group around it
    if (around.stop <= now and not is_own) or now < around.stop <= later < around.limit:
        return result._replace(end=max(now, around.stop), how="cancelled", by=around.by)
    if around.limit <= later:
        return result
    further = do(attrs.evolve(spec, number=spec.number - 1), later, around)
    return further._replace(lines=result.lines + further.lines, again=result.again + further.again + 1)


def missed(result: Result, spec: Spec) -> Result:
    """The result of a task with a deadline: if the deadline cancels it, that is a failure."""
    return result._replace(how="failed") if result.how == "cancelled" and result.by is spec else result


def together(spec: Spec, now: float, around: Around) -> list[Result]:
    """The members of a group, each from the moment at which a thread is free."""
    free, results = [now] * spec.number, list[Result]()
    for member in spec.members:
        results.append(step(member, heapq.heappop(free), around))
        heapq.heappush(free, results[-1].end)
    return results


def foretold(tree: Spec, deadline: float | None) -> Result:
    """The expected run: first as if no leaf cancelled it, then cut off by the first one that does."""
    limit = math.inf if deadline is None else deadline
    free = step(tree, 0, Around(limit, None, limit))
    stops = [line.end for line in free.lines if line.spec.end == "stop" and line.end and line.status == "ok"]
    return step(tree, 0, Around(min([limit, *stops]), None, limit))


def leaves(spec: Spec) -> list[Spec]:
    """The leaves that the tree knows of."""
    if spec.kind == "leaf":
        return [spec]
    return [leaf for member in spec.members for leaf in leaves(member)] if spec.kind != "shield" else []


class Watch:
    """An observer that records each start and end with its moment, and then raises."""

    def __init__(self, clock: FakeClock, raises: type[BaseException] | None) -> None:
        self.clock, self.raises = clock, raises
        self.starts: list[Step] = []
        self.ends: list[tuple[Step, float]] = []

    def started(self, step: Step) -> None:
        """Record the start."""
        self.starts.append(step)
        self.fail()

    def ended(self, step: Step) -> None:
        """Record the end."""
        self.ends.append((step, 0 if step.start is None else self.clock.now()))
        self.fail()

    def fail(self) -> None:
        """Raise."""
        if self.raises is not None:
            raise self.raises


RAISED = st.sampled_from([None, OSError, SystemExit, GeneratorExit, phases.Cancelled])


@settings(max_examples=10 * settings().max_examples)
@given(TREES, DEADLINES, RAISED)
@example(Spec("retry", members=(Spec("leaf", "a", end="failed", deaf=True, seconds=2),), number=2, seconds=3), 1, None)
def test_a_run_does_what_the_oracle_says(
    tree: Spec, deadline: float | None, raises: type[BaseException] | None
) -> None:
    """Each task has one start and one end, as and when foretold, whatever observers raise; no thread is left.

    Undo calls every undo, the last first.
    """
    clock, undone, threads = FakeClock(), list[Spec](), threading.active_count()
    task, seen = task_of(tree, undone), Watch(clock, raises)
    report = phases.run(task, clock=clock, observers=[seen], deadline=deadline, logger=QUIET)
    expected = foretold(tree, deadline)
    assert sorted(
        ("/".join(each.path), str(each.status), moment, each.attempts) for each, moment in seen.ends
    ) == sorted(("/".join(line.path), *line[1:4]) for line in expected.lines)
    assert report.status == STATUS.get(expected.how, expected.how)
    assert sorted(map(id, seen.starts)) == sorted(id(each) for each, _ in seen.ends if each.start is not None)
    assert sorted(map(id, report.walk())) == sorted(id(each) for each, _ in seen.ends)
    assert threading.active_count() == threads
    assert phases.undo(task, Context(observers=[seen], logger=QUIET)).ok
    assert [*map(id, undone)] == [*map(id, leaves(tree))][::-1]
