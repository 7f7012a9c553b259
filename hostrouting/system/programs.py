"""The programs of a host: whether one is installed, and running it with an argument list and a time-out.

Here: how a program is found, started and ended. Not here: which programs there are, and what their words mean: each
edge that runs one (`manager`, `hostrouting.nftables`) knows that of its own. Each takes any `Run`, so a test can hand
in a function.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BOOT_PATH", "Ended", "Run", "find_program", "run_program"]

BOOT_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where the boot scripts look for programs."""


@attrs.frozen
class Ended:
    """A program that has ended: its exit code, and what it wrote."""

    code: int
    """Negative where a signal ended it."""
    out: str = ""
    err: str = ""

    @property
    def signal(self) -> str:
        """The name of the signal that ended it; empty where it ended by itself."""
        if self.code >= 0:
            return ""
        try:
            return signal.Signals(-self.code).name
        except ValueError:  # most of those for real-time programs have no name
            return f"signal {-self.code}"


class Run(Protocol):
    """Run a program to its end."""

    def __call__(
        self, *words: str, timeout: float, text: str = "", environment: Mapping[str, str] | None = None
    ) -> Ended:
        """The program is the first of the words and is looked up in PATH; `text` is its standard input.

        Without an `environment` it has that of this process. FileNotFoundError where there is no such program,
        TimeoutError where it has not ended in time, any other OSError where it cannot be started.
        """
        ...


def find_program(name: str) -> str | None:
    """The path of a program that the boot scripts would run; None if there is none."""
    paths = (f"{folder}/{name}" for folder in BOOT_PATH)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def run_program(*words: str, timeout: float, text: str = "", environment: Mapping[str, str] | None = None) -> Ended:
    """See Run. It is in a session of its own, and whatever ends the wait ends the program and what it has started.

    So Ctrl-C at the terminal is for us alone, who then decide what becomes of it.
    """
    import subprocess  # noqa: PLC0415  only where a program is run

    with subprocess.Popen(  # noqa: S603  an argument list, no shell
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        start_new_session=True,
        env=environment,
    ) as process:
        try:
            out, err = process.communicate(text, timeout)
        except BaseException as error:
            # Not reaped yet, so its number is still its own. A child of it that lives on would keep our pipes open.
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()  # after Ctrl-C nobody else does
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"{words[0]} has not ended within {timeout:g} s") from error
            raise
    return Ended(process.returncode, out, err)
