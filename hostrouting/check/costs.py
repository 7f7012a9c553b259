"""What a repair costs: the networks that its routes take from devices, and what the routes lack."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from hostrouting.check.results import Cost
from hostrouting.check.sources import sources_of
from hostrouting.model.link_kinds import is_tunnel
from hostrouting.model.route import bare_hop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hostrouting.check.judge import Judge
    from hostrouting.check.results import Part
    from hostrouting.model.prefix import Prefix
    from hostrouting.model.route import Route


def find_costs(judge: Judge, blocks: Iterable[Prefix], taken: Iterable[Part]) -> Iterator[Cost]:
    """What devices lose if routes take these parts, as they were judged without the routes; only
    the opinion on an escape has devices. An operator knows a device by its network: so the prefix
    of the route that loses them is named, or the expected block inside that.
    """
    for part in taken:
        route = part.decision.route
        if route is None:
            continue
        [block] = [block for block in blocks if block.first <= part.first <= block.last]
        network = max(route.prefix, block, key=attrgetter("length"))
        for dev in part.opinion.devs:
            if _loses(judge, dev, route):
                yield Cost(dev, network)


def _loses(judge: Judge, dev: str, route: Route) -> bool:
    """Whether the device loses hosts that it leads to. A default route does not say that there are
    any, unless it is a VPN's.
    """
    return route.prefix.length > 0 or is_tunnel(judge.devices.links.get(dev))


def attributes_lost(judge: Judge, route: Route) -> str:
    """What the default route with these next hops says about packets, in the words of `ip`, and a
    static route cannot say. A `src` is lost only if Linux would choose another one without it.
    """
    for default in judge.uplinks.defaults:
        hops = {bare_hop(hop)._replace(weight=1) for hop in default.next_hops}
        if not hops.issuperset(hop._replace(weight=1) for hop in route.next_hops):
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
