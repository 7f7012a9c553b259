"""The source addresses of this host's packets, and so the address of the node.

If a socket is not bound to an address, Linux takes the source from the route: its `src`, or an
address of its device, or one of another device. Where several are possible, all of them are named.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from hostrouting.model.prefix import IPV4

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.check.judge import Judge
    from hostrouting.model.prefix import IP
    from hostrouting.model.route import NextHop, Route
    from hostrouting.model.snapshot import Address


def sources_of(judge: Judge, route: Route | None) -> tuple[IP, ...]:
    """The addresses that Linux may write as the source into packets that leave by this route."""
    if route is None or route.type != "unicast":
        return ()
    if route.prefsrc is not None:
        return (route.prefsrc,)
    usable = set(route.usable_devs)
    sources: dict[IP, None] = {}
    for hop in route.next_hops:
        if hop.dev in usable:
            sources |= dict.fromkeys(_sources_of_hop(judge, hop))
    return tuple(sources)


def _sources_of_hop(judge: Judge, hop: NextHop) -> list[IP]:
    """The addresses of which Linux chooses one if the route does not name the source.

    Those of the next hop's device in the network of its gateway; else those of its device; else, in
    IPv4, those of lo, or of an uplink if that is the host's first device with an address. Of these,
    IPv4 takes the first, and in IPv6 the destination decides (RFC 6724). Else it may be any of the
    host.

    Field states: node-address-into-a-vpn-beside-a-vip;
    unnumbered-address-on-lo-elsewhere, unnumbered-rail-by-source;
    rails-by-source-beside-calico, rail-before-the-uplink-beside-calico;
    ula-beside-a-public-address, ipv6-default-writes-a-ula.
    """
    of_device = judge.devices.global_addresses_by_dev.get(hop.dev or "", [])
    beside_gateway: list[Address] = []
    if hop.gateway is not None:
        beside_gateway = [address for address in of_device if hop.gateway in address.network]
    possible = beside_gateway or of_device or _of_first_device(judge)
    if not possible:
        return [address.ip for address in judge.devices.global_addresses]
    return _chosen(judge, possible)


def _chosen(judge: Judge, addresses: Sequence[Address]) -> list[IP]:
    """Those of the addresses of a device that Linux may choose."""
    if judge.fib.family == IPV4:
        addresses = addresses[:1]
    return [address.ip for address in addresses]


def _of_first_device(judge: Judge) -> list[Address]:
    """In IPv4, those of the host's first device with an address, if it is lo or an uplink.

    Linux takes the devices in the order in which this namespace got them. Another first device is
    not certain: a rail that was in a pod comes last there, and keeps its number.
    """
    if judge.fib.family != IPV4:
        return []
    by_dev = judge.devices.global_addresses_by_dev
    links = [link for link in judge.devices.links.values() if link.name in by_dev]
    if not links:
        return []
    first = min(links, key=attrgetter("index"))
    if first.loopback or first.name in judge.uplinks.devs:
        return by_dev[first.name]
    return []


def node_ip(judge: Judge) -> IP | None:
    """The address with which this host sends by the expected devices; None if there is none, or
    several.
    """
    addresses = {source for _, source in node_sources(judge)}
    if len(addresses) == 1:
        return addresses.pop()
    return None


def node_sources(judge: Judge) -> list[tuple[str, IP]]:
    """The expected devices that are not in doubt, each with the sources of packets that leave
    through it: those of the first default route that has one, or else the addresses of the devices.

    Linux chooses one of several next hops by a hash, so no source comes before the others.
    """
    devs = judge.uplinks.devs - judge.uplinks.doubtful
    for route in judge.uplinks.defaults:
        if devs.issuperset(route.devs):
            sources = _sources_by_hop(judge, route)
            if sources:
                return sources
    by_address: list[tuple[str, IP]] = []
    for dev, addresses in judge.devices.global_addresses_by_dev.items():
        if dev in devs:
            by_address += [(dev, source) for source in _chosen(judge, addresses)]
    return by_address


def _sources_by_hop(judge: Judge, route: Route) -> list[tuple[str, IP]]:
    """The devices of a route's next hops, each with the sources of packets that leave by it."""
    by_hop: dict[tuple[str, IP], None] = {}
    for hop in route.next_hops:
        if hop.dev is None or hop.dead:
            continue
        by_this_hop = route._replace(next_hops=(hop,))
        for source in sources_of(judge, by_this_hop):
            by_hop[hop.dev, source] = None
    return list(by_hop)
