"""plan, undo, and run(skip=…): what the laws of test_laws.py do not say of them."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

import phases
from phases import Context, Status
from phases.tasks import FunctionTask
from tests.support.recorder import StubTask, quiet, ran


def never(_ctx: Context) -> None:
    """Must not be called."""
    raise AssertionError


def planned(name: str, plan: Callable[[Context], object]) -> phases.Task[None]:
    """A task with this plan, which must not be run."""
    return phases.task(name, plan=plan)(never)


@attrs.frozen
class Plan:
    """A plan that says why the run would fail."""

    would_fail: str

    def __str__(self) -> str:
        return "+ a route\n+ another"


def test_a_plan(caplog: pytest.LogCaptureFixture) -> None:
    """The tree has what each task would do, or why nobody knows. All are asked; none is done."""
    caplog.set_level("DEBUG")
    routes = planned("routes", lambda ctx: f"+ 172.16.0.0/17\n+ {'/'.join(ctx.path)}")
    maybe = phases.when(lambda _: False, planned("maybe", lambda _: phases.Skip("there")))
    tree = phases.serial(
        phases.retry(routes),
        phases.parallel(phases.task("mute")(never), maybe, name="both"),
        planned("broken", lambda _: int("no plan")),
        phases.deadline(planned("doomed", lambda _: Plan("no gateway")), 5),
        planned("fine", lambda _: Plan("")),
        name="boot",
    )
    report = phases.plan(tree)
    assert str(report) == (
        "boot\n"
        "├─ routes\n"
        "│    + 172.16.0.0/17\n"
        "│    + boot/routes\n"
        "├─ both\n"
        "│  ├─ mute   offers no plan\n"
        "│  └─ maybe  there\n"
        "├─ broken    ValueError: invalid literal for int() with base 10: 'no plan'\n"
        "├─ doomed    WouldFail: no gateway\n"
        "│    + a route\n"
        "│    + another\n"
        "└─ fine\n"
        "     + a route\n"
        "     + another"
    )
    assert report.exit_code == 1
    assert report.failures == (report.find("broken"), report.find("doomed"))
    assert report.find("doomed").result == Plan("no gateway")
    assert phases.plan(tree, skip=["broken", "doomed"]).ok
    assert caplog.messages == []
    assert phases.execute(phases.when(lambda _: False, routes, reason="x")) == phases.Skip("x")


@pytest.mark.parametrize(("act", "verb"), [(phases.execute, "do"), (phases.undo, "undo")])
def test_a_dry_run_never_does_a_task(act: Callable[..., object], verb: str) -> None:
    """It has failed, with the remedy, even if it would do that in another run or thread."""
    log: list[str] = []
    task = disk("b", log)

    def in_a_thread(ctx: Context) -> object:
        with ThreadPoolExecutor() as threads:
            return threads.submit(act, task, ctx=ctx).result()

    for plan in (lambda _: act(task)), in_a_thread:
        report = phases.plan(planned("a", plan))
        words = f"b: a dry run would {verb} it; in a plan, call phases.plan(task, ctx=ctx)"
        assert str(report.error) == words
        assert log == []
    assert phases.run(task).ok, "after a dry run"


def disk(name: str, log: list[str]) -> FunctionTask[None]:
    """A task that logs which of its methods was called; its undo takes a while."""

    def undo(ctx: Context) -> None:
        ctx.sleep(1)
        log.append(f"undo {name}")

    return phases.task(name, undo=undo)(lambda _ctx: log.append(f"do {name}"))


def test_an_undo_is_shielded() -> None:
    """A cancellation, before or meanwhile, or an exit, lets every other undo finish."""
    log: list[str] = []
    ctx = quiet()
    ctx.cancel("enough")
    cancels = phases.task("c", undo=Context.cancel)(never)
    exits = FunctionTask("exits", never, undo=lambda _: sys.exit())
    report = phases.undo(phases.serial(disk("a", log), exits, cancels), ctx=ctx)
    assert [step.name for step in report.failures] == ["exits"]
    assert log == ["undo a"]


def test_a_task_may_undo_others() -> None:
    """With its own context: the undo is part of its run. An undo may ask for a plan."""
    log: list[str] = []
    tree = phases.serial(disk("a", log), name="all")
    roll_back = phases.task("roll-back")(lambda ctx: phases.undo(tree, ctx=ctx))
    assert ran(roll_back).find("roll-back/all/a").action == "undo"
    assert log == ["undo a"]

    doomed = planned("again", lambda _: Plan("no gateway"))
    look = FunctionTask("look", never, undo=lambda ctx: phases.plan(doomed, ctx=ctx).result)
    report = phases.undo(look, ctx=quiet())
    assert report.ok
    plan = report.find("again")
    assert (plan.action, plan.status) == ("plan", Status.FAILED)


def test_what_was_only_planned_is_not_undone() -> None:
    log: list[str] = []
    mute = FunctionTask("mute", never, str, disk("mute", log).undo)
    looks = FunctionTask("looks", lambda ctx: phases.plan(mute, ctx=ctx), subtasks=(mute,))
    fails = StubTask("x", errors=[OSError()])
    ran(phases.serial(looks, fails), undo_on_failure=True)
    assert log == []


def test_tasks_that_are_left_out() -> None:
    """By name, wherever they are, also in a run inside: what is inside them does not run."""
    routes = StubTask("routes")
    network = phases.parallel(routes, StubTask("check"), name="network")
    inside = FunctionTask("inside", lambda ctx: phases.execute(routes, ctx), subtasks=(routes,))
    tree = phases.serial(network, inside, name="boot")
    report = ran(tree, skip=["routes"])
    assert routes.calls == 0
    assert [step.name for step in report.walk() if step.reason == "left out by skip"] == [
        "routes",
        "inside",
        "routes",
    ]
    assert ran(tree, skip=["network"]).find("network").children == []


class MadeInside:
    """A task that makes its only subtask while it runs."""

    name = "made"
    subtasks: tuple[phases.AnyTask, ...] = ()

    def __init__(self, inner: phases.AnyTask) -> None:
        self.inner = inner

    def do(self, ctx: Context, /) -> object:
        self.subtasks = (self.inner,)
        return phases.execute(self.inner, ctx)


def test_the_undo_of_what_a_task_makes() -> None:
    """It is undone also if another task is around the task that makes it."""
    undone: list[str] = []
    inner = phases.task("inner", undo=lambda _: undone.append("inner"))(lambda _: None)
    around = phases.deadline(phases.retry(MadeInside(inner)), 60)
    fails = StubTask("fails", errors=[OSError()])
    ran(phases.serial(around, fails), undo_on_failure=True)
    assert undone == ["inner"]
