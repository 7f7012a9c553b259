"""What a repair costs: the ranges that its routes take from devices, and what the routes lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.check.parts import ranges_of
from hostrouting.check.results import Cost
from hostrouting.check.sources import sources_of
from hostrouting.model.link_kinds import is_tunnel
from hostrouting.model.route import bare_hop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.check.judge import Judge
    from hostrouting.check.results import Part
    from hostrouting.model.route import Route


def find_costs(judge: Judge, taken: Sequence[Part]) -> Iterator[Cost]:
    """What devices lose if routes take these parts, as they were judged without the routes. Own
    addresses among the parts do not split the ranges around them, and are not named at their ends.
    """
    devs: dict[str, None] = {}
    for part in taken:
        devs |= dict.fromkeys(part.opinion.devs)
    own = [part for part in taken if part.is_own]
    for dev in devs:
        lost = ranges_of((part, _loses(judge, dev, part)) for part in taken)
        for _, first, last in lost:
            yield _without_own_ends(Cost(dev, first, last), own)


def _without_own_ends(cost: Cost, own: Sequence[Part]) -> Cost:
    """The range without own addresses at its ends, such as a broadcast address; `own` is in
    order.
    """
    for part in own:
        if part.first == cost.first:
            cost = cost._replace(first=part.last + 1)
    for part in reversed(own):
        if part.last == cost.last:
            cost = cost._replace(last=part.first - 1)
    return cost


def _loses(judge: Judge, dev: str, part: Part) -> bool:
    """Whether the device loses hosts that it leads to. A default route does not say that there are
    any, unless it is a VPN's.
    """
    if dev not in part.opinion.devs:
        return False
    route = part.decision.route
    is_default = route is not None and route.prefix.length == 0
    return not is_default or is_tunnel(judge.devices.links.get(dev))


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
