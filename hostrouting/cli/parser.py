"""The command line and its help, made from the records in `commands`; imports hardly anything else.

Here: what the help of all commands has in common. Not here: the options and texts of one command.
"""

from __future__ import annotations

import argparse
import os
import sys

from hostrouting.cli.commands import COMMANDS
from hostrouting.cli.width import width_of
from hostrouting.nearest import nearest

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, NoReturn

    from hostrouting.cli.command import Command

__all__ = ["Misused", "add_options", "exit_codes", "make_parser"]


class Misused(SystemExit):
    """The command line is invalid. The error is already on standard error; `message` is its text."""

    def __init__(self, message: str) -> None:
        """Keep the message."""
        self.message = message
        super().__init__(2)


class _Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal. argparse makes one for each option that is added, and would load shutil for that."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=width_of(sys.stdout, os.environ) - 2)


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        # argparse would leave a command's unknown arguments to the main parser, whose usage does not describe them.
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [name[2:] for action in self._actions for name in action.option_strings if name.startswith("--")]
            typed = next((word[2:].partition("=")[0] for word in unknown if word.startswith("--")), "")
            self.error(f"unrecognized arguments: {' '.join(unknown)}{_meant(typed, options, '--')}")
        if getattr(found, "json", False) and hasattr(found, "command"):
            for name, reason in found.command.no_json.items():
                if getattr(found, name):
                    self.error(f"argument --{name}: not allowed with argument --json: {reason}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # Replaces the message of argparse.
        if action.choices is not None and value not in action.choices:
            names = list(action.choices)
            kind = "command" if action.dest == "typed" else action.metavar or action.dest
            meant = _meant(value, names)
            told = f"{value!r} is not a known {kind}{meant} (known: {', '.join(names)})"
            raise argparse.ArgumentError(None, told)

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
    """The parser of one command, built when that command is typed: building all of them takes as long as parsing."""

    def __init__(self, *, command: Command, **settings: Any) -> None:
        self._command, self._settings = command, settings

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        command = self._command
        super().__init__(**self._settings)
        self.set_defaults(command=command)
        add_options(self, command)
        return super().parse_known_args(args, namespace)


def add_options(parser: argparse.ArgumentParser, command: Command) -> None:
    """Add the options and arguments of a command: its own, and those that all commands have."""
    command.options(parser)
    if command.takes_snapshot:
        told = "use this saved snapshot instead of this host; - is standard input"
        parser.add_argument("--snapshot", metavar="FILE", help=told)
    # --json may also come before the command; if it is absent here, that value stays.
    told = f"print one JSON document, {command.schema}"
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=told)
    parser.add_argument("-v", "--verbose", action="store_true", help="log each action to standard error")


def exit_codes(command: Command | None = None) -> Iterator[tuple[int, str]]:
    """Each exit code with its meaning: for one command, or for all of them."""
    wrong = "an overlap was found, there is something to do, something is wrong, or the command failed"
    blocking = ""
    if command is not None:
        wrong, blocking = command.failing, command.blocking and f"{command.blocking}, or "
    yield 0, "success" if wrong else "success, whatever the result"
    if wrong:
        yield 1, wrong
    yield 2, f"{blocking}bad input: the command line, the configuration or the snapshot"
    yield 3, "no answer: undecided, no default route, permission denied, or no netlink"


def make_parser(version: str) -> argparse.ArgumentParser:
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
    parser.add_argument("--version", action="version", version=f"hostrouting {version}")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    typed = parser.add_subparsers(
        prog="hostrouting",
        metavar="COMMAND",
        dest="typed",
        required=True,
        help=argparse.SUPPRESS,
        parser_class=_CommandParser,
    )
    for command in COMMANDS:
        typed.add_parser(
            command.name,
            command=command,
            description=f"{command.name}: {command.summary}",
            epilog="\n".join([command.more, *_examples(command), *_codes(command)]),
            formatter_class=_Help,
            allow_abbrev=False,
        )
    return parser


def _meant(word: str, known: Sequence[str], dashes: str = "") -> str:
    near = nearest(word, known) if word else None
    return f"; did you mean {dashes}{near}?" if near else ""


def _listed(title: str, *, changes: bool) -> Iterator[str]:
    yield title
    yield from (f"  {it.name:<12}{it.summary}" for it in COMMANDS if it.changes is changes)
    yield ""


def _examples(command: Command) -> Iterator[str]:
    yield "examples:"
    yield from (f"  {line}" for line in command.examples.splitlines())
    yield ""


def _codes(command: Command | None = None) -> Iterator[str]:
    yield "exit codes:"
    yield from (f"  {code}  {meaning}" for code, meaning in exit_codes(command))
