"""The default routes of a host: which is the best, and whether it may be the wrong one.

Theory of operation. The best default route may not be the one to the network of this host. It is in
doubt if an equally good one leads through another device, or if it leads through a tunnel. So no
static route follows a VPN, or moves from one device to another while both have equally good default
routes. Rules are not looked at, because those of a VPN must not decide.

The check asks the same about the default routes that plain packets use (`check.expected`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hostrouting.model.link_kinds import LINES, is_card, is_tap, is_tunnel
from hostrouting.model.prefix import LINK_LOCAL
from hostrouting.model.route import PROTOCOL_RA, TABLE_MAIN, NextHop, Route, devs_of

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Link, Snapshot


def has_tunnel(devs: Iterable[str], links: Mapping[str, Link]) -> bool:
    """Whether one of the devices is a tunnel."""
    return any(is_tunnel(links.get(dev)) for dev in devs)


def doubtful_devs(defaults: Sequence[Route], snapshot: Snapshot) -> frozenset[str]:
    """Return the devices among which the intended uplink is in doubt: those of the best default
    route (the first of `defaults`), and those that may be meant instead. Empty if the best default
    route is not in doubt.
    """
    if not defaults:
        return frozenset()
    return _doubtful_by_equal_routes(defaults) | _doubtful_by_a_tunnel(defaults, snapshot)


def _doubtful_by_equal_routes(defaults: Sequence[Route]) -> frozenset[str]:
    """If other default routes are as good as the first one, and lead through other devices, return
    the devices of all these routes: nobody has chosen between them, so any may be the intended
    uplink. Otherwise return none.

    A single route with several next hops is not in doubt, because somebody has chosen all of its
    devices. An exception is a route from router advertisements, because networkd joins such routes
    of several devices into one.
    """
    used = defaults[0]
    devs_of_equals = devs_of(route for route in defaults if _rank(route) == _rank(used))
    is_from_several_routers = used.protocol == PROTOCOL_RA and len(devs_of_equals) > 1
    if is_from_several_routers or devs_of_equals != frozenset(used.devs):
        return devs_of_equals
    return frozenset()


def _doubtful_by_a_tunnel(defaults: Sequence[Route], snapshot: Snapshot) -> frozenset[str]:
    """If the first default route leads through a tunnel, return its devices and those of the
    default route that it hides (the first one without a tunnel): either may be the intended uplink.
    If it leads through no tunnel, return none.

    A tunnel that hides no default route is in doubt, too, with two exceptions that may rightly be
    the only way out of the host. The first is a provider's line (PPP). The second is a tap, as with
    slirp or Open vSwitch in user space, unless a network card could be the uplink instead: it could
    if it has an address of this family that is not link-local.
    """
    links = snapshot.links_by_name
    used = defaults[0]
    devs = frozenset(used.devs)
    if not has_tunnel(devs, links):
        return frozenset()
    hidden = devs_hidden_by_a_tunnel(devs, defaults, links)
    if hidden:
        return devs | hidden
    card_addresses = [
        each
        for each in snapshot.addresses
        if each.ip.version == used.prefix.family
        and each.ip not in LINK_LOCAL
        and is_card(links.get(each.dev), links)
    ]
    are_lines = all(links[dev].kind in LINES for dev in devs)
    are_taps = all(is_tap(links[dev]) for dev in devs)
    if are_lines or (are_taps and not card_addresses):
        return frozenset()
    return devs


def devs_hidden_by_a_tunnel(
    devs: Iterable[str], defaults: Iterable[Route], links: Mapping[str, Link]
) -> frozenset[str]:
    """If there is a tunnel among `devs`, return the devices by which packets would leave without
    it: those of the first default route that has no tunnel. Otherwise return none. `devs` are the
    devices of the first default route, or the expected ones.

    tests/hosts: wg-quick-full-tunnel, tailscale-exit-node.
    """
    if has_tunnel(devs, links):
        for route in defaults:
            if not has_tunnel(route.devs, links):
                return frozenset(route.devs)
    return frozenset()


def usable_defaults(routes: Iterable[Route]) -> list[Route]:
    """Of these routes, return the default routes that Linux can use for every packet, with only the
    next hops that are alive. The best comes first: by table (main, then the lowest number), then by
    metric and preference.
    """
    defaults = [route for route in routes if route.prefix.length == 0 and route.type == "unicast"]
    alive = with_next_hops(filter(is_for_all_packets, defaults), lambda hop: not hop.dead)
    return sorted(alive, key=_rank)


def with_next_hops(routes: Iterable[Route], is_usable: Callable[[NextHop], bool]) -> list[Route]:
    """The routes that have a usable next hop, each with only its usable ones."""
    usable: list[Route] = []
    for route in routes:
        hops = tuple(filter(is_usable, route.next_hops))
        if hops:
            usable.append(route._replace(next_hops=hops))
    return usable


def is_for_all_packets(route: Route) -> bool:
    """Whether Linux uses the route for every packet, and also to reach the gateway of another
    route. Such a route is not limited to some sources or a tos, and its lifetime is not over.
    """
    return not (route.source or route.tos or route.expired)


def _rank(route: Route) -> tuple[bool, int, int, int, int]:
    """The sort key of default routes: the best route has the lowest. In one table, the halves of a
    default route (/1) come before a whole one, because Linux prefers the longer prefix.
    """
    return (route.table != TABLE_MAIN, route.table, -route.prefix.length, *route.rank)
