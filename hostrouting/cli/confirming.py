"""Whether the operator is still there after a change: `apply --confirm` waits for Enter.

The terminal is asked, and not standard input, which may be the configuration. A session that was
cut off cannot press Enter, and when its terminal is closed, the wait is over at once.
"""

from __future__ import annotations

import os
import select
import signal
import syslog
import termios
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from hostrouting.cli.source import bad_input
from hostrouting.errors import HostRoutingError
from hostrouting.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import phases

_LOOKS = 0.1  # seconds between two looks at the terminal


class Terminal(Protocol):
    """The terminal of the operator."""

    def say(self, text: str) -> None:
        """Show a line, and forget what was typed before."""

    def has_enter(self) -> bool:
        """Whether Enter was pressed since that line. Raises EOFError if the terminal is closed, or
        Ctrl-D was pressed.
        """

    def log(self, lines: Iterable[str]) -> None:
        """Write these lines into the journal, for an operator whose terminal is gone. If there is
        no journal, they are lost.
        """


class AwaitConfirmation:
    """A task that succeeds when Enter is pressed, and fails when the time is over."""

    name = "await-confirmation"

    def __init__(self, terminal: Terminal, seconds: float) -> None:
        """Wait this long."""
        self._terminal = terminal
        self._seconds = seconds

    def do(self, ctx: phases.Context) -> None:
        """See AwaitConfirmation."""
        until = ctx.clock.now() + self._seconds
        words = f"The change is made. Press Enter within {self._seconds:g} s to keep it."
        try:
            self._terminal.say(f"{words} Otherwise, all of it is taken back.")
            while not self._terminal.has_enter():  # first, so that Enter in the last moment counts
                if ctx.clock.now() >= until:
                    sentence = f"nobody pressed Enter within {self._seconds:g} s"
                    raise HostRoutingError(sentence, kind="not-confirmed")
                ctx.sleep(_LOOKS)
        except EOFError as error:
            sentence = "the terminal was closed, or Ctrl-D was pressed, before Enter"
            raise HostRoutingError(sentence, kind="not-confirmed") from error


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
            os.write(self._number, f"\n{text}\n".encode())
        except (OSError, termios.error) as error:
            raise EOFError from error

    def has_enter(self) -> bool:
        """See Terminal."""
        try:
            readable, _, _ = select.select([self._number], [], [], 0)
            if not readable or self._is_in_background():
                return False
            typed = os.read(self._number, 4096)
        except OSError as error:
            raise EOFError from error
        if not typed:
            raise EOFError
        return b"\n" in typed

    def log(self, lines: Iterable[str]) -> None:
        """See Terminal."""
        syslog.openlog("hostrouting")
        for line in lines:
            syslog.syslog(syslog.LOG_WARNING, printable(line))

    def _is_in_background(self) -> bool:
        """Whether what is typed is for another job of the shell: to read it would suspend this
        one, by SIGTTIN.
        """
        with suppress(OSError):  # it is closed, which the read says
            return os.tcgetpgrp(self._number) != os.getpgrp()
        return False


@contextmanager
def controlling_terminal() -> Iterator[Terminal]:
    """The terminal, open during the block. Raises ConfigError if there is none."""
    try:
        number = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        remedy = "run it from a terminal, or leave it out"
        raise bad_input("--confirm", "there is no terminal to press Enter on", remedy) from error
    try:
        with _not_suspended():
            yield ControllingTerminal(number)
    finally:
        os.close(number)


@contextmanager
def _not_suspended() -> Iterator[None]:
    """In the block, neither Ctrl-Z nor printing from the background suspends this process: the
    change would stay in place. Only the main thread can prevent that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    suspending = (signal.SIGTSTP, signal.SIGTTOU)
    former = [signal.getsignal(number) for number in suspending]
    for number in suspending:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in zip(suspending, former, strict=True):
            signal.signal(number, handler)
