"""A netlink socket, opened as all of ours are: in the namespace of the calling thread, or in another one.

Another namespace is found by its name or path, and entered by a thread of its own that ends at once: so neither the
caller's process nor its thread ever leaves the namespace that it is in. A socket belongs for good to the namespace in
which it was made. No namespace is ever created here.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from contextlib import suppress
from io import FileIO
from typing import TYPE_CHECKING, TypeVar

from hostrouting.backends.netlink import numbers as n
from hostrouting.errors import BackendError, NetlinkUnavailable, NotPermitted

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["as_backend_error", "here", "inside", "namespace_path", "open_namespace", "open_socket"]

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_NAMED = "/run/netns"  # where `ip netns` keeps those with a name
# Asked for; what an unprivileged process gets is limited by net.core.rmem_max and wmem_max.
_RECEIVE, _SEND = 1 << 22, 1 << 17
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33


def open_socket(groups: int = 0, *, buffer: int = _RECEIVE) -> socket.socket:
    """A netlink socket for routing, which hears the groups, in the namespace of the calling thread."""
    try:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    except AttributeError as error:
        raise NetlinkUnavailable("there is no netlink here: it takes Linux to read or change its routing") from error
    except OSError as error:
        raise _refused(error) from error
    try:
        _set_buffer(made, _SO_RCVBUFFORCE, socket.SO_RCVBUF, buffer)
        _set_buffer(made, _SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND)
        # Which of them an old kernel lacks makes a difference for words and speed only.
        for option in (n.NETLINK_EXT_ACK, n.NETLINK_CAP_ACK, n.NETLINK_GET_STRICT_CHK):
            with suppress(OSError):
                made.setsockopt(n.SOL_NETLINK, option, 1)
        made.bind((0, groups))
    except BaseException as error:
        made.close()
        if isinstance(error, OSError):
            raise _refused(error) from error
        raise
    return made


def _set_buffer(made: socket.socket, forced: int, limited: int, size: int) -> None:
    """A buffer of this size; where it cannot be forced, as much of it as there may be, and else as it is."""
    try:
        made.setsockopt(socket.SOL_SOCKET, forced, size)
    except OSError:
        with suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, limited, size)


def _refused(error: OSError) -> BackendError:
    """Why there is no socket."""
    number, words = error.errno, error.strerror or ""
    if number in {errno.EMFILE, errno.ENFILE}:
        who = "this process" if number == errno.EMFILE else "the host"
        return BackendError(f"{who} has too many files open for another socket", errno=number, kernel=words)
    if number in {errno.ENOMEM, errno.ENOBUFS}:
        return BackendError("there is no memory left for a socket", errno=number, kernel=words)
    if isinstance(error, PermissionError):
        return NotPermitted("a sandbox keeps this process from netlink", errno=number, kernel=words)
    return NetlinkUnavailable(
        "netlink cannot be used here: a sandbox or a kernel without it keeps this process from routing",
        errno=number,
        kernel=words,
    )


def as_backend_error(error: OSError) -> BackendError:
    """Why a socket that was open does not do its work."""
    words = error.strerror or str(error)
    if isinstance(error, PermissionError):
        return NotPermitted("this process may not speak netlink", errno=error.errno, kernel=words)
    return BackendError("netlink failed", errno=error.errno, kernel=words)


def here() -> tuple[int, int] | None:
    """Which namespace the calling thread is in; None where nobody can know."""
    try:
        found = os.stat("/proc/thread-self/ns/net")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def namespace_path(netns: str | os.PathLike[str]) -> str:
    """Where a namespace is, of which the path is given or the name as in `ip netns`."""
    text = os.fspath(netns)
    return text if "/" in text else f"{_NAMED}/{text}"


def open_namespace(netns: str | os.PathLike[str]) -> FileIO:
    """An existing namespace, held open: by its path, or by its name as in `ip netns`."""
    text, path = os.fspath(netns), namespace_path(netns)
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
