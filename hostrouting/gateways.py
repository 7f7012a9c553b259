"""Whether Linux accepts a gateway: the lookup that it does before it adds a route.

Here: the kernel's lookup of the gateway of a route in table main. Not here: which gateway a route should have, and what
is missing while there is none (`uplink`).

In IPv4 the kernel looks up the gateway with the policy rules, like a packet of a socket that is bound to the route's
device, and only among routes with scope link or narrower. If a rule refuses such packets, the kernel refuses the route.

In IPv6 it first looks only into table main, then with the policy rules. The second lookup ignores suppress_prefixlength
and suppress_ifgroup, and `iif lo` never matches. One of the two must find a route by the device without a gateway. A
link-local gateway is not looked up.
"""

import attrs

from hostrouting.fib import PLAIN, Decision, Fib
from hostrouting.model import (
    IP,
    IPV4,
    IPV6,
    PATHLESS,
    SCOPE_LINK,
    TABLE_MAIN,
    NextHop,
    Prefix,
    Route,
    Rule,
    Snapshot,
    width_of,
)
from hostrouting.reserved import LINK_LOCAL

__all__ = ["refused_gateway"]


def refused_gateway(fib: Fib, leg: NextHop) -> Decision | None:
    """The decision because of which Linux refuses this gateway; None if it accepts it, or has nothing to look up."""
    gateway = leg.gateway
    if gateway is None or leg.onlink or leg.dev is None or gateway in LINK_LOCAL:
        return None
    return _refused_ipv4(fib, gateway, leg.dev) if gateway.version == IPV4 else _refused_ipv6(fib, gateway, leg.dev)


def _refused_ipv4(fib: Fib, gateway: IP, dev: str) -> Decision | None:
    near = [it for it in _around(fib, gateway) if it.scope >= SCOPE_LINK]
    neighbours = Fib(_with_carriers(attrs.evolve(fib.snapshot, routes=near)), merged=fib.merged)
    decision = neighbours.lookup(gateway, attrs.evolve(PLAIN, oif=dev, ipproto=0))
    return None if decision.kind in {"unicast", "local"} else decision


def _refused_ipv6(fib: Fib, gateway: IP, dev: str) -> Decision | None:
    flow = attrs.evolve(PLAIN, iif="", oif=dev, ipproto=0)
    main = Rule(family=IPV6, priority=0, table=TABLE_MAIN)
    alone = attrs.evolve(fib.snapshot, rules=(main,), routes=_around(fib, gateway, table=TABLE_MAIN))
    if _is_beside(Fib(_with_carriers(alone)).lookup(gateway, flow), dev):
        return None
    rules = tuple(attrs.evolve(rule, suppress_prefixlength=None, suppress_ifgroup=None) for rule in fib.snapshot.rules)
    unsuppressed = fib if rules == fib.snapshot.rules else Fib(attrs.evolve(fib.snapshot, rules=rules))
    decision = unsuppressed.lookup(gateway, flow)
    return None if _is_beside(decision, dev) else decision


def _around(fib: Fib, gateway: IP, *, table: int | None = None) -> list[Route]:
    """The routes that match the gateway, of one table or of all."""
    family = gateway.version
    around = [Prefix.around(family, int(gateway), length) for length in range(width_of(family) + 1)]
    # By the prefixes alone, so that only these routes are created.
    return [route for route in fib.snapshot.routes.only(prefixes=around) if table in {None, route.table}]


def _with_carriers(snapshot: Snapshot) -> Snapshot:
    """The host as this lookup sees it.

    A lost carrier makes no difference, though Linux may list the next hop as dead.
    """
    up = {link.name for link in snapshot.links if link.up}
    links = tuple(
        attrs.evolve(link, ignore_routes_with_linkdown=False, ipv6_ignore_routes_with_linkdown=False)
        for link in snapshot.links
    )
    routes = [
        attrs.evolve(route, legs=tuple(attrs.evolve(it, dead=it.dead and it.dev not in up) for it in route.legs))
        for route in snapshot.routes
    ]
    return attrs.evolve(snapshot, links=links, routes=routes)


def _is_beside(decision: Decision, dev: str) -> bool:
    """Whether it is a route by this device without a gateway, of any type that does not refuse packets."""
    legs = () if decision.route is None or decision.route.type in PATHLESS else decision.route.legs
    return any((leg.dev, leg.gateway) == (dev, None) for leg in legs)
