"""Opening a path at which anything may be: at once, and only a regular file.

To open a fifo waits for whoever has its other end, which may be for ever and past every signal that Python handles; to
open a device may do something. So what is there is looked at first, and again once it is open, for it may have been
replaced in between. Here: that, and the words for what is there. Not here: the errors that are made of it (`system`).
"""

import errno
import os
import stat

__all__ = ["NotAFile", "kind_of", "open_file", "require_file"]

_AT_ONCE = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = (
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotAFile(OSError):  # noqa: N818  reads as what is wrong
    """Something else is where a file belongs; `kind` is what, in words."""

    def __init__(self, kind: str, path: str) -> None:
        """Say it as the system says its own errors."""
        self.kind = kind
        super().__init__(errno.EINVAL, f"there is {kind} in its place", path)


def kind_of(mode: int) -> str:
    """What has this mode, in words; empty for a regular file, and for a link."""
    return next((kind for is_one, kind in _KINDS if is_one(mode)), "")


def require_file(path: str, mode: int) -> None:
    """NotAFile where what has this mode is neither a regular file nor a link."""
    if kind := kind_of(mode):
        raise NotAFile(kind, path)


def open_file(path: str, flags: int = os.O_RDONLY, *, fifo: bool = False) -> int:
    """A descriptor of the regular file at the path, which may be made with it (0600, by os.O_CREAT); else OSError.

    Where a fifo will do as well, it is opened without a wait for its writer, and does not block a read either.
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
