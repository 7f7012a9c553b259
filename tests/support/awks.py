"""The programs of the host that the boot scripts use: one of several awks, and an `ip` of any
version.

Other versions of `ip` are in the trees of other distributions, if HOSTROUTING_TREES names some
(systemd.py).
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.systemd import THIS_HOST, trees

__all__ = ["AWKS", "TREES", "put_before"]

NAMES = ("mawk", "gawk", "original-awk", "busybox")
AWKS = tuple(name for name in NAMES if shutil.which(name))
"""The awks that are installed here."""

TREES = [THIS_HOST, *trees()]
"""The trees whose `ip` can be used."""


def put_before(
    script: str,
    directory: Path,
    tools: Mapping[str, str] | None = None,
    *,
    awk: str = "",
    tree: Path = THIS_HOST,
) -> str:
    """A boot script that finds these programs first, the awk with this name, and the `ip` of this
    tree.

    Each value of `tools` is a body in bash, which can call the usual programs.
    """
    bodies: dict[str, str] = {}
    if awk not in {"", "mawk"}:  # the scripts look for mawk themselves
        # busybox decides by its name which program it is.
        bodies["awk"] = f'exec -a awk {shutil.which(awk)} "$@"'
    if tree != Path("/"):
        bodies["ip"] = f'exec chroot {tree} ip "$@"'
    for name, body in (tools or {}).items():
        bodies[name] = f"PATH=/usr/sbin:/usr/bin:/sbin:/bin\n{body}"
    if "awk" in bodies:
        # The scripts prefer mawk, and give it options that only it has.
        options = "" if awk == "mawk" else "[[ $1 != -W ]] || shift 2\n"
        bodies["mawk"] = f"{options}{bodies['awk']}"
    place = directory / "tools"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, body in bodies.items():
        program = place / name
        program.write_text(f"#!/bin/bash\n{body}\n")
        program.chmod(0o755)
    assert " PATH=/" in script
    return script.replace(" PATH=/", f" PATH={place}:/", 1)
