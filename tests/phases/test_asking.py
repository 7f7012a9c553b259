"""plan, undo, and run(skip=…): what the laws of test_laws.py do not say of them."""

from collections.abc import Callable

import attrs
import pytest

import phases
from phases import Context, Status
from phases.tasks import FunctionTask
from tests.support.recorder import StubTask, quiet, ran


def never(_ctx: Context) -> None:
    """Must not be called."""
    raise AssertionError


def broken(_ctx: Context) -> str:
    """A plan that raises."""
    raise PermissionError("not root")


def planned(name: str, plan: Callable[[Context], object]) -> phases.Task[None]:
    """A task with this plan, which must not be run."""
    return phases.task(name, plan=plan)(never)


def tree() -> phases.Task[object]:
    """A tree: some tasks offer a plan, one does not, one raises."""
    routes = planned("routes", lambda ctx: f"+ 172.16.0.0/17\n+ {'/'.join(ctx.path)}")
    maybe = planned("maybe", lambda _: phases.Skip("there"))
    both = phases.parallel(
        phases.task("mute")(never),
        phases.when(lambda _: False, maybe),
        name="both",
    )
    doubtful = phases.when(lambda _: True, planned("broken", broken))
    return phases.serial(phases.retry(routes), both, doubtful, name="bootstrap")


@attrs.frozen
class Doomed:
    """A plan, and why the run would fail."""

    text: str
    would_fail: str

    def __str__(self) -> str:
        return self.text


def whole(_ctx: Context) -> str:
    """One plan, and one undo, for all tasks of a group."""
    return "all of it"


def test_a_plan_as_text_and_as_values() -> None:
    """The tree has what each task would do, or why nobody knows; none is called."""
    report = phases.plan(tree())
    assert str(report) == (
        "bootstrap\n"
        "├─ routes\n"
        "│    + 172.16.0.0/17\n"
        "│    + bootstrap/routes\n"
        "├─ both\n"
        "│  ├─ mute   offers no plan\n"
        "│  └─ maybe  there\n"
        "└─ broken    PermissionError: not root"
    )
    assert (report.action, report.ok) == ("plan", False)
    assert report.find("routes").result == "+ 172.16.0.0/17\n+ bootstrap/routes"
    assert isinstance(report.find("broken").error, PermissionError)
    assert phases.plan(tree(), skip=["broken"]).ok


def test_a_plan_that_says_why_the_run_would_fail() -> None:
    """Its step has failed, and shows the plan; the other tasks are asked all the same."""
    doomed = planned("doomed", lambda _: Doomed("+ 10.9.0.0/16", "the disk is full"))
    fine = planned("fine", lambda _: Doomed("+ 10.8.0.0/16", ""))

    report = phases.plan(phases.serial(phases.deadline(doomed, 5), fine, name="bootstrap"))

    assert str(report) == (
        "bootstrap\n├─ doomed  WouldFail: the disk is full, + 10.9.0.0/16\n└─ fine    + 10.8.0.0/16"
    )
    assert report.exit_code == 1
    assert report.failures == (report.find("doomed"),)
    assert str(report.failures[0].result) == "+ 10.9.0.0/16"


@pytest.mark.parametrize("verb", ["do", "undo"])
@pytest.mark.parametrize("has_context", [True, False])
def test_a_dry_run_never_does_a_task(verb: str, has_context: bool) -> None:  # noqa: FBT001  a parameter
    """It has failed, with the remedy, even if it would do that in a run of its own."""
    log: list[str] = []
    act: Callable[..., object] = phases.execute
    if verb == "undo":
        act = phases.undo

    def plan(ctx: Context) -> object:
        return act(disk("b", log), ctx=ctx if has_context else None)

    report = phases.plan(planned("a", plan))
    words = f"b: a dry run would {verb} it; in a plan, call phases.plan(task, ctx=ctx)"
    assert str(report.error) == words
    assert log == []
    assert phases.run(disk("b", log)).ok, "after a dry run"


def disk(name: str, log: list[str]) -> FunctionTask[None]:
    """A task that logs which of its methods was called; its undo takes a while."""

    def undo(ctx: Context) -> None:
        ctx.sleep(1)
        log.append(f"undo {name}")

    return phases.task(name, undo=undo)(lambda _ctx: log.append(f"do {name}"))


def test_an_undo_is_shielded() -> None:
    """A cancellation, before or meanwhile, lets every undo finish."""
    log: list[str] = []
    ctx = quiet()
    ctx.cancel("enough")
    cancels = phases.task("c", undo=lambda inner: inner.cancel("enough"))(never)
    assert phases.undo(phases.serial(disk("a", log), cancels), ctx=ctx).ok
    assert log == ["undo a"]


def test_a_task_may_undo_others() -> None:
    """With its own context: the undo is part of its run. An undo may ask for a plan."""
    log: list[str] = []
    tree = phases.serial(disk("a", log), name="all")
    roll_back = phases.task("roll-back")(lambda ctx: phases.undo(tree, ctx=ctx))
    assert ran(roll_back).find("roll-back/all/a").action == "undo"
    assert log == ["undo a"]

    doomed = planned("again", lambda _: Doomed("+ a route", "no gateway"))
    look = FunctionTask("look", never, undo=lambda ctx: phases.plan(doomed, ctx=ctx))
    report = phases.undo(look, ctx=quiet())
    assert report.ok
    plan = report.find("again")
    assert (plan.action, plan.status) == ("plan", Status.FAILED)


def test_what_did_not_run_is_not_undone() -> None:
    """Neither what a task only planned, nor what was cancelled before it began."""
    log: list[str] = []
    mute = FunctionTask("mute", never, whole, disk("mute", log).undo)
    looks = FunctionTask("looks", lambda ctx: phases.plan(mute, ctx=ctx), subtasks=(mute,))
    cancels = phases.task("cancels")(Context.cancel)
    tree = phases.serial(looks, cancels, disk("late", log), name="all")
    report = ran(tree, undo_on_failure=True)
    assert report.find("late", action="do").status is Status.CANCELLED
    assert log == []


def test_tasks_that_are_left_out() -> None:
    """By name, wherever they are, and by the runs around: what is inside them does not run."""
    network = phases.parallel(StubTask("routes"), StubTask("check"), name="network")
    tree = phases.serial(network, phases.serial(StubTask("routes"), name="start"), name="boot")
    report = ran(tree, skip=["routes"])
    assert [(step.path[-2:], step.reason) for step in report.walk() if not step.children] == [
        (("network", "routes"), "left out by skip"),
        (("network", "check"), ""),
        (("start", "routes"), "left out by skip"),
    ]
    assert ran(tree, skip=["network"]).find("network").children == []
    plans = phases.task("outer")(lambda ctx: phases.plan(tree, ctx=ctx, skip=["check"]))
    inner = ran(plans).find("boot/network/check")
    assert (inner.action, inner.reason) == ("plan", "left out by skip")


def test_names_that_no_task_has() -> None:
    """An unknown name is an error before the first task starts; it lists all names, each once."""
    check = StubTask("check")
    tree = phases.serial(check, phases.serial(check, name="network"), name="boot")
    words = "there is no task 'donwload'. The tasks are: boot, check, network$"
    with pytest.raises(phases.UnknownTask, match=words):
        ran(tree, skip=["donwload"])
    assert check.calls == 0
