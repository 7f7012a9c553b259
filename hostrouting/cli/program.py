"""From arguments to an exit code: parse first, load the command then, answer, and say what went wrong.

Here: the one place that catches, prints and decides on the exit code. Not here: anything about routing. Until the
arguments are parsed, nothing but argparse is loaded.
"""

from __future__ import annotations

import sys

from hostrouting import __version__
from hostrouting.cli.parser import CHANGING, LOOKS, Misused, make_parser

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from hostrouting.cli.reply import Reply
    from hostrouting.cli.terminal import Terminal
    from hostrouting.host import Host

__all__ = ["main"]

_INTERRUPTED = 130  # 128 and the number of SIGINT, as a shell says it


def main(argv: Sequence[str] | None = None, *, host: Callable[[], Host] | None = None) -> int:
    """Carry out one command line, on this machine or another host; the exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments = make_parser(__version__).parse_args(words)
    except Misused as misused:
        if "--json" in words:
            _answered(2, _complaint("Misused", misused.message))
        raise
    if host is None:
        from hostrouting.host import Host  # noqa: PLC0415  parse first, import later

        host = Host.local
    from hostrouting.cli.logs import log_to_stderr  # noqa: PLC0415  as above

    log_to_stderr(verbose=arguments.verbose or arguments.command in CHANGING)
    try:
        reply = _carry_out(arguments, host)
        shown = _rendered(reply, as_json=arguments.json)
    except KeyboardInterrupt:
        _say("interrupted")
        return _answered(_INTERRUPTED, _complaint("Interrupted", "interrupted")) if arguments.json else _INTERRUPTED
    except Exception as error:  # noqa: BLE001  whatever it is, the exit code must not be taken for a verdict
        looks = arguments.command in LOOKS and arguments.command != "plan"
        code, shown = _failed(error, looks=looks, as_json=arguments.json)
        return _answered(code, shown)
    return _answered(reply.code, shown)


def _complaint(error: str, message: str) -> Callable[[Terminal], None]:
    """The JSON value `hostrouting/error/1` of what is no exception of ours, ready to be written."""
    document = {"schema": "hostrouting/error/1", "error": error, "message": message, "faults": []}
    return lambda terminal: terminal.write_json(_json(document))


def _carry_out(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """The command's answer. Its module is loaded now."""
    from importlib import import_module  # noqa: PLC0415  any interpreter has it loaded already

    command = import_module(f"hostrouting.cli.{arguments.command}")
    reply: Reply = command.run(arguments, host)
    return reply


def _rendered(reply: Reply, *, as_json: bool) -> Callable[[Terminal], None]:
    """The answer, ready to be written: all that can fail in making it has been made."""
    if as_json or reply.lines is None:
        document = reply.document()
        text = document if isinstance(document, str) else _json(document)
        return lambda terminal: terminal.write_json(text)
    make = reply.lines
    return lambda terminal: terminal.show(make(terminal.style))


def _answered(code: int, write: Callable[[Terminal], None]) -> int:
    """The exit code, once the answer is written; another when it could not be."""
    from hostrouting.cli.terminal import Terminal  # noqa: PLC0415  as above

    try:
        write(Terminal())
    except OSError as error:
        _say(f"the answer could not be written: {error.strerror or error}")
        return code or 1
    return code


def _failed(error: Exception, *, looks: bool, as_json: bool) -> tuple[int, Callable[[Terminal], None]]:
    """What went wrong is said on standard error; to a program also as its document."""
    from hostrouting.cli.failure import code_of, document_of, words_of  # noqa: PLC0415  as above
    from hostrouting.errors import HostRoutingError  # noqa: PLC0415  as above

    if not isinstance(error, HostRoutingError):
        from traceback import format_exception  # noqa: PLC0415  only a bug needs it

        _say("this is a bug in hostrouting, please report it with what follows", *format_exception(error))
    else:
        _say(*words_of(error))
    text = _json(document_of(error)) if as_json else ""
    return code_of(error, looks=looks), lambda terminal: terminal.write_json(text) if text else None


def _say(*paragraphs: str) -> None:
    from contextlib import suppress  # noqa: PLC0415  as above

    from hostrouting.cli.page import Painted, line  # noqa: PLC0415  as above
    from hostrouting.cli.terminal import Terminal  # noqa: PLC0415  as above

    rows = [row for paragraph in paragraphs for row in paragraph.splitlines()]
    with suppress(OSError):
        Terminal(sys.stderr).show(
            line(Painted("hostrouting: ", "soft"), row) if not at else line(row) for at, row in enumerate(rows)
        )


def _json(document: object) -> str:
    import json  # noqa: PLC0415  only where it is wanted

    return json.dumps(document, indent=2)
