"""Linux, by netlink. Here: converting its messages to values and back. Not here: decisions about routes.

From the bottom:

    numbers         numbers of the kernel's interface, under the kernel's names
    messages        the common parts of all messages
    sockets         a socket, in the right namespace
    channel         requests and replies on one socket
    route_message   the format of a route message; routes from messages, and messages from routes
    lists           the request for each list; devices, addresses, settings and rules from messages
    route_list      many routes at a time
    nexthops        next hop objects, by pyroute2, which is loaded only here
    devices         devices by name and number
    attached        programs and filters attached to devices for incoming packets
    watching        listening for changes
    reading         snapshots
    lookups         what the kernel would do
    changing        changes, with an outcome for each
    backend         the NetlinkBackend class
"""

from hostrouting.kernel.netlink.backend import NetlinkBackend

__all__ = ["NetlinkBackend"]
