"""The other edge: files, the lock, and the service manager. What a task decides is done here, and nothing is decided.

Files are written whole or not at all, and only when they differ. The manager is systemd, spoken to by systemctl with an
argument list and a time-out. Doubles of both are in `hostrouting.testing`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import attrs

from hostrouting.errors import FileError, ManagerError, UnitFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Files", "LocalFiles", "Lock", "Manager", "SystemdManager", "UnitState"]


class Files(Protocol):
    """The files of a host. Paths are absolute, as `HostLayout` gives them. FileError names the path and the remedy."""

    def read(self, path: str) -> str | None:
        """The text of a file; None when there is none."""
        ...

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """Make the file be this text; False, and not even its times are touched, when it is already.

        Whole or not at all, also when the machine loses power in between. Folders that are missing are made. A link in
        the file's place is refused: it may be a unit that an administrator masked, or planted by somebody.
        """
        ...

    def link(self, path: str, target: str) -> bool:
        """Make the path be a symbolic link to the target; False when it is already."""
        ...

    def remove(self, path: str) -> bool:
        """Remove the file or link, and its folder when that is left empty and ours alone; False when there was none."""
        ...

    def is_there(self, path: str) -> bool:
        """Whether there is a file or link at the path, wherever a link leads."""
        ...

    def try_lock(self, path: str) -> Lock | None:
        """Take the lock of this file without waiting; None when somebody else holds it. Goes with its process."""
        ...


class Lock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Let others have it."""


@attrs.frozen
class UnitState:
    """What the manager knows of a unit, in systemd's own words."""

    load: str
    active: str
    result: str = "success"
    status: int = 0
    invocation: str = ""

    @property
    def ok(self) -> bool:
        """Whether its last run ended well."""
        return self.result == "success" and self.status == 0


class Manager(Protocol):
    """A service manager. ManagerError when it does not answer."""

    def is_running(self) -> bool:
        """Whether there is one: not in an image, nor in most containers."""
        ...

    def reload(self) -> None:
        """Have it read the unit files anew."""
        ...

    def start(self, unit: str, *, timeout: float) -> None:
        """Start the unit and wait: of a oneshot, until it is done. UnitFailed has the reason and its own words."""
        ...

    def stop(self, unit: str) -> None:
        """Stop the unit; fine when it does not run, or is not there."""
        ...

    def state(self, unit: str) -> UnitState:
        """What it knows of the unit."""
        ...


class LocalFiles:
    """The files of this machine."""

    def read(self, path: str) -> str | None:
        """See Files."""
        try:
            with open(path, encoding="utf-8") as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError:
            return ""  # whatever it is, it is not what we wrote
        except OSError as error:
            raise _file_error("read", path, error) from error

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            found = None
        except OSError as error:
            raise _file_error("write", path, error) from error
        if found is not None and stat.S_ISLNK(found.st_mode):
            target = os.readlink(path)
            what = "the unit is masked: systemctl unmask it" if target == "/dev/null" else "remove the link"
            raise FileError(f"{path} is a link to {target}, and nothing is written through a link; {what}", path=path)
        if found is not None and stat.S_IMODE(found.st_mode) == mode and self.read(path) == text:
            return False
        try:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            _write_whole(path, text.encode("utf-8"), mode)
        except OSError as error:
            raise _file_error("write", path, error) from error
        return True

    def link(self, path: str, target: str) -> bool:
        """See Files."""
        try:
            with suppress(OSError):
                if os.readlink(path) == target:
                    return False
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            temporary = f"{path}.{os.getpid()}.new"
            os.symlink(target, temporary)
            os.replace(temporary, path)
        except OSError as error:
            raise _file_error("link", path, error) from error
        return True

    def remove(self, path: str) -> bool:
        """See Files."""
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _file_error("remove", path, error) from error
        return True

    def is_there(self, path: str) -> bool:
        """See Files."""
        return os.path.lexists(path)

    def try_lock(self, path: str) -> _LocalLock | None:
        """See Files."""
        import fcntl  # noqa: PLC0415  not on every system, where all but the lock is of use

        try:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise _file_error("lock", path, error) from error
        try:
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


def _write_whole(path: str, data: bytes, mode: int) -> None:
    # Beside the file, so that the rename stays within one file system; flushed before it, so that a loss of power
    # leaves the old text or the new one and never an empty file.
    temporary = f"{path}.{os.getpid()}.new"
    with suppress(FileNotFoundError):
        os.unlink(temporary)
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
    with _opened(os.path.dirname(path)) as folder:
        os.fsync(folder)


@contextmanager
def _opened(folder: str) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _file_error(verb: str, path: str, error: OSError) -> FileError:
    remedy = {
        errno.EACCES: "run as root",
        errno.EPERM: "run as root, or look whether the file is immutable (lsattr)",
        errno.EROFS: "the file system is read-only: remount it writable, or write into an image with Host.offline",
        errno.ENOSPC: "the disk is full: make room",
        errno.EDQUOT: "the quota is used up: make room",
        errno.ELOOP: "there is a link in its place: remove it",
        errno.EISDIR: "there is a folder in its place: remove it",
    }.get(error.errno or 0, "nothing was changed there")
    return FileError(f"cannot {verb} {path}: {error.strerror}; {remedy}", path=path, errno=error.errno)


class SystemdManager:
    """The systemd of this machine."""

    def __init__(self, *, timeout: float = 30.0) -> None:
        """Wait so many seconds for an answer."""
        self._timeout = timeout

    def is_running(self) -> bool:
        """See Manager. SYSTEMD_OFFLINE and a missing manager make systemctl succeed without doing anything."""
        return os.path.isdir("/run/systemd/system")

    def reload(self) -> None:
        """See Manager."""
        self._ask("daemon-reload")

    def start(self, unit: str, *, timeout: float) -> None:
        """See Manager."""
        # Of a oneshot that another installer had remain active, a start would be a silent no-op.
        verb = "restart" if self.state(unit).active == "active" else "start"
        try:
            code, words = self._run(verb, unit, timeout=timeout)
        except ManagerError:
            # Ending a systemctl that waits does not cancel the job.
            with suppress(ManagerError):
                self.stop(unit)
            raise
        if code:
            state = self.state(unit)
            raise UnitFailed(unit, result=state.result, status=state.status, words=self._journal(state) or (words,))

    def stop(self, unit: str) -> None:
        """See Manager."""
        code, words = self._run("stop", unit)
        if code not in {0, 5}:  # 5: there is no such unit
            raise ManagerError(f"systemctl stop {unit}: {words}")

    def state(self, unit: str) -> UnitState:
        """See Manager."""
        names = {
            "LoadState": "load",
            "ActiveState": "active",
            "Result": "result",
            "ExecMainStatus": "status",
            "InvocationID": "invocation",
        }
        text = self._ask("show", "--property", ",".join(names), unit)
        found = dict(line.partition("=")[::2] for line in text.splitlines())
        known = {field: found[name] for name, field in names.items() if found.get(name)}
        return UnitState(
            load=known.get("load", "not-found"),
            active=known.get("active", "inactive"),
            result=known.get("result", "success"),
            status=int(known.get("status", 0)),
            invocation=known.get("invocation", ""),
        )

    def _journal(self, state: UnitState) -> tuple[str, ...]:
        """The unit's own words in the run that failed."""
        if not state.invocation:
            return ()
        import subprocess  # noqa: PLC0415  only where there is a manager

        query = ["journalctl", "--no-pager", "--quiet", "--output=cat", "--lines=20"]
        try:
            done = subprocess.run(  # noqa: S603  an argument list, no shell
                [*query, f"_SYSTEMD_INVOCATION_ID={state.invocation}"],
                capture_output=True,
                text=True,
                errors="backslashreplace",
                timeout=self._timeout,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return ()
        return tuple(line for line in done.stdout.splitlines() if line.strip())

    def _ask(self, *words: str) -> str:
        code, text = self._run(*words)
        if code:
            raise ManagerError(f"systemctl {' '.join(words)}: {text or f'exit code {code}'}")
        return text

    def _run(self, *words: str, timeout: float | None = None) -> tuple[int, str]:
        import subprocess  # noqa: PLC0415  only where there is a manager

        limit = self._timeout if timeout is None else timeout
        try:
            done = subprocess.run(  # noqa: S603  an argument list, no shell
                ["systemctl", "--no-ask-password", "--no-pager", *words],  # noqa: S607  the one of this system
                capture_output=True,
                text=True,
                errors="backslashreplace",
                timeout=limit,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError as error:
            raise ManagerError(
                "there is no systemctl here; install systemd, or use Host.offline for an image"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise ManagerError(
                f"systemctl {' '.join(words)} did not answer within {limit:g} s; look at `systemctl list-jobs`"
            ) from error
        except OSError as error:
            raise ManagerError(f"systemctl cannot be run: {error.strerror}") from error
        return done.returncode, (done.stderr or done.stdout).strip() if done.returncode else done.stdout
