"""plan and undo of a whole tree, and run(only=…, skip=…)."""

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import phases
from phases import Context, Status
from phases.tasks import FunctionTask
from phases.testing import FakeClock, Recorder, StubTask


def never(_ctx: Context) -> None:
    """Must not be called."""
    raise AssertionError


def broken(_ctx: Context) -> str:
    """A plan that raises."""
    raise PermissionError("not root")


def tree() -> phases.Task[object]:
    """A tree: some tasks offer a plan, one does not, one raises."""
    routes = planned("routes", lambda ctx: f"+ 172.16.0.0/17\n+ {'/'.join(ctx.path)}")
    group = phases.serial(planned("inner", never), name="none")
    maybe = planned("maybe", lambda _: phases.Skip("there"))
    both = phases.parallel(
        phases.task("mute")(never),
        phases.when(False, planned("no", never), reason="there is no GPU"),
        phases.when(False, group),
        phases.when(lambda _: False, maybe),
        name="both",
    )
    return phases.serial(phases.retry(routes), both, planned("broken", broken), name="bootstrap")


def planned(name: str, plan: Callable[[Context], object]) -> phases.Task[None]:
    """A task with this plan, which must not be run."""
    return phases.task(name, plan=plan)(never)


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


WHOLE = FunctionTask("whole", never, whole, whole, (StubTask("part"),))


class TestPlan:
    """plan: what would be done, without doing it."""

    def test_a_plan_as_text_and_as_values(self) -> None:
        """The tree has for each task what it would do, or that it offers no plan, or the error;
        none is called.
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
            "│  ├─ none   its condition is false\n"
            "│  └─ maybe  skipped if its condition is false\n"
            "└─ broken    PermissionError: not root"
        )
        assert report.action == "plan"
        assert not report.ok
        assert report.find("routes").result == "+ 172.16.0.0/17\n+ bootstrap/routes"
        assert isinstance(report.find("broken").error, PermissionError)
        assert phases.plan(tree(), skip="broken").ok

    def test_a_plan_of_several_lines(self) -> None:
        """It begins on a line of its own, below the condition."""
        routes = planned("routes", lambda _: "+ 10.9.0.0/16\n+ 10.8.0.0/16")
        report = phases.plan(phases.when(lambda _: True, routes))
        assert str(report) == (
            "routes  skipped if its condition is false\n  + 10.9.0.0/16\n  + 10.8.0.0/16"
        )

    def test_a_plan_without_words(self) -> None:
        """Nothing stands for it."""
        report = phases.plan(phases.when(lambda _: True, planned("a", lambda _: "")))
        assert str(report) == "a  skipped if its condition is false"

    def test_a_condition_is_for_plans(self) -> None:
        """In a run it has been called, and in an undo it is not: both say nothing of it."""
        task = phases.when(lambda _: True, phases.task("a", plan=whole, undo=whole)(whole))
        assert phases.plan(task).reason == "skipped if its condition is false"
        assert phases.run(task, observers=[]).reason == ""
        assert phases.undo(task, Context(observers=[])).reason == ""

    def test_a_plan_that_says_why_the_run_would_fail(self) -> None:
        """Its step has failed for that reason, and still shows the plan; the other tasks are asked
        all the same.
        """
        doomed = planned("doomed", lambda _: Doomed("+ 10.9.0.0/16", "the disk is full"))
        fine = planned("fine", lambda _: Doomed("+ 10.8.0.0/16", ""))
        assert phases.plan(fine).ok

        report = phases.plan(phases.serial(phases.deadline(doomed, 5), fine, name="bootstrap"))

        assert str(report) == (
            "bootstrap\n"
            "├─ doomed  WouldFail: the disk is full, + 10.9.0.0/16\n"
            "└─ fine    + 10.8.0.0/16"
        )
        assert not report.ok
        assert report.exit_code == 1
        assert report.to_mapping()["status"] == "failed"
        [failure] = report.failures
        assert failure is report.find("doomed")
        assert isinstance(failure.error, phases.WouldFail)
        assert str(failure.result) == "+ 10.9.0.0/16"

    @pytest.mark.parametrize("would_fail", [True, 3, [1]])
    def test_a_plan_that_does_not_say_why_the_run_would_fail(self, would_fail: object) -> None:
        """It is refused, and does not count as a run that would succeed."""
        plan = SimpleNamespace(would_fail=would_fail)
        report = phases.plan(planned("doomed", lambda _: plan))
        assert report.exit_code == 1
        assert str(report.error) == (
            f"would_fail of its plan is {would_fail!r}; it must be a sentence that says why"
        )

    @pytest.mark.parametrize("would_fail", ["", None, False])
    def test_a_plan_that_says_that_nothing_would_fail(self, would_fail: object) -> None:
        """Nothing is to be said then."""
        plan = SimpleNamespace(would_fail=would_fail)
        assert phases.plan(planned("fine", lambda _: plan)).ok

    def test_a_group_may_answer_for_its_members(self) -> None:
        """If a group has a plan or an undo itself, that is called instead of those of its tasks."""
        plan = phases.plan(WHOLE)
        undone = phases.undo(WHOLE, Context(observers=[]))
        assert str(plan) == "whole  all of it"
        assert undone.result == "all of it"
        assert undone.children == []

    def test_a_plan_of_a_part(self) -> None:
        """Tasks that a run would leave out are not called."""
        report = phases.plan(tree(), only="both", skip="no")
        assert {step.name: step.reason for step in report.walk() if "left out" in step.reason} == {
            "routes": "left out by only",
            "no": "left out by skip",
            "broken": "left out by only",
        }

    @pytest.mark.parametrize("name", ["nothing", ""])
    def test_a_plan_of_an_unknown_part(self, name: str) -> None:
        """It is an error, as it is of a run."""
        with pytest.raises(phases.UnknownTask, match=r"The tasks are: \w"):
            phases.plan(tree(), only=name)


class TestUndo:
    """undo: the last task first."""

    def stub(self, name: str, log: list[str], error: BaseException | None = None) -> phases.AnyTask:
        """A task that records its undo, which may fail."""

        def undo(ctx: Context) -> None:
            log.append("/".join(ctx.path))
            if error is not None:
                raise error

        return phases.task(name, undo=undo)(lambda _ctx: None)

    @pytest.mark.parametrize("error", [OSError("busy"), SystemExit(3)])
    def test_the_last_task_is_undone_first(self, error: BaseException) -> None:
        """Every task with an undo is undone, the last listed first, also after one that fails or
        exits; the report has each.
        """
        log: list[str] = []
        seen = Recorder()
        nothing = phases.task("nothing")(lambda _ctx: None)
        inner = phases.parallel(self.stub("b", log, error), nothing, self.stub("c", log), name="g")
        tree = phases.serial(self.stub("a", log), phases.retry(inner), name="all")

        report = phases.undo(tree, Context(observers=[seen]))

        assert log == ["all/g/c", "all/g/b", "all/a"]
        assert [(step.name, step.status) for step in report.walk()] == [
            ("all", Status.FAILED),
            ("g", Status.FAILED),
            ("c", Status.OK),
            ("nothing", Status.SKIPPED),
            ("b", Status.FAILED),
            ("a", Status.OK),
        ]
        assert report.action == "undo"
        assert report.failures[0].path == ("all", "g", "b")
        assert seen.ends[-1] == ("all", Status.FAILED)

    def test_a_cancelled_run_is_undone(self) -> None:
        """A cancellation, before or meanwhile, lets every undo finish."""
        undone: list[str] = []

        def undo(inner: Context) -> None:
            inner.cancel("SIGTERM")
            inner.sleep(5)
            undone.append(inner.path[-1])

        tasks = [phases.task(name, undo=undo)(lambda _: None) for name in "abc"]
        ctx = Context(clock=FakeClock(), observers=[])
        ctx.cancel("SIGTERM")

        report = phases.undo(phases.serial(*tasks), ctx)

        assert report.ok
        assert undone == ["c", "b", "a"]

    def test_a_task_may_undo_others(self) -> None:
        """A task may undo others with its own context: the undo is part of its run."""
        log: list[str] = []
        tree = phases.serial(self.stub("a", log), self.stub("b", log), name="all")
        roll_back = phases.task("roll-back")(lambda ctx: phases.undo(tree, ctx))
        report = phases.run(roll_back, observers=[])
        assert log == ["roll-back/all/b", "roll-back/all/a"]
        assert report.find("roll-back/all").action == "undo"

    def test_an_undo_may_ask_for_a_plan(self) -> None:
        """It gets a plan, which also says that a run would fail."""
        doomed = planned("again", lambda _: Doomed("+ a route", "no gateway"))
        plans: list[phases.Step] = []
        look = FunctionTask(
            "look", never, undo=lambda ctx: plans.append(phases.plan(doomed, ctx=ctx))
        )
        phases.undo(look, Context(observers=[]))
        [plan] = plans
        assert plan.action == "plan"
        assert plan.status is Status.FAILED


class TestSelection:
    """Which tasks only= and skip= leave out, and names that do not exist."""

    def tree(self) -> phases.Task[object]:
        """bootstrap: download, network (routes, check), start (routes)."""
        check = phases.deadline(StubTask("check"), 5)
        network = phases.parallel(StubTask("routes"), check, name="network")
        start = phases.serial(StubTask("routes"), name="start")
        download = phases.retry(StubTask("download"))
        return phases.serial(download, network, start, name="bootstrap")

    ALL = "download network/check network/routes start/routes"

    @pytest.mark.parametrize(
        ("only", "skip", "expected"),
        [
            ((), (), ALL),
            ("download", (), "download"),
            (("network",), (), "network/check network/routes"),
            (("routes",), (), "network/routes start/routes"),
            (("start/routes",), (), "start/routes"),
            (("bootstrap/network/check",), (), "network/check"),
            ((), ("network/routes", "download"), "network/check start/routes"),
            (("check",), ("network",), ""),
            ((), ("bootstrap",), ""),
        ],
    )
    def test_names_of_tasks(
        self, only: tuple[str, ...], skip: tuple[str, ...], expected: str
    ) -> None:
        """A name means every task of that name and everything inside it; groups around it run; skip
        overrides only.
        """
        report = phases.run(self.tree(), clock=FakeClock(), observers=[], only=only, skip=skip)
        done: list[str] = []
        for step in report.walk():
            is_task = len(step.path) > 1 and not step.children
            if is_task and step.status is Status.OK:
                done.append("/".join(step.path[1:]))
            else:
                assert step.reason in {"", "left out by only", "left out by skip"}
        assert report.ok
        assert " ".join(sorted(done)) == expected

    def test_names_that_can_be_read_once(self) -> None:
        """A generator of names means the same as a list of them."""
        only = iter(["network"])
        skip = iter(["check"])
        report = phases.run(self.tree(), clock=FakeClock(), observers=[], only=only, skip=skip)
        done = [step.name for step in report.walk() if step.status is Status.OK]
        assert done == ["bootstrap", "network", "routes"]

    @pytest.mark.parametrize(
        ("option", "name"), [("only", "donwload"), ("skip", "network/download")]
    )
    def test_names_that_no_task_has(self, option: str, name: str) -> None:
        """An unknown name is an error before the first task starts; it lists all names."""
        seen = Recorder()
        named: Any = {option: (name,)}
        with pytest.raises(phases.UnknownTask) as caught:
            phases.run(self.tree(), observers=[seen], **named)
        known = "bootstrap, download, network, routes, check, start"
        assert f"{option}: there is no task {name!r}. The tasks are: {known}" in str(caught.value)
        assert seen.ends == []

    def test_steps_inside_a_task(self) -> None:
        """A step that a selected task executes itself runs with it; if it is left out, the task
        gets a Skip.
        """
        results: list[object] = []

        class Outer:
            name = "outer"
            subtasks = (StubTask("inner", 1),)

            def do(self, ctx: Context) -> None:
                results.append(phases.execute(self.subtasks[0], ctx))

        tree = phases.serial(Outer(), StubTask("b"))
        phases.run(tree, only="outer", observers=[])
        phases.run(tree, skip="inner", observers=[])
        assert results == [1, phases.Skip("left out by skip")]


class Disk:
    """A task with something to undo: what it made is in its result."""

    def __init__(self, name: str, log: list[str], error: BaseException | None = None) -> None:
        self.name, self.log, self.error = name, log, error

    def do(self, ctx: Context) -> str:
        """Make the disk, or fail half way."""
        ctx.check()
        self.log.append(f"do {self.name}")
        if self.error is not None:
            raise self.error
        return f"/dev/{self.name}"

    def undo(self, ctx: Context) -> None:
        """Detach what was made."""
        ctx.sleep(1)
        self.log.append(f"undo {self.name}")


class TestUndoOfARun:
    """undo(of=report) and run(undo_on_failure=True): just what ran."""

    def tree(self, log: list[str]) -> phases.AnyTask:
        """One task is not needed, one fails half way, and one comes after it."""
        not_needed = phases.when(lambda _: False, Disk("b", log))
        fails = Disk("e", log, OSError("full"))
        return phases.serial(
            Disk("a", log), not_needed, self.both(log), fails, Disk("f", log), name="all"
        )

    def both(self, log: list[str]) -> phases.AnyTask:
        """Two of these tasks, one after the other."""
        return phases.parallel(Disk("c", log), phases.retry(Disk("d", log)), name="both", at_once=1)

    @pytest.mark.parametrize("is_pickled", [False, True])
    def test_what_ran_is_undone(self, *, is_pickled: bool) -> None:
        """The undo of each task that began is called, the last first: also that of a task that
        failed half way, but not of one that was skipped or not reached.
        """
        log: list[str] = []
        tree = self.tree(log)
        report = phases.run(tree, observers=[])
        if is_pickled:
            report = pickle.loads(pickle.dumps(report))  # noqa: S301  our own bytes
        log.clear()

        undone = phases.undo(tree, Context(clock=FakeClock(), observers=[]), of=report)

        assert log == ["undo e", "undo d", "undo c", "undo a"]
        assert undone.find("f").reason == "it did nothing in that run"

    @pytest.mark.parametrize("is_pickled", [False, True])
    def test_a_part_of_what_ran_is_undone(self, *, is_pickled: bool) -> None:
        """Another task can undo it, by the report of that part."""
        log: list[str] = []
        report = phases.run(self.tree(log), observers=[])
        if is_pickled:
            report = pickle.loads(pickle.dumps(report))  # noqa: S301  our own bytes
        log.clear()

        @phases.task("outer")
        def outer(ctx: Context) -> object:
            return phases.undo(self.both(log), ctx, of=report.find("both")).ok

        assert phases.run(outer, observers=[], clock=FakeClock()).result is True
        assert log == ["undo d", "undo c"]

    def test_two_tasks_with_one_name(self) -> None:
        """Tasks are found by their paths, so both are undone if one of them ran."""
        log: list[str] = []
        tree = phases.serial(Disk("a", log, OSError("full")), Disk("a", log), name="all")
        report = phases.run(tree, clock=FakeClock(), observers=[])
        log.clear()
        phases.undo(tree, Context(clock=FakeClock(), observers=[]), of=report)
        assert log == ["undo a", "undo a"]

    def test_a_report_of_another_task(self) -> None:
        """It is refused, and so is a dry run: nothing ran in it."""
        log: list[str] = []
        tree = self.tree(log)
        of_another_task = phases.run(StubTask("x"), observers=[])
        dry_run = phases.plan(tree)
        words = "undo: of is the report of the do of 'x', not of the do of 'all'"
        with pytest.raises(ValueError, match=words):
            phases.undo(tree, of=of_another_task)
        words = "undo: of is the report of the plan of 'all', not of the do"
        with pytest.raises(ValueError, match=words):
            phases.undo(tree, of=dry_run)
        assert log == []

    def test_a_failed_run_is_undone_at_once(self) -> None:
        """The steps of the undo are in the report, which has failed for the same reason."""
        log: list[str] = []
        report = phases.run(self.tree(log), undo_on_failure=True, observers=[], clock=FakeClock())
        assert log[-4:] == ["undo e", "undo d", "undo c", "undo a"]
        assert [step.path for step in report.failures] == [("all", "e")]
        undone = report.children[-1]
        assert undone.path == ("all",)
        assert undone.action == "undo"
        assert undone.ok
        assert report.seconds == 4

    def test_a_cancelled_run_is_undone_at_once(self) -> None:
        """The undo is shielded from what cancelled the run, and the run stays cancelled."""
        log: list[str] = []
        ctx = Context(observers=[], clock=FakeClock())
        stop = phases.task("stop")(lambda inner: inner.cancel("enough"))
        tree = phases.serial(Disk("a", log), stop, Disk("b", log), name="all")
        report = phases.run(tree, ctx=ctx, undo_on_failure=True)
        assert log == ["do a", "undo a"]
        assert report.status is Status.CANCELLED
        assert report.reason == "enough"

    @pytest.mark.parametrize("error", [OSError("full"), SystemExit(3)])
    def test_a_task_that_is_not_a_group(self, error: BaseException) -> None:
        """It is undone, too, whatever it raises."""
        log: list[str] = []
        report = phases.run(
            Disk("a", log, error), undo_on_failure=True, observers=[], clock=FakeClock()
        )
        assert log == ["do a", "undo a"]
        assert [step.error for step in report.failures] == [error]

    @pytest.mark.parametrize("error", [OSError("busy"), SystemExit(3)])
    def test_a_failed_run_whose_undo_fails(self, error: BaseException) -> None:
        """The failures of the run come first, then those of the undo, whatever it raises."""

        def broken(_ctx: Context) -> None:
            raise error

        made = phases.task("make", undo=broken)(lambda _: None)
        full = OSError("full")
        tree = phases.serial(made, StubTask("fill", errors=[full]), name="all")

        report = phases.run(tree, undo_on_failure=True, observers=[])

        assert [step.error for step in report.failures] == [full, error]
        assert [step.action for step in report.failures] == ["do", "undo"]

    def test_an_undo_that_fails(self) -> None:
        """Its failure is one of the run's, which has then failed even if it was cancelled."""

        def broken(_ctx: Context) -> None:
            raise OSError("busy")

        ctx = Context(observers=[])
        stop = phases.task("stop", undo=broken)(lambda inner: inner.cancel("enough"))
        report = phases.run(phases.serial(stop, StubTask("b")), ctx=ctx, undo_on_failure=True)
        assert report.status is Status.FAILED
        assert report.exit_code == 1
        [failure] = report.failures
        assert failure.path == ("serial", "stop")
        assert failure.action == "undo"

    def test_a_run_that_succeeds(self) -> None:
        """Nothing is undone."""
        log: list[str] = []
        assert phases.run(Disk("a", log), undo_on_failure=True, observers=[]).ok
        assert log == ["do a"]

    def test_a_later_attempt_that_finds_everything_there(self) -> None:
        """A task ran if one of its attempts failed: what that attempt made is undone, although the
        last one had nothing to do.
        """
        made: list[str] = []

        def create(_ctx: Context) -> object:
            if made:
                return phases.Skip("it is there")
            made.append("machine")
            raise OSError("timed out")

        machine = phases.task("machine", undo=lambda _: made.clear())(create)
        tree = phases.serial(phases.retry(machine, delay=0), Disk("x", [], OSError()), name="all")
        report = phases.run(tree, observers=[])
        assert report.find("machine").status is Status.SKIPPED
        assert made == ["machine"]

        phases.undo(tree, Context(observers=[]), of=report)
        assert made == []

        again = phases.run(tree, undo_on_failure=True, observers=[], clock=FakeClock())
        assert again.children[0].status is Status.SKIPPED
        assert made == []

    def run_a_group(self, log: list[str], undo: Callable[[Context], object] | None) -> None:
        """Run a group with this undo, whose first task runs and whose second does not. It has
        nothing else to do; the task after it fails.
        """
        inner = Disk("inner", log)
        unused = Disk("unused", log)

        def do(ctx: Context) -> phases.Skip:
            phases.execute(inner, ctx)
            return phases.Skip("nothing else to do")

        group = FunctionTask("group", do, undo=undo, subtasks=(inner, unused))
        tree = phases.serial(group, Disk("x", log, OSError("full")), name="all")
        phases.run(tree, undo_on_failure=True, observers=[], clock=FakeClock())

    def test_a_group_that_had_nothing_to_do_itself(self) -> None:
        """What ran inside it is undone."""
        log: list[str] = []
        self.run_a_group(log, undo=None)
        assert log == ["do inner", "do x", "undo x", "undo inner"]

    def test_a_group_with_an_undo_that_had_nothing_to_do_itself(self) -> None:
        """What ran inside it is undone by the undo of the group."""
        log: list[str] = []
        self.run_a_group(log, undo=lambda _: log.append("undo group"))
        assert log == ["do inner", "do x", "undo x", "undo group"]

    @pytest.mark.parametrize(("skip", "calls"), [(None, 1), ("drain", 0)])
    def test_a_task_that_only_an_undo_runs(self, skip: str | None, calls: int) -> None:
        """It runs, although it did not run before, unless the run leaves it out. What that undo
        undoes is still only what ran.
        """
        log: list[str] = []
        drain = StubTask("drain")
        unused = Disk("unused", log)

        def undo(ctx: Context) -> None:
            phases.execute(drain, ctx)
            phases.undo(unused, ctx)

        machine = FunctionTask("machine", lambda _: None, undo=undo, subtasks=(drain, unused))
        tree = phases.serial(machine, StubTask("x", errors=[OSError("full")]), name="all")
        report = phases.run(tree, skip=skip, undo_on_failure=True, observers=[])
        assert drain.calls == calls
        phases.undo(tree, Context(observers=[]), of=report)
        assert drain.calls == calls + 1
        assert log == []

    @pytest.mark.parametrize("error", [OSError("full"), SystemExit(3)])
    def test_an_undo_that_fails_after_a_failure(self, error: BaseException) -> None:
        """Both are failures of the run, the first one first, whatever was raised and by what."""

        def fails(_ctx: Context) -> None:
            raise error

        def broken(_ctx: Context) -> None:
            raise KeyError("busy")

        leaf = phases.task("leaf", undo=broken)(fails)
        for tree in (leaf, phases.retry(leaf, attempts=1), phases.serial(leaf, name="all")):
            report = phases.run(tree, undo_on_failure=True, observers=[])
            assert [step.action for step in report.failures] == ["do", "undo"]
            first, second = report.failures
            assert first.failed_with is error
            assert first in {report, report.children[0]}
            assert isinstance(second.failed_with, KeyError)
            assert str(report).count("KeyError") == 1
