"""The uplink of a host: its default route, and the next hops of routes that do not name their device or gateway.

This module completes one route, or says what is missing for that. `plan` finds conflicts with other routes, and
`check.expected` the expected devices.
"""

from __future__ import annotations

from typing import TypeAlias

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
)
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link, Snapshot

_Way: TypeAlias = tuple[NextHop, ...] | str
"""The next hops of a route, or a phrase for what is missing."""

_DEAD_ENDS = {"dummy", "ifb", "vrf"}
"""Kinds of devices that send nothing out of the host; a VRF routes packets again, with its own table."""


def leads_out(link: Link | None) -> bool:
    """Whether a default route through this device can lead to the network; an InfiniBand device has to be named."""
    return link is not None and link.type != ARPHRD_INFINIBAND and not link.loopback and link.kind not in _DEAD_ENDS


def bare_hop(hop: NextHop) -> NextHop:
    """The next hop without the state that the kernel reports, as in a request."""
    return hop._replace(linkdown=False, dead=False)


class Uplink:
    """The default routes and devices of one host, which complete the routes of one family."""

    def __init__(self, snapshot: Snapshot, family: int) -> None:
        """Use this host as it is now, without our own routes, because they may be deleted."""
        others = [route for route in snapshot.routes if route.protocol != OURS and route.prefix.family == family]
        self._family, self._links = family, {link.name: link for link in snapshot.links}
        usable = [route for route in others if not (route.prefix.length or route.source or route.tos or route.expired)]
        self._defaults = sorted((route for route in usable if route.type == "unicast"), key=_rank)
        """The default routes of all tables, the best first: by table (main, then the lowest), metric and preference."""
        self._direct = [route for route in others if not route.has_gateway]
        """The routes without any gateway, which say what is on a link, and what is this host's own."""
        self._ways: dict[tuple[str | None, IP | None, bool], _Way] = {}
        """The next hops by device, gateway and `on_link`, which many routes share."""

    def route_to(
        self,
        destination: Prefix,
        *,
        dev: str | None = None,
        gateway: IP | None = None,
        metric: int = 0,
        on_link: bool = False,
    ) -> Route | str:
        """The complete route; or a phrase for what it still needs.

        With `on_link`, the destination is a neighbour on the device, whatever the default route is.
        """
        fields = (dev, gateway, on_link)
        way = self._ways.get(fields)
        if way is None:
            way = self._ways[fields] = self._way(dev, gateway, on_link=on_link)
        if isinstance(way, str):
            return way
        scope = SCOPE_LINK if self._family == IPV4 and not any(hop.gateway for hop in way) else SCOPE_UNIVERSE
        return Route(destination, way, metric=metric or DEFAULT_METRIC[self._family], scope=scope, protocol=OURS)

    def _way(self, dev: str | None, gateway: IP | None, *, on_link: bool) -> _Way:
        way = (NextHop(dev),) if on_link else self._next_hops(dev, gateway)
        return way if isinstance(way, str) else next(filter(None, map(self._missing, way)), way)

    def _next_hops(self, dev: str | None, gateway: IP | None) -> _Way:
        defaults = self._default_hops(dev)
        # A gateway that the default route also has is treated as it is there: on-link if that next hop is.
        same = tuple(hop for hop in defaults if gateway in {None, hop.gateway})
        if same:  # Linux keeps a weight only if there are several
            return same if len(same) > 1 and gateway is None else (same[0]._replace(weight=1),)
        if dev is not None and (gateway is not None or dev not in self._links):
            return (NextHop(dev, gateway=gateway),)
        if not defaults or gateway is None:
            return f"an IPv{self._family} default route" + (f" on {dev}" if dev else "")
        return (NextHop(defaults[0].dev, gateway=gateway),)

    def _default_hops(self, dev: str | None) -> tuple[NextHop, ...]:
        """The next hops of the best default route: in table main, or with `dev`, through that device in any table.

        Rules do not matter: static-routes.sh does not read them, and a VPN's rules must not decide. A next hop through
        InfiniBand is left out unless `dev` names the device.
        """
        for route in self._defaults:
            next_hops = [hop for hop in route.next_hops if not hop.dead]
            if dev is not None:
                next_hops = [hop for hop in next_hops if hop.dev == dev]
            elif route.table == TABLE_MAIN:
                next_hops = [hop for hop in next_hops if leads_out(self._links.get(hop.dev or ""))]
            else:
                break
            if next_hops:
                return tuple(map(bare_hop, next_hops))
        return ()

    def _missing(self, hop: NextHop) -> str:
        """A phrase for what Linux needs before it accepts a route with this next hop; empty if nothing is missing."""
        link, gateway = self._links.get(hop.dev or ""), hop.gateway
        if link is None:
            return f"the device {hop.dev}, which this host does not have"
        if not link.up:
            return f"the device {hop.dev} to be up"
        if self._family == IPV6 and link.ipv6_disabled:
            return f"IPv6 to be enabled on {hop.dev}"
        if gateway is None or gateway.version != self._family or gateway in LINK_LOCAL:
            return ""  # IPv4 has no rules for a neighbour of the other family
        there = Prefix.of(gateway)
        covering = [route for route in self._direct if there in route.prefix]
        # Linux would accept this host's own address, and lose the packets.
        if any(route.type == "local" and route.prefix == there for route in covering):
            return f"a gateway other than {gateway}, this host's own address"
        if hop.onlink or any(route.table == TABLE_MAIN and hop.dev in route.devs for route in covering):
            return ""
        return f"an address or route on {hop.dev} that reaches the gateway {gateway} directly"


def _rank(route: Route) -> tuple[bool, int, int, int]:
    return route.table != TABLE_MAIN, route.table, route.metric, -PREFERENCES.index(route.preference)
