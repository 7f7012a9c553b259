"""Routes that refuse packets for a pod block of this host's own, and so are no escape.

Here: what each CNI leaves of that kind, with the place in its source, and which routes of a host are of it. Not here:
what is made of a route that is not (`overlap`), and which devices are a CNI's (`config.values`).

A CNI that gives a node a block of addresses often has the node drop what is for an address of it that no pod has: else
such packets go to the router, which sends them back. The pods themselves have longer prefixes, by devices of the CNI.

Nothing of the kind is known of kube-router (protocol 17) and of Antrea, which make unicast routes. OVN-Kubernetes
(protocol 85) has an unreachable default route in the table of each VRF: that is not a block, and counts as what it
says. BIRD also writes `unreachable` where it has no way to the block of another node: those pods are lost, and it
counts too.
"""

import attrs

from hostrouting.fib import Fib
from hostrouting.model import REFUSING, Prefix, Route, RouteType, width_of

__all__ = ["PodBlocks"]


@attrs.frozen
class _Trace:
    """The refusing routes that a CNI leaves; where there is a `dev`, only on a host that has such a device."""

    cni: str
    protocols: frozenset[int]
    types: frozenset[RouteType]
    source: str
    single: bool = False  # for single addresses only
    dev: str = "*"


_BOOT, _KERNEL, _BIRD, _CALICO = 3, 2, 12, 80

_TRACES = (
    _Trace(
        "Calico with BIRD",
        frozenset({_BIRD}),
        frozenset({"blackhole"}),
        "projectcalico/calico, confd/etc/calico/confd/templates/bird_ipam.cfg.template",
    ),
    _Trace(
        "Calico's Felix",
        frozenset({_CALICO}),
        frozenset(REFUSING),
        "projectcalico/calico, felix/dataplane/linux/route_mgr.go (blackholeRoutes) and felix/routetable/defs.go",
    ),
    # The address of a pod that is gone (enable-unreachable-routes), until another one gets it.
    _Trace(
        "Cilium",
        frozenset({_BOOT, _KERNEL}),
        frozenset({"unreachable"}),
        "cilium/cilium, pkg/datapath/linux/routing/routing.go (Delete)",
        single=True,
        dev="cilium_*",
    ),
    # The node's pod block (--ip-blackhole-route, since 0.27.1), without a protocol of its own.
    _Trace(
        "Flannel",
        frozenset({_BOOT}),
        frozenset({"blackhole"}),
        "flannel-io/flannel, main.go (ip-blackhole-route)",
        dev="flannel*",
    ),
)


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
        return any(self._is_left(route, trace) for trace in _TRACES) or any(
            inner.type == "unicast" and inner.legs and all(map(self._is_allowed, inner.devs))
            for inner in self._fib.within(route.prefix, table=route.table)
        )

    def _is_left(self, route: Route, trace: _Trace) -> bool:
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
