"""What a repair costs: the networks that its routes take addresses from, and what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.check.devices import has_gateway
from hostrouting.check.results import Cost
from hostrouting.check.sources import sources_of
from hostrouting.model.link_kinds import is_tunnel
from hostrouting.model.route import bare_hop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hostrouting.check.judge import Judge
    from hostrouting.check.results import Part
    from hostrouting.model.prefix import Prefix
    from hostrouting.model.route import Route


def find_costs(judge: Judge, taken: Sequence[Part]) -> Iterator[Cost]:
    """The networks that lose addresses if routes take these parts, as they were judged without the
    routes. A network of several parts is named for each; `repair.prove` drops the repetitions.
    """
    for address in judge.devices.addresses:
        # A network of a single address has no neighbours to lose.
        if address.length < judge.fib.width and _has_left_by(address.dev, address.network, taken):
            yield Cost(address.dev, address.network)
    yield from _costs_of_routes(judge, taken)


def attributes_lost(judge: Judge, route: Route) -> str:
    """What the default route with these next hops says about packets, in the words of `ip`, and a
    static route cannot say. A `src` is lost only if Linux would choose another one without it.
    """
    for default in judge.uplinks.defaults:
        hops = {bare_hop(hop) for hop in default.next_hops}
        hops |= {hop._replace(weight=1) for hop in hops}  # as in a route by one of several
        if not hops.issuperset(route.next_hops):
            continue
        lost: list[str] = []
        if default.prefsrc and sources_of(judge, route) != (default.prefsrc,):
            lost.append(f"src {default.prefsrc}")
        if default.mtu is not None:
            lost.append(f"mtu {default.mtu}")
        if default.advmss is not None:
            lost.append(f"advmss {default.advmss}")
        return " ".join(lost)
    return ""


def _has_left_by(dev: str, network: Prefix, taken: Iterable[Part]) -> bool:
    """Whether packets to addresses of the network, in these parts, left by the device before: these
    parts escape, so their opinions have devices.
    """
    last = network.last
    for part in taken:
        is_inside = part.first <= last and network.first <= part.last
        if is_inside and dev in part.opinion.devs:
            return True
    return False


def _costs_of_routes(judge: Judge, taken: Iterable[Part]) -> Iterator[Cost]:
    """The networks that a device loses because it has a route to them: neighbours, to which the
    route has no gateway, and whatever a VPN leads to. A network in which the device itself has an
    address is not one of these.
    """
    for part in taken:
        route = part.decision.route
        if route is None:
            continue
        for dev in part.opinion.devs:
            if has_gateway(route, dev) and not is_tunnel(judge.devices.links.get(dev)):
                continue
            if not judge.devices.is_connected(dev, route):
                yield Cost(dev, route.prefix)
