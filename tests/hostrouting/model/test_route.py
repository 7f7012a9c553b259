"""Routes and rules are written as `ip` prints them."""

import pytest

from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule

ECMP = Route(
    Prefix.parse("fd00::/8"),
    (NextHop("a", gateway=as_ip("fe80::1")), NextHop("b", weight=3, dead=True, linkdown=True)),
    tos=16,
    protocol=77,
    mtu=1400,
    advmss=1300,
    nexthop_id=9,
    table=255,
    scope=7,
    prefsrc=as_ip("fd00::2"),
)


@pytest.mark.parametrize(
    ("route", "text"),
    [
        (
            Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100, protocol=16),
            "default via 10.0.0.1 dev eth0 proto dhcp metric 100",
        ),
        (Route.to("172.16.0.0/16", dev="ib0", protocol=2), "172.16.0.0/16 dev ib0 proto kernel scope link"),
        (Route.to("10.9.0.0/16", type="blackhole", table=100), "blackhole 10.9.0.0/16 table 100 proto unspec"),
        (
            Route.to("10.9.0.0/16", dev="eth0", gateway="fe80::1", protocol=213),
            "10.9.0.0/16 via inet6 fe80::1 dev eth0 proto hostrouting",
        ),
        (
            ECMP,
            (
                "fd00::/8 tos 0x10 table local proto 77 scope 7 src fd00::2 mtu 1400 advmss 1300 nhid 9 "
                "nexthop via fe80::1 dev a weight 1 nexthop dev b dead linkdown weight 3"
            ),
        ),
    ],
)
def test_route(route: Route, text: str) -> None:
    """A route prints as in `ip route`."""
    assert str(route) == text


def test_rule() -> None:
    """A rule prints as in `ip rule`."""
    marked = Rule(family=4, priority=9, fwmark=0x200, fwmask=0xF00, table=2004, suppress_prefixlength=0)
    assert str(marked) == "9: from all fwmark 0x200/0xf00 lookup 2004 suppress_prefixlength 0"
    jump = Rule(family=4, priority=9, invert=True, src=Prefix.parse("10.0.0.0/8"), iif="a", action="goto", target=100)
    assert str(jump) == "9: not from 10.0.0.0/8 iif a goto 100"
    refusing = Rule(family=4, priority=9, action="prohibit", suppress_ifgroup=3)
    assert str(refusing) == "9: from all prohibit suppress_ifgroup 3"
    assert str(Rule(family=4, priority=9, l3mdev=True)) == "9: from all lookup [l3mdev-table]"
