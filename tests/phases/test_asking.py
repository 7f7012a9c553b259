"""plan and undo of a whole tree, and run(only=…, skip=…)."""

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
    return phases.serial(
        phases.retry(
            phases.task("routes", plan=lambda ctx: f"+ 172.16.0.0/17\n+ {'/'.join(ctx.path)}")(
                never
            )
        ),
        phases.parallel(
            phases.task("mute")(never),
            phases.when(False, phases.task("no", plan=lambda _: 7)(never)),
            phases.when(
                lambda _: False, phases.task("maybe", plan=lambda _: phases.Skip("there"))(never)
            ),
            name="both",
        ),
        phases.task("broken", plan=broken)(never),
        name="bootstrap",
    )


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
            "│  ├─ no     its condition is false, 7\n"
            "│  └─ maybe  only if its condition is true\n"
            "└─ broken    PermissionError: not root"
        )
        assert (report.ok, report.action) == (False, "plan")
        assert report.children[0].result == "+ 172.16.0.0/17\n+ bootstrap/routes"
        assert isinstance(report.children[2].error, PermissionError)
        assert phases.plan(tree(), skip="broken").ok

    def test_a_plan_that_says_why_the_run_would_fail(self) -> None:
        """Its step has failed for that reason, and still shows the plan; the other tasks are asked
        all the same.
        """
        doomed = phases.task("doomed", plan=lambda _: Doomed("+ 10.9.0.0/16", "the disk is full"))(
            never
        )
        fine = phases.task("fine", plan=lambda _: Doomed("+ 10.8.0.0/16", ""))(never)
        report = phases.plan(phases.serial(phases.deadline(doomed, 5), fine, name="bootstrap"))
        assert str(report) == (
            "bootstrap\n├─ doomed  WouldFail: the disk is full, + 10.9.0.0/16\n└─ fine    + 10.8.0.0/16"
        )
        assert (report.ok, report.exit_code, report.failures) == (False, 1, (report.children[0],))
        assert isinstance(report.children[0].error, phases.WouldFail)
        assert str(report.children[0].result) == "+ 10.9.0.0/16"
        assert report.to_mapping()["status"] == "failed"
        assert phases.plan(fine).ok

    def test_a_group_may_answer_for_its_members(self) -> None:
        """If a group has a plan or an undo itself, that is called instead of those of its tasks."""
        assert str(phases.plan(WHOLE)) == "whole  all of it"
        report = phases.undo(WHOLE, Context(observers=[]))
        assert (report.result, report.children) == ("all of it", [])

    def test_a_plan_of_a_part(self) -> None:
        """Tasks that a run would leave out are not called; unknown names are errors here as well."""
        report = phases.plan(tree(), only="both", skip="no")
        assert {step.name: step.reason for step in report.walk() if "left out" in step.reason} == {
            "routes": "left out by only",
            "no": "left out by skip",
            "broken": "left out by only",
        }
        for name in ("nothing", ""):
            with pytest.raises(phases.UnknownTask, match=r"The tasks are: \w"):
                phases.plan(tree(), only=name)


class TestUndo:
    """undo: the last task first."""

    def stub(self, name: str, log: list[str], error: Exception | None = None) -> phases.AnyTask:
        """A task that records its undo, which may fail."""

        def undo(ctx: Context) -> None:
            log.append("/".join(ctx.path))
            if error is not None:
                raise error

        return phases.task(name, undo=undo)(lambda _ctx: None)

    def test_the_last_task_is_undone_first(self) -> None:
        """Every task with an undo is undone, the last listed first, also after a failure; the
        report has each.
        """
        log, seen = list[str](), Recorder()
        nothing = phases.task("nothing")(lambda _ctx: None)
        inner = phases.parallel(
            self.stub("b", log, OSError("busy")), nothing, self.stub("c", log), name="g"
        )
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
        assert (report.action, report.failures[0].path) == ("undo", ("all", "g", "b"))
        assert seen.ends[-1] == ("all", Status.FAILED)

    def test_a_cancelled_run_is_undone(self) -> None:
        """A cancellation, before or meanwhile, lets every undo finish."""
        undone, ctx = list[str](), Context(clock=FakeClock(), observers=[])
        ctx.cancel("SIGTERM")

        def undo(inner: Context) -> None:
            inner.cancel("SIGTERM")
            inner.sleep(5)
            undone.append(inner.path[-1])

        tasks = [phases.task(name, undo=undo)(lambda _: None) for name in "abc"]
        assert phases.undo(phases.serial(*tasks), ctx).ok
        assert undone == ["c", "b", "a"]

    def test_a_task_may_undo_others(self) -> None:
        """A task may undo others with its own context: the undo is part of its run."""
        log = list[str]()
        tree = phases.serial(self.stub("a", log), self.stub("b", log), name="all")
        report = phases.run(
            phases.task("roll-back")(lambda ctx: phases.undo(tree, ctx)), observers=[]
        )
        assert log == ["roll-back/all/b", "roll-back/all/a"]
        assert report.find("roll-back/all").action == "undo"


class TestSelection:
    """Which tasks only= and skip= leave out, and names that do not exist."""

    def tree(self) -> phases.Task[object]:
        """bootstrap: download, network (routes, check), start (routes)."""
        return phases.serial(
            phases.retry(StubTask("download")),
            phases.parallel(
                StubTask("routes"), phases.deadline(StubTask("check"), 5), name="network"
            ),
            phases.serial(StubTask("routes"), name="start"),
            name="bootstrap",
        )

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
        assert report.ok
        done = {
            "/".join(step.path[1:])
            for step in report.walk()
            if not step.children and step.status is Status.OK
        }
        assert " ".join(sorted(done - {""})) == expected
        assert {step.reason for step in report.walk()} <= {
            "",
            "left out by only",
            "left out by skip",
        }

    @pytest.mark.parametrize(
        ("option", "name"), [("only", "donwload"), ("skip", "network/download")]
    )
    def test_names_that_no_task_has(self, option: str, name: str) -> None:
        """An unknown name is an error before the first task starts; it lists all names."""
        seen, known = Recorder(), "bootstrap, download, network, routes, check, start"
        with pytest.raises(phases.UnknownTask) as caught:
            phases.run(self.tree(), observers=[seen], **{option: (name,)})  # type: ignore[arg-type]  # only or skip
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

        phases.run(phases.serial(Outer(), StubTask("b")), only="outer", observers=[])
        phases.run(phases.serial(Outer(), StubTask("b")), skip="inner", observers=[])
        assert results == [1, phases.Skip("left out by skip")]
