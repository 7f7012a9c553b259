"""Runs the examples as a user does."""

import subprocess
import sys
from pathlib import Path

__all__ = ["EXAMPLES", "example"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example with warnings as errors, away from the repository."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
