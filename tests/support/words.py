"""The options and arguments of each command as plain values, read from argparse.

Not here: what is written from them: the page of commands in the documentation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from hostrouting.cli.entry_point import add_options, make_parser
from hostrouting.release import __version__

if TYPE_CHECKING:
    from hostrouting.cli.command import Command


@attrs.frozen
class Word:
    """An option, or a positional argument."""

    names: tuple[str, ...]
    """The spellings of an option, such as -h and --help; empty for an argument."""
    meaning: str
    takes: str
    """The placeholder of what it takes, as in the help: FILE. Empty for an option that takes nothing."""
    required: bool
    repeats: bool
    excludes: tuple[str, ...]
    """The options that cannot be given together with this one."""

    @property
    def long(self) -> str:
        """The long spelling, which every option has; empty for an argument."""
        return next((name for name in self.names if name.startswith("--")), "")

    @property
    def usage(self) -> str:
        """How the word is typed: `-h, --help`, `--config FILE`, `CIDR`."""
        return f"{', '.join(self.names)} {self.takes}".strip()


def summary() -> str:
    """What the whole program is for."""
    return make_parser(__version__).description or ""


def main_words() -> list[Word]:
    """The options before a command."""
    return list(_words(make_parser(__version__)))


def words_of(command: Command) -> list[Word]:
    """The arguments of a command, then its options."""
    parser = argparse.ArgumentParser()
    add_options(parser, command)
    return sorted(_words(parser), key=lambda word: bool(word.names))


def _words(parser: argparse.ArgumentParser) -> Iterator[Word]:
    groups = [set(group._group_actions) for group in parser._mutually_exclusive_groups]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        others = {
            name for group in groups if action in group for one in group - {action} for name in one.option_strings
        }
        # The main help leaves --json out, because its usage has it.
        sentence = "print one JSON document" if action.help == argparse.SUPPRESS else action.help
        yield Word(
            names=tuple(action.option_strings),
            meaning=" ".join((sentence or "").split()),
            takes="" if action.nargs == 0 else str(action.metavar or action.dest.upper()),
            required=action.required and action.nargs != "*",  # which versions of Python call required or not
            repeats=action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
            excludes=tuple(sorted(others)),
        )
