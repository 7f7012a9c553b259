"""A command as one record, its reply, and the options that several commands have.

Here: what all commands have in common. Not here: the commands (`commands`, one module each), and how they are parsed
and carried out (`entry_point`).
"""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.cli.commands import CHANGING, COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeAlias

    import phases
    from hostrouting.cli.output import Line
    from hostrouting.host.host import Host

    Answer: TypeAlias = "Callable[[argparse.Namespace, Callable[[], Host]], Reply]"

FINE, FAILED, WRONG_INPUT, UNDECIDED = 0, 1, 2, 3
"""The exit codes."""
VERDICT_CODES = {"ok": FINE, "overlap": FAILED, "undecided": UNDECIDED, "no-default-route": UNDECIDED}
"""The exit code for each verdict of a check."""


class Command(NamedTuple):
    """One command: its name, its help and the function that carries it out."""

    name: str
    answer: Answer
    """Gets the arguments and a function that makes the host."""
    examples: str
    """Command lines for a shell, each after a comment that says what it is for; a test runs every one."""
    options: Callable[[argparse.ArgumentParser], object] = lambda _: None
    more: str = ""
    failing: str = ""
    """The meaning of exit code 1; empty if the command never returns it."""
    takes_snapshot: bool = False
    """Whether the command can read a saved snapshot instead of this host."""
    needs_files: bool = False
    """Whether a file that cannot be read is a failure, as if it `changes` something; if not, the answer is unknown."""
    version: int = 1
    """The number of its JSON document."""

    @property
    def summary(self) -> str:
        """What the command does, in a few words."""
        return COMMANDS[self.name]

    @property
    def changes(self) -> bool:
        """Whether the command requires root, because it changes a host or an image."""
        return self.name in CHANGING

    @property
    def schema(self) -> str:
        """The name of the command's JSON document."""
        return f"hostrouting/{self.name}/{self.version}"


class Reply(NamedTuple):
    """The reply of a command: an exit code, a document and lines; the latter two are made only when they are needed.

    A document that is a string is JSON already; without `lines` it is always printed. Of several documents, each is a
    string of one line, and is printed before the next one is made. An exit code that is a function is called when all
    is printed. If a run `failed`, the reasons are printed before the lines.
    """

    ends: int | Callable[[], int]
    document: Callable[[], Mapping[str, Any] | str | Iterator[str]]
    lines: Callable[[], Iterable[Line]] | None = None
    failed: phases.Report | None = None

    @property
    def code(self) -> int:
        """The exit code."""
        return self.ends() if callable(self.ends) else self.ends


def config_option(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """The option for the configuration to check by or to apply."""
    parser.add_argument(
        "--config", metavar="FILE", required=required, help="the configuration, as JSON; - is standard input"
    )


def removal_option(parser: argparse.ArgumentParser) -> None:
    """The option that allows a configuration to take protection away."""
    meaning = "apply even if this takes away what protects the host: routes, CIDRs, STRICT, gated units, the guard"
    parser.add_argument("--allow-removal", action="store_true", help=meaning)


def devs_option(parser: argparse.ArgumentParser) -> None:
    """The option for the expected devices."""
    meaning = "an expected device, instead of those of the default route; may be repeated"
    parser.add_argument("--dev", dest="devs", metavar="DEV", action="append", default=[], help=meaning)


def question_words(arguments: argparse.Namespace) -> list[str]:
    """The words that repeat this check in another command: its CIDRs, devices and configuration."""
    words = [*arguments.cidrs, *(word for dev in arguments.devs for word in ("--dev", dev))]
    return words + (["--config", arguments.config] if arguments.config else [])


def question_of(arguments: argparse.Namespace) -> str:
    """The same words as text, with the snapshot if there is one."""
    words = [*question_words(arguments), *(["--snapshot", arguments.snapshot] if arguments.snapshot else [])]
    return shlex.join(words)


def wait_option(parser: argparse.ArgumentParser) -> None:
    """The option for the time to wait."""
    meaning = "how long to wait for a default route or a device that does not exist yet (default: 60)"
    parser.add_argument("--wait", metavar="SECONDS", type=_seconds, default=60.0, help=meaning)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 30") from None
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400")
    return seconds
