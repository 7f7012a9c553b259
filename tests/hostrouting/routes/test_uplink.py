"""The default route, and how it completes routes without device or gateway."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import TABLE_MAIN, NextHop, Route
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link, Snapshot
from hostrouting.routes.uplink import Need, Uplink
from tests.hostrouting.routes.own_routes import HOPS, entry
from tests.support.commands import furnish
from tests.support.examples import scaled
from tests.support.ip_text import routes_of, text_rows
from tests.support.namespace import Namespace, private_namespace
from tests.support.topologies import host

INTERFACES = [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24"), ("wg0", "10.2.0.4/24")]
OTHERS = [("lo", "10.9.9.9/32"), ("eth0", "192.168.77.5/24"), ("eth0", "fd00::4/64")]
LINKS = [
    Link(name="ib0", index=0, type=ARPHRD_INFINIBAND),
    Link(name="tun0", index=0, type=65534, kind="tun"),
    Link(name="tap0", index=0, kind="tun"),
    Link(name="gretap1", index=0, kind="gretap"),
    Link(name="ppp0", index=0, type=512, kind="ppp"),
    Link(name="wwan0", index=0, type=65534, kind="wwan"),
    Link(name="eth2", index=0),
    Link(name="down0", index=0, up=False),
    Link(name="br0", index=0, kind="bridge"),
    Link(name="eth9", index=0, master="br0"),
]


def planned(there: Snapshot, text: str) -> Route | Need:
    """The route that is planned for a wish such as `dev eth0 via 10.0.0.9`, or what it lacks."""
    words = text.split()
    wish = dict(zip(words[::2], words[1::2], strict=True))
    prefix = Prefix.parse(wish.get("to", "10.9.0.0/16"))
    expected = wish["expected"].split(",") if "expected" in wish else []
    gateway = as_ip(wish["via"]) if "via" in wish else None
    uplink = Uplink(there, prefix.family, expected)
    return uplink.route_to(prefix, dev=wish.get("dev"), gateway=gateway)


ROWS = """
# The best default route of table main that leads out
default via 10.0.0.1 dev eth0                    | | via 10.0.0.1 dev eth0
0.0.0.0/1 dev wg0; 128.0.0.0/1 dev wg0           | | an IPv4 default route
default dev eth1 tos 4; default dev eth0         | | dev eth0 scope link
default dev eth1 expired; default dev eth0       | | dev eth0 scope link
local default dev eth0 table 100                 | dev eth0 | an IPv4 default route on eth0
default dev eth1 expires; default dev eth0 metric 9 | | dev eth1 scope link
default dev eth1 dead; default dev eth0 metric 9 | | dev eth0 scope link
default dev eth1 proto ours; default dev eth0    | | dev eth0 scope link
default dev ib0                                  | | an IPv4 default route
default dev lo; default dev eth0 metric 9        | | dev eth0 scope link
default via 2001:db8::1 dev eth0                 | | via inet6 2001:db8::1 dev eth0
::/0 dev eth1 metric 7 pref low; ::/0 dev wg0 metric 7; ::/0 dev eth0 metric 1 from fd00::/64 \
| to fd09::/16 | dev wg0 metric 1024

# By a device: the first one in any table, main before others
default dev eth0; default dev ib0                | dev ib0  | dev ib0 scope link
default dev eth0; default dev wg0 table 9999     | dev wg0  | dev wg0 scope link
default via 10.0.0.1 dev eth0 metric 9; default via 10.0.0.9 dev eth0 table 100 \
| dev eth0 | via 10.0.0.1 dev eth0
default via 10.0.0.9 dev eth0 table 200; default via 10.0.0.1 dev eth0 table 100 metric 200 \
| dev eth0 | via 10.0.0.1 dev eth0

# Several next hops: all that are alive and lead out, or the one that fits; in IPv6 the first
default nexthop via 10.0.0.1 dev eth0 weight 2 linkdown nexthop via 10.1.0.1 dev eth1 weight 3 \
| | nexthop via 10.0.0.1 dev eth0 weight 2 nexthop via 10.1.0.1 dev eth1 weight 3
default nexthop via 10.0.0.1 dev eth0 nexthop dev ib0 | | via 10.0.0.1 dev eth0
default nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0 nexthop dev eth1 \
| dev eth0 | nexthop via 10.0.0.1 dev eth0 weight 1 nexthop via 10.0.0.2 dev eth0 weight 1
default nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1 \
| to 10.1.0.200/32 | dev eth1 scope link
default nexthop via 10.0.0.1 dev eth0 nexthop via 10.5.0.1 dev eth1 \
| | an address or route on eth1 (configured routes do not count) that reaches the gateway 10.5.0.1
::/0 nexthop via fe80::1 dev eth0 nexthop via fe80::1 dev eth1 | to fd09::/16 \
| via fe80::1 dev eth0 metric 1024
default nexthop dev eth0 weight 2 nexthop dev eth1 weight 3 | dev eth1 | dev eth1 scope link
default nexthop dev eth0 nexthop dev eth1 | via 10.0.0.7 | via 10.0.0.7 dev eth0
::/0 nexthop via fe80::1 dev eth0 nexthop via fe80::1 dev eth1 | to fd09::/16 via fe80::1 \
| via fe80::1 dev eth0 metric 1024

# The gateway of the default route is on-link if that says so
default via 9.9.9.9 dev eth0 onlink | | via 9.9.9.9 dev eth0 onlink
default nexthop via 9.9.9.9 dev eth0 onlink nexthop via 9.9.9.9 dev eth1 onlink | via 9.9.9.9 \
| nexthop via 9.9.9.9 dev eth0 onlink weight 1 nexthop via 9.9.9.9 dev eth1 onlink weight 1

# A neighbour on its device needs no gateway, unless one is named; a made route is not a network
default via 10.0.0.1 dev eth0 | to 10.0.0.200/32              | dev eth0 scope link
default via 10.0.0.1 dev eth0 | to 10.0.0.200/32 via 10.0.0.1 | via 10.0.0.1 dev eth0
default via 10.0.0.1 dev eth0 | to 10.0.0.0/23                | via 10.0.0.1 dev eth0
default via 10.0.0.1 dev eth0; 10.1.0.0/25 dev eth0 proto 4 | to 10.1.0.9/32 | via 10.0.0.1 dev eth0

# Without a default route
| via 10.0.0.9 dev eth0  | via 10.0.0.9 dev eth0
| via 10.0.0.1           | an IPv4 default route
| dev eth7               | the device eth7, ...
| dev down0              | the device down0 to be up

# In doubt because of a tunnel: a line or a tap may be the only way out
default dev ppp0 | | dev ppp0 scope link
default dev wwan0 | | dev wwan0 scope link
default dev eth0; default dev tun0 metric 200 | | dev eth0 scope link
default nexthop dev eth0 nexthop dev tun0 dead | | dev eth0 scope link

# In doubt because of equal ones
default via 10.0.0.1 dev eth0; default via 10.0.0.2 dev eth0 | | via 10.0.0.1 dev eth0
default dev eth0; default dev ib0               | | dev eth0 scope link
default dev ib0; default dev eth0 metric 9; default dev eth1 metric 9 \
| | a device to be named, because it is unclear whether [default dev eth0 ...
::/0 proto 9 nexthop dev eth0 nexthop dev eth1 | to fd09::/16 | a device to be named, ...

# Only an expected device that can have the default route
default dev eth1; default dev eth0              | expected eth0,ib0  | dev eth0 scope link
default dev tun0; default dev eth0 metric 9     | expected tun0      | dev tun0 scope link
default dev eth0                                | expected eth1      | an IPv4 default route on eth1
default via 10.0.0.1 dev eth0      | expected eth1 via 10.0.0.9 | via 10.0.0.9 dev eth0
default dev tun0; default dev eth0 table 100    | expected eth0      | dev eth0 scope link
default dev eth1; default dev eth0              | expected eth8      | an IPv4 default route on eth8
default dev eth1; default dev eth0              | expected eth0,eth1 | a device to be named, ...
default dev eth1; default dev eth0              | expected ib0       | a device to be named, ...
default dev eth1; default dev eth0 | expected eth0 via 10.0.0.9 | via 10.0.0.9 dev eth0

# What reaches a gateway: a route of table main without one, that Linux uses for it
9.9.9.0/24 dev eth0            | via 9.9.9.9 dev eth0 | via 9.9.9.9 dev eth0
9.9.9.0/24 dev eth0 proto ours | via 9.9.9.9 dev eth0 | an address or route on eth0 ...
9.9.9.0/24 dev eth0 table 100  | via 9.9.9.9 dev eth0 | an address or route on eth0 ...
9.9.9.0/24 nexthop dev eth0 nexthop via 10.0.0.1 dev eth0 | via 9.9.9.9 dev eth0 | an address or ...
9.9.9.0/24 dev eth0 tos 4      | via 9.9.9.9 dev eth0 | an address or route on eth0 ...
fd00::/64 dev eth0 | via fd00::1 dev eth0 to fd09::/16 | via fd00::1 dev eth0 metric 1024
"""


@text_rows(ROWS)
def test_a_route(row: list[str]) -> None:
    """On a host with these routes, what is wanted becomes this route, or waits for this."""
    routes, wish, means = row
    there = host(INTERFACES, routes_of(routes), links=LINKS)
    route = planned(there, wish)
    said = str(route)
    if isinstance(route, Route):
        assert len(route.next_hops) > 1 or route.next_hops[0].weight == 1
        said = f"{said} ".replace("proto hostrouting ", "").removeprefix(f"{route.prefix} ")
    if means.endswith("..."):
        assert said.startswith(means.removesuffix("..."))
    else:
        assert said.strip() == means


@text_rows(
    """
# Linux takes it anyway: a route to the gateway has it
default via 10.0.0.1 dev eth0 src 10.0.0.4         | | via 10.0.0.1 dev eth0
default via 192.168.77.1 dev eth0 src 192.168.77.5 | | via 192.168.77.1 dev eth0
default via 9.9.9.9 dev eth0 src 10.0.0.4; 9.9.9.9/32 dev eth0 src 10.0.0.4 | | via 9.9.9.9 dev eth0

# Linux would take another; in IPv6, the destination decides
default via 192.168.77.1 dev eth0 src 10.0.0.4    | | via 192.168.77.1 dev eth0 src 10.0.0.4
default via 9.9.9.9 dev eth0 onlink src 10.0.0.4  | | via 9.9.9.9 dev eth0 onlink src 10.0.0.4
::/0 via fe80::1 dev eth0 src fd00::4 | to fd09::/16 | via fe80::1 dev eth0 src fd00::4 metric 1024
default src 10.0.0.4 nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1 \
| | src 10.0.0.4 nexthop via 10.0.0.1 dev eth0 weight 1 nexthop via 10.1.0.1 dev eth1 weight 1
default src 10.1.0.4 nexthop dev eth0 nexthop via 10.1.0.1 dev eth1 \
| | src 10.1.0.4 nexthop dev eth0 weight 1 nexthop via 10.1.0.1 dev eth1 weight 1

# Whose next hop it is
default via 10.0.0.1 dev eth0; default via 10.0.0.1 dev eth0 metric 9 src 10.9.9.9 \
| via 10.0.0.1 | via 10.0.0.1 dev eth0
default via 10.0.0.1 dev eth0 src 10.9.9.9 | via 10.0.0.8 | via 10.0.0.8 dev eth0
default via 10.1.0.1 dev eth0; default via 10.1.0.1 dev eth1 src 10.9.9.9 table 100 \
| dev eth1 | via 10.1.0.1 dev eth1 src 10.9.9.9
default via 10.0.0.1 dev eth0 src 10.9.9.9 | to 10.0.0.200/32 | dev eth0 scope link
"""
)
def test_the_source_of_a_route(row: list[str]) -> None:
    """That of the default route with its next hop, unless Linux gives it to packets anyway."""
    routes, wish, means = row
    there = host([*INTERFACES, *OTHERS], routes_of(routes), links=LINKS)
    route = planned(there, wish)
    assert isinstance(route, Route)
    said = f"{route} ".replace("proto hostrouting ", "").strip()
    assert said == f"{route.prefix} {means}"


def test_a_network_without_its_route() -> None:
    """As with `noprefixroute`: Linux does not look for its addresses on the device."""
    there = host(INTERFACES, routes_of("default via 10.0.0.1 dev eth0 onlink"), links=LINKS)
    routes = tuple(route for route in there.routes if route.prefix.length != 24)
    assert "via 10.0.0.1" in str(planned(there._replace(routes=routes), "to 10.0.0.200/32"))


@text_rows(
    """
default dev ppp0; default dev eth0 metric 9       | eth0 or ppp0
default dev eth0; default dev eth1; default dev eth2 metric 9 | eth0 or eth1
default dev tun0; default dev eth0; default dev eth1 | eth0, eth1 or tun0
default nexthop dev eth0 nexthop dev tun0         | eth0 or tun0
"""
)
def test_which_is_in_doubt(row: list[str]) -> None:
    """The need names the devices. A named device is never in doubt."""
    routes, devs = row
    there = host(INTERFACES, routes_of(routes), links=LINKS)
    need = planned(there, "")
    assert isinstance(need, Need), need
    assert str(need.remedy).startswith(f"name {devs} in the configured route, or ")
    assert str(planned(there, "via 10.0.0.9")) == str(need)
    assert isinstance(planned(there, "via 10.0.0.9 dev eth0"), Route)


@text_rows(
    """
default dev tap0                          | tap0               | False
default dev tap0                          | tap0 eth0          | True
default dev tap0                          | tap0 br0           | True
default nexthop dev tap0 nexthop dev ppp0 | tap0               | True
::/0 dev tap0                             | tap0 eth0=fe80::4/64 eth1=10.1.0.4/24 | False
default dev gretap1                       | gretap1            | True
"""
)
def test_a_tap_may_be_the_only_way_out(row: list[str]) -> None:
    """A VPN's has a card beside it, or a bridge with one. A row has the devices with an address."""
    routes, devs, is_in_doubt = row
    interfaces: list[tuple[str, str]] = []
    for place, word in enumerate(devs.split()):
        dev, _, address = word.partition("=")
        interfaces.append((dev, address or f"10.0.{place}.4/24"))
    wish = "to fd09::/16" if ":" in routes else ""
    need = planned(host(interfaces, routes_of(routes), links=LINKS), wish)
    assert str(need).startswith("a device to be named, ") is (is_in_doubt == "True")


# On Linux.


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    with private_namespace() as made:
        furnish(made)
        made.batch(["rule add pref 9 from 9.9.9.9 lookup 100", "rule add pref 40000 lookup 100"])
        yield made


def defaults_of(family: int) -> st.SearchStrategy[list[Route]]:
    """Default routes in table main and in another one; in IPv4 some with several next hops."""
    ways: list[tuple[NextHop, ...]] = [(hop,) for hop in HOPS[family]]
    if family == IPV4:
        ways += [tuple(HOPS[IPV4][:2]), tuple(HOPS[IPV4][1:3])]
    route = st.builds(
        lambda way, metric, table: entry(Prefix(family, 0, 0), way[0], metric)._replace(
            next_hops=way, table=table, protocol=9
        ),
        st.sampled_from(ways),
        st.sampled_from([5, 100, 1024]),
        st.sampled_from([TABLE_MAIN, TABLE_MAIN, 100]),
    )
    return st.lists(route, min_size=1, max_size=4)


@pytest.mark.linux
@pytest.mark.needs("root")
@settings(max_examples=scaled(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(defaults_of(IPV4) | defaults_of(IPV6))
def test_an_open_route_is_that_of_table_main(namespace: Namespace, defaults: list[Route]) -> None:
    """Linux sends packets by the next hops of an open route there, and accepts it."""
    family = defaults[0].prefix.family
    destination = Prefix.parse({IPV4: "203.0.113.0/24", IPV6: "2001:db8::/32"}[family])
    requests = [RouteRequest("add", default) for default in defaults]
    with namespace.inside(), NetlinkBackend() as backend:
        backend.change(requests)
        try:
            route = Uplink(backend.snapshot(), family).route_to(destination)
            [answer] = backend.lookup([destination.ip])
            is_by_main = answer.route is not None and answer.route.table == TABLE_MAIN
            assert isinstance(route, Route) is is_by_main
            if isinstance(route, Route) and answer.route is not None:
                shown, used = (
                    [(hop.dev, hop.gateway) for hop in each.next_hops]
                    for each in (route, answer.route)
                )
                assert shown == used
                requests.append(RouteRequest("add", route))
                [outcome] = backend.change(requests[-1:])
                assert outcome.ok
        finally:
            backend.change(request._replace(verb="delete") for request in reversed(requests))
