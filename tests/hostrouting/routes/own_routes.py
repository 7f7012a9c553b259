"""Routes of ours and of another program with the keys of wanted ones: for plan and apply."""

from collections.abc import Collection, Iterable

from hypothesis import strategies as st

from hostrouting.config.settings import (
    HostRoutingConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import DEFAULT_METRIC, OURS, NextHop, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FakeKernel
from tests.support.commands import route_command
from tests.support.programs import completed

FOREIGN = 186
PREFIXES = {
    IPV4: [*map(Prefix.parse, ("20.0.0.0/16", "20.0.0.0/24", "20.1.0.0/16"))],
    IPV6: [*map(Prefix.parse, ("fd20::/32", "fd20::/48", "fd21::/32"))],
}
EVERY = [*PREFIXES[IPV4], *PREFIXES[IPV6]]
HOPS = {
    IPV4: [NextHop("eth0", gateway=as_ip(f"10.0.0.{number}")) for number in (1, 2, 3)],
    IPV6: [NextHop("eth0", gateway=as_ip(f"fd00:99::{number}")) for number in (1, 2, 3)],
}
HOPS[IPV4].append(NextHop("eth1"))
HOPS[IPV6].append(NextHop("eth1"))
ON_LO = {IPV4: as_ip("10.0.9.9"), IPV6: as_ip("fd00:9::9")}
_METRICS = st.sampled_from([0, 5])


def entry(prefix: Prefix, hop: NextHop, metric: int = 0, protocol: int = OURS) -> Route:
    metric = metric or DEFAULT_METRIC[prefix.family]
    return Route.to(prefix, dev=hop.dev, gateway=hop.gateway, metric=metric, protocol=protocol)


def wishes() -> st.SearchStrategy[list[StaticRoute]]:
    """Wanted routes, some of which take their next hop from the default route."""

    def of(family: int) -> st.SearchStrategy[StaticRoute]:
        gateways = st.sampled_from([*(hop.gateway for hop in HOPS[family][:3]), None])
        return st.builds(
            StaticRoute, st.sampled_from(PREFIXES[family]).map(str), gateways, st.none(), _METRICS
        )

    return st.lists(of(IPV4) | of(IPV6), max_size=5, unique_by=lambda wish: wish.key)


def configured(*routes: StaticRoute, expected: Iterable[str] = ()) -> HostRoutingConfig:
    return HostRoutingConfig(
        StaticRoutesConfig(bool(routes), routes),
        route_overlap=RouteOverlapConfig(expected_devs=tuple(expected)),
    )


def hosts() -> st.SearchStrategy[list[Route]]:
    """Default routes and some others. Some have a source that Linux would not choose."""

    def of(family: int) -> st.SearchStrategy[Route]:
        owners = st.sampled_from([OURS, OURS, FOREIGN])
        return with_sources(
            st.builds(
                entry,
                st.sampled_from(PREFIXES[family]),
                st.sampled_from(HOPS[family]),
                _METRICS,
                owners,
            )
        )

    one, two, three = (entry(Prefix(IPV6, 0, 0), hop, protocol=9) for hop in HOPS[IPV6][:3])
    ipv6 = st.sampled_from(
        [one._replace(next_hops=(*one.next_hops, *two.next_hops)), one, two, three]
    )
    default = entry(Prefix(IPV4, 0, 0), HOPS[IPV4][0], protocol=16)
    by_two = default._replace(next_hops=tuple(HOPS[IPV4][:2]))
    ipv4 = st.sampled_from([default, by_two])
    several = st.sampled_from([HOPS[IPV4][:2], HOPS[IPV4][1:3], HOPS[IPV4][:3]]).map(tuple)
    by_several = st.builds(lambda route, hops: route._replace(next_hops=hops), of(IPV4), several)
    others = st.lists(of(IPV4) | of(IPV6) | by_several, max_size=7)
    return st.builds(
        lambda *first, routes: [*first, *routes],
        with_sources(ipv4),
        with_sources(ipv6),
        routes=others,
    )


def with_sources(routes: st.SearchStrategy[Route]) -> st.SearchStrategy[Route]:
    """These routes, of which some have the address of lo as their source."""
    return st.builds(
        lambda route, has: route._replace(prefsrc=ON_LO[route.prefix.family] if has else None),
        routes,
        st.sampled_from([False, False, True]),
    )


def fake() -> FakeKernel:
    kernel = FakeKernel()
    for dev in ("eth0", "eth1"):
        kernel.add_link(dev)
    for address in ON_LO.values():
        kernel.add_address("lo", f"{address}/{address.max_prefixlen}")
    kernel.add_address("eth0", "10.0.0.4/24")
    kernel.add_address("eth0", "fd00:99::4/64")
    return kernel


def routes_to(prefixes: Collection[Prefix], host: Snapshot) -> list[Route]:
    return [route for route in host.routes if route.prefix in prefixes]


def put(backend: RouteBackend, routes: Iterable[Route]) -> None:
    """Have exactly these routes, as far as the kernel takes them."""
    every = [*EVERY, Prefix(IPV4, 0, 0), Prefix(IPV6, 0, 0)]
    there = routes_to(every, backend.snapshot())
    while there:
        for route in there:
            backend.change(_deletions(route))
        there = routes_to(every, backend.snapshot())
    if isinstance(backend, NetlinkBackend):  # Linux can have several routes of one key
        commands = "".join(f"{route_command(route, '')}\n" for route in routes)
        completed(["ip", "-force", "-batch", "-"], input=commands)
    else:
        backend.change(RouteRequest("append", route) for route in routes)


def _deletions(route: Route) -> list[RouteRequest]:
    """The requests that delete a listed route; in IPv6 each next hop may be anybody's."""
    if route.prefix.family == IPV4:
        return [RouteRequest("delete", route)]
    return [
        RouteRequest("delete", entry(route.prefix, hop, route.metric, protocol))
        for hop in route.next_hops
        for protocol in (OURS, FOREIGN, 9)
    ]
