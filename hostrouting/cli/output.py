"""Prints pages: lines, or one JSON document, on standard output; remarks, errors and logs on
standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple, TextIO

from hostrouting import errors
from hostrouting.codes import CANNOT_DECIDE
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


def error_document(error: BaseException) -> dict[str, Any]:
    """The error as a JSON value."""
    facts: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, errors.HostRoutingError):
        facts = error.to_mapping()
    findings = facts.pop("findings", [])  # they come last
    return {"schema": "hostrouting/error/1", "message": str(error), **facts, "findings": findings}


def write_error(error: Exception, *, as_json: bool) -> int:
    """Print the error, with --json also as a document on standard output; return the exit code."""
    code = CANNOT_DECIDE
    if isinstance(error, errors.HostRoutingError):
        code = error.exit_code
        say(*str(error).split("\n"))
    else:
        from traceback import format_exc  # noqa: PLC0415  only a bug needs it

        remark = (
            "if a module is missing, install the package python3 (python3-minimal is not enough); "
            "else this is a bug in hostrouting: please report it with the following text"
        )
        say(remark, *format_exc().splitlines())
    return write(Page(code, error_document(error), ()), as_json=as_json)


def write(page: Page, *, as_json: bool) -> int:
    """Print the page and return its exit code. A reader who goes away (`| head`) is not a
    failure.
    """
    try:
        if as_json:
            import json  # noqa: PLC0415  a check on the host needs none

            _print([json.dumps(page.document, indent=2)], sys.stdout)
        else:
            _print(page.lines, sys.stdout)
    except BrokenPipeError:
        # Otherwise Python writes again when it exits, and prints that this failed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return page.code


def say(first: str, *others: str) -> None:
    """Print a remark on standard error."""
    _print([f"hostrouting: {first}", *others], sys.stderr)


def _print(lines: Iterable[str], stream: TextIO | None) -> None:
    """Print the lines, each escaped: the name of a file or device could control a terminal."""
    if stream is None:  # this process was started with the stream closed
        return
    encoding = stream.encoding or "utf-8"
    is_plain = not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    shown: list[str] = []
    for text in lines:
        for line in text.split("\n"):
            escaped = printable(line).encode(encoding, "backslashreplace").decode(encoding)
            shown.append(escaped if is_plain else _coloured(escaped))
    stream.write("".join(f"{line}\n" for line in shown))
    stream.flush()


def _coloured(line: str) -> str:
    """The line with its first words in colour, if they are in capitals and a colon follows."""
    words, colon, others = line.partition(":")
    if not colon or not words.isupper():
        return line
    return f"\x1b[1;{_COLOURS.get(words, 33)}m{words}\x1b[0m:{others}"  # 33 is yellow
