"""Linux, by way of netlink. Here: how its messages become values and values its messages; no decision about routes.

From the bottom:

    numbers         the kernel's, under the kernel's names
    messages        what all messages have in common
    sockets         a socket, in the namespace that is meant
    channel         questions out and answers in on one
    route_message   the theory of a message about a route; routes of messages, and messages of routes
    lists           the question for each list; devices, addresses, settings and rules of messages
    route_list      many routes at a time
    nexthops        next hop objects, by pyroute2, which is loaded here only
    devices         devices by name and number
    attached        what is attached to devices where packets come in
    watching        hearing of changes
    reading         snapshots
    lookups         what the kernel would do
    changing        changes, with an outcome for each
    backend         the whole
"""

from hostrouting.backends.netlink.backend import NetlinkBackend

__all__ = ["NetlinkBackend"]
