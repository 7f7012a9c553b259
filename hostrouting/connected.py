"""The routes that the host's own addresses bring: where the kernel puts one, whether it stands there or not.

Here: which address brings which route. Not here: whose route is in its place, and what comes of that (`foresight`).

An IPv4 address brings a route to its network when it comes to a device that is up, and each time the device is set up
again. The kernel puts it behind what stands there with the same destination and metric: so `ip route replace`, or a
delete, takes it away until then. An address brings none with `noprefixroute`, behind another one of its network on the
same device, on lo, and where it is a network of its own. In a VRF the route is in the table of that.
"""

from hostrouting.model import IPV4, PROTOCOL_KERNEL, SCOPE_LINK, Address, Link, NextHop, Prefix, Route, Snapshot

__all__ = ["connected_routes"]

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


def _is_network(network: Prefix, address: Address) -> bool:
    return bool(network.network >> 24) and not (network.length == 32 and network.ip == address.ip)


def _leads_to_main(link: Link, links: dict[str, Link]) -> bool:
    master = links.get(link.master or "")
    return link.up and link.type != _LOOPBACK and _VRF not in {link.kind, master.kind if master else ""}
