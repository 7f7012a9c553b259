"""Load-balancer probes over IPv6: the rules and the route that bring them to the pods, and what keeps them from it.

Theory of operation. Azure's load balancer sends its IPv6 probes from a link-local address, and Linux forwards no packet
from such an address: it answers "beyond scope of source address". So a service that has its backends on other nodes or
in pods never sees a probe. Two stateless rules mend it, with a global address that is set aside for this:

- Before routing (and before connection tracking, which is at priority -200), the source of a probe becomes the global
  address. From then on it is an ordinary packet: it is routed, translated and tracked like any other.
- After routing, what leaves by the uplink for the global address gets the link-local address back as its destination.

The reply finds its way to the uplink by a route to the global address. The neighbour is resolved after the second rule,
so the host asks for the link-local address, which the load balancer answers.

What the router itself sends comes from the same link-local address: its advertisements bring the default route. So
everything that stays on the link is left alone (a link-local or multicast destination, neighbour discovery, MLD).

wanted        the rules and the route that are wanted, and the way to them from what is there
hindrances    what about a host keeps them from working
record        what the kernel of this boot may have of them
"""

from typing import TYPE_CHECKING

import phases

if TYPE_CHECKING:
    from hostrouting.probe_rewrite.hindrances import (
        Hindrance,
        OwnAddress,
        Surroundings,
        find_hindrances,
        has_address,
        own_addresses,
    )
    from hostrouting.probe_rewrite.record import NotedRoute, Record
    from hostrouting.probe_rewrite.wanted import (
        RewritePlan,
        differences,
        is_ours,
        is_rewritten,
        plan_rewrite,
        wanted_route,
        wanted_table,
    )

__all__ = [
    # what is wanted, and the way there
    "RewritePlan",
    "differences",
    "is_ours",
    "is_rewritten",
    "plan_rewrite",
    "wanted_route",
    "wanted_table",
    # what keeps it from working
    "Hindrance",
    "OwnAddress",
    "Surroundings",
    "find_hindrances",
    "has_address",
    "own_addresses",
    # what the kernel may have
    "NotedRoute",
    "Record",
]

# A task that has nothing to rewrite loads none of them.
_HOMES = {
    "hindrances": (
        "Hindrance",
        "OwnAddress",
        "Surroundings",
        "find_hindrances",
        "has_address",
        "own_addresses",
    ),
    "record": ("NotedRoute", "Record"),
    "wanted": (
        "RewritePlan",
        "differences",
        "is_ours",
        "is_rewritten",
        "plan_rewrite",
        "wanted_route",
        "wanted_table",
    ),
}

if not TYPE_CHECKING:  # a type checker that saw it would believe any name
    __getattr__ = phases.lazily(__name__, _HOMES, globals())
