"""Sets of files on a host that come and go together: what differs, what is there, written and removed.

Here: one file and a set of files. Not here: their text (`render`), and when and in what order they are wanted (`gate`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.effects import tell_effects
from hostrouting.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.layout import HostLayout
    from hostrouting.system import Files

__all__ = ["OURS", "Changes", "File", "FileSet", "unit_file"]

OURS = "Written by hostrouting"


def _each_once(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))


@attrs.frozen
class File:
    """One file, as it should be."""

    path: str
    text: str
    mode: int = 0o644
    marks: tuple[str, ...] = ()
    """A text without any of these was not written by us; when there are none, whatever is there is replaced."""

    def is_foreign(self, files: Files) -> bool:
        """Whether a file that we did not write is in the place, which may be one that masks ours."""
        text = files.read(self.path) if self.marks else None
        return text is not None and not any(mark in text for mark in self.marks)

    def is_masked(self, files: Files) -> bool:
        """Whether it is masked: by a link to /dev/null, or with an empty file."""
        return bool(self.marks) and files.read(self.path) == ""

    def require_room(self, files: Files) -> None:
        """FileError where a file that we did not write is in the place. A masked file is not one."""
        if self.is_foreign(files) and not self.is_masked(files):
            text = f"{self.path} is not ours, and stands where a file of ours belongs: move it away, or rename it"
            raise FileError(text, path=self.path)

    def require_unmasked(self, files: Files) -> None:
        """FileError where it is masked."""
        if self.is_masked(files):
            name = self.path.rpartition("/")[2]
            remedy = f"systemctl unmask {name}" if name.endswith(".service") else "remove it"
            raise FileError(f"{self.path} is empty: somebody masked what belongs there; {remedy}", path=self.path)

    def write(self, files: Files) -> bool:
        """See Files.write; a masked file stays masked, and is a FileError."""
        self.require_unmasked(files)
        return files.write(self.path, self.text, mode=self.mode)


@attrs.frozen
class Changes:
    """The paths that would be written and removed, each once, in order."""

    writes: tuple[str, ...] = attrs.field(default=(), converter=_each_once)
    removes: tuple[str, ...] = attrs.field(default=(), converter=_each_once)

    def __add__(self, other: Changes) -> Changes:
        return Changes((*self.writes, *other.writes), (*self.removes, *other.removes))

    def __bool__(self) -> bool:
        return bool(self.writes or self.removes)


@attrs.frozen
class FileSet:
    """Files and links that come and go together; `obsolete` are those that have to be gone in any case."""

    files: tuple[File, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    obsolete: tuple[str, ...] = ()

    def foreign(self, files: Files) -> tuple[str, ...]:
        """The paths where there are files that we did not write."""
        return tuple(it.path for it in self.files if it.is_foreign(files))

    def differences(self, files: Files) -> Changes:
        """What `install` would change; reads, and changes nothing."""
        stale = [it.path for it in self.files if not files.holds(it.path, it.text, mode=it.mode)]
        missing = [path for path, target in self.links if not files.leads(path, target)]
        return Changes((*stale, *missing), [path for path in self.obsolete if files.is_there(path)])

    def require_installable(self, files: Files) -> None:
        """The FileError with which `install` would end, as far as it can be told before."""
        self.require_room(files)
        for it in self.files:
            it.require_unmasked(files)

    def obstacles(self, files: Files) -> tuple[FileError, ...]:
        """Every file with which `install` could end, as far as it can be told before, as the FileError about it."""
        found: list[FileError] = []
        for it in self.files:
            try:
                it.require_room(files)
                it.require_unmasked(files)
                files.holds(it.path, it.text, mode=it.mode)
            except FileError as error:
                found.append(error)
        for path, target in self.links:
            try:
                files.leads(path, target)
            except FileError as error:
                found.append(error)
        return tuple(found)

    def require_room(self, files: Files) -> None:
        """FileError where a file that we did not write is in the place of one of these. A masked file is not one."""
        for it in self.files:
            it.require_room(files)

    def install(self, files: Files) -> tuple[str, ...]:
        """Write what differs, in order; the paths that did.

        At a file that is masked, or cannot be written, it ends with a FileError, which carries those before it.
        """
        changed: list[str] = []
        try:
            for it in self.files:
                changed += [it.path] if it.write(files) else []
            for path, target in self.links:
                changed += [path] if files.link(path, target) else []
            for path in self.obsolete:
                changed += [path] if files.remove(path) else []
        except FileError as error:
            tell_effects(error, files=changed)
            raise
        return tuple(changed)

    def present(self, files: Files) -> tuple[str, ...]:
        """The paths that `remove` would remove."""
        return tuple(path for path in self._paths(files) if files.is_there(path))

    def remove(self, files: Files, failures: list[FileError] | None = None) -> tuple[str, ...]:
        """Remove all that is ours, in order; the paths that were there.

        The first failure ends it, and carries them, unless there is a list that takes all failures.
        """
        gone = []
        for path in self._paths(files, failures):
            try:
                gone += [path] if files.remove(path) else []
            except FileError as error:
                if failures is None:
                    tell_effects(error, files=gone)
                    raise
                failures.append(error)
        return tuple(gone)

    def _paths(self, files: Files, failures: list[FileError] | None = None) -> tuple[str, ...]:
        """The paths of what is ours. What cannot be read is not, and is among the failures."""
        own, all_ours = [], True
        for it in self.files:
            try:
                is_foreign = it.is_foreign(files)
            except FileError as error:
                if failures is None:
                    raise
                failures.append(error)
                is_foreign = True
            own += [] if is_foreign else [it.path]
            all_ours = all_ours and not is_foreign
        # A link that enables a unit belongs to whoever wrote the unit.
        return (*own, *(path for path, _ in self.links), *self.obsolete) if all_ours else tuple(own)


def unit_file(path: str, text: str, *, script: str, layout: HostLayout) -> File:
    """A unit that runs a script; the published original's is known by the script, or by what it is ordered before."""
    return File(path, text, marks=(OURS, f"ExecStart={script}", f"Before={layout.machine_unit}"))
