"""Routing on Linux, by netlink. Here: converting its messages to values and back. Not here: decisions about routes.

From the bottom:

    numbers         numbers of the kernel's interface, under the kernel's names
    channel         messages, the socket that carries them, and the namespace that it is in
    route_message   a route as a message, and back
    watch           listening for changes
    keep            what was read, kept until it changes
    read            what the kernel lists: devices, addresses, rules and routes, one by one or as a snapshot
    change          changes of routes, with an outcome for each
    lookup          what the kernel would do with a packet
    backend         the class NetlinkBackend
"""

from hostrouting.kernel.netlink.backend import NetlinkBackend

__all__ = ["NetlinkBackend"]
