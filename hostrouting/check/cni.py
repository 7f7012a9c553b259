"""The pod blocks of a host: the routes that refuse packets for them, which a CNI installs on purpose.

Here: which refusing routes each CNI installs, in one table with the place in its source, and which routes of a host are
of that kind. Not here: how other refusing routes are judged (`overlap`).

A CNI that gives a node a block of addresses often makes the node drop packets for addresses that no pod has. Without
that, such packets go to the router, which sends them back. The pods themselves have longer prefixes, by devices of the
CNI. So these routes are not escapes.

kube-router (protocol 17) and Antrea install unicast routes only. OVN-Kubernetes (protocol 85) has an unreachable
default route in the table of each VRF: that is not a pod block, so it has no row. BIRD also installs `unreachable`
where it has no route to the block of another node: those pods are lost, so that has no row either.
"""

from collections.abc import Iterable

import attrs

from hostrouting.fib import Fib
from hostrouting.model import REFUSING, Prefix, Route, RouteType, width_of

__all__ = ["CNI_ROUTES", "CniRoute", "PodBlocks", "is_like"]


@attrs.frozen
class CniRoute:
    """Refusing routes of one CNI; with a `dev`, only on a host that has a device of such a name."""

    cni: str
    protocols: frozenset[int]
    types: frozenset[RouteType]
    source: str
    single: bool = False  # for single addresses only
    dev: str = "*"


_BOOT, _KERNEL, _BIRD, _CALICO = 3, 2, 12, 80

CNI_ROUTES = (
    CniRoute(
        "Calico with BIRD",
        frozenset({_BIRD}),
        frozenset({"blackhole"}),
        "projectcalico/calico, confd/etc/calico/confd/templates/bird_ipam.cfg.template",
    ),
    CniRoute(
        "Calico's Felix",
        frozenset({_CALICO}),
        frozenset(REFUSING),
        "projectcalico/calico, felix/dataplane/linux/route_mgr.go (blackholeRoutes) and felix/routetable/defs.go",
    ),
    # The address of a pod that is gone (enable-unreachable-routes), until another one gets it.
    CniRoute(
        "Cilium",
        frozenset({_BOOT, _KERNEL}),
        frozenset({"unreachable"}),
        "cilium/cilium, pkg/datapath/linux/routing/routing.go (Delete)",
        single=True,
        dev="cilium_*",
    ),
    # The node's pod block (--ip-blackhole-route, since 0.27.1), without a protocol of its own.
    CniRoute(
        "Flannel",
        frozenset({_BOOT}),
        frozenset({"blackhole"}),
        "flannel-io/flannel, main.go (ip-blackhole-route)",
        dev="flannel*",
    ),
)


class PodBlocks:
    """The pod blocks of one host, within the checked CIDRs."""

    def __init__(self, fib: Fib, cidrs: tuple[Prefix, ...], allowed: tuple[str, ...]) -> None:
        """Take the host, the CIDRs that are checked, and the patterns of devices that may carry a part of them."""
        self._fib, self._cidrs, self._allowed = fib, cidrs, allowed
        # By id of the route; the route is stored too, so that its id stays valid.
        self._known: dict[int, tuple[Route, bool]] = {}

    def holds(self, route: Route) -> bool:
        """Whether the route refuses packets for one of this host's pod blocks.

        True for a route that a CNI adds, and for a route whose prefix contains a route by an allowed device. The prefix
        must be smaller than a checked CIDR: a route that refuses a whole CIDR, or more, affects other nodes too.
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
            inner.type == "unicast" and inner.legs and all(is_like(dev, self._allowed) for dev in inner.devs)
            for inner in self._fib.within(route.prefix, table=route.table)
        )

    def _is_left(self, route: Route, trace: CniRoute) -> bool:
        if route.protocol not in trace.protocols or route.type not in trace.types:
            return False
        if trace.single and route.prefix.length < width_of(route.prefix.family):
            return False
        return trace.dev == "*" or any(is_like(link.name, (trace.dev,)) for link in self._fib.snapshot.links)


def is_like(dev: str, patterns: Iterable[str]) -> bool:
    """Whether the name of a device matches one of these patterns."""
    from fnmatch import fnmatchcase  # noqa: PLC0415  loaded when the first stray device or route is seen

    return any(fnmatchcase(dev, pattern) for pattern in patterns)
