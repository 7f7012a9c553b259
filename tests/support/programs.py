"""Runs programs to their end: any program, and the examples as a user does."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def completed(
    words: Sequence[str | Path], *, check: bool = False, timeout: int = 600, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program; what it printed, as text. One that hangs is ended after ten minutes."""
    # A script that was cut short may end within a letter.
    options |= {"encoding": "utf-8", "errors": "replace"}
    return subprocess.run(words, capture_output=True, check=check, timeout=timeout, **options)


def modules_loaded_by(words: Sequence[str | Path]) -> set[str]:
    """The modules that this command of a Python program loads."""
    timed = completed(words, env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}).stderr
    return {line.rpartition("|")[2].strip() for line in timed.splitlines()}


def example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example with warnings as errors, away from the repository."""
    return completed([sys.executable, "-W", "error", str(EXAMPLES / name), *arguments], cwd="/")
