"""Whether Linux takes a gateway: what it asks itself before it makes a route.

Here: the lookup of the gateway that the kernel does for an IPv4 route in the table main. Not here: which gateway a
route should have, and what is missing while there is none (`uplink`).

The kernel looks the gateway up by the rules, as a packet of a socket that is bound to the route's device, and only
among routes that lead to neighbours (of scope link and nearer). A rule that refuses such packets refuses the route.
"""

import attrs

from hostrouting.fib import PLAIN, Decision, Fib
from hostrouting.model import IPV4, SCOPE_LINK, NextHop, Prefix, Snapshot, width_of

__all__ = ["refused_gateway"]


def refused_gateway(fib: Fib, leg: NextHop) -> Decision | None:
    """What decides against the gateway of a leg; None where Linux takes it, or there is nothing to ask."""
    gateway = leg.gateway
    if gateway is None or gateway.version != IPV4 or leg.onlink or leg.dev is None:
        return None
    around = [Prefix.around(IPV4, int(gateway), length) for length in range(width_of(IPV4) + 1)]
    near = [route for route in fib.snapshot.routes.only(family=IPV4, prefixes=around) if route.scope >= SCOPE_LINK]
    # That a carrier is lost makes no difference here.
    links = tuple(attrs.evolve(link, ignore_routes_with_linkdown=False) for link in fib.snapshot.links)
    neighbours = Fib(Snapshot(links=links, rules=fib.snapshot.rules, routes=near), merged=fib.merged)
    decision = neighbours.lookup(gateway, attrs.evolve(PLAIN, oif=leg.dev, ipproto=0))
    return None if decision.kind in {"unicast", "local"} else decision
