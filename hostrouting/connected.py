"""The routes that the host's own addresses bring: where the kernel puts one, whether it stands there or not.

Here: which address brings which route, and whether one brought a route that says it is the kernel's. Not here: whose
route is in its place, and what comes of that (`foresight`).

An IPv4 address brings a route to its network when it comes to a device that is up, and each time the device is set up
again. The kernel puts it behind what stands there with the same destination and metric: so `ip route replace`, or a
delete, takes it away until then. An address brings none with `noprefixroute`, behind another one of its network on the
same device, on lo, and where it is a network of its own. In a VRF the route is in the table of that.
"""

from hostrouting.model import IPV4, PROTOCOL_KERNEL, SCOPE_LINK, Address, Link, NextHop, Prefix, Route, Snapshot

__all__ = ["connected_routes", "is_unexplained"]

_LOOPBACK = 772  # ARPHRD_LOOPBACK
_VRF = "vrf"


def connected_routes(snapshot: Snapshot) -> dict[Address, Route]:
    """By address, the route in the table main that the kernel makes of it while the device is up."""
    links = {link.name: link for link in snapshot.links}
    first: dict[tuple[str, Prefix], Address] = {}
    for address in snapshot.addresses:
        if address.ip.version == IPV4:
            first.setdefault((address.dev, address.network), address)
    return {
        address: Route(
            network,
            (NextHop(dev),),
            metric=address.metric,
            scope=SCOPE_LINK,
            protocol=PROTOCOL_KERNEL,
            prefsrc=address.ip,
        )
        for (dev, network), address in first.items()
        if address.prefix_route and _is_network(network, address)
        if (link := links.get(dev)) is not None and _leads_to_main(link, links)
    }


def is_unexplained(route: Route, snapshot: Snapshot) -> bool:
    """Whether a route says that it is the kernel's own, and no address of its device explains it.

    Others write that into their routes too, to hide them from network managers. Of a snapshot that has no addresses
    nothing is said.
    """
    if route.protocol != PROTOCOL_KERNEL or route.type != "unicast" or not snapshot.addresses:
        return False
    return not any(
        it.dev in route.devs and route.prefix in {it.network, Prefix.around(it.ip.version, int(it.ip), it.length)}
        for it in snapshot.addresses
    ) or any(leg.gateway is not None for leg in route.legs)


def _is_network(network: Prefix, address: Address) -> bool:
    return bool(network.network >> 24) and not (network.length == 32 and network.ip == address.ip)


def _leads_to_main(link: Link, links: dict[str, Link]) -> bool:
    master = links.get(link.master or "")
    return link.up and link.type != _LOOPBACK and _VRF not in {link.kind, master.kind if master else ""}
