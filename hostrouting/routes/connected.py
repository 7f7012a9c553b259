"""The routes that the kernel adds for the host's own addresses, whether they are present or not.

Here: which route the kernel adds for which address, and which wanted routes will not last because the kernel will add
its own. Not here: conflicts that exist already (`plan`).

The kernel adds a route to the network of an IPv4 address when the address is added to a device that is up, and again
each time the device is set up. It adds it after existing routes with the same destination and metric: so after `ip
route replace`, or a delete, the route is missing until then. The kernel adds no route for an address with
`noprefixroute`, for a second address of the same network on a device, on lo, and for an address whose network is the
address alone. In a VRF, the route is in the table of the VRF.

So a static route that holds the key of a connected route stays in use, even after the device was set down and up. But a
boot, or setting down the static route's own device, deletes it, and then the kernel's route holds the key first. A
route that is not ours is never replaced: from then on our route cannot be added, and no gated unit starts. Which an
address adds is known beforehand, so this can be reported beforehand.
"""

from collections.abc import Collection, Iterator, Sequence

import attrs

from hostrouting.fib.engine import Fib
from hostrouting.finding import Finding
from hostrouting.model.prefix import IPV4, Prefix, width_of
from hostrouting.model.route import PROTOCOL_KERNEL, SCOPE_LINK, NextHop, Route
from hostrouting.model.snapshot import Address, Link, Snapshot
from hostrouting.routes.uplink import DesiredRoute, Uplink, is_held, way_round

_LOOPBACK = 772  # ARPHRD_LOOPBACK
_VRF = "vrf"


def connected_routes(snapshot: Snapshot) -> dict[Address, Route]:
    """The route in table main that the kernel adds for each address while its device is up."""
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
    return network.network != 0 and not (network.length == 32 and network.ip == address.ip)


def _leads_to_main(link: Link, links: dict[str, Link]) -> bool:
    master = links.get(link.master or "")
    return link.up and link.type != _LOOPBACK and _VRF not in {link.kind, master.kind if master else ""}


def _finding(
    wanted: Route, addresses: Sequence[Address], instead: Sequence[DesiredRoute], lacking: Sequence[DesiredRoute]
) -> Finding:
    """A finding that a route will not last, because the kernel's routes for these addresses take its key.

    The routes of `instead` win without touching the kernel's route; none, if that takes more than two. `lacking` are
    those of them that are not configured yet.
    """
    first, prefix, more = addresses[0], wanted.prefix, len(addresses) - 1
    route = " ".join([str(prefix), *(wanted.ways if len(wanted.legs) == 1 else ())])
    others = "1 more device is" if more == 1 else f"{more:,} more devices are"
    told = (
        f"{route} does not last: {first.dev} has the address {first.ip}/{first.length}"
        f"{f' (and {others} on the same network)' if more else ''}, so the kernel adds its own route to {prefix}."
        " At the next boot it may add that route first: then ours cannot be added, and no gated unit starts"
    )
    facts = {
        "route": str(wanted),
        "metric": wanted.metric,
        "addresses": [{"address": f"{address.ip}/{address.length}", "dev": address.dev} for address in addresses],
        "instead": [wish.to_mapping() for wish in lacking],
    }
    return Finding("route-will-not-last", "warning", told, str(prefix), _way_round(prefix, instead, lacking), facts)


def _way_round(prefix: Prefix, instead: Sequence[DesiredRoute], lacking: Sequence[DesiredRoute]) -> str:
    names = " and ".join(str(wish.destination) for wish in instead)
    if not instead and prefix.length == width_of(prefix.family):
        return "no prefix can be longer and no metric lower: remove either the route or the address"
    if not instead:
        left, right = prefix.halves()
        return f"instead, configure longer prefixes that no other route has ({left} and {right} are not both free)"
    one = len(instead) == 1
    take = "takes" if one else "take"
    if instead[0].destination == prefix:
        names = f"one with metric {instead[0].metric}"
    if not lacking:
        return f"remove it: {names} {'is' if one else 'are'} configured too, and {take} precedence"
    return f"instead, configure {names}, which {take} precedence"


def foresee(
    desired: Collection[DesiredRoute], fib: Fib, uplink: Uplink, *, refused: Collection[object]
) -> Iterator[Finding]:
    """A finding for each wanted route that will not last, in order.

    `refused` are the keys of routes that cannot be added at all.
    """
    networks = {address.network.network for address in fib.snapshot.addresses}
    # Few wanted routes begin where a network does; hashing each one would take longer.
    near = {wish.key: wish for wish in desired if wish.destination.network in networks}
    brought = connected_routes(fib.snapshot) if near else {}
    keys = {route.key for route in brought.values() if route.key in near and route.key not in refused}

    def is_taken(prefix: Prefix, metric: int) -> bool:
        coming = any(route.prefix == prefix and route.metric <= metric for route in brought.values())
        return coming or is_held(prefix, metric, fib)

    for key in sorted(keys):
        wish = near[key]
        wanted = uplink.resolve(wish)
        if isinstance(wanted, Route):
            others = way_round(wish.destination, is_taken)
            instead = tuple(attrs.evolve(wish, destination=prefix, metric=metric) for prefix, metric in others)
            lacking = tuple(route for route in instead if all(route.key != other.key for other in desired))
            addresses = tuple(address for address, route in brought.items() if route.key == key)
            yield _finding(wanted, addresses, instead, lacking)
