"""Another network namespace: found by name or path, and entered by a thread of its own that ends at once.

So neither the caller's process nor its thread ever leaves the namespace that it is in. A socket belongs for good to
the namespace in which it was made. No namespace is ever created here.
"""

from __future__ import annotations

import os
import threading
from io import FileIO
from typing import TYPE_CHECKING, TypeVar

from hostrouting.errors import BackendError, NetlinkUnavailable, NotPermitted

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["here", "inside", "open_namespace"]

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_NAMED = "/run/netns"  # where `ip netns` keeps those with a name


def here() -> tuple[int, int] | None:
    """Which namespace the calling thread is in; None where nobody can know."""
    try:
        found = os.stat("/proc/thread-self/ns/net")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_namespace(netns: str | os.PathLike[str]) -> FileIO:
    """An existing namespace, held open: by its path, or by its name as in `ip netns`."""
    text = os.fspath(netns)
    path = text if "/" in text else f"{_NAMED}/{text}"
    try:
        # Whatever else lies there, it is not waited for.
        return FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise NetlinkUnavailable(
            f"there is no network namespace {text!r}: {path}: {problem}; `ip netns` lists those that have a name",
            errno=getattr(error, "errno", None),
        ) from error


def inside(namespace: FileIO, make: Callable[[], T]) -> T:
    """What `make` returns when it is called in the namespace."""
    made: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            _enter(namespace)
            made.append(make())
        except BaseException as error:  # noqa: BLE001  raised again below, in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=work, name="hostrouting-netns")
    try:
        thread.start()
    except RuntimeError as error:
        raise BackendError(f"no thread can be started to enter the network namespace: {error}") from error
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _enter(namespace: FileIO) -> None:
    import ctypes  # noqa: PLC0415  few need it; os.setns is there from Python 3.12 on

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace.fileno(), _CLONE_NEWNET):
        number = ctypes.get_errno()
        text = os.strerror(number)
        if isinstance(OSError(number, text), PermissionError):
            raise NotPermitted("this process may not enter another network namespace", errno=number, kernel=text)
        raise NetlinkUnavailable("what was given is no network namespace", errno=number, kernel=text)
