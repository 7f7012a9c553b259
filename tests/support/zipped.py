"""Makes hostrouting.pyz: one file with the two packages and all that they need but Python (`make pyz`).

The packages are taken from the working tree, and what they depend on from the environment that runs this.
"""

from __future__ import annotations

import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

__all__ = ["DEPENDENCIES", "write_pyz"]

ROOT = Path(__file__).resolve().parents[2]
# exceptiongroup is for Python 3.10; it needs typing-extensions there.
DEPENDENCIES = ("attrs", "pyroute2", "exceptiongroup", "typing-extensions")


def write_pyz(target: Path) -> None:
    """Write the file, which a shell can start."""
    with target.open("wb") as stream:
        stream.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            archive.write(ROOT / "hostrouting" / "__main__.py", "__main__.py")
            for package in ("hostrouting", "phases"):
                for path in sorted((ROOT / package).rglob("*")):
                    if path.is_file() and "__pycache__" not in path.parts:
                        archive.write(path, path.relative_to(ROOT))
            for name in DEPENDENCIES:
                for file in distribution(name).files or ():
                    if file.parts[0] != ".." and "__pycache__" not in file.parts:
                        archive.write(file.locate(), str(file))
    target.chmod(0o755)


if __name__ == "__main__":
    write_pyz(Path(sys.argv[1]))
