"""What a terminal can show, and a closed pipe."""

import errno
import io
import logging
import os
import pty
import sys
from collections.abc import Callable, Iterator

import pytest

from hostrouting.cli.output import Painted, line
from hostrouting.cli.terminal import Terminal, log_to_stderr, remark

LINES = [line(Painted("OVERLAP:", "bad"), " 172.16.0.0–172.16.255.255 → ib0 │ ü")]  # noqa: RUF001  the dash is meant


def sent(stream: io.TextIOWrapper) -> bytes:
    """What was written to a stream in memory."""
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()


@pytest.fixture
def screen() -> Iterator[tuple[io.TextIOWrapper, int]]:
    """A terminal to write to, and where what it was sent can be read."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        yield stream, ours
    os.close(ours)


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": ""}, False),
        ({}, False),
    ],
)
def test_colour(screen: tuple[io.TextIOWrapper, int], environment: dict[str, str], *, coloured: bool) -> None:
    """Colour is used on terminals that have it, unless NO_COLOR is set."""
    stream, ours = screen
    Terminal(stream, environment).show(LINES)
    assert (b"\x1b[1;31mOVERLAP:\x1b[0m" in os.read(ours, 4096)) is coloured


def test_no_colour_into_a_pipe() -> None:
    """Output that is not a terminal gets plain text, for every value of TERM."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    terminal = Terminal(stream, {"TERM": "xterm"})
    terminal.show(LINES)
    assert sent(stream).decode().startswith("OVERLAP: 172")


@pytest.mark.parametrize(
    ("encoding", "environment", "ascii_only"),
    [
        ("utf-8", {"LC_ALL": "C.UTF-8"}, False),
        ("utf-8", {}, False),
        ("utf-8", {"LC_ALL": "C"}, True),
        ("utf-8", {"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, True),
        ("utf-8", {"LANG": "C"}, True),
        ("utf-8", {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ("utf-8", {"LANG": "de_DE.UTF-8", "LC_CTYPE": "C.UTF-8"}, False),
        ("iso8859-1", {"LC_ALL": "de_DE.ISO-8859-1"}, True),
        ("ascii", {}, True),
    ],
)
def test_locale(encoding: str, environment: dict[str, str], *, ascii_only: bool) -> None:
    """If the locale does not support UTF-8, everything is printed in ASCII, without loss; JSON stays UTF-8."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    terminal = Terminal(stream, environment)
    terminal.show(LINES)
    terminal.write_json('"ü\udc80"')
    text, document = sent(stream).splitlines()
    assert text.isascii() is ascii_only
    if ascii_only:
        assert text == rb"OVERLAP: 172.16.0.0-172.16.255.255 -> ib0 | \xfc"
    assert document == '"ü\\udc80"'.encode()


class Broken(io.TextIOWrapper):
    """A stream that cannot be written to."""

    def __init__(self, number: int) -> None:
        """Fail with this error number."""

        class Raw(io.BytesIO):
            def write(self, _: object) -> int:
                raise OSError(number, os.strerror(number))

        super().__init__(Raw(), encoding="utf-8")


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO])
def test_a_reader_who_has_gone(number: int) -> None:
    """A closed pipe and a closed terminal are not failures."""
    Terminal(Broken(number), {}).show(LINES)


def test_a_full_disk_is_one() -> None:
    """An answer that could not be saved is an error."""
    with pytest.raises(OSError, match="No space left"):
        Terminal(Broken(errno.ENOSPC), {}).write_json("{}")


def log(text: str) -> None:
    """Log a warning as the command line does."""
    log_to_stderr()
    logging.getLogger("hostrouting").warning(text)


@pytest.mark.parametrize("write", [remark, log])
def test_words_that_cannot_be_written(write: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A log line or remark that cannot be written is discarded, so that Python does not fail at exit because of it."""
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    with open("/dev/full", "w", encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        write("another run has the lock")
        stream.flush()


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_closed_stream(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What belongs on a stream that is closed is written nowhere, least of all on the other one."""
    monkeypatch.setattr(sys, name, None)
    Terminal(getattr(sys, name), {"TERM": "xterm"}).show(LINES)
    if name == "stderr":
        remark("another run has the lock")
    assert capsys.readouterr() == ("", "")
