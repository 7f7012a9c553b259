"""Completes one route that does not name its device or gateway, or says what is missing for that.

Theory of operation. A configured route takes what it does not name from a default route: without a
device, from the best one of table main; with a device, its gateway from the best one through that
device, in any table. If the default route has several next hops, an IPv4 route takes all of them.
An IPv6 route takes only the first: Linux stores each IPv6 next hop as a route of its own and joins
those with the same prefix and metric, whoever has added them. It could not be seen then which of
them are ours. A route that names its gateway takes the next hop with that gateway. A destination in
a network of the device itself needs no gateway: its addresses are neighbours.

A route also takes the source address (`src`) of the default route that has its next hop, unless
Linux chooses this address anyway. On a routed fabric, for example, the address of the host is on
lo, and the uplink has only an address that the fabric does not know.

While the default route is in doubt (`default_route`), a route without a device waits. It does not
if exactly one of the expected devices can have a default route: then it takes that device's.

A route that cannot be completed waits. If Linux refuses a route for another reason, its own error
is raised when the route is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.finding import Remedy
from hostrouting.model.link_kinds import leads_out
from hostrouting.model.prefix import IP, IPV4, LINK_LOCAL, Prefix
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

TO_HAVE_DEFAULT = Remedy(
    "see why there is none (a device that is down, DHCP, router advertisements), or add it"
)


class Need(NamedTuple):
    """A phrase for what a route still needs before it can be added, and what an operator can do. Of
    a route that stays as it is for now, the phrase says what it will do after a reboot.
    """

    phrase: str
    remedy: Remedy = Remedy("make that so, or correct the configuration")

    def __str__(self) -> str:
        return self.phrase


class Uplink:
    """Completes routes of one family by the default routes of a host."""

    def __init__(self, snapshot: Snapshot, family: int, expected: Iterable[str] = ()) -> None:
        """Take from the snapshot what completes a route: links, addresses and default routes. Our
        own routes do not count, because they may be deleted.

        `expected` are the devices of `routeOverlap.expectedDevs`. If exactly one of them can have a
        default route, a route that names neither device nor gateway takes both from there. While
        this device has no default route, the other route waits for it (`Need`), because the gateway
        of another card may lead elsewhere.
        """
        self._family = family
        self._links = snapshot.links_by_name
        self._addresses = snapshot.addresses
        self._not_ours = [
            route
            for route in snapshot.routes
            if route.prefix.family == family and route.protocol != OURS
        ]
        self.defaults = usable_defaults(self._not_ours)
        """The default routes of all tables, the best first."""
        ways_out = {name for name, link in self._links.items() if leads_out(link)}
        in_main = [route for route in self.defaults if route.table == TABLE_MAIN]
        self._expected_ways_out = [
            dev for dev in expected if dev not in self._links or dev in ways_out
        ]
        """The expected devices that can have a default route, even if this host does not have them
        yet.
        """
        self._main_defaults = with_next_hops(in_main, lambda hop: hop.dev in ways_out)
        """The default routes of table main, each with those next hops that can be a way out of the
        host (`leads_out`).
        """
        self._devs_in_doubt = doubtful_devs(self._main_defaults, snapshot)
        # Cached, because many routes have the same gateway.
        self.reaches = cache(self._is_reached)
        self._source_by = cache(self._source)  # by the gateway and device of a route

    def route_to(
        self,
        destination: Prefix,
        *,
        dev: str | None = None,
        gateway: IP | None = None,
        metric: int = 0,
        on_link: bool = False,
    ) -> Route | Need:
        """Complete a route to the destination: take what the configuration does not name (`dev`,
        `gateway`) from a default route. Return the route, or what it still needs before it can be
        added.

        With `on_link`, the destination is on the link of the device, so it needs no gateway, and no
        default route is looked at.
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
                    f"an address or route on {hop.dev} (configured routes do not count) "
                    f"that reaches the gateway {hop.gateway}"
                )
        route = Route(
            destination,
            next_hops,
            metric=metric or DEFAULT_METRIC[self._family],
            protocol=OURS,
        )
        if route.has_gateway:
            # A route names one source for all its next hops: the first that is found. If it names
            # none, Linux chooses one for each next hop.
            sources = (source for source in map(self._source_by, next_hops) if source)
            return route._replace(prefsrc=next(sources, None))
        if self._family == IPV4:  # as `ip route add` does
            return route._replace(scope=SCOPE_LINK)
        return route

    def _next_hops(
        self, destination: Prefix, dev: str | None, gateway: IP | None
    ) -> tuple[NextHop, ...] | Need:
        """Return the next hops of a route to this destination, or what the route still needs before
        it can be added. `dev` or `gateway` is None if the route does not name it.
        """
        # If no device is named, take the only expected one. But a named gateway may be on another
        # card: beside a gateway, take the expected device only if it is in doubt which default
        # route counts.
        takes_expected_dev = gateway is None or self._devs_in_doubt
        if takes_expected_dev and dev is None and len(self._expected_ways_out) == 1:
            [dev] = self._expected_ways_out
        if dev is None and self._devs_in_doubt:
            devs = spoken(sorted(self._devs_in_doubt), last="or")
            return Need(
                "a device to be named, because it is unclear whether "
                f"[{self._main_defaults[0]}] is the right one",
                Remedy(f"name {devs} in the configured route, or in routeOverlap.expectedDevs"),
            )
        # A named device may have its default route in a table of its own.
        hops = _hops_of_best(self._main_defaults if dev is None else self.defaults, dev)
        if gateway is None:
            # A neighbour needs no gateway. For other destinations, `hops` have the gateways.
            for hop in hops:
                if self._is_neighbour(destination, hop.dev):
                    return (NextHop(hop.dev),)
        # A named gateway needs a device. The next hop of the default route that has this gateway
        # shows the device. If there is none, the gateway is assumed to be on the named device or,
        # if no device is named, on that of the default route.
        elif dev or hops:
            with_gateway = [hop for hop in hops if hop.gateway == gateway]
            hops = with_gateway or [NextHop(dev or hops[0].dev, gateway)]
        if not hops:
            on_dev = "" if dev is None else f" on {dev}"
            return Need(f"an IPv{self._family} default route{on_dev}", TO_HAVE_DEFAULT)
        # Several next hops are taken only in IPv4. In IPv6, Linux lists all next hops with one
        # prefix and metric as one route, whoever added them, so nobody could see which of them are
        # ours.
        if len(hops) == 1 or self._family != IPV4:
            return (hops[0]._replace(weight=1),)  # a weight is only for one of several next hops
        return tuple(hops)

    def _is_neighbour(self, destination: Prefix, dev: str | None) -> bool:
        """Whether the destination lies in a network of the device, and Linux has a route to this
        network without a gateway. Then a route to the destination needs no gateway.

        tests/hosts: second-card-has-half-of-the-network.
        """
        for address in self._addresses:
            if address.dev == dev and destination in address.network:
                # The address alone is not enough: with `noprefixroute`, its network has no route.
                # So ask whether Linux could reach a gateway there: then it reaches neighbours, too.
                return self._is_reached(NextHop(dev, destination.ip))
        return False

    def _is_reached(self, hop: NextHop) -> bool:
        """Whether the gateway of this next hop is directly on the link of its device, as Linux
        demands. A route of table main has to lead to the gateway through this device, and have no
        gateway itself. Our own routes do not count, because they may be deleted.

        In IPv6, a more specific route with a gateway can hide that route of table main; IPv4 passes
        over routes with a gateway. This is not checked here: Linux then refuses to add a route by
        this next hop.
        """
        gateway = hop.gateway
        return (
            gateway is None  # nothing has to be reached
            or hop.onlink  # Linux is told that the gateway is on the link
            or gateway in LINK_LOCAL  # such an address is on every link
            # An IPv4 route by an IPv6 router (RTA_VIA) is not checked, because `self` has only the
            # IPv4 routes.
            or gateway.version != self._family
            or any(self._routes_to_gateway(hop))
        )

    def _source(self, hop: NextHop) -> IP | None:
        """The source that a route by this next hop takes: the `src` of the best default route that
        has the next hop. None if Linux chooses this source anyway, because a route to the gateway
        has it. So most routes get no source, which is better: Linux deletes an IPv4 route together
        with its source.

        tests/hosts: fabric-writes-the-address-of-lo, fabric-writes-the-address-of-lo-ipv6,
        default-writes-the-second-address.
        """
        # The best default route by the same device and gateway comes first, and decides.
        for default in with_next_hops(self.defaults, lambda other: other[:2] == hop[:2]):
            if default.prefsrc in {route.prefsrc for route in self._routes_to_gateway(hop)}:
                return None
            return default.prefsrc
        return None

    def _routes_to_gateway(self, hop: NextHop) -> Iterator[Route]:
        """Yield the routes by which Linux reaches the gateway of this next hop: those of table main
        that lead to it through the next hop's device, and have no gateway themselves. Without such
        a route, Linux refuses to add a route by this next hop. Our own routes do not count, because
        they may be deleted.
        """
        for route in self._not_ours:
            if (
                route.table == TABLE_MAIN
                and hop.gateway
                and hop.gateway in route.prefix
                and hop.dev in route.devs
                and not route.has_gateway
                and is_for_all_packets(route)
            ):
                yield route


def _hops_of_best(defaults: Iterable[Route], dev: str | None) -> list[NextHop]:
    """The next hops of the best of these default routes, which a configured route then uses, too;
    empty if there is none. With `dev`, only next hops through this device count, and a default
    route without such a next hop is skipped.
    """
    # The best default route comes first.
    for route in with_next_hops(defaults, lambda hop: dev in {None, hop.dev}):
        return [bare_hop(hop) for hop in route.next_hops]
    return []
