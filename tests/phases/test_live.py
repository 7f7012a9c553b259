"""The live tree: when it is shown, its content, and the state afterwards."""

import io
import logging
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import pytest
from rich.console import Console

import phases
from phases.live import LiveTree, live_tree
from phases.testing import StubTask


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """True."""
        return True


def test_only_on_a_terminal_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live tree is shown on a terminal, but not in a pipe, on a dumb terminal or without TERM."""
    logger = logging.getLogger("phases")
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(live_tree(logger, stream=Terminal()), LiveTree)
    assert live_tree(logger, stream=io.StringIO()) is None
    monkeypatch.setenv("TERM", "dumb")
    assert live_tree(logger, stream=Terminal()) is None
    monkeypatch.delenv("TERM")
    assert live_tree(logger, stream=Terminal()) is None


def test_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rich, no live tree is shown, and nothing fails."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert live_tree(logging.getLogger("phases"), stream=Terminal()) is None


def test_what_it_shows() -> None:
    """Each task is a line with a sign for its state and how long it has taken."""
    tree, texts = LiveTree(Console(file=io.StringIO(), width=100, height=40)), list[str]()
    look = phases.task("look")(lambda _ctx: texts.append(re.sub(r" +\d+ ms", " TIME", str(tree._render()))))

    @phases.task("failed")
    def failed(ctx: phases.Context) -> None:
        with suppress(phases.TaskFailed):
            phases.execute(phases.serial(StubTask("c", always=OSError("full")), StubTask("d"), name="inner"), ctx)
            raise AssertionError
        phases.execute(look, ctx)

    done = phases.serial(StubTask("inside"), name="a")
    phases.run(phases.serial(done, StubTask("b", phases.Skip("there")), failed), observers=[tree])
    assert texts[0] == (
        "… serial TIME\n├─ ✓ a TIME\n├─ - b TIME  there\n└─ … failed TIME\n   ├─ ✗ inner TIME\n"
        "   │  ├─ ✗ c TIME  OSError: full\n   │  └─ - d    not reached after c\n   └─ … look TIME\n"
    )


def test_handlers_make_room_and_come_back() -> None:
    """A log handler on the same terminal is redirected while the tree is shown, and restored afterwards."""
    terminal = Terminal()
    logger = logging.getLogger("phases.test.live")
    handler, other = logging.StreamHandler(terminal), logging.StreamHandler(io.StringIO())
    logger.addHandler(handler)
    logger.addHandler(other)
    tree = LiveTree(Console(file=terminal, force_terminal=True, width=80), logger=logger)
    elsewhere = other.stream
    during: list[object] = []

    @phases.task("look")
    def look(_ctx: phases.Context) -> None:
        during.append(handler.stream)
        assert other.stream is elsewhere

    try:
        phases.run(look, observers=[tree], logger=logger)
    finally:
        logger.removeHandler(handler)
        logger.removeHandler(other)
    assert during[0] is not terminal
    assert handler.stream is terminal


def on_a_terminal(code: str, **environment: str) -> str:
    """The output of a program on a real pseudo-terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=theirs, stdout=theirs, env={**os.environ, "TERM": "xterm", **environment}
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux reports a closed other side this way
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.wait() == 0, written.decode()
    return written.decode()


def words_of(written: str) -> str:
    """The text without the escape sequences."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", written)


PROGRAM = """
import logging, phases
from phases.testing import StubTask
logging.basicConfig(level="INFO", format="LOG %(message)s")
report = phases.run(phases.serial(StubTask("a", seconds=0.2), StubTask("b", seconds=0.2), name="boot"))
print(report)
"""


@pytest.mark.linux
def test_on_a_real_terminal() -> None:
    """On a terminal the tree appears in colour while tasks run, with log lines above it and the report after it."""
    written = on_a_terminal(PROGRAM)
    assert "… boot  " in words_of(written)
    assert re.search(r"\x1b\[[\d;]*3[0-7]m", written)
    assert "LOG boot/a completed after" in written
    assert re.search(r"boot\s+ok", written.rpartition("boot: ok after")[2])
