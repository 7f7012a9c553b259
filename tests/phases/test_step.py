"""A step as a report: what happened, as text and as JSON."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import NamedTuple

import pytest

import phases
from phases import Step
from phases.errors import ReportedError
from phases.testing import StubTask
from tests.support.recorder import ran


class Result:
    """A result with log fields."""

    def log_fields(self) -> dict[str, object]:
        """Two fields, one of them no JSON value."""
        return {"routes": 3, "path": PurePosixPath("/etc")}


def report() -> Step:
    """The report of a run with every kind of outcome."""
    task = phases.serial(
        phases.retry(
            StubTask("download", result=Result(), seconds=2, errors=[OSError("busy")]),
            delay=1,
            jitter=0,
        ),
        phases.parallel(
            StubTask("unpack", seconds=3, errors=[OSError("disk full")]),
            StubTask("pull", seconds=9),
            name="prepare",
        ),
        StubTask("start"),
        name="bootstrap",
    )
    return ran(task)


def test_a_report_as_text() -> None:
    """One line for each step with its status, duration and details."""
    assert str(report()) == (
        "bootstrap     failed       8.00 s\n"
        "├─ download   ok           5.00 s  2 attempts, routes=3, path=/etc\n"
        "├─ prepare    failed       3.00 s\n"
        "│  ├─ unpack  failed       3.00 s  OSError: disk full\n"
        "│  └─ pull    cancelled    3.00 s  unpack failed\n"
        "└─ start      skipped              not reached after prepare"
    )


def test_attempts_are_told_apart() -> None:
    """The steps of a group's second attempt say so."""
    fails_once = StubTask("a", errors=[OSError("busy")])
    again = phases.retry(phases.serial(fails_once, StubTask("b"), name="both"), jitter=0)
    report = ran(again)
    assert str(report) == (
        "both  ok           1.00 s  2 attempts\n"
        "├─ a  failed         0 ms  OSError: busy\n"
        "├─ b  skipped              not reached after a\n"
        "├─ a  ok             0 ms  attempt 2\n"
        "└─ b  ok             0 ms  attempt 2"
    )


def test_an_undo_in_a_report(caplog: pytest.LogCaptureFixture) -> None:
    """Each step of it is marked, also what its tasks run, in the text and in the log; it has the
    path that the task had in the run.
    """
    caplog.set_level("INFO")

    def install(ctx: phases.Context) -> None:
        phases.execute(StubTask("install-files"), ctx)

    routes = phases.task("routes", undo=install)(install)
    fails = phases.serial(routes, StubTask("x", errors=[OSError("full")]), name="all")
    report = phases.run(fails, undo_on_failure=True)
    words = [re.split(" +(?:ok|failed|skipped)", line)[0] for line in str(report).splitlines()]
    assert words == [
        "all",
        "├─ routes",
        "│  └─ install-files",
        "├─ x",
        "└─ all (undo)",
        "   ├─ x (undo)",
        "   └─ routes (undo)",
        "      └─ install-files (undo)",
    ]
    assert "all/routes/install-files (undo) started" in caplog.messages
    inner = report.find("install-files")
    assert (inner.action, inner.path) == ("undo", ("all", "routes", "install-files"))
    assert report.find("install-files", action="do").action == "do"
    with pytest.raises(phases.UnknownTask, match=r"^no step 'x' .* the action plan: none$"):
        report.find("x", action="plan")


def test_a_status_is_compared_with_anything() -> None:
    """Only a text can be a misspelt one."""
    assert phases.Status.OK not in [None, 5, []]


def test_the_keys_of_a_report() -> None:
    """The schema is named at the top; every key is described in the documentation, and no other."""
    document = json.loads(report().to_json())
    assert document["schema"] == "phases/report/1"
    page = (Path(__file__).parents[2] / "docs/phases.md").read_text(encoding="utf-8")
    table = page.partition("| key | what it is |")[2].partition("\n\n")[0]
    first_column = "\n".join(re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE))
    described = re.findall(r"`(\w+)`", first_column)
    assert sorted(described) == sorted(document)
    for child in document["children"]:
        assert {"schema", *child} == set(described)


def test_a_report_as_json() -> None:
    """The JSON has the same data, typed, with a traceback for failures."""
    document = json.loads(report().to_json())
    assert [document[key] for key in ("task", "status", "seconds")] == ["bootstrap", "failed", 8]
    download, prepare, start = document["children"]
    assert download["attempts"] == 2
    assert download["fields"] == {"routes": 3, "path": "/etc"}
    assert datetime.fromisoformat(download["start"]).utcoffset() == timedelta()
    assert (prepare["error"], prepare["traceback"]) == (None, None)
    unpack, pull = prepare["children"]
    assert unpack["error"] == "OSError: disk full"
    assert "in do" in unpack["traceback"]
    assert (pull["status"], pull["error"], pull["reason"]) == ("cancelled", None, "unpack failed")
    assert (start["status"], start["start"], start["seconds"]) == ("skipped", None, None)


class DiskError(Exception):
    """An error with data."""

    def to_mapping(self) -> dict[str, object]:
        """Plain values, and an object that describes itself."""
        return {"disks": [Result(), PurePosixPath("/dev")]}


DATA = {"disks": [{"routes": 3, "path": "/etc"}, "/dev"]}


class Machine(NamedTuple):
    """A result that is a tuple."""

    name: str
    cores: int


class Shy(Exception):  # noqa: N818  a result, too
    """Can be an error or in a result, and be neither printed nor described."""

    def __str__(self) -> str:
        raise RuntimeError("half")

    to_mapping = log_fields = __str__


def circle() -> list[object]:
    """A list that contains itself."""
    members: list[object] = []
    members.append(members)
    return members


@pytest.mark.parametrize(
    ("result", "in_json"),
    [
        ([DiskError()], [DATA]),
        (Result(), {"routes": 3, "path": "/etc"}),
        (Machine("node-7", 8), ["node-7", 8]),
        (float("nan"), "nan"),
        ({1: {"set"}, ("a", "b"): b"bytes"}, {"1": ["set"], "('a', 'b')": "b'bytes'"}),
        (circle(), re.compile("<list that cannot be described: RecursionError: ")),
        ("\ud800", "\ud800"),
        ([Shy()], "<list that cannot be described: RuntimeError: half>"),
        (Step, str(Step)),
    ],
    ids=range(9),
)
def test_results_in_json(result: object, in_json: object) -> None:
    """They are valid JSON, whatever a task returns: what cannot be described is named."""
    written = json.loads(ran(phases.retry(StubTask("a", result=result))).to_json())["result"]
    if isinstance(in_json, re.Pattern):
        assert in_json.match(written)
    else:
        assert written == in_json


def test_what_cannot_be_described() -> None:
    """The report can be shown by any terminal, and a result does not fail its task."""
    undescribed = SimpleNamespace(log_fields=lambda: str(Shy()))
    alone = json.loads(ran(StubTask("b", result=undescribed)).to_json())
    assert (alone["status"], alone["fields"]) == (
        "ok",
        {"log_fields_error": "RuntimeError: half"},
    )
    misspelt = ran(StubTask("b", result=SimpleNamespace(log_field=dict)))
    assert (misspelt.ok, misspelt.fields["log_fields_error"]) == (
        True,
        "it has log_field, and no log_fields: write log_fields(self), or rename it",
    )
    unprintable = ran(StubTask("a", errors=[Shy()]))
    assert "Shy: <Shy that cannot be printed>" in str(unprintable)
    for text in (
        str(ran(StubTask("b", errors=[OSError("\x1b[2J\ud800\rok")]))),
        str(ran(StubTask("b", result=phases.Skip("\x1b[2J\ud800")))),
        repr(ran(StubTask("b", result=phases.Skip("\x1b[2J\ud800")))),
        str(phases.plan(phases.task("b", plan=lambda _: "\x1b[2J\ud800")(print))),
    ):
        assert "\\x1b[2J\\ud800" in text
        assert text.isprintable()


def test_what_differs_in_a_later_report() -> None:
    """Each step with what it has become, apart from the times; also if both were read from JSON."""
    busy = StubTask("b", result=[1], seconds=1, errors=[OSError("busy"), OSError("busy")])
    again = phases.retry(busy, attempts=2)
    tree = phases.serial(StubTask("a"), again, phases.when(False, StubTask("c")), name="tree")
    first, second = ran(tree), ran(tree)
    smaller = ran(phases.serial(StubTask("b", result=Result()), name="tree"))
    assert first.differences(first) == ()
    assert [str(difference) for difference in first.differences(second)] == [
        "tree: status was failed, is ok",
        "tree/b: status was failed, is ok",
        "tree/b: error was OSError: busy, is None",
        "tree/b: result was None, is [1]",
        "tree/c: reason was not reached after b, is its condition is false",
    ]
    assert [str(difference) for difference in second.differences(smaller)] == [
        "tree/a: status was ok, is None",
        "tree/b: fields was None, is {'routes': 3, 'path': '/etc'}",
        "tree/b: result was [1], is {'routes': 3, 'path': '/etc'}",
        "tree/c: status was skipped, is None",
        "tree/c: reason was its condition is false, is None",
    ]
    yes, no = (ran(phases.serial(StubTask("a", result=result), name="tree")) for result in (5, 0))
    assert [str(difference) for difference in yes.differences(no)] == ["tree/a: result was 5, is 0"]
    assert "tree/a: status was None, is ok" in map(str, smaller.differences(second))
    read = [Step.from_json(report.to_json()) for report in (first, second)]
    assert read[0].differences(read[1]) == first.differences(second)


def test_a_report_that_was_read() -> None:
    """Its errors are words and details, and its results data, those of a dry run too."""
    read = Step.from_json(ran(StubTask("a", errors=[DiskError("full")])).to_json())
    for _ in range(2):  # once more, as it was read
        assert isinstance(read.error, ReportedError)
        assert (read.why, read.error.details) == ("DiskError: full", DATA)
        read = Step.from_json(read.to_json())
    routes = phases.task("routes", plan=lambda _: {"routes": 2})(print)
    read = Step.from_json(phases.plan(routes).to_json())
    assert (read.result, str(read)) == ({"routes": 2}, "routes  {'routes': 2}")


def report_with(key: str, value: object) -> str:
    """A report in which this value has another type."""
    return json.dumps({**ran(StubTask("a")).to_mapping(), key: value})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "the schema of this report is None, not 'phases/report/1'"),
        ('{"schema": "phases/report/2"}', "is 'phases/report/2', not"),
        ('{"schema": "phases/report/1", "task": "a"}', "this is not a whole report: KeyError"),
        (
            "a  ok  1 ms",
            r"this is not a whole report: it is not JSON \(.* line 1 .*; pass the text",
        ),
        ("[" * 200_000, "this is not a whole report: it is not JSON .maximum recursion"),
        (None, r"this is not a whole report: it is not JSON \(the JSON object must be str"),
        (report_with("task", 5), "TypeError: task is 5; it must be"),
        (report_with("status", "FAILED"), "not a whole report: ValueError: 'FAILED' is not a"),
        (report_with("fields", None), "TypeError: fields is None; it must be what to_json writes"),
        (report_with("attempts", "x"), "TypeError: attempts is 'x'"),
        (report_with("signal", "x"), "TypeError: signal is 'x'"),
        (report_with("reason", 5), "TypeError: reason is 5"),
    ],
)
def test_a_text_that_is_not_a_report(text: str, words: str) -> None:
    """Reading it says what is wrong."""
    with pytest.raises(ValueError, match=words):
        Step.from_json(text)


def test_an_error_with_a_list() -> None:
    """In one line, what is indented is separated, so that each fault can be read. Without words, an
    error is its type.
    """
    error = ValueError("2 faults:\n  mode: unknown\n  dev: no\n  \nor\nmore")
    assert ran(StubTask("a", errors=[error])).why == (
        "ValueError: 2 faults: mode: unknown; dev: no or more"
    )
    assert ran(StubTask("a", errors=[OSError()])).why == "OSError"
