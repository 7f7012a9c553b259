"""Sets of files that are installed and removed together: comparing, writing and removing them.

Here: one file and a set of files. Not here: their text (`boot.scripts`, `boot.units`), and when and in what order they
change (`boot.gate`).
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import attrs

from hostrouting.errors import FileError
from hostrouting.host.effects import each_once, tell_effects

if TYPE_CHECKING:
    from hostrouting.host.files import Files
    from hostrouting.host.layout import HostLayout

OURS = "Written by hostrouting"


class File(NamedTuple):
    """One file, with the text and mode that are wanted."""

    path: str
    text: str
    mode: int = 0o644
    marks: tuple[str, ...] = ()
    """A file that contains none of these was not written by us. If this is empty, any existing file is replaced."""

    def is_foreign(self, files: Files) -> bool:
        """Whether a file that we did not write exists at the path; it may be a mask."""
        text = files.read(self.path) if self.marks else None
        return text is not None and not any(mark in text for mark in self.marks)

    def is_masked(self, files: Files) -> bool:
        """Whether the file is masked, by a link to /dev/null or by an empty file."""
        return bool(self.marks) and files.read(self.path) == ""

    def require_room(self, files: Files) -> None:
        """Raise FileError if a file that we did not write has this path; a mask is accepted."""
        if self.is_foreign(files) and not self.is_masked(files):
            text = (
                f"{self.path} was not written by hostrouting, which needs this path: move the file away, or rename it"
            )
            raise FileError(text, path=self.path)

    def require_unmasked(self, files: Files) -> None:
        """Raise FileError if the file is masked."""
        if self.is_masked(files):
            name = self.path.rpartition("/")[2]
            remedy = f"systemctl unmask {name}" if name.endswith(".service") else "remove it"
            raise FileError(f"{self.path} is masked: empty, or a link to /dev/null; {remedy}", path=self.path)

    def write(self, files: Files) -> bool:
        """See Files.write. Raises FileError, and changes nothing, if the file is masked."""
        self.require_unmasked(files)
        return files.write(self.path, self.text, mode=self.mode)


@attrs.frozen
class Changes:
    """The paths that would be written and removed, in order and without duplicates."""

    writes: tuple[str, ...] = attrs.field(default=(), converter=each_once)
    removes: tuple[str, ...] = attrs.field(default=(), converter=each_once)

    def __add__(self, other: Changes) -> Changes:
        return Changes((*self.writes, *other.writes), (*self.removes, *other.removes))

    def without(self, paths: Collection[str]) -> Changes:
        """The changes without those of the given paths."""
        writes, removes = (tuple(path for path in them if path not in paths) for them in (self.writes, self.removes))
        return Changes(writes, removes)

    def __bool__(self) -> bool:
        return bool(self.writes or self.removes)


@attrs.frozen
class FileSet:
    """Files and links that are installed and removed together. Both also remove `obsolete` paths."""

    files: tuple[File, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    obsolete: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """Links in the folder of another program, which are made only where that folder exists."""

    def __add__(self, other: FileSet) -> FileSet:
        return FileSet(
            (*self.files, *other.files),
            (*self.links, *other.links),
            (*self.obsolete, *other.obsolete),
            (*self.aliases, *other.aliases),
        )

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files and links."""
        return (*(file.path for file in self.files), *(path for path, _ in (*self.links, *self.aliases)))

    def links_on(self, files: Files) -> tuple[tuple[str, str], ...]:
        """The links to make on this host."""
        return (*self.links, *(alias for alias in self.aliases if files.is_there(alias[0].rpartition("/")[0])))

    def found(self, files: Files) -> FileSet | None:
        """The files that exist, with the texts that they have on the host; None if one is masked or not ours."""
        own: list[File] = []
        for file in self.files:
            text = files.read(file.path)
            if text == "" or file.is_foreign(files):
                return None
            own += [] if text is None else [file._replace(text=text)]
        return attrs.evolve(self, files=tuple(own))

    def foreign(self, files: Files) -> tuple[str, ...]:
        """The paths of existing files that we did not write."""
        return tuple(file.path for file in self.files if file.is_foreign(files))

    def differences(self, files: Files) -> Changes:
        """What `install` would change; nothing is changed yet."""
        stale = [file.path for file in self.files if not files.holds(file.path, file.text, mode=file.mode)]
        missing = [path for path, target in self.links_on(files) if not files.leads(path, target)]
        return Changes((*stale, *missing), [path for path in self.obsolete if files.is_there(path)])

    def obstacles(self, files: Files) -> tuple[FileError, ...]:
        """A FileError for each path at which `install` would fail, as far as this can be predicted."""
        found: list[FileError] = []
        for file in self.files:
            try:
                file.require_room(files)
                file.require_unmasked(files)
                files.holds(file.path, file.text, mode=file.mode)
            except FileError as error:
                found.append(error)
        for path, target in self.links_on(files):
            try:
                files.leads(path, target)
            except FileError as error:
                found.append(error)
        return tuple(found)

    def require_room(self, files: Files) -> None:
        """Raise FileError if a file that we did not write has one of these paths; masks are accepted."""
        for file in self.files:
            file.require_room(files)

    def install(self, files: Files) -> tuple[str, ...]:
        """Write, in order, the files that differ; return their paths. Idempotent.

        If a file is masked or cannot be written, raises a FileError that carries the paths changed before it.
        """
        changed: list[str] = []
        try:
            for file in self.files:
                changed += [file.path] if file.write(files) else []
            for path, target in self.links_on(files):
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
        """Remove our files, in order; returns the paths that existed. Files that we did not write are kept.

        If `failures` is given, all failures are appended to it. Otherwise the first one is raised; it carries the paths
        removed before it.
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
        """The paths of our files. An unreadable file is not counted as ours, and is a failure."""
        own, all_ours = [], True
        for file in self.files:
            try:
                is_foreign = file.is_foreign(files)
            except FileError as error:
                if failures is None:
                    raise
                failures.append(error)
                is_foreign = True
            own += [] if is_foreign else [file.path]
            all_ours = all_ours and not is_foreign
        # A link that enables a unit belongs to the program that wrote the unit.
        if not all_ours:
            return tuple(own)
        aliases = (path for path, target in self.aliases if _is_our_link(files, path, target))
        return (*own, *(path for path, _ in self.links), *aliases, *self.obsolete)


def _is_our_link(files: Files, path: str, target: str) -> bool:
    with suppress(FileError):  # what is there is neither a link nor a file, so another program's
        return files.leads(path, target)
    return False


def unit_file(path: str, text: str, *, layout: HostLayout) -> File:
    """A unit that runs a script. It replaces the Go original's, known by its script or its `Before=`."""
    return File(path, text, marks=(OURS, f"ExecStart={layout.agent_directory}/", f"Before={layout.machine_unit}"))
