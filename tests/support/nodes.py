"""A strategy for nodes: cards, InfiniBand, tunnels, CNIs, refused ranges and rules, all about 64
addresses: so routes often nest, repeat and refuse each other, and every address can be asked.
"""

from collections.abc import Iterable
from functools import cache
from ipaddress import ip_address
from typing import Any

from hypothesis import note, strategies as st

from hostrouting.model.prefix import IPV4, IPV6, Prefix, ip_at, width_of
from hostrouting.model.route import (
    PATHLESS,
    SCOPE_LINK,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteType,
)
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Address, Link, Snapshot

BITS = 6
_LOOPBACK = Link(name="lo", index=0, type=772)
_CARD = Link(name="eth0", index=0)
_OTHERS = [Link("eth1", 0), Link("ib0", 0, type=ARPHRD_INFINIBAND)]
_OTHERS += [Link("wg0", 0, "wireguard", type=65534), Link("tun0", 0, "tun", type=65534)]
_OTHERS += [Link(name, 0, "veth") for name in ("cali1", "lxc1", "cilium_host")]
_OTHERS += [Link("cni0", 0, "bridge"), Link("docker0", 0, "bridge")]
_OTHERS += [Link("flannel.1", 0, "vxlan"), Link("dummy0", 0, "dummy")]
_FIRST = {4: int(ip_address("10.96.0.0")), 6: int(ip_address("fd96::"))}
_GATEWAY = {4: ip_address("10.0.0.1"), 6: ip_address("fe80::1")}
_UNBOUND = {4: [Prefix(4, 0, 32), Prefix(4, 0, 8)], 6: [Prefix(6, 0, 128), Prefix(6, 0, 8)]}
"""By family: sources around the address that IPv4 compares while a packet has no source."""
_TYPES: list[RouteType] = ["unicast"] * 6
_TYPES += [*sorted(PATHLESS), "local", "multicast", "anycast", "broadcast"]
# Hypothesis checks a new strategy for longer than it draws from it, so each is made once.


@cache
def _one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


# Something is drawn if this is 0.
_ONE_IN_THREE = st.integers(0, 2)
_ONE_IN_TEN = st.integers(0, 9)
_TABLES = st.sampled_from([TABLE_MAIN] * 4 + [100])
_METRICS = st.sampled_from([0, 0, 100, 100, 200, 1024])
_UNREAD = st.sampled_from([()] * 12 + [("encap ip6",), ("encap seg6",)])
_PROTOCOLS = st.sampled_from([2, 3, 4, 9, 12, 16, 80, 213])
_LINKS = st.lists(st.sampled_from(_OTHERS), unique=True, max_size=6)


def block_of(family: int) -> Prefix:
    return Prefix(family, _FIRST[family], width_of(family) - BITS)


@cache
@st.composite
def prefixes(draw: st.DrawFn, family: int) -> Prefix:
    """A prefix in the block, or a little wider."""
    width = width_of(family)
    length = draw(_one_of(width - BITS - 4, *range(width - BITS, width), width, width))
    return Prefix.around(family, _FIRST[family] + draw(st.integers(0, (1 << BITS) - 1)), length)


@cache
@st.composite
def _defaults(draw: st.DrawFn, family: int, dev: str) -> list[Route]:
    """A default route, which is often equal to another one, and may have no gateway."""
    gateway = None if draw(_ONE_IN_THREE) == 0 else _GATEWAY[family]
    default = Route(
        Prefix(family, 0, 0),
        (NextHop(dev, gateway=gateway),),
        metric=draw(_METRICS),
        table=draw(_TABLES),
        protocol=draw(_one_of(3, 9, 16)),
    )
    routes = [default]
    if draw(_ONE_IN_TEN) == 0:
        halves = default.prefix.halves()
        routes += [Route(half, (NextHop(dev),), protocol=3) for half in halves]
    return routes


@cache
@st.composite
def _addresses(draw: st.DrawFn, family: int, dev: str) -> tuple[Address, list[Route]]:
    network = draw(prefixes(family))
    has_others = network.length < width_of(family)
    ip = ip_at(family, network.first + 1) if has_others else network.ip
    hops = (NextHop(dev),)
    routes = [Route(Prefix.of(ip), hops, table=TABLE_LOCAL, type="local", protocol=2)]
    if has_others and family == IPV4:
        routes.append(Route(network, hops, protocol=2, prefsrc=ip))
    if has_others and family == IPV6:
        routes.append(Route(network, hops, protocol=2, metric=256))
    return Address(ip=ip, length=network.length, dev=dev), routes


@cache
@st.composite
def _next_hops(draw: st.DrawFn, family: int, devs: tuple[str, ...]) -> NextHop:
    gateway = draw(_one_of(None, _GATEWAY[family]))
    return NextHop(draw(_one_of(*devs)), gateway=gateway)


@cache
@st.composite
def _routes(draw: st.DrawFn, family: int, devs: tuple[str, ...]) -> Route:
    kind = draw(_one_of(*_TYPES))
    route = Route(
        draw(prefixes(family)), type=kind, metric=draw(_METRICS), protocol=draw(_PROTOCOLS)
    )
    table = TABLE_LOCAL if kind == "local" else draw(_TABLES)
    route = route._replace(table=table)
    if family == IPV6 and draw(_ONE_IN_TEN) == 0:
        route = route._replace(source=draw(prefixes(family)))
    if kind in PATHLESS:
        return route
    hops = [draw(_next_hops(family, devs))]
    if kind == "local":  # Linux takes no gateway with it
        hops = [NextHop(hops[0].dev)]
    if kind == "unicast" and draw(_ONE_IN_TEN) == 0:
        hops.append(draw(_next_hops(family, devs)))
    return route._replace(next_hops=tuple(hops), unread=draw(_UNREAD))


@cache
def _sources(family: int) -> st.SearchStrategy[Prefix]:
    return prefixes(family) | st.sampled_from(_UNBOUND[family])


@cache
@st.composite
def _selectors(draw: st.DrawFn, family: int, devs: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a rule with one selector or none; more would take most of the time."""
    selector = draw(_one_of("to", "from", "fwmark", "iif", "uidrange", "none"))
    if selector == "to":
        return {"dst": draw(prefixes(family))}
    if selector == "from":
        return {"src": draw(_sources(family))}
    if selector == "iif":
        return {"iif": draw(_one_of(*devs, "lo"))}
    if selector == "uidrange":
        return {"others": (("uidrange", draw(_one_of("0-0", "1-99"))),)}
    if selector == "fwmark":
        return {
            "fwmark": draw(_one_of(0, 0x200, 0xCA6C)),
            "fwmask": draw(_one_of(0xFF, 0xF00, 0xFFFFFFFF)),
        }
    return {}


@cache
@st.composite
def _rules(draw: st.DrawFn, family: int, devs: tuple[str, ...]) -> Rule:
    selectors = draw(_selectors(family, devs))
    rule = Rule(
        family=family,
        priority=draw(st.integers(1, 39_999)),
        invert=bool(selectors) and draw(_ONE_IN_THREE) == 0,
        suppress_prefixlength=draw(_one_of(None, None, None, 0, width_of(family) - 4)),
        suppress_ifgroup=draw(_one_of(*[None] * 9, 7)),
        **selectors,
    )
    if draw(_ONE_IN_TEN) == 0:
        return rule._replace(action="goto", target=40_000)
    return rule._replace(table=draw(_one_of(100, TABLE_MAIN)))


@cache
@st.composite
def nodes(draw: st.DrawFn) -> tuple[int, Snapshot]:
    family = draw(_one_of(4, 4, 6))
    links = [_CARD, *draw(_LINKS)]
    devs = tuple(link.name for link in links)
    routes: list[Route] = []
    addresses: list[Address] = []
    for dev in devs:
        # Nine of ten nodes have a default route by eth0, and two of ten by another device.
        without = 1 if dev == "eth0" else 8
        if draw(_ONE_IN_TEN) >= without:
            routes += draw(_defaults(family, dev))
        if draw(_ONE_IN_THREE) == 0:
            address, own = draw(_addresses(family, dev))
            addresses.append(address)
            routes += own
    routes += draw(st.lists(_routes(family, devs), max_size=6))
    rules = [*default_rules(family), *draw(st.lists(_rules(family, devs), max_size=3))]
    # The failure of a law shows its node in the words of `ip`.
    note("\n".join(map(str, (*rules, *routes))))
    numbered: list[Link] = []
    for index, link in enumerate([_LOOPBACK, *links], start=1):
        numbered.append(link._replace(index=index, up=True))
    return family, Snapshot(
        links=tuple(numbered),
        addresses=tuple(addresses),
        rules=tuple(sorted(rules, key=lambda rule: rule.priority)),
        routes=tuple(map(_with_scope, routes)),
    )


def _with_scope(route: Route) -> Route:
    """The route with the scope that Linux gives to one in IPv4 without a gateway."""
    is_on_link = bool(route.next_hops) and not route.has_gateway
    if route.prefix.family == IPV4 and is_on_link:
        return route._replace(scope=SCOPE_LINK)
    return route


def with_rules(snapshot: Snapshot, added: Iterable[Rule]) -> Snapshot:
    """The same host with further rules, each behind those of its priority."""
    rules = sorted((*snapshot.rules, *added), key=lambda rule: rule.priority)
    return snapshot._replace(rules=tuple(rules))
