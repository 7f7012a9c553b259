"""Routes are written as `ip` prints them."""

import pytest

from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import (
    REFUSING,
    NextHop,
    Route,
    RouteType,
    as_listed,
    as_stored,
    bare,
    devs_of,
)
from tests.support.ip_text import route_of

ECMP = Route(
    Prefix.parse("fd00::/8"),
    (
        NextHop("a", gateway=as_ip("fe80::1"), onlink=True),
        NextHop("b", weight=3, dead=True, linkdown=True),
    ),
    tos=16,
    protocol=77,
    mtu=1400,
    advmss=1300,
    nexthop_id=9,
    table=255,
    scope=7,
    prefsrc=as_ip("fd00::2"),
)


ROUTES = {
    "default via 10.0.0.1 dev eth0 proto dhcp metric 100": Route.to(
        "0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100, protocol=16
    ),
    "172.16.0.0/16 dev ib0 proto kernel scope link": Route.to(
        "172.16.0.0/16", dev="ib0", protocol=2
    ),
    "fd00::/8 dev eth0 proto unspec": Route.to("fd00::/8", dev="eth0"),
    "local ::1/128 proto unspec scope host expires 0sec": Route.to("::1", type="local")._replace(
        scope=254, expired=True
    ),
    "::1/128 from fd01::/16 proto unspec encap ip6 pref low": Route.to("::1")._replace(
        source=Prefix.parse("fd01::/16"), preference="low", expired=False, unread=("encap ip6",)
    ),
    "blackhole 10.9.0.0/16 table 100 proto unspec": Route.to(
        "10.9.0.0/16", type="blackhole", table=100
    ),
    "10.9.0.0/16 via inet6 fe80::1 dev eth0 proto hostrouting": Route.to(
        "10.9.0.0/16", dev="eth0", gateway="fe80::1", protocol=213
    ),
    "fd00::/8 tos 0x10 table local proto 77 scope 7 src fd00::2 mtu 1400 advmss 1300 nhid 9 "
    "nexthop via fe80::1 dev a onlink weight 1 nexthop dev b dead linkdown weight 3": ECMP,
}


@pytest.mark.parametrize(("text", "route"), ROUTES.items())
def test_route(text: str, route: Route) -> None:
    """A route prints as in `ip route`."""
    assert str(route) == text


@pytest.mark.parametrize("state", ["up", "dead", "linkdown"])
def test_a_route_without_the_state_of_its_next_hop(state: str) -> None:
    """It is the same route, whatever has become of the device."""
    route = Route.to("10.9.0.0/16", dev="eth0")
    [hop] = route.next_hops
    listed = hop._replace(dead=state == "dead", linkdown=state == "linkdown")
    assert bare(route._replace(next_hops=(listed,))) == route


def test_the_devices_of_a_route() -> None:
    """Each once; packets leave by those that are not dead."""
    assert ECMP._replace(next_hops=(*ECMP.next_hops, NextHop("a"))).devs == ("a", "b")
    assert ECMP.usable_devs == ("a",)
    assert Route.to("10.9.0.0/16", gateway="10.0.0.1").devs == ()
    assert devs_of([ECMP, Route.to("10.9.0.0/16", dev="c")]) == {"a", "b", "c"}


def test_entries() -> None:
    """In IPv6 each next hop is an entry; those with a gateway are listed as one."""
    entries = as_stored(ECMP._replace(nexthop_id=None))
    assert [(entry.next_hops, entry.protocol) for entry in entries] == [
        ((hop,), 77) for hop in ECMP.next_hops
    ]
    for whole in (ECMP, Route.to("fd00::/8", type="blackhole")):
        assert as_stored(whole) == (whole,)
    ipv4 = ECMP._replace(prefix=Prefix(4, 0, 0), nexthop_id=None)
    assert as_stored(ipv4) == (ipv4,)
    of_ipv4 = tuple(ipv4._replace(next_hops=(NextHop("a", as_ip(f"10.0.0.{n}")),)) for n in (1, 2))
    assert as_listed(of_ipv4) == of_ipv4
    (via, on_link), other = (
        entries,
        entries[0]._replace(next_hops=(NextHop("c", as_ip("fe80::9"), 5),), protocol=9),
    )
    assert as_listed([on_link]) == (on_link,)
    assert as_listed([on_link, other]) == (
        on_link,
        other._replace(next_hops=(other.next_hops[0]._replace(weight=1),)),
    )
    joined = via._replace(next_hops=(*via.next_hops, *other.next_hops))
    assert as_listed([on_link, via, on_link, other, on_link]) == (on_link, joined, on_link)


def test_an_entry_with_a_nexthop_object() -> None:
    """Linux lists it as a route of its own, beside the others with its key."""
    plain, _ = as_stored(ECMP._replace(nexthop_id=None))
    of_object = plain._replace(nexthop_id=7)
    assert as_listed([of_object, plain]) == (of_object, plain)


@pytest.mark.parametrize(
    ("route", "is_passed_over"),
    [
        ("10.9.0.0/16 dev a", False),
        ("10.9.0.0/16 dev a expires", False),
        ("10.9.0.0/16 dev a expired", True),
        ("10.9.0.0/16 dev a dead", True),
        ("10.9.0.0/16 nexthop dev a dead nexthop dev b", False),
        ("blackhole 10.9.0.0/16", False),
    ],
)
def test_what_linux_lists_and_does_not_use(route: str, *, is_passed_over: bool) -> None:
    """What has expired, and what has no next hop that lives."""
    assert route_of(route).is_passed_over is is_passed_over


@pytest.mark.parametrize("kind", sorted(REFUSING))
def test_a_refusal_leads_through_no_device(kind: RouteType) -> None:
    """`ip` prints `dev lo` for those of IPv6, and so may a snapshot that was made from that."""
    route = Route.to("fd16::/48", dev="lo", type=kind)
    assert route.usable_devs == ()


@pytest.mark.parametrize(
    ("prefix", "gateways", "is_sorted"),
    [
        pytest.param("10.9.0.0/16", ("10.0.0.2", "10.0.0.1"), False, id="IPv4"),
        pytest.param("fd09::/16", ("fe80::2", "fe80::1"), True, id="IPv6"),
    ],
)
def test_the_order_of_next_hops(prefix: str, gateways: tuple[str, ...], *, is_sorted: bool) -> None:
    """It matters in IPv4, where Linux compares the hops of a deletion one by one."""
    hops = tuple(NextHop("eth0", gateway=as_ip(gateway)) for gateway in gateways)
    expected = hops[::-1] if is_sorted else hops
    assert bare(Route(Prefix.parse(prefix), hops)).next_hops == expected
