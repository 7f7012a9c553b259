"""Completes one route that does not name its device or gateway, or says what is missing for that.

Theory of operation. A configured route takes what it does not name from a default route: without a
device, from the best one of table main; with a device, its gateway from the best one through that
device, in any table. Of several next hops, an IPv4 route takes all, and an IPv6 route the first: in
IPv6, each would be a route of its own. A route that names its gateway takes the one that has it. A
destination in a network of the device itself has no gateway: these are neighbours. A route without
a device is not planned by a default route in doubt (`default_route`), unless exactly one of the
expected devices can have the default route: then that device's is used.

A route that cannot be completed waits. What Linux refuses for another reason, it says itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.finding import Remedy
from hostrouting.model.link_kinds import leads_out
from hostrouting.model.prefix import IP, IPV4, LINK_LOCAL, Prefix, ip_at
from hostrouting.model.route import (
    DEFAULT_METRIC,
    OURS,
    SCOPE_LINK,
    TABLE_MAIN,
    NextHop,
    Route,
    bare_hop,
)
from hostrouting.routes.default_route import (
    doubtful_devs,
    is_for_all_packets,
    usable_defaults,
    with_next_hops,
)
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot

TO_HAVE_DEFAULT = Remedy("see why there is none (DHCP, router advertisements), or add it")


class Need(NamedTuple):
    """A phrase for what a route still needs, and what an operator can do."""

    phrase: str
    remedy: Remedy = Remedy("add it, or correct the configuration")

    def __str__(self) -> str:
        return self.phrase


class Uplink:
    """A host, by whose default routes the routes of one family are completed."""

    def __init__(self, snapshot: Snapshot, family: int, expected: Iterable[str] = ()) -> None:
        """Use this host as it is now, without our own routes, because they may be deleted.

        `expected` are the devices that the configuration names as expected.
        """
        self._family = family
        self._links = snapshot.links_by_name
        self._addresses = snapshot.addresses
        self._not_ours = [
            route
            for route in snapshot.routes
            if route.prefix.family == family and route.protocol != OURS
        ]
        self._defaults = usable_defaults(self._not_ours)
        """The default routes of all tables, the best first."""
        ways_out = {name for name, link in self._links.items() if leads_out(link)}
        of_main = [route for route in self._defaults if route.table == TABLE_MAIN]
        self._of_main = with_next_hops(of_main, lambda hop: hop.dev in ways_out)
        """The default routes of table main, with the next hops that lead out of the host."""
        self._doubtful = doubtful_devs(self._of_main, snapshot)
        able = [dev for dev in expected if dev not in self._links or dev in ways_out]
        self._only_expected_dev = able[0] if len(able) == 1 else None
        """The only one of the expected devices that can have the default route settles a doubt."""
        self.reaches = cache(self._is_reached)
        """Many routes have the same gateway."""

    def route_to(
        self,
        destination: Prefix,
        *,
        dev: str | None = None,
        gateway: IP | None = None,
        metric: int = 0,
        on_link: bool = False,
    ) -> Route | Need:
        """The complete route; or a phrase for what it still needs.

        With `on_link`, the destination is a neighbour on the device, whatever the default route is.
        """
        if dev is not None:
            if dev not in self._links:
                return Need(f"the device {dev}, which this host does not have")
            if not self._links[dev].up:
                return Need(f"the device {dev} to be up")
        next_hops: tuple[NextHop, ...] | Need = (NextHop(dev),)
        if not on_link:
            next_hops = self._next_hops(destination, dev, gateway)
        if isinstance(next_hops, Need):
            return next_hops
        for hop in next_hops:
            if not self.reaches(hop):
                return Need(
                    f"an address or route on {hop.dev} that reaches the gateway {hop.gateway}"
                )
        metric = metric or DEFAULT_METRIC[self._family]
        route = Route(destination, next_hops, metric=metric, protocol=OURS)
        if self._family == IPV4 and not route.has_gateway:
            route = route._replace(scope=SCOPE_LINK)
        return route

    def defaults_for(self, dev: str | None) -> list[Route]:
        """The default routes from which a route with this device takes what it does not name."""
        return self._of_main if dev is None else self._defaults

    def _next_hops(
        self, destination: Prefix, dev: str | None, gateway: IP | None
    ) -> tuple[NextHop, ...] | Need:
        """The next hops of a route to this destination that may name its device and its gateway."""
        defaults = self.defaults_for(dev)
        if dev is None and self._doubtful:
            dev = self._only_expected_dev
            if dev is None:
                return self._need_of_a_choice()
        hops = _first_hops(defaults, dev)
        if gateway is None:
            for hop in hops:
                if self._is_neighbour(destination, hop.dev):
                    return (NextHop(hop.dev),)
        elif dev or hops:
            with_gateway = [hop for hop in hops if hop.gateway == gateway]
            hops = with_gateway or [NextHop(dev or hops[0].dev, gateway)]
        if not hops:
            on_dev = "" if dev is None else f" on {dev}"
            return Need(f"an IPv{self._family} default route{on_dev}", TO_HAVE_DEFAULT)
        if len(hops) == 1 or gateway is not None or self._family != IPV4:
            return (hops[0]._replace(weight=1),)  # Linux keeps a weight only beside others
        return tuple(hops)

    def _is_neighbour(self, destination: Prefix, dev: str | None) -> bool:
        """Whether the destination lies in a network of the device, and Linux looks for it there.

        Field state: second-card-has-half-of-the-network.
        """
        for address in self._addresses:
            if address.dev == dev and destination in address.network:
                return self._is_reached(NextHop(dev, ip_at(self._family, destination.first)))
        return False

    def _need_of_a_choice(self) -> Need:
        """The need to name one of the devices in doubt."""
        named = spoken(sorted(self._doubtful), last="or")
        return Need(
            "a device to be named, because it is unclear whether "
            f"[{self._of_main[0]}] is the right one",
            Remedy(f"name {named} in the configured route, or in routeOverlap.expectedDevs"),
        )

    def _is_reached(self, hop: NextHop) -> bool:
        """Whether Linux would look for the gateway on the link of the device."""
        gateway = hop.gateway
        if (
            gateway is None
            or hop.onlink
            or gateway in LINK_LOCAL
            or gateway.version != self._family  # of an IPv4 default route by an IPv6 router
        ):
            return True
        for route in self._not_ours:
            if route.table == TABLE_MAIN and gateway in route.prefix:
                is_on_link = hop.dev in route.devs and not route.has_gateway
                if is_on_link and is_for_all_packets(route):
                    return True
        return False


def _first_hops(defaults: Iterable[Route], dev: str | None) -> list[NextHop]:
    """The next hops, through the device if one is named, of the first route that has some."""
    for route in with_next_hops(defaults, lambda hop: dev in {None, hop.dev}):
        return [bare_hop(hop) for hop in route.next_hops]
    return []
