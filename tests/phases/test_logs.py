"""Log lines: one wide line for each start and each end."""

import logging

import pytest

import phases
from phases import Context
from phases.testing import FakeClock, StubTask


class Result:
    """A result with a field name that the log line already uses."""

    def log_fields(self) -> dict[str, object]:
        """One new name, one that is in use."""
        return {"routes": 3, "status": "mine"}


def logged(task: phases.AnyTask, caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The records of a run of the task on a fake clock."""
    with caplog.at_level(logging.DEBUG, logger="phases"):
        phases.run(task, clock=FakeClock(), run_id="r1", observers=[phases.LogObserver()])
    return caplog.records


def test_one_wide_line(caplog: pytest.LogCaptureFixture) -> None:
    """A task's start and end are one line each with everything, also the fields of the result; ours are not hidden."""
    started, completed = logged(StubTask("download", Result(), seconds=1.5), caplog)
    common = {"run": "r1", "task": "download", "start": "2026-01-01T00:00:00.000Z"}
    assert (started.message, completed.message) == ("download started", "download completed after 1.50 s")
    assert vars(started)["phases"] == {"event": "started", **common}
    expected = {"event": "completed", "status": "ok", "seconds": 1.5, "routes": 3, **common}
    assert vars(completed)["phases"] == expected


def test_words_and_levels(caplog: pytest.LogCaptureFixture) -> None:
    """Each line is a readable sentence with a suitable level; the text of an error is in one line, in no other."""
    records = logged(
        phases.serial(
            phases.retry(StubTask("download", errors=[OSError("no\nroute")]), jitter=0),
            StubTask("check", phases.Skip("nothing to check")),
            phases.parallel(StubTask("x", seconds=2, always=ValueError("bad")), StubTask("y", seconds=9), name="p"),
            StubTask("start"),
            name="boot",
        ),
        caplog,
    )
    assert [(record.levelname, record.message) for record in records if not record.message.endswith("started")] == [
        ("WARNING", "boot/download: attempt 1 of 3 failed: OSError: no route; again in 1.00 s"),
        ("INFO", "boot/download completed after 1.00 s"),
        ("INFO", "boot/check skipped after 0 ms: nothing to check"),
        ("ERROR", "boot/p/x failed after 2.00 s: ValueError: bad"),
        ("WARNING", "boot/p/y cancelled after 2.00 s: x failed"),
        ("WARNING", "boot/p failed after 2.00 s: boot/p/x failed"),
        ("DEBUG", "boot/start not started: not reached after p"),
        ("WARNING", "boot failed after 3.00 s: boot/p/x failed"),
    ]
    failed = next(vars(record)["phases"] for record in records if record.levelname == "ERROR")
    assert failed["error"] == "ValueError: bad"


def test_undo_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """The lines of an undo say that it is an undo."""
    with caplog.at_level(logging.INFO, logger="phases"):
        phases.undo(StubTask("routes"), Context(clock=FakeClock()))
    assert caplog.messages == ["routes (undo) started", "routes (undo) completed after 0 ms"]


def test_a_logger_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    """A context with a given logger logs there; a task's own lines have its run, path and extras under one key."""

    @phases.task("download")
    def download(ctx: Context) -> None:
        ctx.log.info("fetched", extra={"bytes": 12, "task": "mine"})

    with caplog.at_level(logging.INFO):
        ctx = Context(run_id="r1", logger=logging.getLogger("agent.boot"))
        phases.execute(phases.serial(download, name="bootstrap"), ctx)
    assert {record.name for record in caplog.records} == {"agent.boot"}
    [record] = [record for record in caplog.records if record.message == "fetched"]
    assert vars(record)["phases"] == {"run": "r1", "task": "bootstrap/download", "bytes": 12}
