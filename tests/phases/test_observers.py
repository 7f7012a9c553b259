"""What is seen of a run while it runs: observers, log lines, and the live tree."""

import io
import logging
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import Any

import pytest

import phases
from phases import Context, Step
from phases.testing import FakeClock, StubTask
from tests.support.programs import completed
from tests.support.recorder import Recorder, ran


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
        "attempt": 1,
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
        ("WARNING", "boot/download: attempt 1 of 3 failed: OSError: no route; again in 1.00 s"),
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
    assert vars(again)["phases"]["error"] == "OSError: no route"
    assert vars(again)["phases"]["task"] == "boot/download"
    caplog.clear()
    assert not any(record.exc_info for record in logged(boot(), caplog, logging.INFO))


def test_attempts_until_the_deadline_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The log does not count down to a number that there is not."""
    always = phases.retry(StubTask("a", errors=repeat(OSError("busy"))), attempts=None, jitter=0)
    logged(phases.deadline(always, 3), caplog)
    assert "a: attempt 1 failed: OSError: busy; again in 1.00 s" in caplog.text


def test_a_logger_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    """A context, a run and a LogObserver take a logger or its name; a task's own lines have its
    run, path and extras under one key.
    """

    @phases.task("download")
    def download(ctx: Context) -> None:
        ctx.log.info("fetched", extra={"bytes": 12, "task": "mine"})

    logger = logging.getLogger("agent.boot")
    tree = phases.serial(download, name="all")
    with caplog.at_level(logging.INFO):
        report = phases.run(tree, ctx=Context(logger=logger))
        phases.run(tree, logger="agent.boot")
        phases.run(tree, observers=[phases.LogObserver("agent.boot")], logger=logger)
        phases.run(tree, observers=[], logger=logger)
    assert {record.name for record in caplog.records} == {"agent.boot"}
    assert len({vars(record)["phases"]["run"] for record in caplog.records}) == 4
    assert len(caplog.records) == 3 * 5 + 1
    fetched = next(record for record in caplog.records if record.message == "fetched")
    assert vars(fetched)["phases"] == {"run": report.run, "task": "all/download", "bytes": 12}
    assert len(logger.handlers) <= 1  # a daemon has many runs


@pytest.mark.parametrize("wrong", [None, Context().log])
def test_what_is_not_a_logger(wrong: Any) -> None:
    """It is refused at once: a run whose lines are lost would look as if it had none. So is an
    adapter: it has no handlers, and would put the fields of a line elsewhere.
    """
    for make in (Context, phases.LogObserver, partial(phases.run, StubTask("a"))):
        with pytest.raises(
            TypeError, match=r"logger is .*; it must be a logging.Logger, or the name of one"
        ):
            make(logger=wrong)


@pytest.mark.linux
def test_the_logging_of_a_program() -> None:
    """Without any, a failure is said once, by the report that the program prints. A dictConfig
    silences nothing: it disables the loggers that exist, and ours does not before the first run.
    """
    fails = """
import phases
from phases.testing import StubTask
print(phases.run(StubTask("boot", errors=[RuntimeError("no address")])))
"""
    done = completed([sys.executable, "-c", fails])
    assert done.stderr == ""
    assert done.stdout.count("no address") == 1

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


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """True, unless it is closed."""
        return not super().isatty()


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal that can move its cursor."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_the_live_tree_is_only_on_a_terminal_that_can(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The live tree is shown on a terminal, but not in a pipe, on a dumb terminal, or without TERM
    or rich.
    """
    closed = Terminal()
    closed.close()

    def is_shown() -> bool:
        tree = phases.LiveTree()
        look = phases.task("look")(lambda _ctx: tree._shown)
        return bool(phases.run(look, observers=[tree]).result)

    on_a_terminal(monkeypatch)
    assert is_shown()
    changes: list[Callable[[pytest.MonkeyPatch], None]] = [
        lambda patch: patch.setattr(sys, "stderr", io.StringIO()),
        lambda patch: patch.setattr(sys, "stderr", None),
        lambda patch: patch.setattr(sys, "stderr", closed),
        lambda patch: patch.setitem(sys.modules, "rich.console", None),
        lambda patch: patch.setenv("TERM", "dumb"),
        lambda patch: patch.delenv("TERM"),
    ]
    for change in changes:
        with monkeypatch.context() as patch:
            change(patch)
            assert not is_shown()
    assert not caplog.records


def test_which_runs_have_a_live_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those without observers, and those whose observers have it and see the start. It serves
    several runs. It is in colour.
    """
    terminal = on_a_terminal(monkeypatch)
    task = phases.serial()
    phases.run(task, observers=[])
    phases.plan(task)
    for step in (ran(task), Step(("boot", "routes"))):  # an end, and the start of an inner step
        phases.LiveTree()(step)
    assert terminal.getvalue() == ""
    for ctx in (None, Context(), Context(observers=[phases.LiveTree()])):
        before = terminal.getvalue().count("serial  running")
        phases.run(task, ctx=ctx)
        phases.run(task, ctx=ctx)
        assert terminal.getvalue().count("serial  running") == before + 2
    assert re.search(r"\x1b\[32m +ok +", terminal.getvalue())


@pytest.mark.parametrize("holders", [["phases.test"], ["phases.test.live", None]], ids=str)
def test_log_handlers_make_room_for_the_live_tree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], holders: list[str | None]
) -> None:
    """A handler on a terminal, of the logger or of one above it or of both, is redirected while the
    tree is shown, and restored afterwards; so is the cursor. What a task prints into a pipe arrives
    there.
    """
    terminal = on_a_terminal(monkeypatch)
    logger = logging.getLogger("phases.test.live")
    handlers: list[Any] = [
        logging.StreamHandler(stream) for stream in (terminal, Terminal(), io.StringIO())
    ]
    for holder in holders:
        of_logger = [logging.NullHandler(), *handlers]
        monkeypatch.setattr(logging.getLogger(holder), "handlers", of_logger)
    before = [handler.stream for handler in handlers]

    @phases.task("look")
    def look(_ctx: Context) -> list[object]:
        sys.stdout.write("looks\n")
        return [handler.stream for handler in handlers]

    during: Any = phases.run(look, observers=[phases.LiveTree(logger)]).result
    is_moved = [now is not then for now, then in zip(during, before, strict=True)]
    assert is_moved == [True, True, False]
    assert [handler.stream for handler in handlers] == before
    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    assert terminal.getvalue().rindex(shown) > terminal.getvalue().rindex(hidden)  # the cursor
    assert capsys.readouterr().out == "looks\n"


PROGRAM = """
import logging, phases
from phases.testing import StubTask
logging.basicConfig(level="INFO", format="LOG %(message)s")
first = StubTask("a", seconds=0.1)
second = StubTask("b", seconds=0.1)
print(phases.run(phases.serial(first, second, name="boot")))
"""


@pytest.mark.linux
def test_the_live_tree_on_a_real_terminal() -> None:
    """On a terminal the tree appears in colour while tasks run, with log lines above it and the
    report after it.
    """
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stderr=theirs, stdout=theirs, env=environment
    )
    os.close(theirs)
    written = b""
    with suppress(OSError):  # Linux reports a closed other side this way
        while part := os.read(ours, 65536):
            written += part
    os.close(ours)
    assert process.wait() == 0, written.decode()
    assert re.search(rb"\x1b\[[\d;]*3[0-7]m", written)
    words = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", written.decode())
    assert re.search(r"boot +running", words)
    assert "LOG boot/a ok after" in words
    assert re.search(r"boot +ok", words.rpartition("LOG boot ok after")[2])
