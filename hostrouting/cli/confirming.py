"""Whether a change is kept: `apply --confirm` waits for Enter, and `apply --confirm-if` until a
command succeeds.

The terminal is asked, and not standard input, which may be the configuration. A session that was
cut off cannot press Enter, and when its terminal is closed, the wait is over at once. A program has
no terminal, and knows a command that fails if the change has cut the host off.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import syslog
import termios
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Protocol

from hostrouting.cli.source import bad_input
from hostrouting.errors import HostRoutingError
from hostrouting.text import printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    import phases

    ChangesOf: TypeAlias = Callable[[phases.Context], Iterable[str]]
    """What the run of a task has changed so far, as lines."""

_LOOKS = 0.1  # seconds between two looks at the terminal, or at the command
_PAUSE = 1.0  # seconds between two attempts of the command


class Terminal(Protocol):
    """The terminal of the operator."""

    def say(self, text: str) -> None:
        """Show a line, and forget what was typed before."""

    def has_enter(self) -> bool:
        """Whether Enter was pressed since that line. Raises EOFError if the terminal is closed, or
        Ctrl-D was pressed.
        """


class AwaitEnter:
    """A task that shows what the run has changed, succeeds when Enter is pressed, and fails when
    the time is over.
    """

    name = "await-enter"

    def __init__(self, terminal: Terminal, seconds: float, changes: ChangesOf) -> None:
        """Wait this long."""
        self._terminal = terminal
        self._seconds = seconds
        self._changes = changes

    def do(self, ctx: phases.Context) -> None:
        """See AwaitEnter."""
        until = ctx.clock.now() + self._seconds
        question = f"Press Enter within {self._seconds:g} s to keep this."
        try:
            self._terminal.say("\n".join(["The change is made:", *self._changes(ctx)]))
            self._terminal.say(
                f"{question} Otherwise, what was installed before is installed again."
            )
            while not self._terminal.has_enter():  # first, so that Enter in the last moment counts
                if ctx.clock.now() >= until:
                    sentence = f"nobody pressed Enter within {self._seconds:g} s"
                    raise HostRoutingError(sentence)
                ctx.sleep(_LOOKS)
        except EOFError as error:
            sentence = "the terminal was closed, or Ctrl-D was pressed, before Enter"
            raise HostRoutingError(sentence) from error


class AwaitSuccess:
    """A task that succeeds when a shell carries this command out with the exit code 0, which it
    tries each second, and fails when the time is over.
    """

    name = "await-success"

    def __init__(self, command: str, seconds: float) -> None:
        """Try this long."""
        self._command = command
        self._seconds = seconds

    def do(self, ctx: phases.Context) -> None:
        """See AwaitSuccess."""
        until = ctx.clock.now() + self._seconds
        while failure := self._attempt(ctx, until):
            if ctx.clock.now() + _PAUSE > until:
                sentence = f"this has not succeeded within {self._seconds:g} s: {self._command}"
                raise HostRoutingError(f"{sentence} ({failure})")
            ctx.sleep(_PAUSE)

    def _attempt(self, ctx: phases.Context, until: float) -> str:
        """Carry the command out; why it has failed, or nothing."""
        command = ["sh", "-c", self._command]
        with (
            TemporaryFile() as output,
            subprocess.Popen(  # noqa: S603  what the operator has typed
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for this process
            ) as shell,
        ):
            try:
                while shell.poll() is None:
                    if ctx.clock.now() >= until:
                        return "it has not ended"
                    ctx.sleep(_LOOKS)
            finally:
                if shell.returncode is None:
                    os.killpg(shell.pid, signal.SIGKILL)
            if shell.returncode == 0:
                return ""
            output.seek(0)
            printed = output.read().decode(errors="backslashreplace").split("\n")
        said = [line for line in printed if line.strip()]
        return ": ".join([f"exit {shell.returncode}", *said[-1:]])


def log(lines: Iterable[str]) -> None:
    """Write these lines into the journal, for an operator whose terminal is gone. If there is no
    journal, they are lost.
    """
    syslog.openlog("hostrouting")
    for line in lines:
        syslog.syslog(syslog.LOG_WARNING, printable(line))


class ControllingTerminal:
    """The terminal from which this process was started."""

    def __init__(self, number: int) -> None:
        """Use this open file."""
        self._number = number

    def say(self, text: str) -> None:
        """See Terminal."""
        try:
            termios.tcflush(self._number, termios.TCIFLUSH)  # what was typed before is no answer
            # Below the live tree, which ends without a line feed.
            os.write(self._number, f"\n{printable_lines(text)}\n".encode())
        except (OSError, termios.error) as error:
            raise EOFError from error

    def has_enter(self) -> bool:
        """See Terminal."""
        try:
            readable, _, _ = select.select([self._number], [], [], 0)
            if not readable:
                return False
            typed = os.read(self._number, 4096)
        except OSError as error:
            raise EOFError from error
        if not typed:
            raise EOFError
        return b"\n" in typed


@contextmanager
def controlling_terminal() -> Iterator[Terminal]:
    """The terminal, open during the block. Raises ConfigError if there is none."""
    try:
        number = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        remedy = "run it from a terminal, or give a command with --confirm-if"
        raise bad_input("--confirm", "there is no terminal to press Enter on", remedy) from error
    try:
        with _not_suspended():
            yield ControllingTerminal(number)
    finally:
        os.close(number)


@contextmanager
def _not_suspended() -> Iterator[None]:
    """In the block, neither Ctrl-Z nor the terminal suspends this process, which may be in the
    background: the change would stay in place. To read there fails, as after Ctrl-D.
    """
    suspending = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
    former = {number: signal.signal(number, signal.SIG_IGN) for number in suspending}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
