"""From arguments to an exit code: parse them, carry out the command, print the reply or the error.

Here: the command line and its help, made from the records in `commands`; and the only place that catches errors and
decides on the exit code. Not here: the options and texts of one command, and anything about routing. Until the
arguments are parsed, only argparse and the records of the commands are loaded.
"""

from __future__ import annotations

import argparse
import os
import sys

from hostrouting.cli.commands import CHANGING, COMMANDS, command_of, every_command
from hostrouting.cli.output import SHOWN, Painted, capped, line, plain, width_of
from hostrouting.release import __version__
from hostrouting.text import nearest, spoken

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, NoReturn

    import phases
    from hostrouting.cli.command import Command, Reply
    from hostrouting.cli.output import Line
    from hostrouting.cli.terminal import Terminal
    from hostrouting.host.host import Host

_INTERRUPTED = 130  # 128 plus the number of SIGINT, as in a shell


# The command line and its help.


class Misused(SystemExit):
    """The command line is invalid. The error is already on standard error; `message` is its text."""

    def __init__(self, message: str) -> None:
        """Keep the message."""
        self.message = message
        super().__init__(2)


class _Help(argparse.RawDescriptionHelpFormatter):
    """A formatter as wide as the terminal. argparse makes one for each option, and would load shutil for the width."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=width_of(sys.stdout, os.environ) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        # A paragraph that is too wide is filled again; of indented lines, such as examples, each by itself.
        return "\n".join(indent + row for part in text.split("\n\n") for row in (*_filled(part.split("\n"), width), ""))


def _filled(rows: list[str], width: int) -> list[str]:
    from textwrap import wrap  # noqa: PLC0415  only the help needs it

    if max(map(len, rows)) <= width:
        return rows
    if not any(row.startswith(" ") for row in rows):
        return wrap(" ".join(rows), width, break_long_words=False, break_on_hyphens=False)
    found: list[str] = []
    for row in rows:
        margin = " " * (len(row) - len(row.lstrip()))
        is_remark = row.startswith(f"{margin}#")
        # A command can be pasted, so its lines end with a backslash.
        end = " \\" if rows[0] == "examples:" and not is_remark else ""
        _, _, told = row.lstrip().partition("  ")  # behind a name
        hanging = f"{margin}# " if is_remark else " " * (len(row) - len(told.lstrip())) if told else f"{margin}    "
        parts = wrap(row, width - len(end), subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
        found += [f"{part}{end}" for part in parts[:-1]] + parts[-1:]
    return found


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        # argparse would leave a command's unknown arguments to the main parser, whose usage does not describe them.
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [name[2:] for action in self._actions for name in action.option_strings if name.startswith("--")]
            typed = next((word[2:].partition("=")[0] for word in unknown if word.startswith("--")), "")
            self.error(f"unrecognized arguments: {' '.join(unknown)}{_meant(typed, options, '--')}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # Replaces the message of argparse.
        if action.choices is not None and value not in action.choices:
            names = list(action.choices)
            kind = "command" if action.dest == "typed" else action.metavar or action.dest
            meant = _meant(value, names)
            sentence = f"{value!r} is not a known {kind}{meant} (known: {', '.join(names)})"
            raise argparse.ArgumentError(None, sentence)

    def _print_message(self, message: str, file: Any = None) -> None:
        # As from Python 3.11 on: help that cannot be written, or has no standard error, does not change the exit code.
        from contextlib import suppress  # noqa: PLC0415  only help and bad usage need it

        with suppress(AttributeError, OSError):
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        try:
            super().error(message)
        except SystemExit as stopped:
            raise Misused(message) from stopped


class _CommandParser(_Parser):
    """The parser of one command, built when that command is typed: only then its module is loaded."""

    def __init__(self, *, command: str, **settings: Any) -> None:
        self._command, self._settings = command, settings

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        command = command_of(self._command)
        epilog = "\n".join([command.more, *_examples(command), *_codes(command)])
        super().__init__(description=f"{command.name}: {command.summary}", epilog=epilog, **self._settings)
        self.set_defaults(command=command)
        command.options(self)
        if command.takes_snapshot:
            meaning = "use this saved snapshot instead of this host; - is standard input"
            self.add_argument("--snapshot", metavar="FILE", help=meaning)
        # --json may also come before the command; if it is absent here, that value stays.
        meaning = f"print one JSON document, {command.schema}"
        self.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=meaning)
        return super().parse_known_args(args, namespace)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; its result has the record of the typed command as `command`."""
    parser = _Parser(
        prog="hostrouting",
        usage="hostrouting COMMAND ... [--json]\n       hostrouting --help, or hostrouting COMMAND --help",
        description="Show which devices a host's packets leave by, and correct its routes.",
        epilog="\n".join(
            [
                *_listed("read only, for any user:", changes=False),
                *_listed("make changes, requires root:", changes=True),
                *_codes(),
            ]
        ),
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hostrouting {__version__}")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    typed = parser.add_subparsers(
        prog="hostrouting",
        metavar="COMMAND",
        dest="typed",
        required=True,
        help=argparse.SUPPRESS,
        parser_class=_CommandParser,
    )
    for name in COMMANDS:
        typed.add_parser(name, command=name, formatter_class=_Help, allow_abbrev=False)
    return parser


def _meant(word: str, known: Sequence[str], dashes: str = "") -> str:
    near = nearest(word.partition("=")[0], known)
    return f"; did you mean {dashes}{near}?" if near else ""


def _listed(title: str, *, changes: bool) -> Iterator[str]:
    yield title
    yield from (f"  {name:<12}{does}" for name, does in COMMANDS.items() if (name in CHANGING) is changes)
    yield ""


def _examples(command: Command) -> Iterator[str]:
    yield "examples:"
    yield from (f"  {line}" for line in command.examples.splitlines())
    yield ""


def _codes(command: Command | None = None) -> Iterator[str]:
    wrong = "an overlap was found, there is something to do, something is wrong, or the command failed"
    if command is not None:
        wrong = command.failing
    yield "exit codes:"
    yield f"  0  {'success' if wrong else 'success, whatever the result'}"
    if wrong:
        yield f"  1  {wrong}"
    yield "  2  bad input: the command line, the configuration or the snapshot"
    yield "  3  no answer: undecided, no default route, permission denied, or no netlink"


# Carrying it out.


def main(argv: Sequence[str] | None = None, *, host: Callable[[], Host] | None = None) -> int:
    """Carry out one command line, on this machine or another host; return the exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        return _carried_out(words, host)
    except KeyboardInterrupt:
        _say("interrupted")
        write = _complaint("Interrupted", "interrupted")
        return _answered(lambda: _INTERRUPTED, write) if "--json" in words else _INTERRUPTED


def _carried_out(words: Sequence[str], host: Callable[[], Host] | None) -> int:
    try:
        arguments = make_parser().parse_args(words)
    except SystemExit as stopped:  # argparse has printed its help, or what is wrong
        if isinstance(stopped, Misused) and "--json" in words:
            _answered(lambda: 2, _complaint("Misused", stopped.message))
        if _unwritten():
            code = int(stopped.code or 0)
            stopped.code = _answered(lambda: code, lambda terminal: terminal.show(()))
            _say()
        raise
    except Exception as error:  # noqa: BLE001  a module that the command needs cannot be loaded
        code, shown = _failed(error, needs_files=False, as_json="--json" in words)
        return _answered(lambda: code, shown)
    command = arguments.command
    try:
        if host is None:
            from hostrouting.host.host import Host  # noqa: PLC0415  imported after parsing

            host = Host.local
        reply = command.answer(arguments, host)
        return _answered(lambda: reply.code, _rendered(reply, as_json=arguments.json))
    except Exception as error:  # noqa: BLE001  the exit code of any error must differ from that of a verdict
        code, shown = _failed(error, needs_files=command.needs_files or command.changes, as_json=arguments.json)
        return _answered(lambda: code, shown)


def _unwritten() -> bool:
    """Whether output of argparse is still in a buffer because it could not be written."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError:
        return True
    return False


def _complaint(error: str, message: str) -> Callable[[Terminal], None]:
    """A function that writes `hostrouting/error/2` for an error that is not one of our exceptions."""
    document: dict[str, object] = {"schema": "hostrouting/error/2", "error": error, "kind": "", "message": message}
    document |= {"canRetry": False, "findings": [], "faults": []}
    return lambda terminal: terminal.write_json(_json(document))


def _rendered(reply: Reply, *, as_json: bool) -> Callable[[Terminal], None]:
    """A function that writes the reply. Its document is made before, so that a failure is noticed in time."""
    if as_json or reply.lines is None:
        from collections.abc import Iterator  # noqa: PLC0415  imported only with --json

        document = reply.document()
        if isinstance(document, Iterator):
            return lambda terminal: _write_each(document, terminal)
        text = document if isinstance(document, str) else _json(document, indent=2)
        return lambda terminal: terminal.write_json(text)
    make, failed = reply.lines, () if reply.failed is None else tuple(_why_failed(reply.failed))
    return lambda terminal: terminal.show((*failed, *make()))


def _write_each(documents: Iterator[str], terminal: Terminal) -> None:
    """Write each document on a line of its own, until the reader has gone."""
    for text in documents:
        terminal.write_json(text)
        if terminal.reader_is_gone:
            break


def _answered(code: Callable[[], int], write: Callable[[Terminal], None]) -> int:
    """Write the answer and return the exit code; not 0 if it could not be written."""
    from hostrouting.cli.terminal import Terminal  # noqa: PLC0415  imported after parsing

    try:
        write(Terminal(sys.stdout))
    except OSError as error:
        _say(f"the answer could not be written: {error.strerror or error}")
        return code() or 1
    return code()


def _failed(error: Exception, *, needs_files: bool, as_json: bool) -> tuple[int, Callable[[Terminal], None]]:
    """Print the error to standard error; return the exit code and a function that writes the JSON document."""
    if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] in sys.stdlib_module_names:
        # Our own modules may need it, so nothing else is imported.
        text = (
            f"the module {error.name} of Python's standard library is missing; install all of Python: on Debian and"
            " Ubuntu the package python3, because python3-minimal is only a part"
        )
        _say(text)
        return 3, _complaint(type(error).__name__, text) if as_json else lambda _: None
    from hostrouting.cli.failure import code_of, document_of  # noqa: PLC0415  imported only for an error
    from hostrouting.errors import HostRoutingError  # noqa: PLC0415  as above

    if not isinstance(error, HostRoutingError):
        from traceback import format_exception  # noqa: PLC0415  only a bug needs it

        _say("this is a bug in hostrouting, please report it with the following text", *format_exception(error))
    else:
        _say(*_words_of(error))
    text = _json(document_of(error)) if as_json else ""
    return code_of(error, needs_files=needs_files), lambda terminal: terminal.write_json(text) if text else None


def _words_of(error: BaseException) -> Iterator[str]:
    """The message of the error, and the commands that work without the right that was missing."""
    from hostrouting.errors import BackendError, ConfigError, is_denied  # noqa: PLC0415  imported only for an error

    if isinstance(error, ConfigError):
        yield from error.summary(SHOWN).splitlines()
        yield from map(plain, capped((), len(error.faults)))
    else:
        yield str(error) or type(error).__name__
    if is_denied(error):
        names = [command.name for command in every_command() if not command.changes]
        yield f"{spoken(names, most=len(names))} work without root"
    if isinstance(error, BackendError) and error.kind == "unavailable":
        names = [command.name for command in every_command() if command.takes_snapshot]
        yield f"{spoken(names, most=len(names))} work on a saved snapshot, with --snapshot FILE"


def _why_failed(report: phases.Report) -> Iterator[Line]:
    """Why a run failed: each failure once; and the commands that work without the right that was missing."""
    from hostrouting.cli.failure import errors_in  # noqa: PLC0415  imported only for an error

    if not report.failures:
        yield line(Painted("STOPPED:", "warn"), f" {report.reason or 'it was stopped'}")
    for error in (error for failure in report.failures for error in errors_in(failure.error)):
        first, *others = _words_of(error)
        yield line(Painted("FAILED:", "bad"), f" {first}")
        yield from (line(f"  {words}") for words in others)


def _say(*paragraphs: str) -> None:
    from contextlib import suppress  # noqa: PLC0415  imported only for an error

    from hostrouting.cli.terminal import Terminal  # noqa: PLC0415  as above

    rows = [row for paragraph in paragraphs for row in paragraph.splitlines()]
    with suppress(OSError):
        Terminal(sys.stderr).show(
            line(Painted("hostrouting: ", "soft"), row) if not at else line(row) for at, row in enumerate(rows)
        )


def _json(document: object, *, indent: int | None = None) -> str:
    """The document as JSON: without `indent` on one line, because documents of one line each may precede it."""
    import json  # noqa: PLC0415  imported only with --json

    return json.dumps(document, indent=indent)
