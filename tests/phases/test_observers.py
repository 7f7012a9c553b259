"""What is seen of a run while it runs: observers and log lines."""

import logging
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import pytest

import phases
from phases import Context, Step
from tests.support.programs import completed
from tests.support.recorder import Recorder, StubTask, ran


class Result:
    """A result with a field name that the log line already uses."""

    def log_fields(self) -> dict[str, object]:
        return {"routes": 3, "status": "mine"}


def logged(task: phases.AnyTask, caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The records of a run of the task on a fake clock."""
    with caplog.at_level(logging.DEBUG, logger="phases"):
        ran(task)
    return caplog.records


def test_a_start_and_an_end_are_one_wide_line_each(caplog: pytest.LogCaptureFixture) -> None:
    """Each is one line with everything; fields of the result do not hide ours."""
    started, ended = logged(StubTask("download", result=Result()), caplog)
    facts = vars(started)["phases"]
    assert facts == {
        "task": "download",
        "action": "do",
        "status": "running",
        "attempts": 1,
    } | {name: facts[name] for name in ("run", "start")}
    assert started.message == "download started"
    assert ended.message == "download ok after 0 ms"
    assert vars(ended)["phases"] == {**facts, "status": "ok", "seconds": 0, "routes": 3}


def test_words_and_levels_of_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Each is a readable sentence, and has the text of an error once."""
    bad = StubTask("x", seconds=2, errors=[ValueError("bad:\nidea")])
    boot = phases.serial(
        StubTask("check", result=phases.Skip("nothing to check")),
        phases.deadline(
            phases.retry(
                StubTask("download", errors=[OSError("no\n\x1broute")]), delay=9, jitter=0
            ),
            2,
        ),
        phases.parallel(bad, StubTask("y", seconds=9), name="p"),
        StubTask("start"),
        name="boot",
    )
    records = logged(boot, caplog)
    lines = [(record.levelname, record.message) for record in records]
    assert [line for line in lines if not line[1].endswith("started")] == [
        ("INFO", "boot/check skipped after 0 ms: nothing to check"),
        ("WARNING", "boot/download: attempt 1 failed: OSError: no; \\x1broute; again in 1.00 s"),
        ("INFO", "boot/download ok after 1.00 s"),
        ("ERROR", "boot/p/x failed after 2.00 s: ValueError: bad: idea"),
        ("WARNING", "boot/p/y cancelled after 2.00 s: x failed"),
        ("WARNING", "boot/p failed after 2.00 s"),
        ("DEBUG", "boot/start not started: not reached after p"),
        ("WARNING", "boot failed after 3.00 s"),
    ]
    again = next(record for record in records if record.levelname == "WARNING")
    assert vars(again)["phases"]["task"] == "boot/download"


def test_a_logger_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    """A context takes it; a task's lines have its run, path and extras under one key."""

    @phases.task("download")
    def download(ctx: Context) -> None:
        ctx.log.info("fetched", extra={"bytes": 12, "task": "mine"})

    logger = logging.getLogger("agent.boot")
    tree = phases.serial(download, name="all")
    lines: list[int] = []
    ctx = Context(logger=logger, observers=[lambda _: lines.append(len(caplog.records))])
    with caplog.at_level(logging.INFO):
        report = phases.run(tree, ctx=ctx)
    assert {record.name for record in caplog.records} == {"agent.boot"}
    assert lines == [1, 2, 4, 5]
    fetched = next(record for record in caplog.records if record.message == "fetched")
    assert vars(fetched)["phases"] == {"run": report.run, "task": "all/download", "bytes": 12}
    assert fetched.pathname == __file__


@pytest.mark.linux
@pytest.mark.parametrize("is_configured", [False, True])
def test_the_logging_of_a_program(is_configured: bool) -> None:  # noqa: FBT001  a parameter
    """A dictConfig silences nothing; without any, nothing is printed."""
    program = """
import logging.config, phases

def fails(ctx):
    raise OSError

handler = {"class": "logging.StreamHandler"}
root = {"handlers": ["h"], "level": "INFO"}
if %s:
    logging.config.dictConfig({"version": 1, "handlers": {"h": handler}, "root": root})
phases.run(phases.task("a")(fails))
"""
    lines = completed([sys.executable, "-c", program % is_configured]).stderr.splitlines()
    words = ["a started", "a failed"] if is_configured else []
    assert [line.split(" after")[0] for line in lines] == words


def test_observers_and_logs_that_raise(caplog: pytest.LogCaptureFixture) -> None:
    """What an observer raises is logged, and affects nothing else."""

    class BrokenLog(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            raise RuntimeError("no space left")

    def broken(_step: Step) -> None:
        raise ValueError("observer out of order")

    seen, logger = Recorder(), logging.getLogger("phases.test.broken")
    assert phases.run(StubTask("a"), ctx=Context(observers=[broken, seen])).ok
    assert len(seen.ends) == 1
    assert "the run continues" in caplog.text
    assert "observer out of order" in caplog.text

    logger.addHandler(BrokenLog())
    logger.setLevel(logging.INFO)
    assert phases.run(StubTask("a"), ctx=Context(logger=logger)).ok


PROGRAM = """
import logging, phases, sys

@phases.task("a")
def prints(ctx):
    print("printed", flush=True)
    ctx.log.info("logged")
    assert phases.run(phases.task("inner")(str)).ok

logging.basicConfig(level="INFO", format="LOG %(message)s")
logging.getLogger().addHandler(logging.FileHandler("/dev/null"))
stream, file = (handler.stream for handler in logging.getLogger().handlers)
@phases.task("b")
def fails(ctx):
    raise OSError("busy")

assert phases.run(phases.task("first")(str)).ok
print(phases.run(phases.serial(prints, fails, name="boot")))
logging.disable()
assert phases.run(phases.serial(phases.task("quiet")(str), name="last")).ok
assert [handler.stream for handler in logging.getLogger().handlers] == [sys.stderr, file]
assert stream is sys.stderr
"""


@pytest.mark.linux
@pytest.mark.parametrize("is_piped", [False, True])
def test_the_live_tree(is_piped: bool) -> None:  # noqa: FBT001  a parameter
    """The tree appears while tasks run, and the report after it; a pipe has what is printed."""
    terminal, stdout, returned = on_a_terminal(is_piped=is_piped)
    assert returned == 0, terminal
    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    assert terminal.rindex(shown) > terminal.rindex(hidden)  # the cursor
    words = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", terminal)
    assert re.search(r"boot +running\s+├─ a +ok.*\s+└─ b +failed", words)
    assert "LOG boot started\r\n" in words
    assert "LOG logged\r\n" in words
    assert not re.search(r"[^\r\n]LOG", words), "a line of the log begins inside the tree"
    assert re.search(r"first +running", words), "the runs of a program one after another"
    assert not re.search(r"inner +running", words), "one at a time"
    assert re.search(r"quiet +running", words), "it is drawn also if nothing is logged"
    report = (stdout if is_piped else words).rpartition("printed")[2]
    assert re.search(r"boot +failed", report.rpartition("LOG boot failed after")[2])
    assert stdout.startswith("printed\nboot ") is is_piped


@pytest.mark.linux
@pytest.mark.parametrize(
    "change", [{"TERM": "dumb"}, {"without": "rich"}, {"without": "stderr"}], ids=str
)
def test_no_live_tree(change: dict[str, str]) -> None:
    """On a dumb terminal, without rich, or without standard error; it is no error."""
    without = change.pop("without", "")
    terminal, stdout, returned = on_a_terminal(is_piped=True, without=without, **change)
    assert returned == 0, terminal
    assert "\x1b" not in terminal
    assert "boot  running" not in terminal
    assert stdout.startswith("printed\nboot ")
    assert ("LOG boot started" in terminal) is (without != "stderr")
    assert "Traceback" not in terminal


def on_a_terminal(*, is_piped: bool, without: str = "", **variables: str) -> tuple[str, str, int]:
    """What the program writes to its terminal and to its pipe, and how it ends."""
    program = PROGRAM
    if without == "rich":
        program = "import sys; sys.modules['rich.live'] = None\n" + program
    if without == "stderr":
        program = "import os, sys; os.close(2); sys.stderr = None\n" + program
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stderr=theirs,
        stdout=subprocess.PIPE if is_piped else theirs,
        env={**os.environ, "TERM": "xterm", **variables},
        text=True,
    )
    os.close(theirs)
    written = b""
    with suppress(OSError):  # Linux reports a closed other side this way
        while part := os.read(ours, 65536):
            written += part
    os.close(ours)
    stdout, _ = process.communicate()
    return written.decode(), stdout or "", process.returncode
