"""The default routes of a host: which is the best, and whether it may be the wrong one.

Theory of operation. The best default route may not be the one to the network of this host. It is in
doubt if an equal one leads through another device (`doubtful_by_equal_routes`), or if it leads
through a tunnel (`doubtful_by_a_tunnel`). So no route follows a VPN, or changes sides while two
devices have equal default routes. Rules do not matter: a VPN's rules must not decide.

The check asks the same of the default routes that plain packets use (`check.expected`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.model.link_kinds import LINES, is_card, is_tap, is_tunnel, leads_out
from hostrouting.model.route import PROTOCOL_RA, TABLE_MAIN, Route, bare_hop, devs_of

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Link


def has_tunnel(devs: Iterable[str], links: Mapping[str, Link]) -> bool:
    """Whether one of the devices is a tunnel."""
    return any(is_tunnel(links.get(dev)) for dev in devs)


def are_taps_without_a_card(
    devs: Iterable[str], with_address: Iterable[str], links: Mapping[str, Link]
) -> bool:
    """Whether these devices are taps, and no card is among those that have an address.

    The uplink of a virtual machine or of a rootless node may be a tap, and so may the bridge of
    Open vSwitch in user space. A VPN's tap has a card beside it, with an address.
    """
    if not all(is_tap(links.get(dev)) for dev in devs):
        return False
    return not any(is_card(links.get(dev), links) for dev in with_address)


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
    devs: frozenset[str],
    hidden: frozenset[str],
    links: Mapping[str, Link],
    *,
    are_only_taps: bool,
) -> frozenset[str]:
    """The devices in doubt because the default route leads through a tunnel, with those of the
    default route that it hides. Where it hides none, a provider's lines or taps are the only way
    out, and not in doubt. All devices exist, because they lead out.
    """
    if not has_tunnel(devs, links):
        return frozenset()
    if hidden:
        return devs | hidden
    are_lines = all(links[dev].kind in LINES for dev in devs)
    if are_lines or are_only_taps:
        return frozenset()
    return devs


class DefaultRouteInDoubt(NamedTuple):
    """Why nobody knows whether the best default route leads to the network of this host."""

    why: str
    devs: tuple[str, ...]
    """The devices of which one is the right one, in the order of their default routes."""


class DefaultRoutes:
    """The default routes of one family by which other routes may be completed."""

    def __init__(
        self,
        routes: Iterable[Route],
        links: Mapping[str, Link],
        *,
        expected: Iterable[str],
        with_address: Iterable[str],
    ) -> None:
        """Use these routes of the family. `expected` are the devices that the configuration names
        as expected, and `with_address` those that have an address that is not link-local.
        """
        self._links = links
        self._expected = frozenset(expected)
        self._with_address = frozenset(with_address)
        self.all = sorted(_usable_defaults(routes), key=_rank)
        """Those of all tables, the best first: by table (main, then the lowest), metric and
        preference.
        """

    @cached_property
    def of_main(self) -> list[Route]:
        """Those of table main, with the next hops that lead out of the host."""
        routes: list[Route] = []
        for route in self.all:
            if route.table != TABLE_MAIN:
                continue
            hops = [hop for hop in route.next_hops if leads_out(self._links.get(hop.dev or ""))]
            if hops:
                routes.append(route._replace(next_hops=tuple(hops)))
        return routes

    @cached_property
    def doubt(self) -> DefaultRouteInDoubt | None:
        """Why the best one of table main is in doubt; None if it is not, or there is none."""
        if not self.of_main:
            return None
        used = self.of_main[0]
        by_tunnel = self._devs_in_doubt_with(used.devs)
        by_equal_routes = doubtful_by_equal_routes(self.of_main)
        if by_tunnel:
            why = f"[{used}] leads through a tunnel"
        elif by_equal_routes:
            why = f"[{used}] is not the only default route with its metric"
        else:
            return None
        listed: dict[str, None] = {}
        for route in self.of_main:
            listed |= dict.fromkeys(route.devs)
        doubtful = by_tunnel | by_equal_routes
        return DefaultRouteInDoubt(why, tuple(dev for dev in listed if dev in doubtful))

    @cached_property
    def only_expected_dev(self) -> str | None:
        """The one expected device that can have the default route, if there is one.

        One that is not there may be able to.
        """
        links = self._links
        able = [dev for dev in self._expected if dev not in links or leads_out(links[dev])]
        return able[0] if len(able) == 1 else None

    def may_lead_by(self, dev: str) -> bool:
        """Whether the default route could lead by this device. It leads out, and is the only
        expected one, or is not a VPN's: an earlier release may have moved a route into a VPN.
        """
        if not leads_out(self._links.get(dev)):
            return False
        return dev == self.only_expected_dev or not self._devs_in_doubt_with([dev])

    def _devs_in_doubt_with(self, devs: Iterable[str]) -> frozenset[str]:
        """The devices that are in doubt by a tunnel if the default route leads through these."""
        used = frozenset(devs)
        hidden = devs_hidden_by_a_tunnel(used, self.of_main, self._links)
        are_only_taps = are_taps_without_a_card(used, self._with_address, self._links)
        return doubtful_by_a_tunnel(used, hidden, self._links, are_only_taps=are_only_taps)


def _usable_defaults(routes: Iterable[Route]) -> Iterator[Route]:
    """The default routes for all packets, with only the next hops that Linux uses."""
    for route in routes:
        if route.prefix.length or route.type != "unicast" or not is_for_all_packets(route):
            continue
        hops = [bare_hop(hop) for hop in route.next_hops if not hop.dead]
        if hops:
            yield route._replace(next_hops=tuple(hops))


def is_for_all_packets(route: Route) -> bool:
    """Whether Linux uses the route for every packet, so also when it looks for a gateway: not only
    for those from some sources or with a tos, and its lifetime is not over.
    """
    return not (route.source or route.tos or route.expired)


def _rank(route: Route) -> tuple[bool, int, int, int]:
    """The order among default routes; the lowest is the best."""
    return (route.table != TABLE_MAIN, route.table, *route.rank)
