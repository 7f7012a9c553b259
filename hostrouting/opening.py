"""Opening a path without blocking, and only if it is a regular file.

Opening a fifo waits for the process at its other end, perhaps forever, and Python cannot handle a signal meanwhile;
opening a device may have side effects. So the type of the file is checked before it is opened, and again when it is
open, because it may have been replaced in between.

Here: this check, and the names of the file types. Not here: turning failures into messages (`system`).
"""

import errno
import os
import stat

__all__ = ["NotAFile", "kind_of", "open_file", "require_file"]

_AT_ONCE = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = (
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotAFile(OSError):  # noqa: N818  the name says what is wrong
    """The path is not a regular file; `kind` says what it is, such as "a fifo"."""

    def __init__(self, kind: str, path: str) -> None:
        """Build it like an OSError of the system, with a number, a text and the path."""
        self.kind = kind
        super().__init__(errno.EINVAL, f"there is {kind} in its place", path)


def kind_of(mode: int) -> str:
    """The name of the file type in this mode, such as "a fifo"; empty for a regular file and for a link."""
    return next((kind for is_one, kind in _KINDS if is_one(mode)), "")


def require_file(path: str, mode: int) -> None:
    """Raise NotAFile if the mode is neither that of a regular file nor that of a link."""
    if kind := kind_of(mode):
        raise NotAFile(kind, path)


def open_file(path: str, flags: int = os.O_RDONLY, *, fifo: bool = False) -> int:
    """Open the regular file at the path and return the descriptor; os.O_CREAT creates it with mode 0600.

    Raises NotAFile if it is not a regular file, and any other OSError of the system. If `fifo`, a fifo is accepted too:
    opening and reading it do not wait for its writer.
    """

    def require(mode: int) -> None:
        if not (fifo and stat.S_ISFIFO(mode)):
            require_file(path, mode)

    try:
        require(os.lstat(path).st_mode if flags & os.O_NOFOLLOW else os.stat(path).st_mode)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | _AT_ONCE, 0o600)
    try:
        require(os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
