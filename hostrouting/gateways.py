"""Whether Linux accepts a gateway: the lookup that it does before it adds a route.

Here: the kernel's lookup of the gateway of an IPv4 route in table main. Not here: which gateway a route should have,
and what is missing while there is none (`uplink`).

The kernel looks up the gateway with the policy rules, like a packet of a socket that is bound to the route's device,
and only among routes with scope link or narrower. If a rule refuses such packets, the kernel refuses the route.
"""

import attrs

from hostrouting.fib import PLAIN, Decision, Fib
from hostrouting.model import IPV4, SCOPE_LINK, NextHop, Prefix, Snapshot, width_of

__all__ = ["refused_gateway"]


def refused_gateway(fib: Fib, leg: NextHop) -> Decision | None:
    """The decision because of which Linux refuses this gateway; None if it accepts it, or has nothing to look up."""
    gateway = leg.gateway
    if gateway is None or gateway.version != IPV4 or leg.onlink or leg.dev is None:
        return None
    around = [Prefix.around(IPV4, int(gateway), length) for length in range(width_of(IPV4) + 1)]
    # A lost carrier makes no difference to this lookup, though Linux may list the next hop as dead.
    links = tuple(attrs.evolve(link, ignore_routes_with_linkdown=False) for link in fib.snapshot.links)
    up = {link.name for link in links if link.up}
    near = [
        attrs.evolve(route, legs=tuple(attrs.evolve(it, dead=it.dead and it.dev not in up) for it in route.legs))
        for route in fib.snapshot.routes.only(family=IPV4, prefixes=around)
        if route.scope >= SCOPE_LINK
    ]
    neighbours = Fib(Snapshot(links=links, rules=fib.snapshot.rules, routes=near), merged=fib.merged)
    decision = neighbours.lookup(gateway, attrs.evolve(PLAIN, oif=leg.dev, ipproto=0))
    return None if decision.kind in {"unicast", "local"} else decision
