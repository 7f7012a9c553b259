"""Lets a test act at an exact moment of a program that it has started, without guessing a time."""

import time
from pathlib import Path

__all__ = ["await_file", "leaving_word"]


def leaving_word(path: Path, program: str) -> str:
    """The body of a program that adds a line to this file when it is started, and then runs the usual program."""
    return f'echo >>{path}; exec {program} "$@"'


def await_file(path: Path, *, lines: int = 1, seconds: float = 100) -> None:
    """Wait until the file has this many lines."""
    end = time.monotonic() + seconds
    while not path.exists() or path.read_text(encoding="utf-8").count("\n") < lines:
        if time.monotonic() > end:
            raise TimeoutError(f"{path} has no {lines} lines after {seconds} s")
        time.sleep(0.01)
