"""Routes: as `ip` prints them, and as Linux stores and lists them."""

from hostrouting.model.route import (
    bare,
    deletion_command,
    devs_of,
    entries_of_route,
    routes_of_entries,
)
from tests.support.ip_text import route_of, routes_of, text_rows


@text_rows("""
default via 10.0.0.1 dev eth0 metric 100 proto 16 \
| default via 10.0.0.1 dev eth0 proto dhcp metric 100
172.16.0.0/16 dev ib0 proto 2 | 172.16.0.0/16 dev ib0 proto kernel scope link
fd00::/8 dev eth0 | fd00::/8 dev eth0 proto unspec
local ::1/128 scope 254 expired | local ::1/128 proto unspec scope host expires 0sec
::1/128 from fd01::/16 encap ip6 encap mpls pref low expires \
| ::1/128 from fd01::/16 proto unspec encap ip6 encap mpls pref low
blackhole default table 100 | blackhole default table 100 proto unspec
10.9.0.0/16 via fe80::1 dev eth0 proto ours \
| 10.9.0.0/16 via inet6 fe80::1 dev eth0 proto hostrouting
fd00::/8 tos 16 table 255 proto 77 scope 7 src fd00::2 mtu 1400 advmss 1300 nhid 9 \
nexthop via fe80::1 dev a onlink nexthop dev b dead linkdown weight 3 \
| fd00::/8 tos 0x10 table local proto 77 scope 7 src fd00::2 mtu 1400 advmss 1300 nhid 9 \
nexthop via fe80::1 dev a onlink weight 1 nexthop dev b dead linkdown weight 3
""")
def test_route(row: list[str]) -> None:
    written, printed = row
    assert str(route_of(written)) == printed


@text_rows("""
10.9.0.0/16 dev a dead | 10.9.0.0/16 dev a
10.9.0.0/16 dev a linkdown | 10.9.0.0/16 dev a
10.9.0.0/16 nexthop dev b dead nexthop dev a | 10.9.0.0/16 nexthop dev b nexthop dev a
fd09::/16 nexthop dev b nexthop dev a | fd09::/16 nexthop dev a nexthop dev b
""")
def test_what_is_compared_of_a_route(row: list[str]) -> None:
    """Not the state of its next hops. Their order counts in IPv4: Linux deletes by it."""
    listed, compared = row
    assert bare(route_of(listed)) == route_of(compared)


@text_rows("""
blackhole default | |
fd00::/8 nexthop via fe80::1 dev a nexthop dev b dead nexthop dev a | a b | a
10.9.0.0/16 via 10.0.0.1 | |
# `ip` prints `dev lo` for those of IPv6, and so may a snapshot that was made from that.
unreachable fd16::/48 dev lo | lo |
fd00::/8 nexthop dev a dead nexthop dev b dead | a b | | passed over
fd00::/8 dev a expired | a | a | passed over
""")
def test_the_devices_of_a_route(row: list[str]) -> None:
    """Each once; packets leave by those that are not dead."""
    written, devs, usable_devs, *passed_over = row
    route = route_of(written)
    assert route.is_passed_over is bool(passed_over)
    assert route.has_gateway is ("via" in written)
    assert route.devs == tuple(devs.split())
    assert devs_of([route, route_of("9.0.0.0/8 dev c")]) == {*devs.split(), "c"}
    assert route.usable_devs == tuple(usable_devs.split())


def test_the_rank_of_a_route() -> None:
    """A lower metric comes first, then a higher preference."""
    routes = routes_of("::/0 metric 1 pref high; ::/0 pref low; ::/0 dev a; ::/0 pref high")
    assert sorted(routes, key=lambda route: route.rank) == routes[::-1]


@text_rows("""
fd00::/8 proto 77 nexthop via fe80::1 dev a nexthop dev b weight 3 \
| fd00::/8 proto 77 via fe80::1 dev a; fd00::/8 proto 77 dev b weight 3
fd00::/8 nhid 9 nexthop via fe80::1 dev a nexthop dev b \
| fd00::/8 nhid 9 nexthop via fe80::1 dev a nexthop dev b
9.0.0.0/8 nexthop dev a nexthop dev b | 9.0.0.0/8 nexthop dev a nexthop dev b
""")
def test_the_entries_of_a_route(row: list[str]) -> None:
    """In IPv6, each next hop is an entry."""
    route, entries = row
    assert entries_of_route(route_of(route)) == tuple(routes_of(entries))


@text_rows("""
fd00::/8 dev b; fd00::/8 via fe80::1 dev a proto 77; fd00::/8 dev b; \
fd00::/8 via fe80::9 dev c weight 5; fd00::/8 dev d \
| fd00::/8 dev b; \
fd00::/8 proto 77 nexthop via fe80::1 dev a nexthop via fe80::9 dev c weight 5; fd00::/8 dev d
9.0.0.0/8 via 10.0.0.1; 9.0.0.0/8 via 10.0.0.2 | 9.0.0.0/8 via 10.0.0.1; 9.0.0.0/8 via 10.0.0.2
fd00::/8 via fe80::1 dev a nhid 7; fd00::/8 via fe80::1 dev a weight 5 \
| fd00::/8 via fe80::1 dev a nhid 7; fd00::/8 via fe80::1 dev a
""")
def test_entries_as_linux_lists_them(row: list[str]) -> None:
    """Those of IPv6 with a gateway of their own are one route."""
    entries, listed = row
    assert routes_of_entries(routes_of(entries)) == tuple(routes_of(listed))


@text_rows("""
default via 10.0.0.1 dev a dead proto 16 metric 5 \
| ip route del 0.0.0.0/0 via 10.0.0.1 dev a table main proto 16 metric 5
fd00::/8 from fd01::/16 tos 16 dev a nhid 7 table 9 \
| ip -6 route del fd00::/8 from fd01::/16 tos 0x10 nhid 7 table 9 proto 0
local fd00::/8 dev a table 255 | ip -6 route del fd00::/8 table local proto 0
10.9.0.0/16 nexthop dev a nexthop dev b | ip route del 10.9.0.0/16 table main proto 0
""")
def test_the_command_that_deletes_a_route(row: list[str]) -> None:
    """It names all that Linux tells routes apart by; of several next hops, none."""
    written, command = row
    assert deletion_command(route_of(written)) == command
