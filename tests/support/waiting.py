"""Waiting for what another program does."""

import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["await_file", "leaving_word", "wait_for"]

# No test should fail because the machine is busy; if an event is lost, the guard looks after 66 s at most.
_LONGEST = 200.0


def wait_for(what: str, happened: Callable[[], object]) -> None:
    """Call `happened` until what it returns is true. The pauses grow, because in most tests a call starts a process."""
    end, pause = time.monotonic() + _LONGEST, 0.001
    while not happened():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {_LONGEST:g} s for {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def await_file(path: Path, *, lines: int = 1) -> None:
    """Wait until the file has this many lines."""
    wait_for(
        f"{path} to have {lines} lines", lambda: path.exists() and path.read_text(encoding="utf-8").count("\n") >= lines
    )


def leaving_word(path: Path, program: str) -> str:
    """The body of a program that adds a line to this file when it is started, and then runs the usual program."""
    return f'echo >>{path}; exec {program} "$@"'
