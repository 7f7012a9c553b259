"""What is seen of a run while it runs: observers and log lines."""

import logging
import sys
from itertools import repeat

import pytest

import phases
from phases import Context, Step
from phases.testing import FakeClock, StubTask
from tests.support.programs import completed
from tests.support.recorder import Recorder


class Result:
    """A result with a field name that the log line already uses."""

    def log_fields(self) -> dict[str, object]:
        """One new name, one that is in use."""
        return {"routes": 3, "status": "mine"}


def logged(
    task: phases.AnyTask, caplog: pytest.LogCaptureFixture, level: int = logging.DEBUG
) -> list[logging.LogRecord]:
    """The records of a run of the task on a fake clock."""
    with caplog.at_level(level, logger="phases"):
        phases.run(task, clock=FakeClock())
    return caplog.records


def test_a_start_and_an_end_are_one_wide_line_each(caplog: pytest.LogCaptureFixture) -> None:
    """A task's start and end are one line each with everything, also the fields of the result; ours
    are not hidden.
    """
    started, ended = logged(StubTask("download", result=Result(), seconds=1.5), caplog)
    facts = vars(started)["phases"]
    assert facts == {
        "task": "download",
        "action": "do",
        "status": "running",
        "attempts": 1,
    } | {name: facts[name] for name in ("run", "start")}
    assert started.message == "download started"
    assert ended.message == "download ok after 1.50 s"
    assert vars(ended)["phases"] == {**facts, "status": "ok", "seconds": 1.5, "routes": 3}


def boot() -> phases.AnyTask:
    """A pipeline with each kind of end."""
    return phases.serial(
        phases.retry(StubTask("download", errors=[OSError("no\nroute")]), jitter=0),
        StubTask("check", result=phases.Skip("nothing to check")),
        phases.parallel(
            StubTask("x", seconds=2, errors=repeat(ValueError("bad"))),
            StubTask("y", seconds=9),
            name="p",
        ),
        StubTask("start"),
        name="boot",
    )


def test_words_and_levels_of_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Each line is a readable sentence with a suitable level. The text of an error is in one line,
    in no other; at DEBUG, that line has the traceback.
    """
    records = logged(boot(), caplog)
    lines = [(record.levelname, record.message) for record in records]
    assert [line for line in lines if not line[1].endswith("started")] == [
        ("WARNING", "boot/download: attempt 1 failed: OSError: no; route; again in 1.00 s"),
        ("INFO", "boot/download ok after 1.00 s"),
        ("INFO", "boot/check skipped after 0 ms: nothing to check"),
        ("ERROR", "boot/p/x failed after 2.00 s: ValueError: bad"),
        ("WARNING", "boot/p/y cancelled after 2.00 s: x failed"),
        ("WARNING", "boot/p failed after 2.00 s"),
        ("DEBUG", "boot/start not started: not reached after p"),
        ("WARNING", "boot failed after 3.00 s"),
    ]
    [failed] = [record for record in records if record.exc_info]
    assert failed.levelname == "ERROR"
    again = next(record for record in records if record.levelname == "WARNING")
    assert vars(again)["phases"]["task"] == "boot/download"
    caplog.clear()
    assert not any(record.exc_info for record in logged(boot(), caplog, logging.INFO))


def test_a_logger_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    """A context, a run and a LogObserver take a logger; a task's own lines have its
    run, path and extras under one key.
    """

    @phases.task("download")
    def download(ctx: Context) -> None:
        ctx.log.info("fetched", extra={"bytes": 12, "task": "mine"})

    logger = logging.getLogger("agent.boot")
    tree = phases.serial(download, name="all")
    with caplog.at_level(logging.INFO):
        report = phases.run(tree, ctx=Context(logger=logger))
        phases.run(tree, logger=logger)
        phases.run(tree, observers=[phases.LogObserver(logger)], logger=logger)
        phases.run(tree, observers=[], logger=logger)
    assert {record.name for record in caplog.records} == {"agent.boot"}
    assert len({vars(record)["phases"]["run"] for record in caplog.records}) == 4
    assert len(caplog.records) == 3 * 5 + 1
    fetched = next(record for record in caplog.records if record.message == "fetched")
    assert vars(fetched)["phases"] == {"run": report.run, "task": "all/download", "bytes": 12}


@pytest.mark.linux
def test_the_logging_of_a_program() -> None:
    """A dictConfig silences nothing: it disables the loggers that exist, and ours does not before
    the first run.
    """
    configures = """
import logging.config, phases
from phases.testing import StubTask
handler = {"class": "logging.StreamHandler"}
root = {"handlers": ["h"], "level": "INFO"}
logging.config.dictConfig({"version": 1, "handlers": {"h": handler}, "root": root})
phases.run(StubTask("a"))
"""
    lines = completed([sys.executable, "-c", configures]).stderr.splitlines()
    assert [line.split(" after")[0] for line in lines] == ["a started", "a ok"]


def test_observers_and_logs_that_raise(caplog: pytest.LogCaptureFixture) -> None:
    """What an observer raises is logged, if that can be written, and affects neither tasks nor
    other observers.
    """

    class BrokenLog(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            raise OSError("no space left")

    def broken(_step: Step) -> None:
        raise ValueError("observer out of order")

    seen, logger = Recorder(), logging.getLogger("phases.test.broken")
    assert phases.run(StubTask("a"), observers=[broken, seen]).ok
    assert len(seen.ends) == 1
    assert "the run continues" in caplog.text
    assert "observer out of order" in caplog.text

    logger.addHandler(BrokenLog())
    logger.setLevel(logging.INFO)
    assert phases.run(StubTask("a"), logger=logger, observers=[phases.LogObserver(logger)]).ok
