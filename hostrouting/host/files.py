"""The files of a host, each written whole or not at all, and the locks of files.

Only this module knows where a host's root folder is. A `path` is what the host itself sees, and a
`place` is where that is on this machine: `LocalFiles("/mnt/image")` finds all paths below the
folder where the image is mounted.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.errors import HostError

if TYPE_CHECKING:
    from hostrouting.host.base import Files, Lock

_MOST_LINKS = 40  # Linux follows at most this many in one path
_ABSENT = (FileNotFoundError, NotADirectoryError)
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFDIR: "directory",
}


class Entry(NamedTuple):
    """What a path is, without following a link."""

    kind: str
    """A "file", a "link", a "directory", or a "special file", such as a fifo."""
    mode: int = 0
    """The permissions; 0 for a link, which has none of its own."""
    target: str = ""
    owner: int = 0
    """The number of the user who owns it. In an image, 0 stands also for the user of this process,
    who prepares it.
    """

    @property
    def is_open_to_others(self) -> bool:
        """Whether a user other than root can write to it, or owns it, and could allow that."""
        return bool(self.mode & 0o022 or self.owner)

    def __str__(self) -> str:
        return f"{self.kind} to {self.target}" if self.target else self.kind


def temporary_path(path: str) -> str:
    """The path of the temporary file that is written first, then renamed to `path`. The name is the
    same each time, so that the next writer removes a file that a killed writer has left. Only one
    process writes at a time, because writers hold the lock of the host.
    """
    return f"{path}.new"


def follow_links(files: Files, path: str) -> Iterator[str]:
    """Yield the path and, if a symbolic link is there, the path to which the link leads, and so on
    until there is no link. Stop at the latest after 40 paths, because Linux follows no more links.
    """
    for _ in range(_MOST_LINKS):
        yield path
        entry = files.look(path)
        if entry is None or entry.kind != "link":
            return
        path = posixpath.join(posixpath.dirname(path), entry.target)


def as_text(content: bytes) -> str:
    """The content of a file as text. Bytes that are not UTF-8 become lone surrogates, so that
    `as_bytes` can restore them.
    """
    return content.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """The content of a file with this text; UnicodeEncodeError for other surrogates."""
    return text.encode("utf-8", "surrogateescape")


class LocalFiles:
    """The files of this machine, or those of an image that is mounted at `root`.

    Links are followed as in the booted image: an absolute link starts at the image's root, and
    `..` stops there. A missing folder is created even if it is the target of a link.
    """

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        self._root = os.path.abspath(root).rstrip("/")

    def read(self, path: str) -> str | None:
        content = self.read_bytes(path)
        return None if content is None else as_text(content)

    def read_bytes(self, path: str) -> bytes | None:
        place = self._followed(path)
        # A link to /dev/null masks a unit of systemd, and is read as an empty file.
        if place == f"{self._root}/dev/null":
            return b""
        with _host_errors("read", place):
            # Another user may own the folder, and can put anything there at any moment. Opening a
            # fifo could wait, and opening a device could have an effect, so the kind is checked
            # first.
            try:
                handle = os.open(place, os.O_PATH)
            except _ABSENT:
                return None
            try:
                status = os.fstat(handle)
                require_kind("read", place, _entry(place, status), "file")
                if not status.st_size:  # perhaps the kernel's, such as /proc/kmsg, which waits
                    return b""
                # Without O_NONBLOCK, a file on which its owner has a lease would make this wait.
                opened = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK)
                with open(opened, "rb") as stream:
                    return stream.read(16_000_000)  # no file of ours is longer
            finally:
                os.close(handle)

    def look(self, path: str) -> Entry | None:
        entry = _look(self._place(path))
        # In an image, what root will own belongs to the user who prepares it.
        if entry and self._root and entry.owner == os.geteuid():
            return entry._replace(owner=0)
        return entry

    def names(self, folder: str) -> tuple[str, ...]:
        place = self._followed(folder)
        with _host_errors("read", place):
            try:
                return tuple(sorted(os.listdir(place)))
            except _ABSENT:
                return ()

    def write(self, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        data = as_bytes(content) if isinstance(content, str) else content
        place = self._place(path)
        # A link or a folder there is an error, so that nothing is written through a link.
        require_kind("write", place, _look(place), "file")
        # The complete new file replaces the old one at once.
        with _host_errors("write", place):
            _replace(place, lambda temporary: _write(temporary, data, mode))

    def link(self, path: str, target: str) -> None:
        place = self._place(path)
        # A folder or a special file there is an error.
        require_kind("link", place, _look(place), "file", "link")
        # The new link replaces an old file or link at once.
        with _host_errors("link", place):
            _replace(place, lambda temporary: os.symlink(target, temporary))

    def remove(self, path: str) -> None:
        place = self._place(path)
        # A folder is an error, because nobody knows what is in it. Anything else is removed.
        require_kind("remove", place, _look(place), "file", "link", "special file")
        with _host_errors("remove", place):
            _unlink(temporary_path(place))  # the temporary file of a writer that was killed
            if _unlink(place):
                _flush_folder(os.path.dirname(place))

    def is_writable(self, folder: str) -> bool:
        return not os.statvfs(self._followed(folder)).f_flag & os.ST_RDONLY

    def remove_empty(self, folder: str) -> None:
        try:
            os.rmdir(self._place(folder))
        except OSError:  # it is absent, not empty, or a link, and stays
            return

    def lock(self, path: str, wake: Callable[[], object]) -> Lock:
        """Take the lock, or begin to wait for it (`Files.lock`). An image is locked by its root
        folder, so that no lock file is left in it.
        """
        from hostrouting.host.lock import FileLock  # noqa: PLC0415  some systems lack fcntl

        place = self._place(path)
        with _host_errors("lock", place):
            if path == "/":
                descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            else:
                descriptor = open_lock(place)
            return FileLock(descriptor, wake)

    def _place(self, path: str) -> str:
        """Where a path of the host is on this machine. Links are followed up to the last folder. A
        link at the path itself is not: the caller looks at it or replaces it.
        """
        folder, name = os.path.split(path)
        return f"{self._followed(folder).rstrip('/')}/{name}"

    def _followed(self, path: str) -> str:
        """Where a path of the host is on this machine, with all links followed. Linux could not do
        this in an image: it would look for the absolute target of a link on this machine.
        """
        parts: list[str] = []  # of the path as far as it is followed
        names = path.split("/")[::-1]  # the rest of the path, the next name last
        links = 0
        while names:
            name = names.pop()
            if name == "..":
                del parts[-1:]  # the parent of the root is the root
            elif name not in {"", "."}:
                parts.append(name)
                try:
                    target = os.readlink("/".join((self._root, *parts)))
                except OSError:  # not a link, or one that Linux could not follow either
                    continue
                links += 1
                if links > _MOST_LINKS:
                    raise _error(path, f"{path}: its links form a loop; remove one of them")
                # The target is followed next, from the root or from the folder of the link.
                names += target.split("/")[::-1]
                if target.startswith("/"):
                    parts.clear()
                else:
                    del parts[-1]
        return "/".join((self._root, *parts)) or "/"


def _look(place: str) -> Entry | None:
    """What is at this place on this machine, without following a link; None if it is absent."""
    with _host_errors("read", place):
        try:
            return _entry(place, os.lstat(place))
        except _ABSENT:
            return None


def _entry(place: str, status: os.stat_result) -> Entry:
    """Make the Entry for what is at the place, for which lstat or fstat returned this status."""
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special file")
    if kind == "link":
        return Entry(kind, target=os.readlink(place), owner=status.st_uid)
    return Entry(kind, stat.S_IMODE(status.st_mode), owner=status.st_uid)


def require_kind(verb: str, place: str, entry: Entry | None, *kinds: str) -> None:
    """Raise HostError if something is at the place, the `entry`, but of none of these kinds. The
    error says what cannot be done there; `verb` is the word for it, such as "write".
    """
    if entry is not None and entry.kind not in kinds:
        raise _error(place, f"cannot {verb} {place}: it is a {entry}; remove it")


def open_lock(place: str) -> int:
    """Open a file to lock it with flock(2); return its descriptor. The file and its folder are
    created if they are missing. Raises OSError.

    Whoever can open a file can lock it, so only the owner may open this one.
    """
    _make_folder(os.path.dirname(place))
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(place, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # if the file existed, it may have another mode
    return descriptor


def _replace(place: str, make: Callable[[str], object]) -> None:
    """Replace the file or link at the place at once: `make` makes the new one at a temporary path,
    which is then renamed. If anything fails before the rename, the old one is still there.
    """
    temporary = temporary_path(place)
    folder = os.path.dirname(place)
    _make_folder(folder)
    _unlink(temporary)  # a writer that was killed may have left it
    try:
        make(temporary)
        os.replace(temporary, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_folder(folder)


def _write(place: str, content: bytes, mode: int) -> None:
    """Create a temporary file with this content and mode. Until the content is complete, only the
    owner may open the file.
    """
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fchmod(descriptor, mode)
        # Needed before the rename: without it, a power loss could leave an empty file.
        os.fsync(descriptor)


def _make_folder(place: str) -> None:
    """Make the folder and its parents if they are missing, and write them to the disk. Only the
    owner may write to a new folder, and all users may read it, whatever the umask is.
    """
    if os.path.isdir(place):
        return
    parent = os.path.dirname(place)
    _make_folder(parent)
    try:
        os.mkdir(place, 0o755)
    except FileExistsError:
        return
    # mkdir leaves out the permissions that the umask forbids, and chmod grants them.
    os.chmod(place, 0o755)  # noqa: S103  like other system folders
    _flush_folder(parent)


def _unlink(place: str) -> bool:
    """Remove a file or link; False if it was absent."""
    # On a read-only file system, unlink would fail even for an absent file.
    if not os.path.lexists(place):
        return False
    os.unlink(place)
    return True


def _flush_folder(folder: str) -> None:
    """Write the names in the folder to the disk, so that a file which was just created, renamed or
    removed there stays so after a power loss.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_DENIED = "run as root; if root is denied as well, check lsattr and SELinux"
_REMEDIES = {
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: "remount the file system writable",
    errno.ENOSPC: "free some space, or inodes (df -i)",
    errno.ELOOP: "the path is a link: remove it",
    errno.ENOENT: "a part of the path is missing",
    errno.ENOTDIR: "a part of the path is not a folder: remove that file",
}


@contextmanager
def _host_errors(verb: str, place: str) -> Iterator[None]:
    """Turn an OSError that leaves the block into a HostError with the place and a remedy; `verb`
    says what was tried there.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror
        # The error may be about the temporary file or a folder: then the reason names it. The error
        # of a read is about the file itself, but can name a path in /proc/self/fd instead.
        if verb != "read" and error.filename not in {None, place}:
            reason = f"{error.filename}: {reason}"
        remedy = _REMEDIES.get(error.errno or 0, "dmesg may have the cause")
        sentence = f"cannot {verb} {place}: {reason}; {remedy}"
        raise _error(place, sentence, error.errno) from error


def _error(place: str, sentence: str, number: int | None = None) -> HostError:
    return HostError(sentence, what="file", target=place, errno=number)
