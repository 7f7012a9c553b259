"""The output: the abilities of the terminal, the one place that writes answers, and the logs.

Colour is used only on a terminal that has it, and never with NO_COLOR; ASCII if the locale is not UTF-8. If the reader
goes away (`| head`, a closed terminal), that is not a failure. Not here: the lines of an answer (`output`).
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from hostrouting.cli.output import line
from phases.text import in_ascii, is_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hostrouting.cli.output import Line, Tone


_CODES: dict[Tone, str] = {"good": "32", "bad": "1;31", "warn": "33", "soft": "2", "strong": "1"}
_GONE = {errno.EPIPE, errno.EIO}  # the pipe was closed; the terminal was


class Terminal:
    """The stream for answers or remarks, and what it can show."""

    def __init__(self, stream: TextIO | None, environment: Mapping[str, str] | None = None) -> None:
        """Determine what the stream can show, from it and from the environment. None is a stream that was closed."""
        self._stream = stream
        known = os.environ if environment is None else environment
        shown = _isatty(self._stream)
        dumb = known.get("TERM", "dumb") in {"", "dumb"}
        self.colour = shown and not dumb and not known.get("NO_COLOR")
        self.reader_is_gone = False
        self.unicode = is_utf8(self._stream, known)

    def show(self, lines: Iterable[Line]) -> None:
        """Write the lines, in colour if the terminal has it."""
        self._write("".join(f"{self._line(line)}\n" for line in lines))

    def write_json(self, text: str) -> None:
        """Write a JSON document: always UTF-8, whatever the locale."""
        # A byte that is not a character becomes \udcxx, which is a valid escape in JSON.
        self._write(f"{text}\n", encoding="utf-8")

    def _line(self, pieces: Line) -> str:
        if not self.colour:
            return "".join(piece.text for piece in pieces).rstrip()
        return "".join(
            f"\x1b[{_CODES[piece.tone]}m{piece.text}\x1b[0m" if piece.tone else piece.text for piece in pieces
        )

    def _write(self, text: str, *, encoding: str | None = None) -> None:
        if self._stream is None:
            return
        if encoding is None and not self.unicode:
            text = in_ascii(text)
        try:
            if hasattr(self._stream, "buffer"):
                self._stream.flush()
                self._stream.buffer.write(text.encode(encoding or self._stream.encoding, "backslashreplace"))
                self._stream.buffer.flush()
            else:
                self._stream.write(text)
        except OSError as error:
            _let_go(self._stream)
            self.reader_is_gone = True
            if error.errno not in _GONE:
                raise


def _let_go(stream: TextIO) -> None:
    """Discard what could not be written; otherwise Python would try again at exit, complain, and exit with 120."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _isatty(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # the stream is closed
        return False


def remark(text: str) -> None:
    """Write a line to standard error. If it cannot be written, it is discarded: the exit code stays the same."""
    with suppress(OSError):
        Terminal(sys.stderr).show([line(text)])


def log_to_stderr() -> None:
    """Log progress and warnings to standard error. Keeps existing handlers of the program."""
    import logging  # noqa: PLC0415  what neither waits nor changes anything logs nothing

    class Quiet(logging.StreamHandler):  # type: ignore[type-arg]  # it cannot be subscripted before Python 3.14
        # Discards a line if the terminal was closed, so that the exit code stays the same.
        def handleError(self, _record: logging.LogRecord) -> None:  # noqa: N802  logging calls it so
            if isinstance(sys.exc_info()[1], OSError):
                _let_go(self.stream)

    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(Quiet())
        root.setLevel(logging.INFO)
