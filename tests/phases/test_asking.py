"""plan, undo, and run(only=…, skip=…): what the laws of test_laws.py do not say of them."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

import phases
from phases import Context, Status
from phases.tasks import FunctionTask
from phases.testing import StubTask
from tests.support.recorder import quiet, ran


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
        phases.when(False, planned("no", never), reason="there is no GPU"),
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
    """The tree has for each task what it would do, or that it offers no plan, or the error; none is
    called.
    """
    report = phases.plan(tree())
    assert str(report) == (
        "bootstrap\n"
        "├─ routes\n"
        "│    + 172.16.0.0/17\n"
        "│    + bootstrap/routes\n"
        "├─ both\n"
        "│  ├─ mute   offers no plan\n"
        "│  ├─ no     there is no GPU\n"
        "│  └─ maybe  skipped if its condition is false\n"
        "└─ broken    PermissionError: not root; skipped if its condition is false"
    )
    assert (report.action, report.ok) == ("plan", False)
    assert report.find("routes").result == "+ 172.16.0.0/17\n+ bootstrap/routes"
    assert isinstance(report.find("broken").error, PermissionError)
    part = phases.plan(tree(), skip="broken", only="both")
    assert part.ok
    assert part.find("routes").reason == "left out by only"


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ("+ 10.9.0.0/16\n+ 10.8.0.0/16", "\n  + 10.9.0.0/16\n  + 10.8.0.0/16"),
        ("+ 10.9.0.0/16", ", + 10.9.0.0/16"),
        (None, ""),
    ],
)
def test_a_plan_under_a_condition(plan: str | None, text: str) -> None:
    """It follows the condition. In a run the condition has been called, and in an undo it is not:
    both say nothing of it.
    """
    task = phases.when(lambda _: True, phases.task("a", plan=lambda _: plan, undo=whole)(whole))
    assert str(phases.plan(task)) == f"a  skipped if its condition is false{text}"
    assert ran(task).reason == ""
    assert phases.undo(task, quiet()).reason == ""


def test_a_plan_that_says_why_the_run_would_fail() -> None:
    """Its step has failed for that reason, and still shows the plan; the other tasks are asked all
    the same.
    """
    doomed = planned("doomed", lambda _: Doomed("+ 10.9.0.0/16", "the disk is full"))
    fine = planned("fine", lambda _: Doomed("+ 10.8.0.0/16", ""))

    report = phases.plan(phases.serial(phases.deadline(doomed, 5), fine, name="bootstrap"))

    assert str(report) == (
        "bootstrap\n├─ doomed  WouldFail: the disk is full, + 10.9.0.0/16\n└─ fine    + 10.8.0.0/16"
    )
    assert report.exit_code == 1
    assert report.failures == (report.find("doomed"),)
    assert str(report.failures[0].result) == "+ 10.9.0.0/16"


def test_a_plan_that_does_its_task() -> None:
    """A plan asks the task inside for its plan; in place of that, it must not do it."""
    inner = StubTask("inner")
    careless = phases.task("a", plan=lambda ctx: phases.execute(inner, ctx))(never)
    report = phases.plan(careless)
    assert str(report.error) == (
        "inner: a dry run would do it; in a plan, call phases.plan(task, ctx=ctx)"
    )
    assert inner.calls == 0


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
    assert phases.undo(phases.serial(disk("a", log), cancels), ctx).ok
    assert log == ["undo a"]


def test_a_task_may_undo_others() -> None:
    """With its own context: the undo is part of its run. An undo may ask for a plan."""
    log: list[str] = []
    tree = phases.serial(disk("a", log), name="all")
    roll_back = phases.task("roll-back")(lambda ctx: phases.undo(tree, ctx))
    assert ran(roll_back).find("roll-back/all/a").action == "undo"
    assert log == ["undo a"]

    doomed = planned("again", lambda _: Doomed("+ a route", "no gateway"))
    look = FunctionTask("look", never, undo=lambda ctx: phases.plan(doomed, ctx=ctx))
    report = phases.undo(look, quiet())
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
    report = ran(tree)
    assert report.find("late").status is Status.CANCELLED
    phases.undo(tree, quiet(), of=report)
    assert log == []


def test_a_report_of_another_task() -> None:
    """It is refused, and so is a dry run: nothing ran in it."""
    tree = phases.serial(disk("a", []), name="all")
    for report, shown in (
        (ran(StubTask("x")), "<Step x ok>"),
        (phases.plan(tree), "<Step all .plan. ok>"),
    ):
        words = f"undo: of is {shown}, which is not the report of a run of this task"
        with pytest.raises(ValueError, match=words):
            phases.undo(tree, of=report)


def test_names_of_tasks() -> None:
    """`group/name` means a task directly in that group; names can be a generator; a reason says
    which option left a task out.
    """
    network = phases.parallel(StubTask("routes"), StubTask("check"), name="network")
    tree = phases.serial(network, phases.serial(StubTask("routes"), name="start"), name="boot")
    report = ran(tree, only=iter(["network", "start"]), skip=iter(["network/routes"]))
    assert [(step.path[-2:], step.reason) for step in report.walk() if not step.children] == [
        (("network", "routes"), "left out by skip"),
        (("network", "check"), ""),
        (("start", "routes"), ""),
    ]
    assert ran(tree, only="check").find("start").reason == "left out by only"
    assert ran(tree, only=["start/routes"]).find("network").reason == "left out by only"


@pytest.mark.parametrize(
    ("option", "name"), [("only", "donwload"), ("skip", "network/start"), ("only", "")]
)
def test_names_that_no_task_has(option: str, name: str) -> None:
    """An unknown name is an error before the first task starts; it lists all names, each once."""
    check = StubTask("check")
    tree = phases.serial(check, phases.serial(check, name="network"), name="boot")
    words = f"{option}: there is no task {name!r}. The tasks are: boot, check, network$"
    with pytest.raises(phases.UnknownTask, match=words):
        ran(tree, **{option: (name,)})
    assert check.calls == 0


@pytest.mark.parametrize(
    ("only", "skip", "words"),
    [
        ((), None, "only names no task, so nothing would run; None selects all tasks"),
        (None, "boot", "skip leaves out every selected task, so nothing would run"),
        ("check", ["network"], "skip leaves out every selected task"),
    ],
)
def test_a_selection_of_nothing(only: Any, skip: Any, words: str) -> None:
    """A run of no task would be ok: a list that came out empty is a mistake."""
    tree = phases.serial(phases.serial(StubTask("check"), name="network"), name="boot")
    with pytest.raises(phases.UnknownTask, match=f"^{words}"):
        ran(tree, only=only, skip=skip)


def test_a_selection_inside_a_task() -> None:
    """With a task's context, a plan is a part of that task's run, names tasks as it would alone,
    and leaves out what the run around it leaves out.
    """
    a, outer_too = (planned(name, lambda _: "") for name in ("a", "outer"))
    inner = phases.serial(a, StubTask("b"), outer_too, name="inner")
    outer = FunctionTask(
        "outer",
        lambda ctx: phases.plan(inner, ctx=ctx, only=["inner/a", "inner/b"]),
        subtasks=(inner,),
    )
    report = ran(outer, skip="b")
    assert [step.reason for step in report.find("outer/inner").children] == [
        "",
        "left out by skip",
        "left out by only",
    ]
    skips = phases.task("outer")(lambda ctx: phases.plan(inner, ctx=ctx, skip="outer"))
    report = ran(skips)
    assert report.find("inner/outer").reason == "left out by skip"
    assert report.find("inner/a").ok
