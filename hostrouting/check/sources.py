"""The source addresses of this host's packets, and so the address of the node.

If a socket is not bound to an address, Linux takes the source from the route: its `src`, or an
address of its device, or one of another device. Where several are possible, all of them are named.
A live check asks Linux which one it is (`routes_to_ask_about`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.model.prefix import IPV4

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.check.judge import Judge
    from hostrouting.check.results import Part
    from hostrouting.model.prefix import IP
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Address


def sources_of(judge: Judge, route: Route | None) -> tuple[IP, ...]:
    """The addresses that Linux may write as the source into packets that leave by this route."""
    if route is None or route.type != "unicast":
        return ()
    if route in judge.known_sources:
        return (judge.known_sources[route],)
    sources: dict[IP, None] = {}
    for hop in route.next_hops:
        if hop.dev is None or hop.dead:
            continue
        if route.prefsrc is not None:
            return (route.prefsrc,)
        of_device = judge.devices.addresses_on(hop.dev, scope=route.scope)
        sources |= dict.fromkeys(_possible_sources(judge, of_device, hop.gateway))
    return tuple(sources)


def routes_to_ask_about(judge: Judge, parts: Iterable[Part]) -> dict[Route, int]:
    """The routes of which only Linux knows the source that it writes, and where that matters; each
    with an address that it decides for.

    Not among them: a route with several next hops, of which Linux chooses by a hash that differs
    from boot to boot; and an IPv6 route to several addresses, because the source depends on these.
    """
    asked: dict[Route, int] = {}
    for part in parts:
        route = part.decision.route
        if route is None or len(route.next_hops) > 1:
            continue
        matters = judge.fib.has_rules_by_source or route in judge.uplinks.defaults
        depends_on_route = judge.fib.family == IPV4 or route.prefix.is_single
        if matters and depends_on_route and len(sources_of(judge, route)) > 1:
            asked[route] = part.first
    return asked


def _possible_sources(
    judge: Judge, of_device: list[Address], gateway: IP | None = None
) -> list[IP]:
    """The addresses of which Linux chooses one if the route does not name the source: those of the
    device, or else all of the host.

    In IPv6 the destination decides among them (RFC 6724). IPv4 always takes the same one.

    Field states: node-address-into-a-vpn-beside-a-vip;
    unnumbered-address-on-lo-elsewhere, unnumbered-rail-by-source;
    rails-by-source-beside-calico, rail-before-the-uplink-beside-calico;
    ula-beside-a-public-address, ipv6-default-writes-a-ula.
    """
    possible = of_device
    if judge.fib.family == IPV4:
        possible = _first_of_ipv4(judge, of_device, gateway)
    return [address.ip for address in possible or judge.devices.global_addresses]


def _first_of_ipv4(judge: Judge, of_device: list[Address], gateway: IP | None) -> list[Address]:
    """The address that IPv4 takes: the first of the device in the network of the gateway, or else
    the first of the device, or else of lo. Empty if none of these has one: IPv4 takes the other
    devices in the order in which this namespace got them, which their numbers do not always say.
    """
    if gateway is not None:
        for address in of_device:
            if gateway in address.network:
                return [address]
    addresses = of_device or [
        address for address in judge.devices.global_addresses if address.dev == "lo"
    ]
    return addresses[:1]


def node_ip(judge: Judge) -> IP | None:
    """The address with which this host sends by the expected devices that are not in doubt; None if
    there is none, or several: Linux chooses one of several next hops by a hash.

    It is the source of the first default route that has one and uses only these devices, or else
    the address of the devices.
    """
    devs = judge.uplinks.devs - judge.uplinks.doubtful
    sources: set[IP] = set()
    for route in judge.uplinks.defaults:
        if devs.issuperset(route.devs):
            sources.update(sources_of(judge, route))
        if sources:
            break
    else:
        for dev in devs:
            of_device = judge.devices.addresses_on(dev)
            if of_device:
                sources.update(_possible_sources(judge, of_device))
    if len(sources) == 1:
        return sources.pop()
    return None
