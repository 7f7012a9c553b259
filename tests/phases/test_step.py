"""A step as a report: what happened, as text and as JSON."""

import io
import json
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast
from unittest.mock import ANY

import pytest

import phases
from phases import Status, Step
from phases.testing import FakeClock, StubTask
from phases.values import seconds_in_words


class Result:
    """A result with log fields."""

    def log_fields(self) -> dict[str, object]:
        """Two fields."""
        return {"routes": 3, "changed": True}


def report() -> Step:
    """The report of a run with every kind of outcome."""
    task = phases.serial(
        phases.retry(
            StubTask("download", Result(), seconds=2, errors=[OSError("busy")]), delay=1, jitter=0
        ),
        phases.parallel(
            StubTask("unpack", seconds=3, errors=[OSError("disk full")]),
            StubTask("pull", seconds=9),
            name="prepare",
        ),
        StubTask("start"),
        name="bootstrap",
    )
    return phases.run(task, clock=FakeClock(), observers=[])


def test_a_report_as_text() -> None:
    """One line for each step with its status, duration and details."""
    assert str(report()) == (
        "bootstrap     failed       8.00 s\n"
        "├─ download   ok           5.00 s  2 attempts, routes=3, changed=True\n"
        "├─ prepare    failed       3.00 s\n"
        "│  ├─ unpack  failed       3.00 s  OSError: disk full\n"
        "│  └─ pull    cancelled    3.00 s  unpack failed\n"
        "└─ start      skipped              not reached after prepare"
    )


def test_attempts_are_told_apart() -> None:
    """The steps of a group's second attempt say so, in the text and in the JSON."""
    again = phases.retry(
        phases.serial(StubTask("a", errors=[OSError("busy")]), StubTask("b"), name="both"), jitter=0
    )
    report = phases.run(again, clock=FakeClock(), observers=[])
    assert str(report) == (
        "both  ok           1.00 s  2 attempts\n"
        "├─ a  failed         0 ms  OSError: busy\n"
        "├─ b  skipped              not reached after a\n"
        "├─ a  ok             0 ms  attempt 2\n"
        "└─ b  ok             0 ms  attempt 2"
    )
    children = cast("list[dict[str, Any]]", report.to_mapping()["children"])
    assert [child["attempt"] for child in children] == [1, 1, 2, 2]


def test_an_undo_as_text() -> None:
    """Each undo is marked where it begins, in the report of an undo and in that of a run."""
    undone = phases.task("b", undo=lambda _: None)(lambda _: None)
    tree = phases.serial(StubTask("a"), phases.serial(undone, name="inner"), name="all")
    ctx = phases.Context(clock=FakeClock(), observers=[])
    assert str(phases.undo(tree, ctx)) == (
        "all (undo)       ok             0 ms\n"
        "├─ inner (undo)  ok             0 ms\n"
        "│  └─ b (undo)   ok             0 ms\n"
        "└─ a (undo)      skipped              offers no undo"
    )
    fails = phases.serial(undone, StubTask("x", errors=[OSError("full")]), name="all")
    report = phases.run(fails, undo_on_failure=True, clock=FakeClock(), observers=[])
    assert str(report) == (
        "all             failed         0 ms\n"
        "├─ b            ok             0 ms\n"
        "├─ x            failed         0 ms  OSError: full\n"
        "└─ all (undo)   ok             0 ms\n"
        "   ├─ x (undo)  skipped              offers no undo\n"
        "   └─ b (undo)  ok             0 ms"
    )


def test_what_an_undo_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Tasks that run inside an undo are marked like it: in the text, the log and the JSON, and with
    the path that the task had in the run.
    """
    caplog.set_level("INFO")

    def install(ctx: phases.Context) -> None:
        phases.execute(StubTask("install-files"), ctx)

    routes = phases.task("routes", undo=install)(install)
    fails = phases.serial(routes, StubTask("x", errors=[OSError("full")]), name="all")
    ctx = phases.Context(clock=FakeClock())
    report = phases.run(fails, undo_on_failure=True, ctx=ctx)
    assert str(report) == (
        "all                            failed         0 ms\n"
        "├─ routes                      ok             0 ms\n"
        "│  └─ install-files            ok             0 ms\n"
        "├─ x                           failed         0 ms  OSError: full\n"
        "└─ all (undo)                  ok             0 ms\n"
        "   ├─ x (undo)                 skipped              offers no undo\n"
        "   └─ routes (undo)            ok             0 ms\n"
        "      └─ install-files (undo)  ok             0 ms"
    )
    assert "all/routes/install-files (undo) started" in caplog.messages
    inner = report.find("install-files")
    assert inner.action == "undo"
    assert inner.path == ("all", "routes", "install-files")


def test_the_keys_of_a_report() -> None:
    """The schema is named at the top; every key is described in the documentation, and no other."""
    document = json.loads(report().to_json())
    assert document["schema"] == "phases/report/1"
    page = (Path(__file__).parents[2] / "docs/phases.md").read_text(encoding="utf-8")
    table = page.partition("| key | what it is |")[2].partition("\n\n")[0]
    first_column = "\n".join(re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE))
    described = re.findall(r"`(\w+)`", first_column)
    assert described == list(document)
    only_at_the_top, *of_each_step = described
    assert only_at_the_top == "schema"
    for child in document["children"]:
        assert list(child) == of_each_step


def test_a_report_as_json() -> None:
    """The JSON has the same data, typed, with a traceback for failures."""
    document = json.loads(report().to_json())
    assert [document[key] for key in ("task", "status", "seconds")] == ["bootstrap", "failed", 8]
    download, prepare, start = document["children"]
    assert download["attempts"] == 2
    assert download["fields"] == {"routes": 3, "changed": True}
    assert datetime.fromisoformat(download["start"]).utcoffset() == timedelta()
    assert prepare["error"] is None
    assert prepare["traceback"] is None
    assert prepare["children"][0]["error"] == "OSError: disk full"
    assert "disk full" in prepare["children"][0]["traceback"]
    pull = prepare["children"][1]
    assert (pull["status"], pull["error"], pull["reason"]) == ("cancelled", None, "unpack failed")
    assert start["status"] == "skipped"
    assert start["start"] is None
    assert start["seconds"] is None


class DiskError(Exception):
    """An error, or a result, with data."""

    def to_mapping(self) -> dict[str, object]:
        """Plain values, and an object that describes itself."""
        return {"routes": [Result(), PurePosixPath("/etc")]}


DATA = {"routes": [{"routes": 3, "changed": True}, "/etc"]}


def test_results_and_errors_are_data_and_stand_once() -> None:
    """A result, and the data of an error, are in the JSON once, at their task."""
    tasks = [StubTask("t", result) for result in (DiskError(), Result(), "image.raw", (1, "b"))]
    skip, fail = StubTask("skip", phases.Skip("why")), StubTask("x", errors=[DiskError()])
    document = phases.run(
        phases.serial(phases.serial(*tasks), skip, fail), observers=[]
    ).to_mapping()
    inner, skipped, failed = cast("list[dict[str, Any]]", document["children"])
    assert [document["result"], inner["result"], skipped["result"], document["details"]] == [
        None
    ] * 4
    results = [child["result"] for child in inner["children"]]
    assert results == [DATA, {"routes": 3, "changed": True}, "image.raw", [1, "b"]]
    assert failed["error"] == "DiskError"
    assert failed["details"] == DATA


class Machine(NamedTuple):
    """A result that is a tuple."""

    name: str
    cores: int


def test_a_tuple_of_a_task_that_runs_another() -> None:
    """It is in the JSON: only the results of a group are left out, which its steps have."""

    @phases.task("outer")
    def outer(ctx: phases.Context) -> Machine:
        phases.execute(StubTask("inner"), ctx)
        return Machine("node-7", 8)

    document = phases.run(phases.retry(outer), observers=[]).to_mapping()
    assert document["result"] == ["node-7", 8]
    document = phases.run(phases.parallel(name="none"), observers=[]).to_mapping()
    assert document["result"] is None


class Shy(Exception):  # noqa: N818  a result, too
    """Can be an error or a result, and be neither printed nor described."""

    def __str__(self) -> str:
        raise RuntimeError("half")

    to_mapping = log_fields = __str__


def circle() -> list[object]:
    """A list that contains itself."""
    members: list[object] = []
    members += [members, {"again": members}]
    return members


ITSELF = "<list that contains itself>"


@pytest.mark.parametrize(
    ("result", "in_json"),
    [
        pytest.param(float("nan"), "nan", id="not a number"),
        pytest.param(
            {1: {"set"}, ("a", "b"): b"bytes"},
            {"1": ["set"], "('a', 'b')": "b'bytes'"},
            id="keys that are not texts",
        ),
        pytest.param(circle(), [ITSELF, {"again": ITSELF}], id="a circle"),
        pytest.param("\ud800", "\ud800", id="half a letter"),
        pytest.param(ANY, "<ANY>", id="equal to what contains it"),
        pytest.param(Step, str(Step), id="a class that describes its objects"),
    ],
)
def test_odd_results(result: object, in_json: object) -> None:
    """The JSON of a report is valid, whatever a task returns."""
    step = phases.run(StubTask("a", [result]), observers=[])
    assert json.loads(step.to_json())["result"] == [in_json]


def test_a_number_that_is_too_large() -> None:
    """It is named, because Python does not write it."""
    step = phases.run(StubTask("a", [10**5000]), observers=[])
    [described] = json.loads(step.to_json())["result"]
    assert described.startswith("<int that cannot be described: OverflowError")


def test_what_cannot_be_described() -> None:
    """The report says so, in a list and as the result itself, and the step is ok."""
    inside = phases.run(StubTask("a", [Shy()]), observers=[])
    alone = json.loads(phases.run(StubTask("b", Shy()), observers=[]).to_json())
    assert json.loads(inside.to_json())["result"] == [
        "<Shy that cannot be described: RuntimeError: half>"
    ]
    assert alone["status"] == "ok"
    assert alone["fields"] == {"log_fields_error": "RuntimeError: half"}


def test_odd_errors() -> None:
    """The text of a report can be shown by a terminal, whatever a task raises."""
    unprintable = phases.run(StubTask("a", errors=[Shy()]), observers=[])
    steering = phases.run(StubTask("b", errors=[OSError("\x1b[2J\ud800\rok")]), observers=[])
    json.loads(steering.to_json())
    assert "Shy: <Shy that cannot be printed>" in str(unprintable)
    assert "\\x1b[2J\\ud800\\rok" in str(steering)


def test_a_report_on_a_stream_that_is_not_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """print() raises nothing: what the stream cannot have is escaped."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    tree = phases.serial(
        phases.serial(StubTask("a"), name="größe"), StubTask("b", errors=[OSError("voll: é")])
    )
    step = phases.run(tree, observers=[], clock=FakeClock())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        print(step)  # noqa: T201  what is tested
    stream.seek(0)
    assert stream.read() == (
        "serial    failed         0 ms\n"
        "\\u251c\\u2500 gr\\xf6\\xdfe  ok             0 ms\n"
        "\\u2502  \\u2514\\u2500 a   ok             0 ms\n"
        "\\u2514\\u2500 b      failed         0 ms  OSError: voll: \\xe9\n"
    )


def test_a_report_in_a_message() -> None:
    """It is one line, as pytest shows it where an `assert report.ok` fails."""
    task = phases.retry(StubTask("b", errors=[OSError("busy")]), attempts=1)
    report = phases.run(phases.serial(task, name="a"), observers=[])
    assert repr(report) == "<Step a failed>"
    assert repr(report.find("b")) == "<Step a/b failed: OSError: busy>"
    assert repr(phases.plan(StubTask("a"))) == "<Step a (plan) skipped: offers no plan>"


def test_a_step_is_found_by_name() -> None:
    """A step is found by name or by the end of its path; the last one if there are several."""
    fails_once = StubTask("c", errors=[OSError("busy")])
    again = phases.retry(phases.serial(StubTask("a"), fails_once, name="g"), jitter=0)
    other = phases.serial(StubTask("a"), name="h")
    twice = phases.run(phases.serial(again, other), clock=FakeClock(), observers=[])
    assert twice.find("a").path == ("serial", "h", "a")
    assert twice.find("g/a").attempt == 2
    assert report().find("pull").status is Status.CANCELLED
    assert report().find("prepare/pull").path == ("bootstrap", "prepare", "pull")
    message = "no step 'ull' among those of this report: bootstrap, bootstrap/download"
    with pytest.raises(phases.UnknownTask, match=message):
        report().find("ull")


def test_a_step_is_found_while_the_run_goes_on() -> None:
    """An observer finds what has started, and what has not is not said to have ended."""
    messages: list[str] = []

    def observe(step: Step) -> None:
        if step.status is Status.RUNNING:
            assert step.find(step.name) is step
            with pytest.raises(phases.UnknownTask) as caught:
                step.find("later")
            messages.append(str(caught.value))

    phases.run(StubTask("a"), observers=[observe])
    assert messages == ["no step 'later' among those of this report: a"]


def test_a_step_of_the_run_that_was_undone() -> None:
    """The last step with a name is that of the undo; the action asks for that of the run."""
    lock = phases.task("lock", undo=lambda _: "undone")(lambda _: "locked")
    fails = StubTask("fails", errors=[OSError()])
    report = phases.run(phases.serial(lock, fails), undo_on_failure=True, observers=[])
    assert report.find("lock").result == "undone"
    assert report.find("lock", action="do").result == "locked"
    with pytest.raises(
        phases.UnknownTask, match=r"^no step 'lock' among those of this report: none$"
    ):
        report.find("lock", action="plan")


def test_what_differs_in_a_later_report() -> None:
    """Each step with what it has become, apart from the times; also if both were read from JSON."""
    busy = StubTask("b", [1], seconds=1, errors=[OSError("busy"), OSError("busy")])
    again = phases.retry(busy, attempts=2)
    tree = phases.serial(StubTask("a"), again, phases.when(False, StubTask("c")), name="tree")
    first = phases.run(tree, clock=FakeClock(), observers=[])
    second = phases.run(tree, clock=FakeClock(), observers=[])
    smaller = phases.run(phases.serial(again, name="tree"), clock=FakeClock(), observers=[])
    assert first.differences(first) == ()
    assert [str(difference) for difference in first.differences(second)] == [
        "tree: status was failed, is ok",
        "tree/b: status was failed, is ok",
        "tree/b: attempts was 2, is 1",
        "tree/b: error was OSError: busy, is None",
        "tree/b: result was None, is [1]",
        "tree/c: reason was not reached after b, is its condition is false",
    ]
    assert [str(difference) for difference in second.differences(smaller)] == [
        "tree/a: status was ok, is None",
        "tree/c: status was skipped, is None",
    ]
    read = [Step.from_json(report.to_json()) for report in (first, second)]
    assert read[0].differences(read[1]) == first.differences(second)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "the schema of this report is None, not 'phases/report/1'"),
        ('{"schema": "phases/report/2"}', "is 'phases/report/2', not"),
        ('{"schema": "phases/report/1", "task": "a"}', "this is not a whole report: KeyError"),
        ("a  ok  1 ms", "Expecting value"),
    ],
)
def test_a_text_that_is_not_a_report(text: str, words: str) -> None:
    """Reading it says what is wrong."""
    with pytest.raises(ValueError, match=words):
        Step.from_json(text)


def test_a_dry_run_that_was_read() -> None:
    """Its plans are data, and only those that are texts are printed."""
    download = phases.task("download", plan=lambda _: "would download")(print)
    routes = phases.task("routes", plan=lambda _: {"routes": 2})(print)
    read = Step.from_json(phases.plan(phases.serial(download, routes)).to_json())
    assert [step.result for step in read.children] == ["would download", {"routes": 2}]
    assert [line.split(maxsplit=2)[2:] for line in str(read).splitlines()[1:]] == [
        ["would download"],
        [],
    ]


def test_exit_codes_of_a_report() -> None:
    """The exit code is 0 after success, also if there was nothing to do, and 1 after a failure."""
    ends = [None, phases.Skip("nothing to do")], [OSError(), phases.Cancelled("enough")]
    assert [phases.run(StubTask("a", result), observers=[]).exit_code for result in ends[0]] == [
        0,
        0,
    ]
    assert phases.run(StubTask("a"), observers=[]).failures == ()
    assert [
        phases.run(StubTask("a", errors=[error]), observers=[]).exit_code for error in ends[1]
    ] == [1, 1]


def test_durations_in_words() -> None:
    """A duration has some digits, and is never shown as 60 seconds or 1000 milliseconds."""
    words = {
        0: "0 ms",
        0.012: "12 ms",
        0.999_4: "999 ms",
        0.999_6: "1.00 s",
        3.254: "3.25 s",
        59.994: "59.99 s",
    }
    words |= {59.996: "1 min 00 s", 135: "2 min 15 s", 3725: "62 min 05 s"}
    assert {seconds: seconds_in_words(seconds) for seconds in words} == words
