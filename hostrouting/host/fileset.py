"""A file as it is wanted on a host, and the changes of files that a plan has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs

from hostrouting.finding import Finding, Remedy
from hostrouting.host.files import Entry
from hostrouting.host.ours import MARK, SHARED

if TYPE_CHECKING:
    from hostrouting.host.base import Files

_WORDS_OF_THE_ORIGINAL = ("ExecStart=/etc/aks-flex-node/", "Before=systemd-nspawn@.service")
"""Words by which a unit of the Go original is known. Ours may replace it; removal leaves it."""


@attrs.frozen
class File:
    """A file, or a link, as it is wanted on a host."""

    path: str
    text: str = ""
    mode: int = 0o644
    target: str = ""
    """Where the link leads; empty for a file."""

    def content(self) -> str | bytes:
        """What `write` writes."""
        return self.text

    def has_content(self, files: Files) -> bool:
        """Whether the file that is on the host says what is wanted."""
        return files.read(self.path) == self.text

    def differs(self, files: Files) -> bool:
        """Whether the host does not have this file as it is wanted: nothing is at the path, or
        something else, or the file has another content, mode or owner. The owner has to be root,
        who runs some of our files.
        """
        entry = files.look(self.path)
        # The wanted entries below name no owner, which means root.
        if self.target:
            return entry != Entry("link", target=self.target)
        return entry != Entry("file", self.mode) or not self.has_content(files)

    def write(self, files: Files) -> None:
        """Write the file or link, atomically. The caller has asked `find_obstacle` before, because
        this replaces even a file of another program.
        """
        if self.target:
            files.link(self.path, self.target)
        else:
            files.write(self.path, self.content(), mode=self.mode)

    def find_obstacle(self, files: Files) -> Finding | None:
        """Look at the path before `write`. Return an error for what must not be replaced: a folder,
        a link where a file is wanted (such as a mask of systemd), and another program's file in
        systemd's folders. Return a warning if only the mode of our file differs; None if nothing is
        wrong.
        """
        entry = files.look(self.path)
        if entry is None:
            return None
        # A file of ours replaces only a file; a link of ours replaces a file or a link.
        replaceable = ("file", "link") if self.target else ("file",)
        if entry.kind not in replaceable:
            sentence = f"{self.path} is a {entry}, where a file of hostrouting has to be"
            return Finding(
                "file",
                "error",
                sentence,
                self.path,
                Remedy("move it away; in place of a link to your file, put the file"),
            )
        # No other program has a file or link where a link of ours belongs.
        if self.target:
            return None
        if entry.mode != self.mode and self.has_content(files):
            sentence = f"{self.path} has the mode {entry.mode:o}, and not {self.mode:o}"
            return Finding("file", "warning", sentence, self.path)
        if self.path.startswith(SHARED):
            text = files.read(self.path) or ""
            # A unit of the program that ours replaces (the Go original) may be overwritten, too.
            if not any(mark in text for mark in (MARK, *_WORDS_OF_THE_ORIGINAL)):
                sentence = f"{self.path} was not written by hostrouting, which needs this path"
                remedy = Remedy("move the file away, or rename it")
                return Finding("file", "error", sentence, self.path, remedy)
        return None


class FileChanges(NamedTuple):
    """The files that would be written, and the paths that would be removed, in order and without
    duplicates.
    """

    writes: tuple[File, ...] = ()
    removes: tuple[str, ...] = ()

    @property
    def written_paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.writes)

    def __bool__(self) -> bool:
        return bool(self.writes or self.removes)
