"""A netlink socket, opened as all of ours are."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

from hostrouting.backends.netlink import numbers as n
from hostrouting.errors import BackendError, NetlinkUnavailable, NotPermitted

__all__ = ["as_backend_error", "open_socket"]

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
