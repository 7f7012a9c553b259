"""Makes hostrouting.pyz: one file with the two packages and all that they need but Python (`make pyz`).

Here: the archive. Not here: what is in it (`bundle`).
"""

import sys
import zipfile
from pathlib import Path

from tests.support.bundle import bundled


def write_pyz(target: Path) -> None:
    """Write the file, which a shell can start: complete, or not at all."""
    unfinished = target.with_name(f"{target.name}.new")
    try:
        with unfinished.open("wb") as stream:
            stream.write(b"#!/usr/bin/env python3\n")
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in bundled():
                    info = zipfile.ZipInfo(name)  # its time is the earliest that the format has
                    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                    archive.writestr(info, content, compresslevel=9)
        unfinished.chmod(0o755)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


if __name__ == "__main__":
    write_pyz(Path(sys.argv[1]))
