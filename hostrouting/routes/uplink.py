"""The uplink of a host: its default route, and the device and gateway for routes that leave them open.

Here: the routes that a configuration wants; the outgoing devices; the automatic device, gateway and next hops of a
route, and what is missing while they are not known yet; and which routes take precedence over a route that must not be
touched. Not here: whether a route conflicts with others (`plan`), or why it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import attrs

from hostrouting.model.prefix import IP, IPV4, IPV6, LINK_LOCAL, Prefix, as_ip, as_prefix, width_of
from hostrouting.model.route import (
    DEFAULT_METRIC,
    OURS,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteKey,
)
from hostrouting.model.rule import command_adding, default_rules, missing_rules, reached_tables

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig, StaticRoutesConfig
    from hostrouting.fib.engine import Fib
    from hostrouting.model.snapshot import Link

# The next hops of a route, and its scope.
_Way: TypeAlias = tuple[tuple[NextHop, ...], int]
# Addresses that cannot be a router. The kernel accepts the first kind as a gateway anyway, and drops the packets.
_TAKEN = {"local": "this host's own address", "broadcast": "a broadcast address"}


def _as_gateway(value: IP | str | None) -> IP | None:
    return None if value is None else as_ip(value)


@attrs.frozen
class DesiredRoute:
    """A static route to install; fields that are None are taken from the default route.

    Destination and gateway may be given as text.
    """

    destination: Prefix = attrs.field(converter=as_prefix)
    gateway: IP | None = attrs.field(default=None, converter=_as_gateway, kw_only=True)
    dev: str | None = attrs.field(default=None, kw_only=True)
    metric: int = attrs.field(default=0, kw_only=True)
    is_on_link: bool = attrs.field(default=False, kw_only=True)
    """Whether the destination is a neighbour on `dev`, whatever the default route is."""
    is_optional: bool = attrs.field(default=False, kw_only=True)
    """Whether the route is left out while it cannot be set: nothing waits for it, and nothing fails."""

    @property
    def key(self) -> RouteKey:
        """The key by which the kernel will distinguish the route, as in `Route.key`."""
        return RouteKey(TABLE_MAIN, self.destination, 0, self.metric or DEFAULT_METRIC[self.destination.family])

    def to_mapping(self) -> dict[str, Any]:
        """The route as written under staticRoutes.routes in the configuration."""
        return {
            "destination": str(self.destination),
            "gateway": str(self.gateway) if self.gateway else "",
            "dev": self.dev or "",
            "metric": self.metric,
        }

    def __str__(self) -> str:
        words = [str(self.destination)]
        words += [f"via {self.gateway}"] if self.gateway else []
        words += [f"dev {self.dev}"] if self.dev else []
        words += [f"metric {self.metric}"] if self.metric else []
        return " ".join(words)

    def __repr__(self) -> str:
        return f"<DesiredRoute {self}>"


def wanted_routes(config: HostRoutingConfig) -> tuple[DesiredRoute, ...]:
    """Every route of ours that a configuration asks for: its static routes, and the route for replies to probes."""
    return (*wanted_routes_of(config.static_routes), *_reply_routes(config))


def wanted_routes_of(static: StaticRoutesConfig) -> tuple[DesiredRoute, ...]:
    """The routes of this section, as `plan_routes` takes them."""
    return tuple(
        DesiredRoute(Prefix.of(route.destination), gateway=route.gateway, dev=route.dev, metric=route.metric)
        for route in (static.routes if static.enabled else ())
    )


def _reply_routes(config: HostRoutingConfig) -> Iterator[DesiredRoute]:
    """The route by which replies to probes leave, if it is wanted: a configured route with its key takes its place."""
    rewrite = config.probe_rewrite
    if rewrite.enabled and rewrite.ensure_route:
        [dev] = rewrite.interfaces
        route = DesiredRoute(Prefix.of(rewrite.global_address), dev=dev, is_on_link=True, is_optional=True)
        if route.key not in (wish.key for wish in wanted_routes_of(config.static_routes)):
            yield route


class Pending(NamedTuple):
    """A desired route that cannot be installed yet, and what is missing."""

    desired: DesiredRoute
    missing: str

    def __str__(self) -> str:
        return f"{self.desired}: waiting for {self.missing}"


def default_route(
    fib: Fib,
    *,
    family: int = IPV4,
    dev: str | None = None,
    besides: Collection[int] = (),
    avoided: AbstractSet[str] = frozenset(),
) -> Route | None:
    """The default route for the host's own packets, or the first one by `dev`. Dead routes do not count.

    It can be in any table that the rules look up. Without `dev`, a default route that refuses packets hides the ones
    after it. A default route that a rule suppresses comes after those in use: the host uses it when its tunnel is
    down, and the tunnel itself uses it. Routes with the protocols `besides` are ignored, and those whose
    devices are all `avoided`.
    """
    for entry in fib.defaults(family):
        route = entry.route
        if route.protocol in besides or (route.legs and avoided >= set(route.devs)):
            continue
        if route.type == "unicast" and dev in {None, *(leg.dev for leg in entry.legs)}:
            return route
        if route.type != "unicast" and dev is None:
            return None
    return None


def outbound_devs(fib: Fib, *, family: int = IPV4) -> tuple[str, ...]:
    """The devices of the default route; empty if there is none.

    Includes every next hop of an ECMP route, and the default routes that Linux uses in turn with it: in IPv4 those of
    the same metric; in IPv6 those of the same metric and preference, because a host that does not forward packets skips
    a router that does not answer. InfiniBand is left out, because it has to be named as an expected device; and lo.
    """
    avoided = {link.name for link in fib.snapshot.links if link.infiniband or link.loopback}
    route = default_route(fib, family=family, avoided=avoided)
    if route is None:
        return ()
    entries = tuple(fib.defaults(family))
    # Only the first of such routes has the others in turn, and that may be by InfiniBand. Of each, IPv4 uses the first
    # next hop.
    groups = (entry.in_turn for entry in entries if route in {entry.route, *entry.in_turn})
    in_turn = [leg for others in groups for other in others for leg in other.legs[:1]]
    if family == IPV6 and fib.snapshot.ipv6_forwarding is not True and all(leg.gateway for leg in route.legs):
        in_turn = [leg for entry in entries if _rank(entry.route) == _rank(route) for leg in entry.route.legs]
    devs = dict.fromkeys([*route.devs, *(leg.dev for leg in in_turn if leg.dev is not None)])
    return tuple(dev for dev in devs if dev not in avoided)


def _rank(route: Route) -> tuple[int, int, str]:
    """The values by which Linux compares IPv6 default routes."""
    return route.table, route.metric, route.preference


def seen_instead(fib: Fib, *, family: int = IPV4) -> str:
    """A phrase for the default routes that exist and cannot be used: for the error after waiting for one.

    Those of a table that no rule looks up do not count: a check of a host does not read them.
    """
    for entry in fib.defaults(family):
        if entry.route.type != "unicast":
            return f"a default route that refuses packets ({entry.route.type})"
        devs = ", ".join(entry.route.devs)
        if any(link.loopback and link.name in entry.route.devs for link in fib.snapshot.links):
            return f"a default route by {devs}, which keeps all packets on this host"
        return f"a default route by {devs} (InfiniBand, which expectedDevs has to name)"
    tables = reached_tables(rule for rule in fib.snapshot.rules if rule.family == family)
    of_all = (route for route in fib.snapshot.routes if route.prefix.length == 0 and route.prefix.family == family)
    unused = (route for route in of_all if route.type == "unicast" and (tables is None or route.table in tables))
    devs = ", ".join(dict.fromkeys(dev for route in unused for dev in route.devs))
    return f"a default route by {devs} that is not in use" if devs else "no default route"


def missing_default(fib: Fib, *, family: int, dev: str | None = None) -> str:
    """A phrase for what a missing default route (by `dev`) needs: the rule that looks it up, or the route itself."""
    [main] = (rule for rule in default_rules(family) if rule.table == TABLE_MAIN)
    if main in missing_rules(fib.snapshot.rules, family) and any(
        route.type == "unicast" and dev in {None, *route.devs} for route in fib.routes(Prefix(family, 0, 0))
    ):
        return f"the rule for table main ({command_adding(main)})"
    return f"an IPv{family} default route" + (f" on {dev}" if dev else "")


def resolve_route(desired: DesiredRoute, fib: Fib) -> Route | Pending:
    """The complete route on this host as it is now; or a Pending that says what is missing.

    Our own routes are ignored, because they may be deleted.
    """
    return Uplink(fib).resolve(desired)


def missing_device(dev: str | None, link: Link | None, *, family: int) -> str | None:
    """A phrase for what Linux needs before it accepts a route by this device; None if nothing is missing."""
    if link is None:
        return f"the device {dev}"
    if not link.up:
        return f"the device {dev} to be up"
    return f"IPv6 to be enabled on {dev}" if family == IPV6 and link.ipv6_disabled else None


def bare_leg(leg: NextHop) -> NextHop:
    """The next hop without the state that the kernel reports, as in a request."""
    return attrs.evolve(leg, linkdown=False, dead=False, pervasive=False)


class Uplink:
    """The default routes and devices of one host, to resolve many routes by."""

    def __init__(self, fib: Fib) -> None:
        """Use this host; our own routes are ignored."""
        self._fib = fib
        self._links = {link.name: link for link in fib.snapshot.links}
        # Many routes share a few combinations of device and gateway.
        self._known: dict[tuple[int, IP | None, str | None, bool], _Way | str] = {}

    def resolve(self, desired: DesiredRoute) -> Route | Pending:
        """The complete route; or a Pending that says what it still needs."""
        family = desired.destination.family
        way = (family, desired.gateway, desired.dev, desired.is_on_link)
        known = self._known.get(way)
        if known is None:
            known = self._known[way] = self._find_out(*way)
        if isinstance(known, str):
            return Pending(desired, known)
        legs, scope = known
        metric = desired.metric or DEFAULT_METRIC[family]
        return Route(desired.destination, legs, metric=metric, scope=scope, protocol=OURS)

    def leave_open(self, desired: DesiredRoute, *, names_dev: bool = False) -> DesiredRoute:
        """The route with as few fields as possible: those that the default route fills in equally stay open.

        So it can be in one configuration for many hosts. If it `names_dev`, the device stays.
        """
        complete = self.resolve(desired)
        bare = DesiredRoute(desired.destination, metric=desired.metric)
        by_dev = attrs.evolve(bare, dev=desired.dev)
        tries = (wish for wish in ((by_dev,) if names_dev else (bare, by_dev)) if self.resolve(wish) == complete)
        return desired if isinstance(complete, Pending) else next(tries, desired)

    def _find_out(self, family: int, gateway: IP | None, dev: str | None, on_link: bool) -> _Way | str:  # noqa: FBT001  the key of a cache
        legs = (NextHop(dev),) if on_link else self._legs(family, gateway, dev)
        if isinstance(legs, str):
            return legs
        scope = SCOPE_LINK if family == IPV4 and not any(leg.gateway for leg in legs) else SCOPE_UNIVERSE
        return next(self._missing(family, legs), (legs, scope))

    def _legs(self, family: int, gateway: IP | None, dev: str | None) -> tuple[NextHop, ...] | str:
        """The next hops; or a phrase for what is missing."""
        default = default_route(self._fib, family=family, dev=dev, besides={OURS})
        ways = tuple(bare_leg(leg) for leg in default.legs if dev in {None, leg.dev}) if default else ()
        if gateway is None:
            if not ways:
                if dev is not None and dev not in self._links:
                    return f"the device {dev}"
                return missing_default(self._fib, family=family, dev=dev)
            # A next hop whose device is down is left out, unless it is the only one: then that device is missing.
            up = tuple(leg for leg in ways if (link := self._links.get(leg.dev or "")) and link.up) or ways
            # The kernel keeps a weight only if there are several next hops.
            return up if len(up) > 1 else tuple(attrs.evolve(leg, weight=1) for leg in up)
        # A gateway equal to the default gateway is treated like it: on-link if the default route is.
        same = next((leg for leg in ways if leg.gateway == gateway), None)
        if same is not None:
            return (attrs.evolve(same, weight=1),)
        if dev is not None:
            return (NextHop(dev, gateway=gateway),)
        if not ways:
            return missing_default(self._fib, family=family)
        devs = [leg.dev for leg in ways if leg.dev is not None]
        reaching = (name for name in devs if self._reaches(name, gateway))
        return (NextHop(next(reaching, next(iter(devs), None)), gateway=gateway),)

    def _missing(self, family: int, legs: tuple[NextHop, ...]) -> Iterator[str]:
        for leg in legs:
            if lack := missing_device(leg.dev, self._links.get(leg.dev or ""), family=family):
                yield lack
            elif leg.gateway is None or leg.gateway.version != family:
                continue  # IPv4 has no rules for a neighbour of the other family
            elif taken := self._taken(leg.gateway, leg.dev):
                yield f"{leg.gateway} to be a router next to this host (it is {taken})"
            elif leg.gateway in LINK_LOCAL:
                continue  # Linux takes it for a neighbour on whichever device it is given
            elif not leg.onlink and not self._reaches(leg.dev, leg.gateway):
                yield f"an address or route on {leg.dev} that reaches the gateway {leg.gateway} directly"

    def _taken(self, gateway: IP, dev: str | None) -> str | None:
        """The kind of address if it cannot be a router on this device; otherwise None."""
        near = (route for route in self._fib.around(gateway, table=TABLE_LOCAL) if route.protocol != OURS)
        # A link-local address of another device is another address.
        kinds = [route.type for route in near if gateway not in LINK_LOCAL or dev in route.devs]
        return next((_TAKEN[kind] for kind in kinds if kind in _TAKEN), None)

    def _reaches(self, dev: str | None, gateway: IP) -> bool:
        """Whether the gateway is a neighbour on the device: the kernel refuses any other gateway."""
        family = gateway.version
        return any(
            leg.dev == dev and leg.gateway is None
            for route in self._fib.around(gateway)
            if route.protocol != OURS and route.type == "unicast"
            # In IPv4 the scope of a route says whether its destinations are neighbours.
            if family != IPV4 or route.scope >= SCOPE_LINK
            # The packet has no source yet.
            if route.source is None or not route.source.first
            for leg in route.legs
        )


# Routes that win over a route that must not be touched: one with a lower metric, or two with longer prefixes.

# The metrics to try, the usual one first. In IPv4 the usual one is already the lowest. In IPv6 the lowest is 1, because
# Linux takes 0 for the usual one.
METRICS = {IPV4: (DEFAULT_METRIC[IPV4],), IPV6: (DEFAULT_METRIC[IPV6], 1)}


def way_round(prefix: Prefix, is_taken: Callable[[Prefix, int], bool]) -> tuple[tuple[Prefix, int], ...]:
    """The prefix with a lower metric, or else its two halves; empty if these are all taken.

    `is_taken` says whether a route to a prefix with a metric would not be used.
    """
    # One route with a lower metric is preferred, because it is fewer routes than the two halves.
    for metric in METRICS[prefix.family]:
        if not is_taken(prefix, metric):
            return ((prefix, metric),)
    usual = DEFAULT_METRIC[prefix.family]
    halves = prefix.halves() if prefix.length < width_of(prefix.family) else ()
    return () if any(is_taken(half, usual) for half in halves) else tuple((half, usual) for half in halves)


def is_held(prefix: Prefix, metric: int, fib: Fib) -> bool:
    """Whether a route with this prefix and metric would not be used, because of a route that is not ours."""
    return any(
        hides(route) or (not route.tos and route.metric <= metric)
        for route in fib.routes(prefix)
        if route.protocol != OURS
    )


def hides(route: Route) -> bool:
    """Whether Linux ignores routes for any source to this destination; packets from other sources then skip it."""
    return route.source is not None and bool(route.prefix.length)
