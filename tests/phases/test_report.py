"""Report: what happened, as text and as JSON."""

import io
import json
from pathlib import PurePosixPath
from typing import Any, cast

import attrs
import pytest

import phases
from phases import Context, Status
from phases.testing import FakeClock, RecordingObserver, StubTask
from phases.text import as_data


class Result:
    """A result with log fields."""

    def log_fields(self) -> dict[str, object]:
        """Two fields."""
        return {"routes": 3, "changed": True}


def bootstrap() -> phases.Task[object]:
    """A tree with every kind of outcome."""
    return phases.serial(
        phases.retry(StubTask("download", Result(), seconds=2, errors=[OSError("busy")]), delay=1, jitter=0),
        phases.parallel(
            StubTask("unpack", seconds=3, always=OSError("disk full")), StubTask("pull", seconds=9), name="prepare"
        ),
        StubTask("start"),
        name="bootstrap",
    )


def report() -> phases.Report:
    """The report of the run."""
    return phases.run(bootstrap(), clock=FakeClock(), observers=[], run_id="r1")


def test_text() -> None:
    """The first line is the outcome, then one line for each task with its status, duration and reason."""
    assert str(report()) == (
        "bootstrap: failed after 8.00 s: unpack failed: OSError: disk full (in bootstrap/prepare/unpack)\n"
        "bootstrap     failed     8.00 s\n"
        "├─ download   ok         5.00 s  2 attempts, routes=3, changed=True\n"
        "├─ prepare    failed     3.00 s\n"
        "│  ├─ unpack  failed     3.00 s  OSError\n"
        "│  └─ pull    cancelled  3.00 s  unpack failed\n"
        "└─ start      skipped            not reached after prepare"
    )


def test_json() -> None:
    """The JSON has the same data, typed, with a schema name and a traceback for failures."""
    found = json.loads(report().to_json())
    assert (found["schema"], found["run"], found["status"], found["duration"]) == ("phases/report/1", "r1", "failed", 8)
    download, prepare, start = found["children"]
    assert (download["attempts"], download["fields"]) == (2, {"routes": 3, "changed": True})
    assert download["started"] == "2026-01-01T00:00:00+00:00"
    assert (prepare["error"], prepare["traceback"]) == (None, None)
    assert prepare["children"][0]["error"] == "OSError: disk full"
    assert prepare["children"][0]["traceback"].endswith("OSError: disk full\n")
    assert (start["status"], start["started"], start["duration"]) == ("skipped", None, None)


class Sized:
    """A result or an error with to_mapping()."""

    def to_mapping(self) -> dict[str, object]:
        """Plain values, and an object that describes itself."""
        return {"routes": [Result(), PurePosixPath("/etc")]}


def test_results_are_data_and_stand_once() -> None:
    """A result is in the JSON once, at the task that returned it, from to_mapping(); there is no Python repr."""

    @attrs.frozen
    class Silent:
        """An object without a description."""

        secret: str = "x" * 1000

    tasks = [StubTask(f"t{n}", result) for n, result in enumerate([Sized(), Result(), Silent(), "image.raw", (1, "b")])]
    pipeline = phases.serial(phases.serial(*tasks, name="inner"), StubTask("skip", phases.Skip("why")), name="outer")
    found = phases.run(pipeline, observers=[]).to_mapping()
    [inner, skipped] = cast("list[dict[str, Any]]", found["children"])
    assert [found["result"], inner["result"], skipped["result"]] == [None, None, None]
    assert [child["result"] for child in inner["children"]] == [
        {"routes": [{"routes": 3, "changed": True}, "/etc"]},
        {"routes": 3, "changed": True},
        "<Silent>",
        "image.raw",
        [1, "b"],
    ]


def test_a_result_that_cannot_tell_itself() -> None:
    """If describing a result raises, the error replaces it, and the report is complete."""

    class Broken:
        def to_mapping(self) -> dict[str, object]:
            raise RuntimeError("half")

    found = phases.run(StubTask("a", Broken()), observers=[]).to_mapping()
    assert found["result"] == {"to_mapping_error": "RuntimeError: half"}


def test_the_facts_of_a_failure() -> None:
    """The data of an error is next to its text, only at the task that raised it."""

    class DiskError(Sized, Exception):
        """An error with data."""

    found = phases.run(phases.serial(StubTask("a", always=DiskError("full")), name="all"), observers=[]).to_mapping()
    [child] = cast("list[dict[str, Any]]", found["children"])
    assert (found["error"], found["details"]) == (None, None)
    assert (child["error"], child["details"]) == ("DiskError: full", as_data(Sized()))


def test_find() -> None:
    """A task is found by name or by the end of its path; the error for an unknown one lists the tasks that exist."""
    assert report().find("pull").status is Status.CANCELLED
    assert report().find("prepare/pull").path == ("bootstrap", "prepare", "pull")
    with pytest.raises(KeyError, match="no task 'push' in this report; it has bootstrap, bootstrap/download"):
        report().find("push")


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (StubTask("a"), 0),
        (StubTask("a", phases.Skip("nothing to do")), 0),
        (StubTask("a", always=OSError()), 1),
        (StubTask("a", always=phases.Cancelled("enough")), 1),
    ],
)
def test_exit_code(task: StubTask, code: int) -> None:
    """The exit code is 0 after success and 1 after a failure."""
    assert phases.run(task, observers=[]).exit_code == code


def test_while_it_runs() -> None:
    """A report can be made at any time; a task that has not ended is running."""
    seen = RecordingObserver()

    @phases.task("look")
    def look(_ctx: Context) -> list[Status]:
        return [node.status for node in seen.report.walk()]

    result = phases.execute(phases.serial(StubTask("a"), look), Context(observers=[seen]))
    assert result[1] == [Status.RUNNING, Status.OK, Status.RUNNING]


def test_nothing_yet() -> None:
    """Before the first task begins, no report exists, and the error says so."""
    with pytest.raises(ValueError, match="no task has begun"):
        phases.Report.from_events([])


def test_very_many() -> None:
    """Of very many children the text shows those that did not succeed and counts the rest; the JSON has all."""
    many = [StubTask(f"t{number}") for number in range(200)]
    many[150].always = OSError("this one")
    seen = RecordingObserver()
    with pytest.raises(phases.TaskFailed):
        phases.execute(phases.serial(*many), Context(observers=[seen]))
    lines = str(seen.report).splitlines()
    assert len(lines) == 32
    assert any("t150" in line and "this one" in line for line in lines)
    assert lines[-1].startswith("└─ … and 171 more")
    assert len(json.loads(seen.report.to_json())["children"]) == 200


def test_odd_results_in_json() -> None:
    """The report of a task is valid JSON, whatever the task returns."""
    circle: list[object] = []
    circle.append(circle)

    class Shy:
        def __str__(self) -> str:
            raise RuntimeError

    odd = [float("nan"), {1: {"set"}, ("a", "b"): b"bytes"}, circle, Shy(), 10**5000, "\ud800"]
    found = json.loads(phases.run(StubTask("a", odd), observers=[]).to_json())["result"]
    assert found[0] == "nan"
    assert found[1] == {"1": ["set"], "('a', 'b')": "b'bytes'"}
    assert found[3:] == ["<Shy that cannot be printed>", "<int that cannot be printed>", "\ud800"]


def test_text_is_safe_to_print() -> None:
    """The report is safe for any terminal and encoding, whatever an error or a field contains."""

    class Fields:
        def log_fields(self) -> dict[str, object]:
            return {"path": "\ud800\x1b[2J"}

    text = str(
        phases.run(phases.serial(StubTask("a", Fields()), StubTask("b", always=OSError("\x1b[2J\udcff"))), observers=[])
    )
    assert text.encode("utf-8").decode() == text
    assert "\x1b" not in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stdout_that_is_not_for_utf8(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Printing a report never fails: its lines become similar characters, all others are escaped."""
    report = phases.run(phases.serial(StubTask("a"), StubTask("b → ü"), name="both"), observers=[])
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert [line.split()[:2] for line in str(report).splitlines()[2:]] == [["|-", "a"], ["`-", "b"]]
    assert "b -> \\xfc" in str(report)


def test_running_ones_first() -> None:
    """Of very many children the failed and running ones are shown before the finished ones."""
    done, running = (phases.Report(path=("all", "x"), status=status) for status in (Status.OK, Status.RUNNING))
    shown = phases.report.folded([done] * 20 + [running] * 2 + [done] * 20, at_most=5)
    assert [node.status for node in shown] == [Status.OK] * 2 + [Status.RUNNING] * 2 + [Status.OK]
    assert shown[-1].label == "… and 38 more"
