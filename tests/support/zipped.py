"""Makes hostrouting.pyz: one file with the two packages and all that they need but Python (`make pyz`).

The packages are taken from the working tree, and what they depend on from the environment that runs this. The same
files make the same archive, whenever and wherever they were checked out.
"""

from __future__ import annotations

import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DEPENDENCIES", "write_pyz"]

ROOT = Path(__file__).resolve().parents[2]
SHARE = ROOT / "hostrouting" / "cli" / "share"
KINDS = (".py", ".sh", ".typed")  # of files of ours: an editor may have left others
# exceptiongroup is for Python 3.10; it needs typing-extensions there.
DEPENDENCIES = ("attrs", "pyroute2", "exceptiongroup", "typing-extensions")


def write_pyz(target: Path) -> None:
    """Write the file, which a shell can start: complete, or not at all."""
    unfinished = target.with_name(f"{target.name}.new")
    try:
        with unfinished.open("wb") as stream:
            stream.write(b"#!/usr/bin/env python3\n")
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, path in _contents():
                    info = zipfile.ZipInfo(name)  # its time is the earliest that the format has
                    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                    archive.writestr(info, path.read_bytes(), compresslevel=9)
        unfinished.chmod(0o755)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _contents() -> Iterator[tuple[str, Path]]:
    """The files, each with its name in the archive."""
    yield "__main__.py", ROOT / "hostrouting" / "__main__.py"
    for package in ("hostrouting", "phases"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and (path.suffix in KINDS or path.is_relative_to(SHARE)):
                yield str(path.relative_to(ROOT)), path
    for name in DEPENDENCIES:
        for file in distribution(name).files or ():
            if file.parts[0] != ".." and "__pycache__" not in file.parts and file.suffix != ".pyi":
                yield str(file), Path(str(file.locate()))


if __name__ == "__main__":
    write_pyz(Path(sys.argv[1]))
