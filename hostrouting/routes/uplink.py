"""The uplink of a host: its default route, and the device and gateway for routes that leave them open.

Here: the routes that a configuration wants, and a route made complete, or what is missing for that. Whether a route
conflicts with others is asked in `plan`, and which devices are expected in `check.expected`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hostrouting.model.prefix import IP, IPV4, IPV6, LINK_LOCAL, Prefix
from hostrouting.model.route import (
    DEFAULT_METRIC,
    OURS,
    PREFERENCES,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteKey,
)

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig, StaticRoutesConfig
    from hostrouting.model.snapshot import Link, Snapshot

_Way: TypeAlias = tuple[tuple[NextHop, ...], int]
"""The next hops of a route, and its scope."""

_DEAD_ENDS = {"dummy", "ifb", "vrf"}
"""Kinds of devices by which no packet leaves the host; a VRF sends it on by a table of its own."""


class DesiredRoute(NamedTuple):
    """A static route to install; fields that are None are taken from the default route."""

    destination: Prefix
    gateway: IP | None = None
    dev: str | None = None
    metric: int = 0
    is_on_link: bool = False
    """Whether the destination is a neighbour on `dev`, whatever the default route is."""
    is_optional: bool = False
    """Whether the route is left out while it cannot be set: nothing waits for it, and nothing fails."""

    @property
    def key(self) -> RouteKey:
        """The key by which the kernel will distinguish the route, as in `Route.key`."""
        return RouteKey(TABLE_MAIN, self.destination, 0, self.metric or DEFAULT_METRIC[self.destination.family])

    def to_mapping(self) -> dict[str, Any]:
        """The route as written under staticRoutes.routes in the configuration."""
        return {
            "destination": str(self.destination),
            "gateway": str(self.gateway or ""),
            "dev": self.dev or "",
            "metric": self.metric,
        }

    def __str__(self) -> str:
        fields = {"via": self.gateway, "dev": self.dev, "metric": self.metric}
        return " ".join([str(self.destination), *(f"{word} {value}" for word, value in fields.items() if value)])


def wanted_routes(config: HostRoutingConfig) -> tuple[DesiredRoute, ...]:
    """Every route of ours that a configuration asks for: its static routes, and the one for replies to probes.

    A configured route with the key of that one takes its place.
    """
    routes, rewrite = wanted_routes_of(config.static_routes), config.probe_rewrite
    if rewrite.enabled and rewrite.ensure_route:
        [dev] = rewrite.interfaces
        reply = DesiredRoute(Prefix.of(rewrite.global_address), dev=dev, is_on_link=True, is_optional=True)
        routes += () if reply.key in (route.key for route in routes) else (reply,)
    return routes


def wanted_routes_of(static: StaticRoutesConfig) -> tuple[DesiredRoute, ...]:
    """The routes of this section, as `plan_routes` takes them."""
    return tuple(
        DesiredRoute(Prefix.of(route.destination), gateway=route.gateway, dev=route.dev, metric=route.metric)
        for route in (static.routes if static.enabled else ())
    )


class Pending(NamedTuple):
    """A desired route that cannot be installed yet, and what is missing."""

    desired: DesiredRoute
    missing: str

    def __str__(self) -> str:
        return f"{self.desired}: waiting for {self.missing}"


def leads_out(link: Link | None) -> bool:
    """Whether a default route by this device can be one of the network: InfiniBand has to be named."""
    return link is not None and not link.infiniband and not link.loopback and link.kind not in _DEAD_ENDS


def bare_leg(leg: NextHop) -> NextHop:
    """The next hop without the state that the kernel reports, as in a request."""
    return leg._replace(linkdown=False, dead=False, pervasive=False)


def _rank(route: Route) -> tuple[bool, int, int, int]:
    return route.table != TABLE_MAIN, route.table, route.metric, -PREFERENCES.index(route.preference)


class Uplink:
    """The default routes and devices of one host, to complete routes of one family by."""

    def __init__(self, snapshot: Snapshot, family: int) -> None:
        """Use this host as it is now, without our own routes, because they may be deleted."""
        others = tuple(route for route in snapshot.routes if route.protocol != OURS)
        self._snapshot, self._family = snapshot._replace(routes=others), family
        self._links = {link.name: link for link in snapshot.links}
        self._known: dict[tuple[str | None, IP | None, bool], _Way | str] = {}
        """By device and gateway, which many routes share: the way, or what is missing."""

    def resolve(self, desired: DesiredRoute) -> Route | Pending:
        """The complete route; or a Pending that says what it still needs."""
        fields = (desired.dev, desired.gateway, desired.is_on_link)
        way = self._known.get(fields)
        if way is None:
            way = self._known[fields] = self._find_way(*fields)
        if isinstance(way, str):
            return Pending(desired, way)
        metric = desired.metric or DEFAULT_METRIC[self._family]
        return Route(desired.destination, way[0], metric=metric, scope=way[1], protocol=OURS)

    def _find_way(self, dev: str | None, gateway: IP | None, is_on_link: bool) -> _Way | str:  # noqa: FBT001  a field
        """The next hops and the scope; or a phrase for what is missing."""
        legs = (NextHop(dev),) if is_on_link else self._legs(dev, gateway)
        if isinstance(legs, str):
            return legs
        scope = SCOPE_LINK if self._family == IPV4 and not any(leg.gateway for leg in legs) else SCOPE_UNIVERSE
        return next((missing for leg in legs if (missing := self._missing(leg))), (legs, scope))

    def _legs(self, dev: str | None, gateway: IP | None) -> tuple[NextHop, ...] | str:
        ways = self._default_legs(dev)
        # A gateway that the default route has, too, is treated as there: on-link if that is.
        same = tuple(leg for leg in ways if gateway in {None, leg.gateway})
        if same:  # Linux keeps a weight only if there are several
            return same if len(same) > 1 and gateway is None else (same[0]._replace(weight=1),)
        if dev is not None and (gateway is not None or dev not in self._links):
            return (NextHop(dev, gateway=gateway),)
        if not ways or gateway is None:
            return f"an IPv{self._family} default route" + (f" on {dev}" if dev else "")
        return (NextHop(ways[0].dev, gateway=gateway),)

    def _default_legs(self, dev: str | None) -> tuple[NextHop, ...]:
        """The next hops of the best default route of table main; of that by `dev`, also if that is in another table.

        What rules select does not matter: static-routes.sh does not read them, and a VPN's rules must not decide. Only
        with `dev`, it can be InfiniBand.
        """
        for route in self._defaults:
            legs = [leg for leg in route.legs if not leg.dead]
            if dev is not None:
                legs = [leg for leg in legs if leg.dev == dev]
            elif route.table == TABLE_MAIN:
                legs = [leg for leg in legs if leads_out(self._links.get(leg.dev or ""))]
            else:
                break
            if legs:
                return tuple(map(bare_leg, legs))
        return ()

    @cached_property
    def _defaults(self) -> list[Route]:
        """Those of all tables, the best first: of table main, then of the lowest table, by metric and preference."""
        every = [
            route
            for route in self._snapshot.routes
            if route.prefix == Prefix(self._family, 0, 0) and route.type == "unicast"
            if route.source is None and not route.tos and not route.expired
        ]
        return sorted(every, key=_rank)

    def _missing(self, leg: NextHop) -> str:
        """A phrase for what Linux needs before it accepts a route by this next hop; empty if nothing is missing."""
        link, gateway = self._links.get(leg.dev or ""), leg.gateway
        if link is None:
            return f"the device {leg.dev}"
        if not link.up:
            return f"the device {leg.dev} to be up"
        if self._family == IPV6 and link.ipv6_disabled:
            return f"IPv6 to be enabled on {leg.dev}"
        if gateway is None or gateway.version != self._family or gateway in LINK_LOCAL:
            return ""  # IPv4 has no rules for a neighbour of the other family
        if gateway in self._own:
            return f"{gateway} to be a router next to this host (it is this host's own address)"
        if leg.onlink or self._reaches(leg.dev, gateway):
            return ""
        return f"an address or route on {leg.dev} that reaches the gateway {gateway} directly"

    def _reaches(self, dev: str | None, gateway: IP) -> bool:
        """Whether the gateway is a neighbour on the device: Linux refuses any other gateway."""
        return any(dev in devs and gateway in prefix for prefix, devs in self._neighbours)

    @cached_property
    def _own(self) -> set[IP]:
        """The addresses of this host."""
        return {route.prefix.ip for route in self._snapshot.routes if route.type == "local"}

    @cached_property
    def _neighbours(self) -> list[tuple[Prefix, set[str | None]]]:
        """Whose addresses are neighbours: in IPv4 the scope of a route says so."""
        return [
            (route.prefix, {leg.dev for leg in route.legs if leg.gateway is None})
            for route in self._snapshot.routes
            if route.table == TABLE_MAIN and route.prefix.family == self._family and route.source is None
            if route.type == "unicast" and (self._family != IPV4 or route.scope >= SCOPE_LINK)
        ]
