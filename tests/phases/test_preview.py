"""plan: what would be done, without doing it."""

import json

import attrs
import pytest

import phases
from phases import Context
from phases.testing import StubTask


@attrs.frozen
class Routes:
    """A task with a plan of two lines."""

    name: str = "routes"

    def do(self, _ctx: Context) -> None:
        """Must not be called."""
        raise AssertionError

    def plan(self, ctx: Context) -> str:
        """Two lines, the second with the path."""
        return f"+ 172.16.0.0/17\n+ {'/'.join(ctx.path)}"


@phases.task("mute")
def mute(_ctx: Context) -> None:
    """Has no plan; must not be called."""
    raise AssertionError


def broken(_ctx: Context) -> str:
    """A plan that raises."""
    raise PermissionError("not root")


def tree() -> phases.Task[object]:
    """A tree: some tasks offer a plan, some do not, one raises."""
    return phases.serial(
        phases.retry(Routes()),
        phases.parallel(mute, phases.when(False, StubTask("stub", 7)), name="both"),
        phases.task("broken", plan=broken)(lambda _ctx: None),
        name="bootstrap",
    )


def test_text() -> None:
    """The tree shows for each task what it would do, or that it offers no plan, or the error."""
    assert str(phases.plan(tree())) == (
        "bootstrap\n"
        "├─ routes\n"
        "│    + 172.16.0.0/17\n"
        "│    + bootstrap/routes\n"
        "├─ both\n"
        "│  ├─ mute  (offers no plan)\n"
        "│  └─ stub  (its condition is false)  would return 7\n"
        "└─ broken  cannot say: PermissionError: not root"
    )


def test_values() -> None:
    """The tree has values: what plan(ctx) returned, the error, and whether no task raised."""
    found = phases.plan(tree())
    assert [node.name for node in found.walk()] == ["bootstrap", "routes", "both", "mute", "stub", "broken"]
    assert not found.ok
    assert isinstance(found.children[2].error, PermissionError)
    assert phases.plan(Routes()).ok
    document = json.loads(found.to_json())
    assert document["children"][2]["error"] == "PermissionError: not root"
    assert (document["action"], document["children"][0]["result"]) == ("plan", found.children[0].result)


def test_only_and_skip() -> None:
    """Tasks that a run would leave out are not called; unknown names are errors here as well."""
    found = phases.plan(tree(), only="both", skip="stub")
    assert [(node.name, node.reason) for node in found.walk()] == [
        ("bootstrap", ""),
        ("routes", "left out by only"),
        ("both", ""),
        ("mute", "offers no plan"),
        ("stub", "left out by skip"),
        ("broken", "left out by only"),
    ]
    with pytest.raises(phases.UnknownTask):
        phases.plan(tree(), only="nothing")


def test_a_group_may_answer_for_its_members() -> None:
    """If a group has a plan itself, that is called instead of the plans of its tasks."""

    @attrs.frozen
    class Whole:
        name: str = "whole"
        subtasks: tuple[phases.AnyTask, ...] = (StubTask("part"),)

        def do(self, _ctx: Context) -> None: ...

        def plan(self, _ctx: Context) -> str:
            return "all of it"

    assert str(phases.plan(Whole())) == "whole  all of it"


def test_cancelled() -> None:
    """Planning stops on cancellation."""
    ctx = Context()
    ctx.cancel("enough")
    with pytest.raises(phases.Cancelled):
        phases.plan(tree(), ctx)
