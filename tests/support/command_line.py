"""The command line as a plain value, read from the parsers: what can be typed, and what each option and argument takes.

Here: reading argparse, which is done nowhere else. Not here: what is written from this value: the page of commands
(`write_pages`), completion scripts (`completions`) and the manual page (`manual_page`).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Literal

import attrs

from hostrouting.cli.commands import COMMANDS
from hostrouting.cli.entry_point import add_options, exit_codes, make_parser
from hostrouting.release import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hostrouting.cli.command import Command

__all__ = ["CommandLine", "Part", "Word", "command_line"]

Kind = Literal["nothing", "file", "directory", "device", "choice", "other"]
KINDS: dict[str, Kind] = {
    "FILE": "file",
    "DIR": "directory",
    "DEV": "device",
    "CNI": "choice",
    "PATH": "file",
    "SHELL": "choice",
    "ADDRESS": "other",
    "CIDR": "other",
    "MODE": "choice",
    "N": "other",
    "SECONDS": "other",
}
"""What a shell can offer for a placeholder of the help. A test fails for a placeholder that is not here."""


@attrs.frozen
class Word:
    """An option, or an argument that is known by its place."""

    names: tuple[str, ...]
    """The spellings of an option, such as -v and --verbose; empty for an argument."""
    meaning: str
    takes: str = ""
    """The placeholder of what it takes, as in the help: FILE. Empty for an option that takes nothing."""
    choices: tuple[str, ...] = ()
    required: bool = False
    repeats: bool = False
    excludes: tuple[str, ...] = ()
    """The options that cannot be given together with this one."""

    @property
    def kind(self) -> Kind:
        """What can be offered for what it takes."""
        return KINDS[self.takes] if self.takes else "nothing"

    @property
    def long(self) -> str:
        """The long spelling, which every option has."""
        [name] = [name for name in self.names if name.startswith("--")]
        return name

    @property
    def usage(self) -> str:
        """How it is typed: `-v, --verbose`, `--config FILE`, `CIDR`."""
        return f"{', '.join(self.names)} {self.takes}".strip()


@attrs.frozen
class Part:
    """One command."""

    name: str
    summary: str
    more: str
    examples: str
    options: tuple[Word, ...]
    arguments: tuple[Word, ...]
    codes: tuple[tuple[int, str], ...]
    changes: bool
    schema: str
    keys: Mapping[str, str]
    """The keys of the document of --json, each with its meaning."""


@attrs.frozen
class CommandLine:
    """The whole command line."""

    version: str
    summary: str
    options: tuple[Word, ...]
    commands: tuple[Part, ...]
    codes: tuple[tuple[int, str], ...]


def command_line() -> CommandLine:
    """The command line as it is."""
    parser = make_parser(__version__)
    return CommandLine(
        version=__version__,
        summary=parser.description or "",
        options=tuple(_words(parser, options=True)),
        commands=tuple(map(_part, COMMANDS)),
        codes=tuple(exit_codes()),
    )


def _part(command: Command) -> Part:
    parser = argparse.ArgumentParser()
    add_options(parser, command)
    return Part(
        name=command.name,
        summary=command.summary,
        more=command.more.strip("\n"),
        examples=command.examples,
        options=tuple(_words(parser, options=True)),
        arguments=tuple(_words(parser, options=False)),
        codes=tuple(exit_codes(command)),
        changes=command.changes,
        schema=command.schema,
        keys=command.keys,
    )


def _words(parser: argparse.ArgumentParser, *, options: bool) -> Iterator[Word]:
    groups = [set(group._group_actions) for group in parser._mutually_exclusive_groups]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or bool(action.option_strings) is not options:
            continue
        others = {name for group in groups if action in group for it in group - {action} for name in it.option_strings}
        yield Word(
            names=tuple(action.option_strings),
            meaning=_meaning(action),
            takes="" if action.nargs == 0 else str(action.metavar or action.dest.upper()),
            choices=tuple(map(str, action.choices or ())),
            required=action.required and action.nargs != "*",  # which versions of Python call required or not
            repeats=action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
            excludes=tuple(sorted(others)),
        )


def _meaning(action: argparse.Action) -> str:
    # The main help leaves --json out, because its usage has it.
    told = "print one JSON document" if action.help == argparse.SUPPRESS else action.help
    return " ".join((told or "").split())
