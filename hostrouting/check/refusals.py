"""Ranges that a route refuses (blackhole, unreachable, prohibit): fine if the route is a CNI's, in
doubt, or an escape.

A CNI refuses packets to those of its addresses that no pod has, so that they do not loop between
the node and its router. The table of CNIs has a row for each such kind of route
(`config.cni.Refusal`): its protocol, its types and its lengths. Other programs use the same
protocols; so a device of the CNI has to be on the host, and some rows need a further proof: a pod
or an address of the CNI in the range.

1. In the networks of services, every refusal is an escape, because a CNI has no addresses there.
2. A row of the table fits, and the CNI is on the host: fine, or in doubt without the proof.
3. No row fits, but a pod's address lies inside a range that is not wider than a node's block: in
   doubt, because a CNI that is not in the table may have added the route.
4. Everything else is an escape.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hostrouting.check.devices import Devices
from hostrouting.check.results import DOUBTFUL_ROUTE, POD_BLOCK, Grade, Opinion
from hostrouting.config.cni import CNIS, Cni, Refusal
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route

_SHORTEST_POD_BLOCK = {4: 20, 6: 64}
"""By family: the shortest prefix that may be a node's block of pods, of a CNI not in the table."""


class Refusals(NamedTuple):
    """Judges the routes of one host that refuse packets."""

    fib: Fib
    devices: Devices
    services: tuple[Prefix, ...]

    def opinion(self, route: Route) -> Opinion:
        """Judge a route that refuses packets. It is fine if a row of the table of CNIs fits, and
        the host proves that the route is the CNI's: a device of the CNI is there ("device"). Some
        rows ask for more: that a device has the first address of the range ("first"), or has an
        address or a pod in the range ("inside").

        The route is in doubt if a row fits, but nothing of the CNI is inside, or only routes to
        other nodes show the CNI, as on a drained node. It is also in doubt if no row fits, but the
        range may be a node's block and holds a pod. Otherwise it is an escape.
        """
        # A CNI has no addresses in the networks of services, so it refuses none there.
        if any(route.prefix.overlaps(services) for services in self.services):
            return Opinion(Grade.ESCAPE, route.type)
        inside = list(self._devs_inside(route))
        for cni in CNIS:
            for row in cni.refusals:
                if not self._fits(cni, row, route):
                    continue
                has_cni = any(self.devices.cni_of(dev) is cni for dev in self.devices.links)
                # `_fits` has asked for the proof "first", and `has_cni` is the proof "device".
                is_inside = any(self.devices.cni_of(dev) is cni for dev in inside)
                if has_cni and (row.proof != "inside" or is_inside):
                    return Opinion(Grade.FINE, POD_BLOCK, f"{route.prefix} ({cni.name})")
                if has_cni or self._has_blocks_of_others(row, route):
                    reason = f"[{route}] refuses them, perhaps for {cni.name}"
                    return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason)
        may_be_block = route.prefix.length >= _SHORTEST_POD_BLOCK[route.prefix.family]
        if may_be_block and any(self.devices.is_used_as(dev, "pod") for dev in inside):
            return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, f"[{route}] refuses them, but holds pods")
        return Opinion(Grade.ESCAPE, route.type)

    def _has_blocks_of_others(self, row: Refusal, refusing: Route) -> bool:
        """Whether routes to other nodes show that this refusing route may be a CNI's: one of them
        looks like a CNI's route to the block of another node. Such a route has the protocol of the
        CNI's `row`, a gateway, and a prefix as long as that of the refusing route.
        """
        return any(
            route.prefix.length == refusing.prefix.length
            for route in self.fib.routes
            if route.protocol == row.protocol and route.has_gateway
        )

    def _devs_inside(self, refusing: Route) -> Iterator[str]:
        """Yield the devices whose addresses or pods are inside the refused range: they show whether
        the range is a CNI's, and which one's. A device counts if it has an address in the range, or
        if a more specific route of the same table leads into the range by it without a gateway.
        """
        for route in self.fib.routes:
            if route.table != refusing.table or route.has_gateway:
                continue
            if route.prefix != refusing.prefix and route.prefix in refusing.prefix:
                yield from route.devs
        for address in self.devices.addresses:
            if address.ip in refusing.prefix:
                yield address.dev

    def _fits(self, cni: Cni, row: Refusal, route: Route) -> bool:
        """Whether this row of the CNI describes the route: its protocol, type and length. If the
        CNI refuses only the subnet of this node (`proof` is "first"), a device of the CNI must also
        have the first address of the route.
        """
        if row.protocol != route.protocol or route.type not in row.types:
            return False
        if route.prefix.family not in row.lengths:
            return False
        shortest, longest = row.lengths[route.prefix.family]
        if not shortest <= route.prefix.length <= longest:
            return False
        if row.proof != "first":
            return True
        return any(
            self.devices.cni_of(address.dev) is cni
            for address in self.devices.addresses
            if int(address.ip) == route.prefix.first
        )
