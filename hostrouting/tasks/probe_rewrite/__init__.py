"""Load-balancer probes over IPv6: the rules and the route that let probes reach the pods, and what can block them.

How it works. Azure's load balancer sends its IPv6 probes from a link-local address. Linux does not forward packets from
such an address: it replies "beyond scope of source address". So a service whose backends are pods, or are on other
nodes, never receives a probe. Two stateless rules solve this, with a global address that is reserved for it:

- Before routing (and before connection tracking, which is at priority -200), the source of a probe is changed to the
  global address. From then on it is an ordinary packet: it is routed, translated and tracked like any other.
- After routing, if a packet to the global address leaves by the uplink, its destination is changed to the link-local
  address.

A route to the global address sends the replies to the uplink. The neighbour is resolved after the second rule, so the
host asks for the link-local address, and the load balancer answers.

The router sends its own packets from the same link-local address: its advertisements install the default route. So
packets that stay on the link are not changed (a link-local or multicast destination, neighbour discovery, MLD).

rules    the rules and the route that are wanted, the changes that install them, and what keeps them from working
task     RewriteProbeSource
"""

from importlib import import_module

TYPE_CHECKING = False  # as in `hostrouting`
if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["rules"]


def __getattr__(name: str) -> "ModuleType":
    """Load `rules` when it is first used: with nftables, that takes 7 ms, and few hosts have a probe rewrite."""
    if name == "rules":
        return import_module(f"{__name__}.rules")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
