"""The programs that the boot scripts take from a host: an awk, of which there are several, and an `ip` of any age.

Other versions of `ip` are in the trees of other distributions, if HOSTROUTING_SYSTEMS names some (systemd.py).
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.systemd import THIS_HOST, trees

__all__ = ["AWKS", "TREES", "each_awk", "only_awk", "put_before"]

NAMES = ("mawk", "gawk", "original-awk", "busybox")
AWKS = tuple(name for name in NAMES if shutil.which(name))
"""Those that are installed here."""

TREES = trees()
"""The trees whose `ip` can be used."""

each_awk = pytest.mark.parametrize(
    "awk",
    [
        pytest.param(name, marks=pytest.mark.skipif(name not in AWKS, reason=f"{name} is not installed"))
        for name in NAMES
    ],
)
"""Runs a test with each of them."""


def only_awk(script: str, name: str, directory: Path, *, tree: Path = THIS_HOST) -> str:
    """A boot script that finds no other awk than the program of this name, and the `ip` of this tree.

    What that takes is in a new folder of the directory.
    """
    program = shutil.which(name)
    assert program is not None
    place = directory / f"with-{name}"
    place.mkdir(exist_ok=True)
    (place / "awk").unlink(missing_ok=True)
    (place / "awk").symlink_to(program)
    # Which the scripts take before any other. One program of many is what it is called.
    (place / "mawk").write_text(f'#!/bin/sh\nexec {place}/awk "$@"\n')
    (place / "mawk").chmod(0o755)
    if tree != Path("/"):
        (place / "ip").write_text(f'#!/bin/sh\nexec chroot {tree} ip "$@"\n')
        (place / "ip").chmod(0o755)
    changed = script.replace(" PATH=/", f" PATH={place}:/", 1)
    assert changed != script
    return changed


def put_before(script: str, tools: Mapping[str, str], directory: Path) -> str:
    """A boot script that finds these programs first; what each does in bash, as a body, with the usual ones at hand."""
    place = directory / "tools"
    place.mkdir(exist_ok=True)
    if "awk" in tools:
        tools = {**tools, "mawk": tools["awk"]}
    for name, body in tools.items():
        program = place / name
        program.write_text(f"#!/bin/bash\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n{body}\n")
        program.chmod(0o755)
    return script.replace(" PATH=/", f" PATH={place}:/", 1)
