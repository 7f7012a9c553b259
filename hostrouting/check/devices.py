"""The devices of a host: which CNI made each, what it leads to, and its networks.

A device is a CNI's only by name and kind, as the table of CNIs says (`config.cni`). What a tunnel
is, and what leads out of the host, `model.link_kinds` says; here is what only the check asks.

Every question about a device that a rule of the judge has is a method here. A new kind of CNI
device is a row in `config.cni`, not code.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from hostrouting.config.cni import POD_NETWORKS, Cni, Device, Use, devices_of
from hostrouting.fib.engine import ByPrefix
from hostrouting.model.link_kinds import OF_GUESTS, is_card
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import SCOPE_UNIVERSE, TABLE_MAIN

if TYPE_CHECKING:
    from collections.abc import Collection

    from hostrouting.fib.engine import Fib
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Address


def has_gateway(route: Route, dev: str) -> bool:
    """Whether a next hop by the device has a gateway."""
    return any(hop.gateway is not None for hop in route.next_hops if hop.dev == dev)


def _number_of(address: Address) -> int:
    return int(address.ip)


class Devices:
    """The devices and addresses of one host, for one family."""

    def __init__(self, fib: Fib) -> None:
        """Read them from the snapshot of these tables."""
        self.links = fib.snapshot.links_by_name
        self.addresses: list[Address] = []
        for address in fib.snapshot.addresses:
            if address.ip.version == fib.family:
                self.addresses.append(address)
        self._fib = fib
        self._routes = fib.routes

    # Whose a device is.

    def cni_rows(self, dev: str) -> tuple[tuple[Cni, Device], ...]:
        """The CNIs that may have made this device, each with the row of the table that fits."""
        link = self.links.get(dev)
        if link is None:
            return ()
        return devices_of(dev, link.kind)

    def is_of(self, dev: str, cni: Cni) -> bool:
        """Whether the device may be this CNI's."""
        return any(owner is cni for owner, _ in self.cni_rows(dev))

    def has_cni(self, cni: Cni) -> bool:
        """Whether the host has a device of this CNI."""
        return any(self.is_of(dev, cni) for dev in self.links)

    def uses(self, dev: str) -> Collection[Use]:
        """What CNIs use the device for."""
        return self._uses.get(dev, ())

    @cached_property
    def _uses(self) -> dict[str, list[Use]]:
        """By device of a CNI: what it is used for. Most devices of a host are none."""
        uses: dict[str, list[Use]] = {}
        for dev in self.links:
            rows = self.cni_rows(dev)
            if rows:
                uses[dev] = [row.use for _, row in rows]
        return uses

    def leads_to_own_pods(self, dev: str) -> bool:
        """Whether the device is that of a pod of this node, or the bridge of its pods."""
        uses = self.uses(dev)
        return "pod" in uses or "bridge" in uses

    def is_bridge_of_pods(self, dev: str) -> bool:
        """Whether the device may be the bridge by which a CNI leads to the pods of this node."""
        return "bridge" in self.uses(dev)

    @cached_property
    def card_in_bridge(self) -> dict[str, str]:
        """By bridge: the network card that is a port of it; of several, the first by name. Bonds
        have ports, too, but are not asked about.
        """
        cards: dict[str, str] = {}
        for name, link in sorted(self.links.items()):
            if link.master is None or link.kind in OF_GUESTS:
                continue
            if is_card(link, self.links):
                cards.setdefault(link.master, name)
        return cards

    @cached_property
    def pod_devs_with_cni(self) -> list[tuple[str, Cni]]:
        """The devices by which routes lead to pods, each with the CNI that has these pods: devices
        of single pods, and those that show it for all pods (`POD_NETWORKS`).
        """
        devs: dict[str, None] = {}  # each once, in the order of the routes
        for route in self._routes:
            if route.type == "unicast":
                devs |= dict.fromkeys(route.devs)
        pod_devs: list[tuple[str, Cni]] = []
        for dev in devs:
            for cni, row in self.cni_rows(dev):
                if row.use == "pod" or dev in POD_NETWORKS:
                    pod_devs.append((dev, cni))
        return pod_devs

    @cached_property
    def routes_to_pods(self) -> ByPrefix[Route]:
        """The same, by their prefixes."""
        return ByPrefix(self._fib.family, [(route.prefix, route) for route in self.pod_routes])

    @cached_property
    def pod_routes(self) -> list[Route]:
        """The usable routes to pods of this node: to a single pod by its device, or to a network by
        the bridge of the pods. They are in table main, or in any that a rule looks up for plain
        packets.

        Field state of another table: aws-vpc-cni-security-groups-strict.
        """
        of_pods = {dev for dev in self._uses if self.leads_to_own_pods(dev)}
        if not of_pods:  # or no route has to be looked at
            return []
        routes = [route for route in self._routes if not of_pods.isdisjoint(route.devs)]
        return list(filter(self._leads_plain_packets_to_pods, routes))

    def _leads_plain_packets_to_pods(self, route: Route) -> bool:
        """Whether plain packets by this route of a pod's device, or of the bridge of pods, reach
        pods, and not an own address of that device.

        Field state of an own address: dual-stack-ptp.
        """
        if route.type != "unicast" or route.tos or route.source or route.is_passed_over:
            return False
        if route.table not in {TABLE_MAIN, *self._fib.tables_for_plain}:
            return False
        own = [Prefix.of(address.ip) for address in self.addresses if address.dev in route.devs]
        if route.prefix.is_single:
            return route.prefix not in own
        is_default = route.prefix.length < 2  # also as two halves
        return not is_default and any(map(self.is_bridge_of_pods, route.devs))

    # What a device leads to.

    @cached_property
    def dummies(self) -> set[str]:
        """The dummies, which send nothing out of the host."""
        return {dev for dev, link in self.links.items() if link.kind == "dummy"}

    def may_be_card(self, dev: str) -> bool:
        """Whether the device may lead to the network of the host; a CNI's device does not."""
        return is_card(self.links.get(dev), self.links) and not self.cni_rows(dev)

    # Its addresses and networks.

    @cached_property
    def global_addresses(self) -> list[Address]:
        """The addresses that Linux may choose as the source of packets to other hosts."""
        return [address for address in self.addresses if address.scope == SCOPE_UNIVERSE]

    @cached_property
    def devs_with_address(self) -> dict[str, None]:
        """The devices with a global address, in the order of the addresses."""
        return dict.fromkeys(address.dev for address in self.global_addresses)

    def addresses_on(self, dev: str, *, scope: int = SCOPE_UNIVERSE) -> list[Address]:
        """The device's addresses that Linux may choose for a route of this scope."""
        return [address for address in self._by_dev.get(dev, []) if address.scope <= scope]

    @cached_property
    def _by_dev(self) -> dict[str, list[Address]]:
        by_dev: dict[str, list[Address]] = {}
        for address in self.addresses:
            by_dev.setdefault(address.dev, []).append(address)
        return by_dev

    def addresses_in(self, block: Prefix) -> list[Address]:
        """Those in the block of a rule, by number."""
        begin = bisect_left(self._by_number, block.first, key=_number_of)
        end = bisect_right(self._by_number, block.last, key=_number_of)
        return self._by_number[begin:end]

    @cached_property
    def _by_number(self) -> list[Address]:
        """All addresses: kube-proxy can give a host thousands, and a CNI hundreds of rules."""
        return sorted(self.addresses, key=_number_of)

    def devs_with_network_around(self, prefix: Prefix) -> list[str]:
        """The devices that have an address whose network contains the prefix."""
        return [dev for dev, network in self._networks if prefix in network]

    def is_connected(self, dev: str, route: Route) -> bool:
        """Whether the route has no gateway by this device, and lies in one of its networks."""
        return not has_gateway(route, dev) and dev in self.devs_with_network_around(route.prefix)

    @cached_property
    def _networks(self) -> list[tuple[str, Prefix]]:
        """Each device with each of its networks."""
        return [(address.dev, address.network) for address in self.addresses]
