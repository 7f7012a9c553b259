"""The files of a host, written atomically and only if they differ; and the lock on the host.

Here: how files are read, written and locked. Not here: which files a host needs (`tasks`), and their text (`boot`). The
fake is `hostrouting.testing.FakeFiles`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from hostrouting.errors import HostError

_LIMIT = 256 * 1024 * 1024  # bytes; a script with the routes of the largest configuration is less than half as large
_CHUNK = 1024 * 1024
_SETTING = 4096  # bytes; Linux gives a setting no more
_NULL = os.makedev(1, 3)  # /dev/null
_AT_ONCE = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
NO_ROOM = {errno.EROFS, errno.ENOSPC, errno.EDQUOT}
"""The errors of a file system on which no process can create a file."""
PROTECTED = 0o7133
"""The bits of a mode that a protected file does not have."""


class Files(Protocol):
    """The files of a host. Paths are absolute, as in `HostLayout`. Every HostError has the path and the remedy.

    No method blocks. If a path is a fifo, a socket, a device or a folder, methods raise HostError. Exceptions: `remove`
    removes everything except a folder, and `is_there` returns a value for any kind.
    """

    def read(self, path: str) -> str | None:
        """The text of a file; None if the file is absent. A link to /dev/null is read as an empty file."""

    def holds(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """Whether the file already has this text, mode and a trusted owner: `write` would return False."""

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """Write the file. If it already has this text and mode, return False and leave even its timestamps.

        Atomic, even if the host loses power. Missing folders are created. A link at the path is a HostError: it may be
        a unit that an administrator has masked, or an attack.
        """

    def is_protected(self, path: str) -> bool:
        """Whether the path is a regular file that root, or the current user, owns and only the owner can write.

        A file that its owner cannot read, or that can be executed, is not protected.
        """

    def leads(self, path: str, target: str) -> bool:
        """Whether the path already is a symbolic link to the target: `link` would return False."""

    def link(self, path: str, target: str) -> bool:
        """Make the path a symbolic link to the target, atomically; returns False if it already is one."""

    def remove(self, path: str) -> bool:
        """Remove the file or link; returns False if it was absent."""

    def remove_empty(self, folder: str) -> bool:
        """Remove the folder if it is empty; returns False if it was absent or stays for any reason."""

    def is_there(self, path: str) -> bool:
        """Whether the path exists; a link counts even if its target does not exist."""

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, sorted; empty if the folder is absent."""

    def why_unwritable(self, folder: str) -> str:
        """Why nothing can be written into the folder, as far as this can be foreseen; empty if it can.

        A missing folder counts as writable if it can be created.
        """

    def try_lock(self, path: str) -> Lock | None:
        """Take the lock of this file without waiting; None if another process has it. The process's end releases it.

        Only the current user and root can hold it: a file that belongs to another user is a HostError.
        """

    def holder(self, path: str) -> str:
        """A clause for a message: the processes that hold the lock of this file, or the command that lists them."""


class Lock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Release the lock."""


class LocalFiles:
    """The files of this host."""

    def read(self, path: str) -> str | None:
        """See Files."""
        try:
            # A file with invalid UTF-8 is not ours; the rest of its text shows which program wrote it.
            return _content(path).decode("utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _file_error("read", path, error) from error

    def holds(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        data = text.encode()
        try:
            found = os.lstat(path)
            _require_file(path, found.st_mode)
            is_like = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == mode
            return _is_own(found) and is_like and found.st_size == len(data) and _content(path) == data
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _file_error("read", path, error) from error

    def is_protected(self, path: str) -> bool:
        """See Files."""
        try:
            found = os.lstat(path)
        except OSError:
            return False
        is_readable, open_to = found.st_mode & stat.S_IRUSR, stat.S_IMODE(found.st_mode) & PROTECTED
        return stat.S_ISREG(found.st_mode) and _is_own(found) and bool(is_readable) and not open_to

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        if os.path.islink(path):
            target = os.readlink(path)
            what = "the unit is masked: systemctl unmask it" if target == "/dev/null" else "remove the link"
            raise HostError(
                f"{path} is a link to {target}, and nothing is written through a link; {what}", what="file", target=path
            )
        try:
            _require_replaceable(path)
            if self.holds(path, text, mode=mode):
                return False
            _make_folder(os.path.dirname(path))
            _write_whole(path, text.encode("utf-8"), mode)
        except OSError as error:
            raise _file_error("write", path, error) from error
        return True

    def leads(self, path: str, target: str) -> bool:
        """See Files."""
        try:
            _require_replaceable(path)
            return os.readlink(path) == target
        except _NotAFile as error:
            raise _file_error("link", path, error) from error
        except OSError:
            return False  # nothing exists at the path, or a regular file

    def link(self, path: str, target: str) -> bool:
        """See Files."""
        if self.leads(path, target):
            return False
        try:
            _make_folder(os.path.dirname(path))
            temporary = _cleared(path)
            os.symlink(target, temporary)
            os.replace(temporary, path)
            _flush_folder(path)
        except OSError as error:
            raise _file_error("link", path, error) from error
        return True

    def remove(self, path: str) -> bool:
        """See Files."""
        try:
            _cleared(path)
            if not os.path.lexists(path):
                return False
            os.unlink(path)
            _flush_folder(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except IsADirectoryError as error:
            raise _file_error("remove", path, _NotAFile("a directory", path)) from error
        except OSError as error:
            raise _file_error("remove", path, error) from error
        return True

    def remove_empty(self, folder: str) -> bool:
        """See Files. A link to a folder stays."""
        try:
            os.rmdir(folder)
        except OSError:
            return False
        return True

    def is_there(self, path: str) -> bool:
        """See Files."""
        return os.path.lexists(path)

    def names(self, folder: str) -> tuple[str, ...]:
        """See Files."""
        try:
            return tuple(sorted(os.listdir(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _file_error("read", folder, error) from error

    def why_unwritable(self, folder: str) -> str:
        """See Files."""
        there = folder
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there):
            return f"{there} is not a directory; remove it"
        try:
            if os.statvfs(there).f_flag & os.ST_RDONLY:
                return "the file system is read-only; remount it writable"
        except OSError as error:
            return str(error.strerror)
        return "" if os.access(there, os.W_OK | os.X_OK) else "permission denied; run this as root"

    def try_lock(self, path: str) -> Lock | None:
        """See Files.

        The file is created with mode 0600: a lock requires an open file, so no other user can take it. The folder is
        checked too, because another user must not be able to replace the file.
        """
        folder = os.path.dirname(path)
        try:
            _make_folder(folder)
            _require_own_folder(folder, path)
        except OSError as error:
            if error.errno in NO_ROOM:
                return _NoLock()
            raise _file_error("lock", path, error) from error
        return lock_file(path)

    def holder(self, path: str) -> str:
        """See Files."""
        if holders := self._holders(path):
            return f"{' and '.join(holders)} {'have' if len(holders) > 1 else 'has'} locked {path}"
        return f"to see who has locked {path}: fuser {path}"

    def _holders(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(f"process {pid} ({name})" for pid, name in _holders(os.stat(path)))
        except OSError:
            return ()


def lock_file(path: str, *, passing: bool = False) -> Lock | None:
    """Take the lock of a file, as `Files.try_lock` does. With `passing`, releasing the lock removes the file.

    On a file system that is read-only or full no process can create the file: if it is absent, no process holds it.
    """
    import fcntl  # noqa: PLC0415  some systems lack it; everything but the lock works there

    try:
        descriptor = _open_file(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise _file_error("lock", path, error) from error
        try:
            descriptor = _open_file(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return _NoLock()
        except OSError as error:
            raise _file_error("lock", path, error) from error
    try:
        found = os.fstat(descriptor)
        if found.st_uid not in {0, os.geteuid()}:
            text = f"cannot lock {path}: it belongs to user {found.st_uid}, who could hold it forever; remove it"
            raise HostError(text, what="file", target=path)  # noqa: TRY301  the file is closed below, as after any error
        if stat.S_IMODE(found.st_mode) & 0o077:
            with suppress(OSError):  # the file system may be read-only
                os.fchmod(descriptor, 0o600)  # a user who can open it can hold the lock and block all others
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its previous holder may have removed the file after it was opened here: then this is not the lock any more.
        if os.path.samestat(os.lstat(path), found):
            return _LocalLock(descriptor, path, passing=passing)
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _holders(found: os.stat_result) -> Iterator[tuple[int, str]]:
    """The numbers and names of the processes that hold an flock on this file."""
    with open("/proc/locks", encoding="ascii", errors="replace") as lines:
        # 1: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF
        locks = [line.split()[4:6] for line in lines if line.split()[1:2] == ["FLOCK"]]
    for pid, place in locks:
        number, _, inode = place.rpartition(":")
        if inode != str(found.st_ino):
            continue
        # On btrfs and overlay, the device number in /proc/locks may differ from that of stat.
        same = number == f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}" or _has_open(pid, found)
        with suppress(OSError):
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as stream:
                name = stream.read().strip()
            if same:
                yield int(pid), name if name.isprintable() else ascii(name)


def _has_open(pid: str, found: os.stat_result) -> bool:
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
        for descriptor in descriptors:
            with suppress(OSError):
                if os.path.samestat(os.stat(descriptor.path), found):
                    return True
    return False


def _require_own_folder(folder: str, path: str) -> None:
    """Raise HostError if another user could replace files in the folder.

    A folder that we cannot write to is not checked.
    """
    if not os.access(folder, os.W_OK):
        return
    found = os.stat(folder)
    trusted = {0, os.getegid()}
    open_to = stat.S_IWOTH if found.st_gid in trusted else stat.S_IWOTH | stat.S_IWGRP
    if found.st_uid not in {0, os.geteuid()}:
        who, remedy = f"belongs to user {found.st_uid}", f"chown root: {folder}"
    elif found.st_mode & open_to and not found.st_mode & stat.S_ISVTX:
        who, remedy = "can be written by other users", f"chmod go-w {folder}"
    else:
        return
    raise HostError(
        f"cannot lock {path}: {folder} {who}, who could remove the lock; {remedy}", what="file", target=path
    )


class _LocalLock:
    def __init__(self, descriptor: int, path: str, *, passing: bool) -> None:
        self._descriptor, self._path, self._passing = descriptor, path, passing

    def release(self) -> None:
        """See Lock."""
        # Removed while the lock is held: a process that has opened it meanwhile sees that it was removed.
        with suppress(OSError):
            if self._passing:
                os.unlink(self._path)
        os.close(self._descriptor)


class _NoLock:
    """The lock on a file system where no lock file can be created: does nothing."""

    def release(self) -> None:
        """See Lock."""


def _is_own(found: os.stat_result) -> bool:
    """Whether root or the current user owns the file. Root runs some of these files; any user may compare them."""
    return found.st_uid in {0, os.geteuid()}


def _content(path: str) -> bytes:
    """The bytes of a file; OSError if it is too large to be one of ours."""
    found = os.stat(path)
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL:
        return b""
    descriptor = _open_file(path)
    try:
        size = os.fstat(descriptor).st_size
        # The size of a setting of the kernel is 0, and only its first read has an answer.
        chunks = [os.read(descriptor, min(size + _SETTING, _CHUNK))] if size <= _LIMIT else []
        while chunks and chunks[-1] and size <= _LIMIT:
            chunks.append(os.read(descriptor, _CHUNK))
            size = max(size, sum(map(len, chunks)))
    finally:
        os.close(descriptor)
    if size > _LIMIT:
        raise OSError(errno.EFBIG, f"it is larger than {_LIMIT >> 20} MiB, so it is not a file that hostrouting wrote")
    return b"".join(chunks)


class _NotAFile(OSError):  # noqa: N818  the name says what is wrong
    """The path is not a regular file, but what `kind` says, such as "a fifo"."""

    def __init__(self, kind: str, path: str) -> None:
        """Build the error like an OSError of the system, with a number, a text and the path."""
        super().__init__(errno.EINVAL, f"there is {kind} in its place", path)


def _require_file(path: str, mode: int) -> None:
    """Raise _NotAFile if the mode is neither that of a regular file nor that of a link."""
    if kind := next((kind for is_one, kind in _KINDS if is_one(mode)), ""):
        raise _NotAFile(kind, path)


def _open_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Open the regular file at the path and return the descriptor; os.O_CREAT creates it with mode 0600.

    To open a fifo waits for the process at its other end, and to open a device may have side effects. So the type is
    looked at before, and again when the file is open, because another may have come into its place.
    """
    try:
        _require_file(path, os.lstat(path).st_mode if flags & os.O_NOFOLLOW else os.stat(path).st_mode)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | _AT_ONCE, 0o600)
    try:
        _require_file(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_replaceable(path: str) -> None:
    """Raise _NotAFile if the path exists and is neither a regular file nor a link."""
    with suppress(FileNotFoundError, NotADirectoryError):
        _require_file(path, os.lstat(path).st_mode)


def _make_folder(path: str) -> None:
    # With its parents. Only the owner may write into them, and all users may read them, whatever the umask.
    if os.path.isdir(path):
        return
    _make_folder(os.path.dirname(path))
    with suppress(FileExistsError):
        os.mkdir(path)
        os.chmod(path, 0o755)  # noqa: S103  like other system folders


def _write_whole(path: str, data: bytes, mode: int) -> None:
    # The new file is in the same folder, so that the rename stays within one file system. It is flushed before the
    # rename, so that a power loss leaves the old text or the new one and never an empty file.
    temporary = _cleared(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_folder(path)


def leftover(path: str) -> str:
    """The temporary file that a process leaves if it is killed while it writes this path."""
    return f"{path}.new"


def _cleared(path: str) -> str:
    """The name of the temporary file for this path, after removing one that a killed process has left.

    One name is enough, because a process that writes holds the lock on the host, or is the only one that writes this
    path: a guard writes its state without that lock. If the state is removed meanwhile, that write may fail, but the
    next one does not.
    """
    temporary = leftover(path)
    if os.path.lexists(temporary):  # on a read-only file system, unlink fails even if the file is absent
        os.unlink(temporary)
    return temporary


def _flush_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_DENIED = {errno.EACCES, errno.EPERM}
_ROOT_DENIED = (
    "root is denied too: look for an immutable file (lsattr), at SELinux, and at the container's capabilities"
)
_REMEDIES = {
    errno.EACCES: "run as root",
    errno.EPERM: "run as root, or check whether the file is immutable (lsattr)",
    errno.EROFS: "remount it writable",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.ELOOP: "the path is a link: remove it",
    errno.EISDIR: "the path is a directory: remove it",
    errno.ENOENT: "a part of the path is a link to a missing file or directory: remove that link",
    errno.ENOTDIR: "a part of the path is not a directory: remove that file",
    errno.EAGAIN: "another program has a lease on it (lslocks)",
    errno.EFBIG: "remove it",
}


_IN_THE_WAY = {errno.EISDIR, errno.ENOENT, errno.ENOTDIR, errno.EPERM}


def _file_error(verb: str, path: str, error: OSError) -> HostError:
    remedy = _REMEDIES.get(error.errno or 0, "nothing was changed there")
    if isinstance(error, _NotAFile):
        remedy = "remove it"
    elif error.errno in _DENIED and not os.geteuid():
        remedy = _ROOT_DENIED
    # If the error concerns another path, such as the temporary file or a folder, the message names that one.
    elsewhere = error.errno in _IN_THE_WAY and error.filename not in {None, path} and error.filename2 is None
    other = f"{error.filename}: " if elsewhere else ""
    reason = f"{other}{error.strerror}; {remedy}"
    return HostError(f"cannot {verb} {path}: {reason}", what="file", target=path, errno=error.errno)
