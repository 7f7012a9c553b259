"""The files of an image that is mounted somewhere: a link in it leads where it will when the image has booted.

Here: where a path of the image is from here. Not here: what is done to the file in that place (`files`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hostrouting.errors import FileError
from hostrouting.system.files import LocalFiles, holder_of, holders_of, lock_file

if TYPE_CHECKING:
    from hostrouting.system.files import Lock

__all__ = ["ImageFiles"]

_LINKS = 40  # on the way to one file, as many as Linux follows


class ImageFiles:
    """The files below a root. An absolute link of the image, followed from here, would lead out into this machine."""

    def __init__(self, root: str) -> None:
        """The folder that will be the root of the host; paths begin with it."""
        self._root = root.rstrip("/")
        self._files = LocalFiles()

    def read(self, path: str) -> str | None:
        """See Files."""
        return self._files.read(self._followed(path))

    def holds(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        return self._files.holds(self._place(path), text, mode=mode)

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        return self._files.write(self._place(path), text, mode=mode)

    def leads(self, path: str, target: str) -> bool:
        """See Files."""
        return self._files.leads(self._place(path), target)

    def link(self, path: str, target: str) -> bool:
        """See Files."""
        return self._files.link(self._place(path), target)

    def remove(self, path: str) -> bool:
        """See Files."""
        return self._files.remove(self._place(path))

    def is_there(self, path: str) -> bool:
        """See Files."""
        return self._files.is_there(self._place(path))

    def names(self, folder: str) -> tuple[str, ...]:
        """See Files."""
        return self._files.names(self._followed(folder))

    def modified(self, path: str) -> float | None:
        """See Files."""
        return self._files.modified(self._followed(path))

    def is_frozen(self, path: str) -> bool:
        """See Files."""
        return self._files.is_frozen(self._place(path))

    def try_lock(self, path: str) -> Lock | None:  # noqa: ARG002  an image is locked as a whole
        """See Files. The lock is a file in the root of the image, which is removed with it.

        The root folder itself would do without a file, but to hold its lock takes no more than to open it, which any
        user may: one who does would keep everybody waiting. A lock that takes the right to write (fcntl) cannot be had
        of a folder. This file only its owner can open. A run that is killed leaves it, empty, until the next one.
        """
        if not os.path.isdir(self._root or "/"):
            raise FileError(
                f"cannot lock {self._root}: No such file or directory; mount the image there first", path=self._root
            )
        return lock_file(self._lock_path, passing=True)

    def holder(self, path: str) -> str:  # noqa: ARG002  as above
        """See Files."""
        return holder_of(self._lock_path)

    def holders(self, path: str) -> tuple[str, ...]:  # noqa: ARG002  as above
        """See Files."""
        return holders_of(self._lock_path)

    def require_writable(self, folder: str) -> None:
        """See Files."""
        self._files.require_writable(self._followed(folder))

    @property
    def _lock_path(self) -> str:
        return f"{self._root}/.hostrouting.lock"

    def _place(self, path: str) -> str:
        """Where the file is, or the link, wherever that leads."""
        folder, name = os.path.split(path)
        return f"{self._followed(folder)}/{name}"

    def _followed(self, path: str) -> str:
        """Where the path leads, with all of its links."""
        found: list[str] = []
        names = path.removeprefix(self._root).split("/")[::-1]
        links = 0
        while names:
            name = names.pop()
            if name == "..":
                del found[-1:]  # above the root there is only the root
            elif name not in {"", "."}:
                found.append(name)
                if (target := _target("/".join((self._root, *found)))) is None:
                    continue
                links += 1
                if links > _LINKS:
                    raise FileError(f"{path}: its links lead round in a circle; remove one of them", path=path)
                names += target.split("/")[::-1]
                del found[0 if target.startswith("/") else -1 :]
        return "/".join((self._root, *found))


def _target(path: str) -> str | None:
    """Where a link leads; None when it is none."""
    try:
        return os.readlink(path)
    except OSError:
        return None
