"""Laws for any tree of tasks with any outcomes, and an oracle that says what each tree does."""

import heapq
import logging
import math
import random
import threading
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import attrs
from hypothesis import example, given, settings, strategies as st

import phases
from phases import Context, Status, Step
from phases.tasks import FunctionTask, WrappedTask
from phases.testing import FakeClock

QUIET = logging.getLogger("phases.test.quiet")
QUIET.setLevel(logging.CRITICAL + 1)


@attrs.frozen
class Spec:
    """A tree to be made of tasks: a leaf ends as `end` says, deaf to cancellation or not."""

    kind: str
    name: str
    members: tuple["Spec", ...] = ()
    end: str = "ok"
    deaf: bool = False
    undo_fails: bool = False
    in_block: bool = False
    """Whether a task of somebody else runs its member in a `with` block, not as a task."""
    number: int = 1
    """The attempts of a retry, and how many tasks of a parallel group run at once."""
    seconds: float = 0
    """The length of a leaf, the limit of a deadline or a shield, and the pause of a retry."""


class FinalError(Exception):
    """An error that is not worth another attempt."""

    can_retry = False


ERRORS = {
    "failed": OSError,
    "failed, then skipped": OSError,
    "final": FinalError,
    "exit": SystemExit,
    "cancelled": phases.Cancelled,
}


class World:
    """The paths of the leaves of one tree that have made something, were undone or planned."""

    def __init__(self) -> None:
        self.made: set[str] = set()
        self.undone: list[str] = []
        self.planned: list[str] = []

    def task_of(self, spec: Spec) -> phases.AnyTask:
        members = [self.task_of(member) for member in spec.members]
        match spec.kind:
            case "leaf":
                return self._leaf(spec)
            case "serial":
                return phases.serial(*members, name=spec.name)
            case "parallel":
                return phases.parallel(*members, name=spec.name, at_once=spec.number)
            case "retry":
                return phases.retry(members[0], attempts=spec.number, delay=spec.seconds, jitter=0)
            case "deadline":
                return phases.deadline(members[0], spec.seconds)
            case "when":
                return phases.when(lambda _: spec.end == "ok", members[0])
            case "own":
                return _own_group(spec, members[0])
        return _shield(spec, members[0])

    def _leaf(self, spec: Spec) -> phases.AnyTask:
        def do(ctx: Context) -> object:
            assert ctx.step is not None
            end = spec.end
            if end == "failed, then skipped" and ctx.step.attempts > 1:
                end = "skipped"
            if end != "skipped":
                self.made.add(path_of(ctx))
            if spec.deaf:
                with ctx.shielded() as safe:
                    safe.sleep(spec.seconds)
            else:
                ctx.sleep(spec.seconds)
            if end in ERRORS:
                raise ERRORS[end]
            if end == "check":
                ctx.check()
            if end == "skipped":
                return phases.Skip("so told")
            return spec

        def undo(ctx: Context) -> None:
            self.undone.append(path_of(ctx))
            self.made.discard(path_of(ctx))
            if spec.undo_fails:
                raise OSError

        def plan(ctx: Context) -> None:
            self.planned.append(path_of(ctx))

        return FunctionTask(spec.name, do, plan, undo)


def path_of(place: Context | Step) -> str:
    """The path as the oracle writes it."""
    return "/" + "/".join(place.path)


def _own_group(spec: Spec, member: phases.AnyTask) -> phases.AnyTask:
    """A group of somebody else, which knows no TaskFailed, or has nothing to do itself."""

    def do(ctx: Context) -> object:
        try:
            result = _run_inside(spec, member, ctx)
        except phases.TaskFailed as failed:
            if len(failed.failures) == 1 and failed.error is not None:
                raise failed.error from None
            raise
        return result if spec.end == "ok" else phases.Skip("nothing else to do")

    return FunctionTask(spec.name, do, subtasks=(member,))


def _run_inside(spec: Spec, member: phases.AnyTask, ctx: Context) -> object:
    if not spec.in_block:
        return phases.execute(member, ctx)
    with phases.inner_step(member.name, ctx) as inner:
        inner.result = member.do(inner.ctx)
    return inner.result


def _shield(spec: Spec, member: phases.AnyTask) -> phases.AnyTask:
    """A task that only its own time stops, and not the run."""

    def do(ctx: Context) -> object:
        with ctx.shielded() as shielded, shielded.within(spec.seconds) as safe:
            return _run_inside(spec, member, safe)

    return FunctionTask(spec.name, do, subtasks=(member,))


def timed(spec: Spec, chance: random.Random) -> Spec:
    """The tree with a time of its own for each part: no two things happen at the same moment.

    The times have few binary digits, so that sums of them are exact.
    """
    members = tuple(timed(member, chance) for member in spec.members)
    return attrs.evolve(spec, seconds=chance.randrange(1, 8 << 20) / (1 << 20), members=members)


# Names repeat, but not side by side.
NAMES = st.sampled_from(["a", "b", "c", "d"])
ENDS = ["ok"] * 6 + ["failed"] * 3 + ["failed, then skipped"] * 2
ENDS += ["final", "exit", "skipped", "cancelled", "check"]
LEAVES = st.builds(
    Spec,
    st.just("leaf"),
    NAMES,
    end=st.sampled_from(ENDS),
    deaf=st.booleans(),
    undo_fails=st.sampled_from([False, False, True]),
)
CHANCES = st.builds(random.Random, st.integers(0, 1 << 64))


def around_members(members: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    groups = st.builds(
        Spec,
        st.sampled_from(["serial", "parallel"]),
        NAMES,
        st.lists(members, max_size=4, unique_by=lambda member: member.name).map(tuple),
        number=st.integers(1, 4),
    )
    wrappers = st.builds(
        lambda kind, member, end, number, in_block: Spec(
            kind, member.name, (member,), end, number=number, in_block=in_block
        ),
        st.sampled_from(["retry", "deadline", "when", "own", "shield"]),
        members,
        st.sampled_from(["ok", "ok", "unmet"]),
        st.integers(1, 3),
        st.booleans(),
    )
    return groups | wrappers


TREES = st.builds(timed, st.recursive(LEAVES, around_members, max_leaves=12), CHANCES)
MOMENTS = st.just(math.inf) | st.builds(
    lambda chance: chance.randrange(1, 16 << 20) / (1 << 20), CHANCES
)

NEVER = -1.0

Line = tuple[str, str, float, int]
"""The path of a step, its status, its end (NEVER if it does not start), and its attempts."""


class Around(NamedTuple):
    """What is around a task."""

    stop: float
    """The moment at which it is stopped."""
    by: object = None
    """The spec that stops it, if one does."""
    limit: float = math.inf
    """The nearest deadline."""
    path: str = ""
    attempts: int = 1
    """The number of the attempt in which its step is."""


class Result(NamedTuple):
    """When and how a task ends."""

    end: float
    how: str
    by: object = None
    """The spec that cancelled it, if one did."""
    again: int = 0
    """The attempts after its first one."""
    lines: tuple[Line, ...] = ()
    """Of each step inside it."""
    failures: tuple[str, ...] = ()
    """The paths of the steps inside it that made it fail; empty if it failed by itself."""


FAILURES = ["exit", "final", "failed"]
WORST = [*FAILURES, "cancelled"]


def step(spec: Spec, now: float, around: Around) -> Result:
    """A task that has a name: one line."""
    path = f"{around.path}/{spec.name}"
    if around.stop <= now:
        return Result(now, "cancelled", around.by, lines=((path, "cancelled", NEVER, 1),))
    inside = around._replace(path=path, attempts=1)
    result = OUTCOMES[spec.kind](spec, now, inside)
    status, failures = result.how, result.failures
    if status in FAILURES:
        status = "failed"
        failures = failures or (path,)
    line = (path, status, result.end, 1 + result.again)
    return result._replace(lines=(*result.lines, line), failures=failures, again=0)


def leaf(spec: Spec, now: float, around: Around) -> Result:
    """It ends after its time as it should, or when it is stopped."""
    end, how = now + spec.seconds, spec.end
    if around.stop < end and not spec.deaf:
        return Result(around.stop, "cancelled", around.by)
    if around.stop < end and how == "check":
        return Result(end, "cancelled", around.by)
    if how == "failed, then skipped":
        how = "failed" if around.attempts == 1 else "skipped"
    return Result(end, "ok" if how == "check" else how)


def serial(spec: Spec, now: float, around: Around) -> Result:
    """The members in order, until one fails or is cancelled."""
    lines: tuple[Line, ...] = ()
    for number, member in enumerate(spec.members, start=1):
        result = step(member, now, around)
        now = result.end
        lines += result.lines
        if result.how in WORST:
            for later in spec.members[number:]:
                lines += ((f"{around.path}/{later.name}", "skipped", NEVER, 1),)
            return result._replace(lines=lines)
    return Result(now, "ok", lines=lines)


def parallel(spec: Spec, now: float, around: Around) -> Result:
    """The members side by side; the first that fails or is cancelled stops the others."""
    ends = [member.end for member in together(spec, now, around) if member.how in WORST]
    first = min(ends, default=math.inf)
    if first < around.stop:
        around = around._replace(stop=first, by=spec)
    members = together(spec, now, around)
    end = max((member.end for member in members), default=now)
    lines = tuple(chain.from_iterable(member.lines for member in members))

    bad = [member for member in members if member.how in WORST]
    if not bad:
        return Result(end, "ok", lines=lines)
    bad.sort(key=lambda member: member.end)
    worst = min(bad, key=lambda member: WORST.index(member.how))
    failures = worst.failures
    if worst.how != "exit":
        failures = tuple(chain.from_iterable(member.failures for member in bad))
    return worst._replace(end=end, lines=lines, failures=failures)


def together(spec: Spec, now: float, around: Around) -> list[Result]:
    """The members of a group, each from the moment at which a thread is free."""
    free = [now] * spec.number
    results: list[Result] = []
    for member in spec.members:
        results.append(step(member, heapq.heappop(free), around))
        heapq.heappush(free, results[-1].end)
    return results


def retry(spec: Spec, now: float, around: Around) -> Result:
    """The member again after a pause, if it has failed and nothing stops it meanwhile. A pause that
    would pass the deadline ends earlier: the last attempt has as long as this one, and a second
    more.
    """
    result = wrapped_member(spec, now, around)
    took = result.end - now
    later = result.end + spec.seconds
    if result.how != "failed" or spec.number == 1 or around.stop <= result.end:
        return result
    latest = around.limit - took - 1
    if latest - result.end < 0.001:
        return result
    later = min(later, latest)
    if around.stop <= later:
        return result._replace(end=around.stop, how="cancelled", by=around.by, failures=())
    again = around._replace(attempts=around.attempts + result.again + 1)
    rest = attrs.evolve(spec, number=spec.number - 1, seconds=min(spec.seconds * 2, 30))
    further = retry(rest, later, again)
    attempts = result.again + further.again + 1
    return further._replace(lines=result.lines + further.lines, again=attempts)


def deadline(spec: Spec, now: float, around: Around) -> Result:
    """The member; it fails if its time is up first."""
    limit = now + spec.seconds
    inside = around._replace(limit=min(limit, around.limit))
    if limit <= around.stop:
        inside = inside._replace(stop=limit, by=spec)
    return in_time(spec, wrapped_member(spec, now, inside))


def shield(spec: Spec, now: float, around: Around) -> Result:
    """The member as a step, which only its own time can stop."""
    limit = now + spec.seconds
    inside = around._replace(stop=limit, by=spec, limit=limit)
    return in_time(spec, step(spec.members[0], now, inside))


def in_time(spec: Spec, result: Result) -> Result:
    """The result; a failure if the time of this spec was up."""
    if result.how == "cancelled" and result.by is spec:
        return result._replace(how="failed")
    return result


def when(spec: Spec, now: float, around: Around) -> Result:
    """The member, or nothing."""
    if spec.end == "ok":
        return wrapped_member(spec, now, around)
    return Result(now, "skipped")


def own(spec: Spec, now: float, around: Around) -> Result:
    """The member as a step; if that is well, perhaps a Skip."""
    result = step(spec.members[0], now, around)
    if result.how in WORST or spec.end == "ok":
        return result
    return result._replace(how="skipped")


def wrapped_member(spec: Spec, now: float, around: Around) -> Result:
    """What the member does, which has the name and the step of the wrapper around it."""
    member = spec.members[0]
    return OUTCOMES[member.kind](member, now, around)


OUTCOMES: dict[str, Callable[[Spec, float, Around], Result]] = {
    "leaf": leaf,
    "serial": serial,
    "parallel": parallel,
    "retry": retry,
    "deadline": deadline,
    "when": when,
    "own": own,
    "shield": shield,
}
"""What a task of each kind does that begins at this moment."""


def undo_of(spec: Spec, above: str = "") -> dict[str, Spec]:
    """The leaves that the tree knows of by their paths, the last first."""
    if spec.kind in {"retry", "deadline", "when"}:
        return undo_of(spec.members[0], above)
    path = f"{above}/{spec.name}"
    if spec.kind == "leaf":
        return {path: spec}
    leaves: dict[str, Spec] = {}
    for member in reversed(spec.members):
        leaves |= undo_of(member, path)
    return leaves


def undo_of_what_ran(spec: Spec, lines: tuple[Line, ...]) -> dict[str, Spec]:
    """The leaves whose path is that of a step that did something, or of a group around one."""
    did_something: list[str] = []
    for path, status, end, attempts in lines:
        was_skipped = status == "skipped" and attempts == 1
        if end != NEVER and not was_skipped:
            did_something.append(f"{path}/")

    def has_run(path: str) -> bool:
        return any(inner.startswith(f"{path}/") for inner in did_something)

    return {path: leaf for path, leaf in undo_of(spec).items() if has_run(path)}


def failing(leaves: dict[str, Spec]) -> list[str]:
    """The paths of those whose undo fails."""
    return [path for path, leaf in leaves.items() if leaf.undo_fails]


class Watch:
    """An observer that records each start and end with its moment, and then raises."""

    def __init__(self, clock: FakeClock, raises: type[Exception] | None) -> None:
        self.clock, self.raises = clock, raises
        self.starts: list[Step] = []
        self.ends: list[tuple[Step, float]] = []

    def __call__(self, step: Step) -> None:
        if step.status is Status.RUNNING:
            self.starts.append(step)
        else:
            self.ends.append((step, NEVER if step.start is None else self.clock.now()))
        if self.raises is not None:
            raise self.raises

    def lines(self) -> list[Line]:
        """A line for each step that has ended, without those of an undo."""
        steps = [(step, end) for step, end in self.ends if step.action == "do"]
        return [(path_of(step), str(step.status), end, step.attempts) for step, end in steps]


def cancelled_at(moment: float, task: phases.AnyTask) -> phases.AnyTask:
    """The task, whose run is cancelled at this moment by another thread, unless it has ended."""
    ended: list[bool] = []

    def do(ctx: Context) -> object:
        def cancel() -> None:
            ctx.clock.wait(lambda: bool(ended), moment)
            ctx.cancel()

        thread = ctx.clock.start(cancel, name="cancel")
        try:
            return task.do(ctx)
        finally:
            ended.append(True)
            ctx.clock.wake()
            thread.join()

    return WrappedTask(task, do)


FAILS = Spec("leaf", "a", end="failed", deaf=True, seconds=2)
AGAIN = Spec("retry", "a", (FAILS,), number=2, seconds=3)
# The pause is shortened to 0.25 s.
IN_TIME = Spec("deadline", "a", (attrs.evolve(AGAIN, seconds=3.25),), seconds=5.25)
FOUND_THERE = attrs.evolve(AGAIN, members=(attrs.evolve(FAILS, end="failed, then skipped"),))
NOTHING_ELSE = Spec("own", "b", (Spec("leaf", "a", seconds=1),), end="unmet")
SKIPPED = Spec("leaf", "c", end="skipped")
THEN_FAILS = Spec(
    "serial", "a", (FOUND_THERE, NOTHING_ELSE, SKIPPED, attrs.evolve(FAILS, name="d"))
)
PASSED_ON = Spec("own", "b", (attrs.evolve(FAILS, seconds=5),))
BLOCK_FAILS = attrs.evolve(PASSED_ON, in_block=True)
BOTH_FAIL = Spec("parallel", "c", (FAILS, PASSED_ON), number=2)
EXITS = Spec("leaf", "b", end="exit", deaf=True, seconds=5)
ONE_EXITS = attrs.evolve(BOTH_FAIL, members=(FAILS, EXITS))
ONE_BY_ONE = attrs.evolve(ONE_EXITS, number=1)


@settings(max_examples=10 * settings().max_examples)
@given(TREES, MOMENTS, st.sampled_from([None, OSError]), st.booleans())
@example(tree=AGAIN, moment=1, raises=None, undo_on_failure=False)
@example(tree=IN_TIME, moment=math.inf, raises=None, undo_on_failure=False)
@example(tree=THEN_FAILS, moment=math.inf, raises=None, undo_on_failure=True)
@example(tree=BLOCK_FAILS, moment=math.inf, raises=None, undo_on_failure=True)
@example(tree=BLOCK_FAILS, moment=1, raises=None, undo_on_failure=False)
@example(tree=BOTH_FAIL, moment=math.inf, raises=None, undo_on_failure=True)
@example(tree=ONE_BY_ONE, moment=math.inf, raises=None, undo_on_failure=True)
@example(tree=ONE_EXITS, moment=math.inf, raises=None, undo_on_failure=False)
def test_a_run_does_what_the_oracle_says(
    tree: Spec,
    moment: float,
    raises: type[Exception] | None,
    undo_on_failure: bool,  # noqa: FBT001  a parameter
) -> None:
    """Each task starts and ends as and when foretold, whatever observers raise."""
    clock, world = FakeClock(), World()
    task = world.task_of(tree)
    seen = Watch(clock, raises)
    ctx = Context(clock=clock, observers=[seen], logger=QUIET)
    threads = threading.active_count()
    report = phases.run(cancelled_at(moment, task), undo_on_failure=undo_on_failure, ctx=ctx)
    assert threading.active_count() == threads

    # Each step of the report has one end, and one start if it has begun.
    ended = [step for step, _ in seen.ends]
    begun = [step for step in ended if step.start is not None]
    assert sorted(map(id, report.walk())) == sorted(map(id, ended))
    assert sorted(map(id, seen.starts)) == sorted(map(id, begun))

    # Each is as foretold, and so are those that failed. A run of which only the undo fails has
    # failed, too.
    expected = step(tree, 0, Around(moment))
    is_undone = undo_on_failure and expected.how in WORST
    leaves = undo_of(tree)
    leaves_that_ran = undo_of_what_ran(tree, expected.lines)
    failures = list(expected.failures)
    if is_undone:
        failures += failing(leaves_that_ran)
    *inside, (path, status, end, attempts) = expected.lines
    lines = [*inside, (path, "failed" if failures else status, end, attempts)]
    assert sorted(seen.lines()) == sorted(lines)
    assert list(map(path_of, report.failures)) == failures
    assert report.ok is (expected.how not in WORST)
    assert report.exit_code == int(not report.ok)

    # After a failure, just what ran is undone, the last first. Nothing is left of what can be
    # undone.
    assert world.undone == (list(leaves_that_ran) if is_undone else [])
    assert not is_undone or world.made.isdisjoint(leaves)

    # A plan asks each task, in order, and does nothing.
    made = set(world.made)
    assert phases.plan(task).ok
    assert world.planned == list(leaves)[::-1]
    assert world.made == made

    # An undo undoes everything, the last first, whether it ran or not.
    world.undone.clear()
    undo = phases.undo(task, ctx=Context(observers=[seen], logger=QUIET))
    assert list(map(path_of, undo.failures)) == failing(leaves)
    assert world.undone == list(leaves)
