"""A step as a report: what happened, as text and as JSON."""

import io
import json
from pathlib import PurePosixPath
from typing import Any, cast

import attrs
import pytest

import phases
from phases import Status, Step
from phases.testing import FakeClock, StubTask


class Result:
    """A result with log fields."""

    def log_fields(self) -> dict[str, object]:
        """Two fields."""
        return {"routes": 3, "changed": True}


def report() -> Step:
    """The report of a run with every kind of outcome."""
    task = phases.serial(
        phases.retry(StubTask("download", Result(), seconds=2, errors=[OSError("busy")]), delay=1, jitter=0),
        phases.parallel(
            StubTask("unpack", seconds=3, always=OSError("disk full")), StubTask("pull", seconds=9), name="prepare"
        ),
        StubTask("start"),
        name="bootstrap",
    )
    return phases.run(task, clock=FakeClock(), observers=[], run_id="r1")


def test_text() -> None:
    """The first line is the outcome, then one line for each step with its status, duration and reason."""
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
    """The JSON has the same data, typed, with a traceback for failures."""
    document = json.loads(report().to_json())
    assert [document[key] for key in ("run", "status", "seconds")] == ["r1", "failed", 8]
    download, prepare, start = document["children"]
    assert (download["attempts"], download["fields"]) == (2, {"routes": 3, "changed": True})
    assert download["start"] == "2026-01-01T00:00:00+00:00"
    assert (prepare["error"], prepare["traceback"]) == (None, None)
    assert prepare["children"][0]["error"] == "OSError: disk full"
    assert "disk full" in prepare["children"][0]["traceback"]
    assert (start["status"], start["start"], start["seconds"]) == ("skipped", None, None)


class Sized:
    """A result or an error with to_mapping()."""

    def to_mapping(self) -> dict[str, object]:
        """Plain values, and an object that describes itself."""
        return {"routes": [Result(), PurePosixPath("/etc")]}


class DiskError(Sized, Exception):
    """An error with data."""


DATA = {"routes": [{"routes": 3, "changed": True}, "/etc"]}


def test_results_and_errors_are_data_and_stand_once() -> None:
    """A result, and the data of an error, are in the JSON once, at their task; there is no Python repr."""

    @attrs.frozen
    class Silent:
        """An object without a description."""

        secret: str = "x" * 1000

    results = [Sized(), Result(), Silent(), "image.raw", (1, "b")]
    tasks = [StubTask(f"t{number}", result) for number, result in enumerate(results)]
    pipeline = phases.serial(
        phases.serial(*tasks, name="inner"), StubTask("skip", phases.Skip("why")), StubTask("x", always=DiskError())
    )
    document = phases.run(pipeline, observers=[]).to_mapping()
    inner, skipped, failed = cast("list[dict[str, Any]]", document["children"])
    assert [document["result"], inner["result"], skipped["result"], document["details"]] == [None] * 4
    assert [child["result"] for child in inner["children"]] == [
        DATA,
        {"routes": 3, "changed": True},
        "<Silent>",
        "image.raw",
        [1, "b"],
    ]
    assert (failed["error"], failed["details"]) == ("DiskError", DATA)


def test_odd_results() -> None:
    """The JSON and the text of a report are valid, whatever a task returns or raises."""
    circle: list[object] = []
    circle.append(circle)

    class Shy(Exception):  # noqa: N818  a result, too
        def __str__(self) -> str:
            raise RuntimeError("half")

        to_mapping = log_fields = __str__

    odd = [float("nan"), {1: {"set"}, ("a", "b"): b"bytes"}, circle, Shy(), "\ud800"]
    ends = StubTask("a", odd), StubTask("b", Shy()), StubTask("c", always=OSError("\x1b[2J\ud800"))
    assert "Shy: <Shy that cannot be printed>" in str(phases.run(StubTask("d", always=Shy()), observers=[]))
    step = phases.run(phases.serial(*ends), observers=[])
    first, second, _ = json.loads(step.to_json())["children"]
    assert first["result"][:2] == ["nan", {"1": ["set"], "('a', 'b')": "b'bytes'"}]
    assert first["result"][3:] == ["<Shy that cannot be described: RuntimeError: half>", "\ud800"]
    assert (second["status"], second["fields"]) == ("ok", {"log_fields_error": "RuntimeError: half"})
    assert "\\x1b[2J\\ud800" in str(step)


def test_a_stdout_that_is_not_for_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printing a report never fails."""
    step = phases.run(phases.serial(StubTask("a"), StubTask("b → ü"), name="both"), observers=[])
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert "b \\u2192 ü" in str(step)


def test_find() -> None:
    """A step is found by name or by the end of its path; the error for an unknown one lists those that exist."""
    assert report().find("pull").status is Status.CANCELLED
    assert report().find("prepare/pull").path == ("bootstrap", "prepare", "pull")
    with pytest.raises(KeyError, match="no step 'ull' in this report; it has bootstrap, bootstrap/download"):
        report().find("ull")


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


@pytest.mark.parametrize("status", Status)
def test_status_in_text(status: Status) -> None:
    """On every version of Python, a status in a text or in JSON is its word."""
    word = status.value
    assert (str(status), f"{status:>9}", json.dumps(status), Status(word)) == (word, f"{word:>9}", f'"{word}"', status)
