"""The programs of the host that the boot scripts use: one of several awks, and an `ip` of any version.

Other versions of `ip` are in the trees of other distributions, if HOSTROUTING_TREES names some (systemd.py).
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.systemd import THIS_HOST, trees

__all__ = ["AWKS", "TREES", "only_awk", "put_before"]

NAMES = ("mawk", "gawk", "original-awk", "busybox")
AWKS = tuple(name for name in NAMES if shutil.which(name))
"""The awks that are installed here."""

TREES = [THIS_HOST, *trees()]
"""The trees whose `ip` can be used."""


def only_awk(script: str, name: str, directory: Path, *, tree: Path = THIS_HOST) -> str:
    """A boot script that finds only the awk with this name, and the `ip` of this tree.

    The programs are in a new folder of the directory.
    """
    program = shutil.which(name)
    assert program is not None
    place = directory / f"with-{name}"
    place.mkdir(exist_ok=True)
    (place / "awk").unlink(missing_ok=True)
    (place / "awk").symlink_to(program)
    # The scripts prefer mawk. busybox decides by its name which program it is, so it is called as `awk`.
    (place / "mawk").write_text(f'#!/bin/sh\nexec {place}/awk "$@"\n')
    (place / "mawk").chmod(0o755)
    if tree != Path("/"):
        (place / "ip").write_text(f'#!/bin/sh\nmount --bind /proc {tree}/proc\nexec chroot {tree} ip "$@"\n')
        (place / "ip").chmod(0o755)
    changed = script.replace(" PATH=/", f" PATH={place}:/", 1)
    assert changed != script
    return changed


def put_before(script: str, tools: Mapping[str, str], directory: Path) -> str:
    """A boot script that finds these programs first. Each value is a body in bash, which can call the usual programs."""
    place = directory / "tools"
    place.mkdir(exist_ok=True)
    if "awk" in tools:
        tools = {**tools, "mawk": tools["awk"]}
    for name, body in tools.items():
        program = place / name
        program.write_text(f"#!/bin/bash\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n{body}\n")
        program.chmod(0o755)
    return script.replace(" PATH=/", f" PATH={place}:/", 1)
