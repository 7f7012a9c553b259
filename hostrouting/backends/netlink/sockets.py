"""A netlink socket, opened as all of ours are."""

from __future__ import annotations

import socket
from contextlib import suppress

from hostrouting.backends.netlink import numbers as n
from hostrouting.errors import NetlinkUnavailable

__all__ = ["open_socket"]

# Asked for; what an unprivileged process gets is limited by net.core.rmem_max.
_BUFFER = 1 << 22
_SO_RCVBUFFORCE = 33


def open_socket(groups: int = 0, *, buffer: int = _BUFFER) -> socket.socket:
    """A netlink socket for routing, which hears the groups, in the namespace of the calling thread."""
    try:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    except AttributeError as error:
        raise NetlinkUnavailable("there is no netlink here: it takes Linux to read or change its routing") from error
    except OSError as error:
        raise NetlinkUnavailable(
            "netlink cannot be used here: a sandbox or a kernel without it keeps this process from routing",
            errno=error.errno,
            kernel=error.strerror or "",
        ) from error
    try:
        try:
            made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer)
        except PermissionError:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        # Which of them an old kernel lacks makes a difference for words and speed only.
        for option in (n.NETLINK_EXT_ACK, n.NETLINK_CAP_ACK, n.NETLINK_GET_STRICT_CHK):
            with suppress(OSError):
                made.setsockopt(n.SOL_NETLINK, option, 1)
        made.bind((0, groups))
    except BaseException:
        made.close()
        raise
    return made
