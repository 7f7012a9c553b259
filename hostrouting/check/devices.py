"""The devices of a host: which CNI made each, what it leads to, and its networks.

A device is a CNI's only by name and kind, as the table of CNIs says (`config.cni`). What a tunnel
or a card is, `model.link_kinds` says.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hostrouting.config.cni import POD_NETWORK_DEVS, Cni, Device, cni_row
from hostrouting.fib.engine import ByPrefix
from hostrouting.model.link_kinds import OF_GUESTS, is_card
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import SCOPE_UNIVERSE, TABLE_MAIN

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Address


def has_gateway(route: Route, dev: str) -> bool:
    """Whether a next hop by the device has a gateway."""
    return any(hop.gateway is not None for hop in route.next_hops if hop.dev == dev)


class Devices:
    """The devices and addresses of one host, for one family."""

    def __init__(self, fib: Fib) -> None:
        """Take the devices, and the addresses of the family, from the snapshot of these tables."""
        self.links = fib.snapshot.links_by_name
        self.addresses = [
            address for address in fib.snapshot.addresses if address.ip.version == fib.family
        ]
        self._fib = fib

    # Whose a device is.

    def cni_row(self, dev: str) -> tuple[Cni, Device] | None:
        """The CNI that makes devices with the name and kind of this one, and its row for them in
        the table of CNIs; None if no CNI does.
        """
        link = self.links.get(dev)
        return None if link is None else cni_row(dev, link.kind)

    def cni_of(self, dev: str) -> Cni | None:
        """The CNI that makes devices with the name and kind of this one; None if no CNI does."""
        row = self.cni_row(dev)
        return None if row is None else row[0]

    def is_used_as(self, dev: str, use: str) -> bool:
        """Whether a CNI uses devices with the name and kind of this one for `use`: pod (it leads to
        one pod), bridge (to the pods of this node), network (to pods of other nodes, or all), or
        marked (only marked packets leave by it).
        """
        row = self.cni_row(dev)
        return row is not None and row[1].use == use

    @cached_property
    def pod_devs_with_cni(self) -> list[tuple[str, Cni]]:
        """The devices whose routes show which CNI has pods on this node, each with this CNI. These
        are the devices of single pods, and cilium_host (`POD_NETWORK_DEVS`): Cilium has one route
        by it to all pods of the node.
        """
        devs: dict[str, None] = {}  # each once, in the order of the routes
        for route in self._fib.routes:
            if route.type == "unicast":
                devs |= dict.fromkeys(route.devs)
        pod_devs: list[tuple[str, Cni]] = []
        for dev in devs:
            cni = self.cni_of(dev)
            if cni is not None and (self.is_used_as(dev, "pod") or dev in POD_NETWORK_DEVS):
                pod_devs.append((dev, cni))
        return pod_devs

    @cached_property
    def routes_to_pods(self) -> ByPrefix:
        """The routes to pods of this node, in an index by address."""
        return ByPrefix(self._fib.family, self.pod_routes)

    @cached_property
    def pod_routes(self) -> list[Route]:
        """The usable routes to pods of this node, in table main and the tables for plain packets.
        Routes for a tos or for some sources are left out, because plain packets do not take them.

        tests/hosts: aws-vpc-cni-security-groups-strict (a table that is not main);
        tailscale-exit-node-hides-cilium.
        """
        devs_of_cnis = {dev for dev in self.links if self.cni_row(dev)}
        tables = {TABLE_MAIN, *self._fib.tables_for_plain}
        routes: list[Route] = []
        for route in self._fib.snapshot.routes:
            # These quick questions come first: without them, a check of 10,000 routes by no device
            # of a CNI takes three times as long.
            if route.prefix.family != self._fib.family or devs_of_cnis.isdisjoint(route.devs):
                continue
            if route.type != "unicast" or route.tos or route.source or route.is_passed_over:
                continue
            if route.table in tables and self._leads_to_pods(route):
                routes.append(route)
        return routes

    def _leads_to_pods(self, route: Route) -> bool:
        """Whether the route leads to pods of this node. A route to one address leads to a pod if
        its device is a pod's or a bridge of pods, and the address is not the device's own. A route
        to a network leads to pods if its device is a bridge of pods, or is cilium_host
        (`POD_NETWORK_DEVS`) and has an address in the network.
        """
        own_addresses = [address for address in self.addresses if address.dev in route.devs]
        is_by_bridge = any(self.is_used_as(dev, "bridge") for dev in route.devs)
        if route.prefix.is_single:
            is_own = any(Prefix.of(address.ip) == route.prefix for address in own_addresses)
            is_by_pod = any(self.is_used_as(dev, "pod") for dev in route.devs)
            return not is_own and (is_by_pod or is_by_bridge)
        if route.prefix.length < 2:  # a default route, or one of its two halves
            return False
        devs_in_network = [address.dev for address in own_addresses if address.ip in route.prefix]
        return is_by_bridge or not set(POD_NETWORK_DEVS).isdisjoint(devs_in_network)

    # What a device leads to.

    def may_be_card(self, dev: str) -> bool:
        """Whether the device may be a card of the host: it is one, and not a CNI's."""
        return is_card(self.links.get(dev), self.links) and self.cni_row(dev) is None

    def cards_in(self, bridge: str) -> list[str]:
        """The network cards that are ports of the bridge. A veth or a tap leads to a guest, so it
        is left out.
        """
        ports = [link for link in self.links.values() if link.master == bridge]
        others = [port for port in ports if port.kind not in OF_GUESTS]
        return [port.name for port in others if is_card(port, self.links)]

    # Addresses and networks.

    @cached_property
    def global_addresses(self) -> list[Address]:
        """The addresses that Linux may choose as the source of packets to other hosts."""
        return [address for address in self.addresses if address.scope == SCOPE_UNIVERSE]

    @cached_property
    def networks(self) -> list[tuple[str, Prefix]]:
        """For each address, its device and its network."""
        return [(address.dev, address.network) for address in self.addresses]

    def is_connected(self, dev: str, route: Route) -> bool:
        """Whether the route has no gateway by this device, and lies in one of its networks."""
        return not has_gateway(route, dev) and dev in self.devs_with_network_around(route.prefix)

    def devs_with_network_around(self, prefix: Prefix) -> list[str]:
        """The devices that have an address whose network contains the prefix."""
        return [dev for dev, network in self.networks if prefix in network]
