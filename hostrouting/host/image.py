"""The files of a mounted image: links lead to where they will lead after the image has booted.

Here: which path on this host a path of the image is. Not here: what is done to the file there (`host.files`).
"""

from __future__ import annotations

import os

from hostrouting.errors import HostError
from hostrouting.host.files import LocalFiles, Lock, lock_file

_LINKS = 40  # Linux follows at most as many in one path


class ImageFiles:
    """The files below a root. For the kernel, an absolute link of the image would lead to a file of this host."""

    def __init__(self, root: str) -> None:
        """`root` is the folder where the image is mounted; all paths begin with it."""
        self._root = root.rstrip("/")
        self._files = LocalFiles()

    def read(self, path: str) -> str | None:
        """See Files."""
        return self._files.read(self._followed(path))

    def holds(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        return self._files.holds(self._place(path), text, mode=mode)

    def is_protected(self, path: str) -> bool:
        """See Files."""
        return self._files.is_protected(self._place(path))

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

    def remove_empty(self, folder: str) -> bool:
        """See Files."""
        return self._files.remove_empty(self._place(folder))

    def is_there(self, path: str) -> bool:
        """See Files."""
        return self._files.is_there(self._place(path))

    def names(self, folder: str) -> tuple[str, ...]:
        """See Files."""
        return self._files.names(self._followed(folder))

    def why_unwritable(self, folder: str) -> str:
        """See Files."""
        return self._files.why_unwritable(self._followed(folder))

    def try_lock(self, path: str) -> Lock | None:
        """See Files. The lock is a hidden file in the root of the image; it is removed when the lock is released.

        The root folder itself is not locked: to hold its flock requires only opening it, which any user may do, and
        could then block all others. A lock that requires write permission (fcntl) does not work on folders. Only its
        owner can open this file. A run that is killed leaves it, empty, until the next run.
        """
        if not os.path.isdir(self._root or "/"):
            raise HostError(
                f"cannot lock {self._root}: No such file or directory; mount the image there first",
                what="file",
                target=self._root,
            )
        return lock_file(self._lock_path(path), passing=True)

    def holder(self, path: str) -> str:
        """See Files."""
        return self._files.holder(self._lock_path(path))

    def _lock_path(self, path: str) -> str:
        return f"{self._root}/.hostrouting.{os.path.basename(path)}"

    def _place(self, path: str) -> str:
        """The file's path on this host, with links in its folder resolved; the file itself may be a link."""
        folder, name = os.path.split(path)
        return f"{self._followed(folder)}/{name}"

    def _followed(self, path: str) -> str:
        """The path on this host with all links resolved, the last one included."""
        found: list[str] = []
        names = path.removeprefix(self._root).split("/")[::-1]
        links = 0
        while names:
            name = names.pop()
            if name == "..":
                del found[-1:]  # the parent of the root is the root
            elif name not in {"", "."}:
                found.append(name)
                if (target := _target("/".join((self._root, *found)))) is None:
                    continue
                links += 1
                if links > _LINKS:
                    raise HostError(f"{path}: its links form a loop; remove one of them", what="file", target=path)
                names += target.split("/")[::-1]
                del found[0 if target.startswith("/") else -1 :]
        return "/".join((self._root, *found))


def _target(path: str) -> str | None:
    """The target of a link; None if the path is not a link."""
    try:
        return os.readlink(path)
    except OSError:
        return None
