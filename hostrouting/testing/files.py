"""FakeFiles: the files of a host in dictionaries."""

from __future__ import annotations

import os
from collections.abc import Callable

import attrs

from hostrouting.errors import HostError
from hostrouting.host.files import (
    Entry,
    as_bytes,
    as_text,
    require_kind,
)


@attrs.define
class FakeFiles:
    """Files and links in dictionaries, which tests can read and set.

    A folder exists while something is in it. Only `read` follows links: one link, at the path
    itself. A lock creates no file.
    """

    texts: dict[str, str] = attrs.field(factory=dict)
    modes: dict[str, int] = attrs.field(factory=dict)
    """The modes of files; 0644 if none is given."""
    owners: dict[str, int] = attrs.field(factory=dict)
    """The numbers of the users who own files and links; root if none is given."""
    links: dict[str, str] = attrs.field(factory=dict)
    writes: list[str] = attrs.field(factory=list)
    """Every path that was written, linked, removed or locked, in order."""
    broken: dict[str, str] = attrs.field(factory=dict)
    """Files that cannot be changed, and folders in which nothing can, with the reason for each."""
    locked: set[str] = attrs.field(factory=set)
    """Paths that another process has locked."""
    programs: dict[str, bytes] = attrs.field(factory=dict, repr=False)
    """Files whose content is bytes, such as the program of a node."""
    _wakes: list[Callable[[], object]] = attrs.field(factory=list, init=False, repr=False, eq=False)
    """The `wake` of each lock, held or awaited: all are called when one is released."""

    def read(self, path: str) -> str | None:
        content = self.read_bytes(path)
        return None if content is None else as_text(content)

    def read_bytes(self, path: str) -> bytes | None:
        target = self.links.get(path, path)
        # The target of a link may be relative to the folder of the link.
        place = os.path.normpath(os.path.join(os.path.dirname(path), target))
        # /dev/null reads as an empty file. The file of a masked unit is a link to it.
        if place == "/dev/null":
            return b""
        # A folder cannot be read. What does not exist can: the result is None.
        require_kind("read", place, self.look(place), "file")
        if place in self.texts:
            return as_bytes(self.texts[place])
        return self.programs.get(place)

    def look(self, path: str) -> Entry | None:
        # What is at this path, without following a link; None if nothing is. `texts` and `programs`
        # are files whose content is text or bytes.
        owner = self.owners.get(path, 0)
        if path in self.links:
            # The mode is 0, because that of a link does not matter.
            return Entry("link", 0, self.links[path], owner=owner)
        if path in self.texts or path in self.programs:
            return Entry("file", self.modes.get(path, 0o644), owner=owner)
        if self.names(path):  # a folder exists while something is in it
            return Entry("directory", 0o755, owner=owner)
        return None

    def names(self, folder: str) -> tuple[str, ...]:
        # The names of the files, links and folders in this folder. A folder exists only as a part
        # of the paths of what is in it.
        below = f"{folder.rstrip('/')}/"
        names: set[str] = set()
        for path in (*self.texts, *self.programs, *self.links):
            if path.startswith(below):
                name, _, _ = path.removeprefix(below).partition("/")
                names.add(name)
        return tuple(sorted(names))

    def write(self, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        self._check_and_note("write", path, "file")
        self._remove_entry(path)
        if isinstance(content, str):  # a text, and not a program
            self.texts[path] = content
        else:
            self.programs[path] = content
        self.modes[path] = mode

    def link(self, path: str, target: str) -> None:
        self._check_and_note("link", path, "file", "link")  # a file or link there is replaced
        self._remove_entry(path)
        self.links[path] = target

    def remove(self, path: str) -> None:
        if self.look(path):
            self._check_and_note("remove", path, "file", "link")
            self._remove_entry(path)

    def is_writable(self, folder: str) -> bool:
        return not self._why_broken(folder)

    def remove_empty(self, folder: str) -> None:
        """See Files. There is nothing to do: a folder is gone as soon as it is empty."""

    def _why_broken(self, folder: str) -> str:
        """Why nothing can be changed in this folder; empty if it can. The reason is that the
        folder, or one above it, is in `broken`, or is a file.
        """
        path = folder
        while path not in {"/", ""}:
            if path in self.broken:
                return self.broken[path]
            if path in self.texts or path in self.programs:
                return f"{path} is not a directory; remove it"
            path = os.path.dirname(path)
        return ""

    def lock(self, path: str, wake: Callable[[], object]) -> _FakeLock:
        self._check_and_note("lock", path, "file", "directory")
        return _FakeLock(self, path, wake)

    def _check_and_note(self, verb: str, path: str, *kinds: str) -> None:
        # Called before each change of a path. Raise HostError if the path cannot be changed, or has
        # something of another kind than these `kinds`; otherwise note the path in `writes`.
        reason = self.broken.get(path) or self._why_broken(os.path.dirname(path))
        if reason:
            raise HostError(f"cannot {verb} {path}: {reason}", what="file", target=path)
        require_kind(verb, path, self.look(path), *kinds)
        self.writes.append(path)

    def _remove_entry(self, path: str) -> None:
        for by_path in (self.texts, self.programs, self.modes, self.owners, self.links):
            by_path.pop(path, None)


class _FakeLock:
    """The lock of a file in FakeFiles, held or awaited. The release of any lock calls `wake`."""

    def __init__(self, files: FakeFiles, path: str, wake: Callable[[], object]) -> None:
        self._files = files
        self._path = path
        self._wake = wake
        self._is_held = False
        files._wakes.append(wake)
        self.is_held()  # called because it takes the lock if that is free

    def is_held(self) -> bool:
        # Whether this object has the lock. If the lock is free, take it now: a waiter is woken by
        # `wake` at the release of any lock, and then calls this again.
        if self._path not in self._files.locked:
            self._files.locked.add(self._path)
            self._is_held = True
        return self._is_held

    def release(self) -> None:
        # If another process has the lock, this one only stops waiting for it. No method is called
        # after this one, so `_is_held` may stay true.
        self._files._wakes.remove(self._wake)
        if self._is_held:
            self._files.locked.discard(self._path)
            for wake in tuple(self._files._wakes):
                wake()
