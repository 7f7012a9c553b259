"""The output: the abilities of the terminal, the one place that writes answers, the logs, the progress line.

Colour is used only on a terminal that has it, and never with NO_COLOR; ASCII if the locale is not UTF-8. If the reader
goes away (`| head`, a closed terminal), that is not a failure. The progress line on standard error is written again and
again, and is gone at the end; only a terminal that can write a line again has it. Not here: the lines of an answer
(`output`), and what is counted.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from hostrouting.cli.output import width_of
from phases.text import in_ascii, is_utf8, seconds_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeVar

    from hostrouting.cli.output import Line, Tone

    T = TypeVar("T")

_CODES: dict[Tone, str] = {"good": "32", "bad": "1;31", "warn": "33", "soft": "2", "strong": "1"}
_GONE = {errno.EPIPE, errno.EIO}  # the pipe was closed; the terminal was


class Terminal:
    """The stream for answers, and what it can show."""

    def __init__(self, stream: TextIO | None = None, environment: Mapping[str, str] | None = None) -> None:
        """Determine what the stream (default: standard output) can show, from it and from the environment."""
        self._stream: TextIO | None = sys.stdout if stream is None else stream  # None if it was closed
        known = os.environ if environment is None else environment
        shown = _isatty(self._stream)
        dumb = known.get("TERM", "dumb") in {"", "dumb"}
        self.is_live = shown and not dumb
        """Whether a line that was written can be written again."""
        self.colour = self.is_live and not known.get("NO_COLOR")
        self.reader_is_gone = False
        self.width = width_of(self._stream, known) if shown else 80
        self.unicode = is_utf8(self._stream, known)

    def show(self, lines: Iterable[Line]) -> None:
        """Write the lines, in colour if the terminal has it."""
        self._write("".join(f"{self._line(line)}\n" for line in lines))

    def write_json(self, text: str) -> None:
        """Write a JSON document: always UTF-8, whatever the locale."""
        # A byte that is not a character becomes \udcxx, which is a valid escape in JSON.
        self._write(f"{text}\n", encoding="utf-8")

    def rewrite(self, text: str) -> None:
        """Replace what the last call wrote with this text; only for a live terminal."""
        self._write(f"\r{text}\x1b[K")

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


def log_to_stderr() -> None:
    """Log progress and warnings to standard error. Keeps existing handlers of the program."""
    root = logging.getLogger()
    if not root.handlers:
        handler = _Quiet()
        handler.setFormatter(logging.Formatter("%(message)s"))
        root.addHandler(handler)
        root.setLevel(logging.INFO)


class _Quiet(logging.StreamHandler):  # type: ignore[type-arg]  # it cannot be subscripted before Python 3.14
    """A handler that silently discards log lines if the terminal was closed, so that the exit code stays the same."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  logging calls it so
        """See the class."""
        if isinstance(sys.exc_info()[1], OSError):
            _let_go(self.stream)


# The progress line.

_PAUSE = 0.1  # seconds between two writings: a reader needs no more, and the run should not wait for the terminal


class Progress:
    """A progress line that counts items."""

    def __init__(
        self, total: int, noun: str, *, terminal: Terminal | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Write to standard error, unless another terminal is given; `noun` is the plural of the items."""
        self._total, self._noun, self._clock = total, noun, clock
        self._terminal = Terminal(sys.stderr) if terminal is None else terminal

    def along(self, things: Iterable[T]) -> Iterator[T]:
        """Yield each item; until the last one or an error, the line shows how many were taken."""
        begun = written = self._clock()
        count = 0
        try:
            for count, thing in enumerate(things, start=1):
                now = self._clock()
                if self._terminal.is_live and now - written >= _PAUSE:
                    written = now
                    self._terminal.rewrite(self._line(count, now - begun))
                yield thing
        finally:
            if written != begun:
                self._terminal.rewrite("")

    def _line(self, count: int, seconds: float) -> str:
        left = seconds_in_words((self._total - count) * seconds / count)
        sentence = f"{count:,} of {self._total:,} {self._noun}, {left} left"
        return sentence[: self._terminal.width - 1]
