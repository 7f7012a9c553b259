"""Routes that refuse packets for a pod block of this host's own, and so are no escape.

Here: which routes of a host are of that kind. Not here: what each CNI installs (`cni_routes`), and what is made of a
route that is not (`overlap`).

A CNI that gives a node a block of addresses often has the node drop what is for an address of it that no pod has: else
such packets go to the router, which sends them back. The pods themselves have longer prefixes, by devices of the CNI.
"""

from hostrouting.cni_routes import CNI_ROUTES, CniRoute
from hostrouting.fib import Fib
from hostrouting.model import REFUSING, Prefix, Route, width_of

__all__ = ["PodBlocks"]


class PodBlocks:
    """The pod blocks of one host, within some CIDRs."""

    def __init__(self, fib: Fib, cidrs: tuple[Prefix, ...], allowed: tuple[str, ...]) -> None:
        """Take the host, the CIDRs that are checked, and the patterns of devices that may carry a part of them."""
        self._fib, self._cidrs, self._allowed = fib, cidrs, allowed
        # By the id of a route, which is kept with it.
        self._known: dict[int, tuple[Route, bool]] = {}

    def holds(self, route: Route) -> bool:
        """Whether the route refuses packets for a block of the host's own.

        It does where a CNI leaves such a route, or where a route by an allowed device leads into its prefix. That
        prefix must be a part of a CIDR: what refuses a whole one, or more, is about other nodes too.
        """
        known = self._known.get(id(route))
        if known is None:
            found = route.type in REFUSING and self._is_part(route) and self._is_block(route)
            known = self._known[id(route)] = route, found
        return known[1]

    def _is_part(self, route: Route) -> bool:
        return any(route.prefix in cidr and route.prefix != cidr for cidr in self._cidrs)

    def _is_block(self, route: Route) -> bool:
        return any(self._is_left(route, trace) for trace in CNI_ROUTES) or any(
            inner.type == "unicast" and inner.legs and all(map(self._is_allowed, inner.devs))
            for inner in self._fib.within(route.prefix, table=route.table)
        )

    def _is_left(self, route: Route, trace: CniRoute) -> bool:
        if route.protocol not in trace.protocols or route.type not in trace.types:
            return False
        if trace.single and route.prefix.length < width_of(route.prefix.family):
            return False
        return trace.dev == "*" or any(_is_like(link.name, trace.dev) for link in self._fib.snapshot.links)

    def _is_allowed(self, dev: str) -> bool:
        return any(_is_like(dev, pattern) for pattern in self._allowed)


def _is_like(dev: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase  # noqa: PLC0415  loaded when the first such route is seen

    return fnmatchcase(dev, pattern)
