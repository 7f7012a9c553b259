"""The files of a configuration as a tar archive, for a node without Python, or for an image that is
built elsewhere.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.host.fileset import File


_ON_EVERY_HOST = ("/", "/etc", "/etc/systemd", "/etc/systemd/system")
"""Folders that are not in the archive: tar would change their modes."""


def tar_of(files: Iterable[File]) -> bytes:
    """The archive of these files, to be unpacked in `/`: all are root's, and so are their folders.

    The same files always make the same archive.
    """
    archive = io.BytesIO()
    # The format is ustar, with an addition for each name that is too long for it.
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        folders = set(_ON_EVERY_HOST)
        for file in files:
            for folder in reversed(PurePosixPath(file.path).parents):
                if str(folder) not in folders:
                    tar.addfile(_root_owned(str(folder), 0o755, tarfile.DIRTYPE))
                    folders.add(str(folder))
            if file.target:
                link = _root_owned(file.path, 0o777, tarfile.SYMTYPE)
                link.linkname = file.target
                tar.addfile(link)
            else:
                content = file.text.encode()
                entry = _root_owned(file.path, file.mode, tarfile.REGTYPE)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def _root_owned(path: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.mode = mode
    entry.type = kind
    entry.uname = "root"
    entry.gname = "root"
    return entry
