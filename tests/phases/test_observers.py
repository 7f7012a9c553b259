"""The log lines of a run, and the live tree: when it is shown, its content, and the state
afterwards.
"""

import io
import logging
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import phases
from phases import Context, Observer
from phases.testing import FakeClock, Recorder, StubTask
from tests.support.programs import completed


class Result:
    """A result with a field name that the log line already uses."""

    def log_fields(self) -> dict[str, object]:
        """One new name, one that is in use."""
        return {"routes": 3, "status": "mine"}


def logged(task: phases.AnyTask, caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The records of a run of the task on a fake clock."""
    with caplog.at_level(logging.DEBUG, logger="phases"):
        phases.run(task, clock=FakeClock(), observers=[phases.LogObserver()])
    return caplog.records


def test_a_start_and_an_end_are_one_wide_line_each(caplog: pytest.LogCaptureFixture) -> None:
    """A task's start and end are one line each with everything, also the fields of the result; ours
    are not hidden.
    """
    started, ended = logged(StubTask("download", Result(), seconds=1.5), caplog)
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
        StubTask("check", phases.Skip("nothing to check")),
        phases.parallel(
            StubTask("x", seconds=2, errors=repeat(ValueError("bad"))),
            StubTask("y", seconds=9),
            name="p",
        ),
        StubTask("start"),
        name="boot",
    )


def test_words_and_levels_of_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Each line is a readable sentence with a suitable level; the text of an error is in one line,
    in no other.
    """
    lines = [(record.levelname, record.message) for record in logged(boot(), caplog)]
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


def test_the_fields_of_an_attempt_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    """Its line has its number and its error, which no step has."""
    task = StubTask("download", errors=[OSError("no\nroute"), OSError("busy")])
    fields = [vars(record)["phases"] for record in logged(phases.retry(task), caplog)]
    failed = [(one["attempts"], one["error"]) for one in fields if "error" in one]
    assert failed == [(1, "OSError: no route"), (2, "OSError: busy")]
    assert (fields[-1]["status"], fields[-1]["attempts"]) == ("ok", 3)


def test_an_error_with_a_list() -> None:
    """In one line, what is indented is separated, so that each fault can be read."""
    error = ValueError("2 faults:\n  mode: unknown\n  dev: no\n  \nor\nmore")
    report = phases.run(StubTask("a", errors=[error]), observers=[])
    assert report.why == "ValueError: 2 faults: mode: unknown; dev: no or more"


def test_the_traceback_of_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG, the line of the task that failed has it, and no other line."""
    records = logged(boot(), caplog)
    [failed] = [record for record in records if record.levelname == "ERROR"]
    assert [record for record in records if record.exc_info] == [failed]
    assert vars(failed)["phases"]["error"] == "ValueError: bad"


def test_no_traceback_above_debug(caplog: pytest.LogCaptureFixture) -> None:
    """The error is in the line."""
    with caplog.at_level(logging.INFO, logger="phases"):
        phases.run(StubTask("x", errors=[ValueError("bad")]), observers=[phases.LogObserver()])
    assert caplog.records
    assert not [record for record in caplog.records if record.exc_info]


def test_the_lines_of_an_undo(caplog: pytest.LogCaptureFixture) -> None:
    """They say that it is one."""
    with caplog.at_level(logging.INFO, logger="phases"):
        phases.undo(phases.task("routes", undo=print)(print), Context(clock=FakeClock()))
    assert [record.message for record in caplog.records] == [
        "routes (undo) started",
        "routes (undo) ok after 0 ms",
    ]


def test_a_logger_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    """A context with a given logger logs there; a task's own lines have its run, path and extras
    under one key.
    """

    @phases.task("download")
    def download(ctx: Context) -> None:
        ctx.log.info("fetched", extra={"bytes": 12, "task": "mine"})

    with caplog.at_level(logging.INFO):
        ctx = Context(logger=logging.getLogger("agent.boot"))
        report = phases.run(phases.serial(download, name="bootstrap"), ctx=ctx)
    assert {record.name for record in caplog.records} == {"agent.boot"}
    [record] = [record for record in caplog.records if record.message == "fetched"]
    assert vars(record)["phases"] == {"run": report.run, "task": "bootstrap/download", "bytes": 12}


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """True."""
        return True


def test_the_live_tree_is_only_on_a_terminal_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live tree is shown on a terminal, but not in a pipe, on a dumb terminal, or without TERM
    or rich.
    """

    def is_shown() -> bool:
        tree = phases.LiveTree()
        look = phases.task("look")(lambda _ctx: tree._shown is not None)
        return bool(phases.run(look, observers=[tree]).result)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert is_shown()
    changes: list[Callable[[pytest.MonkeyPatch], None]] = [
        lambda patch: patch.setattr(sys, "stderr", io.StringIO()),
        lambda patch: patch.setattr(sys, "stderr", None),
        lambda patch: patch.setitem(sys.modules, "rich.console", None),
        lambda patch: patch.setenv("TERM", "dumb"),
        lambda patch: patch.delenv("TERM"),
    ]
    for change in changes:
        with monkeypatch.context() as patch:
            change(patch)
            assert not is_shown()


def test_which_runs_have_a_live_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those without observers and without a context of the program's own; and those whose observers
    have it. A context serves several runs.
    """
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    task = phases.serial()
    phases.run(task, observers=[])
    phases.run(task, ctx=Context())
    assert terminal.getvalue() == ""
    phases.run(task)
    assert terminal.getvalue().count("serial  running") == 1
    ctx = Context(observers=[phases.LiveTree()])
    phases.run(task, ctx=ctx)
    phases.run(task, ctx=ctx)
    assert terminal.getvalue().count("serial  running") == 3


def test_runs_at_the_same_time_on_one_terminal() -> None:
    """The tree of the first one is shown, and no step of the others changes it."""
    tree = phases.LiveTree(console=Console(file=io.StringIO(), width=100, height=40))
    ctx, roots = Context(observers=[tree]), list[str]()

    @phases.task("inner")
    def inner(_ctx: Context) -> None:
        assert tree._shown is not None
        roots.append(tree._shown.root.name)

    @phases.task("outer")
    def outer(_ctx: Context) -> None:
        phases.run(inner, ctx=ctx)
        assert tree._shown is not None
        roots.append(tree._shown.root.name)

    assert phases.run(outer, ctx=ctx).ok
    assert roots == ["outer", "outer"]
    assert tree._shown is None


def test_what_the_live_tree_shows() -> None:
    """The report as it is so far. It is drawn by the threads of the run: rich has none."""
    tree = phases.LiveTree(console=Console(file=io.StringIO(), width=100, height=40))
    texts: list[str] = []
    threads: list[int] = []

    @phases.task("look")
    def look(_ctx: Context) -> None:
        assert tree._shown is not None
        texts.append(str(tree._shown.render()))
        threads.append(threading.active_count())

    pipeline = phases.serial(StubTask("a", phases.Skip("there")), look, StubTask("b"))
    before = threading.active_count()
    phases.run(pipeline, observers=[tree], clock=FakeClock())
    assert threads == [before + 1]
    (text,) = texts
    assert [line.split() for line in text.splitlines()] == [
        ["serial", "running"],
        ["├─", "a", "skipped", "0", "ms", "there"],
        ["└─", "look", "running"],
    ]


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param("phases.test.live", id="own logger"),
        pytest.param("phases.test", id="a logger above its own"),
        pytest.param(None, id="root logger"),
    ],
)
def test_log_handlers_make_room_for_the_live_tree(
    monkeypatch: pytest.MonkeyPatch, holder: str | None
) -> None:
    """A log handler on the same terminal, by either of its streams, is redirected while the tree is
    shown, and restored afterwards.
    """
    terminal, logger = Terminal(), logging.getLogger("phases.test.live")
    monkeypatch.setattr(sys, "stdout", Terminal())
    handlers: list[logging.StreamHandler[Any]] = [
        logging.StreamHandler(stream) for stream in (terminal, sys.stdout, io.StringIO())
    ]
    monkeypatch.setattr(logging.getLogger(holder), "handlers", [*handlers])
    before = [handler.stream for handler in handlers]
    tree = phases.LiveTree(logger, console=Console(file=terminal, force_terminal=True, width=80))
    look = phases.task("look")(lambda _ctx: [handler.stream for handler in handlers])
    during = phases.run(look, observers=[tree], logger=logger).result
    assert isinstance(during, list)
    assert [now is then for now, then in zip(during, before, strict=True)] == [
        False,
        False,
        True,
    ]
    assert [handler.stream for handler in handlers] == before


def test_log_handlers_beside_a_live_tree_that_is_not_on_a_terminal() -> None:
    """Rich then leaves standard error as it is, so a log handler on the same stream keeps it."""
    logger, file = logging.getLogger("phases.test.file"), io.StringIO()
    handler = logging.StreamHandler(file)
    logger.addHandler(handler)
    tree = phases.LiveTree(logger, console=Console(file=file))
    look = phases.task("look")(lambda _ctx: handler.stream is file)
    assert phases.run(look, observers=[tree], logger=logger).result


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


@pytest.mark.linux
def test_what_a_task_prints_beside_the_live_tree(tmp_path: Path) -> None:
    """It goes to standard output as ever, although the tree is on a terminal."""
    ours, theirs = pty.openpty()
    printing = "import phases; phases.run(phases.task('boot')(lambda ctx: print('printed')))"
    printed = tmp_path / "printed"
    with printed.open("w") as file:
        subprocess.run(
            [sys.executable, "-c", printing],
            stdout=file,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
            check=True,
        )
    os.close(theirs)
    assert b"boot" in os.read(ours, 65536)
    os.close(ours)
    assert printed.read_text() == "printed\n"


FAILING = """
import phases
from phases.testing import StubTask
print(phases.run(StubTask("boot", errors=[RuntimeError("no address")])))
"""


@pytest.mark.linux
def test_a_program_without_logging() -> None:
    """A run prints nothing, so a failure is said once: by the report that the program prints."""
    done = completed([sys.executable, "-c", FAILING])
    assert done.stderr == ""
    assert done.stdout.count("no address") == 1


@pytest.mark.parametrize("observers", [None, []])
def test_the_name_of_a_logger(
    caplog: pytest.LogCaptureFixture, observers: list[Observer] | None
) -> None:
    """A run, a context and a LogObserver also take the name of a logger; its own lines are logged
    there, too.
    """

    @phases.task("download")
    def download(ctx: Context) -> None:
        ctx.log.info("fetched")

    with caplog.at_level(logging.INFO):
        phases.run(download, logger="agent.boot", observers=observers)
        phases.execute(
            download, Context(logger="agent.boot", observers=[phases.LogObserver("agent.boot")])
        )
    lines = [record.message for record in caplog.records if record.name == "agent.boot"]
    assert len(caplog.records) == len(lines)
    assert lines.count("fetched") == 2
    assert lines.count("download started") == (2 if observers is None else 1)


def test_a_program_with_many_runs() -> None:
    """Its logger does not get a handler for each of them."""
    for _ in range(3):
        Context(logger="agent.daemon")
    assert len(logging.getLogger("agent.daemon").handlers) == 1


@pytest.mark.linux
def test_a_configuration_of_the_program_silences_nothing() -> None:
    """A dictConfig disables the loggers that exist, if it is not told otherwise. Ours does not
    exist before the first run.
    """
    program = """
import logging.config, phases
from phases.testing import StubTask
handler = {"class": "logging.StreamHandler"}
root = {"handlers": ["h"], "level": "INFO"}
logging.config.dictConfig({"version": 1, "handlers": {"h": handler}, "root": root})
phases.run(StubTask("a"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert [line.split(" after")[0] for line in done.stderr.splitlines()] == ["a started", "a ok"]


def test_observers_beside_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Observers take the place of the log, and have it beside them if it is one of them."""
    seen = Recorder()
    with caplog.at_level(logging.INFO):
        phases.run(StubTask("a"), observers=[seen])
        assert not caplog.records
        phases.run(StubTask("a"), observers=[seen, phases.LogObserver()])
    assert [record.message.split()[1] for record in caplog.records] == ["started", "ok"]
    assert len(seen.ends) == 2


@pytest.mark.parametrize("wrong", [None, 7, print, Context().log])
def test_what_is_not_a_logger(wrong: Any) -> None:
    """It is refused at once: a run whose lines are lost would look as if it had none. So is an
    adapter: it has no handlers, and would put the fields of a line elsewhere.
    """
    for make in (Context, phases.LogObserver, partial(phases.run, StubTask("a"))):
        with pytest.raises(
            TypeError, match=r"logger is .*; it must be a logging.Logger, or the name of one"
        ):
            make(logger=wrong)
