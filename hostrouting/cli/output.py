"""Prints pages: lines, or one JSON document, on standard output; remarks, errors and logs on
standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple, TextIO

from hostrouting.codes import CANNOT_DECIDE
from hostrouting.errors import HostRoutingError
from hostrouting.text import printable

_COLOURS = {
    **dict.fromkeys(("OK", "DONE", "NOTHING TO DO", "IN FORCE", "RUNS"), 32),  # green
    **dict.fromkeys(("OVERLAP", "FAILED", "DIFFERS", "STUCK", "MASKED"), 31),  # red
}
"""The colours of a terminal, by the first words of a line; others are yellow."""


class Page(NamedTuple):
    """The answer of a command: its exit code, and what it prints, as JSON and as lines."""

    code: int
    document: dict[str, Any]
    lines: Iterable[str]


def error_document(error: object) -> dict[str, Any]:
    """The error as a JSON value, for --json."""
    facts: dict[str, Any] = {"error": type(error).__name__, "findings": []}
    if isinstance(error, HostRoutingError):
        facts = error.to_mapping()
    return {"schema": "hostrouting/error/1", "message": str(error), **facts}


def write_error(error: Exception, *, as_json: bool) -> int:
    """Print the error, with --json also as a document on standard output; return the exit code."""
    document = error_document(error)
    if "exitCode" in document:  # an error that hostrouting raises on purpose
        say(str(error))
    else:
        from traceback import format_exc  # noqa: PLC0415  only a bug needs it

        say(
            "if a module is missing, install the package python3 (python3-minimal is not enough); "
            "else this is a bug in hostrouting: please report it with the following text",
            format_exc().strip(),
        )
    code = document.get("exitCode", CANNOT_DECIDE)
    return write(Page(code, document, ()), as_json=as_json)


def write(page: Page, *, as_json: bool) -> int:
    """Print the page and return its exit code, or CANNOT_DECIDE if the page cannot be written."""
    lines = page.lines
    if as_json:
        import json  # noqa: PLC0415  a check on the host needs none

        lines = [json.dumps(page.document, indent=2)]
    failure = print_lines(lines, sys.stdout)
    # A reader who goes away, such as `head`, has read enough.
    if failure is None or isinstance(failure, BrokenPipeError):
        return page.code
    say(f"the answer cannot be written: {failure.strerror}")
    return CANNOT_DECIDE


def say(first: str, *others: str) -> None:
    """Print a remark on standard error."""
    print_lines([f"hostrouting: {first}", *others], sys.stderr)


def print_lines(lines: Iterable[str], stream: TextIO | None) -> OSError | None:
    """Print the lines, each escaped: the name of a file or device could control a terminal. If the
    stream cannot be written to, return the error.
    """
    if stream is None:  # this process was started with the stream closed
        return None
    encoding = stream.encoding or "utf-8"
    is_plain = not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    shown: list[str] = []
    for text in lines:
        for line in text.split("\n"):
            escaped = printable(line).encode(encoding, "backslashreplace").decode(encoding)
            shown.append(escaped if is_plain else _coloured(escaped))
    try:
        stream.write("".join(f"{line}\n" for line in shown))
        stream.flush()
    except OSError as error:
        # Python would write the rest again when it exits, and fail with the exit code 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


def _coloured(line: str) -> str:
    """The line with its first words in colour, if they are in capitals and a colon follows."""
    words, colon, others = line.partition(":")
    if not colon or not words.isupper():
        return line
    return f"\x1b[1;{_COLOURS.get(words, 33)}m{words}\x1b[0m:{others}"  # 33 is yellow
