"""Log lines: one wide line for each start and each end, and the two formatters."""

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
    """A task's end is one line with everything: task, status, start, duration, and the fields of its result."""
    started, completed = logged(StubTask("download", Result(), seconds=1.5), caplog)
    assert started.message == "download started"
    assert completed.message == "download completed after 1.50 s"
    assert vars(completed)["phases"] == {
        "run": "r1",
        "task": "download",
        "event": "completed",
        "status": "ok",
        "start": "2026-01-01T00:00:00.000Z",
        "duration": 1.5,
        "routes": 3,
        "result_status": "mine",
    }


def test_words_and_levels(caplog: pytest.LogCaptureFixture) -> None:
    """Each line is a readable sentence with a suitable level."""
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
        ("INFO", "boot/check skipped after 0 µs: nothing to check"),
        ("ERROR", "boot/p/x failed after 2.00 s: ValueError: bad"),
        ("WARNING", "boot/p/y cancelled after 2.00 s: x failed"),
        ("WARNING", "boot/p failed after 2.00 s: boot/p/x failed"),
        ("DEBUG", "boot/start not started: not reached after p"),
        ("WARNING", "boot failed after 3.00 s: boot/p/x failed"),
    ]


@pytest.mark.parametrize("formatter", [logging.Formatter()])
def test_the_text_of_an_error_is_logged_once(formatter: logging.Formatter, caplog: pytest.LogCaptureFixture) -> None:
    """In any format, and through any number of groups, the text of a failure is in one line, once."""
    text = "no default route appeared within 30 s"
    task = phases.serial(phases.parallel(StubTask("a", always=OSError(text)), StubTask("b"), name="p"), name="boot")
    written = "\n".join(map(formatter.format, logged(task, caplog)))
    assert written.count(text) == 1
    assert "boot/p/a failed" in written.splitlines()[-1]


def test_a_program_that_prints_the_error_itself(caplog: pytest.LogCaptureFixture) -> None:
    """With errors=False, the lines say which task failed, and the fields say why."""
    with caplog.at_level(logging.INFO, logger="phases"):
        phases.run(
            phases.serial(StubTask("a", always=OSError("full")), name="boot"),
            clock=FakeClock(),
            observers=phases.default_observers(errors=False),
        )
    assert [record.message for record in caplog.records if record.levelname in {"ERROR", "WARNING"}] == [
        "boot/a failed after 0 µs",
        "boot failed after 0 µs: boot/a failed",
    ]
    assert [vars(record)["phases"].get("error") for record in caplog.records[-2:]] == ["OSError: full", "boot/a failed"]


def test_undo_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """The lines of an undo say that it is an undo."""
    with caplog.at_level(logging.INFO, logger="phases"):
        phases.undo(StubTask("routes"), Context(clock=FakeClock()))
    assert caplog.messages == ["routes (undo) started", "routes (undo) completed after 0 µs"]


def test_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    """With tracebacks=True only the line of the task that raised has a traceback."""
    task = phases.serial(StubTask("a", always=OSError("full")))
    with pytest.raises(phases.TaskFailed):
        phases.execute(task, Context(observers=[phases.LogObserver(tracebacks=True)]))
    assert [record.message.split()[0] for record in caplog.records if record.exc_info] == ["serial/a"]


def test_a_logger_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    """A context with a given logger logs there."""
    with caplog.at_level(logging.INFO):
        phases.execute(StubTask("a"), Context(logger=logging.getLogger("agent.boot")))
    assert {record.name for record in caplog.records} == {"agent.boot"}


def record(message: str, fields: object = None, *args: object) -> logging.LogRecord:
    """A record with these fields under the one key."""
    made = logging.LogRecord("phases", logging.INFO, __file__, 1, message, args, None)
    made.created = 1_767_225_600.25
    if fields is not None:
        vars(made)[phases.context.FIELDS] = fields
    return made


def test_the_place_of_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """The line of the task that raised gives the file and line in the code."""
    *_, failed = logged(StubTask("a", always=OSError("full")), caplog)
    assert vars(failed)["phases"]["at"].startswith("testing.py:")
