"""The files of a host, and the lock on it: written whole or not at all, and only when they differ.

Here: how a file comes to be what it should. Not here: which files a host needs (`tasks`), and their text (`render`).
The double is `hostrouting.testing.FakeFiles`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Protocol

from hostrouting.errors import FileError

__all__ = ["Files", "LocalFiles", "Lock", "lock_folder"]


class Files(Protocol):
    """The files of a host. Paths are absolute, as `HostLayout` gives them. FileError names the path and the remedy."""

    def read(self, path: str) -> str | None:
        """The text of a file; None when there is none."""
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

    def modified(self, path: str) -> float | None:
        """When the file was last written, in seconds since 1970; None where there is none, or nobody knows."""
        ...

    def try_lock(self, path: str) -> Lock | None:
        """Take the lock of this file without waiting; None when somebody else holds it. Goes with its process."""
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
            # What is no text is not what we wrote; the rest of it says whose it is.
            with open(path, encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _file_error("read", path, error) from error

    def holds(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _file_error("read", path, error) from error
        # Root runs what is in some of them: nobody else is to own one. Whoever merely looks may be anybody.
        is_own = found.st_uid in {0, os.geteuid()}
        is_like = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == mode
        return is_own and is_like and self.read(path) == text

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        if os.path.islink(path):
            target = os.readlink(path)
            what = "the unit is masked: systemctl unmask it" if target == "/dev/null" else "remove the link"
            raise FileError(f"{path} is a link to {target}, and nothing is written through a link; {what}", path=path)
        if self.holds(path, text, mode=mode):
            return False
        try:
            _make_folder(os.path.dirname(path))
            _write_whole(path, text.encode("utf-8"), mode)
        except OSError as error:
            raise _file_error("write", path, error) from error
        return True

    def leads(self, path: str, target: str) -> bool:
        """See Files."""
        try:
            return os.readlink(path) == target
        except OSError:
            return False  # there is none, or it is no link

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
            os.unlink(path)
            _flush_folder(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _file_error("remove", path, error) from error
        return True

    def is_there(self, path: str) -> bool:
        """See Files."""
        return os.path.lexists(path)

    def modified(self, path: str) -> float | None:
        """See Files."""
        try:
            return os.stat(path).st_mtime
        except OSError:
            return None

    def try_lock(self, path: str) -> Lock | None:
        """See Files."""
        try:
            _make_folder(os.path.dirname(path))
        except OSError as error:
            raise _file_error("lock", path, error) from error
        return _try_lock(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode=0o600)


def lock_folder(path: str) -> Lock | None:
    """Take the lock of a folder, as `Files.try_lock` does that of a file; FileError where there is none."""
    return _try_lock(path, os.O_RDONLY | os.O_DIRECTORY, mode=None)


def _try_lock(path: str, flags: int, *, mode: int | None) -> Lock | None:
    import fcntl  # noqa: PLC0415  not on every system, where all but the lock is of use

    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, mode or 0)
    except OSError as error:
        raise _file_error("lock", path, error) from error
    try:
        if mode is not None:
            os.fchmod(descriptor, mode)  # whoever can open it can hold it, and everybody waits
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return _LocalLock(descriptor)


class _LocalLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """See Lock."""
        os.close(self._descriptor)


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
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(temporary)
    return temporary


def _flush_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _file_error(verb: str, path: str, error: OSError) -> FileError:
    remedy = {
        errno.EACCES: "run as root",
        errno.EPERM: "run as root, or look whether the file is immutable (lsattr)",
        errno.EROFS: "remount it writable",
        errno.ENOSPC: "make room",
        errno.EDQUOT: "make room",
        errno.ELOOP: "there is a link in its place: remove it",
        errno.EISDIR: "there is a folder in its place: remove it",
    }.get(error.errno or 0, "nothing was changed there")
    return FileError(f"cannot {verb} {path}: {error.strerror}; {remedy}", path=path, errno=error.errno)
