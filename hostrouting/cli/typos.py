"""What was probably meant by a command line that is not understood: only bad usage loads this."""

from __future__ import annotations

import re
import shlex
from importlib import import_module

from hostrouting.cli.parser import CHOICES, COMMANDS, arguments_of
from hostrouting.text import nearest

TYPE_CHECKING = False  # as in `parser`
if TYPE_CHECKING:
    from collections.abc import Sequence

_FILE = re.compile(r"[^-].*\.json")


def meant_by(words: Sequence[str]) -> str:
    """The words with the command and the options that they are nearly, for a shell; empty if that
    is not known.
    """
    if not words:
        return ""
    first, *others = words
    command = _nearly(first, [*COMMANDS, "help"])
    if command in COMMANDS:
        others = _with_options(command, others)
    meant = [command, *others]
    return "" if meant == [*words] else shlex.join(meant)


def _with_options(command: str, words: Sequence[str]) -> list[str]:
    """The words behind the command, with its options in the place of those that they nearly are."""
    meant: list[str] = []
    before = ""
    for word in words:
        option, equals, value = word.partition("=")
        if option.startswith("--"):
            option = _nearly(option, _options_of(command))
            meant.append(f"{option}{equals}{_value_of(option, value)}")
        elif before.startswith("--"):
            meant.append(_value_of(before, word))
        elif _FILE.fullmatch(word) and "--config" in _options_of(command):
            meant += ["--config", word]
        else:
            meant.append(word)
        before = "" if equals else option
    return meant


def _options_of(command: str) -> list[str]:
    return [argument for argument in arguments_of(command) if argument.startswith("--")]


def _value_of(option: str, value: str) -> str:
    """The value of the option that this one nearly is, if the option has only known ones."""
    if option not in CHOICES:
        return value
    module, name = CHOICES[option]
    return _nearly(value, getattr(import_module(module), name))


def _nearly(word: str, known: Sequence[str]) -> str:
    """The known word that this one nearly is, or the word itself."""
    return nearest(word, known) or word
