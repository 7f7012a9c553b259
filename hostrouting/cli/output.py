"""Prints answers: lines or one JSON document on standard output, remarks and logs on standard error.

On a terminal, rich colours the lines if it is installed; everywhere else they are plain text. A reader who goes away
(`| head`, a closed terminal) is not a failure. Not here: what the lines say.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from hostrouting.finding import Finding

SHOWN = 20
"""The number of lines of one kind that are shown; the JSON has all."""

# The first pattern that matches a line decides its colour.
_STYLES = (
    (r"^(OK|DONE|NOTHING TO DO|INSTALLED):", "bold green"),
    (r"^(OVERLAP|FAILED|REFUSED|CONFLICT|DIFFERENT|GATE-OPEN|GATE-SHUT):", "bold red"),
    (r"^[A-Z][A-Z-]+( [A-Z]+)*:", "bold yellow"),
    (r"^  (\+|add|wrote) .*", "green"),
    (r"^  (-|delete|removed) .*", "red"),
    (r"^\S.*:$", "bold"),
)
_GONE = {errno.EPIPE, errno.EIO}  # the pipe was closed; the terminal was


class Answer(NamedTuple):
    """The answer of a command: its exit code, and the same as a document and as lines; only one of them is made."""

    code: int
    document: Callable[[], Any]
    lines: Callable[[], Iterable[str]]


def write(answer: Answer, *, as_json: bool) -> int:
    """Print the answer and return its exit code; not 0 if it could not be written."""
    # Lines are escaped one by one: the name of a file or device could control a terminal.
    if as_json:
        import json  # noqa: PLC0415  a check on the host needs none

        text = json.dumps(answer.document(), indent=2)
    else:
        text = "\n".join(map(_printable, answer.lines()))
    try:
        if text and not (sys.stdout is not None and sys.stdout.isatty() and not as_json and _in_colour(text)):
            _plainly(f"{text}\n", sys.stdout)
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


def _in_colour(text: str) -> bool:
    """Print the lines with rich; false if it is not installed."""
    try:
        from rich.console import Console  # noqa: PLC0415  only a terminal needs it
        from rich.text import Text  # noqa: PLC0415  as above
    except ImportError:
        return False
    console = Console(highlight=False, soft_wrap=True)
    for line in text.split("\n"):
        shown = Text(line)
        for pattern, style in _STYLES:
            if shown.highlight_regex(pattern, style):
                break
        console.print(shown)
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


def progress(things: Iterable[T], total: int) -> Iterable[T]:
    """The same things; rich shows on a terminal how many of them have come, if it is installed."""
    try:
        from rich.console import Console  # noqa: PLC0415  only many snapshots need it
        from rich.progress import track  # noqa: PLC0415  as above
    except ImportError:
        return things
    console = Console(stderr=True)
    return track(things, "checking", total, transient=True, disable=not console.is_terminal, console=console)


def capped(lines: Sequence[str]) -> Iterator[str]:
    """The first lines, and one that counts the others."""
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        yield f"  … and {len(lines) - SHOWN:,} more; --json shows all"


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """The findings, each after its name, which the page Findings explains."""
    yield from capped([finding.line for finding in findings])
