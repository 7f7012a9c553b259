"""The programs called awk: a host has one of them, and the boot scripts take what there is."""

import shutil
from pathlib import Path

import pytest

__all__ = ["AWKS", "each_awk", "only_awk"]

NAMES = ("mawk", "gawk", "original-awk", "busybox")
AWKS = tuple(name for name in NAMES if shutil.which(name))
"""Those that are installed here."""

each_awk = pytest.mark.parametrize(
    "awk",
    [
        pytest.param(name, marks=pytest.mark.skipif(name not in AWKS, reason=f"{name} is not installed"))
        for name in NAMES
    ],
)
"""Runs a test with each of them."""


def only_awk(script: str, name: str, directory: Path) -> str:
    """A boot script for which awk is the program of this name; the directory is made for that."""
    program = shutil.which(name)
    assert program is not None
    place = directory / f"with-{name}"
    place.mkdir(exist_ok=True)
    (place / "awk").unlink(missing_ok=True)
    (place / "awk").symlink_to(program)
    changed = script.replace(" PATH=/", f" PATH={place}:/", 1)
    assert changed != script
    return changed
