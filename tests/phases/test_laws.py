"""Laws for any tree of tasks with any outcomes, and an oracle that says what each tree does."""

import heapq
import logging
import math
import random
import threading
from typing import NamedTuple

import attrs
from hypothesis import example, given, settings, strategies as st

import phases
from phases import Context, Status, Step
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
            return phases.retry(
                members[0], attempts=spec.number, delay=spec.seconds, factor=1, jitter=0
            )
        case "deadline":
            return phases.deadline(members[0], spec.seconds)
        case "when":
            return phases.when(lambda _: spec.end == "ok", members[0])
    return phases.task(spec.name)(shield)


def timed(spec: Spec, chance: random.Random) -> Spec:
    """The tree with a time of its own for each part: no two things happen at the same moment.

    The times have few binary digits, so that sums of them are exact.
    """
    members = tuple(timed(member, chance) for member in spec.members)
    return attrs.evolve(spec, seconds=chance.randrange(1, 8 << 20) / (1 << 20), members=members)


NAMES = st.sampled_from(
    ["a", "b", "c", "d"]
)  # names repeat: nothing may depend on their being different
ENDS = ["ok"] * 6 + ["failed"] * 3 + ["final", "exit", "skipped", "cancelled", "check"]
LEAVES = st.builds(Spec, st.just("leaf"), NAMES, end=st.sampled_from(ENDS), deaf=st.booleans())
CHANCES = st.builds(random.Random, st.integers(0, 1 << 64))


def around(members: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    """Groups and wrappers around these."""
    groups, lists = (
        st.sampled_from(["serial", "parallel"]),
        st.lists(members, max_size=4).map(tuple),
    )
    wrappers, ends = (
        st.sampled_from(["retry", "deadline", "when", "shield"]),
        st.sampled_from(["ok", "ok", "unmet"]),
    )
    return st.builds(Spec, groups, NAMES, lists, number=st.integers(1, 4)) | st.builds(
        lambda kind, member, end, number: Spec(kind, member.name, (member,), end, number=number),
        *(wrappers, members, ends, st.integers(1, 3)),
    )


TREES = st.builds(timed, st.recursive(LEAVES, around, max_leaves=12), CHANCES)
MOMENTS = st.just(math.inf) | st.builds(
    lambda chance: chance.randrange(1, 16 << 20) / (1 << 20), CHANCES
)

Line = tuple[str, str, float, int]
"""The path of a step, its status, its end (0 if it never starts), and its attempts."""


class Around(NamedTuple):
    """What is around a task: when and by what it is stopped, its nearest deadline, and its path."""

    stop: float
    by: object = None
    limit: float = math.inf
    path: str = ""


class Result(NamedTuple):
    """When a task ends and how, what cancelled it, its further attempts, and a line for each step
    inside it.
    """

    end: float
    how: str
    by: object = None
    again: int = 0
    lines: tuple[Line, ...] = ()


WORST = ["exit", "final", "failed", "cancelled"]


def step(spec: Spec, now: float, around: Around) -> Result:
    """A task that has a name: one line."""
    path = f"{around.path}/{spec.name}"
    if around.stop <= now:
        return Result(now, "cancelled", around.by, 0, ((path, "cancelled", 0, 1),))
    result = do(spec, now, around._replace(path=path))
    line = (
        path,
        {"final": "failed", "exit": "failed"}.get(result.how, result.how),
        result.end,
        1 + result.again,
    )
    return result._replace(lines=(*result.lines, line), again=0)


def do(spec: Spec, now: float, around: Around) -> Result:
    """What a task does that began at this moment."""
    lines: tuple[Line, ...] = ()
    limit = now + spec.seconds
    match spec.kind:
        case "leaf":
            if around.stop < limit and (not spec.deaf or spec.end == "check"):
                return Result(limit if spec.deaf else around.stop, "cancelled", around.by)
            return Result(limit, "ok" if spec.end == "check" else spec.end)
        case "serial":
            for place, member in enumerate(spec.members, start=1):
                result = step(member, now, around)
                now, lines = result.end, lines + result.lines
                if result.how in WORST:
                    never = [
                        (f"{around.path}/{later.name}", "skipped", 0, 1)
                        for later in spec.members[place:]
                    ]
                    return result._replace(lines=(*lines, *never))
            return Result(now, "ok", lines=lines)
        case "parallel":
            first = min(
                (member.end for member in together(spec, now, around) if member.how in WORST),
                default=math.inf,
            )
            members = together(
                spec, now, around._replace(stop=first, by=spec) if first < around.stop else around
            )
            end = max((member.end for member in members), default=now)
            lines = tuple(line for member in members for line in member.lines)
            bad = [member for member in members if member.how in WORST]
            worst = min(
                bad,
                key=lambda member: (WORST.index(member.how), member.end),
                default=Result(end, "ok"),
            )
            return worst._replace(end=end, lines=lines)
        case "shield" | "deadline":
            begin, limits = (step, True) if spec.kind == "shield" else (do, limit <= around.stop)
            inner = around._replace(stop=limit, by=spec) if limits else around
            least = limit if spec.kind == "shield" else min(limit, around.limit)
            result = begin(spec.members[0], now, inner._replace(limit=least))
            return (
                result._replace(how="failed")
                if result.how == "cancelled" and result.by is spec
                else result
            )
        case "when":
            return do(spec.members[0], now, around) if spec.end == "ok" else Result(now, "skipped")
    result = do(spec.members[0], now, around)
    if result.how != "failed" or spec.number == 1:
        return result
    now, later = result.end, result.end + spec.seconds
    is_own = (
        around.stop == now and around.by is not None
    )  # it is the failure that stops the group around it
    if (around.stop <= now and not is_own) or now < around.stop <= later < around.limit:
        return result._replace(end=max(now, around.stop), how="cancelled", by=around.by)
    if around.limit <= later:
        return result
    further = do(attrs.evolve(spec, number=spec.number - 1), later, around)
    return further._replace(
        lines=result.lines + further.lines, again=result.again + further.again + 1
    )


def together(spec: Spec, now: float, around: Around) -> list[Result]:
    """The members of a group, each from the moment at which a thread is free."""
    free, results = [now] * spec.number, list[Result]()
    for member in spec.members:
        results.append(step(member, heapq.heappop(free), around))
        heapq.heappush(free, results[-1].end)
    return results


def leaves(spec: Spec) -> list[Spec]:
    """The leaves that the tree knows of."""
    if spec.kind == "leaf":
        return [spec]
    return (
        [leaf for member in spec.members for leaf in leaves(member)]
        if spec.kind != "shield"
        else []
    )


class Watch:
    """An observer that records each start and end with its moment, and then raises."""

    def __init__(self, clock: FakeClock, raises: type[BaseException] | None) -> None:
        self.clock, self.raises = clock, raises
        self.starts: list[Step] = []
        self.ends: list[tuple[Step, float]] = []

    def __call__(self, step: Step) -> None:
        """Record the start or the end, and raise."""
        if step.status is Status.RUNNING:
            self.starts.append(step)
        else:
            self.ends.append((step, 0 if step.start is None else self.clock.now()))
        if self.raises is not None:
            raise self.raises


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

    return phases.task(task.name)(do)


RAISED = st.sampled_from([None, OSError, SystemExit, GeneratorExit, phases.Cancelled])
AGAIN = Spec(
    "retry", "a", (Spec("leaf", "a", end="failed", deaf=True, seconds=2),), number=2, seconds=3
)


@settings(max_examples=10 * settings().max_examples)
@given(TREES, MOMENTS, RAISED)
@example(AGAIN, 1, None)
def test_a_run_does_what_the_oracle_says(
    tree: Spec, moment: float, raises: type[BaseException] | None
) -> None:
    """Each task has one start and one end, as and when foretold, whatever observers raise; no
    thread is left.

    Undo calls every undo, the last first.
    """
    clock, undone, threads = FakeClock(), list[Spec](), threading.active_count()
    task, seen = task_of(tree, undone), Watch(clock, raises)
    report = phases.run(cancelled_at(moment, task), clock=clock, observers=[seen], logger=QUIET)
    expected = step(tree, 0, Around(moment))
    lines = [
        ("/" + "/".join(each.path), str(each.status), when, each.attempts)
        for each, when in seen.ends
    ]
    assert sorted(lines) == sorted(expected.lines)
    assert report.status == expected.lines[-1][1]
    assert sorted(map(id, seen.starts)) == sorted(
        id(each) for each, _ in seen.ends if each.start is not None
    )
    assert sorted(map(id, report.walk())) == sorted(id(each) for each, _ in seen.ends)
    assert threading.active_count() == threads
    assert phases.undo(task, Context(observers=[seen], logger=QUIET)).ok
    assert [*map(id, undone)] == [*map(id, leaves(tree))][::-1]
