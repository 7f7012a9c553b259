"""The moments at which something is to happen to a program that a test has started: seen, and not guessed by a time."""

import time
from pathlib import Path

__all__ = ["await_file", "leaving_word"]


def leaving_word(path: Path, program: str) -> str:
    """The body of a program that leaves a line in this file when it is started, and then is the usual one."""
    return f'echo >>{path}; exec {program} "$@"'


def await_file(path: Path, *, lines: int = 1, seconds: float = 100) -> None:
    """Wait until the file has so many lines."""
    end = time.monotonic() + seconds
    while not path.exists() or path.read_text(encoding="utf-8").count("\n") < lines:
        if time.monotonic() > end:
            raise TimeoutError(f"{path} has no {lines} lines after {seconds} s")
        time.sleep(0.01)
