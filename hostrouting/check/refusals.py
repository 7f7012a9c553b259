"""Ranges that a route refuses (blackhole, unreachable, prohibit): a CNI's own, in doubt, or lost.

A CNI refuses packets to those of its addresses that no pod has, so that they do not loop between
the node and its router. The table of CNIs has a row for each such route (`config.cni.Refusal`):
its protocol, its types and its lengths. A row alone proves nothing, because other programs use the
same protocols. So a device of the CNI has to be there, and a proof that the range is the CNI's.

The rules, in the order in which they are asked:

1. In the networks of services, every refusal is an escape, because no CNI's block is there. Field
   states: calico-services-refused-and-named, refused-by-configured-services.
2. A row of the table fits, and the CNI is proven: fine. With only a trace of the CNI: in doubt.
3. No row fits, but a pod's address lies inside a range that is not wider than a node's block: in
   doubt, because a CNI that is not known may have made it.
4. Everything else is an escape.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from hostrouting.check.devices import Devices
from hostrouting.check.results import DOUBTFUL_ROUTE, POD_BLOCK, Grade, Opinion
from hostrouting.config.cni import CNIS, Cni, Refusal
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route

_SHORTEST_POD_BLOCK = {4: 20, 6: 64}
"""By family: the shortest prefix that may be a block of pods of a CNI that is not known."""


class Refusals(NamedTuple):
    """Judges the routes of one host that refuse packets."""

    fib: Fib
    devices: Devices
    uplinks: Collection[str]
    """The expected devices."""
    services: tuple[Prefix, ...]

    def opinion(self, route: Route) -> Opinion:
        """What is to be said of packets that this route refuses."""
        escape = Opinion(Grade.ESCAPE, route.type)
        if any(route.prefix.overlaps(services) for services in self.services):
            return escape
        inside = list(self._inside(route))
        for cni, row in self._fitting_rows(route):
            has_device = self.devices.has_cni(cni)
            if has_device and self._is_proven(cni, row, inside):
                return Opinion(Grade.FINE, POD_BLOCK, f"{route.prefix} ({cni.name})")
            if has_device or self._has_other_routes(row, route):
                reason = f"[{route}] refuses them, perhaps for {cni.name}"
                return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason, route=route)
        if self._holds_pods(route.prefix, inside):
            reason = f"[{route}] refuses them, but holds pods"
            return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason, route=route)
        return escape

    def left_by(self, route: Route) -> str:
        """The CNI that has left this route behind: it has no device here; empty if none has."""
        for cni, _ in self._fitting_rows(route):
            if not self.devices.has_cni(cni):
                return cni.name
        return ""

    def _fitting_rows(self, route: Route) -> Iterator[tuple[Cni, Refusal]]:
        """The rows of the table that this route fits by its protocol, type and length; and by its
        first address, if the CNI refuses only the subnet of this node ("first").
        """
        for cni in CNIS:
            for row in cni.refusals:
                if row.protocol != route.protocol or route.type not in row.types:
                    continue
                if route.prefix.family not in row.lengths:
                    continue
                shortest, longest = row.lengths[route.prefix.family]
                if not shortest <= route.prefix.length <= longest:
                    continue
                if row.proof != "first" or self._begins_with_a_device(route.prefix, cni):
                    yield cni, row

    def _begins_with_a_device(self, prefix: Prefix, cni: Cni) -> bool:
        """Whether a device of this CNI has the first address. Flannel's have that of the node's
        subnet.
        """
        for address in self.devices.addresses:
            if int(address.ip) == prefix.first and self.devices.is_of(address.dev, cni):
                return True
        return False

    def _is_proven(self, cni: Cni, row: Refusal, inside: list[tuple[str, Prefix]]) -> bool:
        """Whether the range is this CNI's, which has a device here, and whose row it fits.

        Where any router has such routes (calico-ipip: BIRD's protocol), a pod or an own address of
        the CNI has to be inside. Elsewhere no other program uses the protocol for such routes
        (calico-bgp: 80), or the row fits only the subnet of this node (flannel-stale-block).
        """
        if row.proof == "inside":
            return any(self.devices.is_of(dev, cni) for dev, _ in inside)
        return True

    def _has_other_routes(self, row: Refusal, route: Route) -> bool:
        """Whether other routes are a trace of the CNI: Calico's, on a node that only routes.

        Field states: calico-block-without-pods, bird-without-calico-pods-only.
        """
        if not row.is_shown_by_protocol:
            return False
        alike = [other for other in self.fib.routes if other.protocol == route.protocol]
        return len(alike) > 1  # this route is one of them

    def _holds_pods(self, prefix: Prefix, inside: list[tuple[str, Prefix]]) -> bool:
        """Whether the range may be the block of a CNI that has no row.

        Field state: frr-refuses-its-pods.
        """
        if prefix.length < _SHORTEST_POD_BLOCK[prefix.family]:
            return False
        return any(place.is_single and self.devices.cni_rows(dev) for dev, place in inside)

    def _inside(self, refused: Route) -> Iterator[tuple[str, Prefix]]:
        """Neighbours that routes of the same table lead to, and own addresses, in the range; before
        each, its device. What leaves by the uplink is not the CNI's.
        """
        for route in self.fib.routes:
            if route.table != refused.table or route.has_gateway:
                continue
            if route.prefix == refused.prefix or route.prefix not in refused.prefix:
                continue
            for dev in route.devs:
                if dev not in self.uplinks:
                    yield dev, route.prefix
        for address in self.devices.addresses:
            if address.ip in refused.prefix:
                yield address.dev, Prefix.of(address.ip)
