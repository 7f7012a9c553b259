"""The files of a host, and the lock on it: written whole or not at all, and only when they differ.

Here: how a file comes to be what it should. Not here: which files a host needs (`tasks`), and their text (`render`).
The double is `hostrouting.testing.FakeFiles`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from hostrouting.errors import FileError
from hostrouting.opening import NotAFile, kind_of, open_file, require_file

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Files", "LocalFiles", "Lock", "holder_of", "holders_of", "lock_file"]

_LIMIT = 256 * 1024 * 1024  # bytes; a script with the routes of the largest configuration has less than half of it
_CHUNK = 1024 * 1024
_NULL = os.makedev(1, 3)  # /dev/null


# The errors with which a file system refuses a new file to everybody.
_NO_ROOM = {errno.EROFS, errno.ENOSPC, errno.EDQUOT}


class Files(Protocol):
    """The files of a host. Paths are absolute, as `HostLayout` gives them. FileError names the path and the remedy.

    Nothing here waits for anybody. A fifo, a socket, a device or a folder in the place of a file is a FileError; only
    `remove` takes all but the folder away, and `is_there` and `modified` answer.
    """

    def read(self, path: str) -> str | None:
        """The text of a file, as it is; None when there is none. A link to /dev/null leads to an empty one."""
        ...

    def holds(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """Whether the file is this text already, so that `write` would have nothing to do."""
        ...

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """Make the file be this text; False, and not even its times are touched, when it is already.

        Whole or not at all, also when the machine loses power in between. Folders that are missing are made. A link in
        the file's place is refused: it may be a unit that an administrator masked, or planted by somebody.
        """
        ...

    def leads(self, path: str, target: str) -> bool:
        """Whether the path is a symbolic link to the target already, so that `link` would have nothing to do."""
        ...

    def link(self, path: str, target: str) -> bool:
        """Make the path be a symbolic link to the target; False when it is already."""
        ...

    def remove(self, path: str) -> bool:
        """Remove the file or link; False when there was none."""
        ...

    def is_there(self, path: str) -> bool:
        """Whether there is a file or link at the path, wherever a link leads."""
        ...

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, sorted; none where there is no such folder."""
        ...

    def modified(self, path: str) -> float | None:
        """When the file was last written, in seconds since 1970; None where there is none, or nobody knows."""
        ...

    def is_frozen(self, path: str) -> bool:
        """Whether nobody can change what is at the path, for its file system is read-only."""
        ...

    def try_lock(self, path: str) -> Lock | None:
        """Take the lock of this file without waiting; None when another process holds it. Goes with its process.

        Only the user who runs this, and root, can hold it: a file that belongs to another user is a FileError.
        """
        ...

    def holder(self, path: str) -> str:
        """Who holds the lock of this file, in a clause: the processes, or the command that tells them."""
        ...

    def holders(self, path: str) -> tuple[str, ...]:
        """The processes that hold the lock of this file, as far as is known; takes no lock and makes no file."""
        ...

    def require_writable(self, folder: str) -> None:
        """FileError where no file can be made in the folder, as far as can be told without trying it.

        A folder that is missing counts as writable if it can be made.
        """
        ...


class Lock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Let others have it."""


class LocalFiles:
    """The files of this machine."""

    def read(self, path: str) -> str | None:
        """See Files."""
        try:
            # Bytes that are not text are not what we wrote; the rest of it says whose it is.
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
            require_file(path, found.st_mode)
            # Root runs what is in some of them: nobody else is to own one. Whoever merely looks may be anybody.
            is_own = found.st_uid in {0, os.geteuid()}
            is_like = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == mode
            return is_own and is_like and found.st_size == len(data) and _content(path) == data
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _file_error("read", path, error) from error

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        if os.path.islink(path):
            target = os.readlink(path)
            what = "the unit is masked: systemctl unmask it" if target == "/dev/null" else "remove the link"
            raise FileError(f"{path} is a link to {target}, and nothing is written through a link; {what}", path=path)
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
        except NotAFile as error:
            raise _file_error("link", path, error) from error
        except OSError:
            return False  # there is nothing, or a file

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
            raise _file_error("remove", path, NotAFile("a folder", path)) from error
        except OSError as error:
            raise _file_error("remove", path, error) from error
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

    def modified(self, path: str) -> float | None:
        """See Files."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return None if kind_of(found.st_mode) else found.st_mtime

    def is_frozen(self, path: str) -> bool:
        """See Files. Not where it is only this process that may not write, as in a sandbox: others may have written."""
        try:
            number = os.lstat(path).st_dev
            with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:
                return any(_is_read_only(line.split(), f"{os.major(number)}:{os.minor(number)}") for line in lines)
        except OSError:
            return False

    def try_lock(self, path: str) -> Lock | None:
        """See Files.

        The file is root's alone (0600) from the moment it is there, so that no other user can open it, and to hold a
        lock takes that. Nor may another user be able to replace the file: the folder is looked at as well.
        """
        folder = os.path.dirname(path)
        try:
            _make_folder(folder)
            _require_own_folder(folder, path)
        except OSError as error:
            if error.errno in _NO_ROOM:
                return _NoLock()
            raise _file_error("lock", path, error) from error
        return lock_file(path)

    def holder(self, path: str) -> str:
        """See Files."""
        return holder_of(path)

    def holders(self, path: str) -> tuple[str, ...]:
        """See Files."""
        return holders_of(path)

    def require_writable(self, folder: str) -> None:
        """See Files."""
        there = folder
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if number := _obstacle_in(there):
            raise _file_error("write into", folder, OSError(number, os.strerror(number), there))


def lock_file(path: str, *, passing: bool = False) -> Lock | None:
    """Take the lock of a file, as `Files.try_lock` does; one that is passing is removed when it is released.

    On a file system that is read-only or full nobody can make the file: where there is none, nobody holds it.
    """
    import fcntl  # noqa: PLC0415  not on every system, where all but the lock is of use

    try:
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise _file_error("lock", path, error) from error
        try:
            descriptor = open_file(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return _NoLock()
        except OSError as error:
            raise _file_error("lock", path, error) from error
    try:
        found = os.fstat(descriptor)
        if found.st_uid not in {0, os.geteuid()}:
            text = f"cannot lock {path}: it belongs to user {found.st_uid}, who could hold it for ever; remove it"
            raise FileError(text, path=path)  # noqa: TRY301  closed below, as after any other
        if stat.S_IMODE(found.st_mode) & 0o077:
            with suppress(OSError):  # on a file system that is read-only
                os.fchmod(descriptor, 0o600)  # whoever can open it can hold it, and everybody waits
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it before may have removed it since it was opened: then it is not the lock any more.
        if os.path.samestat(os.lstat(path), found):
            return _LocalLock(descriptor, path if passing else "")
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def holder_of(path: str) -> str:
    """Who holds the lock of the file, as `Files.holder` says it."""
    if holders := holders_of(path):
        return f"{' and '.join(holders)} {'have' if len(holders) > 1 else 'has'} locked {path}"
    return f"to see who has locked {path}: fuser {path}"


def holders_of(path: str) -> tuple[str, ...]:
    """The processes that hold the lock of the file, as `Files.holders` says it."""
    try:
        return tuple(f"process {pid} ({name})" for pid, name in _holders(os.stat(path)))
    except OSError:
        return ()


def _holders(found: os.stat_result) -> Iterator[tuple[int, str]]:
    """The processes that hold a lock of this file by flock, and their names."""
    with open("/proc/locks", encoding="ascii", errors="replace") as lines:
        # 1: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF
        locks = [line.split()[4:6] for line in lines if line.split()[1:2] == ["FLOCK"]]
    for pid, place in locks:
        number, _, inode = place.rpartition(":")
        if inode != str(found.st_ino):
            continue
        # What stat calls the device, the kernel's list may call by another number: btrfs, overlay.
        same = number == f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}" or _has_open(pid, found)
        with suppress(OSError):
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as stream:
                name = stream.read().strip()
            if same:
                yield int(pid), name if name.isprintable() else ascii(name)


def _has_open(pid: str, found: os.stat_result) -> bool:
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
        for it in descriptors:
            with suppress(OSError):
                if os.path.samestat(os.stat(it.path), found):
                    return True
    return False


def _obstacle_in(folder: str) -> int:
    """The errno with which the kernel would refuse to make a file in this folder; 0 if it would not."""
    try:
        found = os.statvfs(f"{folder}/.")
    except OSError as error:
        return error.errno or errno.EIO
    if found.f_flag & os.ST_RDONLY:
        return errno.EROFS
    if not os.access(folder, os.W_OK | os.X_OK):
        return errno.EACCES if os.geteuid() else errno.EPERM
    # A file system without limits says 0 for all of it.
    is_full = (found.f_blocks and not found.f_bfree) or (found.f_files and not found.f_ffree)
    return errno.ENOSPC if is_full else 0


def _is_read_only(mount: list[str], device: str) -> bool:
    """Whether a line of mountinfo is of this device, and says that its file system, not only the mount, is so."""
    return mount[2] == device and "ro" in mount[-1].split(",")


def _require_own_folder(folder: str, path: str) -> None:
    """FileError where another user could replace what is in the folder; who may not write there is told so later."""
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
    raise FileError(f"cannot lock {path}: {folder} {who}, who could take the lock away; {remedy}", path=path)


class _LocalLock:
    def __init__(self, descriptor: int, removed: str) -> None:
        self._descriptor = descriptor
        self._removed = removed

    def release(self) -> None:
        """See Lock."""
        # While it is held: whoever has opened it meanwhile finds that it is not there any more.
        with suppress(OSError):
            if self._removed:
                os.unlink(self._removed)
        os.close(self._descriptor)


class _NoLock:
    """What is held where nobody can lock anything, nor change it."""

    def release(self) -> None:
        """See Lock."""


def _content(path: str) -> bytes:
    """The bytes of a file, of which there may not be more than any of ours has."""
    found = os.stat(path)
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL:
        return b""
    descriptor = open_file(path)
    try:
        size = os.fstat(descriptor).st_size
        chunks = [os.read(descriptor, min(size + 1, _CHUNK))] if size <= _LIMIT else []
        while chunks and chunks[-1] and size <= _LIMIT:
            chunks.append(os.read(descriptor, _CHUNK))
            size = max(size, sum(map(len, chunks)))
    finally:
        os.close(descriptor)
    if size > _LIMIT:
        raise OSError(errno.EFBIG, f"it is larger than {_LIMIT >> 20} MiB, and not a file of ours")
    return b"".join(chunks)


def _require_replaceable(path: str) -> None:
    """NotAFile where something is that is neither a file nor a link."""
    with suppress(FileNotFoundError, NotADirectoryError):
        require_file(path, os.lstat(path).st_mode)


def _make_folder(path: str) -> None:
    # With those above it. Nobody but their owner may write into them, and everybody may look, whatever the umask.
    if os.path.isdir(path):
        return
    _make_folder(os.path.dirname(path))
    with suppress(FileExistsError):
        os.mkdir(path)
        os.chmod(path, 0o755)  # noqa: S103  as folders of the system are


def _write_whole(path: str, data: bytes, mode: int) -> None:
    # Beside the file, so that the rename stays within one file system; flushed before it, so that a loss of power
    # leaves the old text or the new one and never an empty file.
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


def _cleared(path: str) -> str:
    """The name by which the next file for this path is made, and nothing there: whoever was killed may have left it.

    One name is enough, since whoever writes holds the lock on the host.
    """
    temporary = f"{path}.new"
    if os.path.lexists(temporary):  # a file system that is read-only refuses to remove what is not there, too
        os.unlink(temporary)
    return temporary


def _flush_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_REMEDIES = {
    errno.EACCES: "run as root",
    errno.EPERM: "run as root, or look whether the file is immutable (lsattr)",
    errno.EROFS: "remount it writable",
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.ELOOP: "there is a link in its place: remove it",
    errno.EISDIR: "there is a folder in its place: remove it",
    errno.ENOTDIR: "something on the way to it is not a folder: remove that",
    errno.EAGAIN: "another program has a lease on it (lslocks)",
    errno.EFBIG: "remove it",
}


_IN_THE_WAY = {errno.EISDIR, errno.ENOTDIR, errno.EPERM}


def _file_error(verb: str, path: str, error: OSError) -> FileError:
    remedy = (
        "remove it" if isinstance(error, NotAFile) else _REMEDIES.get(error.errno or 0, "nothing was changed there")
    )
    # Where another path is in the way, such as the temporary one or a folder's, that is the one to look at.
    elsewhere = error.errno in _IN_THE_WAY and error.filename not in {None, path} and error.filename2 is None
    other = f"{error.filename}: " if elsewhere else ""
    return FileError(f"cannot {verb} {path}: {other}{error.strerror}; {remedy}", path=path, errno=error.errno)
