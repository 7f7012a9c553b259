"""The files of a host, each written whole or not at all, and the locks of files.

Only this module knows where a host's root folder is: all paths are those that the host itself sees,
and `LocalFiles("/mnt/image")` finds them below the folder where the image is mounted.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat

TYPE_CHECKING = False  # a start of a gated unit has no time for `typing`, contextlib or the errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostrouting.errors import HostError
    from hostrouting.host.base import Files, Lock, LockHolder

_LINKS = 40  # Linux follows at most this many in one path
_ABSENT = (FileNotFoundError, NotADirectoryError)
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "fifo",
}


class Entry:
    """What a path is, without following a link."""

    __slots__ = ("kind", "mode", "owner", "target")

    def __init__(self, kind: str, mode: int = 0, target: str = "", *, owner: int = 0) -> None:
        self.kind = kind
        """A "file", a "link", a "directory", a "fifo", or a "special file"."""
        self.mode = mode
        """The permissions; 0 for a link, which has none of its own."""
        self.target = target
        self.owner = owner
        """The number of the user; 0 also for what belongs to the current one."""

    @property
    def is_trusted(self) -> bool:
        """Whether root or the current user owns it: another owner could change it at any time."""
        return not self.owner

    @property
    def is_open_to_others(self) -> bool:
        """Whether somebody else than root, or the current user, can write to it."""
        return bool(self.mode & 0o022) or not self.is_trusted

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        fields = f"{self.kind!r}, {self.mode:#o}, {self.target!r}, owner={self.owner}"
        return f"Entry({fields})"

    def __str__(self) -> str:
        if not self.target:
            return self.kind
        return f"{self.kind} to {self.target}"


def leftover(path: str) -> str:
    """The temporary file that a process leaves if it is killed while it writes this path. One name
    is enough, because writers hold the lock of the host.
    """
    return f"{path}.new"


def follow_links(files: Files, path: str) -> Iterator[str]:
    """The path, and those to which the links at it lead, one after the other. The last one that is
    given is a link only if there are too many: those of Debian's alternatives are two.
    """
    for _ in range(_LINKS):
        yield path
        entry = files.look(path)
        if entry is None or entry.kind != "link":
            return
        path = posixpath.join(posixpath.dirname(path), entry.target)


def require_path(path: object) -> None:
    """Raise ValueError unless this is an absolute path, given as a str. The files for tests
    (hostrouting.testing) require the same.
    """
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise ValueError(f"path is {path!r:.80}; it must be a str that begins with /, without NUL")


def require_mode(mode: object) -> None:
    """Raise ValueError unless this is the mode of a file; 600 in place of 0o600 is not."""
    if not isinstance(mode, int) or not 0 <= mode <= 0o777:
        raise ValueError(f"mode is {mode!r:.80}; it must be from 0 to 0o777, such as 0o600")


def require_content(content: object) -> None:
    """Raise TypeError unless a file can have this content."""
    if not isinstance(content, str | bytes):
        raise TypeError(f"content is {content!r:.80}; it must be a str or bytes")


def as_text(content: bytes) -> str:
    """The content of a file as a text, of which `as_bytes` makes the same bytes: those that are not
    UTF-8 become lone surrogates.
    """
    return content.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """The text as a file has it; UnicodeEncodeError for what no file can have."""
    return text.encode("utf-8", "surrogateescape")


class LocalFiles:
    """The files of this machine, or those of an image that is mounted at `root`.

    Links are followed as in the booted image: an absolute link starts at the image's root, and none
    leads out of it. A missing folder is created even if it is the target of a link.
    """

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        """Raise ValueError if the root is not absolute: it would depend on the directory in which a
        program runs.
        """
        folder = os.fspath(root)
        if not folder.startswith("/") or "\0" in folder:
            raise ValueError(f"root: {folder!r} is not an absolute path; write Path(…).resolve()")
        self._root = folder.rstrip("/")

    def read(self, path: str) -> str | None:
        content = self.read_bytes(path)
        return None if content is None else as_text(content)

    def read_bytes(self, path: str) -> bytes | None:
        place = self._followed(path)
        if place == f"{self._root}/dev/null":
            return b""
        with _HostErrors("read", place):
            try:
                require_kind("read", place, _entry(place, os.stat(place)), "file")
                with open(place, "rb") as stream:
                    return stream.read()
            except _ABSENT:
                return None

    def look(self, path: str) -> Entry | None:
        return _look(self._place(path))

    def names(self, folder: str) -> tuple[str, ...]:
        place = self._followed(folder)
        with _HostErrors("read", place):
            try:
                return tuple(sorted(os.listdir(place)))
            except _ABSENT:
                return ()

    def write(self, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        require_mode(mode)
        require_content(content)
        written = as_bytes(content) if isinstance(content, str) else content
        place = self._place(path)
        require_kind("write", place, _look(place), "file")
        with _HostErrors("write", place):
            _replace(place, lambda temporary: _write(temporary, written, mode))

    def link(self, path: str, target: str) -> None:
        place = self._place(path)
        require_kind("link", place, _look(place), "file", "link")
        with _HostErrors("link", place):
            _replace(place, lambda temporary: os.symlink(target, temporary))

    def remove(self, path: str) -> bool:
        place = self._place(path)
        require_removable(place, _look(place))
        with _HostErrors("remove", place):
            _unlink(leftover(place))
            is_there = _unlink(place)
            if is_there:
                _flush_folder(os.path.dirname(place))
        return is_there

    def remove_empty(self, folder: str) -> None:
        try:
            os.rmdir(self._place(folder))
        except OSError:
            return

    def why_unwritable(self, folder: str, *, needs_space: bool = True) -> str:
        place = self._followed(folder)
        while not os.path.lexists(place):  # `write` makes what is missing, also above the root
            place = os.path.dirname(place)
        if not os.path.isdir(place):
            return f"{place} is not a directory; remove it"
        with _HostErrors("read", place):
            system = os.statvfs(place)
        if os.access(place, os.W_OK):
            if needs_space and _is_full(system):
                return f"{os.strerror(errno.ENOSPC)}; {_REMEDIES[errno.ENOSPC]}"
            return ""
        if system.f_flag & os.ST_RDONLY:
            from shlex import quote  # noqa: PLC0415  see above

            # What is mounted may be a part of another file system, which os.path.ismount misses.
            mount = f"$(findmnt -nvo TARGET -T {quote(place)})"
            to_remount = f'mount -o remount,rw "{mount}"'
            return f"{os.strerror(errno.EROFS)}; look at dmesg, then: {to_remount}"
        return (
            f"{place} does not allow it; for its permissions and attributes: ls -ld {place}; "
            f"lsattr -d {place}"
        )

    def lock(self, path: str, wake: Callable[[], object]) -> Lock:
        """See Files. The root folder is locked only in an image, which nobody else uses."""
        from hostrouting.host.lock import FileLock  # noqa: PLC0415  some systems lack fcntl

        place = self._place(path)
        with _HostErrors("lock", place):
            if path == "/":
                descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            else:
                descriptor = open_lock(place)
            try:
                return FileLock(descriptor, wake)
            except BaseException:
                os.close(descriptor)
                raise

    def lock_holders(self, path: str) -> tuple[LockHolder, ...]:
        from hostrouting.host.lock import lock_holders  # noqa: PLC0415  some systems lack fcntl

        return lock_holders(self._followed(path))

    def _place(self, path: str) -> str:
        """The file's path on this machine, with links in its folder followed; the file itself may
        be a link.
        """
        require_path(path)
        folder, name = os.path.split(path)
        return f"{self._followed(folder).rstrip('/')}/{name}"

    def _followed(self, path: str) -> str:
        """The path on this machine, with all links followed: Linux would follow an absolute link
        out of an image.
        """
        require_path(path)
        parts: list[str] = []
        names = path.split("/")[::-1]
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
                if links > _LINKS:
                    raise _error(path, f"{path}: its links form a loop; remove one of them")
                names += target.split("/")[::-1]
                if target.startswith("/"):
                    parts.clear()
                else:
                    del parts[-1]
        return "/".join((self._root, *parts)) or "/"


def _is_full(system: os.statvfs_result) -> bool:
    """Whether this file system has no room for a file. One without a limit has a total of 0."""
    has_no_blocks = system.f_blocks and not system.f_bfree
    has_no_inodes = system.f_files and not system.f_ffree
    return bool(has_no_blocks or has_no_inodes)


def _look(place: str) -> Entry | None:
    with _HostErrors("read", place):
        try:
            return _entry(place, os.lstat(place))
        except _ABSENT:
            return None


def _entry(place: str, status: os.stat_result) -> Entry:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special file")
    owner = 0 if status.st_uid == os.geteuid() else status.st_uid
    if kind == "link":
        return Entry(kind, target=os.readlink(place), owner=owner)
    return Entry(kind, stat.S_IMODE(status.st_mode), owner=owner)


def require_kind(verb: str, place: str, entry: Entry | None, *kinds: str) -> None:
    """Raise HostError if the path exists and is not of one of these kinds."""
    if entry is not None and entry.kind not in kinds:
        raise _error(place, f"cannot {verb} {place}: it is a {entry}; remove it")


def require_removable(place: str, entry: Entry | None) -> None:
    """Raise HostError if this is a folder, which is not removed: nobody knows what is in it."""
    require_kind("remove", place, entry, "file", "link", "fifo", "special file")


def open_lock(place: str) -> int:
    """Open the file whose lock is taken with flock(2), and return the descriptor; the file and its
    folder are created. Raises OSError.

    Only root can open the file, because whoever can open a file can lock it.
    """
    _make_folder(os.path.dirname(place))
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def _replace(place: str, make: Callable[[str], object]) -> None:
    """Replace the file with the one that `make` makes at a temporary path. If it fails, the file is
    as it was; if the disk fails after the renaming, the new file may be there.
    """
    temporary = leftover(place)
    folder = os.path.dirname(place)
    _make_folder(folder)
    _unlink(temporary)
    try:
        make(temporary)
        os.replace(temporary, place)
    except BaseException:
        _discard(temporary)
        raise
    _flush_folder(folder)


def _write(place: str, content: bytes, mode: int) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fchmod(descriptor, mode)
        # Before the rename: a power loss leaves the old text or the new one.
        os.fsync(descriptor)


def _discard(place: str) -> None:
    """Remove what a failure has left; that failure is the one to report."""
    try:
        os.unlink(place)
    except OSError:
        return


def _make_folder(place: str) -> None:
    """Make the folder and its parents, also on the disk. Only the owner may write there, and all
    users may read, whatever the umask.
    """
    if os.path.isdir(place):
        return
    parent = os.path.dirname(place)
    _make_folder(parent)
    try:
        os.mkdir(place)
    except FileExistsError:
        return
    os.chmod(place, 0o755)  # noqa: S103  like other system folders
    _flush_folder(parent)


def _unlink(place: str) -> bool:
    """Remove a file or link; False if it was absent."""
    # On a read-only file system, unlink fails even if the file is absent.
    if not os.path.lexists(place):
        return False
    os.unlink(place)
    return True


def _flush_folder(folder: str) -> None:
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
    errno.EDQUOT: "free some space, or raise the quota",
    errno.ELOOP: "the path is a link: remove it",
    errno.EISDIR: "remove the folder",
    errno.ENOENT: "a part of the path is missing",
    errno.ENOTDIR: "a part of the path is not a folder: remove that file",
}


class _HostErrors:
    """In its block, errors of the system are raised as a HostError, with the path and the remedy. A
    HostError is not one of them, and passes.
    """

    def __init__(self, verb: str, place: str) -> None:
        self._verb = verb
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, OSError):
            return
        reason = error.strerror
        if error.filename not in {None, self._place}:  # the temporary file, or a folder
            reason = f"{error.filename}: {reason}"
        remedy = _REMEDIES.get(error.errno or 0, "dmesg may have the cause")
        sentence = f"cannot {self._verb} {self._place}: {reason}; {remedy}"
        raise _error(self._place, sentence, error.errno) from error


def _error(place: str, sentence: str, number: int | None = None) -> HostError:
    from hostrouting.errors import HostError  # noqa: PLC0415  see above

    return HostError(sentence, what="file", target=place, errno=number)
