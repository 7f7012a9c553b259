"""Log lines: one wide line for each start and each end, and the two formatters."""

import json
import logging
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("formatter", [logging.Formatter(), phases.LogfmtFormatter(), phases.JsonFormatter()])
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


def test_logfmt_has_tracebacks() -> None:
    """In logfmt, a record with a traceback is one line with the traceback and the error."""
    line = record("could not", {"task": "a"})
    try:
        StubTask("a", always=OSError("full")).do(Context())
    except OSError as error:
        line.exc_info = (OSError, error, error.__traceback__)
    text = phases.LogfmtFormatter().format(line)
    assert 'error="OSError: full" traceback="Traceback (most recent call last):\\n' in text
    assert len(text.splitlines()) == 1


def test_logfmt() -> None:
    """Logfmt quotes only the values that need quotes."""
    fields = {"task": "a/b", "words": "two words", "none": None, "yes": True, "odd key": 'a"b\\c', "lines": "a\nb\x00"}
    assert phases.LogfmtFormatter().format(record("done", fields)) == (
        'time=2026-01-01T00:00:00.250Z level=info msg=done task=a/b words="two words" none=null yes=true '
        'odd_key="a\\"b\\\\c" lines="a\\nb\\u0000"'
    )


def test_json() -> None:
    """A JSON line has the same fields, and the traceback if the record has one."""
    line = record("done", {"task": "a/b", "level": "mine", "value": {1, 2}})
    line.exc_info = (OSError, OSError("full"), None)
    found = json.loads(phases.JsonFormatter().format(line))
    assert found.pop("traceback").endswith("OSError: full")
    assert found == {
        "time": "2026-01-01T00:00:00.250Z",
        "level": "info",
        "msg": "done",
        "task": "a/b",
        "level_": "mine",
        "value": [1, 2],
        "error": "OSError: full",
    }


@pytest.mark.parametrize("formatter", [phases.LogfmtFormatter(), phases.JsonFormatter()])
def test_records_of_others(formatter: logging.Formatter) -> None:
    """Records of other loggers are formatted with the name of their logger."""
    assert "phases" in formatter.format(record("hello %s", None, "world"))
    assert "hello world" in formatter.format(record("hello %s", None, "world"))
    assert "wrong %s %s" in formatter.format(record("wrong %s %s", None, 1))


@given(st.dictionaries(st.text(), st.text()), st.text())
def test_any_field_stays_on_one_line(fields: dict[str, str], message: str) -> None:
    """Every record is one line, whatever a task logs; JSON restores every value, and logfmt splits into its pairs."""
    made = record(message, fields)
    made.args = None
    as_json = phases.JsonFormatter().format(made)
    assert len(as_json.splitlines()) == 1
    assert [value for value in fields.values() if value not in json.loads(as_json).values()] == []
    as_logfmt = phases.LogfmtFormatter().format(made)
    assert len(as_logfmt.splitlines()) == 1
    assert len(shlex.split(as_logfmt, comments=False)) == 3 + len(fields)
