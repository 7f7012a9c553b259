"""Prints answers: lines or one JSON document on standard output; remarks, errors and logs on
standard error.

On a terminal, rich colours the lines if it is installed; everywhere else they are plain text. A
reader who goes away (`| head`, a closed terminal) is not a failure.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import TextIOWrapper
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from hostrouting import errors
from hostrouting.codes import PROBLEM, code_of
from hostrouting.command import AS_ROOT, LineToType, Operator
from hostrouting.text import printable, printable_lines

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.finding import Finding, Remedy

SHOWN = 20
"""How many things of one kind a page has; the JSON contains all."""


class Answer(NamedTuple):
    """The answer of a command: its exit code, and the same as a document and as lines."""

    code: int
    document: dict[str, Any]
    lines: Iterable[str]
    """They are made while they are written, so making them reads and writes nothing: its OSError
    would count as one of the output.
    """
    report: CheckReport | None = None
    """The check whose CIDRs a terminal shows as strips, before the first empty line."""


def error_document(error: BaseException) -> dict[str, Any]:
    """The error as a JSON value."""
    facts: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, errors.HostRoutingError):
        facts = error.to_mapping()
    findings = facts.pop("findings", [])  # they come last
    return {"schema": "hostrouting/error/3", "message": str(error), **facts, "findings": findings}


def write_error(error: Exception, program: str, *, as_json: bool) -> int:
    """Print the error, with --json also as a document on standard output; return the exit code."""
    if isinstance(error, errors.HostRoutingError):
        say(error.text_for(AS_ROOT._replace(program=program)))
    else:
        from traceback import format_exc  # noqa: PLC0415  only a bug needs it

        ask = "this is a bug in hostrouting; please report it with the following text"
        say(f"{ask}\n{format_exc().rstrip()}")
    return write(Answer(code_of(error), error_document(error), ()), as_json=as_json)


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
        is_gone = _is_gone(error, sys.stdout)
        _discard(sys.stdout)
        if not is_gone:
            say(f"the answer could not be written: {error.strerror}")
            code = code or PROBLEM
    _forget_lost_remarks()
    return code


def _write_lines(answer: Answer) -> None:
    """Print the page, in colour where that can be."""
    # Lines are escaped one by one: the name of a file or device could control a terminal.
    lines = [_printable(line) for line in answer.lines]
    if not lines:
        return
    width = _width_of(sys.stdout)
    if width:
        lines = [*chain.from_iterable(wrapped(line, width) for line in lines)]
    is_printed = _print_in_colour(lines, answer.report, width)
    if not is_printed:
        _print("\n".join(lines), sys.stdout)


def _printable(line: str) -> str:
    if isinstance(line, LineToType):
        words = line.removesuffix(line.command)
        return LineToType(printable(words), printable(line.command))
    return printable(line)


def _width_of(stream: TextIO | None) -> int:
    """The columns of the terminal; 0 if the stream is not one."""
    if stream is None or not stream.isatty():
        return 0
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit():
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 0


def wrapped(line: str, width: int) -> list[str]:
    """The line in lines that a terminal of this width shows whole. A command is not broken: it
    begins on a line of its own if there is no room for it.
    """
    if len(line) <= width:
        return [line]
    from textwrap import wrap  # noqa: PLC0415  only a terminal needs it

    command = line.command if isinstance(line, LineToType) else ""
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
    if not rows:  # only a command
        return [line]
    if command and len(f"{rows[-1]} {command}") <= width:
        rows[-1] += f" {command}"
    elif command:
        rows.append(f"{below}{command}")
    return rows


def say(text: str) -> None:
    """Print a remark on standard error; a remark that cannot be written is lost."""
    with suppress(OSError):
        _print(f"hostrouting: {printable_lines(text)}", sys.stderr)


def _forget_lost_remarks() -> None:
    """Forget remarks and log lines that could not be written, because the terminal was closed
    meanwhile.
    """
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def capped(lines: Sequence[str]) -> Iterator[str]:
    """The first lines, each of one thing, and a line that counts the others."""
    yield from lines[:SHOWN]
    yield from count_of_others(lines)


def count_of_others(things: Sequence[object]) -> Iterator[str]:
    """The line that counts those of the things which are not shown, if there are any."""
    if len(things) > SHOWN:
        yield f"  … and {len(things) - SHOWN:,} more; --json shows all"


def indented(verb: str, things: Iterable[object]) -> Iterator[str]:
    """Things of one kind, each after what is done to it; not all of them if they are many."""
    yield from capped([f"  {verb}{thing}" for thing in things])


def finding_lines(findings: Sequence[Finding], who: Operator = AS_ROOT) -> Iterator[str]:
    """The findings, each after its name, which the page Findings explains.

    Where there are several ways out, each is a line of its own. If the next finding has the same
    remedy, only that one has it.
    """
    shown = findings[:SHOWN]
    for number, finding in enumerate(shown):
        line = finding._replace(remedy=None).line
        remedy = finding.remedy
        if remedy is None or remedy in [following.remedy for following in shown[number + 1 :][:1]]:
            yield line
        elif remedy.otherwise is None:
            yield remedy.line_for(who, f"{line}; ")
        else:
            yield line
            yield from way_lines(remedy, who)
    yield from count_of_others(findings)


def way_lines(remedy: Remedy | None, who: Operator = AS_ROOT, *, indent: int = 2) -> Iterator[str]:
    """Each way out on a line of its own."""
    if remedy is not None:
        for way in remedy.ways():
            yield way.line_for(who, " " * indent)


def _print(text: str, stream: TextIO | None) -> None:
    if stream is not None:
        encoding = stream.encoding or "utf-8"
        stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


def _print_in_colour(lines: Sequence[str], report: CheckReport | None, width: int) -> bool:
    """Print the lines in colour, on a terminal of this width; returns false, and prints nothing, if
    there is none, or rich is not installed.
    """
    if not width:
        return False
    try:
        from hostrouting.cli.terminal import print_page  # noqa: PLC0415  only a terminal needs rich
    except ImportError:
        return False
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as in `_print`
    print_page(lines, report, width)
    return True


def _is_gone(error: OSError, stream: TextIO) -> bool:
    """Whether the reader has gone away: the pipe was closed, or the terminal was. From a file, EIO
    is a failure of its disk.
    """
    if error.errno != errno.EIO:
        return error.errno == errno.EPIPE
    try:
        return not os.path.isfile(stream.fileno())
    except OSError:  # as in `_discard`
        return True


def _discard(stream: TextIO) -> None:
    """Forget what could not be written; otherwise Python would try again when it exits, complain,
    and exit with 120.
    """
    with suppress(OSError):  # of a program of somebody else, it need not be a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
