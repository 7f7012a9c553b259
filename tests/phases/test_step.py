"""A step as a report: what happened, as text and as JSON."""

import json
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pytest

import phases
from phases import Status, Step
from tests.support.recorder import StubTask, ran


class Result(NamedTuple):
    """A result with log fields and a document of its own. JSON has a way to write it, too."""

    def log_fields(self) -> dict[str, object]:
        return {"routes": 3, "path": PurePosixPath("/\x1b")}

    def to_mapping(self) -> dict[str, int]:
        return {"added": 3}


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
    assert str(report()) == (
        "bootstrap     failed       8.00 s\n"
        "├─ download   ok           5.00 s  2 attempts, routes=3, path=/\\x1b\n"
        "├─ prepare    failed       3.00 s\n"
        "│  ├─ unpack  failed       3.00 s  OSError: disk full\n"
        "│  └─ pull    cancelled    3.00 s  unpack failed\n"
        "└─ start      skipped              not reached after prepare"
    )


class Failure(Exception):  # noqa: N818  reads as what happened
    """An error that knows the exit code for it."""

    def __init__(self, exit_code: int | None) -> None:
        self.exit_code = exit_code

    def to_mapping(self) -> dict[str, object]:
        return vars(self)


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([OSError()], 1),
        ([Failure(3)], 3),
        ([Failure(3), Failure(2)], 2),
        ([Failure(3), OSError()], 1),
        ([Failure(0)], 1),
        ([Failure(None)], 1),
        ([Failure(256)], 1),
        ([Failure(255), Failure(-15)], 1),
    ],
)
def test_the_exit_code_of_an_error(errors: list[Exception], code: int) -> None:
    """It counts, of several failures the lowest; but no failure is a success."""
    failures = tuple(ran(StubTask("a", errors=[error])) for error in errors)
    assert Step(("all",), status=Status.FAILED, failures=failures).exit_code == code
    assert phases.TaskFailed(failures).exit_code == code


def test_an_undo_in_a_report(caplog: pytest.LogCaptureFixture) -> None:
    """Each step of it is marked, and has the path that the task had in the run."""
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


def test_the_keys_of_a_report() -> None:
    """The schema is named at the top; every key is described in the documentation."""
    document = json.loads(report().to_json())
    assert document["schema"] == "phases/report/1"
    page = (Path(__file__).parents[2] / "docs/phases.md").read_text(encoding="utf-8")
    described = page.partition("each step has these keys:")[2].partition("\n\n`")[0]
    assert set(document) <= set(re.findall(r"`(\w+)`", described))
    for child in document["children"]:
        assert {"schema", *child} == set(document)


def test_a_report_as_json() -> None:
    """The JSON has the same data, typed where JSON can, with a traceback for failures."""
    document = json.loads(report().to_json())
    outer = ran(StubTask("b", result=[({Path("a"): ran(StubTask("a", errors=[Failure(3)]))},)]))
    assert json.loads(outer.to_json())["result"][0][0]["a"]["details"] == {"exit_code": 3}
    assert [document[key] for key in ("task", "status", "seconds")] == ["bootstrap", "failed", 8]
    download, prepare, start = document["children"]
    assert download["attempts"] == 2
    assert download["fields"] == {"routes": 3, "path": "/\x1b"}
    assert download["result"] == {"added": 3}
    assert re.fullmatch(r"[\d-]{10}T[\d:.]+\+00:00", download["start"])
    assert (prepare["error"], prepare["traceback"]) == (None, None)
    unpack, pull = prepare["children"]
    assert (unpack["error"], unpack["reason"]) == ("OSError: disk full", None)
    assert "in do" in unpack["traceback"]
    assert (pull["status"], pull["error"], pull["reason"]) == ("cancelled", None, "unpack failed")
    assert (start["status"], start["start"], start["seconds"]) == ("skipped", None, None)
