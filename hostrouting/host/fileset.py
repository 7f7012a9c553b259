"""A file as it is wanted on a host, whether a file is ours, and what would change."""

from __future__ import annotations

import os
from typing import NamedTuple

import attrs

from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy
from hostrouting.host.effects import each_once
from hostrouting.host.files import Entry, Files

MARK = "Written by hostrouting"
"""The words in each of our files in systemd's folders, where other programs also have files."""
_ORIGINAL = ("ExecStart=/etc/aks-flex-node/", "Before=systemd-nspawn@.service")
"""The words in the units of the Go original. Our units replace these, and removal leaves them."""
_SHARED = "/etc/systemd/"


class File(NamedTuple):
    """A file with the text and mode that are wanted, or a link with its target."""

    path: str
    text: str = ""
    mode: int = 0o644
    target: str = ""

    def differs(self, files: Files) -> bool:
        """Whether `write` would change anything. A file of another owner differs: root runs some of
        our files.
        """
        entry = files.look(self.path)
        if self.target:
            return entry is None or entry.target != self.target
        return entry != Entry("file", self.mode) or files.read(self.path) != self.text

    def write(self, files: Files) -> bool:
        """Write the file or link, atomically; False if it is right already. HostError as in
        `require_room`.
        """
        self.require_room(files)
        if not self.differs(files):
            return False
        if self.target:
            files.link(self.path, self.target)
        else:
            files.write(self.path, self.text, mode=self.mode)
        return True

    def require_room(self, files: Files) -> None:
        """Raise HostError if the path is masked, or if a file that we did not write is there."""
        if self.target or not self.path.startswith(_SHARED) or not files.look(self.path):
            return
        text = files.read(self.path)
        if not text:
            remedy = Remedy("remove it")
            if self.path.endswith(".service"):
                remedy = Remedy(command=f"systemctl unmask {os.path.basename(self.path)}")
            sentence = f"{self.path} is masked: empty, or a link to /dev/null"
            error = HostError(f"{sentence}; {remedy}", what="file", target=self.path)
            error.findings = (Finding("file", "error", sentence, self.path, remedy),)
            raise error
        if not any(mark in text for mark in (MARK, *_ORIGINAL)):
            rule = "was not written by hostrouting, which needs this path"
            raise HostError(
                f"{self.path} {rule}: move the file away, or rename it",
                what="file",
                target=self.path,
            )


def is_ours(files: Files, path: str) -> bool:
    """Whether this is one of our files: every file in our own folders is; elsewhere, every file
    with our mark.
    """
    if files.look(path) is None:
        return False
    if not path.startswith(_SHARED):
        return True
    return MARK in (files.read(path) or "")


@attrs.frozen
class FileChanges:
    """The files that would be written, and the paths that would be removed, in order and without
    duplicates.
    """

    files: tuple[File, ...] = ()
    removes: tuple[str, ...] = attrs.field(default=(), converter=each_once)

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    def __bool__(self) -> bool:
        return bool(self.files or self.removes)
