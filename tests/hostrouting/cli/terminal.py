"""A terminal on which a program runs, as an operator's does in a shell."""

import os
import pty
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from tests.support.waiting import wait_for


class ATerminal:
    """A terminal with a program that was started on it."""

    def __init__(self, *words: str, environment: Mapping[str, str] | None = None) -> None:
        """Start the program with these words."""
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        self.shown = ""
        """What the program has shown so far."""
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
        )
        os.close(theirs)

    def await_text(self, text: str) -> None:
        """Wait until it shows this text."""
        wait_for(text, lambda: text in self._read() or self.process.poll() is not None)
        assert text in self.shown, self.shown

    def await_end(self) -> int:
        """Wait until the program has ended; its exit code. A terminal that nobody reads holds it
        up.
        """

        def has_ended() -> bool:
            self._read()
            return self.process.poll() is not None

        wait_for("the end of the program", has_ended)
        return self.process.wait()

    def _read(self) -> str:
        """What it has shown so far; EIO or EBADF: its terminal is closed."""
        with suppress(OSError):
            self.shown += os.read(self._ours, 65536).decode("utf-8", "replace")
        return self.shown

    def type(self, text: str) -> None:
        """Type on the terminal."""
        os.write(self._ours, text.encode())

    def terminate(self) -> None:
        """Send SIGTERM to the program that has the terminal: no other, on a machine with many."""
        os.killpg(os.tcgetpgrp(self._ours), signal.SIGTERM)

    def hang_up(self) -> None:
        """Close the terminal."""
        os.close(self._ours)
        self._ours = -1

    def kill(self) -> None:
        """End the program, whatever it does."""
        self.process.kill()
        self.process.wait()
