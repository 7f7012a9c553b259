"""Linux, by way of netlink. Here: how its messages become values and values its messages; no decision about routes.

From the bottom: `numbers` are the kernel's, `codec` is pyroute2 (the only module that loads it), `framing` tells
messages apart and `attributes` what is in them, `sockets`, `namespaces` and `channel` carry them; `decode`,
`selectors`, `routes` and `encode` make values of them, and them of values; `questions` are asked. Where a cost for
each message would add up, `lean`, `routedump`, `sorts`, `alike` and `templates` do the same at the speed of `struct`.
`reading`, `changing`, `lookups` and `watching` are one verb each, with `disturbance`, `devices`, `standing` and
`refusals` for what they have to find out besides; `backend` is the whole.
"""

from hostrouting.backends.netlink.backend import NetlinkBackend

__all__ = ["NetlinkBackend"]
