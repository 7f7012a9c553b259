"""Prints answers: lines or one JSON document on standard output, remarks and logs on standard error.

On a terminal, rich colours the lines if it is installed; everywhere else they are plain text. A reader who goes away
(`| head`, a closed terminal) is not a failure. Not here: what the lines say.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from hostrouting.check.check import CheckReport
    from hostrouting.finding import Finding

SHOWN = 20
"""The number of lines of one kind that are shown; the JSON has all."""

_GONE = {errno.EPIPE, errno.EIO}  # the pipe was closed; the terminal was


class Answer(NamedTuple):
    """The answer of a command: its exit code, and the same as a document and as lines."""

    code: int
    document: dict[str, Any]
    lines: Iterable[str]
    strip: CheckReport | None = None
    """The check whose CIDRs a terminal shows as strips, before the first empty line."""


def write(answer: Answer, *, as_json: bool) -> int:
    """Print the answer and return its exit code; not 0 if it could not be written."""
    try:
        if as_json:
            import json  # noqa: PLC0415  a check on the host needs none

            _plainly(f"{json.dumps(answer.document, indent=2)}\n", sys.stdout)
        # Lines are escaped one by one: the name of a file or device could control a terminal.
        elif (lines := [*map(_printable, answer.lines)]) and not _in_colour(lines, answer.strip):
            _plainly("\n".join([*lines, ""]), sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        if error.errno not in _GONE:
            say(f"the answer could not be written: {error.strerror}")
            return answer.code or 1
    return answer.code


def _plainly(text: str, stream: TextIO | None) -> None:
    if stream is not None:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


def _in_colour(lines: Iterable[str], strip: CheckReport | None) -> bool:
    """Print the lines in colour; false if this is not a terminal, or rich is not installed."""
    if sys.stdout is None or not sys.stdout.isatty():
        return False
    try:
        from hostrouting.cli.terminal import Console, print_page  # noqa: PLC0415  only a terminal needs rich
    except ImportError:
        return False
    print_page(Console(highlight=False, soft_wrap=True), lines, strip)
    return True


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def _discard(stream: TextIO | None) -> None:
    """Forget what could not be written; Python would try again at its end, complain, and exit with 120."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]  # without a stream there is nothing to forget
        os.close(nowhere)


def say(*lines: str) -> None:
    """Print a remark on standard error; it is lost if that cannot be written."""
    try:
        _plainly("hostrouting: " + "\n".join(map(_printable, lines)) + "\n", sys.stderr)
    except OSError:
        _discard(sys.stderr)


def log_to_stderr() -> None:
    """Show the log of a run on standard error, unless the program has handlers of its own."""
    import logging  # noqa: PLC0415  what changes nothing logs nothing

    logging.basicConfig(level=logging.INFO, format="%(message)s")


def capped(lines: Sequence[str]) -> Iterator[str]:
    """The first lines, and one that counts the others."""
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        yield f"  … and {len(lines) - SHOWN:,} more; --json shows all"


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """The findings, each after its name, which the page Findings explains."""
    yield from capped([finding.line for finding in findings])
