"""One file of a host as it is wanted, whether a file is ours, and what would change.

Here: values, and comparing them with a host's files. Not here: which files a configuration needs (`boot.files`), and
when they are written (`tasks.install`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs

from hostrouting.errors import FileError
from hostrouting.host.effects import each_once

if TYPE_CHECKING:
    from hostrouting.host.files import Files

_SHARED = "/etc/systemd/"
"""Below this, other programs have files, too, so ours are known by what is in them."""
_MARKS = ("Written by hostrouting", "ExecStart=/etc/aks-flex-node/", "Before=systemd-nspawn@.service")
"""What our files contain; the last two are in the units of the Go original, which ours replace."""


class File(NamedTuple):
    """A file with the text and mode that are wanted, or a link with its target."""

    path: str
    text: str = ""
    mode: int = 0o644
    target: str = ""

    def differs(self, files: Files) -> bool:
        """Whether `write` would change anything."""
        if self.target:
            return not files.leads(self.path, self.target)
        return not files.holds(self.path, self.text, mode=self.mode)

    def write(self, files: Files) -> bool:
        """Make it so, atomically. Returns whether anything was changed; FileError for a file of somebody else."""
        if self.target:
            return files.link(self.path, self.target)
        self.require_room(files)
        return files.write(self.path, self.text, mode=self.mode)

    def require_room(self, files: Files) -> None:
        """Raise FileError if a file that we did not write has this path, or if it is masked."""
        if self.target or _SHARED not in self.path or not files.is_there(self.path):
            return
        text, name = files.read(self.path), self.path.rpartition("/")[2]
        if not text:
            remedy = f"systemctl unmask {name}" if name.endswith(".service") else "remove it"
            raise FileError(f"{self.path} is masked: empty, or a link to /dev/null; {remedy}", path=self.path)
        if not is_ours(files, self.path):
            rule = "was not written by hostrouting, which needs this path"
            raise FileError(f"{self.path} {rule}: move the file away, or rename it", path=self.path)


def is_ours(files: Files, path: str) -> bool:
    """Whether there is something at this path, one of ours, that we may replace and remove."""
    if not files.is_there(path):
        return False
    if _SHARED not in path or ".wants/" in path or ".requires/" in path:
        return True
    return any(mark in (files.read(path) or "") for mark in _MARKS)


@attrs.frozen
class FileChanges:
    """The paths that would be written and removed, in order and without duplicates."""

    writes: tuple[str, ...] = attrs.field(default=(), converter=each_once)
    removes: tuple[str, ...] = attrs.field(default=(), converter=each_once)

    def __bool__(self) -> bool:
        return bool(self.writes or self.removes)
