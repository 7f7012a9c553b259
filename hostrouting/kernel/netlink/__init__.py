"""Routing on Linux over netlink: messages are converted to values and back.

From the bottom:

    socket    messages, the socket that carries them, and its errors
    numbers   numbers of the kernel's interface, and what an attribute's bytes mean
    host      devices, addresses, rules and settings
    routes    the codec of routes
    requests  changes of routes, and lookups
    lists     the list of all routes, and which of them are skipped
    watch     listening for changes
    backend   the class NetlinkBackend
"""

from hostrouting.kernel.netlink.backend import NetlinkBackend

__all__ = ["NetlinkBackend"]
