"""Lines that an operator types, in which hostrouting is called.

How it is called is only known where a line is printed: `env/bin/hostrouting`, `python3
hostrouting.pyz`, or on a node the node's own program. So a `Command` knows where the program
stands in it, and an `Operator` how to call it. Everywhere else, in documents and in the logs and
errors of the library, it is called `hostrouting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.release import PROGRAM

if TYPE_CHECKING:
    from typing_extensions import Self


class Command(str):
    """A line that calls hostrouting; `pieces` is what stands before, between and after the calls.

    A line that does not, such as `systemctl daemon-reload`, is a plain text.
    """

    __slots__ = ("pieces",)

    pieces: tuple[str, ...]

    def __new__(cls, *pieces: str) -> Self:
        """The text has the usual name of the program."""
        command = super().__new__(cls, PROGRAM.join(pieces))
        command.pieces = pieces
        return command

    def __reduce__(self) -> tuple[type[Command], tuple[str, ...]]:
        """What makes a copy, also in another process: of a text, Python knows only the letters."""
        return Command, self.pieces


class LineToType(str):
    """A line that ends with a command. A terminal shows the command unbroken, so that it can be
    copied.
    """

    __slots__ = ("command",)

    command: str

    def __new__(cls, words: str, command: str) -> Self:
        """The words come first."""
        line = super().__new__(cls, words + command)
        line.command = command
        return line


class Operator(NamedTuple):
    """Who types what is printed: with which rights, on which host, and how hostrouting is called
    there.
    """

    who: str = "as root"
    program: str = PROGRAM

    def line(self, command: str) -> str:
        """The command as this operator types it."""
        return self.program.join(_pieces_of(command))

    def __str__(self) -> str:
        return self.who


AS_ROOT = Operator()
"""Root on this host."""


def call(words: str) -> Command:
    """The line that calls hostrouting with these words, which are quoted for a shell."""
    return Command("", f" {words}")


def joined(separator: str, *commands: str) -> Command:
    """One line of these commands, such as a pipeline."""
    first, *others = map(_pieces_of, commands)
    pieces = [*first]
    for command in others:
        pieces[-1] += separator + command[0]
        pieces += command[1:]
    return Command(*pieces)


def _pieces_of(command: str) -> tuple[str, ...]:
    """What stands around the calls of hostrouting, if there are any."""
    return command.pieces if isinstance(command, Command) else (command,)
