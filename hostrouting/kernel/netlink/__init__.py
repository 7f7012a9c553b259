"""Routing on Linux, by netlink. Here: converting its messages to values and back. Not here: decisions about routes.

From the bottom:

    socket    messages, and the socket that carries them
    routes    the codec of routes: lists, changes and lookups
    host      devices, addresses, rules and settings
    watch     listening for changes
    backend   the class NetlinkBackend
"""

from hostrouting.kernel.netlink.backend import NetlinkBackend

__all__ = ["NetlinkBackend"]
