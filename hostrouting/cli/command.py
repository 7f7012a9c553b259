"""A command as one record, what it answers, and the options that several take.

Here: what all commands have in common. Not here: any of them (`commands`, a module each), and how one is parsed and
carried out (`parser`, `entry_point`). This is loaded for the help, so it loads nothing of ours itself.
"""

from __future__ import annotations

import argparse

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeAlias

    import phases
    from hostrouting.cli.page import Line, Style
    from hostrouting.host import Host

    Answer: TypeAlias = "Callable[[argparse.Namespace, Callable[[], Host]], Reply]"

__all__ = [
    "FAILED",
    "FINE",
    "UNDECIDED",
    "WRONG_INPUT",
    "Command",
    "Reply",
    "config_option",
    "devs_option",
    "gateway_option",
    "wait_option",
]

FINE, FAILED, WRONG_INPUT, UNDECIDED = 0, 1, 2, 3
"""The exit codes."""


class Command:
    """What may be typed, what the help says of it, and what it answers. None of it changes.

    `answer` gets the arguments and the way to this host; what it works with is loaded when it is called. `failing`
    says what exit code 1 means; empty where it is never given. `keys` are those of the JSON document, below its root
    and without `schema`, each with its meaning.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        *,
        answer: Answer,
        options: Callable[[argparse.ArgumentParser], object] = lambda _: None,
        more: str = "",
        failing: str = "",
        keys: Mapping[str, str],
        changes: bool = False,
        takes_snapshot: bool = False,
        tells_progress: bool = False,
        needs_files: bool = False,
    ) -> None:
        """Keep all of it."""
        self.name, self.summary, self.more, self.failing, self.keys = name, summary, more, failing, keys
        self.answer, self.options = answer, options
        self.changes = changes
        """Whether it takes root, for it changes a host or an image; the others look."""
        self.takes_snapshot = takes_snapshot
        """Whether it can look at a saved snapshot in the place of this host."""
        self.tells_progress = tells_progress
        """Whether what is being done is told on standard error without --verbose."""
        self.needs_files = needs_files or changes
        """Whether a file that cannot be read or written is a failure, and not an answer that is not known."""

    @property
    def schema(self) -> str:
        """The name of its JSON document."""
        return f"hostrouting/{self.name}/1"


class Reply:
    """An answer: its exit code, and the same thing as a document and as lines, made only when they are wanted.

    A document that is text is JSON already; without `lines` it is all there is. Why a run `failed` is told before
    the lines.
    """

    def __init__(
        self,
        code: int,
        document: Callable[[], Mapping[str, Any] | str],
        lines: Callable[[Style], Iterable[Line]] | None = None,
        *,
        failed: phases.Report | None = None,
    ) -> None:
        """Nothing in it has been printed yet."""
        self.code, self.document, self.lines, self.failed = code, document, lines, failed


def config_option(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """The configuration, by which it is judged or carried out."""
    parser.add_argument(
        "--config", metavar="FILE", required=required, help="the configuration, as JSON; - is standard input"
    )


def devs_option(parser: argparse.ArgumentParser) -> None:
    """The expected devices."""
    told = "an expected device, in place of those of the IPv4 default route; may be given again"
    parser.add_argument("--dev", dest="devs", metavar="DEV", action="append", default=[], help=told)


def gateway_option(parser: argparse.ArgumentParser) -> None:
    """The router by which a repair leads out."""
    told = "the router on DEV that the repair leads to, in place of that of the default route"
    parser.add_argument("--gateway", metavar="ADDRESS", help=told)


def wait_option(parser: argparse.ArgumentParser, told: str = "how long to wait", *, installs: bool = False) -> None:
    """How long to wait for what is missing; with `installs`, the boot scripts are told to wait as long."""
    default = "as the boot scripts here do, else 30; they wait 60 at most" if installs else "0"
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=_seconds,
        default=None if installs else 0.0,
        help=f"{told} for a default route or a device that is not there yet (default: {default})",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, such as 30") from None
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400")
    return seconds
