"""How far a run is: one line on a terminal, and nothing anywhere else."""

import io
import re

import pytest

from hostrouting.cli.terminal import Progress, Terminal
from phases.testing import FakeClock

XTERM = {"TERM": "xterm", "COLUMNS": "80"}


class Screen(io.TextIOWrapper):
    """A terminal in memory."""

    def __init__(self) -> None:
        """Begin empty."""
        self.sent = io.BytesIO()
        super().__init__(self.sent, encoding="utf-8")

    def isatty(self) -> bool:
        """True: the stream is a terminal."""
        return True


def sent(stream: Screen) -> str:
    """What the terminal was sent."""
    return stream.sent.getvalue().decode()


@pytest.fixture
def screen() -> Screen:
    """A terminal to write to."""
    return Screen()


def run(terminal: Terminal, *, seconds: float, total: int = 1000, until: int | None = None) -> list[int]:
    """Go through `total` things that take `seconds` each."""
    clock = FakeClock()
    found = []
    for it in Progress(total, "snapshots", terminal=terminal, clock=clock.now).along(range(total)):
        clock.advance(seconds)
        found.append(it)
        if it == until:
            break
    return found


def test_the_line(screen: Screen) -> None:
    """The line is rewritten with the total, what is done and how long the rest takes; at the end it is removed."""
    assert run(Terminal(screen, XTERM), seconds=0.01) == list(range(1000))
    lines = sent(screen).split("\r")
    assert lines[0] == ""
    assert lines[-1] == "\x1b[K"
    assert 90 <= len(lines) <= 110  # ten a second
    assert all(line.endswith("\x1b[K") and len(line) < 80 + 3 for line in lines[1:])
    middle = next(line for line in lines if re.search(r"50\d of 1,000", line))
    assert re.fullmatch(r"50\d of 1,000 snapshots, (4.9\d|5.00) s left\x1b\[K", middle)


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TERM": ""}, {}])
def test_a_terminal_that_cannot_write_a_line_again(screen: Screen, environment: dict[str, str]) -> None:
    """A terminal that cannot write a line again gets nothing."""
    run(Terminal(screen, environment), seconds=1)
    assert sent(screen) == ""


def test_a_pipe() -> None:
    """A pipe gets nothing, whatever TERM says."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    run(Terminal(stream, XTERM), seconds=1)
    assert isinstance(stream.buffer, io.BytesIO)
    assert stream.buffer.getvalue() == b""


def test_no_colours(screen: Screen) -> None:
    """The line has no colours, so NO_COLOR does not change it; it is in ASCII."""
    run(Terminal(screen, {**XTERM, "NO_COLOR": "1", "LC_ALL": "C"}), seconds=1, total=10)
    text = sent(screen)
    assert "3 of 10 snapshots" in text
    assert "\x1b[" not in text.replace("\x1b[K", "")
    assert text.isascii()


@pytest.mark.parametrize("width", [8, 30, 45, 200])
def test_any_width(screen: Screen, width: int) -> None:
    """The line is never wider than the terminal, where it could not be written again."""
    run(Terminal(screen, {**XTERM, "COLUMNS": str(width)}), seconds=1, total=20)
    assert all(len(word.removesuffix("\x1b[K")) < width for word in sent(screen).split("\r"))


def test_a_short_run(screen: Screen) -> None:
    """A run that is over before anybody could read the line has none."""
    run(Terminal(screen, XTERM), seconds=0.001, total=50)
    assert sent(screen) == ""


def test_a_run_that_is_left(screen: Screen) -> None:
    """The line is gone, too, if the run ends early."""
    run(Terminal(screen, XTERM), seconds=1, until=5)
    assert sent(screen).endswith("\r\x1b[K")
