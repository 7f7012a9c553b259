"""Completes one route that does not name its device or gateway, or says what is missing for that.

Theory of operation. A configured route takes what it does not name from a default route: without a
device, from the best one of table main; with a device, its gateway from the best one through that
device, in any table. A route without a device is not planned by a default route in doubt
(`default_route`), unless exactly one of the expected devices can have the default route: then that
device's is used.

A route that cannot be completed waits. A route of ours that is there stays meanwhile, and is right
if it is usable (`Uplink.can_stay`): a default route that goes, or is in doubt for a while, takes
nothing away from a host that works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hostrouting.finding import Remedy
from hostrouting.model.prefix import IP, IPV4, IPV6, LINK_LOCAL, Prefix
from hostrouting.model.route import (
    DEFAULT_METRIC,
    OURS,
    SCOPE_LINK,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
)
from hostrouting.routes.default_route import (
    DefaultRouteInDoubt,
    DefaultRoutes,
    is_for_all_packets,
)
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot

_HopsOrNeed: TypeAlias = "tuple[NextHop, ...] | Need"
"""The next hops of a route, or what is missing."""

REMEDY = Remedy("add it, or correct the configuration")
TO_HAVE_DEFAULT = Remedy("see why there is none (DHCP, router advertisements), or add it")
TO_PIN = Remedy(
    'bring back what is missing, or write "dev" and "gateway" into the configured route'
)
"""What makes a route independent of the default route."""


class Need(NamedTuple):
    """A phrase for what a route still needs, and what an operator can do."""

    phrase: str
    remedy: Remedy | None = None
    """None stands for `REMEDY`, which fits everything that can be missing."""
    devs: tuple[str, ...] = ()
    """The devices of which one has to be named, if that is what is missing."""
    can_come: bool = True
    """Whether a run that waits can get it."""
    defaults: tuple[Route, ...] = ()
    """The default routes, if the route names a device or gateway and the first one, which Linux
    prefers, leads elsewhere.
    """

    def __str__(self) -> str:
        return self.phrase


TO_HAVE_IPV6 = Remedy("boot it with IPv6, or take the IPv6 networks out of the configuration")
_NO_IPV6 = Need(
    "IPv6, which Linux does not have here, as after a boot with ipv6.disable=1",
    TO_HAVE_IPV6,
    can_come=False,
)


class Uplink:
    """One host, by whose default routes the routes of one family are completed."""

    def __init__(self, snapshot: Snapshot, family: int, expected: Iterable[str] = ()) -> None:
        """Use this host as it is now, without our own routes, because they may be deleted.

        `expected` are the devices that the configuration names as expected.
        """
        self._family = family
        self._lacks_ipv6 = family == IPV6 and snapshot.lacks(IPV6)
        self._links = snapshot.links_by_name
        of_family = [route for route in snapshot.routes if route.prefix.family == family]
        self._not_ours = [route for route in of_family if route.protocol != OURS]
        self._defaults = DefaultRoutes(
            self._not_ours,
            self._links,
            expected=expected,
            with_address=self._devs_with_address(),
        )
        self._next_hops = cache(self._find_next_hops)
        """Many routes name the same device and gateway."""

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
        next_hops = self._next_hops(dev, gateway, on_link=on_link)
        if isinstance(next_hops, Need):
            return next_hops._replace(defaults=self._other_defaults(dev, gateway))

        metric = metric or DEFAULT_METRIC[self._family]
        route = Route(destination, next_hops, metric=metric, protocol=OURS)
        if self._family == IPV4 and not route.has_gateway:
            route = route._replace(scope=SCOPE_LINK)
        cut_off = self._gateway_cut_off_by(route)
        if cut_off is not None:
            return Need(
                f"a destination without the gateway {cut_off}, which Linux would no longer reach "
                "directly"
            )
        return route

    def can_stay(self, route: Route, *, dev: str | None, gateway: IP | None) -> bool:
        """Whether a route of ours with the wanted key is right while the wanted one cannot be
        completed.

        Its devices are up, its gateways are reached directly, and it has the device and the gateway
        that are wanted.
        """
        if route.type != "unicast" or not route.next_hops:
            return False
        if dev is None and self._defaults.doubt is not None:
            dev = self._defaults.only_expected_dev
        return all(self._is_usable(hop, dev, gateway) for hop in route.next_hops)

    def _is_usable(self, hop: NextHop, wanted_dev: str | None, wanted_gateway: IP | None) -> bool:
        """Whether a route of ours may keep this next hop."""
        if self._missing_for_hop(hop):
            return False
        if wanted_gateway is not None and hop.gateway != wanted_gateway:
            return False
        if wanted_dev is not None:
            return hop.dev == wanted_dev
        return self._defaults.may_lead_by(hop.dev or "")

    # Finding the next hops of a route

    def _find_next_hops(self, dev: str | None, gateway: IP | None, *, on_link: bool) -> _HopsOrNeed:
        if self._lacks_ipv6:
            return _NO_IPV6
        if dev is not None:
            missing = self._missing_for_device(dev)
            if missing:
                return Need(missing)
        if on_link:
            next_hops: _HopsOrNeed = (NextHop(dev),)
        else:
            next_hops = self._complete(dev, gateway)
        if isinstance(next_hops, Need):
            return next_hops
        for hop in next_hops:
            missing = self._missing_for_hop(hop)
            if missing:
                return Need(missing)
        return next_hops

    def _other_defaults(self, dev: str | None, gateway: IP | None) -> tuple[Route, ...]:
        """The default routes, if the one that Linux prefers does not lead by the device and the
        gateway that are named; none if that one is in doubt.
        """
        defaults = self._defaults
        if defaults.doubt is not None or not defaults.of_main:
            return ()
        for hop in defaults.of_main[0].next_hops:
            if dev in {None, hop.dev} and gateway in {None, hop.gateway}:
                return ()
        return tuple(defaults.of_main)

    def _complete(self, dev: str | None, gateway: IP | None) -> _HopsOrNeed:
        """The next hops of a route that may name its device and its gateway; whether Linux can use
        them is asked next.
        """
        if dev is not None:
            return self._complete_by_device(dev, gateway)
        hops = self._hops_of_default_route()
        if isinstance(hops, Need):
            return hops
        next_hops = _taken_over(hops, gateway)
        if gateway is None or next_hops:
            return next_hops
        return (NextHop(hops[0].dev, gateway),)

    def _complete_by_device(self, dev: str, gateway: IP | None) -> _HopsOrNeed:
        """As in the best default route through the device, in any table."""
        next_hops = _taken_over(_first_hops(self._defaults.all, dev), gateway)
        if next_hops:
            return next_hops
        if gateway is None:
            return self._missing_default(dev)
        return (NextHop(dev, gateway),)

    def _hops_of_default_route(self) -> _HopsOrNeed:
        """The next hops of the best default route of table main; in doubt, of the best one through
        the one device that is expected.
        """
        defaults = self._defaults
        if defaults.doubt is None:
            if not defaults.of_main:
                return self._missing_default()
            return defaults.of_main[0].next_hops
        dev = defaults.only_expected_dev
        if dev is None:
            return _need_of_a_choice(defaults.doubt)
        return _first_hops(defaults.of_main, dev) or self._missing_default(dev)

    def _missing_default(self, dev: str | None = None) -> Need:
        on_dev = "" if dev is None else f" on {dev}"
        return Need(f"an IPv{self._family} default route{on_dev}", TO_HAVE_DEFAULT)

    def _devs_with_address(self) -> Iterator[str]:
        """The devices of this host's own addresses, except link-local ones."""
        for prefix, devs in self._own_addresses.items():
            if prefix not in LINK_LOCAL:
                yield from devs

    # What is missing for a next hop

    def _missing_for_hop(self, hop: NextHop) -> str:
        """A phrase for what Linux needs before it accepts a route with this next hop; empty if
        nothing is missing.
        """
        return self._missing_for_device(hop.dev or "") or self._missing_for_gateway(hop)

    def _missing_for_device(self, dev: str) -> str:
        link = self._links.get(dev)
        if link is None:
            return f"the device {dev}, which this host does not have (an altname does not count)"
        if not link.up:
            return f"the device {dev} to be up"
        if self._family == IPV6 and link.ipv6_disabled:
            return f"IPv6 to be enabled on {dev}"
        return ""

    def _missing_for_gateway(self, hop: NextHop) -> str:
        """Not judged: an IPv6 gateway with `onlink` to which a route leads by another device. Linux
        refuses it.
        """
        gateway = hop.gateway
        if gateway is None:
            return ""
        if gateway.version != self._family:
            return ""  # of an IPv4 default route by an IPv6 router: Linux has accepted it
        if self._is_own_address(gateway, hop.dev):
            # Linux refuses the route, or accepts it and loses the packets.
            return f"a gateway other than {gateway}, this host's own address or a broadcast address"
        if hop.onlink or gateway in LINK_LOCAL or self._is_near(gateway, hop.dev):
            return ""
        return f"an address or route on {hop.dev} that reaches the gateway {gateway} directly"

    def _is_near(self, gateway: IP, dev: str | None) -> bool:
        """Whether Linux would find the gateway on the link of the device."""
        best = self._best_route_to(gateway, dev)
        return best is not None and not best.has_gateway

    def _best_route_to(self, gateway: IP, dev: str | None) -> Route | None:
        """The route of table main by which Linux looks for a gateway on this device. Linux also
        looks in other tables, as the rules say; a gateway that only those lead to is not found
        here.

        In IPv4, Linux passes over routes whose scope is global, as it is of those that have a
        gateway themselves. In IPv6, it takes the best route by the device, and refuses the gateway
        if that route goes to a router itself.
        """
        candidates = self._not_ours
        if self._family == IPV4:
            candidates = [route for route in self._not_ours if route.scope >= SCOPE_LINK]
        there = Prefix.of(gateway)
        routes: list[Route] = []
        for route in candidates:
            if route.table != TABLE_MAIN or there not in route.prefix:
                continue
            if not is_for_all_packets(route):
                continue
            if dev in route.devs:
                routes.append(route)
        return min(routes, key=_order_of_lookup, default=None)

    def _gateway_cut_off_by(self, route: Route) -> IP | None:
        """The gateway that Linux would look for by this IPv6 route, and not find: that of the route
        itself, or of a default route. None if there is none.

        Linux then refuses further routes by that gateway: ours, and the default route of the host
        when that is added anew.
        """
        if self._family == IPV4 or not route.has_gateway:
            return None
        hops = [*route.next_hops]
        for default in self._defaults.all:
            hops += default.next_hops
        for hop in hops:
            if self._cuts_off(route, hop):
                return hop.gateway
        return None

    def _cuts_off(self, route: Route, hop: NextHop) -> bool:
        """Whether Linux would look for the gateway of a next hop by this route, and not find it."""
        gateway = hop.gateway
        if gateway is None or hop.onlink:
            return False
        if hop.dev not in route.devs or Prefix.of(gateway) not in route.prefix:
            return False
        best = self._best_route_to(gateway, hop.dev)
        if best is None or best.has_gateway:
            return False
        return _order_of_lookup(route) <= _order_of_lookup(best)

    def _is_own_address(self, gateway: IP, dev: str | None) -> bool:
        """Whether the gateway on this device is this host, or all hosts of a network."""
        devs = self._own_addresses.get(Prefix.of(gateway), set())
        if gateway in LINK_LOCAL:
            return dev in devs
        return bool(devs)

    @cached_property
    def _own_addresses(self) -> dict[Prefix, set[str]]:
        """The addresses of this host and the broadcast addresses of its networks, with the devices
        of the routes to them.

        A local route that has a gateway, or is in another table than local and main, can be that of
        a proxy, which takes marked packets in.
        """
        own_addresses: dict[Prefix, set[str]] = {}
        for route in self._not_ours:
            if route.has_gateway or route.table not in {TABLE_LOCAL, TABLE_MAIN}:
                continue
            if route.type in {"local", "broadcast"}:
                own_addresses.setdefault(route.prefix, set()).update(route.devs)
        return own_addresses


def _order_of_lookup(route: Route) -> tuple[int, int, int]:
    """The order among routes of a table to an address; the lowest is used."""
    return (-route.prefix.length, *route.rank)


def _need_of_a_choice(doubt: DefaultRouteInDoubt) -> Need:
    """The need to name one of the devices in doubt."""
    quoted = [f'"{dev}"' for dev in doubt.devs]
    remedy = Remedy(
        f'write "dev": {spoken(quoted, last="or")} into the configured route, or name one '
        "device in routeOverlap.expectedDevs"
    )
    return Need(f"a device to be named: {doubt.why}", remedy, doubt.devs)


def _first_hops(routes: Iterable[Route], dev: str) -> tuple[NextHop, ...]:
    """The next hops through a device of the first route that has some."""
    for route in routes:
        hops = [hop for hop in route.next_hops if hop.dev == dev]
        if hops:
            return tuple(hops)
    return ()


def _taken_over(hops: tuple[NextHop, ...], gateway: IP | None) -> tuple[NextHop, ...]:
    """Those of a default route's next hops that a route takes over: all, or the first that has the
    named gateway.

    So the gateway is on-link if it is in the default route. Linux keeps a weight only if there are
    several next hops.
    """
    if gateway is not None:
        hops = tuple(hop for hop in hops if hop.gateway == gateway)[:1]
    if len(hops) == 1:
        return (hops[0]._replace(weight=1),)
    return hops
