"""Laws for any tree of tasks with any outcomes, and an oracle that says what each tree does."""

import heapq
import logging
import math
import random
import threading
from collections.abc import Callable, Iterable
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
"""What stops a group, the worst first."""
STATUS_OF = {"final": "failed", "exit": "failed"}
"""The status of a step, where it is not how its task ends."""


def step(spec: Spec, now: float, around: Around) -> Result:
    """A task that has a name: one line."""
    path = f"{around.path}/{spec.name}"
    if around.stop <= now:
        return Result(now, "cancelled", around.by, lines=((path, "cancelled", 0, 1),))
    result = do(spec, now, around._replace(path=path))
    status = STATUS_OF.get(result.how, result.how)
    line = (path, status, result.end, 1 + result.again)
    return result._replace(lines=(*result.lines, line), again=0)


def do(spec: Spec, now: float, around: Around) -> Result:
    """What a task does that began at this moment."""
    return DOES[spec.kind](spec, now, around)


def leaf_does(spec: Spec, now: float, around: Around) -> Result:
    """A leaf sleeps, and then ends as it is told to. One that is deaf sleeps on when it is
    cancelled, and notices only if it checks afterwards.
    """
    end = now + spec.seconds
    is_told = "ok" if spec.end == "check" else spec.end
    if around.stop >= end:
        return Result(end, is_told)
    if not spec.deaf:
        return Result(around.stop, "cancelled", around.by)
    if spec.end == "check":
        return Result(end, "cancelled", around.by)
    return Result(end, is_told)


def serial_does(spec: Spec, now: float, around: Around) -> Result:
    """One member after the other; what comes after a failure is skipped."""
    lines: tuple[Line, ...] = ()
    for place, member in enumerate(spec.members, start=1):
        result = step(member, now, around)
        now = result.end
        lines += result.lines
        if result.how in WORST:
            for later in spec.members[place:]:
                lines += ((f"{around.path}/{later.name}", "skipped", 0, 1),)
            return result._replace(lines=lines)
    return Result(now, "ok", lines=lines)


def parallel_does(spec: Spec, now: float, around: Around) -> Result:
    """All members, until the first failure cancels those that are left; when that is, shows what
    they would do if nothing cancelled them.
    """
    failures = [member.end for member in together(spec, now, around) if member.how in WORST]
    first_failure = min(failures, default=math.inf)
    if first_failure < around.stop:
        around = around._replace(stop=first_failure, by=spec)
    members = together(spec, now, around)
    end = max((member.end for member in members), default=now)
    lines = tuple(line for member in members for line in member.lines)
    failed = [member for member in members if member.how in WORST]
    if not failed:
        return Result(end, "ok", lines=lines)
    worst = min(failed, key=lambda member: (WORST.index(member.how), member.end))
    return worst._replace(end=end, lines=lines)


def deadline_does(spec: Spec, now: float, around: Around) -> Result:
    """The member, which is stopped at the limit, unless something else stops it before."""
    limit = now + spec.seconds
    inner = around._replace(limit=min(limit, around.limit))
    if limit <= around.stop:
        inner = inner._replace(stop=limit, by=spec)
    return expired(spec, do(spec.members[0], now, inner))


def shield_does(spec: Spec, now: float, around: Around) -> Result:
    """The member, as a step of its own, which only the end of the grace stops."""
    limit = now + spec.seconds
    inner = around._replace(stop=limit, by=spec, limit=limit)
    return expired(spec, step(spec.members[0], now, inner))


def expired(spec: Spec, result: Result) -> Result:
    """What this limit has cancelled is a failure."""
    if result.how == "cancelled" and result.by is spec:
        return result._replace(how="failed")
    return result


def when_does(spec: Spec, now: float, around: Around) -> Result:
    """The member, if the condition is met."""
    return do(spec.members[0], now, around) if spec.end == "ok" else Result(now, "skipped")


def retry_does(spec: Spec, now: float, around: Around) -> Result:
    """The member, again after each failure but the last, if there is time for another attempt."""
    result = do(spec.members[0], now, around)
    if result.how != "failed" or spec.number == 1:
        return result
    failure = result.end
    again = failure + spec.seconds
    # A failure that itself stops the group around it is still tried again.
    is_its_own = around.stop == failure and around.by is not None
    if around.stop <= failure and not is_its_own:
        return result._replace(how="cancelled", by=around.by)
    if failure < around.stop <= again < around.limit:
        return result._replace(end=around.stop, how="cancelled", by=around.by)
    if around.limit <= again:
        return result
    further = do(attrs.evolve(spec, number=spec.number - 1), again, around)
    attempts = result.again + 1 + further.again
    return further._replace(lines=result.lines + further.lines, again=attempts)


DOES: dict[str, Callable[[Spec, float, Around], Result]] = {
    "leaf": leaf_does,
    "serial": serial_does,
    "parallel": parallel_does,
    "deadline": deadline_does,
    "shield": shield_does,
    "when": when_does,
    "retry": retry_does,
}


def together(spec: Spec, now: float, around: Around) -> list[Result]:
    """The members of a group, each from the moment at which a thread is free."""
    free = [now] * spec.number
    results: list[Result] = []
    for member in spec.members:
        result = step(member, heapq.heappop(free), around)
        heapq.heappush(free, result.end)
        results.append(result)
    return results


def leaves(spec: Spec) -> list[Spec]:
    """The leaves that the tree knows of: a task inside a shield is its function's own."""
    if spec.kind == "leaf":
        return [spec]
    if spec.kind == "shield":
        return []
    return [leaf for member in spec.members for leaf in leaves(member)]


class Watch:
    """An observer that records each start and end with its moment, and then raises."""

    def __init__(self, clock: FakeClock, raises: type[BaseException] | None) -> None:
        self.clock, self.raises = clock, raises
        self.starts: list[Step] = []
        self.ends: list[Step] = []
        self.lines: list[Line] = []

    def __call__(self, step: Step) -> None:
        """Record the start or the end, and raise."""
        if step.status is Status.RUNNING:
            self.starts.append(step)
        else:
            moment = 0 if step.start is None else self.clock.now()
            path = "/" + "/".join(step.path)
            self.lines.append((path, str(step.status), moment, step.attempts))
            self.ends.append(step)
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
    clock = FakeClock()
    seen = Watch(clock, raises)
    undone: list[Spec] = []
    task = task_of(tree, undone)
    foretold = step(tree, 0, Around(moment)).lines
    threads = threading.active_count()

    report = phases.run(cancelled_at(moment, task), clock=clock, observers=[seen], logger=QUIET)

    assert sorted(seen.lines) == sorted(foretold)
    _, status, _, _ = foretold[-1]  # the root's: the line of a group follows those of its members
    assert report.status == status
    started = [each for each in seen.ends if each.start is not None]
    assert same(seen.starts, started)
    assert same(report.walk(), seen.ends)
    assert threading.active_count() == threads
    assert phases.undo(task, Context(observers=[seen], logger=QUIET)).ok
    assert [*map(id, undone)] == [*map(id, leaves(tree))][::-1]


def same(steps: Iterable[Step], others: Iterable[Step]) -> bool:
    """Whether these are the same steps, each once, in any order."""
    return sorted(map(id, steps)) == sorted(map(id, others))
