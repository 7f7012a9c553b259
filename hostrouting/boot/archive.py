"""The files of a configuration as a tar archive, for a node without Python, or for an image that is
built elsewhere.
"""

from __future__ import annotations

import io
import tarfile
from posixpath import dirname
from typing import TYPE_CHECKING

from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.host.fileset import File


def tar_of(files: Iterable[File]) -> bytes:
    """The archive of these files, to be unpacked in `/`: all are root's, and so are their folders.

    The same files always make the same archive.
    """
    archive = io.BytesIO()
    # Python's format is ustar, with an addition for each name that is too long for it.
    with tarfile.open(fileobj=archive, mode="w") as tar:
        # Every host has the folder of the units: tar would change its mode.
        folders = {HostLayout.unit_directory}
        for file in files:
            folder = dirname(file.path)
            if folder not in folders:
                tar.addfile(_root_owned(folder, 0o755, tarfile.DIRTYPE))
                folders.add(folder)
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
