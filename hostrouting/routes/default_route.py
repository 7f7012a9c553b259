"""The default routes of a host: which is the best, and whether it may be the wrong one.

Theory of operation. The best default route may not be the one to the network of this host. It is in
doubt if an equal one leads through another device (`doubtful_by_equal_routes`), or if it leads
through a tunnel (`doubtful_by_a_tunnel`). So no route follows a VPN, or changes sides while two
devices have equal default routes. Rules do not matter: a VPN's rules must not decide.

The check asks the same of the default routes that plain packets use (`check.expected`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hostrouting.model.link_kinds import LINES, is_card, is_tap, is_tunnel, leads_out
from hostrouting.model.prefix import LINK_LOCAL
from hostrouting.model.route import PROTOCOL_RA, TABLE_MAIN, Route, devs_of

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Link, Snapshot


def has_tunnel(devs: Iterable[str], links: Mapping[str, Link]) -> bool:
    """Whether one of the devices is a tunnel."""
    return any(is_tunnel(links.get(dev)) for dev in devs)


def doubtful_by_equal_routes(defaults: Sequence[Route]) -> frozenset[str]:
    """The devices in doubt because equal default routes lead through different ones: Linux uses the
    route that was added first, which is an accident.

    There is at least one default route, and the first is the one that Linux uses. If routers
    advertise themselves on several devices, Linux has one route with a next hop on each: these
    devices are in doubt, too.
    """
    used = defaults[0]
    devs_of_equals = devs_of(route for route in defaults if _rank(route) == _rank(used))
    if devs_of_equals != frozenset(used.devs):
        return devs_of_equals
    if used.protocol == PROTOCOL_RA and len(devs_of_equals) > 1:
        return devs_of_equals
    return frozenset()


def devs_hidden_by_a_tunnel(
    devs: Iterable[str], defaults: Iterable[Route], links: Mapping[str, Link]
) -> frozenset[str]:
    """If one of the devices is a tunnel: those of the first default route without a tunnel.

    Field states: wg-quick-full-tunnel, tailscale-exit-node.
    """
    if has_tunnel(devs, links):
        for route in defaults:
            if not has_tunnel(route.devs, links):
                return frozenset(route.devs)
    return frozenset()


def doubtful_by_a_tunnel(
    devs: frozenset[str], hidden: frozenset[str], snapshot: Snapshot
) -> frozenset[str]:
    """The devices in doubt because the default route leads through a tunnel, with those of the
    default route that it hides. Where it hides none, a provider's lines, or the taps of a virtual
    machine without a network card that has an address, are the only way out, and not in doubt.
    """
    links = snapshot.links_by_name
    if not has_tunnel(devs, links):
        return frozenset()
    if hidden:
        return devs | hidden
    if all(links[dev].kind in LINES for dev in devs):
        return frozenset()
    with_address = {each.dev for each in snapshot.addresses if each.ip not in LINK_LOCAL}
    has_card = any(is_card(links.get(dev), links) for dev in with_address)
    are_only_taps = all(is_tap(links[dev]) for dev in devs) and not has_card
    return frozenset() if are_only_taps else devs


class DefaultRoutes:
    """The default routes of one family by which other routes may be completed."""

    def __init__(
        self, routes: Iterable[Route], snapshot: Snapshot, expected: Iterable[str]
    ) -> None:
        """Use these routes of the family, of this host. `expected` are the devices that the
        configuration names as expected: the only one of them that can have the default route
        settles a doubt.
        """
        links = snapshot.links_by_name
        usable = [_without_dead_hops(route) for route in routes if _is_usable_default(route)]
        self.all = sorted(usable, key=_rank)
        """Those of all tables, the best first: by table (main, then the lowest), metric and
        preference.
        """
        self.of_main: list[Route] = []
        """Those of table main, with the next hops that lead out of the host."""
        for route in self.all:
            hops = tuple(hop for hop in route.next_hops if leads_out(links.get(hop.dev or "")))
            if hops and route.table == TABLE_MAIN:
                self.of_main.append(route._replace(next_hops=hops))
        self.doubtful: frozenset[str] = frozenset()
        """The devices of which one may be the right one, if the best of table main is in doubt."""
        if self.of_main:
            devs = frozenset(self.of_main[0].devs) & links.keys()
            hidden = devs_hidden_by_a_tunnel(devs, self.of_main, links)
            self.doubtful = doubtful_by_a_tunnel(devs, hidden, snapshot)
            self.doubtful |= doubtful_by_equal_routes(self.of_main)
        able = [dev for dev in expected if dev not in links or leads_out(links[dev])]
        self.only_expected_dev = able[0] if len(able) == 1 else None


def _is_usable_default(route: Route) -> bool:
    if route.prefix.length or route.type != "unicast" or not is_for_all_packets(route):
        return False
    return bool(route.usable_devs)


def _without_dead_hops(route: Route) -> Route:
    return route._replace(next_hops=tuple(hop for hop in route.next_hops if not hop.dead))


def is_for_all_packets(route: Route) -> bool:
    """Whether Linux uses the route for every packet, so also when it looks for a gateway: not only
    for those from some sources or with a tos, and its lifetime is not over.
    """
    return not (route.source or route.tos or route.expired)


def _rank(route: Route) -> tuple[bool, int, int, int]:
    """The order among default routes; the lowest is the best."""
    return (route.table != TABLE_MAIN, route.table, *route.rank)
