"""Routes as the kernel lists them, and the numbers and names that Linux uses for their fields."""

import errno
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

from hostrouting.model.prefix import IP, IPV4, Prefix, as_ip
from hostrouting.reading import matches, must
from hostrouting.text import command_of

Word: TypeAlias = Annotated[str, must(matches(r"\S*"), "has a space or a line break")]
"""A word as Linux lists it. With a line break, a saved snapshot could forge a line of a page."""

RouteType: TypeAlias = Literal[
    "unspec",
    "unicast",
    "local",
    "broadcast",
    "anycast",
    "multicast",
    "blackhole",
    "unreachable",
    "prohibit",
    "throw",
]
"""In the order of their kernel numbers (RTN_UNSPEC is 0)."""
ROUTE_TYPES: tuple[RouteType, ...] = get_args(RouteType)

Refusing: TypeAlias = Literal["blackhole", "unreachable", "prohibit"]


class Refused(NamedTuple):
    """What Linux does with packets that a route of one type refuses."""

    errno: int
    """The error of a lookup."""
    fate: str
    """What happens to the packets, for an operator."""


REFUSING: dict[Refusing, Refused] = {
    "blackhole": Refused(errno.EINVAL, "is dropped"),
    "unreachable": Refused(errno.EHOSTUNREACH, "is refused as unreachable"),
    "prohibit": Refused(errno.EACCES, "is refused as prohibited"),
}
"""The types that end the whole lookup; each is also an action of a rule, with the same number."""

PATHLESS: tuple[RouteType, ...] = (*REFUSING, "throw")
"""Types without a next hop; `throw` ends the lookup in its table only. Linux lists the loopback
device for IPv6 routes of these types.
"""

# The preference of a router among IPv6 routes with the same prefix and metric, in ascending order.
Preference: TypeAlias = Literal["low", "medium", "high"]
PREFERENCES: tuple[Preference, ...] = get_args(Preference)

OURS = 213
"""The protocol number that marks a route as ours. No known program uses it."""

DEFAULT_METRIC = {4: 0, 6: 1024}
"""By family: the metric that Linux gives to a route that is added without one."""

TABLE_DEFAULT, TABLE_MAIN, TABLE_LOCAL = 253, 254, 255
SCOPE_UNIVERSE, SCOPE_LINK, SCOPE_HOST = 0, 253, 254
PROTOCOL_KERNEL, PROTOCOL_BOOT, PROTOCOL_RA, PROTOCOL_DHCP = 2, 3, 9, 16

_TABLES = {TABLE_DEFAULT: "default", TABLE_MAIN: "main", TABLE_LOCAL: "local"}
_SCOPES = {
    SCOPE_UNIVERSE: "global",
    200: "site",
    SCOPE_LINK: "link",
    SCOPE_HOST: "host",
    255: "nowhere",
}
# From iproute2's rt_protos, and our own.
_PROTOCOLS = {
    0: "unspec",
    1: "redirect",
    PROTOCOL_KERNEL: "kernel",
    PROTOCOL_BOOT: "boot",
    4: "static",
    8: "gated",
    PROTOCOL_RA: "ra",
    10: "mrt",
    11: "zebra",
    12: "bird",
    13: "dnrouted",
    14: "xorp",
    15: "ntk",
    PROTOCOL_DHCP: "dhcp",
    17: "kube-router",
    18: "keepalived",
    42: "babel",
    80: "calico",
    99: "openr",
    186: "bgp",
    187: "isis",
    188: "ospf",
    189: "rip",
    192: "eigrp",
    OURS: "hostrouting",
}


def table_name(number: int) -> str:
    """The name of a table as `ip route` prints it; the number if it has no name."""
    return _TABLES.get(number, str(number))


_Byte: TypeAlias = Annotated[int, range(256)]


class NextHop(NamedTuple):
    """One next hop of a route: the outgoing device, and the gateway if there is one.

    The gateway may be of the other family (IPv4 through an IPv6 neighbour).
    """

    dev: Word | None = None
    gateway: IP | None = None
    weight: Annotated[int, range(1, 257)] = 1
    onlink: bool = False
    linkdown: bool = False
    dead: bool = False

    def words_for(self, family: int) -> str:
        """The next hop as `ip route` prints it for a route of this family."""
        words: list[str] = []
        if self.gateway is not None:
            words.append("via")
            if self.gateway.version != family:
                words.append("inet6")
            words.append(str(self.gateway))
        if self.dev is not None:
            words += ["dev", self.dev]
        if self.onlink:
            words.append("onlink")
        if self.dead:
            words.append("dead")
        if self.linkdown:
            words.append("linkdown")
        return " ".join(words)

    def __str__(self) -> str:
        return self.words_for(IPV4)


class RouteKey(NamedTuple):
    """The fields by which the kernel distinguishes routes. A second route with the same key cannot
    be added, only appended (`RouteRequest`).
    """

    table: int
    prefix: Prefix
    tos: int
    metric: int
    source: Prefix | None = None


class Route(NamedTuple):
    """A route as the kernel lists it: with one next hop, several (ECMP), or none (a blackhole)."""

    prefix: Prefix
    next_hops: tuple[NextHop, ...] = ()
    table: int = TABLE_MAIN
    metric: int = 0
    tos: _Byte = 0
    type: RouteType = "unicast"
    scope: _Byte = SCOPE_UNIVERSE
    protocol: _Byte = 0
    prefsrc: IP | None = None
    mtu: int | None = None
    advmss: int | None = None
    nexthop_id: int | None = None
    source: Prefix | None = None
    """In IPv6, the route is only for packets from these addresses (`from`)."""
    preference: Preference = "medium"
    """In IPv6, `pref`."""
    expired: bool | None = None
    """Whether the lifetime is over: Linux still lists the route for a while. None if it has no
    lifetime.
    """
    unread: tuple[str, ...] = ()
    """The encapsulations of its next hops, in the words of `ip`, without their values
    ("encap seg6"). Such a route cannot be added again after a deletion: its values are not known.
    """

    @classmethod
    def to(
        cls,
        prefix: Prefix | IPv4Network | IPv6Network | str,
        *,
        dev: str | None = None,
        gateway: IP | str | None = None,
        table: int = TABLE_MAIN,
        metric: int = 0,
        protocol: int = 0,
        type: RouteType = "unicast",  # noqa: A002  as in the constructor
    ) -> "Route":
        """Make a route to `prefix` with one next hop (`dev` or `gateway` or both), or with none. An
        IPv4 route by a device without a gateway has the scope link, as with `ip route add`.
        """
        destination = prefix if isinstance(prefix, Prefix) else Prefix.parse(prefix)
        hops: tuple[NextHop, ...] = ()
        scope = SCOPE_UNIVERSE
        if gateway is not None:
            hops = (NextHop(dev, gateway=as_ip(gateway)),)
        elif dev is not None:
            hops = (NextHop(dev),)
            if destination.family == IPV4:  # every IPv6 route has the scope global
                scope = SCOPE_LINK
        return cls(
            destination, hops, table=table, metric=metric, type=type, scope=scope, protocol=protocol
        )

    @property
    def devs(self) -> tuple[str, ...]:
        """The devices of the next hops, each once, in order."""
        return _devs_by(self.next_hops)

    @property
    def usable_devs(self) -> tuple[str, ...]:
        """The devices by which packets can leave: those of all next hops that are not dead."""
        if self.type in REFUSING:  # the route drops packets, even if it has a next hop
            return ()
        return _devs_by(hop for hop in self.next_hops if not hop.dead)

    @property
    def is_passed_over(self) -> bool:
        """Whether Linux lists the route but does not use it, because it has expired or all its next
        hops are dead.
        """
        if self.expired:
            return True
        for hop in self.next_hops:
            if not hop.dead:
                return False
        return bool(self.next_hops)  # a route without next hops, such as a blackhole, is used

    @property
    def rank(self) -> tuple[int, int]:
        """The sort key of the routes to one prefix in one table: Linux uses the route with the
        lowest key. A low metric comes first and, for IPv6 routes with the same metric, a high
        preference.
        """
        return self.metric, -PREFERENCES.index(self.preference)  # PREFERENCES ascends

    @property
    def has_gateway(self) -> bool:
        """Whether any next hop has a gateway. Without a gateway, packets go to their destination
        directly, or never leave this host.
        """
        return any(hop.gateway is not None for hop in self.next_hops)

    @property
    def key(self) -> RouteKey:
        """The fields by which the kernel distinguishes routes from each other."""
        return RouteKey(self.table, self.prefix, self.tos, self.metric, self.source)

    @property
    def way(self) -> str:
        """The next hops as text, as `ip route` prints them."""
        family = self.prefix.family
        if len(self.next_hops) == 1:
            return self.next_hops[0].words_for(family)
        words = [f"nexthop {hop.words_for(family)} weight {hop.weight}" for hop in self.next_hops]
        return " ".join(words)

    @property
    def name(self) -> str:
        """The beginning of the route as `ip route` prints it: the type, unless it is unicast, and
        the prefix.
        """
        where = "default" if self.prefix.length == 0 else str(self.prefix)
        return where if self.type == "unicast" else f"{self.type} {where}"

    def __str__(self) -> str:
        # In the order and the words of `ip route`, which prints the number of a scope or protocol
        # without a name. A single next hop comes early, and several come last.
        words = [self.name]
        if self.source is not None:
            words.append(f"from {self.source}")
        if len(self.next_hops) == 1:
            words.append(self.way)
        if self.tos:
            words.append(f"tos {self.tos:#x}")
        if self.table != TABLE_MAIN:
            words.append(f"table {table_name(self.table)}")
        words.append(f"proto {_PROTOCOLS.get(self.protocol, self.protocol)}")
        if self.scope != SCOPE_UNIVERSE:
            words.append(f"scope {_SCOPES.get(self.scope, self.scope)}")
        words += self._attributes()
        if len(self.next_hops) > 1:
            words.append(self.way)
        return " ".join(words)

    def _attributes(self) -> list[str]:
        """The attributes that few routes have, in the words of `ip route`."""
        attributes = {
            "src": self.prefsrc,
            "metric": self.metric,
            "mtu": self.mtu,
            "advmss": self.advmss,
            "nhid": self.nexthop_id,
        }
        words = [f"{word} {value}" for word, value in attributes.items() if value]
        if self.expired:
            words.append("expires 0sec")
        words += self.unread  # the encapsulations, whose values were not read
        if self.preference != "medium":
            words.append(f"pref {self.preference}")
        return words


def _devs_by(next_hops: Iterable[NextHop]) -> tuple[str, ...]:
    return tuple({hop.dev: None for hop in next_hops if hop.dev is not None})


def devs_of(routes: Iterable[Route]) -> frozenset[str]:
    """All devices through which these routes lead."""
    return frozenset[str]().union(*(route.devs for route in routes))


def bare_hop(hop: NextHop) -> NextHop:
    """The next hop without the state that the kernel reports (dead, linkdown), as in a request."""
    return hop._replace(linkdown=False, dead=False)


def bare(route: Route) -> Route:
    """The route without the state of its next hops (dead, linkdown), so that a wanted route can be
    compared with one that Linux lists. IPv6 next hops are sorted, because their order has no
    meaning.
    """
    if len(route.next_hops) == 1:
        [hop] = route.next_hops
        if not hop.linkdown and not hop.dead:
            return route  # as most routes are: this halves the time of a plan of 10,000 routes
    next_hops = [bare_hop(hop) for hop in route.next_hops]
    if route.prefix.family != IPV4:
        next_hops.sort(key=str)
    return route._replace(next_hops=tuple(next_hops))


def entries_of_route(route: Route) -> tuple[Route, ...]:
    """Split a route into the entries that Linux stores for it. An IPv6 route has an entry for each
    next hop, and these entries can have different protocols. An IPv4 route is one entry, and so is
    a route with a nexthop object.
    """
    if route.prefix.family == IPV4 or len(route.next_hops) < 2 or route.nexthop_id is not None:
        return (route,)
    return tuple(route._replace(next_hops=(hop,)) for hop in route.next_hops)


def routes_of_entries(entries: Sequence[Route]) -> tuple[Route, ...]:
    """Return the routes that `ip route` shows for these stored entries, which have the same key and
    are in the kernel's order.

    Linux stores an IPv6 route as one entry for each next hop. The list joins all entries that have
    a gateway into one route, with the fields of the first joined entry and the next hops of all. It
    goes on after the last joined entry, so an entry without a gateway between two joined ones is
    not shown.
    """
    joined_places = [place for place, entry in enumerate(entries) if _is_joined(entry)]
    if not joined_places:
        return tuple(entries)
    first, last = joined_places[0], joined_places[-1]
    hops = tuple(entries[place].next_hops[0] for place in joined_places)
    if len(hops) == 1:  # Linux lists no weight for a single next hop
        hops = (hops[0]._replace(weight=1),)
    return (*entries[:first], entries[first]._replace(next_hops=hops), *entries[last + 1 :])


def _is_joined(entry: Route) -> bool:
    """Whether Linux would list this stored entry and others with the same key as one route. It
    joins all IPv6 entries with a gateway, whoever added them.
    """
    # An IPv4 entry, or one with a nexthop object, already has all next hops of its route.
    if entry.prefix.family == IPV4 or entry.nexthop_id is not None:
        return False
    return entry.has_gateway


def deletion_command(route: Route) -> str:
    """The `ip` command that deletes this route and no other.

    Linux compares only the fields that the command gives, and deletes the route with all of its
    next hops. So the type and several next hops need not be given. The nexthop object is given, or
    a single next hop of a unicast route.
    """
    words = ["ip" if route.prefix.family == IPV4 else "ip -6", f"route del {route.prefix}"]
    if route.source is not None:
        words.append(f"from {route.source}")
    if route.tos:
        words.append(f"tos {route.tos:#x}")
    if route.nexthop_id is not None:
        words.append(f"nhid {route.nexthop_id}")
    elif route.type == "unicast" and len(route.next_hops) == 1:
        words.append(bare(route).way)  # without "dead" and "linkdown", which `ip` does not take
    words.append(f"table {table_name(route.table)} proto {route.protocol}")
    if route.metric:
        words.append(f"metric {route.metric}")
    return command_of(*words)
