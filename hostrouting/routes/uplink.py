"""The uplink of a host: its default route, and the next hops of routes that do not name their
device or gateway.

Theory of operation. A configured route takes what it does not name from a default route: without a
device, from the best one of table main; with a device, its gateway from the best one through that
device, in any table. Rules do not matter: static-routes.sh does not read them, and a VPN's rules
must not decide.

A default route is in doubt if nobody can know whether it is the network's (`doubtful_devs`): it
leads through a tunnel, or an equal one leads through another device. A route without a device is
not planned by a default route in doubt, unless exactly one of the expected devices can have the
default route: then that device's is used. So no route follows a VPN, or changes sides while two
devices have equal default routes.

A route that lacks something waits. A route of ours that is there stays meanwhile, and is right if
it is usable (`Uplink.can_stay`): a default route that goes, or is in doubt for a while, takes
nothing away from a host that works.

static-routes.sh follows the same rules, and a property test compares both. This module completes
one route, or says what is missing for that. `plan` finds conflicts with other routes, and
`check.expected` the expected devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from hostrouting.model.prefix import IP, IPV4, IPV6, LINK_LOCAL, Prefix
from hostrouting.model.route import (
    DEFAULT_METRIC,
    OURS,
    PREFERENCES,
    PROTOCOL_RA,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteKey,
)
from hostrouting.model.snapshot import ARPHRD_ETHERNET, ARPHRD_INFINIBAND, Link, Snapshot
from hostrouting.text import spoken

if TYPE_CHECKING:
    from typing_extensions import Self

_Way: TypeAlias = "tuple[NextHop, ...] | Need"
"""The next hops of a route, or a phrase for what is missing."""

DEAD_ENDS = frozenset({"dummy", "ifb", "vrf"})
"""Kinds of devices that send nothing out of the host; a VRF routes packets again, with its own
table.
"""
TAP = "tun"
"""The kind of a tap; of the same kind is a tunnel that does not look like Ethernet."""
LIKE_ETHERNET = frozenset({"vxlan", "geneve", "gretap", "ip6gretap", TAP})
"""Kinds of tunnels that can look like Ethernet."""
NO_TUNNELS = frozenset({"", "wwan"})
"""Kinds of devices that are hardware, whatever their link type: "wwan" is a modem."""
HARDWARE = frozenset({ARPHRD_ETHERNET, ARPHRD_INFINIBAND})
"""Link types that are not tunnels'. The loopback device has no kind."""
BRIDGE = "bridge"
"""The kind of a device that may lead only to guests or pods of this host."""
LINES = frozenset({"ppp"})
"""Kinds of tunnels that are also a provider's line, and may have the only default route."""

NEEDS = {
    "default": "an IPv{family} default route",
    "default-on": "an IPv{family} default route on {dev}",
    "tunnel": "a dev in the configuration: [{route}] leads through a tunnel",
    "equal": "a dev in the configuration: [{route}] is one of several equal default routes",
    "absent": "the device {dev}, which this host does not have",
    "down": "the device {dev} to be up",
    "own": "a gateway other than {gateway}, this host's own address",
    "near": "an address or route on {dev} that reaches the gateway {gateway} directly",
}
"""What a route can lack that static-routes.sh says, too."""
REMEDY = "add it, or correct the configuration"
REMEDIES = {
    "choose": 'write "dev": {devs} into the configured route, or name one device in '
    "routeOverlap.expectedDevs",
}
"""What settles a doubt about the default route; static-routes.sh says it, too."""


class Need(str):
    """A phrase for what a route still needs, and what an operator can do."""

    __slots__ = ("remedy",)
    remedy: str

    def __new__(cls, phrase: str, remedy: str = REMEDY) -> Self:
        """Keep the remedy with the phrase."""
        need = super().__new__(cls, phrase)
        need.remedy = remedy
        return need


def leads_out(link: Link | None) -> bool:
    """Whether a default route through this device can lead to the network; an InfiniBand device has
    to be named.
    """
    return (
        link is not None
        and link.type != ARPHRD_INFINIBAND
        and not link.loopback
        and link.kind not in DEAD_ENDS
    )


def is_tunnel(link: Link | None) -> bool:
    """Whether the packets of the device go to another device again."""
    if link is None or link.kind in NO_TUNNELS:
        return False
    return link.type not in HARDWARE or link.kind in LIKE_ETHERNET


def is_tap(link: Link | None) -> bool:
    """Whether the device is a program's end of a cable.

    The program is a VPN, a virtual machine, or Open vSwitch in user space.
    """
    return link is not None and link.kind == TAP and link.type == ARPHRD_ETHERNET


def doubtful_devs(
    used: Route,
    devs: frozenset[str],
    rivals: frozenset[str],
    below: frozenset[str],
    links: Mapping[str, Link],
    *,
    is_line: bool,
) -> frozenset[str]:
    """The devices of default routes that may not be the intended ones.

    Linux uses the route `used`, through `devs`. `rivals` are the devices of all equal ones, and
    `below` those of the first one of a network card, if a tunnel's hides it. A tunnel that is a
    line may have the only default route.
    """
    doubtful: set[str] = set()
    # Several routers advertise themselves, each on its own device.
    if rivals != devs or (used.protocol == PROTOCOL_RA and len(devs) > 1):
        doubtful |= rivals
    if below or (has_tunnel(devs, links) and not is_line):
        doubtful |= devs | below
    return frozenset(doubtful)


def has_tunnel(devs: Iterable[str], links: Mapping[str, Link]) -> bool:
    """Whether one of the devices is a tunnel."""
    return any(is_tunnel(links.get(dev)) for dev in devs)


def is_line(devs: Iterable[str], links: Mapping[str, Link]) -> bool:
    """Whether all of these devices are lines of a provider."""
    return all(links[dev].kind in LINES for dev in devs)


def bare_hop(hop: NextHop) -> NextHop:
    """The next hop without the state that the kernel reports, as in a request."""
    return hop._replace(linkdown=False, dead=False)


class Uplink:
    """The default routes and devices of one host, which complete the routes of one family."""

    def __init__(self, snapshot: Snapshot, family: int, expected: Iterable[str] = ()) -> None:
        """Use this host as it is now, without our own routes, because they may be deleted.

        `expected` are the devices that the configuration names as expected.
        """
        others: list[Route] = []
        self._on_link: set[tuple[RouteKey, str | None, IP | None]] = set()
        """Our next hops that Linux treats as on-link, by the key of their route."""
        for route in snapshot.routes:
            if route.prefix.family != family:
                continue
            if route.protocol != OURS:
                others.append(route)
                continue
            for hop in route.next_hops:
                if hop.onlink:
                    self._on_link.add((route.key, hop.dev, hop.gateway))
        self._family, self._links = family, {link.name: link for link in snapshot.links}
        self._expected = frozenset(expected)
        self._defaults = sorted(_usable_defaults(others), key=_rank)
        """The default routes of all tables, the best first: by table (main, then the lowest),
        metric and preference.
        """
        self._direct = [route for route in others if not route.has_gateway]
        """The routes without any gateway, which say what is on a link, and what is this host's own.
        """
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
    ) -> Route | Need:
        """The complete route; or a phrase for what it still needs.

        With `on_link`, the destination is a neighbour on the device, whatever the default route is.
        """
        fields = (dev, gateway, on_link)
        way = self._ways.get(fields)
        if way is None:
            way = self._ways[fields] = self._way(dev, gateway, on_link=on_link)
        if isinstance(way, Need):
            return way
        scope = (
            SCOPE_LINK
            if self._family == IPV4 and not any(hop.gateway for hop in way)
            else SCOPE_UNIVERSE
        )
        return Route(
            destination,
            way,
            metric=metric or DEFAULT_METRIC[self._family],
            scope=scope,
            protocol=OURS,
        )

    def _way(self, dev: str | None, gateway: IP | None, *, on_link: bool) -> _Way:
        way = (NextHop(dev),) if on_link else self._next_hops(dev, gateway)
        if isinstance(way, Need):
            return way
        for hop in way:
            if missing := self._missing(hop):
                return Need(missing)
        return way

    def can_stay(self, route: Route, *, dev: str | None, gateway: IP | None) -> bool:
        """Whether a route of ours with the wanted key is right while the wanted one lacks
        something.

        Its devices are up, its gateways are reached directly, and it has the device and the gateway
        that are wanted. Without a wanted device, each of its devices is one that can have the
        default route, and no tunnel: an earlier release may have moved it into a VPN.
        """
        if route.type != "unicast" or not route.next_hops:
            return False
        if dev is None and self._doubt:
            dev = self._settling
        for hop in route.next_hops:
            is_on_link = hop.onlink or (route.key, hop.dev, hop.gateway) in self._on_link
            if not self._is_usable(hop._replace(onlink=is_on_link), dev, gateway):
                return False
        return True

    def _is_usable(self, hop: NextHop, dev: str | None, gateway: IP | None) -> bool:
        link = self._links.get(hop.dev or "")
        if link is None or self._missing(hop) or self._is_own(hop.gateway):
            return False
        if gateway not in {None, hop.gateway}:
            return False
        if dev is not None:
            return hop.dev == dev
        return leads_out(link) and (hop.dev == self._settling or not self._is_vpn(link))

    def _is_vpn(self, link: Link) -> bool:
        """Whether the device is a tunnel, and not the only way out."""
        if not is_tunnel(link):
            return False
        return bool(self._first_card()) or not self._may_be_alone([link.name])

    def _may_be_alone(self, devs: Iterable[str]) -> bool:
        """Whether these may be the only way out: lines, or taps where no card has an address."""
        return is_line(devs, self._links) or self._are_only_taps(devs)

    def _next_hops(self, dev: str | None, gateway: IP | None) -> _Way:
        if dev is None and self._doubt:
            if self._settling is None:
                return self._doubt
            defaults = self._hops_of_main(self._settling)
            if not defaults:
                return Need(NEEDS["default-on"].format(family=self._family, dev=self._settling))
        else:
            defaults = self._default_hops(dev)
        # A gateway that the default route also has is treated as it is there: on-link if that next
        # hop is.
        same = tuple(hop for hop in defaults if gateway in {None, hop.gateway})
        if same:  # Linux keeps a weight only if there are several
            return same if len(same) > 1 and gateway is None else (same[0]._replace(weight=1),)
        if dev is not None and (gateway is not None or dev not in self._links):
            return (NextHop(dev, gateway=gateway),)
        if not defaults or gateway is None:
            name = "default-on" if dev else "default"
            return Need(NEEDS[name].format(family=self._family, dev=dev))
        return (NextHop(defaults[0].dev, gateway=gateway),)

    def _default_hops(self, dev: str | None) -> tuple[NextHop, ...]:
        """The next hops of the best default route of table main, or of the best one through `dev`.

        A next hop through InfiniBand is left out unless `dev` names the device.
        """
        if dev is None:
            return self._of_main[0].next_hops if self._of_main else ()
        for route in self._defaults:
            if hops := tuple(hop for hop in route.next_hops if hop.dev == dev):
                return hops
        return ()

    @cached_property
    def _of_main(self) -> list[Route]:
        """The default routes of table main, with the next hops that lead out of the host."""
        routes: list[Route] = []
        for route in self._defaults:
            hops = tuple(
                hop for hop in route.next_hops if leads_out(self._links.get(hop.dev or ""))
            )
            if hops and route.table == TABLE_MAIN:
                routes.append(route._replace(next_hops=hops))
        return routes

    @cached_property
    def _settling(self) -> str | None:
        """The one expected device that can have the default route, if there is one.

        One that is not there may be able to.
        """
        able = [
            dev for dev in self._expected if dev not in self._links or leads_out(self._links[dev])
        ]
        return able[0] if len(able) == 1 else None

    def _hops_of_main(self, dev: str) -> tuple[NextHop, ...]:
        """The next hops through a device of the best default route of table main that has some."""
        for route in self._of_main:
            if hops := tuple(hop for hop in route.next_hops if hop.dev == dev):
                return hops
        return ()

    @cached_property
    def _doubt(self) -> Need | None:
        """What a route without a device needs if the default route is in doubt."""
        if not self._of_main:
            return None
        used = self._of_main[0]
        devs = frozenset(used.devs)
        equal = [route for route in self._of_main if _rank(route) == _rank(used)]
        rivals = frozenset(dev for route in equal for dev in route.devs)
        below: frozenset[str] = frozenset()
        if has_tunnel(devs, self._links):
            below = self._first_card()
        doubtful = doubtful_devs(
            used, devs, rivals, below, self._links, is_line=self._may_be_alone(devs)
        )
        if not doubtful:
            return None
        why = "tunnel" if has_tunnel(devs, self._links) else "equal"
        choice = spoken([f'"{dev}"' for dev in sorted(doubtful)], last="or")
        return Need(NEEDS[why].format(route=used), REMEDIES["choose"].format(devs=choice))

    def _are_only_taps(self, devs: Iterable[str]) -> bool:
        """Whether these are taps, and no card of this host has an address.

        A VPN's tap has a card beside it. The uplink of a virtual machine can be a tap, with bridges
        for its guests.
        """
        if not all(is_tap(self._links.get(dev)) for dev in devs):
            return False
        everywhere = Prefix.of(LINK_LOCAL)
        for route in self._direct:
            is_address = route.type == "local" and route.prefix not in everywhere
            if is_address and any(self._is_card(dev) for dev in route.devs):
                return False
        return True

    def _is_card(self, dev: str) -> bool:
        link = self._links.get(dev)
        return link is not None and leads_out(link) and not is_tunnel(link) and link.kind != BRIDGE

    def _first_card(self) -> frozenset[str]:
        """The devices of the first default route of table main that no tunnel has."""
        for route in self._of_main:
            if not has_tunnel(route.devs, self._links):
                return frozenset(route.devs)
        return frozenset()

    def _missing(self, hop: NextHop) -> str:
        """A phrase for what Linux needs before it accepts a route with this next hop; empty if
        nothing is missing.
        """
        link, gateway = self._links.get(hop.dev or ""), hop.gateway
        if link is None:
            return NEEDS["absent"].format(dev=hop.dev)
        if not link.up:
            return NEEDS["down"].format(dev=hop.dev)
        if self._family == IPV6 and link.ipv6_disabled:
            return f"IPv6 to be enabled on {hop.dev}"
        if gateway is None or gateway.version != self._family or gateway in LINK_LOCAL:
            return ""  # IPv4 has no rules for a neighbour of the other family
        # Linux would accept this host's own address, and lose the packets.
        if self._is_own(gateway):
            return NEEDS["own"].format(gateway=gateway)
        there = Prefix.of(gateway)
        covering = [route for route in self._direct if there in route.prefix]
        if hop.onlink or any(
            route.table == TABLE_MAIN and hop.dev in route.devs for route in covering
        ):
            return ""
        return NEEDS["near"].format(dev=hop.dev, gateway=gateway)

    def _is_own(self, gateway: IP | None) -> bool:
        """Whether the gateway is this host."""
        return gateway is not None and Prefix.of(gateway) in self._own

    @cached_property
    def _own(self) -> frozenset[Prefix]:
        return frozenset(route.prefix for route in self._direct if route.type == "local")


def _usable_defaults(routes: Iterable[Route]) -> Iterator[Route]:
    """The default routes for all packets, with only the next hops that Linux uses."""
    for route in routes:
        if (
            route.prefix.length
            or route.source
            or route.tos
            or route.expired
            or route.type != "unicast"
        ):
            continue
        hops = tuple(bare_hop(hop) for hop in route.next_hops if not hop.dead)
        if hops:
            yield route._replace(next_hops=hops)


def _rank(route: Route) -> tuple[bool, int, int, int]:
    return (
        route.table != TABLE_MAIN,
        route.table,
        route.metric,
        -PREFERENCES.index(route.preference),
    )
