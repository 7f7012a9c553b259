"""Linux, by way of netlink. Here: how its messages become values and values its messages; no decision about routes.

From the bottom: `numbers` are the kernel's, `messages` has what all messages have in common; `sockets`
and `channel` carry them. `route_message` has the theory of a message about a route, and makes routes of
them and them of routes; `lists` asks for all that is listed and reads the rest, but for next hop objects, which
`nexthops` has pyroute2 read (the only module that loads it). Where a cost for each message would add up, `columns`,
`routedump`, `sorts` and `alike` look at many at a time. `reading`, `changing`, `lookups` and `watching` are one verb
each, with `disturbance`, `devices`, `standing` and `refusals` for what they have to find out besides; `backend` is the
whole.
"""

from hostrouting.backends.netlink.backend import NetlinkBackend

__all__ = ["NetlinkBackend"]
