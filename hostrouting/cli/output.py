"""Prints answers: lines or one JSON document on standard output; remarks, errors and logs on
standard error.

On a terminal, rich colours the lines if it is installed; everywhere else they are plain text. A
reader who goes away (`| head`, a closed terminal) is not a failure.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, NamedTuple, TextIO

from hostrouting import errors
from hostrouting.codes import CANNOT_DECIDE, PROBLEM
from hostrouting.command import AS_ROOT, LineToType
from hostrouting.text import printable


class Answer(NamedTuple):
    """The answer of a command: its exit code, and the same as a document and as lines."""

    code: int
    document: dict[str, Any]
    lines: Iterable[str]
    """They are made while they are written, so making them reads and writes nothing: its OSError
    would count as one of the output.
    """


def error_document(error: BaseException) -> dict[str, Any]:
    """The error as a JSON value."""
    facts: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, errors.HostRoutingError):
        facts = error.to_mapping()
    findings = facts.pop("findings", [])  # they come last
    return {"schema": "hostrouting/error/3", "message": str(error), **facts, "findings": findings}


def write_error(error: Exception, program: str, *, as_json: bool) -> int:
    """Print the error, with --json also as a document on standard output; return the exit code."""
    code = CANNOT_DECIDE
    if isinstance(error, errors.HostRoutingError):
        code = error.exit_code
        say(*error.lines_for(AS_ROOT._replace(program=program)))
    else:
        from traceback import format_exc  # noqa: PLC0415  only a bug needs it

        ask = "this is a bug in hostrouting; please report it with the following text"
        say(ask, *format_exc().splitlines())
    return write(Answer(code, error_document(error), ()), as_json=as_json)


def write(answer: Answer, *, as_json: bool) -> int:
    """Print the answer and return its exit code; not 0 if it could not be written."""
    code = answer.code
    try:
        if as_json:
            import json  # noqa: PLC0415  a check on the host needs none

            _print(json.dumps(answer.document, indent=2), sys.stdout)
        else:
            _write_lines(answer)
    except OSError as error:
        _discard(sys.stdout)
        if error.errno != errno.EPIPE:
            say(f"the answer could not be written: {error.strerror}")
            code = code or PROBLEM
    _forget_lost_remarks()
    return code


def _write_lines(answer: Answer) -> None:
    """Print the page, in colour where that can be."""
    width = _width_of(sys.stdout)
    lines = _rows(answer.lines, width)
    if lines and not (width and _print_in_colour(lines)):
        _print("\n".join(lines), sys.stdout)


def _rows(lines: Iterable[str], width: int) -> list[str]:
    """The lines as a stream shows them: as wide as its terminal, if it is one.

    They are escaped one by one: the name of a file or device could control a terminal.
    """
    rows: list[str] = []
    for line in lines:
        command = line.command if isinstance(line, LineToType) else ""
        words = printable(line.removesuffix(command))
        shown = LineToType(words, printable(command))
        rows += wrapped(shown, width) if width else [shown]
    return rows


def _width_of(stream: TextIO | None) -> int:
    """The columns of the terminal; 0 if the stream is not one."""
    if stream is None or not stream.isatty():
        return 0
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit():
        return int(columns)
    return os.get_terminal_size(stream.fileno()).columns


def wrapped(line: LineToType, width: int) -> list[str]:
    """The line in lines that a terminal of this width shows whole. A command is not broken: it
    begins on a line of its own if there is no room for it.
    """
    from textwrap import wrap  # noqa: PLC0415  only a terminal needs it

    command = line.command
    words = line.removesuffix(command)
    indent = " " * (len(words) - len(words.lstrip()))
    below = f"{indent}  "
    rows = wrap(
        words.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if not rows:  # nothing, or only a command
        return [line]
    if command and len(f"{rows[-1]} {command}") <= width:
        rows[-1] += f" {command}"
    elif command:
        rows.append(f"{below}{command}")
    return rows


def say(first: str, *others: str) -> None:
    """Print a remark on standard error; a remark that cannot be written is lost."""
    with suppress(OSError):
        rows = _rows([f"hostrouting: {first}", *others], _width_of(sys.stderr))
        _print("\n".join(rows), sys.stderr)


def _forget_lost_remarks() -> None:
    """Forget remarks and log lines that could not be written, because the terminal was closed
    meanwhile.
    """
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def _print(text: str, stream: TextIO | None) -> None:
    if stream is not None:
        encoding = stream.encoding or "utf-8"
        stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


def _print_in_colour(lines: Sequence[str]) -> bool:
    """Print the lines in colour; returns false, and prints nothing, if rich is not installed."""
    try:
        from hostrouting.cli.terminal import print_page  # noqa: PLC0415  only a terminal needs rich
    except ImportError:
        return False
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as in `_print`
    print_page(lines)
    return True


def _discard(stream: TextIO) -> None:
    """Forget what could not be written; otherwise Python would try again when it exits, complain,
    and exit with 120.
    """
    with suppress(OSError):  # of a program of somebody else, it need not be a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
