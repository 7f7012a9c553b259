"""Opening a netlink socket: in the namespace of the calling thread, or in another one.

Another namespace is found by its name or path. A separate thread enters it and ends at once, so neither the caller's
process nor its thread ever leaves its namespace. A socket stays in the namespace in which it was created. No namespace
is ever created here.
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

__all__ = ["as_backend_error", "here", "inside", "namespace_path", "open_namespace", "open_socket", "why_not_opened"]

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_NAMED = "/run/netns"  # where `ip netns` keeps named namespaces
# Requested sizes; an unprivileged process is limited by net.core.rmem_max and wmem_max.
_RECEIVE, _SEND = 1 << 22, 1 << 17
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33


def open_socket(groups: int = 0, *, protocol: int = n.NETLINK_ROUTE, buffer: int = _RECEIVE) -> socket.socket:
    """A netlink socket, joined to the groups of its protocol, in the namespace of the calling thread."""
    try:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    except AttributeError as error:
        raise NetlinkUnavailable(
            "netlink does not exist on this system; reading and changing routes requires Linux"
        ) from error
    except OSError as error:
        raise why_not_opened(error) from error
    try:
        _set_buffer(made, _SO_RCVBUFFORCE, socket.SO_RCVBUF, buffer)
        _set_buffer(made, _SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND)
        # An old kernel may lack some of these; that only affects error texts and speed.
        for option in (n.NETLINK_EXT_ACK, n.NETLINK_CAP_ACK, n.NETLINK_GET_STRICT_CHK):
            with suppress(OSError):
                made.setsockopt(n.SOL_NETLINK, option, 1)
        made.bind((0, groups))
    except BaseException as error:
        made.close()
        if isinstance(error, OSError):
            raise why_not_opened(error) from error
        raise
    return made


def _set_buffer(made: socket.socket, forced: int, limited: int, size: int) -> None:
    """Set the buffer size; if it cannot be forced, as large as the limit allows, or else unchanged."""
    try:
        made.setsockopt(socket.SOL_SOCKET, forced, size)
    except OSError:
        with suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, limited, size)


def why_not_opened(error: OSError) -> BackendError:
    """Why no socket could be opened."""
    number, words = error.errno, error.strerror or ""
    if number in {errno.EMFILE, errno.ENFILE}:
        who = "this process" if number == errno.EMFILE else "the host"
        return BackendError(f"{who} has too many open files, so no socket can be opened", errno=number, kernel=words)
    if number in {errno.ENOMEM, errno.ENOBUFS}:
        return BackendError("not enough memory to open a socket", errno=number, kernel=words)
    if isinstance(error, PermissionError):
        return NotPermitted(
            "a sandbox does not allow this process to open a netlink socket", errno=number, kernel=words
        )
    return NetlinkUnavailable(
        "netlink is not available: a sandbox forbids it, or the kernel was built without it",
        errno=number,
        kernel=words,
    )


def as_backend_error(error: OSError) -> BackendError:
    """Why an open socket failed."""
    words = error.strerror or str(error)
    if isinstance(error, PermissionError):
        return NotPermitted("this process may not use netlink", errno=error.errno, kernel=words)
    return BackendError("netlink failed", errno=error.errno, kernel=words)


def here() -> tuple[int, int] | None:
    """The namespace of the calling thread; None if it cannot be determined."""
    try:
        found = os.stat("/proc/thread-self/ns/net")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def namespace_path(netns: str | os.PathLike[str]) -> str:
    """The path of a namespace that is given by path or by its `ip netns` name."""
    text = os.fspath(netns)
    return text if "/" in text else f"{_NAMED}/{text}"


def open_namespace(netns: str | os.PathLike[str]) -> FileIO:
    """An existing namespace, held open: by its path, or by its `ip netns` name."""
    text, path = os.fspath(netns), namespace_path(netns)
    try:
        # Do not block, whatever kind of file this is.
        return FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except (OSError, ValueError) as error:
        problem = f"{path}: {error.strerror}" if isinstance(error, OSError) else "a path cannot contain a null byte"
        raise NetlinkUnavailable(
            f"network namespace {text!r} does not exist: {problem}; `ip netns` lists the named ones",
            errno=getattr(error, "errno", None),
        ) from error


def inside(namespace: FileIO, make: Callable[[], T]) -> T:
    """Call `make` in the namespace and return its result."""
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
        raise BackendError(f"cannot start a thread to enter the network namespace: {error}") from error
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _enter(namespace: FileIO) -> None:
    import ctypes  # noqa: PLC0415  rarely needed; os.setns exists from Python 3.12 on

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace.fileno(), _CLONE_NEWNET):
        number = ctypes.get_errno()
        text = os.strerror(number)
        if isinstance(OSError(number, text), PermissionError):
            raise NotPermitted("this process may not enter another network namespace", errno=number, kernel=text)
        raise NetlinkUnavailable("the given file is not a network namespace", errno=number, kernel=text)
